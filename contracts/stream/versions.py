"""Versions of messages, ledgers and headers, and the rules by which adjacent releases stay compatible.

docs/how-to/upgrade.md has the rules for operators; tests/integration/test_two_releases.py runs two releases together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic import ConfigDict

MESSAGE: Final = ConfigDict(frozen=True, extra="ignore")
"""Configuration of messages between job and gateway: a reader ignores fields that it does not know.

A release may add a field with a default, but may not remove or redefine one. A feature that must not be ignored is
declared: a control lists it in `requires`, and a ledger or record has a higher `format`.
"""

LEDGER_FORMAT: Final = 1
"""Highest format of ledgers that this release reads.

A release that adds a field to the ledger raises this number, and writes the lowest format that has all fields in use.
A ledger of a higher format has the field `release`: the first release that can read it.
"""

HEADER_FORMAT: Final = 1
"""Highest format of record headers that this release reads. Source and ledger headers are equal in every format."""

OBEYED: Final[frozenset[str]] = frozenset()
"""Features that a control may require of a job of this release, beyond what every job can do."""

_RELEASE = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6}){1,3}((a|b|rc|\.dev|\.post)[0-9]{1,6})?")
_ABILITY = re.compile(r"[a-z][a-z-]{0,39}")
_SHOWN: Final = 5


def newer_ledger(text: str | bytes) -> tuple[int, str] | None:
    """Return the format and release of a ledger that this release is too old to read; None for any other text."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    number, release = document.get("format"), document.get("release")
    if not isinstance(number, int) or number <= LEDGER_FORMAT:
        return None
    is_release = isinstance(release, str) and _RELEASE.fullmatch(release) is not None
    return number, f"Tidegate {release}" if is_release else "a newer release of Tidegate"


def not_obeyed(control: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the features that a control requires and a job lacks, at most 5.

    An entry that is not a valid name is returned as "unknown", as is a `requires` that is not a list.
    """
    required = control.get("requires", ())
    if not isinstance(required, (list, tuple)):
        return ("unknown",)
    named = {each if isinstance(each, str) and _ABILITY.fullmatch(each) else "unknown" for each in required}
    return tuple(sorted(named - set(OBEYED))[:_SHOWN])
