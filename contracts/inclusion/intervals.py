"""Sets of numbers or of moments, as unions of intervals, compared exactly.

An interval runs between two cuts. A cut is a place on the line just before a value, `(value, 0)`, or just after it,
`(value, 1)`, so that open and closed ends need no cases of their own. Values are ints or Fractions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

Cut = tuple[Any, int]

BEFORE_ALL: Final[Cut] = (-math.inf, 0)
AFTER_ALL: Final[Cut] = (math.inf, 0)


@dataclass(frozen=True, slots=True)
class Intervals:
    """A set of values: disjoint intervals in order, each from one cut to the next."""

    parts: tuple[tuple[Cut, Cut], ...] = ()

    @classmethod
    def points(cls, values: Iterable[Any]) -> Intervals:
        """Make the set of some values."""
        return cls(tuple(((value, 0), (value, 1)) for value in sorted(set(values))))

    @classmethod
    def between(cls, low: Cut | None, high: Cut | None) -> Intervals:
        """Make an interval; None for no end."""
        low, high = low or BEFORE_ALL, high or AFTER_ALL
        return cls(((low, high),)) if low < high else cls()

    def complement(self) -> Intervals:
        """Make the set of all other values."""
        cuts = [BEFORE_ALL, *(cut for part in self.parts for cut in part), AFTER_ALL]
        gaps = zip(cuts[::2], cuts[1::2], strict=True)
        return Intervals(tuple((low, high) for low, high in gaps if low < high))

    def union(self, other: Intervals) -> Intervals:
        """Make the set of the values of either."""
        merged: list[tuple[Cut, Cut]] = []
        for low, high in sorted((*self.parts, *other.parts)):
            if merged and low <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(merged[-1][1], high)
            else:
                merged.append((low, high))
        return Intervals(tuple(merged))

    def minus(self, other: Intervals) -> Intervals:
        """Make the set of the values that `other` lacks."""
        return self.complement().union(other).complement()

    def is_empty(self, *, whole: bool) -> bool:
        """Return whether there is no value; with `whole`, no integer."""
        return (not whole and not self.parts) or (whole and next(self.wholes(), None) is None)

    def wholes(self) -> Iterator[int]:
        """Yield an integer of each interval that has one."""
        for low, high in self.parts:
            first = first_whole(low)
            if first is None:
                last = first_whole(high)
                yield 0 if last is None else last - 1
            elif (first, 0) < high:
                yield first


def first_whole(cut: Cut) -> int | None:
    """Return the smallest integer behind a cut; None before all and after all."""
    value, is_after = cut
    if isinstance(value, float):
        return None
    floor = math.floor(Fraction(value))
    return floor if value == floor and not is_after else floor + 1
