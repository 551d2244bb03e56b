"""Keywords of JSON Schema that contain schemas, in all drafts, and functions to walk and to rewrite schemas.

Source: JSON Schema drafts 4, 6 and 7, validation; 2019-09 chapter 9 and 2020-12 chapters 10 and 11 of core.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import orjson

from tidegate.contracts.document.fields import tokens, value_at

ONE_SCHEMA: Final = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
"""Keywords whose value is a schema."""
SCHEMA_LIST: Final = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
"""Keywords whose value is a list of schemas; up to draft 2019-09, `items` may be a schema or a list."""
SCHEMA_MAP: Final = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
"""Keywords whose value is an object of schemas by name; `dependencies` may also contain lists of names."""

REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
"""Keywords whose value refers to a schema."""
_MAX_CHAIN: Final = 16


def subschemas(schema: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the direct subschemas of a schema, each with its path from the schema, in document order."""
    for keyword, value in schema.items():
        if isinstance(value, list) and keyword in SCHEMA_LIST:
            yield from (((keyword, str(index)), part) for index, part in enumerate(value))
        elif isinstance(value, dict) and keyword in SCHEMA_MAP:
            yield from (((keyword, name), part) for name, part in value.items())
        elif keyword in ONE_SCHEMA:
            yield (keyword,), value


_LIMITS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_MAX_EXACT: Final = 2**53
_WHOLE: Final = re.compile(rb"\.0[,}\]]")
"""The end of a whole number with a point in JSON text, as orjson writes it up to 10^16."""


def with_whole_limits(schema: Any) -> Any:
    """Return a schema with whole limits such as 10.0 as integers: a copy, or the schema itself if it has none.

    jsonschema-rs compares a number with an integer exactly, but with a double only by the number's nearest double.
    """
    try:
        if _WHOLE.search(orjson.dumps(schema)) is None:
            return schema
    except orjson.JSONEncodeError:  # integers beyond 64 bits
        pass
    return subschemas_changed(schema, _with_whole_limits)


def _with_whole_limits(schema: dict[str, Any]) -> dict[str, Any]:
    whole = {
        keyword: int(limit)
        for keyword in _LIMITS
        if isinstance(limit := schema.get(keyword), float) and limit.is_integer() and abs(limit) <= _MAX_EXACT
    }
    return {**schema, **whole} if whole else schema


def referred(root: Any, reference: str) -> Any:
    """Return the part of a document that a local reference `#` or `#/...` names; None for other references."""
    return value_at(root, tokens(reference[1:])) if reference == "#" or reference.startswith("#/") else None


def dereferenced(root: Any, schema: Any) -> Any:
    """Return the schema at the end of a chain of local references `#/...`, or `schema` itself without one.

    None if the chain leads nowhere or is longer than _MAX_CHAIN. Other references are not followed, and keywords beside
    a reference are left out. The comparison of schemas and the fast path need those, so they follow references themselves.
    """
    for _ in range(_MAX_CHAIN):  # a chain of references may be a cycle
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        schema = referred(root, reference)
    return None


def subschemas_changed(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Return a copy of a schema with `change` applied to each schema object in it, inner ones first.

    Boolean schemas are kept.
    """
    if not isinstance(schema, dict):
        return schema
    return change({keyword: _parts_changed(keyword, value, change) for keyword, value in schema.items()})


def _parts_changed(keyword: str, value: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    if isinstance(value, list) and keyword in SCHEMA_LIST:
        return [subschemas_changed(part, change) for part in value]
    if isinstance(value, dict) and keyword in SCHEMA_MAP:
        return {name: subschemas_changed(part, change) for name, part in value.items()}
    return subschemas_changed(value, change) if keyword in ONE_SCHEMA else value
