"""Values of records and of contracts, made comparable.

Numbers compare by their exact value: 999.0 equals 999, and a float is the shortest decimal that reads back as it.
Booleans are no numbers. Values of different types are never equal and have no order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from math import isfinite
from typing import Any, Final

from contracts.fields import FieldType
from contracts.rules.times import DATE_LENGTH, instant_key, read_date

Key = Callable[[Any], Any]
"""Turns a value of a record into what compares; None for a value of a type that it is not about."""

_DOUBLE_IS_EXACT: Final = 2**53


@dataclass(frozen=True, slots=True)
class Order:
    """A sort of values that compare with each other.

    `key` reads a value of a record, `parse` a value of the contract; both give None for what is not of the sort.
    """

    name: str
    key: Key
    parse: Key
    example: str = ""


def exact(number: float | Decimal) -> int | float | Decimal:
    """Turn a number into one of the same exact value that compares with Decimals (infinities and NaN stay)."""
    if isinstance(number, float) and isfinite(number):
        whole = number.is_integer() and abs(number) < _DOUBLE_IS_EXACT
        return int(number) if whole else Decimal(repr(number))
    return number


def native(number: float) -> int | float:
    """Turn a number of a contract into one that compares exactly with ints and with floats below 2^53."""
    return int(exact(number)) if exact(number) == int(number) else number


def number_key(value: Any) -> int | float | Decimal | None:
    """Keep numbers; booleans are none."""
    kind = type(value)
    return value if kind is int or kind is float or kind is Decimal else None


def date_string_key(value: Any) -> str | None:
    """Read a date string; one call deep, for it is asked for every record."""
    return read_date(value) if type(value) is str and len(value) == DATE_LENGTH else None


def instant_string_key(value: Any) -> Any:
    """Read a date-time string."""
    return instant_key(value) if type(value) is str else None


NUMBERS: Final = Order("numbers", number_key, number_key)
DATES: Final = Order("dates", date_string_key, date_string_key, "a date, such as 1900-01-01")
INSTANTS: Final = Order(
    "date-times",
    instant_string_key,
    instant_string_key,
    "a date-time with its offset, such as 1900-01-01T00:00:00Z",
)


_UNITS: Final = {"millis": 10**6, "micros": 10**3, "nanos": 1}
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()


def order_of_times(field: FieldType) -> Order | None:
    """Give the order of a field of dates or of timestamps; None when it is neither, or may be both."""
    if len(field.times) != 1:
        return None
    (time,) = field.times
    if "string" in field.types:  # a format of JSON Schema
        return DATES if time == "date" else INSTANTS
    if time == "date":
        return Order(DATES.name, integer_key, _days, DATES.example)
    kind, _, unit = time.rpartition("-")
    nanoseconds = _UNITS[unit]

    def key(value: Any) -> int | None:
        return value * nanoseconds if type(value) is int else None

    if kind == "local-timestamp":
        return Order(
            "local times", key, _local, "a date and time without a zone, such as 1900-01-01T00:00:00"
        )
    return Order(INSTANTS.name, key, INSTANTS.parse, INSTANTS.example)


def integer_key(value: Any) -> int | None:
    """Keep integers."""
    return value if type(value) is int else None


def _days(text: Any) -> int | None:
    """Read a date of the contract as Avro counts: days since 1970."""
    key = date_string_key(text)
    if key is None or key.startswith("0000"):  # Python has no year 0
        return None
    return date.fromisoformat(key).toordinal() - _EPOCH_DAY


def _local(text: Any) -> Any:
    return instant_key(f"{text}Z") if type(text) is str else None


def order_of(field: FieldType) -> Order | None:
    """Give the order of the values of a field; None when they have none."""
    return order_of_times(field) or (NUMBERS if field.types & {"number", "integer"} else None)
