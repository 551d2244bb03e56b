"""Values of records, converted to what a column's type holds: exactly, or not at all.

Each type has a converter for one value, which decides, and most have a quicker way for many values that Arrow takes
as they are. The quick way is only taken where both give the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import date
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.contracts.document.times import date_key, instant_key

Converter = Callable[[Any], Any]
"""Gives what Arrow takes for a value that is not None; None when the type cannot hold it."""
Bulk = Callable[[list[Any], pa.DataType], pa.Array | None]
"""Converts many values, Nones included; None, or an error of Arrow, when they need the converter one by one."""
OfTexts = Callable[[pa.Array, pa.DataType], pa.Array | None]
"""Converts an array of string; None, or an error of Arrow, when they need the converter one by one."""

_NONE: Final = type(None)
_SURE_DIGITS: Final = 15
_MOST_DAYS: Final = 50_000
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_FIRST_DAY: Final = date.min.toordinal() - _EPOCH_DAY
_LAST_DAY: Final = date.max.toordinal() - _EPOCH_DAY
_NANOSECONDS: Final = 1_000
"""In a microsecond."""
_DAY_MICROSECONDS: Final = 86_400 * 10**6
_FIRST_MICROSECOND: Final = _FIRST_DAY * _DAY_MICROSECONDS
_LAST_MICROSECOND: Final = (_LAST_DAY + 1) * _DAY_MICROSECONDS - 1
MAX_FLOAT: Final = float.fromhex("0x1.fffffep+127")
"""Largest number of type float."""
MAX_DOUBLE: Final = float.fromhex("0x1.fffffffffffffp+1023")
"""Largest number of type double."""
_RFC3339: Final = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)$"
_LOCAL: Final = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?$"


def whole_number(bits: int) -> Converter:
    """Make the converter to a signed integer of so many bits. 1.0 is an integer, as in JSON Schema."""
    limit = 2 ** (bits - 1)

    def convert(value: Any) -> int | None:
        kind = type(value)
        if (
            kind is Decimal
            and value.is_finite()
            and value.adjusted() < 20
            and value == value.to_integral_value()
        ) or (kind is float and value.is_integer()):
            value = int(value)
        elif kind is not int:
            return None
        return value if -limit <= value < limit else None

    return convert


def floating_point(largest: float) -> Converter:
    """Make the converter to an IEEE 754 number: the nearest one, when the number is in its range."""

    def convert(value: Any) -> float | None:
        kind = type(value)
        if kind is not int and kind is not float and kind is not Decimal:
            return None
        if kind is int:
            value = Decimal(value)
        number = float(value)
        is_held = abs(number) <= largest or (kind is float and not math.isfinite(number))
        return number if is_held else None

    return convert


def of_type(kind: type) -> Converter:
    """Make the converter that takes values of one Python type as they are."""
    return lambda value: value if type(value) is kind else None


def decimal_number(precision: int, scale: int) -> Converter:
    """Make the converter to decimal(precision, scale)."""
    exactly = _exactly(precision, scale)

    def convert(value: Any) -> Decimal | None:
        kind = type(value)
        if kind is int or kind is float:
            value = Decimal(repr(value) if kind is float else value)
        elif kind is not Decimal:
            return None
        try:
            held = exactly(value)
        except DecimalException:
            return None
        return held if held.is_finite() else None

    return convert


@lru_cache(maxsize=256)
def _exactly(precision: int, scale: int) -> Callable[[Decimal], Decimal]:
    """Make what gives a number the digits of a decimal type; raises DecimalException for one that it does not hold."""
    context = Context(prec=precision, traps=[Inexact, InvalidOperation])
    step = Decimal((0, (1,), -scale))
    return lambda value: context.quantize(value, step)


def day(value: Any) -> int | None:
    """Convert an RFC 3339 full-date, or an Avro date, to days since 1970, in the years 1 to 9999."""
    if type(value) is str:
        key = date_key(value)
        if key is None or key.startswith("0000"):
            return None
        return date.fromisoformat(key).toordinal() - _EPOCH_DAY
    if type(value) is int and _FIRST_DAY <= value <= _LAST_DAY:
        return value
    return None


def instant(nanoseconds: int) -> Converter:
    """Make the converter of an RFC 3339 date-time, or of an integer in units of `nanoseconds`, to microseconds."""

    def convert(value: Any) -> int | None:
        if type(value) is str:
            return _microseconds(instant_key(value))
        return _microseconds(value * nanoseconds) if type(value) is int else None

    return convert


def local_time(nanoseconds: int) -> Converter:
    """Make the converter of a date and time without a zone, or of an integer, to microseconds."""

    def convert(value: Any) -> int | None:
        if type(value) is str:
            return (
                _microseconds(instant_key(f"{value[:10]}T{value[11:]}Z"))
                if value[10:11] in {"T", " "}
                else None
            )
        return _microseconds(value * nanoseconds) if type(value) is int else None

    return convert


def json_text(value: Any) -> str | None:
    """Write a value as JSON text, numbers as exact as they came; None when it holds NaN or an infinity."""
    try:
        text = orjson.dumps(value)
    except orjson.JSONEncodeError:  # an integer beyond 64 bits, a Decimal, bytes, nesting beyond 254
        text = b""
    # orjson writes NaN as null.
    if text and b"null" not in text:
        return text.decode()
    try:
        return _exact_json(value)
    except ValueError:
        return None


def _exact_json(value: Any) -> str:
    match value:
        case dict():
            members = (f"{_exact_json(name)}:{_exact_json(each)}" for name, each in value.items())
            return "{" + ",".join(members) + "}"
        case list():
            return "[" + ",".join(map(_exact_json, value)) + "]"
        case Decimal():
            return str(value)
        case bytes():  # as Avro's JSON encoding has it
            return json.dumps(value.decode("latin-1"), ensure_ascii=False)
        case _:
            return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _microseconds(nanoseconds: int | Fraction | None) -> int | None:
    if nanoseconds is None or nanoseconds % 1000:
        return None
    microseconds = int(nanoseconds // 1000)
    return microseconds if _FIRST_MICROSECOND <= microseconds <= _LAST_MICROSECOND else None


def nothing(_: Any) -> None:
    """Keep nothing of a value."""


def bulk_nulls(values: list[Any], arrow_type: pa.DataType) -> pa.Array:
    """Keep nothing of any value."""
    return pa.nulls(len(values), arrow_type)


def bulk_each(convert: Converter) -> Bulk:
    """Make the way for values that are converted one by one and all held."""

    def convert_all(values: list[Any], arrow_type: pa.DataType) -> pa.Array:
        return pa.array([None if value is None else convert(value) for value in values], arrow_type)

    return convert_all


def bulk_of(*kinds: type) -> Bulk:
    """Make the quick way for values of some Python types, which Arrow takes without changing them."""
    allowed = {*kinds, _NONE}

    def convert(values: list[Any], arrow_type: pa.DataType) -> pa.Array | None:
        return pa.array(values, arrow_type) if allowed.issuperset(map(type, values)) else None

    return convert


def bulk_decimals(values: list[Any], arrow_type: pa.Decimal128Type) -> pa.Array | None:
    """Convert numbers at once, when all are doubles that stand for decimals of at most 15 digits, or are decimals."""
    if {Decimal, _NONE}.issuperset(map(type, values)):
        return _exact_decimals(values, arrow_type)
    if not {float, int, _NONE}.issuperset(map(type, values)):
        return None
    numbers = np.array(values, np.float64)
    is_null = np.isnan(numbers)
    if is_null.any() and np.count_nonzero(is_null) != sum(value is None for value in values):
        return None  # NaN is no decimal
    step = 10.0**arrow_type.scale
    with np.errstate(over="ignore"):  # infinite then, and no decimal below
        unscaled = np.rint(np.where(is_null, 0, numbers) * step)
    # Up to 15 digits a double stands for one decimal, and the quotient is rounded to the double nearest to it.
    is_decimal = (unscaled / step == numbers) & (
        np.abs(unscaled) < 10.0 ** min(arrow_type.precision, _SURE_DIGITS)
    )
    if not (is_decimal | is_null).all():
        return None
    return _decimals(unscaled.astype(np.int64), is_null, arrow_type)


def _exact_decimals(values: list[Any], arrow_type: pa.Decimal128Type) -> pa.Array | None:
    exactly = _exactly(arrow_type.precision, arrow_type.scale)
    try:
        held = [None if value is None else exactly(value) for value in values]
    except DecimalException:
        return None
    # Arrow takes NaN for a null, and ends the process at some exponents: it gets only what was given the type's digits.
    return pa.array(held, arrow_type) if all(value is None or value.is_finite() for value in held) else None


def _decimals(
    unscaled: npt.NDArray[np.int64], is_null: npt.NDArray[np.bool_], arrow_type: pa.Decimal128Type
) -> pa.Array:
    """Lay integers out as Arrow keeps decimals: 128 bits, the lower half first."""
    halves = np.empty((len(unscaled), 2), np.int64)
    halves[:, 0], halves[:, 1] = unscaled, unscaled >> 63
    present = pa.array(~is_null).buffers()[1]
    return pa.Array.from_buffers(arrow_type, len(unscaled), [present, pa.py_buffer(halves)])


def bulk_json(values: list[Any], arrow_type: pa.DataType) -> pa.Array | None:
    """Write JSON texts at once."""
    try:
        texts = [None if value is None else orjson.dumps(value).decode() for value in values]
    except orjson.JSONEncodeError:
        return None
    array = pa.array(texts, arrow_type)
    # orjson writes NaN as null, so that a null needs a closer look.
    return None if pc.any(pc.match_substring(array, "null")).as_py() else array


class _KnownDays(dict[str | None, int | None]):
    """Days since 1970 by their string; there are few of them, and a look costs a tenth of a conversion."""

    def __missing__(self, value: Any) -> int | None:
        if len(self) >= _MOST_DAYS:
            self.clear()
        self[value] = converted = None if value is None else day(value)
        return converted


_KNOWN_DAYS: Final = _KnownDays()


def bulk_days(values: list[Any], arrow_type: pa.DataType) -> pa.Array | None:
    """Convert date strings, or days since 1970, at once."""
    if {int, _NONE}.issuperset(map(type, values)):
        numbers = pa.array(values, pa.int32())
        return numbers.cast(arrow_type) if _within(numbers, pa.int32(), _FIRST_DAY, _LAST_DAY) else None
    if not {str, _NONE}.issuperset(map(type, values)):
        return None
    days = pa.array(list(map(_KNOWN_DAYS.__getitem__, values)), pa.int32())
    # Not values.count(None): it compares each value, and that takes longer than all else here.
    is_lost = days.null_count and days.null_count != sum(value is None for value in values)
    return None if is_lost else days.cast(arrow_type)


def bulk_instants(nanoseconds: int) -> Bulk:
    """Make the way for date-times: strings, or integers in units of `nanoseconds`, at once."""
    return _bulk_times(nanoseconds, texts_as_instants)


def bulk_local_times(nanoseconds: int) -> Bulk:
    """Make the way for dates and times without a zone: strings, or integers in units of `nanoseconds`, at once."""
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
        if not _within(times, pa.int64(), _FIRST_MICROSECOND, _LAST_MICROSECOND):
            return None
        return times.cast(arrow_type)

    return convert


def texts(strings: pa.Array, _: pa.DataType) -> pa.Array:
    """Keep strings as they are."""
    return strings


def texts_as_days(strings: pa.Array, arrow_type: pa.DataType) -> pa.Array | None:
    """Convert dates at once: Arrow reads ten characters and nothing else, the year 0 among them."""
    days = strings.cast(arrow_type)
    return days if _within(days, pa.int32(), _FIRST_DAY, _LAST_DAY) else None


def texts_as_instants(strings: pa.Array, arrow_type: pa.DataType) -> pa.Array | None:
    """Convert date-times at once."""
    return _texts_as_times(strings, arrow_type, _RFC3339)


def texts_as_local_times(strings: pa.Array, arrow_type: pa.DataType) -> pa.Array | None:
    """Convert dates and times without a zone at once."""
    return _texts_as_times(strings, arrow_type, _LOCAL)


def _texts_as_times(strings: pa.Array, arrow_type: pa.DataType, pattern: str) -> pa.Array | None:
    if not pc.all(pc.match_substring_regex(strings, pattern), min_count=0).as_py():
        return None
    times = strings.cast(arrow_type)
    return times if _within(times, pa.int64(), _FIRST_MICROSECOND, _LAST_MICROSECOND) else None


def _strings(values: list[Any]) -> pa.Array | None:
    return bulk_of(str)(values, pa.string())


def _within(array: pa.Array, integer: pa.DataType, lowest: int, highest: int) -> bool:
    bounds = pc.min_max(array.cast(integer)).as_py()
    return bounds["min"] is None or (bounds["min"] >= lowest and bounds["max"] <= highest)
