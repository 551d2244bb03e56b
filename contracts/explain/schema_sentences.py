"""Sentences about violations of a JSON Schema, and about valid values, for each keyword."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Final

import jsonschema_rs

from tidegate.contracts import words
from tidegate.contracts.formats.json_patterns import EcmaPatterns
from tidegate.contracts.words import counted, described, name_of, shown

_MOST_PAIRS: Final = 200
_MOST_NAMES: Final = 5
_FORMATS: Final = {
    "date": "a date, such as 2026-03-01",
    "date-time": "a date and time with its offset, such as 2026-03-01T12:00:00Z",
    "time": "a time with its offset, such as 12:00:00Z",
    "duration": "a duration, such as P3D",
    "email": "an e-mail address",
    "uuid": "a UUID",
    "uri": "a URI",
    "ipv4": "an IPv4 address",
    "ipv6": "an IPv6 address",
    "hostname": "a host name",
}
_Kinds = jsonschema_rs.ValidationErrorKind
_BOUNDS: Final[Mapping[type, tuple[str, str]]] = {
    _Kinds.Minimum: ("is below", "from"),
    _Kinds.ExclusiveMinimum: ("is not above", "above"),
    _Kinds.Maximum: ("is above", "up to"),
    _Kinds.ExclusiveMaximum: ("is not below", "below"),
}
"""Phrases for a value outside of a bound, and for a value within it."""
_SIZES: Final[Mapping[type, tuple[str, str, str]]] = {
    _Kinds.MinLength: ("character", "fewer than", "at least"),
    _Kinds.MaxLength: ("character", "more than", "at most"),
    _Kinds.MinItems: ("item", "fewer than", "at least"),
    _Kinds.MaxItems: ("item", "more than", "at most"),
    _Kinds.MinProperties: ("property", "fewer than", "at least"),
    _Kinds.MaxProperties: ("property", "more than", "at most"),
}
"""The unit that is counted, and the words for a wrong and for an allowed count."""


def schema_sentence(  # noqa: C901, PLR0911, PLR0912 - a table
    error: jsonschema_rs.ValidationError, pointer: str, patterns: EcmaPatterns, *, names_hidden: bool
) -> str | None:
    """Return a sentence with values on how a record violates its schema at `pointer`; None if the message is enough.

    `patterns` has the original text of the schema's patterns. With `names_hidden`, undeclared names are not shown.
    """
    name = name_of(pointer)
    value: Any = error.instance
    limit = getattr(error.kind, "limit", None)
    if type(error.kind) in _BOUNDS:
        return f"{name} {shown(value)} {_BOUNDS[type(error.kind)][0]} {shown(limit)}"
    if type(error.kind) in _SIZES:
        unit, wrong, _ = _SIZES[type(error.kind)]
        said = f"{name} {shown(value)}" if isinstance(value, str) else name
        return f"{said} has {_counted(len(value), unit)}, {wrong} {limit}"
    match error.kind:
        case _Kinds.Type(types=types):
            return f"{name} is {described(value)}, not {words.types(types)}"
        case _Kinds.MultipleOf(multiple_of=step):
            return f"{name} {shown(value)} is not a multiple of {shown(step)}"
        case _Kinds.Pattern(pattern=pattern):
            return f"{name} is {shown(value)}, not of the form {patterns.original(pattern)}"
        case _Kinds.Format(format=wanted):
            return f"{name} is {shown(value)}, not {_format(wanted).partition(',')[0]}"
        case _Kinds.Enum():
            return f"{name} is {shown(value)}, none of the values that the schema lists"
        case _Kinds.Constant():
            return f"{name} is {shown(value)}, not the value that the schema gives"
        case _Kinds.UniqueItems():
            return _twice(name, value)
        case _Kinds.AdditionalProperties(unexpected=found) | _Kinds.UnevaluatedProperties(unexpected=found):
            return None if names_hidden else f"{name} has {_named(found)}, which the schema does not allow"
        case _Kinds.PropertyNames():
            return None
        case _Kinds.AnyOf() | _Kinds.OneOfNotValid() | _Kinds.OneOfMultipleValid() | _Kinds.Not():
            if isinstance(value, dict | list):
                return None
            return f"{name} is {shown(value)}, which {_ALTERNATIVES[type(error.kind)]}"
        case _:
            return None


_ALTERNATIVES: Final[Mapping[type, str]] = {
    _Kinds.AnyOf: "fits none of the alternatives of the schema",
    _Kinds.OneOfNotValid: "fits none of the alternatives of the schema",
    _Kinds.OneOfMultipleValid: "fits more than one alternative of the schema",
    _Kinds.Not: "the schema excludes",
}


def schema_remedy(error: jsonschema_rs.ValidationError, patterns: EcmaPatterns) -> str | None:  # noqa: C901, PLR0911, PLR0912 - a table
    """Return the valid values, from the schema alone, to follow the words `passes with`; None if unknown."""
    limit: Any = getattr(error.kind, "limit", None)
    if type(error.kind) in _BOUNDS:
        return f"a value {_BOUNDS[type(error.kind)][1]} {shown(limit)}"
    if type(error.kind) in _SIZES:
        unit, _, allowed = _SIZES[type(error.kind)]
        return f"{allowed} {_counted(limit, unit)}"
    match error.kind:
        case _Kinds.Type(types=types):
            return words.types(types)
        case _Kinds.Required(property=name):
            return f"a value in {name}"
        case _Kinds.MultipleOf(multiple_of=step):
            return f"a multiple of {shown(step)}"
        case _Kinds.Pattern(pattern=pattern):
            return f"text of the form {patterns.original(pattern)}"
        case _Kinds.Format(format=wanted):
            return _format(wanted)
        case _Kinds.Enum(options=options):
            return f"one of: {words.listed(options)}"
        case _Kinds.Constant(expected_value=wanted):
            return shown(wanted)
        case _Kinds.UniqueItems():
            return "items that differ from each other"
        case _Kinds.Contains():
            return "as many items of the kind that the schema asks for as it wants"
        case _Kinds.PropertyNames():
            return "names that the schema allows"
        case _Kinds.AnyOf() | _Kinds.OneOfNotValid():
            return _alternatives(error.kind.context, error.instance_path, patterns)
        case _Kinds.OneOfMultipleValid():
            return "a value that fits exactly one alternative"
        case _Kinds.Not():
            return "a value that does not fit what stands under `not`"
        case _Kinds.FalseSchema() | _Kinds.AdditionalProperties() | _Kinds.UnevaluatedProperties():
            return "nothing there"
        case _Kinds.AdditionalItems() | _Kinds.UnevaluatedItems():
            return "nothing there"
        case _:
            return None


def _format(name: str) -> str:
    return _FORMATS.get(name, f"text of the format {name}")


def _alternatives(
    context: Sequence[Sequence[jsonschema_rs.ValidationError]],
    place: Sequence[str | int],
    patterns: EcmaPatterns,
) -> str:
    """Return the valid values of the alternatives if each fails for one simple reason, else only their number."""
    plain = [schema_remedy(errors[0], patterns) if len(errors) == 1 else None for errors in context]
    at_once = all(list(errors[0].instance_path) == list(place) for errors in context if errors)
    sentences = list(dict.fromkeys(each for each in plain if each is not None))
    if at_once and sentences and None not in plain:
        return words.any_of(sentences)
    return f"a value that fits one of {counted(len(context), 'alternative')}"


def _named(names: Sequence[str]) -> str:
    found = ", ".join(shown(name) for name in names[:_MOST_NAMES])
    more = len(names) - _MOST_NAMES
    return f"the {'property' if len(names) == 1 else 'properties'} {found}" + (
        f" and {more} more" if more > 0 else ""
    )


def _counted(number: int, unit: str) -> str:
    return f"{number:,} properties" if unit == "property" and number != 1 else counted(number, unit)


def _twice(name: str, items: list[Any]) -> str | None:
    """Return a sentence with the first two items that are equal; None if none is found among the first 200."""
    for (one, first), (other, second) in combinations(enumerate(items[:_MOST_PAIRS], 1), 2):
        if type(first) is type(second) and first == second:
            return f"{name} has the same item twice: number {one} and number {other}"
    return None


_PREFIX: Final = (
    "a value that begins with the zero byte and a schema id of 4 bytes, as Confluent's serialisers write it"
)
_AVRO: Final = "bytes that were written with the schema of the contract"
_WHOLE: Final = "one complete JSON value"
REMEDIES: Final = {
    "value.null": "a value; the contract lets no tombstone pass (`tombstones: refuse`)",
    "frame.truncated": _PREFIX,
    "frame.missing": _PREFIX,
    "json.empty": _WHOLE,
    "json.invalid": _WHOLE,
    "json.invalid-utf8": "JSON in UTF-8",
    "json.not-finite": "a finite number, or null where the schema allows it",
    "json.lone-surrogate": "whole characters: both halves of a pair, or none",
    "json.number-range": "an exponent of at most 18 digits",
    "json.too-deep": "at most 254 levels",
    "json.too-much-work": "a record of fewer levels and items, or a schema that names each part of a value once",
    "avro.too-deep": "at most 254 levels",
}
"""Descriptions of a valid record, by the code of the violation."""

_COLUMNS: Final = {
    "boolean": "true or false",
    "int": "a whole number of 32 bits",
    "long": "a whole number of 64 bits",
    "float": "a number of at most 3.4e38",
    "double": "a number of at most 1.7e308",
    "string": "text",
    "binary": "bytes",
    "date": "a date from 0001-01-01 to 9999-12-31",
    "timestamp": "a date and time with its offset, in whole microseconds, from year 1 to 9999",
    "timestamp_ntz": "a date and time without an offset, in whole microseconds, from year 1 to 9999",
    "json": "a value without NaN or infinities",
}


def payload_remedy(code: str) -> str | None:
    """Return the description of a valid record for a violation of frame or payload; None for any other code."""
    return REMEDIES.get(code) or (_AVRO if code.startswith("avro.") else None)


def column_remedy(column_type: str) -> str | None:
    """Return the description of the values that a column type can hold; None for an unknown type."""
    name, _, parameters = column_type.partition("(")
    if name == "decimal":
        precision, scale = (int(each) for each in parameters.rstrip(")").split(","))
        return f"a number of at most {precision - scale} digits before the point and {scale} after it"
    return _COLUMNS.get(name)


def json_flaw(payload: bytes) -> str | None:
    """Return where a payload stops being JSON, without its text: line and column from 1, or the byte; else None."""
    try:
        json.loads(payload)
    except UnicodeDecodeError as error:
        return f"byte {error.start + 1:,} is not UTF-8"
    except json.JSONDecodeError as error:
        if error.pos >= len(error.doc):
            return "it ends before the value is complete"
        return f"it stops being JSON at line {error.lineno:,}, column {error.colno:,}"
    except (ValueError, RecursionError):
        return None
    return None
