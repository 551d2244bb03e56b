"""Comparable keys for values of records and of contracts.

Numbers compare by their exact value: 999.0 equals 999, and a float stands for the shortest decimal that reads back as the
same float. Booleans are not numbers. Values of different types are never equal and have no order.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import isfinite
from typing import Any, Final

from tidegate.contracts.document.fields import FieldType
from tidegate.contracts.document.terms import Scalar
from tidegate.contracts.document.times import (
    DATE_LENGTH,
    NANOSECONDS,
    instant_key,
    local_key,
    nanoseconds_of_fraction,
    read_date,
)
from tidegate.contracts.rules.clock import date_of, day_of, midnight_of
from tidegate.contracts.rules.rule_kind import Scope

_TEXT: Final = re.compile(
    r"P(?:(\d+)W|(?=[0-9T])(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)D)?"
    r"(?:T(?=[0-9])(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d+))?S)?)?)",
    re.ASCII,
)
_MAX_DIGITS: Final = 100
"""Longer counts are all read as the first number with more digits, because int() is slow for many."""
_MAX_CACHED: Final = 100
"""Characters of a text that is kept with its duration; a few thousand records with long ones would fill the memory."""
_REFERENCES: Final = ((1696, 9), (1697, 2), (1903, 3), (1903, 7))
_AVRO: Final = struct.Struct("<III")
_DAY: Final = 86_400 * NANOSECONDS


@dataclass(frozen=True, slots=True)
class Duration:
    """A duration, as its nanoseconds from each of four reference days; a comparison holds if it holds from all four.

    A month has 28 to 31 days, so durations are only partially ordered. P1M is longer than P27D, and neither longer nor
    shorter than P30D; the four days reveal the difference.

    Source: XML Schema 1.1 part 2, section 3.3.6.2; RFC 3339 appendix A for the text; Avro 1.12, "duration".
    """

    totals: tuple[int | Fraction, ...]

    def __lt__(self, other: Duration) -> bool:
        return all(one < two for one, two in zip(self.totals, other.totals, strict=True))

    def __le__(self, other: Duration) -> bool:
        return all(one <= two for one, two in zip(self.totals, other.totals, strict=True))

    def __gt__(self, other: Duration) -> bool:
        return other < self

    def __ge__(self, other: Duration) -> bool:
        return other <= self


def read_duration(text: str) -> Duration | None:
    """Return the duration that a text stands for; None for any other text.

    A count of more than 100 digits is read as 10^100, and a fraction is cut after 100.
    """
    return _usual_duration(text) if len(text) <= _MAX_CACHED else _read_duration(text)


def _read_duration(text: str) -> Duration | None:
    match = _TEXT.fullmatch(text)
    if match is None:
        return None
    *counts, fraction = match.groups()
    weeks, years, months, days, hours, minutes, seconds = map(_count, counts)
    rest = (hours * 3600 + minutes * 60 + seconds) * NANOSECONDS + nanoseconds_of_fraction(fraction)
    return _duration(years * 12 + months, weeks * 7 + days, rest)


_usual_duration = lru_cache(maxsize=4_096)(_read_duration)


def _count(digits: str | None) -> int:
    digits = (digits or "").lstrip("0")
    return int(digits or 0) if len(digits) <= _MAX_DIGITS else 10**_MAX_DIGITS


def duration_string_key(value: Any) -> Duration | None:
    """Return the duration of a string value; None for anything else."""
    return read_duration(value) if type(value) is str else None


def duration_bytes_key(value: Any) -> Duration | None:
    """Return the duration of an Avro value of 12 bytes (months, days, milliseconds); None for anything else."""
    if type(value) is not bytes or len(value) != _AVRO.size:
        return None
    months, days, milliseconds = _AVRO.unpack(value)
    return _duration(months, days, milliseconds * 10**6)


def _duration(months: int, days: int, rest: int | Fraction) -> Duration:
    return Duration(
        tuple((_days_of_months(year, month, months) + days) * _DAY + rest for year, month in _REFERENCES)
    )


def _days_of_months(year: int, month: int, months: int) -> int:
    """Return the number of days in `months` months that begin with the first of a month."""
    later = year * 12 + month - 1 + months
    return _day_number(later // 12, later % 12 + 1) - _day_number(year, month)


def _day_number(year: int, month: int) -> int:
    """Return a day number for the first of a month in the proleptic Gregorian calendar, for any year."""
    year, month = (year, month) if month > 2 else (year - 1, month + 12)
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5


Key = Callable[[Any], Any]
"""Converts a value of a record to a comparable key; None for a value of another type."""

_DOUBLE_IS_EXACT: Final = 2**53
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,100})?")


@dataclass(frozen=True, slots=True)
class Order:
    """A sort of values that compare with each other.

    `key` converts a value of a record, `parse` a value of the contract; both return None for values of another sort.
    `at` returns the key of a moment in nanoseconds since 1970. `moment` returns the moment of a key; one without a zone
    counts as UTC. The key of an integer in a record is the integer times `scale`, which is None if records hold none.
    """

    name: str
    key: Key
    parse: Key
    example: str = ""
    at: Callable[[int], Any] | None = None
    moment: Callable[[Any], Any] | None = None
    scale: int | None = None


def exact(number: float | Decimal) -> int | float | Decimal:
    """Return a number of the same value that compares exactly with Decimals (infinities and NaN are unchanged)."""
    if isinstance(number, float) and isfinite(number):
        whole = number.is_integer() and abs(number) < _DOUBLE_IS_EXACT
        return int(number) if whole else Decimal(repr(number))
    return number


def is_nan(number: float | Decimal) -> bool:
    """Return whether a number is NaN, which has no order. Python raises if it compares one with a Decimal."""
    return number != number  # noqa: PLR0124 - only NaN differs from itself


def native(number: float) -> int | float:
    """Return a number of a contract in the type that compares exactly with ints, and with floats below 2^53."""
    whole = int(exact(number))
    return whole if exact(number) == whole else number


def is_large(number: float | Decimal) -> bool:
    """Return whether doubles of the size of a number have other values than the decimals that they stand for."""
    return not -_DOUBLE_IS_EXACT < number < _DOUBLE_IS_EXACT


def _comparable_double(number: float) -> int | float | None:
    """Return what equals the double that stands for a number of a contract; None if no double does."""
    if not is_large(number):
        return number
    try:
        double = float(number)
    except OverflowError:
        return None
    return double if exact(double) == number else None


def number_key(value: Any) -> int | float | Decimal | None:
    """Return numbers unchanged, and None for other values, including booleans."""
    kind = type(value)
    return value if kind is int or kind is float or kind is Decimal else None


def date_string_key(value: Any) -> str | None:
    """Return a valid date string unchanged; None for anything else. Kept shallow: it runs for every record."""
    return read_date(value) if type(value) is str and len(value) == DATE_LENGTH else None


def instant_string_key(value: Any) -> Any:
    """Return the moment of a date-time string, in nanoseconds since 1970; None for anything else."""
    return instant_key(value) if type(value) is str else None


NUMBERS: Final = Order("numbers", number_key, number_key)
_midnight = lru_cache(maxsize=4_096)(midnight_of)


def _itself(moment: Any) -> Any:
    return moment


DATES: Final = Order(
    "dates", date_string_key, date_string_key, "a date, such as 1900-01-01", date_of, _midnight
)
INSTANTS: Final = Order(
    "date-times",
    instant_string_key,
    instant_string_key,
    "a date-time with its offset, such as 1900-01-01T00:00:00Z",
    _itself,
    _itself,
)
LOCAL_TIMES: Final = "local times"
_LOCAL_EXAMPLE: Final = "a date and time without a zone, such as 1900-01-01T00:00:00"
DURATIONS: Final = Order(
    "durations", duration_string_key, duration_string_key, "a duration of ISO 8601, such as PT15M"
)
_BYTE_DURATIONS: Final = replace(DURATIONS, key=duration_bytes_key)


@dataclass(frozen=True, slots=True, eq=False)
class DateOrInstant:
    """A date, or a date-time with its written date.

    Two date-times compare by their instants. A date has no time and no zone, so it compares with all others by day.
    """

    day: str
    instant: int | Fraction | None = None

    def __lt__(self, other: DateOrInstant) -> bool:
        one, two = self._comparable(other)
        return bool(one < two)

    def __le__(self, other: DateOrInstant) -> bool:
        one, two = self._comparable(other)
        return bool(one <= two)

    def __gt__(self, other: DateOrInstant) -> bool:
        return other < self

    def __ge__(self, other: DateOrInstant) -> bool:
        return other <= self

    def _comparable(self, other: DateOrInstant) -> tuple[Any, Any]:
        if self.instant is None or other.instant is None:
            return self.day, other.day
        return self.instant, other.instant


def date_or_instant_key(value: Any) -> DateOrInstant | None:
    """Return the key of a string that is a date or a date-time; None for anything else."""
    if (day := date_string_key(value)) is not None:
        return DateOrInstant(day)
    instant = instant_string_key(value)
    return None if instant is None else DateOrInstant(value[:DATE_LENGTH], instant)


DATES_OR_INSTANTS: Final = Order(
    "dates or date-times",
    date_or_instant_key,
    date_or_instant_key,
    "a date or a date-time with its offset, such as 1900-01-01 or 1900-01-01T00:00:00Z",
    lambda moment: DateOrInstant(date_of(moment), moment),
    lambda key: _midnight(key.day) if key.instant is None else key.instant,
)


_UNITS: Final = {"millis": 10**6, "micros": 10**3, "nanos": 1}
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()


def order_of_times(field: FieldType) -> Order | None:
    """Return the order of a field of dates or of timestamps; None if it holds neither, or may hold both."""
    found = _order_of_format(field)
    return None if found is not None and found.name == DURATIONS.name else found


def order_of_moments(field: FieldType) -> Order | None:
    """Return the order of a field of dates, of timestamps or of both; None if it holds neither.

    The order of both is not transitive, so comparisons of contracts do not reason with it.
    """
    is_either = "string" in field.types and field.times == {"date", "date-time"}
    return DATES_OR_INSTANTS if is_either else order_of_times(field)


def order_of_durations(field: FieldType) -> Order | None:
    """Return the order of a field of durations; None for any other."""
    found = _order_of_format(field)
    return found if found is not None and found.name == DURATIONS.name else None


def _order_of_format(field: FieldType) -> Order | None:
    if len(field.times) != 1 or field.is_unclear:
        return None
    (time,) = field.times
    if "string" in field.types and time in _OF_STRINGS:  # a format of JSON Schema
        return _OF_STRINGS[time]
    if time == "duration":
        return _BYTE_DURATIONS
    if time == "date":
        return _DAYS
    kind, _, unit = time.rpartition("-")
    nanoseconds = _UNITS[unit]

    def key(value: Any) -> int | None:
        return value * nanoseconds if type(value) is int else None

    if kind == "local-timestamp":
        return Order(LOCAL_TIMES, key, _local, _LOCAL_EXAMPLE, moment=_itself, scale=nanoseconds)
    return replace(INSTANTS, key=key, scale=nanoseconds)


def integer_key(value: Any) -> int | None:
    """Return integers unchanged, and None for other values."""
    return value if type(value) is int else None


def _days(text: Any) -> int | None:
    """Return a date of the contract as days since 1970, as in Avro; None for any other value."""
    key = date_string_key(text)
    if key is None or key.startswith("0000"):  # Python has no year 0
        return None
    return date.fromisoformat(key).toordinal() - _EPOCH_DAY


def _local(text: Any) -> Any:
    return local_key(text) if type(text) is str else None


_DAYS: Final = Order(
    DATES.name,
    integer_key,
    _days,
    DATES.example,
    day_of,
    lambda days: days * 86_400 * NANOSECONDS,
    scale=1,
)
_OF_STRINGS: Final = {
    "date": DATES,
    "date-time": INSTANTS,
    "date-time-local": Order(LOCAL_TIMES, _local, _local, _LOCAL_EXAMPLE, moment=_itself),
    "duration": DURATIONS,
}


def order_of(field: FieldType) -> Order | None:
    """Return the order of the values of a field; None if they have none."""
    has_numbers = bool(field.types & {"number", "integer"}) and not has_mixed_units(field)
    return _order_of_format(field) or (NUMBERS if has_numbers else None)


def has_mixed_units(field: FieldType) -> bool:
    """Return whether a value of a field may be a time of several units, or a time or a plain value.

    An Avro union of a date with a timestamp or a long is such a field: the decoded integer does not say which one it is.
    """
    return field.is_unclear or (len(field.times) > 1 and not field.times <= _OF_STRINGS.keys())


def units_of(field: FieldType) -> str:
    """Return the words for what a value of a field with mixed units may be, such as `date or a plain integer`."""
    plain = {"integer": "a plain integer", "bytes": "plain bytes"}
    also = [plain[kind] for kind in sorted(field.timed)] if field.is_unclear else []
    return " or ".join([*sorted(field.times), *also])


def number_of(bound: float | str) -> int | float | Decimal | None:
    """Return a number of a contract exactly, also one given as text; a Decimal only if no double equals it.

    Return None for text that is not a number.
    """
    if not isinstance(bound, str):
        return native(bound)
    if not _NUMBER.fullmatch(bound):
        return None
    number = Decimal(bound)
    if number == number.to_integral_value():
        return int(number)
    is_double = abs(number) < _DOUBLE_IS_EXACT and Decimal(repr(float(number))) == number
    return float(number) if is_double else number


Member = Callable[[Any], bool | None]
"""Returns whether a value is listed; None for a value whose type does not occur in the list."""


def member_of(values: Mapping[str, Scalar], found: FieldType, scope: Scope) -> Member:
    """Compile the membership test for a list of values; record a problem for each that the field `found` cannot hold.

    `values` maps places, pointers below the rule, to values.
    """
    times = order_of_times(found) or order_of_durations(found)
    listed: dict[type, set[Any]] = {}
    moments: set[Any] = set()
    for place, value in values.items():
        if times is not None and isinstance(value, str):
            moments.add(_moment(value, place, times, scope))
            continue
        for kind, comparable in _entries(value, found, place, scope):
            listed.setdefault(kind, set()).add(comparable)
    member = _among({kind: frozenset(entries) for kind, entries in listed.items()})
    return member if times is None or not moments else _among_moments(frozenset(moments), times, member)


def placed(place: str, values: tuple[Scalar, ...]) -> dict[str, Scalar]:
    """Return the values of a list by place: `place` with the index of the value."""
    return {f"{place}/{index}": value for index, value in enumerate(values)}


def _moment(value: str, place: str, times: Order, scope: Scope) -> Any:
    moment = times.parse(value)
    if moment is None:
        scope.refuse(place, f"the field holds {times.name}; write {times.example}")
    return moment


def _entries(value: Scalar, found: FieldType, place: str, scope: Scope) -> list[tuple[type, Any]]:
    match value:
        case None:
            scope.refuse(place, "null is no value; say `nulls: violate` or `nulls: pass` instead")
            return []
        case bool():
            scope.expect(found, frozenset({"boolean"}), "a boolean", place)
            return [(bool, value)]
        case str():
            scope.expect(found, frozenset({"string"}), "a string", place)
            return [(str, value)]
        case _:
            number = native(value)
            types = {"number", "integer"} if isinstance(number, int) else {"number"}
            scope.expect(found, frozenset(types), "this number", place)
            return [(int, number), (float, _comparable_double(number)), (Decimal, exact(number))]


def _among(listed: dict[type, frozenset[Any]]) -> Member:
    entries_of = listed.get

    def member(value: Any) -> bool | None:
        entries = entries_of(type(value))
        return None if entries is None else value in entries

    return member


def _among_moments(moments: frozenset[Any], times: Order, other: Member) -> Member:
    key = times.key

    def member(value: Any) -> bool | None:
        moment = key(value)
        return other(value) if moment is None else moment in moments

    return member
