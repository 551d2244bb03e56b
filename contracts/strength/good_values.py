"""The values of the declared fields in good records, from which corruptions and suggested rules are derived."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any, Final

from tidegate.contracts.document.fields import SchemaFields, tokens, value_at
from tidegate.contracts.document.times import date_key, instant_key

ABSENT: Final = object()
"""Stands for the value of a field that a record lacks."""
DATE_LENGTH: Final = len("2026-01-31")
_MOST_FIELDS: Final = 200
"""Maximum number of fields that are corrupted, outermost first; the duration of a run grows with it."""
_MOST_PAIRS: Final = 50
_MOST_CHOICES: Final = 50
_LONGEST_CHOICE: Final = 40
_REPEATS: Final = 20
"""A field has few values only if each occurs at least this often on average."""
_LEAST_PAIRS: Final = 20


@dataclass(frozen=True)
class GoodField:
    """One declared field; `values` has its value in each good record, or ABSENT.

    If `is_classified`, rules about the field must not contain values, or bounds and patterns derived from values.
    """

    pointer: str
    values: Sequence[Any] = field(repr=False)
    is_classified: bool = False

    @cached_property
    def path(self) -> tuple[str, ...]:
        """Return the names that lead to the field."""
        return tokens(self.pointer)

    @cached_property
    def numbers(self) -> list[int | float]:
        """Return its values that are numbers."""
        return [each for each in self.values if is_number(each)]

    @cached_property
    def texts(self) -> list[str]:
        """Return its values that are texts."""
        return [each for each in self.values if isinstance(each, str)]

    @cached_property
    def distinct(self) -> frozenset[Any]:
        """Return its distinct numbers and texts."""
        return frozenset((*self.numbers, *self.texts))

    @cached_property
    def always_has_value(self) -> bool:
        """Return whether every record has the field, and never with null."""
        return bool(self.values) and all(each is not ABSENT and each is not None for each in self.values)

    @cached_property
    def has_few_values(self) -> bool:
        """Return whether its texts seem to come from a list, such as the names of wards."""
        found = set(self.texts)
        return (
            1 < len(found) <= _MOST_CHOICES
            and len(found) * _REPEATS <= len(self.texts)
            and max(map(len, found)) <= _LONGEST_CHOICE
        )

    @cached_property
    def times(self) -> list[Any] | None:
        """Return a chronological key for each record, None where it has no text; None if any text is not a time.

        Either all keys are of dates, or all are of date-times.
        """
        for read in (date_key, instant_key):
            keys = [read(each) if isinstance(each, str) else None for each in self.values]
            found = sum(key is not None for key in keys)
            if found and found == len(self.texts):
                return keys
        return None

    @cached_property
    def is_date(self) -> bool:
        """Return whether its texts are dates without a time."""
        return self.times is not None and len(self.texts[0]) == DATE_LENGTH


def is_number(value: Any) -> bool:
    """Return whether a decoded value is a number; booleans are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def good_fields(records: Sequence[Any], fields: SchemaFields, hides: Any) -> tuple[GoodField, ...]:
    """Return the declared fields that hold a number, text or boolean in any of the records.

    `hides` returns for the path of a field whether it is classified.
    """
    found = []
    for pointer in fields.pointers():
        path = tokens(pointer)
        values = [value_at(record, path, ABSENT) for record in records]
        if any(isinstance(each, bool | int | float | str) for each in values):
            found.append(GoodField(pointer, values, hides(path)))
        if len(found) == _MOST_FIELDS:
            break
    return tuple(found)


def ordered_pairs(fields: Sequence[GoodField]) -> tuple[tuple[GoodField, GoodField], ...]:
    """Return the pairs of time fields where the first is never after the second, and before it in most records."""
    timed = [each for each in fields if each.times is not None]
    pairs = []
    for one, other in combinations(timed, 2):
        if one.is_date is not other.is_date or one.path[:-1] != other.path[:-1]:
            continue
        keys = [
            (first, second)
            for first, second in zip(one.times or (), other.times or (), strict=True)
            if first is not None and second is not None
        ]
        for first, second, signed in ((one, other, keys), (other, one, [(b, a) for a, b in keys])):
            rising = sum(low < high for low, high in signed)
            if rising >= max(_LEAST_PAIRS, len(signed) / 2) and all(low <= high for low, high in signed):
                pairs.append((first, second))
    return tuple(pairs[:_MOST_PAIRS])
