"""Dates and timestamps as values that compare exactly."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from typing import Final

DATE_LENGTH: Final = 10
"""Number of characters in a full-date."""
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})", re.ASCII)
_DATE_TIME = re.compile(
    r"(\d{4})(-\d{2}-\d{2})[Tt](\d{2}:\d{2}):(\d{2})(?:\.(\d+))?(?:[Zz]|([+-]\d{2}:[0-5]\d))", re.ASCII
)
_BETWEEN: Final = frozenset({"T", "t", " "})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
NANOSECONDS: Final = 10**9
"""Nanoseconds in a second."""
# RFC 3339 has a year 0, Python has not. The years 0 and 400 have equal calendars, one cycle of the calendar apart.
_CYCLE_YEARS: Final = 400
_CYCLE_SECONDS: Final = 146_097 * 86_400


def date_key(text: str) -> str | None:
    """Return a valid full-date unchanged, because dates sort like their text; None for any other text.

    Source: RFC 3339 section 5.6.
    """
    return read_date(text) if len(text) == DATE_LENGTH else None


@lru_cache(maxsize=65_536)
def read_date(text: str) -> str | None:
    """Return a full-date of ten characters if it is valid, else None. Cached, because days repeat between records."""
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    year, month, day = (int(part) for part in match.groups())
    try:
        date(year or _CYCLE_YEARS, month, day)
    except ValueError:
        return None
    return text


def instant_key(text: str) -> int | Fraction | None:
    """Return a date-time as exact nanoseconds since 1970 UTC; None for any other text.

    A leap second equals the second after it, as in POSIX. Source: RFC 3339 section 5.6.
    """
    match = _DATE_TIME.fullmatch(text)
    if match is None:
        return None
    year, month_day, time, second, fraction, offset = match.groups()
    is_leap = second == "60"
    shown_year = year if year != "0000" else f"{_CYCLE_YEARS:04}"
    try:
        moment = datetime.fromisoformat(
            f"{shown_year}{month_day}T{time}:{'59' if is_leap else second}{offset or '+00:00'}"
        )
    except ValueError:
        return None
    seconds = (moment - _EPOCH) // _SECOND + is_leap
    if year == "0000":
        seconds -= _CYCLE_SECONDS
    return seconds * NANOSECONDS + nanoseconds_of_fraction(fraction)


def local_key(text: str) -> int | Fraction | None:
    """Return a date and time without a zone as exact nanoseconds since 1970, as if in UTC; None for any other text.

    `T`, `t` or a space stands between them. Source: RFC 3339 section 5.6 with its notes, without the offset.
    """
    return (
        instant_key(f"{text[:DATE_LENGTH]}T{text[DATE_LENGTH + 1 :]}Z")
        if text[DATE_LENGTH : DATE_LENGTH + 1] in _BETWEEN
        else None
    )


def nanoseconds_of_fraction(fraction: str | None) -> int | Fraction:
    """Return the nanoseconds of the decimal digits of a fraction of a second; digits after the hundredth are cut."""
    digits = (fraction or "").rstrip("0")
    if len(digits) <= 9:
        return int(digits.ljust(9, "0"))
    # Python limits the digits that int() converts, and no clock has that precision, so the rest is cut.
    return Fraction(int(digits[:100]), 10 ** (len(digits[:100]) - 9))


def instant_text(text: str) -> str | None:
    """Return a date-time in UTC and whole seconds, such as 1900-01-01T00:00:00Z.

    Return None for any other text, a fraction of a second, and a year that Python cannot represent.
    """
    moment = instant_key(text)
    if not isinstance(moment, int) or moment % NANOSECONDS:
        return None
    try:
        whole = _EPOCH + moment // NANOSECONDS * _SECOND
    except OverflowError:
        return None
    return whole.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")
