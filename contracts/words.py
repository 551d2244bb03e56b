"""Write values of records, times and counts in sentences."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from tidegate.contracts.document.fields import tokens
from tidegate.contracts.verdict import Violation

MOST_CHARACTERS: Final = 60
MOST_VALUES: Final = 12
_NANOSECONDS: Final = 10**9
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NANOSECONDS_OF: Final = {"millis": 10**6, "micros": 10**3, "nanos": 1}
_UNITS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
_TYPES: Final = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
    "bytes": "bytes",
}
_WITHOUT_GLYPH: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks that `str.isprintable` counts as printable, and that no font draws."""
_NEEDS_SUBJECT: Final = re.compile(
    r"(must|is|holds|has|breaks|fits|does|ends|goes|lacks|begins|required property) "
)


def name_of(pointer: str) -> str:
    """Name the field that a pointer leads to, as people say it."""
    return seen("/".join(tokens(pointer))) or "the record"


def shown(value: Any) -> str:
    """Write a value: numbers exactly, texts in quotes and cut, what cannot be seen as its code; lists by their size."""
    match value:
        case str():
            cut = value[:MOST_CHARACTERS]
            return seen(json.dumps(cut, ensure_ascii=False)) + ("…" if len(cut) < len(value) else "")
        case bytes():
            return f"{counted(len(value), 'byte')}"
        case list():
            return f"a list of {counted(len(value), 'item')}"
        case dict():
            return "an object"
        case Decimal():
            text = str(value)
        case _:
            text = json.dumps(value)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:20]}… ({counted(len(text), 'digit')})"


def described(value: Any) -> str:
    """Write a value with its sort, for who may have taken it for another one."""
    match value:
        case str():
            return f"the text {shown(value)}"
        case bool() | None | list() | dict() | bytes():
            return shown(value)
        case _:
            return f"the number {shown(value)}"


def is_visible(character: str) -> bool:
    """Return whether a character is seen as itself: no control, line end, odd space or mark that turns text around."""
    return character.isprintable() and _WITHOUT_GLYPH.match(character) is None


def seen(text: str) -> str:
    r"""Write characters that cannot be seen, or that turn text around, by their codes: \uXXXX or \UXXXXXXXX."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(each if is_visible(each) else _code(each) for each in text)


def _code(character: str) -> str:
    point = ord(character)
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def types(names: Sequence[str]) -> str:
    """Write the types of a JSON Schema."""
    return any_of([_TYPES.get(name, name) for name in sorted(names)])


def listed(values: Sequence[Any]) -> str:
    """Write the values that a contract lists, the first of them if there are many."""
    texts = [shown(value) for value in values[:MOST_VALUES]]
    more = len(values) - len(texts)
    return ", ".join(texts) + (f" and {more} more" if more > 0 else "")


def any_of(words: Sequence[str]) -> str:
    """Join words with commas and `or`."""
    *first, last = words or ("nothing",)
    return f"{', '.join(first)} or {last}" if first else last


def counted(number: int, noun: str) -> str:
    """Write a number of things."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def length_of(nanoseconds: int | Fraction) -> str:
    """Return a length of time: its two largest units, rounded down; below a second, milliseconds to the nanosecond."""
    seconds, rest = divmod(nanoseconds, _NANOSECONDS)
    parts = []
    for size, unit in _UNITS:
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(counted(int(count), unit))
        elif parts:
            break
    if parts:
        return " ".join(parts[:2])
    return f"{float(Fraction(rest, 10**6)):.6f}".rstrip("0").rstrip(".") + " ms"


def time_of(value: Any, time: str) -> str:
    """Write a value that is a date or a time; Avro's integers as the moment that they count to.

    `time` is the format or logical type of the field.
    """
    if type(value) is not int:
        return str(value) if type(value) is str else shown(value)
    try:
        if time == "date":
            return date.fromordinal(value + _EPOCH_DAY).isoformat()
        microseconds = value * _NANOSECONDS_OF[time.rpartition("-")[2]] // 1_000
        moment = (_EPOCH + timedelta(microseconds=microseconds)).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, KeyError):
        return shown(value)
    return moment.removesuffix("+00:00") + ("" if time.startswith("local") else "Z")


def plain_sentence(violation: Violation) -> str:
    """Write what a violation says, without any value of the record, as a sentence with a subject."""
    message = violation.message
    path = tokens(violation.pointer)
    if message.startswith("has items") and path and path[-1].isdigit():
        path = path[:-1]  # the place is that of the item, the sentence about the array
    name = path[-1] if path else ""
    if name.isdigit():  # an element says nothing without its array
        name = "/".join(path[-2:])
    if _NEEDS_SUBJECT.match(message):
        subject = {"": "the record", "*": "an undeclared property"}.get(name, name)
        if message.startswith("required property"):
            return message
        message = f"{subject} {message}"
    return message


def split_words(value: object) -> object:
    """Return the words of a text, which commas or blanks separate; other values as they are."""
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value
