"""Conversion of record values to the types of columns, exactly or not at all; only floating-point types round."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from datetime import date
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import orjson

from tidegate.contracts.document.times import date_key, instant_key, local_key

Converter = Callable[[Any], Any]
"""Returns the value for Arrow; None if the column's type cannot hold it. The argument is never None."""

_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
FIRST_DAY: Final = date.min.toordinal() - _EPOCH_DAY
LAST_DAY: Final = date.max.toordinal() - _EPOCH_DAY
_DAY_MICROSECONDS: Final = 86_400 * 10**6
FIRST_MICROSECOND: Final = FIRST_DAY * _DAY_MICROSECONDS
LAST_MICROSECOND: Final = (LAST_DAY + 1) * _DAY_MICROSECONDS - 1
MAX_FLOAT: Final = float.fromhex("0x1.fffffep+127")
"""The largest finite number of type float."""
MAX_DOUBLE: Final = float.fromhex("0x1.fffffffffffffp+1023")
"""The largest finite number of type double."""


def whole_number(bits: int) -> Converter:
    """Return the converter to a signed integer of `bits` bits. 1.0 is an integer, as in JSON Schema."""
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
    """Return the converter to an IEEE 754 number: the nearest one, if the value is at most `largest` in magnitude.

    Floats that are NaN or infinite are kept.
    """

    def convert(value: Any) -> float | None:
        kind = type(value)
        if kind is not int and kind is not float and kind is not Decimal:
            return None
        if kind is float:
            number = value
        else:
            exact = Decimal(value)
            number = float(exact)
            if largest == MAX_FLOAT and exact.is_finite() and exact != number:
                number = _to_odd(number, exact)
        is_held = abs(number) <= largest or (kind is float and not math.isfinite(number))
        return number if is_held else None

    return convert


def _to_odd(number: float, exact: Decimal) -> float:
    """Return `number`, or the next double towards `exact`: the one whose last bit is 1.

    Rounded to 32 bits, it is the float nearest to `exact`; `number` may lie in the middle of two floats.

    Source: Boldo and Melquiond, "When double rounding is odd" (2005).
    """
    is_odd = int.from_bytes(struct.pack("<d", number), "little") & 1
    return number if is_odd else math.nextafter(number, math.inf if exact > number else -math.inf)


def of_type(kind: type) -> Converter:
    """Return the converter that keeps values of exactly one Python type."""
    return lambda value: value if type(value) is kind else None


def decimal_number(precision: int, scale: int) -> Converter:
    """Return the converter to decimal(precision, scale)."""
    to_type = exactly(precision, scale)

    def convert(value: Any) -> Decimal | None:
        kind = type(value)
        if kind is int or kind is float:
            value = Decimal(repr(value) if kind is float else value)
        elif kind is not Decimal:
            return None
        try:
            held = to_type(value)
        except DecimalException:
            return None
        return held if held.is_finite() else None

    return convert


@lru_cache(maxsize=256)
def exactly(precision: int, scale: int) -> Callable[[Decimal], Decimal]:
    """Return a function that converts a number to a decimal type; it raises DecimalException if that is not exact."""
    context = Context(prec=precision, traps=[Inexact, InvalidOperation])
    step = Decimal((0, (1,), -scale))
    return lambda value: context.quantize(value, step)


def day(value: Any) -> int | None:
    """Convert an RFC 3339 full-date or an Avro date to days since 1970; None outside the years 1 to 9999."""
    if type(value) is str:
        key = date_key(value)
        if key is None or key.startswith("0000"):
            return None
        return date.fromisoformat(key).toordinal() - _EPOCH_DAY
    if type(value) is int and FIRST_DAY <= value <= LAST_DAY:
        return value
    return None


def instant(nanoseconds: int) -> Converter:
    """Return the converter to microseconds since 1970, from RFC 3339 text or an integer.

    An integer counts units of `nanoseconds` nanoseconds. None for a fraction of a microsecond, and outside the years 1
    to 9999.
    """

    def convert(value: Any) -> int | None:
        if type(value) is str:
            return _microseconds(instant_key(value))
        return _microseconds(value * nanoseconds) if type(value) is int else None

    return convert


def local_time(nanoseconds: int) -> Converter:
    """Return the converter of a date and time without a time zone to microseconds; otherwise as `instant`."""

    def convert(value: Any) -> int | None:
        if type(value) is str:
            return _microseconds(local_key(value))
        return _microseconds(value * nanoseconds) if type(value) is int else None

    return convert


def json_text(value: Any) -> str | None:
    """Return a value as JSON text with exact numbers; None if it contains NaN or an infinity."""
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
        case bytes():  # as in Avro's JSON encoding
            return json.dumps(value.decode("latin-1"), ensure_ascii=False)
        case _:
            return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _microseconds(nanoseconds: int | Fraction | None) -> int | None:
    if nanoseconds is None or nanoseconds % 1000:
        return None
    microseconds = int(nanoseconds // 1000)
    return microseconds if FIRST_MICROSECOND <= microseconds <= LAST_MICROSECOND else None


def nothing(_: Any) -> None:
    """Return None for every value: the converter of a column that holds no values."""
