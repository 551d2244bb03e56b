"""JSON values as the judge reads them: seven disjoint types, exact numbers, equality and text."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

NULL: Final = 1
BOOLEAN: Final = 2
INTEGER: Final = 4
"""Numbers without a fractional part, in any notation, such as 1.0."""
FRACTION: Final = 8
"""Numbers with a fractional part."""
STRING: Final = 16
ARRAY: Final = 32
OBJECT: Final = 64
NUMBER: Final = INTEGER | FRACTION
ANYTHING: Final = 127

TYPES: Final = {
    "null": NULL,
    "boolean": BOOLEAN,
    "integer": INTEGER,
    "number": NUMBER,
    "string": STRING,
    "array": ARRAY,
    "object": OBJECT,
}

MAX_EXACT: Final = 2**53
"""Doubles represent every integer up to this one."""
_SMALLEST_NORMAL: Final = Fraction(1, 2**1000)
MAX_EXPONENT: Final = 400
"""Numbers with larger exponents are not used in calculations: 1e999999999 would exhaust the memory."""

Key = tuple[Any, ...]
_CONTAINERS: Final = (dict, list)
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def exact(number: float | Decimal) -> Fraction | None:
    """Return the exact value of a number. A float has the value of the shortest decimal that parses to it.

    None for a number that is not finite, or whose exponent is beyond MAX_EXPONENT.
    """
    if isinstance(number, int):
        return Fraction(number)
    decimal = Decimal(repr(number)) if isinstance(number, float) else number
    if not decimal.is_finite():
        return None
    return Fraction(decimal) if abs(decimal.adjusted()) <= MAX_EXPONENT else None


def type_of(value: Any) -> int:  # noqa: PLR0911 - one for each type
    """Return the type bit of a value; both number bits for a number that `exact` does not convert."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, str):
        return STRING
    if isinstance(value, dict):
        return OBJECT
    if isinstance(value, list):
        return ARRAY
    number = exact(value)
    if number is None:
        return NUMBER
    return INTEGER if number.denominator == 1 else FRACTION


def key_of(value: Any) -> Key:
    """Return a key that is equal for values that are equal as JSON: 1 equals 1.0, true does not equal 1."""
    if isinstance(value, dict):
        return ("object", frozenset((name, key_of(member)) for name, member in value.items()))
    if isinstance(value, list):
        return ("array", tuple(key_of(item) for item in value))
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        number = value if isinstance(value, int) else exact(value)
        return ("number", number if number is not None else repr(value))
    return (type(value).__name__, value)


def shape_of(value: Any) -> Key:
    """Return a key that is equal only for identical documents, apart from member order: 1 and 1.0 differ."""
    if isinstance(value, dict):
        return ("object", frozenset((name, shape_of(member)) for name, member in value.items()))
    if isinstance(value, list):
        return ("array", tuple(shape_of(item) for item in value))
    return (type(value).__name__, repr(value))


def exceeds(value: Any, depth: int, size: int) -> bool:
    """Return whether a value is nested deeper than `depth` or has more than `size` parts, without recursion."""
    level = [value]
    for _ in range(depth + 1):
        below: list[Any] = []
        has_children = False
        for node in level:
            members = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
            size -= len(members)
            has_children = has_children or bool(members)
            below += [each for each in members if isinstance(each, _CONTAINERS)]
        if size < 0:
            return True
        if not has_children:
            return False
        level = below
    return True


def written(number: Fraction) -> int | float | Decimal:
    """Return a number as the type that its JSON text decodes to. Its denominator must divide a power of ten."""
    if number.denominator == 1:
        return int(number)
    digits, whole = 0, number
    while whole.denominator != 1:
        whole *= 10
        digits += 1
    decimal = Decimal(f"{whole.numerator}e-{digits}")
    double = float(decimal)
    is_kept = abs(double) < MAX_EXACT and Decimal(repr(double)) == decimal
    return double if is_kept else decimal


def margin(limit: Fraction) -> Fraction:
    """Return the distance from a limit beyond which doubles certainly distinguish a number from it."""
    return (abs(limit) + _SMALLEST_NORMAL) / 2**51


def is_decimal(number: Fraction) -> bool:
    """Return whether a number has a finite decimal form."""
    rest = number.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1


def text_of(value: Any) -> str:
    """Return a value as JSON text, with every digit of a Decimal."""
    try:
        return _ENCODER.encode(value)
    except TypeError:  # it contains Decimals
        return _exact_text(value)


def _exact_text(value: Any) -> str:
    if isinstance(value, dict):
        members = (
            f"{json.dumps(name, ensure_ascii=False)}:{_exact_text(member)}" for name, member in value.items()
        )
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_exact_text(item) for item in value) + "]"
    if isinstance(value, Decimal):
        return f"{value:f}" if abs(value.adjusted()) <= MAX_EXPONENT else str(value)
    return json.dumps(value, ensure_ascii=False)
