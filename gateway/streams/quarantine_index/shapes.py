"""The shape of an offending value: its type and class, never the value itself."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

ABSENT: Final = "absent"
UNKNOWN: Final = "unknown"
"""The shape of a value that the index cannot read, such as one in a record that is too large."""

LONG_CHARACTERS: Final = 1_000
_MOST_SENTINEL_CHARACTERS = 40
_LONGEST_PATTERN = 254
"""Longer texts are not compared with the patterns below: a mail address is no longer (RFC 5321)."""

_NUMBER = re.compile(r"[+-]?(\d+\.\d*|\.?\d+)([eE][+-]?\d+)?")
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_DATE_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}.*")
_YEAR_FIRST = re.compile(r"\d{4}([./-])\d{1,2}\1\d{1,2}")
_YEAR_LAST = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4}|\d{2})")
_UUID = re.compile(r"\{?[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\}?")
_MAIL = re.compile(r"[^\s@]{1,64}@[^\s@.]+(\.[^\s@.]+)+")
_MAGNITUDES = ((1.0, "below 1"), (1e3, "below 1,000"), (1e6, "below a million"), (1e9, "below a billion"))
_TWELVE = 12
_SIZED: Final[Mapping[type, str]] = {dict: "object", list: "array", bytes: "bytes"}


def shape_of(value: Any, sentinels: frozenset[str] = frozenset()) -> str:
    """Return the shape of a decoded value of JSON or Avro.

    `sentinels` are the values (as `sentinel` writes them) that the violated rule itself names; such a value is its own
    shape, because the contract shows it.
    """
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case dict() | list() | bytes():
            kind = _SIZED[type(value)]
            return kind if value else f"empty {kind}"
    if sentinels and (written := sentinel(value)) in sentinels:
        return written
    return _shape_of_text(value) if isinstance(value, str) else _shape_of_number(value)


def sentinel(value: Any) -> str:
    """Return the text of a string or number that a rule names; equal values have equal texts. Long texts are cut."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, Decimal):
        written = f"{value.normalize():f}"
    else:
        written = f'"{value}"' if isinstance(value, str) else str(value)
    return written if len(written) <= _MOST_SENTINEL_CHARACTERS else f"{written[:_MOST_SENTINEL_CHARACTERS]}…"


def _shape_of_number(value: Any) -> str:
    if value == 0:
        return "zero"
    if isinstance(value, float) and not math.isfinite(value):
        return "not a finite number"
    kind = "integer" if _is_whole(value) else "fraction"
    sign = "negative" if value < 0 else "positive"
    magnitude = abs(value)
    size = next((words for limit, words in _MAGNITUDES if magnitude < limit), "a billion or more")
    return f"{sign} {kind}, {size}"


def _is_whole(value: Any) -> bool:
    if isinstance(value, Decimal):
        return bool(value == value.to_integral_value())
    return isinstance(value, int) or bool(value.is_integer())


def _shape_of_text(text: str) -> str:  # noqa: PLR0911 - one for each class
    if not text:
        return "empty text"
    if text.isspace():
        return "blank text"
    if len(text) > LONG_CHARACTERS:
        return f"text longer than {LONG_CHARACTERS:,} characters"
    if len(text) > _LONGEST_PATTERN:
        return "text"
    if text.isascii() and text.isdigit():
        return "digits in a text"
    for pattern, words in _PATTERNS.items():
        if pattern.fullmatch(text):
            return words
    return _order(found) if (found := _YEAR_LAST.fullmatch(text)) else "text"


_PATTERNS: Mapping[re.Pattern[str], str] = {
    _ISO_DATE: "date, year-month-day",
    _DATE_TIME: "date and time",
    _NUMBER: "number in a text",
    _UUID: "UUID",
    _MAIL: "e-mail address",
    _YEAR_FIRST: "date-like text, year first",
}


def _order(found: re.Match[str]) -> str:
    """Return the class of a text such as 31/12/2026; if both numbers can be the month, the order is unknown."""
    first, second = int(found[1]), int(found[3])
    if first > _TWELVE >= second:
        return "date-like text, day first"
    if second > _TWELVE >= first:
        return "date-like text, month first"
    return "date-like text, day or month first"
