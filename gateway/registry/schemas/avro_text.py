"""Avro schemas as text: Confluent's canonical spelling, with references resolved.

Source: Apache Avro 1.12 (Java), `Schema.toString`: the order of members, and when a namespace is written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tidegate.contracts.formats.avro_documents import NAMED, definitions, full_name, space_of

_PRIMITIVES = {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
_COMPLEX = {"record", "error", "enum", "fixed", "array", "map"}
_RESERVED = ("type", "name", "namespace", "doc", "fields", "items", "values", "symbols", "size", "aliases")
"""Attribute names that are never extra properties: the Java library drops those that a type does not use."""
_FIELD = ("name", "type", "doc", "default", "order", "aliases")


def avro_text(schema: Any, *, sort_properties: bool = False) -> str:
    """Return a valid Avro schema as the text that Confluent's registry stores; `sort_properties` sorts extra ones."""
    return json.dumps(
        _Writer(sort_properties=sort_properties).written(schema, ""),
        ensure_ascii=False,
        allow_nan=False,
        separators=(",", ":"),
    )


class _Writer:
    def __init__(self, *, sort_properties: bool) -> None:
        self._sort = sort_properties

    def written(self, schema: Any, space: str) -> Any:
        if isinstance(schema, list):
            return [self.written(branch, space) for branch in schema]
        if isinstance(schema, str):
            return schema if schema in _PRIMITIVES else _short(full_name(schema, space), space)
        kind = schema["type"]
        if not isinstance(kind, str) or kind not in _COMPLEX:
            return self._annotated(schema, kind, space)
        found: dict[str, Any] = {"type": kind}
        if kind == "array":
            found["items"] = self.written(schema["items"], space)
        elif kind == "map":
            found["values"] = self.written(schema["values"], space)
        else:
            self._add_named(found, schema, space)
        found.update(self._properties(schema, (*_RESERVED, "default") if kind == "enum" else _RESERVED))
        if kind in NAMED and schema.get("aliases"):
            inner = space_of(schema, space)
            found["aliases"] = [_short(full_name(alias, inner), inner) for alias in schema["aliases"]]
        return found

    def _annotated(self, schema: Mapping[str, Any], kind: Any, space: str) -> Any:
        """Return the type under `type`, with the extra properties around it unless it is a union."""
        inner = self.written(kind, space)
        properties = self._properties(schema, _RESERVED)
        if not properties or isinstance(inner, list):
            return inner
        return {"type": inner, **properties} if isinstance(inner, str) else {**inner, **properties}

    def _add_named(self, found: dict[str, Any], schema: Mapping[str, Any], space: str) -> None:
        name = full_name(schema["name"], space_of(schema, space))
        inner, _, simple = name.rpartition(".")
        found["name"] = simple
        if inner != space:
            found["namespace"] = inner
        if schema.get("doc") is not None:
            found["doc"] = schema["doc"]
        match schema["type"]:
            case "enum":
                found["symbols"] = schema["symbols"]
                if "default" in schema:
                    found["default"] = schema["default"]
            case "fixed":
                found["size"] = schema["size"]
            case _:
                found["fields"] = [self._field(field, inner) for field in schema["fields"]]

    def _field(self, field: Mapping[str, Any], space: str) -> dict[str, Any]:
        found = {"name": field["name"], "type": self.written(field["type"], space)}
        if field.get("doc") is not None:
            found["doc"] = field["doc"]
        if "default" in field:
            found["default"] = field["default"]
        if str(field.get("order", "ascending")).lower() != "ascending":
            found["order"] = field["order"]
        if field.get("aliases"):
            found["aliases"] = field["aliases"]
        found.update(self._properties(field, _FIELD))
        return found

    def _properties(self, part: Mapping[str, Any], reserved: tuple[str, ...]) -> dict[str, Any]:
        names = [name for name in part if name not in reserved]
        return {name: part[name] for name in (sorted(names) if self._sort else names)}


def named_types(schema: Any) -> dict[str, dict[str, Any]]:
    """Return every named type that a schema defines, by full name, each with its namespace written out."""
    return {
        name: {**found, "name": name.rpartition(".")[2], "namespace": name.rpartition(".")[0]}
        for name, found in definitions(schema)
    }


def with_types(schema: Any, types: Mapping[str, Mapping[str, Any]]) -> Any:
    """Return a schema with the definitions of the types that it names but does not define, each at its first use."""
    return _Resolver(types, frozenset(named_types(schema))).resolved(schema, "")


class _Resolver:
    """An inserter of definitions at the first use of a name; `own` are the types that the schema defines itself."""

    def __init__(self, types: Mapping[str, Mapping[str, Any]], own: frozenset[str]) -> None:
        self._types = types
        self._own = own
        self._met: set[str] = set()

    def resolved(self, part: Any, space: str) -> Any:
        if isinstance(part, list):
            return [self.resolved(branch, space) for branch in part]
        if isinstance(part, str):
            return self._of_name(part, space)
        if part.get("type") in NAMED and "name" in part:
            return self._definition(part, space)
        found = dict(part)
        for member in ("items", "values"):
            if member in part:
                found[member] = self.resolved(part[member], space)
        kind = part.get("type")
        if kind is not None and (not isinstance(kind, str) or kind not in _COMPLEX):
            found["type"] = self.resolved(kind, space)
            if isinstance(found["type"], dict):  # a definition replaced a name
                return {**found, **found["type"]}
        return found

    def _of_name(self, name: str, space: str) -> Any:
        if name in _PRIMITIVES:
            return name
        full = full_name(name, space)
        if full in self._met or full in self._own:
            return full
        if full not in self._types:
            return name
        return self._definition(self._types[full], "")

    def _definition(self, part: Mapping[str, Any], space: str) -> Any:
        full = full_name(part["name"], space_of(part, space))
        if full in self._met:
            return full
        self._met.add(full)
        inner, _, simple = full.rpartition(".")
        found = {**part, "name": simple, "namespace": inner}
        if "fields" in part:
            found["fields"] = [
                {**field, "type": self.resolved(field["type"], inner)} for field in part["fields"]
            ]
        return found


def _short(name: str, space: str) -> str:
    """Return the shortest unambiguous form of a full name in a namespace."""
    inner, _, simple = name.rpartition(".")
    return simple if inner == space and simple not in _PRIMITIVES else name
