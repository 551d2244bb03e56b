"""Counts of refused records over time, from the stored counts of days."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

import numpy as np

from tidegate.gateway.storage.sql import Stores
from tidegate.gateway.streams.quarantine_index.columns import (
    DAY_MINUTES,
    Integers,
    day_hours,
    day_minutes,
)
from tidegate.gateway.streams.quarantine_index.filters import from_minute, to_minute

_HOUR = 60
_DEFAULT = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Slices:
    """`number` equal slices of whole minutes from the minute `first` on, each `width` minutes wide."""

    first: int
    width: int
    number: int

    @classmethod
    def of(cls, since: datetime | None, until: datetime | None, number: int, now: datetime) -> Self:
        """Return slices that cover [since, until); `until` defaults to now, `since` to 24 hours before it.

        Slices of an hour or more begin and end with whole hours.
        """
        end = to_minute((until or now) - timedelta(microseconds=1)) + 1
        first = to_minute(since) if since is not None else end - to_minutes(_DEFAULT)
        width = max(1, -(-(end - first) // number))
        if width >= _HOUR:
            width = -(-width // _HOUR) * _HOUR
            end = -(-end // _HOUR) * _HOUR
            return (
                cls(end - width * number, width, number)
                if since is None
                else cls(first // _HOUR * _HOUR, width, number)
            )
        return cls(first, width, number)

    @property
    def end(self) -> int:
        """Return the minute after the last slice."""
        return self.first + self.width * self.number

    @property
    def starts(self) -> tuple[datetime, ...]:
        """Return the start of each slice, and then the end of the last one."""
        return tuple(from_minute(self.first + self.width * each) for each in range(self.number + 1))

    @property
    def is_of_hours(self) -> bool:
        """Return whether every slice consists of whole hours."""
        return self.width % _HOUR == 0 and self.first % _HOUR == 0

    def none(self) -> Integers:
        """Return a count of 0 for each slice."""
        return np.zeros(self.number, dtype=np.int64)

    def count(self, minutes: Integers) -> Integers:
        """Count minutes by slice; minutes outside of all slices are left out."""
        places = (minutes - self.first) // self.width
        is_inside = (places >= 0) & (places < self.number)
        return np.bincount(places[is_inside], minlength=self.number).astype(np.int64)


def to_minutes(span: timedelta) -> int:
    """Return a span in whole minutes."""
    return span // timedelta(minutes=1)


def counted(
    stores: Stores, stream: str, facets: Collection[bytes] | None, slices: Slices
) -> dict[bytes, Integers]:
    """Count the records of facets (None: of all) by slice; facets without any are left out."""
    span = slices.first // DAY_MINUTES, (slices.end - 1) // DAY_MINUTES
    rows = stores.quarantine.days(stream, facets, span, with_minutes=not slices.is_of_hours)
    if not rows:
        return {}
    known = {facet: place for place, facet in enumerate(dict.fromkeys(each.facet for each in rows))}
    of_day = day_hours if slices.is_of_hours else day_minutes
    table = np.stack([of_day(each) for each in rows])  # a row for each facet and day
    days = np.array([each.day for each in rows])
    steps = np.arange(table.shape[1]) * (DAY_MINUTES // table.shape[1])
    places = (days[:, None] * DAY_MINUTES + steps - slices.first) // slices.width
    numbers = np.array([known[each.facet] for each in rows])[:, None] * slices.number + places
    is_inside = (places >= 0) & (places < slices.number) & (table > 0)
    sums = np.bincount(numbers[is_inside], table[is_inside], minlength=len(known) * slices.number)
    found = sums.astype(np.int64).reshape(len(known), slices.number)
    return {facet: found[place] for facet, place in known.items() if found[place].any()}


def first_and_last(stores: Stores, stream: str, facets: Iterable[bytes]) -> dict[bytes, tuple[int, int]]:
    """Return the first and the last minute in which a record of each facet arrived; deleted records do not count."""
    found: dict[bytes, tuple[int, int]] = {}
    for facet, first, last in stores.quarantine.first_and_last_days(stream, list(facets)):
        minutes = [np.flatnonzero(day_minutes(each)) for each in (first, last)]
        found[facet] = (
            first.day * DAY_MINUTES + int(minutes[0][0]),
            last.day * DAY_MINUTES + int(minutes[1][-1]),
        )
    return found
