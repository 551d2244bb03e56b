"""The fields of a schema as Confluent's clients walk them: what a field is called, what it is, and how it is tagged.

Source: Confluent Schema Registry clients, `JsonSchemaUtils.transform` and `AvroSchemaUtils.transform`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tidegate.contracts.document.fields import join
from tidegate.contracts.formats.json_keywords import dereferenced
from tidegate.gateway.registry.schemas.avro_text import full_name
from tidegate.gateway.registry.schemas.entities import AVRO
from tidegate.gateway.registry.schemas.tags import TAGS

INLINE_RULES = "confluent:rules"
_MAX_DEPTH = 8
_MAX_FIELDS = 500
_JSON_TYPES = {
    "string": "STRING",
    "integer": "INT",
    "number": "DOUBLE",
    "boolean": "BOOLEAN",
}
_AVRO_TYPES = {
    name: name.upper() for name in ("string", "bytes", "int", "long", "float", "double", "boolean")
}

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """A field: its place in a record, and what clients tell a rule about it.

    `types` are the names of the primitive types that it may have beside null, `is_seen_null` whether a client asks a
    rule about a null too. `rules` are those that its schema carries.
    """

    path: Path
    full_name: str
    types: tuple[str, ...]
    is_seen_null: bool
    tags: frozenset[str]
    rules: tuple[Any, ...] = ()

    @property
    def pointer(self) -> str:
        """The JSON Pointer of the field, with `*` for every element of an array."""
        return join(self.path)

    @property
    def name(self) -> str:
        """The name of the field itself."""
        return self.path[-1]


@dataclass(slots=True)
class Fields:
    """The fields of a schema, the rules that it carries for the whole record, and the places that were left out."""

    found: list[Field] = field(default_factory=list)
    of_record: list[tuple[Path, Any]] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


def fields_of(schema_type: str, definition: Any) -> Fields:
    """Walk a self-contained schema."""
    fields = Fields()
    if schema_type == AVRO:
        _Avro(fields).walk(definition, (), "", 0)
    else:
        _Json(fields, definition).walk(definition, (), "$", 0)
    return fields


def _listed(part: Any, key: str) -> tuple[Any, ...]:
    found = part.get(key, ())
    return tuple(found) if isinstance(found, list) else ()


class _Json:
    def __init__(self, fields: Fields, root: Any) -> None:
        self._fields = fields
        self._root = root

    def walk(self, schema: Any, path: Path, name: str, depth: int) -> None:
        schema = dereferenced(self._root, schema)
        if not isinstance(schema, dict):
            return
        if depth > _MAX_DEPTH or len(self._fields.found) > _MAX_FIELDS:
            self._fields.left_out[join(path)] = "lies too deep"
            return
        for rule in _listed(schema, INLINE_RULES) if not path or path[-1] == "*" else ():
            self._fields.of_record.append((path, rule))
        for keyword in ("anyOf", "oneOf"):
            if any("properties" in branch for branch in _listed(schema, keyword) if isinstance(branch, dict)):
                self._fields.left_out[join(path) or "/"] = (
                    f"has fields under {keyword}, and a record has only some of them"
                )
        for branch in _listed(schema, "allOf"):
            self.walk(branch, path, name, depth + 1)
        properties = schema.get("properties", {})
        for key, member in properties.items() if isinstance(properties, dict) else ():
            self._property(member, (*path, key), f"{name}.{key}", depth)
        if isinstance(schema.get("items"), dict):
            self.walk(schema["items"], (*path, "*"), name, depth + 1)

    def _property(self, schema: Any, path: Path, name: str, depth: int) -> None:
        tags = schema.get(TAGS, ()) if isinstance(schema, dict) else ()
        inner = dereferenced(self._root, schema)
        if not isinstance(inner, dict):
            return
        types = inner.get("type", ())
        known = [types] if isinstance(types, str) else types
        primitive = [] if "enum" in inner or "const" in inner else [_JSON_TYPES.get(each) for each in known]
        self._fields.found.append(
            Field(
                path,
                name,
                tuple(each for each in primitive if each is not None),
                is_seen_null=False,
                tags=frozenset(tags),
                rules=_listed(inner, INLINE_RULES),
            )
        )
        self.walk(inner, path, name, depth + 1)


class _Avro:
    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        self._named: dict[str, Any] = {}

    def walk(self, schema: Any, path: Path, space: str, depth: int) -> None:
        schema = self._named.get(schema, schema) if isinstance(schema, str) else schema
        if depth > _MAX_DEPTH or len(self._fields.found) > _MAX_FIELDS:
            self._fields.left_out[join(path)] = "lies too deep"
            return
        if isinstance(schema, list):
            for branch in schema:
                self.walk(branch, path, space, depth + 1)
        elif isinstance(schema, dict):
            self._part(schema, path, space, depth)

    def _part(self, schema: dict[str, Any], path: Path, space: str, depth: int) -> None:
        match schema.get("type"):
            case "record" | "error":
                name = full_name(schema["name"], str(schema.get("namespace", space)))
                self._named[name] = self._named[schema["name"]] = schema
                for rule in _listed(schema, INLINE_RULES):
                    self._fields.of_record.append((path, rule))
                for member in schema["fields"]:
                    self._field(member, (*path, member["name"]), name, depth)
            case "array":
                self.walk(schema["items"], (*path, "*"), space, depth + 1)
            case "map":
                self._fields.left_out[join(path) or "/"] = "is a map, whose values have no place of their own"
            case dict() | list() as inner:
                self.walk(inner, path, space, depth + 1)

    def _field(self, member: dict[str, Any], path: Path, record: str, depth: int) -> None:
        branches = member["type"] if isinstance(member["type"], list) else [member["type"]]
        names = [branch.get("type") if isinstance(branch, dict) else branch for branch in branches]
        types = tuple(_AVRO_TYPES[name] for name in names if isinstance(name, str) and name in _AVRO_TYPES)
        self._fields.found.append(
            Field(
                path,
                f"{record}.{member['name']}",
                types,
                is_seen_null="null" in names,
                tags=frozenset(_listed(member, TAGS)),
                rules=_listed(member, INLINE_RULES),
            )
        )
        self.walk(member["type"], path, record.rpartition(".")[0], depth + 1)
