"""Binary encoding of JSON values as Avro's primitive, fixed and logical types.

| Avro type | JSON |
|---|---|
| int, long | a whole number within the type's range; `5.0` is 5 |
| float, double | a number, or the text `NaN`, `Infinity` or `-Infinity` |
| bytes, fixed | text in Base64 (RFC 4648); in Avro's own JSON encoding, text whose characters are the bytes |
| decimal | a number with at most the type's scale and precision, also as text; in Avro's own JSON encoding, text as for bytes |
| date | `2026-01-31`, or days since 1970 |
| time-millis, time-micros | `23:59:59.999`, or the number that Avro stores |
| timestamp-* | an RFC 3339 date-time with an offset, or the number that Avro stores |
| local-timestamp-* | `2026-01-31T12:00:00`, or the number that Avro stores |
| uuid | text in the form of RFC 4122 |

Values are never rounded, except to float and double: a value that the type cannot hold exactly is refused.

Source: Apache Avro 1.12 specification, "Binary Encoding", "JSON Encoding", "Logical Types".
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
import uuid
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from tidegate.contracts.document.times import date_key, instant_key, local_key
from tidegate.contracts.formats.avro_types import UUID, Fixed, Logical, Primitive

_RANGES: Final = {"int": 2**31, "long": 2**63}
_MOST_INTEGER: Final = 2**64
"""Larger floats and Decimals are not converted to an int: one with a huge exponent would exhaust the memory."""
_NUMERAL: Final = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?", re.ASCII)
_TIME: Final = re.compile(r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?", re.ASCII)
_UNITS: Final = {"millis": 10**6, "micros": 10**3, "nanos": 1}
"""The units of time of logical types, in nanoseconds."""
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class NotEncodableError(ValueError):
    """A value that cannot be encoded as its type.

    `reason` never contains the value. `path` has the names and indexes that lead to the value, innermost first.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str] = []


def encoded_long(number: int) -> bytes:
    """Return the variable-length zigzag encoding of an int or a long."""
    rest = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def encoded_bytes(raw: bytes) -> bytes:
    """Return bytes preceded by their length."""
    return encoded_long(len(raw)) + raw


def leaf(node: Primitive | Fixed, value: Any, *, is_avro_json: bool) -> bytes:  # noqa: PLR0911 - one for each type
    """Return the encoding of a JSON value that `decode_exactly` has read. Raises NotEncodableError.

    With `is_avro_json`, text for bytes, fixed and decimal is that of Avro's own JSON encoding.
    """
    match node:
        case Fixed():
            return _fixed(node, value, is_avro_json=is_avro_json)
        case Primitive(kind="null") if value is None:
            return b""
        case Primitive(kind="boolean") if isinstance(value, bool):
            return b"\1" if value else b"\0"
        case Primitive(kind="int" | "long"):
            return encoded_long(_integer(node, value))
        case Primitive(kind="float" | "double"):
            return _floating(node.kind, value)
        case Primitive(kind="string") if isinstance(value, str):
            if node.logical is not None and node.logical.name == "uuid" and not UUID.fullmatch(value):
                raise NotEncodableError("is text that is no UUID")
            return encoded_bytes(value.encode())
        case Primitive(kind="bytes"):
            logical = node.logical
            if logical is not None and logical.name == "decimal":
                return encoded_bytes(_decimal(logical, value, None, is_avro_json=is_avro_json))
            return encoded_bytes(_bytes(value, is_avro_json=is_avro_json))
    raise mismatch(value, str(node))


def mismatch(value: Any, wanted: str) -> NotEncodableError:
    """Return the error for a value of another type."""
    return NotEncodableError(f"is {_noun(value)}, and the schema has {wanted} here")


def _noun(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case str():
            return "text"
        case dict():
            return "an object"
        case list():
            return "an array"
        case _:
            return "a number"


def _integer(node: Primitive, value: Any) -> int:
    number: Any = value
    if isinstance(value, str) and node.logical is not None:
        number = _moment(node.logical.name, value)
    if isinstance(number, float | Decimal) and -_MOST_INTEGER < number < _MOST_INTEGER and _is_whole(number):
        number = int(number)
    if isinstance(number, float | Decimal):
        raise NotEncodableError(f"is a number that is not whole or too large, and the schema has {node} here")
    if not isinstance(number, int) or isinstance(number, bool):
        raise mismatch(value, str(node))
    if not -_RANGES[node.kind] <= number < _RANGES[node.kind]:
        raise NotEncodableError(f"is outside the range of the type {node.kind}")
    return number


def _is_whole(number: float | Decimal) -> bool:
    return number == number.to_integral_value() if isinstance(number, Decimal) else number.is_integer()


def _moment(logical: str, text: str) -> int:
    """Return the integer that Avro stores for the text of a date, time or timestamp. Raises NotEncodableError."""
    if logical == "date":
        day = date_key(text)
        if day is None or day.startswith("0000"):
            raise NotEncodableError("is text that is not a date such as 2026-01-31")
        return date.fromisoformat(day).toordinal() - _EPOCH_DAY
    kind, _, unit = logical.rpartition("-")
    match kind:
        case "time":
            is_time = _TIME.fullmatch(text)
            nanoseconds = instant_key(f"1970-01-01T{text}{'' if text.count(':') > 1 else ':00'}Z")
            if not is_time or nanoseconds is None:
                raise NotEncodableError("is text that is not a time of day such as 23:59:59")
        case "local-timestamp":
            nanoseconds = local_key(text)
            if nanoseconds is None:
                raise NotEncodableError("is text that is not a local date-time such as 2026-01-31T12:00:00")
        case _:
            nanoseconds = instant_key(text)
            if nanoseconds is None:
                raise NotEncodableError(
                    "is text that is no date-time with its offset such as 2026-01-31T12:00:00Z"
                )
    stored = Fraction(nanoseconds) / _UNITS[unit]
    if stored.denominator != 1:
        raise NotEncodableError(f"has a fraction of a second that {logical} cannot hold")
    return int(stored)


def _floating(kind: str, value: Any) -> bytes:
    if isinstance(value, str) and value in _NOT_FINITE:
        value = _NOT_FINITE[value]
    elif isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise mismatch(value, kind)
    too_large = NotEncodableError(f"is outside the range of the type {kind}")
    try:
        number = float(value)
        encoded = struct.pack("<f" if kind == "float" else "<d", number)
    except OverflowError:
        raise too_large from None
    if isinstance(value, Decimal) and math.isinf(number):
        raise too_large
    return encoded


def _bytes(value: Any, *, is_avro_json: bool) -> bytes:
    if not isinstance(value, str):
        raise mismatch(value, "bytes")
    try:
        return value.encode("latin-1") if is_avro_json else base64.b64decode(value, validate=True)
    except UnicodeEncodeError:
        raise NotEncodableError("has a character above U+00FF, which stands for no byte") from None
    except (binascii.Error, ValueError):
        raise NotEncodableError(
            "is text that is not Base64, and the schema has bytes here (text of Avro's own JSON encoding is read as the "
            "form `avro-json`)"
        ) from None


def _fixed(node: Fixed, value: Any, *, is_avro_json: bool) -> bytes:
    logical = node.logical
    if logical is not None and logical.name == "decimal":
        return _decimal(logical, value, node.size, is_avro_json=is_avro_json)
    if logical is not None and logical.name == "uuid" and isinstance(value, str) and UUID.fullmatch(value):
        return uuid.UUID(value).bytes
    raw = _bytes(value, is_avro_json=is_avro_json)
    if len(raw) != node.size:
        raise NotEncodableError(f"has {len(raw)} bytes, and {node} has {node.size}")
    return raw


def _decimal(logical: Logical, value: Any, size: int | None, *, is_avro_json: bool) -> bytes:
    """Return the two's complement of a decimal's unscaled integer, in `size` bytes or (None) in as few as possible.

    Raises NotEncodableError.
    """
    if is_avro_json and isinstance(value, str):
        unscaled = int.from_bytes(_bytes(value, is_avro_json=True), "big", signed=True)
    else:
        unscaled = _unscaled(logical, value)
    if abs(unscaled) >= 10**logical.precision:
        raise NotEncodableError(f"has more digits than {logical} holds")
    shortest = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    if size is not None and size < shortest:
        raise NotEncodableError(f"takes more than the {size} bytes of its type")
    return unscaled.to_bytes(size or shortest, "big", signed=True)


def _unscaled(logical: Logical, value: Any) -> int:
    if isinstance(value, str):
        if len(value) > 2 * logical.precision + 10 or not _NUMERAL.fullmatch(value):
            raise NotEncodableError(f"is text that is no number, and the schema has {logical} here")
        number = Decimal(value)
    elif isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise mismatch(value, str(logical))
    else:
        number = Decimal(repr(value) if isinstance(value, float) else value)
    # Checked before the digits are written out, because an exponent may ask for 10 ** 18 of them.
    if number and number.adjusted() > logical.precision:
        raise NotEncodableError(f"has more digits than {logical} holds")
    _, digits, exponent = number.as_tuple()
    shift = int(exponent) + logical.scale
    significand = int("".join(map(str, digits)))
    if shift < 0:
        significand, rest = divmod(significand, 10 ** min(-shift, len(digits) + 1))
        if rest:
            raise NotEncodableError(f"has more decimal places than {logical} holds")
        shift = 0
    return int(significand * 10**shift) * (-1 if number < 0 else 1)
