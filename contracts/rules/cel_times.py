"""Timestamps and durations as the CEL library surely reads them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from tidegate.contracts.document.times import NANOSECONDS, instant_key

_MOMENT: Final = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:0\d|1[0-4]):[0-5]\d)", re.ASCII
)


_SPAN: Final = re.compile(r"(\d{1,6})(h|m|s)", re.ASCII)


_SPAN_UNITS: Final = {"h": 3600 * NANOSECONDS, "m": 60 * NANOSECONDS, "s": NANOSECONDS}


# Well inside the years 1 to 9999, which are all that a timestamp of CEL has.
FIRST_MOMENT, LAST_MOMENT = -62_000_000_000 * NANOSECONDS, 253_000_000_000 * NANOSECONDS


def moment_of(text: Any) -> int | None:
    """Read a timestamp as the library surely does, in nanoseconds since 1970; None where that is not sure."""
    return _moment(text) if type(text) is str else None


@lru_cache(maxsize=4_096)
def _moment(text: str) -> int | None:
    moment = instant_key(text) if _MOMENT.fullmatch(text) else None
    return moment if type(moment) is int and FIRST_MOMENT <= moment <= LAST_MOMENT else None


def span_of(text: str) -> int | None:
    """Read a duration of whole hours, minutes and seconds, in nanoseconds; None for any other."""
    parts = list(_SPAN.finditer(text))
    if not parts or "".join(part[0] for part in parts) != text:
        return None
    return sum(int(part[1]) * _SPAN_UNITS[part[2]] for part in parts)
