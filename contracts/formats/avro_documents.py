"""The named types that an Avro schema defines, as written in JSON. Source: Apache Avro specification, "Names"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

NAMED: Final = ("record", "error", "enum", "fixed")
"""Kinds of types with a name."""


def definitions(schema: Any, space: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every named type that a schema defines with its full name, outer ones first."""
    if isinstance(schema, list):
        for branch in schema:
            yield from definitions(branch, space)
    elif isinstance(schema, dict):
        kind = schema.get("type")
        if isinstance(kind, str) and kind in NAMED and "name" in schema:
            name = full_name(schema["name"], space_of(schema, space))
            space = name.rpartition(".")[0]
            yield name, schema
            for field in schema.get("fields", ()):
                yield from definitions(field["type"], space)
        elif isinstance(kind, dict | list):
            yield from definitions(kind, space)
        for member in ("items", "values"):
            yield from definitions(schema.get(member), space)


def full_name(name: str, space: str) -> str:
    """Return the full name of a type by the name that is used for it in a namespace."""
    return name if "." in name or not space else f"{space}.{name}"


def space_of(schema: Mapping[str, Any], space: str) -> str:
    """Return the namespace of a named type that is defined in the namespace `space`."""
    name = str(schema["name"])
    if "." in name:
        return name.rpartition(".")[0]
    found = schema.get("namespace")
    return space if found is None else str(found)
