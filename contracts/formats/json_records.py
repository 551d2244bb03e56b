"""Exact decoder of JSON records.

Integers become `int`. Fractions become `float` if a double represents what was written, and `Decimal` otherwise. A
float stands for the shortest decimal number that parses to it, which is the number that was written.

Source: RFC 8259; section 9 allows limits on nesting and numbers, section 8.2 calls lone surrogates unpredictable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NoReturn

import pyarrow as pa

from tidegate.contracts.formats.payload import NO_PAYLOAD
from tidegate.contracts.verdict import Severity, Stage, Violation

MAX_DEPTH: Final = 254
"""Maximum nesting of a record: orjson cannot serialise deeper ones, nor can jsonschema-rs list their errors."""

_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F])|.)", re.DOTALL
)
MAX_INT_DIGITS: Final = 400
"""Maximum digits of a number that becomes an `int`: `int()` takes quadratic time, and refuses more than 4,300."""
_DOUBLE_IS_EXACT: Final = 2**53


def _violation(code: str, message: str) -> Violation:
    return Violation(Stage.DECODE, code, "", Severity.ERROR, message)


TOO_DEEP: Final = _violation("json.too-deep", f"is nested deeper than {MAX_DEPTH} levels")
"""The violation of a value that is nested deeper than MAX_DEPTH."""


def decode_json(values: pa.Array) -> Iterator[Any]:
    """Yield for each value of a binary array the decoded record, or a Violation (`NO_PAYLOAD` for null)."""
    return (NO_PAYLOAD if value is None else decode_exactly(value) for value in values.to_pylist())


def decode_exactly(value: bytes) -> Any:
    """Return the decoded record, or a Violation of stage decode if the value is not acceptable JSON. Never raises."""
    if not value:
        return _violation("json.empty", "the value is empty")
    try:
        text = value.decode()
        record = _DECODER.decode(text)
    except (ValueError, InvalidOperation, RecursionError) as error:
        return _REFUSALS.get(type(error), _NOT_JSON)
    if any(match[1] for match in _ESCAPE.finditer(text)):
        return _LONE_SURROGATE
    # A value cannot be nested deeper than its number of brackets, which is cheaper to count than the depth.
    may_be_deep = text.count("[") + text.count("{") > MAX_DEPTH
    return TOO_DEEP if may_be_deep and _depth_exceeds(record) else record


def _depth_exceeds(record: Any) -> bool:
    """Return whether a record is nested deeper than MAX_DEPTH."""
    level = [record] if isinstance(record, dict | list) else []
    for _ in range(MAX_DEPTH):
        children = (child for node in level for child in (node.values() if type(node) is dict else node))
        level = [child for child in children if type(child) is dict or type(child) is list]
        if not level:
            return False
    return True


class _NotFiniteError(ValueError):
    """NaN or Infinity, which are not JSON numbers."""


def _refuse_constant(_: str) -> NoReturn:
    raise _NotFiniteError


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) <= MAX_INT_DIGITS else Decimal(text)


def _fraction(text: str) -> float | Decimal:
    return float(text) if is_double(text) else Decimal(text)


def is_double(text: str) -> bool:
    """Return whether the double of a number's text represents exactly the number that was written.

    False beyond 2^53, where doubles no longer compare like the numbers that were written.
    """
    number = float(text)
    if abs(number) >= _DOUBLE_IS_EXACT:
        return False
    if number == 0:  # Decimal does not accept every exponent
        return not text.strip("-0.")
    return repr(number) == text or Decimal(repr(number)) == Decimal(text)


_DECODER = json.JSONDecoder(
    parse_int=_integer, parse_float=_fraction, parse_constant=_refuse_constant, strict=True
)


_NOT_JSON: Final = _violation("json.invalid", "is not JSON")
_LONE_SURROGATE: Final = _violation(
    "json.lone-surrogate", "holds half of a surrogate pair (\\ud800 to \\udfff), which is no character"
)
_REFUSALS: Final[dict[type[Exception], Violation]] = {
    UnicodeDecodeError: _violation("json.invalid-utf8", "is not UTF-8"),
    _NotFiniteError: _violation("json.not-finite", "holds NaN or Infinity, which JSON does not have"),
    RecursionError: TOO_DEEP,
    InvalidOperation: _violation(
        "json.number-range", "holds a number whose exponent has more than 18 digits"
    ),
}
