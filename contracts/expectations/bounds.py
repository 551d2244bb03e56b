"""Bounds and values of expectations, in the type of their column.

Numbers are decimal: for a decimal column, 0.1 is exactly one tenth; for a double column, it is the nearest double.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Bound = Fraction | date | datetime
Values = tuple[Any, ...]


def is_number(kind: pa.DataType) -> bool:
    """Return whether a column holds numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def is_ordered(kind: pa.DataType) -> bool:
    """Return whether the values of a column have an order, so that they can have bounds."""
    return is_number(kind) or bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def is_listed(kind: pa.DataType) -> bool:
    """Return whether values of a column can be listed in a contract."""
    return is_ordered(kind) or bool(pa.types.is_string(kind) or pa.types.is_boolean(kind))


def bound_of(written: Any, kind: pa.DataType) -> Bound:
    """Return a bound as written in the contract, for values of type `kind`.

    Raises ValueError with a sentence on what to write.
    """
    value = value_of(written, kind, holds=False)
    return Fraction(value) if is_number(kind) else value


def value_of(written: Any, kind: pa.DataType, *, holds: bool = True) -> Any:
    """Return a value as written in the contract, in the Python type that Arrow uses for `kind`.

    With `holds`, the column must be able to hold the value. Raises ValueError with a sentence on what to write.
    """
    if pa.types.is_boolean(kind):
        if not isinstance(written, bool):
            raise ValueError("must be true or false")
        return written
    if is_number(kind):
        return _number_of(written, kind, holds=holds)
    if not isinstance(written, str):
        raise ValueError(  # noqa: TRY004 - a mistake of the contract, reported with the others
            "must be text" if pa.types.is_string(kind) else "must be a date or time, as text"
        )
    if pa.types.is_date(kind):
        return _read(date.fromisoformat, written, "must be a date, such as 2026-01-31")
    if pa.types.is_timestamp(kind):
        what = "with its offset" if kind.tz else "without an offset"
        found = _read(datetime.fromisoformat, written, f"must be a time {what}, such as 2026-01-31T12:00:00")
        if (found.tzinfo is not None) != (kind.tz is not None):
            raise ValueError(f"must be a time {what}, as the column's are")
        return found.astimezone(UTC) if kind.tz else found
    return written


def _number_of(written: Any, kind: pa.DataType, *, holds: bool) -> Any:
    if isinstance(written, bool) or not isinstance(written, int | float):
        raise ValueError("must be a number")  # noqa: TRY004 - as above
    if not abs(written) <= sys.float_info.max:  # nor NaN
        raise ValueError(f"must be a number of at most {sys.float_info.max:.2g} in magnitude")
    if pa.types.is_floating(kind):
        return float(np.float32(written)) if holds and kind == pa.float32() else float(written)
    exact = Decimal(str(written))
    if not holds:
        return exact
    is_whole = not pa.types.is_integer(kind) or exact == int(exact)
    try:
        found = pa.scalar(int(exact) if pa.types.is_integer(kind) else exact, kind).as_py()
    except (pa.ArrowException, OverflowError):
        is_whole = False
    if not is_whole:
        raise ValueError(f"must be a number that a column of type {kind} can hold")
    return found


def _read(parse: Callable[[str], Any], written: str, message: str) -> Any:
    try:
        return parse(written)
    except ValueError:
        raise ValueError(message) from None


@dataclass(frozen=True, slots=True)
class Interval:
    """The values between two bounds; None for no bound."""

    low: Bound | None = None
    high: Bound | None = None
    strict_low: bool = False
    strict_high: bool = False

    @property
    def is_empty(self) -> bool:
        """Return whether no value is between the bounds."""
        if self.low is None or self.high is None:
            return False
        if self.low == self.high:
            return self.strict_low or self.strict_high
        return self.low > self.high  # type: ignore[operator] # both are of the column's type

    def holds(self, value: Any) -> bool:
        """Return whether a value is between the bounds. A NaN never is."""
        if isinstance(value, float) and math.isnan(value):
            return False
        above = self.low is None or value > self.low or (not self.strict_low and value == self.low)
        return bool(
            above
            and (self.high is None or value < self.high or (not self.strict_high and value == self.high))
        )

    def squared(self) -> Interval:
        """Return the interval of the squares of the non-negative numbers in this interval."""
        low, high = self.low, self.high
        if isinstance(low, Fraction):
            low = low * low if low >= 0 else None
        if isinstance(high, Fraction):
            high = high * high if high >= 0 else Fraction(-1)
        return Interval(low, high, self.strict_low, self.strict_high)

    def outside(self, values: pa.Array) -> int:
        """Return how many values of an array without nulls are outside. NaN is above every bound, as in SQL."""
        if not len(values):
            return 0
        if pa.types.is_integer(values.type) or pa.types.is_decimal(values.type):
            return self._discrete(values)
        is_in = pa.array(np.ones(len(values), bool))
        if self.low is not None:
            compare = pc.greater if self.strict_low else pc.greater_equal
            above = compare(values, self._as_scalar(self.low, values.type))
            is_in = pc.or_(above, pc.is_nan(values)) if pa.types.is_floating(values.type) else above
        if self.high is not None:
            compare = pc.less if self.strict_high else pc.less_equal
            is_in = pc.and_(is_in, compare(values, self._as_scalar(self.high, values.type)))
        return _count_false(is_in)

    def _as_scalar(self, bound: Bound, kind: pa.DataType) -> pa.Scalar:
        if isinstance(bound, Fraction):  # made from a double, so the conversion is exact
            return pa.scalar(float(bound), pa.float64())
        return pa.scalar(bound, kind)

    def _discrete(self, values: pa.Array) -> int:
        """Return how many values are outside; bounds are moved to numbers of the column's type to avoid rounding."""
        kind = values.type
        if pa.types.is_integer(kind):
            scale, least, most = 1, -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
        else:
            scale = 10**kind.scale
            most = 10**kind.precision - 1
            least = -most
        low, high = least, most
        if isinstance(self.low, Fraction):
            exact = self.low * scale
            low = max(low, math.floor(exact) + 1 if self.strict_low else math.ceil(exact))
        if isinstance(self.high, Fraction):
            exact = self.high * scale
            high = min(high, math.ceil(exact) - 1 if self.strict_high else math.floor(exact))
        if low > high:
            return len(values)
        ends = [pa.scalar(_rescaled(each, kind), kind) for each in (low, high)]
        return _count_false(pc.and_(pc.greater_equal(values, ends[0]), pc.less_equal(values, ends[1])))


def _rescaled(number: int, kind: pa.DataType) -> int | Decimal:
    if pa.types.is_integer(kind):
        return number
    digits = tuple(int(digit) for digit in str(abs(number)))
    return Decimal((int(number < 0), digits, -kind.scale))


EVERYTHING: Final = Interval()


def _count_false(array: pa.Array) -> int:
    return len(array) - int(pc.sum(array).as_py() or 0)


def among(values: pa.Array, listed: Iterable[Any]) -> pa.Array:
    """Return for each value of an array, without nulls, whether it is listed."""
    wanted = pa.array(list(listed), values.type)
    if pa.types.is_floating(values.type):  # `is_in` distinguishes -0.0 and 0.0
        zero = pa.scalar(0.0, values.type)
        values, wanted = pc.add(values, zero), pc.add(wanted, zero)
    return pc.is_in(values, value_set=wanted)
