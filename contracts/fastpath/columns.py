"""Convert values to columns in bulk, with the same result as the converter of single values.

For most column types Arrow converts many values in one call. Values that it may not convert exactly are converted one
by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, DecimalException
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.contracts.columns.typed import TypedColumn
from tidegate.contracts.formats.column_values import (
    FIRST_DAY,
    FIRST_MICROSECOND,
    LAST_DAY,
    LAST_MICROSECOND,
    exactly,
)

Bulk = Callable[[list[Any], pa.DataType], pa.Array | None]
"""Converts many values, None included; returns None or raises an Arrow error if single conversion is needed."""
OfTexts = Callable[[pa.Array, pa.DataType], pa.Array | None]
"""Converts an array of string. It returns None, or raises an Arrow error, if they must be converted one by one."""

_NONE: Final = type(None)
_SURE_DIGITS: Final = 15
_MAX_EXACT_SCALE: Final = 22
"""The largest power of ten that is a double."""
_NANOSECONDS: Final = 1_000
"""Nanoseconds in a microsecond."""
_RFC3339: Final = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)$"
_LOCAL: Final = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?$"


def bulk_of(*kinds: type) -> Bulk:
    """Return the bulk converter for values of these Python types, which Arrow converts exactly."""
    allowed = {*kinds, _NONE}

    def convert(values: list[Any], arrow_type: pa.DataType) -> pa.Array | None:
        return pa.array(values, arrow_type) if allowed.issuperset(map(type, values)) else None

    return convert


def bulk_decimals(values: list[Any], arrow_type: pa.Decimal128Type) -> pa.Array | None:
    """Convert numbers in bulk, if all are Decimals, or all are doubles and integers of at most 15 decimal digits.

    Doubles also need a scale of at most 22.
    """
    if {Decimal, _NONE}.issuperset(map(type, values)):
        return _exact_decimals(values, arrow_type)
    if arrow_type.scale > _MAX_EXACT_SCALE or not {float, int, _NONE}.issuperset(map(type, values)):
        return None
    numbers = np.array(values, np.float64)
    is_null = np.isnan(numbers)
    if is_null.any() and np.count_nonzero(is_null) != sum(value is None for value in values):
        return None  # NaN is not a decimal
    step = 10.0**arrow_type.scale
    with np.errstate(over="ignore"):  # an overflow becomes infinite, and fails the test below
        unscaled = np.rint(np.where(is_null, 0, numbers) * step)
    # A decimal of up to 15 digits has its own double, and the quotient is rounded to the double nearest to the decimal.
    is_decimal = (unscaled / step == numbers) & (
        np.abs(unscaled) < 10.0 ** min(arrow_type.precision, _SURE_DIGITS)
    )
    if not (is_decimal | is_null).all():
        return None
    return _decimals(unscaled.astype(np.int64), is_null, arrow_type)


def _exact_decimals(values: list[Any], arrow_type: pa.Decimal128Type) -> pa.Array | None:
    to_type = exactly(arrow_type.precision, arrow_type.scale)
    try:
        held = [None if value is None else to_type(value) for value in values]
    except DecimalException:
        return None
    # Arrow reads NaN as null, and crashes the process at some exponents. So it gets only finite values that `to_type`
    # has already converted to the digits of the type.
    return pa.array(held, arrow_type) if all(value is None or value.is_finite() for value in held) else None


def _decimals(
    unscaled: npt.NDArray[np.int64], is_null: npt.NDArray[np.bool_], arrow_type: pa.Decimal128Type
) -> pa.Array:
    """Convert integers to Arrow's layout of decimals: 128 bits, the lower half first."""
    halves = np.empty((len(unscaled), 2), np.int64)
    halves[:, 0], halves[:, 1] = unscaled, unscaled >> 63
    present = pa.array(~is_null).buffers()[1]
    return pa.Array.from_buffers(arrow_type, len(unscaled), [present, pa.py_buffer(halves)])


def bulk_json(values: list[Any], arrow_type: pa.DataType) -> pa.Array | None:
    """Convert values to JSON texts in bulk."""
    try:
        texts = [None if value is None else orjson.dumps(value).decode() for value in values]
    except orjson.JSONEncodeError:
        return None
    array = pa.array(texts, arrow_type)
    # orjson writes NaN as null, so any null needs an exact check.
    return None if pc.any(pc.match_substring(array, "null")).as_py() else array


def bulk_days(values: list[Any], arrow_type: pa.DataType) -> pa.Array | None:
    """Convert date strings, or days since 1970, in bulk."""
    if not {int, _NONE}.issuperset(map(type, values)):
        strings = _strings(values)
        return None if strings is None else texts_as_days(strings, arrow_type)
    numbers = pa.array(values, pa.int32())
    return numbers.cast(arrow_type) if _within(numbers, pa.int32(), FIRST_DAY, LAST_DAY) else None


def bulk_instants(nanoseconds: int) -> Bulk:
    """Return the bulk converter for date-times: strings, or integers in units of `nanoseconds`."""
    return _bulk_times(nanoseconds, texts_as_instants)


def bulk_local_times(nanoseconds: int) -> Bulk:
    """Return the bulk converter for date-times without a zone: strings, or integers in units of `nanoseconds`."""
    return _bulk_times(nanoseconds, texts_as_local_times)


def _bulk_times(nanoseconds: int, of_texts: OfTexts) -> Bulk:
    def convert(values: list[Any], arrow_type: pa.DataType) -> pa.Array | None:
        if not {int, _NONE}.issuperset(map(type, values)):
            strings = _strings(values)
            return None if strings is None else of_texts(strings, arrow_type)
        numbers = pa.array(values, pa.int64())
        if nanoseconds >= _NANOSECONDS:
            times = pc.multiply_checked(numbers, nanoseconds // _NANOSECONDS)
        else:
            times = pc.divide(numbers, _NANOSECONDS)
            if not pc.all(pc.equal(pc.multiply(times, _NANOSECONDS), numbers), min_count=0).as_py():
                return None
        if not _within(times, pa.int64(), FIRST_MICROSECOND, LAST_MICROSECOND):
            return None
        return times.cast(arrow_type)

    return convert


def texts(strings: pa.Array, _: pa.DataType) -> pa.Array:
    """Return the strings unchanged."""
    return strings


def texts_as_days(strings: pa.Array, arrow_type: pa.DataType) -> pa.Array | None:
    """Convert date strings in bulk. Arrow reads exactly ten characters; the year 0 is refused here."""
    days = strings.cast(arrow_type)
    return days if _within(days, pa.int32(), FIRST_DAY, LAST_DAY) else None


def texts_as_instants(strings: pa.Array, arrow_type: pa.DataType) -> pa.Array | None:
    """Convert date-time strings in bulk."""
    return _texts_as_times(strings, arrow_type, _RFC3339)


def texts_as_local_times(strings: pa.Array, arrow_type: pa.DataType) -> pa.Array | None:
    """Convert strings of date-times without a zone in bulk."""
    return _texts_as_times(strings, arrow_type, _LOCAL)


def _texts_as_times(strings: pa.Array, arrow_type: pa.DataType, pattern: str) -> pa.Array | None:
    if not pc.all(pc.match_substring_regex(strings, pattern), min_count=0).as_py():
        return None
    times = strings.cast(arrow_type)
    return times if _within(times, pa.int64(), FIRST_MICROSECOND, LAST_MICROSECOND) else None


def _strings(values: list[Any]) -> pa.Array | None:
    return bulk_of(str)(values, pa.string())


def _within(array: pa.Array, integer: pa.DataType, lowest: int, highest: int) -> bool:
    bounds = pc.min_max(array.cast(integer)).as_py()
    return bounds["min"] is None or (bounds["min"] >= lowest and bounds["max"] <= highest)


@dataclass(frozen=True, slots=True)
class FastColumn(TypedColumn):
    """A typed column with bulk converters for values and for arrays of string; None where it has none."""

    bulk: Bulk | None = None
    of_texts: OfTexts | None = None

    def convert_values(self, values: list[Any]) -> tuple[pa.Array, list[int]]:
        """Return the column of some values, and the positions of those that it cannot hold (null there)."""
        if self.bulk is not None:
            try:
                array = self.bulk(values, self.kind.arrow_type)
            except (pa.ArrowException, OverflowError):
                array = None  # some value needs the exact converter
            if array is not None:
                return array, []
        return TypedColumn.convert_values(self, values)


def fast_column(column: TypedColumn) -> FastColumn:
    """Return a column with the bulk converters of its type; none for a masked column."""
    ways = _WAYS.get(column.type.partition("(")[0]) if column.kind.is_plain else None
    bulk, of_texts = (None, None) if ways is None else ways(column.kind.unit)
    return FastColumn(column.name, column.type, column.path, column.kind, column.value_type, bulk, of_texts)


_WAYS: Final[dict[str, Callable[[int], tuple[Bulk, OfTexts | None]]]] = {
    "boolean": lambda _: (bulk_of(bool), None),
    "int": lambda _: (bulk_of(int), None),
    "long": lambda _: (bulk_of(int), None),
    "double": lambda _: (bulk_of(int, float), None),
    "decimal": lambda _: (bulk_decimals, None),
    "string": lambda _: (bulk_of(str), texts),
    "json": lambda _: (bulk_json, None),
    "binary": lambda _: (bulk_of(bytes), None),
    "date": lambda _: (bulk_days, texts_as_days),
    "timestamp": lambda unit: (bulk_instants(unit), texts_as_instants),
    "timestamp_ntz": lambda unit: (bulk_local_times(unit), texts_as_local_times),
}
"""Bulk converters by column type, from the unit of time. `float` has none: Arrow does not refuse an overflow."""
