"""Texts for values, times and counts in sentences."""

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
_NEEDS_SUBJECT: Final = re.compile(r"(must|is|holds|has|breaks|fits|does|ends|goes|lacks|begins) ")


def name_of(pointer: str) -> str:
    """Return the name of a field for a sentence, such as `address/postcode`; `the record` for the root."""
    return seen("/".join(tokens(pointer))) or "the record"


def shown(value: Any) -> str:
    """Return a value for a sentence.

    Strings are quoted, escaped and cut after 60 characters, and long numbers shortened. Bytes and lists are given by
    their size.
    """
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
    """Return a value with its type, such as `the text "5"`, for messages about a wrong type."""
    match value:
        case str():
            return f"the text {shown(value)}"
        case bool() | None | list() | dict() | bytes():
            return shown(value)
        case _:
            return f"the number {shown(value)}"


def is_visible(character: str) -> bool:
    """Return whether a character is visible as itself: no control, line end, special space or bidirectional control."""
    return character.isprintable() and _WITHOUT_GLYPH.match(character) is None


def seen(text: str) -> str:
    r"""Return a text with invisible characters and bidirectional controls escaped as \uXXXX or \UXXXXXXXX."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(each if is_visible(each) else _code(each) for each in text)


def _code(character: str) -> str:
    point = ord(character)
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def types(names: Sequence[str]) -> str:
    """Return JSON Schema types in words, such as `a number or text`."""
    return any_of([_TYPES.get(name, name) for name in sorted(names)])


def listed(values: Sequence[Any]) -> str:
    """Return the values of a list, at most 12, and the number of further ones."""
    texts = [shown(value) for value in values[:MOST_VALUES]]
    more = len(values) - len(texts)
    return ", ".join(texts) + (f" and {more} more" if more > 0 else "")


def any_of(words: Sequence[str]) -> str:
    """Return words joined with commas and `or`."""
    *first, last = words or ("nothing",)
    return f"{', '.join(first)} or {last}" if first else last


def counted(number: int, noun: str) -> str:
    """Return a count with its noun, such as `1 row` or `1,200 rows`; the plural adds an s."""
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
    """Return a date or a time for a sentence; an Avro integer as ISO 8601, rounded down to milliseconds.

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
    """Return the message of a violation as a sentence with a subject. It contains no value of the record."""
    message = violation.message
    path = tokens(violation.pointer)
    if message.startswith("has items") and path and path[-1].isdigit():
        path = path[:-1]  # the place is that of the item, the sentence about the array
    name = path[-1] if path else ""
    if name.isdigit():  # an element says nothing without its array
        name = "/".join(path[-2:])
    if _NEEDS_SUBJECT.match(message):
        # `*` stands for a name that the schema does not declare, and that may be personal.
        subject = {"": "the record", "*": "an undeclared property"}.get(name, name)
        message = f"{subject} {message}"
    return message


def split_words(value: object) -> object:
    """Return a text as a tuple of its words, separated by commas or spaces; other values unchanged."""
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value
