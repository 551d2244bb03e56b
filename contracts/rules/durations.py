"""Durations as values that compare.

A month has 28 to 31 days, so that durations are ordered in part only: one is longer than another when it is longer
from each of four days that bring out the difference. P1M is longer than P27D, and neither longer nor shorter than P30D.

Source: XML Schema 1.1 part 2, section 3.3.6.2; RFC 3339 appendix A for the text; Avro 1.12, "duration".
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from tidegate.contracts.document.times import NANOSECONDS

_TEXT: Final = re.compile(
    r"P(?:(\d{1,9})W|(?=[0-9T])(?:(\d{1,9})Y)?(?:(\d{1,9})M)?(?:(\d{1,9})D)?"
    r"(?:T(?=[0-9])(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:\.(\d{1,100}))?S)?)?)",
    re.ASCII,
)
_REFERENCES: Final = ((1696, 9), (1697, 2), (1903, 3), (1903, 7))
_AVRO: Final = struct.Struct("<III")
_DAY: Final = 86_400 * NANOSECONDS


@dataclass(frozen=True, slots=True)
class Duration:
    """A duration, as nanoseconds from each of the four days; each comparison is true if it is from all of them."""

    totals: tuple[int | Fraction, ...]

    def __lt__(self, other: Duration) -> bool:
        return all(one < two for one, two in zip(self.totals, other.totals, strict=True))

    def __le__(self, other: Duration) -> bool:
        return all(one <= two for one, two in zip(self.totals, other.totals, strict=True))

    def __gt__(self, other: Duration) -> bool:
        return other < self

    def __ge__(self, other: Duration) -> bool:
        return other <= self


@lru_cache(maxsize=4_096)
def read_duration(text: str) -> Duration | None:
    """Read a duration; None for anything else."""
    match = _TEXT.fullmatch(text)
    if match is None:
        return None
    *counts, fraction = match.groups()
    weeks, years, months, days, hours, minutes, seconds = (int(count or 0) for count in counts)
    rest: int | Fraction = (hours * 3600 + minutes * 60 + seconds) * NANOSECONDS
    if fraction:
        rest += Fraction(int(fraction) * NANOSECONDS, 10 ** len(fraction))
    return _duration(years * 12 + months, weeks * 7 + days, rest)


def duration_string_key(value: Any) -> Duration | None:
    """Read a duration string of a record."""
    return read_duration(value) if type(value) is str else None


def duration_bytes_key(value: Any) -> Duration | None:
    """Read a duration of Avro: months, days and milliseconds, in 12 bytes."""
    if type(value) is not bytes or len(value) != _AVRO.size:
        return None
    months, days, milliseconds = _AVRO.unpack(value)
    return _duration(months, days, milliseconds * 10**6)


def _duration(months: int, days: int, rest: int | Fraction) -> Duration:
    return Duration(tuple((_days(year, month, months) + days) * _DAY + rest for year, month in _REFERENCES))


def _days(year: int, month: int, months: int) -> int:
    """Count the days of some months from the first of a month on."""
    later = year * 12 + month - 1 + months
    return _day_number(later // 12, later % 12 + 1) - _day_number(year, month)


def _day_number(year: int, month: int) -> int:
    """Return the first of a month a number in the proleptic Gregorian calendar; of any year, which datetime has not."""
    year, month = (year, month) if month > 2 else (year - 1, month + 12)
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5
