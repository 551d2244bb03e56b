"""Values that a contract names, ready to be compared with values of records.

Numbers compare by their exact value: 999.0 equals 999, and a float is the shortest decimal that reads back as it.
Booleans are no numbers. Values of different types are never equal and have no order.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from contracts.fields import FieldType
from contracts.rules.times import date_key, instant_key

NUMBERS = (int, float, Decimal)
Key = Callable[[Any], Any]
"""Turns a value of a record into what compares; None for a value of a type that the rule is not about."""


def exact(number: float | Decimal) -> int | Decimal:
    """Turn a number into an int or Decimal of the same exact value; the two compare and hash alike."""
    if isinstance(number, float):
        return int(number) if number.is_integer() and abs(number) < 2**53 else Decimal(repr(number))
    return number


def number_key(value: Any) -> int | float | Decimal | None:
    """Keep numbers; booleans are none."""
    return value if type(value) in NUMBERS else None


def date_string_key(value: Any) -> str | None:
    """Read a date string."""
    return date_key(value) if type(value) is str else None


def instant_string_key(value: Any) -> Any:
    """Read a date-time string."""
    return instant_key(value) if type(value) is str else None


def time_key(field: FieldType) -> Key | None:
    """Give the key for a field of dates or timestamps; None when it is neither, or may be both."""
    if "string" not in field.types:
        return None
    if field.times == {"date"}:
        return date_string_key
    if field.times == {"date-time"}:
        return instant_string_key
    return None
