"""The fields that a JSON Schema declares: through `$ref`, `properties`, `items` and the schemas beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any

from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from contracts.fields import ANY_TYPE, FieldType, join, tokens

if TYPE_CHECKING:
    from referencing._core import Resolver  # the library gives it to everybody and exports it nowhere

_TIMES = frozenset({"date", "date-time", "date-time-local", "duration"})
_MAX_POINTERS = 2_000
_MAX_DEPTH = 8
_ROOT = "urn:tidegate:schema"
_CLOSING = ("additionalProperties", "unevaluatedProperties")
_TYPE_NAMES = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    str: "string",
    list: "array",
    dict: "object",
}

Schema = dict[str, Any] | bool
"""A JSON Schema."""


class JsonFields:
    """Looks fields up in one JSON Schema, whose references all stay inside it."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        resource = Resource.from_contents(schema, default_specification=DRAFT202012)
        registry: Registry[Any] = Registry().with_resource(_ROOT, resource)
        self._resolver = registry.resolver(_ROOT)
        self._pointers: tuple[str, ...] | None = None
        self._names: frozenset[str] | None = None

    def find(self, pointer: str) -> FieldType | None:
        """Look a field up by its JSON Pointer; None when the schema does not declare it."""
        return self._find(self._schema, tokens(pointer), self._resolver, ())

    def pointers(self) -> tuple[str, ...]:
        """Pointers of the declared fields, outermost first; bounded."""
        if self._pointers is None:
            self._pointers = tuple(self._walk())
        return self._pointers

    def names(self) -> frozenset[str]:
        """Every property name that the schema declares anywhere."""
        if self._names is None:
            self._names = frozenset(_declared_names(self._schema))
        return self._names

    def top_level(self) -> tuple[str, ...]:
        """Names of the properties of the record itself, in the order of the schema."""
        return tuple(dict.fromkeys(name for name, _, _ in self._declared(self._schema, self._resolver, ())))

    def _find(
        self, schema: Any, path: tuple[str, ...], resolver: Resolver[Any], seen: tuple[int, ...]
    ) -> FieldType | None:
        if not isinstance(schema, dict) or id(schema) in seen:
            return None if path or schema is False else FieldType()
        seen = (*seen, id(schema))
        found = _own_type(schema) if not path else self._find_child(schema, path, resolver)
        for part, inner in self._all_of(schema, resolver):
            found = _both(found, self._find(part, path, inner, seen))
        for branches in self._any_of(schema):
            options = [self._find(branch, path, resolver, seen) for branch in branches]
            known = [option for option in options if option is not None]
            if known:
                found = _both(found, reduce(FieldType.either, known))
        return found

    def _find_child(
        self, schema: dict[str, Any], path: tuple[str, ...], resolver: Resolver[Any]
    ) -> FieldType | None:
        first, rest = path[0], path[1:]
        found: FieldType | None = None
        for child in _children(schema, first):
            found = _both(found, self._find(child, rest, resolver, ()))
        if first == "*":  # every element of the array: one of the schemas that its elements have
            items = [self._find(item, rest, resolver, ()) for item in _items(schema)]
            known = [item for item in items if item is not None]
            if known:
                found = _both(found, reduce(FieldType.either, known))
        return found

    def _all_of(self, schema: dict[str, Any], resolver: Resolver[Any]) -> Iterator[tuple[Any, Resolver[Any]]]:
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            if isinstance(schema.get(keyword), str):
                try:
                    resolved = resolver.lookup(schema[keyword])
                except Unresolvable:
                    continue
                yield resolved.contents, resolved.resolver
        for part in schema.get("allOf", ()):
            yield part, resolver

    @staticmethod
    def _any_of(schema: dict[str, Any]) -> Iterator[list[Any]]:
        for keyword in ("anyOf", "oneOf"):
            if isinstance(schema.get(keyword), list):
                yield schema[keyword]
        conditional = [schema[keyword] for keyword in ("then", "else") if keyword in schema]
        dependent = [*schema.get("dependentSchemas", {}).values()]
        for branch in (*conditional, *dependent):
            yield [branch]

    def _walk(self) -> Iterator[str]:
        level: list[tuple[tuple[str, ...], Any, Resolver[Any]]] = [((), self._schema, self._resolver)]
        count = 0
        for _ in range(_MAX_DEPTH):
            deeper: list[tuple[tuple[str, ...], Any, Resolver[Any]]] = []
            for path, schema, resolver in level:
                for name, child, inner in self._declared(schema, resolver, ()):
                    yield join((*path, name))
                    count += 1
                    if count >= _MAX_POINTERS:
                        return
                    deeper.append(((*path, name), child, inner))
            level = deeper

    def _declared(
        self, schema: Any, resolver: Resolver[Any], seen: tuple[int, ...]
    ) -> Iterator[tuple[str, Any, Resolver[Any]]]:
        if not isinstance(schema, dict) or id(schema) in seen:
            return
        seen = (*seen, id(schema))
        for name, child in schema.get("properties", {}).items():
            yield name, child, resolver
        for part, inner in self._all_of(schema, resolver):
            yield from self._declared(part, inner, seen)
        for branches in self._any_of(schema):
            for branch in branches:
                yield from self._declared(branch, resolver, seen)


def _both(one: FieldType | None, other: FieldType | None) -> FieldType | None:
    if one is None or other is None:
        return one or other
    return one.both(other)


def _own_type(schema: dict[str, Any]) -> FieldType:
    types = ANY_TYPE
    written = schema.get("type")
    if written is not None:
        types = frozenset([written] if isinstance(written, str) else written)
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if values is not None:
        types = FieldType(types).both(FieldType(frozenset(map(_type_name, values)))).types
    times = {schema["format"]} & _TIMES if isinstance(schema.get("format"), str) else set()
    is_closed = any(schema.get(keyword) is False for keyword in _CLOSING)
    return FieldType(types, frozenset(times), is_closed=is_closed)


def _type_name(value: Any) -> str:
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    return _TYPE_NAMES[type(value)]


def _children(schema: dict[str, Any], name: str) -> Iterator[Any]:
    """Subschemas that a schema itself applies to its member `name`."""
    properties = schema.get("properties", {})
    patterns = [
        child for pattern, child in schema.get("patternProperties", {}).items() if _matches(pattern, name)
    ]
    if name in properties:
        yield properties[name]
    yield from patterns
    # A map declares its members; `{}` and `true` only leave the object open.
    others = schema.get("additionalProperties")
    if name not in properties and not patterns and isinstance(others, dict) and others:
        yield others
    if name.isascii() and name.isdigit():
        yield from _item(schema, int(name))


def _item(schema: dict[str, Any], index: int) -> Iterator[Any]:
    items = schema.get("items")
    leading = schema.get("prefixItems", items if isinstance(items, list) else [])
    rest = schema.get("additionalItems") if isinstance(items, list) else items
    if index < len(leading):
        yield leading[index]
    elif rest is not None:
        yield rest


def _items(schema: dict[str, Any]) -> Iterator[Any]:
    """Subschemas of which each element of an array has one."""
    items = schema.get("items")
    yield from schema.get("prefixItems", items if isinstance(items, list) else [])
    rest = schema.get("additionalItems") if isinstance(items, list) else items
    if rest is not None and rest is not False:
        yield rest


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name) is not None
    except re.error:  # ECMA-262 syntax that Python does not have
        return False


def _declared_names(schema: Any) -> Iterator[str]:
    """Property names; walks everything, for a name inside an `enum` is the author's too."""
    stack = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(node)
        elif isinstance(node, dict):
            if isinstance(node.get("properties"), dict):
                yield from node["properties"]
            for names in (
                node.get("required"),
                *_values(node, "dependentRequired"),
                *_values(node, "dependencies"),
            ):
                if isinstance(names, list):
                    yield from (name for name in names if isinstance(name, str))
            stack.extend(node.values())


def _values(schema: dict[str, Any], keyword: str) -> Iterator[Any]:
    members = schema.get(keyword)
    return iter(members.values()) if isinstance(members, dict) else iter(())
