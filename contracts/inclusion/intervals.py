"""Sets of numbers or of instants, as unions of intervals, compared exactly.

An interval runs between two cuts. A cut is a position on the number line: just before a value, `(value, 0)`, or just
after it, `(value, 1)`. Open and closed ends therefore need no separate cases: [1, 2) runs from `(1, 0)` to `(2, 0)`.
Values are ints or Fractions; the ends of the line are infinite floats.
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
    """A set of values. `parts` are disjoint intervals in ascending order, each a pair (low cut, high cut)."""

    parts: tuple[tuple[Cut, Cut], ...] = ()

    @classmethod
    def points(cls, values: Iterable[Any]) -> Intervals:
        """Build the set that contains exactly these values."""
        return cls(tuple(((value, 0), (value, 1)) for value in sorted(set(values))))

    @classmethod
    def between(cls, low: Cut | None, high: Cut | None) -> Intervals:
        """Build one interval; None means unbounded. The set is empty if `low` is not below `high`."""
        low, high = low or BEFORE_ALL, high or AFTER_ALL
        return cls(((low, high),)) if low < high else cls()

    def complement(self) -> Intervals:
        """Return the set of all other values."""
        cuts = [BEFORE_ALL, *(cut for part in self.parts for cut in part), AFTER_ALL]
        gaps = zip(cuts[::2], cuts[1::2], strict=True)
        return Intervals(tuple((low, high) for low, high in gaps if low < high))

    def union(self, other: Intervals) -> Intervals:
        """Return the set of the values that are in either set."""
        merged: list[tuple[Cut, Cut]] = []
        for low, high in sorted((*self.parts, *other.parts)):
            if merged and low <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(merged[-1][1], high)
            else:
                merged.append((low, high))
        return Intervals(tuple(merged))

    def minus(self, other: Intervals) -> Intervals:
        """Return the set of the values of this set that are not in `other`."""
        # A minus B contains the values that are neither outside A nor in B.
        return self.complement().union(other).complement()

    def is_empty(self, *, whole: bool) -> bool:
        """Return whether the set contains no value; with `whole`, whether it contains no integer."""
        return next(self.integers(), None) is None if whole else not self.parts

    def integers(self) -> Iterator[int]:
        """Yield one integer of each interval that contains an integer."""
        for low, high in self.parts:
            first = first_integer(low)
            if first is None:  # no lower bound: take the integer just before the upper one
                behind = first_integer(high)
                yield 0 if behind is None else behind - 1
            elif (first, 0) < high:
                yield first


def first_integer(cut: Cut) -> int | None:
    """Return the smallest integer after a cut; None for BEFORE_ALL and AFTER_ALL."""
    value, is_after = cut
    if isinstance(value, float):  # infinite
        return None
    floor = math.floor(Fraction(value))
    return floor if value == floor and not is_after else floor + 1
