"""Formatting of numbers, shares, sizes, times and invisible characters for the desk."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, Final

from tidegate.contracts.explain.account import Explanation
from tidegate.contracts.verdict import Stage
from tidegate.contracts.words import is_visible, seen

THIN_SPACE = "\u2009"
ABSENT = "–"  # noqa: RUF001 - an en dash is what a table shows for nothing


def grouped(number: int) -> str:
    """Format an integer with thin spaces between groups of thousands."""
    return f"{number:,}".replace(",", THIN_SPACE)


def rate(per_second: float | None) -> str:
    """Format records per second: with one decimal below ten, otherwise as an integer; an en dash for None."""
    if per_second is None:
        return ABSENT
    if 0 < per_second < 10:
        return f"{per_second:.1f}"
    return grouped(round(per_second))


def percent(share: float | None) -> str:
    """Format a share (1 is all) in percent: two decimals below 1 %, otherwise one; an en dash for None."""
    if share is None:
        return ABSENT
    value = share * 100
    if value == 0:
        return "0"
    if value < 0.01:
        return f"<{THIN_SPACE}0.01"
    return f"{value:.2f}" if value < 1 else f"{value:.1f}" if value < 99.95 else "100"


def byte_size(count: int) -> str:
    """Format a number of bytes in B, KB or MB (decimal)."""
    for unit, size in (("MB", 1_000_000), ("KB", 1_000)):
        if count >= size:
            return f"{count / size:.1f}{THIN_SPACE}{unit}"
    return f"{count}{THIN_SPACE}B"


def ago(moment: datetime, now: datetime) -> str:
    """Format how long ago a time was, in the largest unit. The script of the page uses the same words."""
    seconds = int((now - moment).total_seconds())
    if seconds < 5:
        return "now" if seconds > -60 else "in the future"
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        if seconds >= size:
            return f"{grouped(seconds // size)}{THIN_SPACE}{unit} ago"
    raise AssertionError("unreachable: five seconds or more have a unit")


def exact(moment: datetime) -> str:
    """Format a time in UTC, with milliseconds unless they are zero."""
    utc = moment.astimezone(UTC)
    milliseconds = f".{utc.microsecond // 1000:03d}" if utc.microsecond else ""
    return f"{utc:%Y-%m-%d %H:%M:%S}{milliseconds} UTC"


def machine(moment: datetime) -> str:
    """Format a time for the `datetime` attribute and for URLs (RFC 3339, UTC, milliseconds)."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def length_of(span: timedelta) -> str:
    """Format a duration in the largest unit that divides it, such as 90 s, 5 min, 24 h or 7 d."""
    seconds = int(span.total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds % size == 0 and (seconds >= 2 * size or seconds == size):
            return f"{seconds // size}{THIN_SPACE}{unit}"
    return f"{seconds}{THIN_SPACE}s"


# The first words of sentences that do not begin with the name of a field. The case of a field's name must stay.
_OURS = ("the ", "an ", "required ", "column ")


def sentence(explanation: Explanation) -> str:
    """Return the sentence of an explanation with an initial capital, unless it starts with the name of a field."""
    text = explanation.sentence
    return text[:1].upper() + text[1:] if text.startswith(_OURS) else text


def ticked(text: str) -> list[tuple[str, bool]]:
    """Split a sentence into runs of (text, is_code) at its backticks, which enclose names."""
    own = text[:1].upper() + text[1:] if text.startswith((*_OURS, "a ", "no ", "status ")) else text
    return [(part, bool(at % 2)) for at, part in enumerate(own.split("`")) if part]


_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible_runs(data: bytes) -> list[tuple[str, bool]]:
    r"""Split UTF-8 text into runs of (text, is_code), with codes such as U+202E for invisible characters.

    Bytes that are not UTF-8 become `\xNN`.
    """
    runs: list[tuple[str, bool]] = []
    text = data.decode("utf-8", "surrogateescape")
    if text.isascii() and text.isprintable():
        return [(text, False)] if text else []
    for has_glyphs, group in groupby(text, is_visible):
        part = list(group)
        runs += [("".join(part), False)] if has_glyphs else [(_code(each), True) for each in part]
    return runs


def visible_text(data: bytes) -> str:
    """Return the runs of `visible_runs` as one string."""
    return "".join(text for text, _ in visible_runs(data))


def visible(value: Any) -> Any:
    """Return the value that a template writes: in strings, codes replace invisible and bidirectional characters.

    Line feeds and the thin spaces of this module are kept. Other types are returned unchanged.
    """
    if type(value) is not str or (value.isascii() and value.isprintable()):
        return value
    return THIN_SPACE.join("\n".join(map(seen, part.split("\n"))) for part in value.split(THIN_SPACE))


def _code(character: str) -> str:
    point = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    if 0xDC80 <= point <= 0xDCFF:  # surrogateescape: the low byte is the byte that is not UTF-8
        return f"\\x{point - 0xDC00:02x}"
    return f"U+{point:04X}"


_NO_PROPERTY = "a record has a property that the schema does not allow"
_NO_ITEM = "an array has an element that the schema does not allow"
_NO_TARGET = "a value does not fit the schema that is referred to"
KEYWORDS: Final = {
    "type": "a value has another type than the schema allows",
    "required": "a required field is missing",
    "enum": "a value is not among those that the schema lists",
    "const": "a value is not the one that the schema names",
    "pattern": "a text does not match its pattern",
    "format": "a text does not have its format, such as a date",
    "contentEncoding": "a text does not have its encoding, such as base64",
    "contentMediaType": "a text is not of its media type, such as JSON",
    "minimum": "a number is too small",
    "exclusiveMinimum": "a number is too small",
    "maximum": "a number is too large",
    "exclusiveMaximum": "a number is too large",
    "multipleOf": "a number is not a multiple of what the schema names",
    "minLength": "a text is too short",
    "maxLength": "a text is too long",
    "minItems": "an array has too few elements",
    "maxItems": "an array has too many elements",
    "uniqueItems": "an array holds an element twice",
    "contains": "an array has too few or too many elements of the kind that the schema asks for",
    "items": _NO_ITEM,
    "prefixItems": _NO_ITEM,
    "additionalItems": _NO_ITEM,
    "unevaluatedItems": _NO_ITEM,
    "minProperties": "a record has too few properties",
    "maxProperties": "a record has too many properties",
    "propertyNames": "a property has a name that the schema does not allow",
    "properties": _NO_PROPERTY,
    "patternProperties": _NO_PROPERTY,
    "additionalProperties": _NO_PROPERTY,
    "unevaluatedProperties": _NO_PROPERTY,
    "dependentRequired": "a field that another field asks for is missing",
    "dependencies": "a record does not have what one of its fields asks for",
    "dependentSchemas": "a record does not have what one of its fields asks for",
    "oneOf": "a value fits none, or more than one, of the alternatives",
    "anyOf": "a value fits none of the alternatives",
    "allOf": "a value does not fit all schemas that the schema combines",
    "not": "a value fits the schema that must not fit",
    "if": "a value does not fit what the schema asks for under a condition",
    "$ref": _NO_TARGET,
    "$dynamicRef": _NO_TARGET,
    "$recursiveRef": _NO_TARGET,
    "falseSchema": "a value is there where the schema allows none",
}
"""What each keyword of JSON Schema refuses; `falseSchema` is the code of the schema `false`."""


def keyword_words(stage: Stage, code: str) -> str | None:
    """Return what a keyword of JSON Schema refuses, in words; None for other codes."""
    return KEYWORDS.get(code) if stage is Stage.SCHEMA else None
