"""Relations between pairs of numbers, dates or timestamps of one object: order, ratio, coordinates at 0,0."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

import numpy as np
import numpy.typing as npt

from tidegate.contracts.infer.columns import Mask, Positions
from tidegate.contracts.infer.values import Occurrences

Path = tuple[str, ...]
"""The position of a field in a record: names, and `*` for the elements of an array."""
Pair = tuple[Path, Path]
Floats = npt.NDArray[np.float64]

_MOST_FIELDS: Final = 24
"""Maximum number of fields of one kind that are compared; the number of pairs grows with its square."""
_ENOUGH: Final = 400
"""Number of records after which a pair whose order does not hold is dropped."""
_HOPELESS: Final = 0.05
_CORRELATED: Final = 0.9
_LEAST_BATCH: Final = 20
_EXTREMES: Final = 40
_MOST_SAMPLES: Final = 8


@dataclass(slots=True)
class PairOrder:
    """How often `left <= right` is violated, and how often with values of different records (`by_chance`)."""

    left: Path
    right: Path
    kind: str
    both: int = 0
    violated: Occurrences = field(default_factory=Occurrences)
    by_chance: int = 0
    equal: int = 0

    @property
    def is_hopeless(self) -> bool:
        """Return whether the order is violated too often to be a rule."""
        return self.both > _ENOUGH and self.violated.count > _HOPELESS * self.both


@dataclass(slots=True)
class Ratio:
    """The largest ratios `left / right` of two numbers that are correlated where both are positive, with positions.

    A pair of values that is above any limit has the ratio infinity, such as 5 and 0; `positive` counts pairs of positive
    ones.
    """

    left: Path
    right: Path
    both: int = 0
    positive: int = 0
    largest: list[tuple[float, int]] = field(default_factory=list)
    sample: list[Floats] = field(default_factory=list)


@dataclass(slots=True)
class ZeroCoordinates:
    """How often a latitude and a longitude are both 0, of `both` records that have the two."""

    both: int = 0
    zero: Occurrences = field(default_factory=Occurrences)


class FieldPairs:
    """All pairs of comparable fields of one object that may be related."""

    def __init__(self) -> None:
        self.orders: dict[Pair, PairOrder] = {}
        self.ratios: dict[Pair, Ratio] = {}
        self.origins: dict[Pair, ZeroCoordinates] = {}
        self._unordered: set[Pair] = set()
        self._uncorrelated: set[Pair] = set()

    def add(self, fields: Mapping[str, Mapping[Path, Floats]], positions: Positions) -> None:
        """Add a batch: the values of comparable fields by kind and path, NaN where a record has none."""
        for kind, columns in fields.items():
            for pair in combinations(list(columns)[:_MOST_FIELDS], 2):
                self._add_pair(kind, pair, columns, positions)

    def merge(self, other: FieldPairs) -> None:
        """Add the pairs of other records."""
        self._unordered |= other._unordered
        self._uncorrelated |= other._uncorrelated
        for pair, found in other.orders.items():
            self._merge_order(self.orders.setdefault(pair, PairOrder(*pair, found.kind)), found)
        for pair, ratio in other.ratios.items():
            mine = self.ratios.setdefault(pair, Ratio(*pair))
            mine.both += ratio.both
            mine.positive += ratio.positive
            mine.largest = sorted([*mine.largest, *ratio.largest], reverse=True)[:_EXTREMES]
            mine.sample = [*mine.sample, *ratio.sample][:_MOST_SAMPLES]
        for pair, origin in other.origins.items():
            known = self.origins.setdefault(pair, ZeroCoordinates())
            known.both += origin.both
            known.zero.merge(origin.zero)
        self.orders = {pair: each for pair, each in self.orders.items() if pair not in self._unordered}
        for pair in self._uncorrelated:
            for each in (pair, pair[::-1]):
                self.ratios.pop(each, None)

    def _merge_order(self, order: PairOrder, other: PairOrder) -> None:
        order.both += other.both
        order.violated.merge(other.violated)
        order.by_chance += other.by_chance
        order.equal += other.equal
        if order.is_hopeless:
            self._unordered.add((order.left, order.right))

    def keep(self, fields: Container[Path]) -> None:
        """Drop all pairs with a field that is not in `fields`."""
        for found in (self.orders, self.ratios, self.origins):
            for pair in [pair for pair in found if pair[0] not in fields or pair[1] not in fields]:
                del found[pair]

    def _add_pair(self, kind: str, pair: Pair, columns: Mapping[Path, Floats], positions: Positions) -> None:
        left, right = pair = min(pair, pair[::-1])  # batches may have the fields in different orders
        has_origin = kind == "number" and is_coordinates(pair)
        is_unrelated = {pair, pair[::-1]} <= self._unordered and pair in self._uncorrelated
        if is_unrelated and not has_origin:
            return
        both: Mask = ~(np.isnan(columns[left]) | np.isnan(columns[right]))
        if not both.any():
            return
        one, two, where = columns[left][both], columns[right][both], positions[both]
        self._add_order(PairOrder(left, right, kind), one, two, where)
        self._add_order(PairOrder(right, left, kind), two, one, where)
        if kind == "number":
            self._add_ratio(pair, one, two, where)
        if has_origin:
            origin = self.origins.setdefault(pair, ZeroCoordinates())
            origin.both += len(where)
            origin.zero.add((one == 0) & (two == 0), where)

    def _add_order(self, new: PairOrder, left: Floats, right: Floats, positions: Positions) -> None:
        pair = (new.left, new.right)
        if pair in self._unordered:
            return
        order = self.orders.setdefault(pair, new)
        order.both += len(left)
        order.violated.add(left > right, positions)
        order.by_chance += int(np.count_nonzero(left > np.roll(right, len(right) // 2)))
        order.equal += int(np.count_nonzero(left == right))
        if order.is_hopeless:
            self._unordered.add(pair)
            del self.orders[pair]

    def _add_ratio(self, pair: Pair, left: Floats, right: Floats, positions: Positions) -> None:
        if pair in self._uncorrelated:
            return
        positive = (left > 0) & (right > 0)
        with np.errstate(all="ignore"):  # numbers near the limits of doubles may overflow
            is_ratio = _are_correlated(left[positive], right[positive])
            quotients = _ratios(left, right), _ratios(right, left)
        if not is_ratio or any(np.isnan(each).any() for each in quotients):
            self._uncorrelated.add(pair)
            for each in (pair, pair[::-1]):
                self.ratios.pop(each, None)
            return
        for each, found in zip((pair, pair[::-1]), quotients, strict=True):
            ratio = self.ratios.setdefault(each, Ratio(*each))
            ratio.both += len(found)
            ratio.positive += int(np.count_nonzero(positive))
            top = np.argpartition(found, -min(_EXTREMES, len(found)))[-_EXTREMES:]
            largest = zip(found[top].tolist(), positions[top].tolist(), strict=True)
            ratio.largest = sorted([*ratio.largest, *largest], reverse=True)[:_EXTREMES]
            if len(ratio.sample) < _MOST_SAMPLES and np.count_nonzero(positive) >= _LEAST_BATCH:
                ratio.sample.append(found[positive][:4_000])


def _are_correlated(left: Floats, right: Floats) -> bool:
    """Return whether positive numbers grow together; too few of them say nothing against it."""
    if len(left) < _LEAST_BATCH:
        return True
    # Correlate shares of the maximum, because their squares cannot overflow.
    parts = left / left.max(), right / right.max()
    is_ratio = all(np.isfinite(each).all() for each in (*parts, left / right, right / left))
    varies = is_ratio and all(each.std() > 0 for each in parts)
    return bool(varies and np.corrcoef(*parts)[0, 1] >= _CORRELATED)


def _ratios(left: Floats, right: Floats) -> Floats:
    """Return `left / right`, as a rule `left <= right * limit` compares it with any limit from 2.

    The ratio is infinity if no limit allows the two numbers, and NaN if a large limit refuses what a small one allows.
    """
    is_above = left > 2 * right
    otherwise = np.where(is_above, np.inf, np.where(right < 0, np.nan, -np.inf))
    return np.where(right > 0, left / right, otherwise)


_LATITUDES: Final = frozenset({"lat", "latitude"})
_LONGITUDES: Final = frozenset({"lon", "lng", "long", "longitude"})


def is_coordinates(pair: Pair) -> bool:
    """Return whether the names of two fields of one object are those of a latitude and a longitude."""
    names = [path[-1].lower().rsplit("_", 1)[-1] for path in pair]
    return pair[0][:-1] == pair[1][:-1] and any(
        one in _LATITUDES and two in _LONGITUDES for one, two in (names, names[::-1])
    )
