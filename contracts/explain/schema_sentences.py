"""Sentences about records that break their JSON Schema, and what would have fitted, one for each keyword."""

from __future__ import annotations

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


def schema_sentence(  # noqa: C901, PLR0911, PLR0912 - a table
    error: jsonschema_rs.ValidationError, pointer: str, patterns: EcmaPatterns, *, names_hidden: bool
) -> str | None:
    """Say with its values how a record breaks its schema at `pointer`; None where the message says all there is.

    `patterns` rewrote the patterns of the schema. `names_hidden` says that names that the schema does not declare must
    not be told.
    """
    kinds = jsonschema_rs.ValidationErrorKind
    name = name_of(pointer)
    value: Any = error.instance
    match error.kind:
        case kinds.Type(types=types):
            return f"{name} is {described(value)}, not {words.types(types)}"
        case kinds.Minimum(limit=limit):
            return f"{name} {shown(value)} is below {shown(limit)}"
        case kinds.ExclusiveMinimum(limit=limit):
            return f"{name} {shown(value)} is not above {shown(limit)}"
        case kinds.Maximum(limit=limit):
            return f"{name} {shown(value)} is above {shown(limit)}"
        case kinds.ExclusiveMaximum(limit=limit):
            return f"{name} {shown(value)} is not below {shown(limit)}"
        case kinds.MultipleOf(multiple_of=step):
            return f"{name} {shown(value)} is no multiple of {shown(step)}"
        case kinds.MinLength(limit=limit):
            return f"{name} {shown(value)} has {counted(len(value), 'character')}, fewer than {limit}"
        case kinds.MaxLength(limit=limit):
            return f"{name} {shown(value)} has {counted(len(value), 'character')}, more than {limit}"
        case kinds.MinItems(limit=limit):
            return f"{name} has {counted(len(value), 'item')}, fewer than {limit}"
        case kinds.MaxItems(limit=limit):
            return f"{name} has {counted(len(value), 'item')}, more than {limit}"
        case kinds.MinProperties(limit=limit):
            return f"{name} has {_properties(len(value))}, fewer than {limit}"
        case kinds.MaxProperties(limit=limit):
            return f"{name} has {_properties(len(value))}, more than {limit}"
        case kinds.Pattern(pattern=pattern):
            return f"{name} is {shown(value)}, not of the form {patterns.original(pattern)}"
        case kinds.Format(format=wanted):
            return f"{name} is {shown(value)}, not {_format(wanted).partition(',')[0]}"
        case kinds.Enum():
            return f"{name} is {shown(value)}, none of the values that the schema lists"
        case kinds.Constant():
            return f"{name} is {shown(value)}, not the value that the schema gives"
        case kinds.UniqueItems():
            return _twice(name, value)
        case kinds.AdditionalProperties(unexpected=found) | kinds.UnevaluatedProperties(unexpected=found):
            return None if names_hidden else f"{name} has {_named(found)}, which the schema does not allow"
        case kinds.PropertyNames():
            return None
        case kinds.AnyOf() | kinds.OneOfNotValid() | kinds.OneOfMultipleValid() | kinds.Not():
            if isinstance(value, dict | list):
                return None
            return f"{name} is {shown(value)}, which {_ALTERNATIVES[type(error.kind)]}"
        case _:
            return None


_ALTERNATIVES: Final[Mapping[type, str]] = {
    jsonschema_rs.ValidationErrorKind.AnyOf: "fits none of the alternatives of the schema",
    jsonschema_rs.ValidationErrorKind.OneOfNotValid: "fits none of the alternatives of the schema",
    jsonschema_rs.ValidationErrorKind.OneOfMultipleValid: "fits more than one alternative of the schema",
    jsonschema_rs.ValidationErrorKind.Not: "the schema excludes",
}


def schema_remedy(error: jsonschema_rs.ValidationError, patterns: EcmaPatterns) -> str | None:  # noqa: C901, PLR0911, PLR0912 - a table
    """Return what would have fitted, from the schema alone: the rest of a sentence that begins `passes with`."""
    kinds = jsonschema_rs.ValidationErrorKind
    match error.kind:
        case kinds.Type(types=types):
            return words.types(types)
        case kinds.Required(property=name):
            return f"a value in {name}"
        case kinds.Minimum(limit=limit):
            return f"a value from {shown(limit)}"
        case kinds.ExclusiveMinimum(limit=limit):
            return f"a value above {shown(limit)}"
        case kinds.Maximum(limit=limit):
            return f"a value up to {shown(limit)}"
        case kinds.ExclusiveMaximum(limit=limit):
            return f"a value below {shown(limit)}"
        case kinds.MultipleOf(multiple_of=step):
            return f"a multiple of {shown(step)}"
        case kinds.MinLength(limit=limit):
            return f"at least {counted(limit, 'character')}"
        case kinds.MaxLength(limit=limit):
            return f"at most {counted(limit, 'character')}"
        case kinds.MinItems(limit=limit):
            return f"at least {counted(limit, 'item')}"
        case kinds.MaxItems(limit=limit):
            return f"at most {counted(limit, 'item')}"
        case kinds.MinProperties(limit=limit):
            return f"at least {_properties(limit)}"
        case kinds.MaxProperties(limit=limit):
            return f"at most {_properties(limit)}"
        case kinds.Pattern(pattern=pattern):
            return f"text of the form {patterns.original(pattern)}"
        case kinds.Format(format=wanted):
            return _format(wanted)
        case kinds.Enum(options=options):
            return f"one of: {words.listed(options)}"
        case kinds.Constant(expected_value=wanted):
            return shown(wanted)
        case kinds.UniqueItems():
            return "items that differ from each other"
        case kinds.Contains():
            return "as many items of the kind that the schema asks for as it wants"
        case kinds.PropertyNames():
            return "names that the schema allows"
        case kinds.AnyOf() | kinds.OneOfNotValid():
            return _alternatives(error.kind.context, error.instance_path, patterns)
        case kinds.OneOfMultipleValid():
            return "a value that fits exactly one alternative"
        case kinds.Not():
            return "a value that does not fit what stands under `not`"
        case _:
            return "nothing there" if _is_closed(error) else None


def _format(name: str) -> str:
    return _FORMATS.get(name, f"text of the format {name}")


def _is_closed(error: jsonschema_rs.ValidationError) -> bool:
    kinds = jsonschema_rs.ValidationErrorKind
    return isinstance(
        error.kind,
        kinds.FalseSchema
        | kinds.AdditionalProperties
        | kinds.UnevaluatedProperties
        | kinds.AdditionalItems
        | kinds.UnevaluatedItems,
    )


def _alternatives(
    context: Sequence[Sequence[jsonschema_rs.ValidationError]],
    place: Sequence[str | int],
    patterns: EcmaPatterns,
) -> str:
    """Name the alternatives of which each is refused for one plain reason; else say that there are some."""
    plain = [schema_remedy(errors[0], patterns) if len(errors) == 1 else None for errors in context]
    at_once = all(list(errors[0].instance_path) == list(place) for errors in context if errors)
    told = list(dict.fromkeys(each for each in plain if each is not None))
    if at_once and told and None not in plain:
        return words.any_of(told)
    return f"a value that fits one of {counted(len(context), 'alternative')}"


def _named(names: Sequence[str]) -> str:
    found = ", ".join(shown(name) for name in names[:_MOST_NAMES])
    more = len(names) - _MOST_NAMES
    return f"the {'property' if len(names) == 1 else 'properties'} {found}" + (
        f" and {more} more" if more > 0 else ""
    )


def _properties(number: int) -> str:
    return "1 property" if number == 1 else f"{number:,} properties"


def _twice(name: str, items: list[Any]) -> str | None:
    """Return which two items are the same."""
    for (one, first), (other, second) in combinations(enumerate(items[:_MOST_PAIRS], 1), 2):
        if type(first) is type(second) and first == second:
            return f"{name} has the same item twice: number {one} and number {other}"
    return None
