"""The time ranges of the stream page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta


@dataclass(frozen=True, slots=True)
class Range:
    """A range that ends now, cut into equal buckets whose edges do not move with the clock."""

    name: str
    bucket: timedelta
    buckets: int

    @property
    def span(self) -> timedelta:
        """The whole length."""
        return self.bucket * self.buckets

    def until(self, now: datetime) -> datetime:
        """Give the end of the bucket that holds `now`; all edges are multiples of the bucket since 1970."""
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        return epoch + ((now - epoch) // self.bucket + 1) * self.bucket

    def since(self, now: datetime) -> datetime:
        """Give the start of the first bucket."""
        return self.until(now) - self.span


RANGES = (
    Range("15m", timedelta(seconds=15), 60),
    Range("1h", timedelta(minutes=1), 60),
    Range("6h", timedelta(minutes=5), 72),
    Range("24h", timedelta(minutes=30), 48),
    Range("7d", timedelta(hours=2), 84),
    Range("30d", timedelta(hours=12), 60),
)


def range_named(name: str | None, last_report: datetime, now: datetime) -> Range:
    """Give the range of that name; for another name the shortest one that reaches back to the last report."""
    return next((one for one in RANGES if one.name == name), None) or next(
        _reaching(last_report, now), RANGES[-1]
    )


def _reaching(moment: datetime, now: datetime) -> Iterator[Range]:
    return (one for one in RANGES if one.since(now) <= moment - one.span / 4)
