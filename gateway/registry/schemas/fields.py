"""The fields of a schema as Confluent's clients walk them: names, types, and tags (`confluent:tags` on the field).

Source: Confluent Schema Registry clients, `JsonSchemaUtils.transform` and `AvroSchemaUtils.transform`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.contracts.document.fields import join
from tidegate.contracts.formats.avro_documents import definitions, full_name
from tidegate.contracts.formats.json_keywords import dereferenced
from tidegate.gateway.registry.schemas.entities import AVRO, EntityTags
from tidegate.gateway.registry.schemas.errors import invalid_schema
from tidegate.gateway.registry.schemas.parsing import ParsedSchema

TAGS = "confluent:tags"


def with_changed_tags(schema: ParsedSchema, add: Sequence[EntityTags], remove: Sequence[EntityTags]) -> str:
    """Return a schema's text with tags added to places and removed from places. Raises Refused (42201)."""
    definition = json.loads(schema.text)
    places = {path: node for paths, node in _places(schema.schema_type, definition) for path in paths}
    for changes, is_added in ((add, True), (remove, False)):
        for change in changes:
            node = places.get(_plain(change.place.path))
            if node is None:
                raise invalid_schema(f"it has no place {change.place.path} to tag")
            held = [tag for tag in node.get(TAGS, ()) if tag not in change.tags]
            _put(node, [*held, *change.tags] if is_added else held)
    return json.dumps(definition, ensure_ascii=False)


def inherited_tags(earlier: ParsedSchema, later: ParsedSchema) -> tuple[EntityTags, ...]:
    """Return the tags of an earlier schema at the places that a later one has as well."""
    places = {path for paths, _ in _places(later.schema_type, json.loads(later.text)) for path in paths[:1]}
    return tuple(
        EntityTags(place=EntityTags.Place(path=paths[0]), tags=tuple(node[TAGS]))
        for paths, node in _places(earlier.schema_type, json.loads(earlier.text))
        if paths[0] in places and _are_tags(node.get(TAGS))
    )


def _are_tags(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(tag, str) for tag in found)


def with_inline_tags(schema_type: str, text: str, tags: Mapping[str, Iterable[str]]) -> str:
    """Return a schema's text with the tags of its metadata on the fields that their paths match.

    A path is a full name in which `*` matches within one part, and `**` matches any number of parts.
    """
    definition = json.loads(text)
    patterns = [(_parts(path), tuple(found)) for path, found in tags.items()]
    for paths, node in _places(schema_type, definition):
        for parts, found in patterns:
            if any(_fits(path, parts) for path in paths):
                held = node.get(TAGS, [])
                _put(node, [*held, *(tag for tag in found if tag not in held)])
    return json.dumps(definition, ensure_ascii=False, separators=(",", ":"))


def _put(node: dict[str, Any], tags: list[str]) -> None:
    if tags:
        node[TAGS] = tags
    else:
        node.pop(TAGS, None)


def _plain(path: str) -> str:
    return path.lstrip(".")


def _parts(path: str) -> tuple[str, ...]:
    """Split a path into literal texts, single stars, and runs of more stars, which all mean `**`."""
    return tuple(part for part in re.split(r"(\*+)", _plain(path)) if part)


def _fits(name: str, parts: Iterable[str]) -> bool:
    """Return whether a name fits the parts of a path.

    All possible ends of a match are followed in parallel: the backtracking of `re` takes n^k steps for k stars.
    """
    ends: Collection[int] = (0,)
    for part in parts:
        if part == "*":
            ends = _up_to_dots(name, ends)
        elif part.startswith("**"):
            ends = range(min(ends), len(name) + 1)
        else:
            ends = [end + len(part) for end in ends if name.startswith(part, end)]
        if not ends:
            return False
    return len(name) in ends


def _up_to_dots(name: str, ends: Iterable[int]) -> list[int]:
    """Return each position, in order, that is reached from one of `ends` without crossing a dot."""
    reached: list[int] = []
    for end in ends:
        if not reached or end > reached[-1]:
            dot = name.find(".", end)
            reached.extend(range(end, (len(name) if dot < 0 else dot) + 1))
    return reached


def _places(schema_type: str, definition: Any) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Return the places that can be tagged: the names by which each is known, and its node."""
    return _avro_places(definition) if schema_type == AVRO else _json_places(definition, ())


def _avro_places(schema: Any) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    for name, found in definitions(schema):
        yield (name,), found
        for member in found.get("fields", ()):
            yield (f"{name}.{member['name']}",), member


def _json_places(schema: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    if not isinstance(schema, dict):
        return
    dotted = ".".join(path)
    yield (".".join(("$", *path)), ".".join(("object", *path)), dotted), schema
    for name, member in schema.get("properties", {}).items():
        yield from _json_places(member, (*path, name))
    for name in ("allOf", "anyOf", "oneOf"):
        for branch in schema.get(name, ()):
            yield from (place for place in _json_places(branch, path) if place[1] is not branch)
    yield from (
        place for place in _json_places(schema.get("items"), path) if place[1] is not schema.get("items")
    )


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
class SchemaField:
    """A field: its place in a record, and what clients pass to a rule about it.

    `types` are the names of the primitive types that it may have besides null. `element_types` are those of the
    elements of its lists, or "" if these are not known. `is_seen_null` is True if clients also apply rules to null.
    `rules` are those that its schema carries.
    """

    path: Path
    full_name: str
    types: tuple[str, ...]
    is_seen_null: bool
    tags: frozenset[str]
    rules: tuple[Any, ...] = ()
    element_types: tuple[str, ...] = ()

    @property
    def pointer(self) -> str:
        """Return the JSON Pointer of the field, with `*` for every element of an array."""
        return join(self.path)

    @property
    def name(self) -> str:
        """Return the name of the field itself."""
        return self.path[-1]


@dataclass(slots=True)
class FieldsOfSchema:
    """The fields of a schema, the rules that it carries for the whole record, and left-out places with reasons."""

    found: list[SchemaField] = field(default_factory=list)
    of_record: list[tuple[Path, Any]] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


def fields_of(schema_type: str, definition: Any) -> FieldsOfSchema:
    """Return the fields of a self-contained schema."""
    fields = FieldsOfSchema()
    if schema_type == AVRO:
        _Avro(fields).walk(definition, (), "", 0)
    else:
        _Json(fields, definition).walk(definition, (), "$", 0)
    return fields


def _listed(part: Any, key: str) -> tuple[Any, ...]:
    found = part.get(key, ())
    return tuple(found) if isinstance(found, list) else ()


class _Json:
    def __init__(self, fields: FieldsOfSchema, root: Any) -> None:
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
            SchemaField(
                path,
                name,
                tuple(each for each in primitive if each is not None),
                is_seen_null=False,
                tags=frozenset(tags),
                rules=_listed(inner, INLINE_RULES),
                element_types=tuple(self._elements(inner, known, 0)),
            )
        )
        self.walk(inner, path, name, depth + 1)

    def _elements(self, schema: dict[str, Any], types: Any, depth: int) -> Iterator[str]:
        """Yield the primitive types of list elements; fields of objects in lists are separate fields."""
        if "enum" in schema or "const" in schema:
            return
        if not types or (is_list := "array" in types and not isinstance(schema.get("items"), dict)):
            yield ""
        if "array" in types and not is_list:
            items = dereferenced(self._root, schema["items"])
            inner = items.get("type", ()) if isinstance(items, dict) and depth < _MAX_DEPTH else ()
            known = [inner] if isinstance(inner, str) else inner
            yield from (_JSON_TYPES[each] for each in known if each in _JSON_TYPES)
            yield from self._elements(items if isinstance(items, dict) else {}, known, depth + 1)


class _Avro:
    def __init__(self, fields: FieldsOfSchema) -> None:
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
            SchemaField(
                path,
                f"{record}.{member['name']}",
                types,
                is_seen_null="null" in names,
                tags=frozenset(_listed(member, TAGS)),
                rules=_listed(member, INLINE_RULES),
                element_types=tuple(self._elements(branches, 0)),
            )
        )
        self.walk(member["type"], path, record.rpartition(".")[0], depth + 1)

    def _elements(self, branches: list[Any], depth: int) -> Iterator[str]:
        """Yield the primitive types of elements of lists and maps; fields of records in them are separate fields."""
        for branch in branches:
            kind = branch.get("type") if isinstance(branch, dict) else None
            if kind in {"array", "map"}:
                inner = branch["items" if kind == "array" else "values"]
                items = inner if isinstance(inner, list) else [inner]
                names = [each.get("type") if isinstance(each, dict) else each for each in items]
                yield from (
                    _AVRO_TYPES[name] for name in names if isinstance(name, str) and name in _AVRO_TYPES
                )
                if depth < _MAX_DEPTH:
                    yield from self._elements(items, depth + 1)
                else:
                    yield ""
