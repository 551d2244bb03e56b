"""The value of `now` while records are judged: the timestamp of the record, or the moment of its batch."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Final

import pyarrow as pa

from tidegate.contracts.document.times import NANOSECONDS, instant_key

_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_RELATIVE: Final = re.compile(r"now(?:\s*([+-])\s*(?:(\d{1,9})\s*(second|minute|hour|day|week)s?|(\S+)))?")
_AMOUNT: Final = re.compile(r"(\d{1,9})\s*(second|minute|hour|day|week)s?")
_ISO: Final = re.compile(
    r"P(?:(\d{1,9})W)?(?:(\d{1,9})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})S)?)?"
)
_ISO_SECONDS: Final = (604_800, 86_400, 3600, 60, 1)
_DAY_NANOSECONDS: Final = 86_400 * NANOSECONDS
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_UNITS: Final = {"s": NANOSECONDS, "ms": 10**6, "us": 10**3, "ns": 1}


SetClock = Callable[[int], None]
"""Sets a clock to the moment of a record, given by its index in the batch."""


class Clock(threading.local):
    """The moments of the record and of the batch that are being judged, in nanoseconds since 1970.

    They are thread-local, because several threads may use one plan at the same time.
    """

    record = 0
    batch = 0

    def setting(self, moments: Moments, now: int | None, length: int) -> SetClock:
        """Return a function that sets the current time of a batch and of each of its records.

        The moment of the batch is `moments.batch`, else `now`, else the time of the call.
        """
        batch = next((each for each in (moments.batch, now) if each is not None), time.time_ns())
        records = moments.of_records(length, batch)

        def set_clock(index: int) -> None:
            self.batch, self.record = batch, records[index]

        return set_clock


@dataclass(frozen=True, slots=True)
class Moments:
    """The times at which the records of a batch were written, and the moment of the batch.

    `batch` is in nanoseconds since 1970; None for now. `records` is an Arrow array with a timestamp for each record. A
    null, or a time before 1970, which Kafka reports for a record without a timestamp, means the moment of the batch.
    """

    batch: int | None = None
    records: pa.Array | pa.ChunkedArray | None = None

    def filter(self, is_wanted: pa.Array) -> Moments:
        """Return the moments of some records of the batch."""
        return self if self.records is None else replace(self, records=self.records.filter(is_wanted))

    def of_records(self, length: int, batch: int) -> Sequence[int]:
        """Return the moment of each record, in nanoseconds since 1970; `batch` is the moment of their batch."""
        if self.records is None:
            return [batch] * length
        unit = _UNITS[self.records.type.unit]
        moments = self.records.cast(pa.int64()).to_pylist()
        return [batch if each is None or each < 0 else each * unit for each in moments]


def offset_of_now(text: str) -> int | None:
    """Return a bound such as `now + 5 minutes` or `now - P1D` as nanoseconds from now; None for any other text."""
    match = _RELATIVE.fullmatch(text.strip())
    if match is None:
        return None
    sign, count, unit, iso = match.groups()
    if sign is None:
        return 0
    nanoseconds = span_of(iso) if iso is not None else int(count) * _SECONDS[unit] * NANOSECONDS
    return None if nanoseconds is None else nanoseconds if sign == "+" else -nanoseconds


def span_of(text: str) -> int | None:
    """Return a span such as `15 minutes` or `PT15M` in nanoseconds; None for others, such as months and years.

    Source: ISO 8601-1 section 5.5.2, with weeks, days, hours, minutes and seconds.
    """
    if match := _AMOUNT.fullmatch(text.strip()):
        return int(match[1]) * _SECONDS[match[2]] * NANOSECONDS
    match = _ISO.fullmatch(text)
    if match is None or text[-1] in "PT":
        return None
    parts = zip(match.groups(), _ISO_SECONDS, strict=True)
    return sum(int(count or 0) * seconds for count, seconds in parts) * NANOSECONDS


def day_of(moment: int) -> int:
    """Return the day of a moment in UTC, as days since 1970."""
    return moment // _DAY_NANOSECONDS


def date_of(moment: int) -> str:
    """Return the day of a moment in UTC as a full-date, limited to the years 1 to 9999."""
    ordinal = min(max(day_of(moment) + _EPOCH_DAY, 1), date.max.toordinal())
    return date.fromordinal(ordinal).isoformat()


def midnight_of(day: str) -> int:
    """Return the first moment of a day, a full-date, in UTC."""
    moment = instant_key(f"{day}T00:00:00Z")
    assert isinstance(moment, int)  # noqa: S101 - a whole second
    return moment
