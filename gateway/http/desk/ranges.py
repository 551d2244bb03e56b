"""The time ranges of the stream page."""

from __future__ import annotations

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
        """Return the end of the bucket that holds `now`; all edges are multiples of the bucket since 1970."""
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        return epoch + ((now - epoch) // self.bucket + 1) * self.bucket

    def since(self, now: datetime) -> datetime:
        """Return the start of the first bucket."""
        return self.until(now) - self.span


RANGES = (
    Range("15m", timedelta(seconds=15), 60),
    Range("1h", timedelta(minutes=1), 60),
    Range("6h", timedelta(minutes=5), 72),
    Range("24h", timedelta(minutes=30), 48),
    Range("7d", timedelta(hours=2), 84),
    Range("30d", timedelta(hours=12), 60),
)


def ranges_within(retention: timedelta) -> tuple[Range, ...]:
    """Return the ranges in which nothing is deleted yet; a retention is at least a day."""
    return tuple(one for one in RANGES if one.span <= retention)


def range_named(
    name: str | None, offered: tuple[Range, ...], first_report: datetime, last_report: datetime, now: datetime
) -> Range:
    """Return the offered range of that name; for another name the one that shows most of what there is to see.

    That is a quarter of an hour for a stream that is no older, else an hour or, when nothing was reported in the
    last hour, the shortest range that reaches well back behind the last report.
    """
    named = next((one for one in offered if one.name == name), None)
    if named is not None:
        return named
    shortest, *others = offered
    if first_report >= now - shortest.span:
        return shortest
    return next((one for one in others if last_report >= now - one.span * 3 / 4), others[-1])
