"""Metrics of a batch's accepted rows: small values that can be merged in any order.

Metrics are compared by value, so expectations with equal metrics share one. `observe` takes a record batch of typed
columns, possibly without rows. `merge` combines the results of two parts. The size of a result does not grow with the
number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.contracts.expectations.bounds import Interval, Values, among

_MANTISSA_BITS: Final = 53
_LIMB_BITS: Final = 18
_LIMBS: Final = 3
_CHUNK: Final = 1 << 16
_INT64: Final = 2**63

Number = int | Fraction | float
"""An exact number; a float only for infinity and NaN."""


def add(left: Number, right: Number) -> Number:
    """Return the sum of two sums; NaN and infinity take precedence."""
    if isinstance(left, float) or isinstance(right, float):
        special = [each for each in (left, right) if isinstance(each, float)]
        return sum(special, 0.0)
    return left + right


def total(values: pa.Array, *, squared: bool = False) -> Number:
    """Return the exact sum of an array of integers, decimals or floats without nulls, or of the squares.

    Nothing is rounded, so the total does not depend on the order in which parts of a batch are added. A double is an
    integer times a power of two, so doubles with the same power are added exactly as integers. `numpy.bincount` does so
    for a whole array. It adds doubles, which is exact for sums below 2^53, so the integers are split into limbs.
    """
    if not len(values):
        return 0
    if pa.types.is_floating(values.type):
        return _of_doubles(np.asarray(values.cast(pa.float64())), squared=squared)
    if pa.types.is_decimal(values.type):
        unscaled, scale = _unscaled(values), 10**values.type.scale
        return Fraction(_of_integers(unscaled, squared=squared), scale**2 if squared else scale)
    return _of_integers(np.asarray(values), squared=squared)


def _of_integers(values: Any, *, squared: bool) -> int:
    if values.dtype != object:
        largest = max(abs(int(values.min())), abs(int(values.max())))
        if (largest * largest if squared else largest) * len(values) < _INT64:
            values = values.astype(np.int64)
            return int(values @ values) if squared else int(values.sum())
    numbers: list[int] = values.tolist()
    return sum(each * each for each in numbers) if squared else sum(numbers)


def _unscaled(values: pa.Array) -> Any:
    """Return the unscaled integers of decimals: int64 if all of them fit, otherwise Python integers."""
    words = np.frombuffer(values.buffers()[1], np.int64).reshape(-1, 2)
    words = words[values.offset : values.offset + len(values)]
    low, high = words[:, 0], words[:, 1]
    if (high == low >> 63).all():
        return low
    return (high.astype(object) << 64) + low.view(np.uint64).astype(object)


def _of_doubles(values: Any, *, squared: bool) -> Number:
    finite = np.isfinite(values)
    if not finite.all():
        special = values[~finite]
        with np.errstate(invalid="ignore"):  # infinity minus infinity is NaN, as intended
            return float((special * special if squared else special).sum())
    add_chunk = _squares if squared else _doubles
    return sum(
        (add_chunk(values[start : start + _CHUNK]) for start in range(0, len(values), _CHUNK)), Fraction(0)
    )


def _doubles(values: Any) -> Fraction:
    limbs, exponents = _limbs(values)
    return _scaled(((limb, _LIMB_BITS * place) for place, limb in enumerate(limbs)), exponents, 1)


def _squares(values: Any) -> Fraction:
    limbs, exponents = _limbs(values)
    products = (
        (limbs[i] * limbs[j] * (1 if i == j else 2), _LIMB_BITS * (i + j))
        for i in range(_LIMBS)
        for j in range(i, _LIMBS)
    )
    return _scaled(products, exponents, 2)


def _limbs(values: Any) -> tuple[list[Any], Any]:
    """Split doubles into integers below 2^18 in absolute value, lowest first, and the power of two of the lowest."""
    mantissas, exponents = np.frexp(values)
    integers = np.ldexp(mantissas, _MANTISSA_BITS).astype(np.int64)
    signs, rest = np.sign(integers), np.abs(integers)
    limbs = []
    for _ in range(_LIMBS):
        limbs.append((signs * (rest & (1 << _LIMB_BITS) - 1)).astype(np.float64))
        rest >>= _LIMB_BITS
    return limbs, exponents.astype(np.int64) - _MANTISSA_BITS


def _scaled(parts: Any, exponents: Any, power: int) -> Fraction:
    lowest = int(exponents.min())
    found = 0
    for part, shift in parts:
        sums = np.bincount(exponents - lowest, weights=part)
        found += sum(int(each) << shift + power * at for at, each in enumerate(sums) if each)
    return Fraction(found) * Fraction(2) ** (power * lowest)


def highest_and_lowest(values: pa.Array) -> tuple[Any, Any, bool] | None:
    """Return the lowest and highest value of an array without nulls, and whether there is a NaN; None without values.

    NaN does not count for the lowest and highest value, which are None if there are only NaNs.
    """
    if not len(values):
        return None
    has_nan = pa.types.is_floating(values.type) and bool(pc.any(pc.is_nan(values)).as_py())
    if has_nan:
        values = values.filter(pc.invert(pc.is_nan(values)))
    found = pc.min_max(values)
    return found["min"].as_py(), found["max"].as_py(), has_nan


Ends = tuple[Any, Any, bool] | None
Missing = Literal["both_values_are_missing", "either_value_is_missing", "neither"]


class Metric(Protocol):
    """A metric of rows: how it is computed for a part of a batch, and how parts are merged."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns that the metric reads."""
        ...

    def observe(self, rows: pa.RecordBatch) -> Any:
        """Return the metric of some rows."""
        ...

    def merge(self, left: Any, right: Any) -> Any:
        """Combine the metrics of two parts."""
        ...


class _Count:
    """A metric that is a number of rows or values."""

    def merge(self, left: int, right: int) -> int:
        """Return the sum."""
        return left + right


@dataclass(frozen=True, slots=True)
class RowCount(_Count):
    """Number of rows."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Return no columns."""
        return ()

    def observe(self, rows: pa.RecordBatch) -> int:
        """Count the rows."""
        return int(rows.num_rows)


@dataclass(frozen=True, slots=True)
class _OfColumn:
    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the one column."""
        return (self.column,)

    def _values(self, rows: pa.RecordBatch) -> pa.Array:
        values = rows.column(self.column)
        return values.drop_null() if values.null_count else values


@dataclass(frozen=True, slots=True)
class FilledCount(_OfColumn, _Count):
    """Number of rows with a value in the column."""

    def observe(self, rows: pa.RecordBatch) -> int:
        """Count the values that are not null."""
        column = rows.column(self.column)
        return len(column) - int(column.null_count)


@dataclass(frozen=True, slots=True)
class OutsideCount(_OfColumn, _Count):
    """Number of values outside an interval."""

    interval: Interval

    def observe(self, rows: pa.RecordBatch) -> int:
        """Count the values outside."""
        return self.interval.outside(self._values(rows))


@dataclass(frozen=True, slots=True)
class ListedCount(_OfColumn, _Count):
    """Number of values that are in the list."""

    values: Values

    def observe(self, rows: pa.RecordBatch) -> int:
        """Count the listed values."""
        return int(pc.sum(among(self._values(rows), self.values)).as_py() or 0)


@dataclass(frozen=True, slots=True)
class Occurring(_OfColumn):
    """The listed values that occur, as a bit set; the least significant bit is the first value."""

    values: Values

    def observe(self, rows: pa.RecordBatch) -> int:
        """Return the bit set of the listed values that occur."""
        found = pc.unique(self._values(rows))
        if not len(found):
            return 0
        bits = 0
        for index, value in enumerate(self.values):
            bits |= int(pc.any(among(found, (value,))).as_py()) << index
        return bits

    def merge(self, left: int, right: int) -> int:
        """Return the union."""
        return left | right


@dataclass(frozen=True, slots=True)
class Lengths(_OfColumn, _Count):
    """Number of texts whose length, in Unicode code points, is outside an interval."""

    interval: Interval

    def observe(self, rows: pa.RecordBatch) -> int:
        """Count the texts that are too short or too long."""
        return self.interval.outside(pc.utf8_length(self._values(rows)))


@dataclass(frozen=True, slots=True)
class MatchingCount(_OfColumn, _Count):
    """Number of texts in which any, or all, of the patterns are found. Source: RE2 syntax."""

    patterns: tuple[str, ...]
    every: bool = False

    def observe(self, rows: pa.RecordBatch) -> int:
        """Count the texts that match."""
        values = self._values(rows)
        if not len(values):
            return 0
        found = pc.match_substring_regex(values, self.patterns[0])
        for pattern in self.patterns[1:]:
            combine = pc.and_ if self.every else pc.or_
            found = combine(found, pc.match_substring_regex(values, pattern))
        return int(pc.sum(found).as_py() or 0)


@dataclass(frozen=True, slots=True)
class Total(_OfColumn):
    """The exact sum of the numbers in a column, or of their squares."""

    squared: bool = False

    def observe(self, rows: pa.RecordBatch) -> Number:
        """Return the sum of the values that are not null, or of their squares."""
        return total(self._values(rows), squared=self.squared)

    def merge(self, left: Number, right: Number) -> Number:
        """Return the sum."""
        return add(left, right)


@dataclass(frozen=True, slots=True)
class Extremes(_OfColumn):
    """The lowest and the highest value, and whether there is a NaN; None for no value."""

    def observe(self, rows: pa.RecordBatch) -> Ends:
        """Return the lowest and the highest value of the column."""
        return highest_and_lowest(self._values(rows))

    def merge(self, left: Ends, right: Ends) -> Ends:
        """Return the lower minimum, the higher maximum, and whether either part has a NaN."""
        if left is None or right is None:
            return left or right
        lows = [each[0] for each in (left, right) if each[0] is not None]
        highs = [each[1] for each in (left, right) if each[1] is not None]
        return min(lows, default=None), max(highs, default=None), left[2] or right[2]


@dataclass(frozen=True, slots=True)
class _OfPair:
    first: str
    second: str
    ignore: Missing

    @property
    def columns(self) -> tuple[str, ...]:
        """Return both columns."""
        return self.first, self.second

    def _pairs(self, rows: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
        """Return the values of both columns in the rows that are compared, by `ignore`."""
        left, right = rows.column(self.first), rows.column(self.second)
        if self.ignore == "neither" or not (left.null_count or right.null_count):
            return left, right
        combine = pc.and_ if self.ignore == "both_values_are_missing" else pc.or_
        counts = pc.invert(combine(pc.is_null(left), pc.is_null(right)))
        return left.filter(counts), right.filter(counts)


@dataclass(frozen=True, slots=True)
class PairCount(_OfPair, _Count):
    """Number of rows in which two columns are compared."""

    def observe(self, rows: pa.RecordBatch) -> int:
        """Count the compared rows."""
        return len(self._pairs(rows)[0])


@dataclass(frozen=True, slots=True)
class UnorderedCount(_OfPair, _Count):
    """Number of rows whose first value is not above the second; rows that lack a value are not counted."""

    or_equal: bool

    def observe(self, rows: pa.RecordBatch) -> int:
        """Count the rows out of order."""
        compare = pc.less if self.or_equal else pc.less_equal
        return int(pc.sum(compare(*self._pairs(rows))).as_py() or 0)


@dataclass(frozen=True, slots=True)
class UnequalCount(_OfPair, _Count):
    """Number of rows whose values differ; null differs from any value, and equals null."""

    def observe(self, rows: pa.RecordBatch) -> int:
        """Count the rows that differ."""
        left, right = self._pairs(rows)
        one_is_missing = pc.xor(pc.is_null(left), pc.is_null(right))
        differ = pc.fill_null(pc.not_equal(left, right), fill_value=False)
        return int(np.count_nonzero(np.asarray(pc.or_(one_is_missing, differ))))
