"""Labelled corruptions of a value of a record."""

from __future__ import annotations

import calendar
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from tidegate.contracts.infer.values import NUMBER_SENTINELS
from tidegate.contracts.strength.good_values import ABSENT, GoodField, is_number

UNCHANGED: Final = object()
"""The result of a mutation for a value that it cannot corrupt."""
DAYS_OF_SENTINELS: Final = ("1900-01-01", "9999-12-31")
WORDS_OF_SENTINELS: Final = ("N/A", "unknown", "")
_NINES: Final = tuple(
    sorted(int(each) for each in NUMBER_SENTINELS if each >= 999 and set(str(each)) == {"9"})
)
_UNITS: Final = (10, 100, 1000)
_CENTURY: Final = 100
_LARGEST: Final = 2**63
"""A mutation whose result would be at least this large leaves the number unchanged."""
_BROKEN_CHARACTER: Final = "\ufffd"
_LAST_OF: Final = {"9": "0", "z": "a", "Z": "A"}

Corrupt = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Mutation:
    """One way to corrupt one field. `corrupt` returns another value, ABSENT or UNCHANGED."""

    label: str
    corrupt: Corrupt


def number_sentinels(field: GoodField) -> tuple[int, ...]:
    """Return sentinels for "unknown" outside the range of the field: -1, and the first number like 999 above it.

    For a classified field they do not depend on its values.
    """
    if not field.numbers:
        return ()
    if field.is_classified:
        return (-1, _NINES[0])
    low, high = min(field.numbers), max(field.numbers)
    return (*((-1,) if low >= 0 else ()), *[each for each in _NINES if each > high][:1])


def mutations_of(field: GoodField) -> Iterator[Mutation]:
    """Yield the mutations that apply to a field. They avoid sentinels and other values that occur in good records."""
    if field.always_has_value:
        yield Mutation("null", lambda _: None)
        yield Mutation("missing", lambda _: ABSENT)
    if field.numbers:
        yield from _number_mutations(field)
    if field.times is not None:
        for day in DAYS_OF_SENTINELS:
            yield Mutation(f"sentinel {day}", _text_change(partial(_with_day, day)))
        yield Mutation("century off", _text_change(_century_earlier))
    if field.texts:
        for word in WORDS_OF_SENTINELS:
            if word not in field.distinct:
                yield Mutation(f'sentinel "{word}"', _text_change(partial(_constant, word)))
        yield Mutation("truncated", _text_change(lambda text: text[: len(text) // 2]))
        yield Mutation("case", _text_change(_other_case(field)))
        yield Mutation("encoding", _text_change(_mojibake))
        yield Mutation("whitespace", _text_change(lambda text: f"{text} "))
    if field.has_few_values and field.times is None:
        yield Mutation("wrong reference", _text_change(_stranger(field)))


def _number_mutations(field: GoodField) -> Iterator[Mutation]:
    for sentinel in number_sentinels(field):
        yield Mutation(f"sentinel {sentinel}", _number_change(partial(_constant, sentinel)))
    for factor in _UNITS:
        yield Mutation(f"unit x{factor}", _number_change(partial(operator.mul, factor)))
    yield Mutation("number as text", _number_change(str))


def _number_change(change: Callable[[Any], Any]) -> Corrupt:
    def corrupt(value: Any) -> Any:
        if not is_number(value):
            return UNCHANGED
        changed = change(value)
        is_too_large = is_number(changed) and abs(changed) >= _LARGEST
        return UNCHANGED if is_too_large or changed == value else changed

    return corrupt


def _text_change(change: Callable[[str], str]) -> Corrupt:
    def corrupt(value: Any) -> Any:
        if not isinstance(value, str):
            return UNCHANGED
        changed = change(value)
        return UNCHANGED if changed == value else changed

    return corrupt


def _constant(value: Any, _: Any) -> Any:
    return value


def _with_day(day: str, text: str) -> str:
    """Return a date or date-time with its day replaced by `day`."""
    return day + text[len(day) :]


def _other_case(field: GoodField) -> Callable[[str], str]:
    def change(text: str) -> str:
        swapped = text.swapcase()
        return text if swapped in field.distinct else swapped

    return change


def _mojibake(text: str) -> str:
    """Return a text as a wrong decoder would: UTF-8 read as Latin-1; for ASCII, with one replacement character."""
    if not text.isascii():
        return text.encode(errors="replace").decode("latin-1")
    middle = len(text) // 2
    return text[:middle] + _BROKEN_CHARACTER + text[middle + 1 :]


def _century_earlier(text: str) -> str:
    year = int(text[:4])
    earlier = year - _CENTURY if year > _CENTURY else year + _CENTURY
    if text[5:10] == "02-29" and not calendar.isleap(earlier):
        return text  # the day would not exist, which would be another kind of corruption
    return f"{earlier:04d}{text[4:]}"


def _stranger(field: GoodField) -> Callable[[str], str]:
    """Return a function that changes a text to another of the same form that occurs in no good record."""

    def change(text: str) -> str:
        other = text
        for _ in range(26):
            other = "".join(_next(each) for each in other)
            if other not in field.distinct:
                return other
        return text

    return change


def _next(character: str) -> str:
    if not (character.isascii() and character.isalnum()):
        return character
    return _LAST_OF.get(character) or chr(ord(character) + 1)
