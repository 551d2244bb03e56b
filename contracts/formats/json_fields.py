"""Fields that a JSON Schema declares: through `properties`, `items`, references and in-place applicators."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from tidegate.contracts.document.fields import ANY_TYPE, FieldType, is_index, join, objects_of, tokens
from tidegate.contracts.errors import ContractError
from tidegate.contracts.formats.json_keywords import REFERENCES, subschemas
from tidegate.contracts.formats.json_work import base_of
from tidegate.contracts.rules.places import is_deep

if TYPE_CHECKING:
    from referencing._core import Resolver  # part of the library's API, but not in __all__

_TIMES = frozenset({"date", "date-time", "date-time-local", "duration"})
MAX_VISITS: Final = 1_000_000
"""Maximum visits of schemas for all fields of a contract together; about three seconds."""
_MAX_NESTING: Final = 200
_MAX_POINTERS = 2_000
_DEFINITION: Final = "/schema/definition"
_MAX_DEPTH = 8
_ROOT = "urn:tidegate:schema"
_DEFINED: Final = frozenset({"$defs", "definitions"})
"""Keywords whose schemas apply to records only through references."""
_CLOSING = ("additionalProperties", "unevaluatedProperties")
_IN_PLACE: Final = frozenset(
    {"allOf", "anyOf", "dependencies", "dependentSchemas", "else", "if", "not", "oneOf", "then"}
)
"""Keywords whose schemas apply to the same value."""
_OF_MEMBERS: Final = frozenset(
    {
        *("additionalItems", "contains", "items", "prefixItems", "unevaluatedItems"),
        *("additionalProperties", "patternProperties", "unevaluatedProperties"),
    }
)
"""Keywords whose schemas may apply to a member of any name, or to an element."""
_BY_NAME: Final = ("dependencies", "dependentRequired", "dependentSchemas")
"""Keywords whose value is an object with names of members."""
_DYNAMIC: Final = ("$dynamicRef", "$recursiveRef")
_BESIDE_REF: Final = "beside $ref"
_IGNORED: Final = {
    "/draft-04/": frozenset({_BESIDE_REF, "const", "if", "prefixItems"}),
    "/draft-06/": frozenset({_BESIDE_REF, "if", "prefixItems"}),
    "/draft-07/": frozenset({_BESIDE_REF, "prefixItems"}),
    "/2019-09/": frozenset({"prefixItems"}),
}
"""By draft: keywords of later drafts, which restrict nothing; _BESIDE_REF stands for every keyword beside a `$ref`."""
_TYPE_NAMES = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    str: "string",
    list: "array",
    dict: "object",
}

_ABSENT: Final = FieldType(frozenset())
"""The result of a search for a field that no record has, as in an alternative that is closed or null."""

Schema = dict[str, Any] | bool
"""A JSON Schema: an object or a boolean."""


class JsonFields:
    """Lookup of the fields that a JSON Schema declares. References out of the schema are ignored.

    Each walk visits a schema at most once, however many references lead to it. Otherwise forty definitions that each
    refer to the next one twice would take 2^40 steps.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        resource = Resource.from_contents(schema, default_specification=DRAFT202012)
        registry: Registry[Any] = Registry().with_resource(_ROOT, resource)
        self._resolver = registry.resolver(_ROOT)
        self._ignored = _ignored(schema)
        self._found: dict[str, FieldType | None] = {}
        self._pointers: tuple[str, ...] | None = None
        self._names: frozenset[str] | None = None
        self._top_level: tuple[str, ...] | None = None
        self._visits = 0

    def find(self, pointer: str) -> FieldType | None:
        """Return the type of a field by its JSON Pointer; None if the schema does not declare it.

        After `**`, this is the combined type of every property of the following name, in any schema that applies to
        records. Raises ContractError if all lookups together take more than MAX_VISITS visits of schemas.
        """
        if pointer not in self._found:
            search = _Search(MAX_VISITS - self._visits, self._ignored)
            path = tokens(pointer)
            if is_deep(path):
                found = search.find_anywhere(self._schema, path[1:], self._resolver)
            else:
                found = search.find(self._schema, path, self._resolver)
            if found is not None and "string" not in found.types:  # a format says something of strings only
                found = None if found is _ABSENT else replace(found, times=frozenset(), is_mixed=False)
            self._found[pointer] = found
            self._visits += search.visits
        return self._found[pointer]

    def pointers(self) -> tuple[str, ...]:
        """Return the pointers of the declared fields, outermost first, up to a limit."""
        if self._pointers is None:
            self._pointers = tuple(self._walk())
        return self._pointers

    def names(self) -> frozenset[str]:
        """Return every property name that the schema declares anywhere."""
        if self._names is None:
            self._names = frozenset(_declared_names(self._schema))
        return self._names

    def mentions(self, path: tuple[str, ...]) -> bool:
        """Return whether a schema that may apply to the object of a member names the member, as in `required`.

        It may also be declared or listed there. Elements of arrays and patterns of names count as any member on the way.
        """
        *way, name = path
        level: list[tuple[Any, Resolver[Any]]] = [(self._schema, self._resolver)]
        for token in way:
            nodes = list(_in_place(level))
            if any(name in _names_in_values(node) for node, _ in nodes):
                return True
            level = [(child, inside) for node, inside in nodes for child in _inner(node, token)]
        return any(
            name in names_of_members(node) or any(True for _ in _properties(node, name))
            for node, _ in _in_place(level)
        )

    def top_level(self) -> tuple[str, ...]:
        """Return the names of the properties of the root object, in the order of the schema."""
        if self._top_level is None:
            declared = _declared(self._schema, self._resolver)
            self._top_level = tuple(dict.fromkeys(name for name, _, _ in declared))
        return self._top_level

    def _walk(self) -> Iterator[str]:
        level: list[tuple[tuple[str, ...], Any, Resolver[Any]]] = [((), self._schema, self._resolver)]
        yielded: set[str] = set()
        for _ in range(_MAX_DEPTH):
            deeper: list[tuple[tuple[str, ...], Any, Resolver[Any]]] = []
            for path, schema, resolver in level:
                for name, child, inner in _declared(schema, resolver):
                    pointer = join((*path, name))
                    if len(yielded) + len(deeper) >= 2 * _MAX_POINTERS:
                        return
                    if pointer not in yielded:
                        yielded.add(pointer)
                        yield pointer
                    deeper.append(((*path, name), child, inner))
            level = deeper


@dataclass(slots=True)
class _Search:
    """One search for a field, with a cache by schema and remaining path."""

    budget: int
    ignored: frozenset[str]
    visits: int = 0
    _known: dict[tuple[int, str, int], FieldType | None] = field(default_factory=dict)
    _within: set[tuple[int, str, int]] = field(default_factory=set)

    def find(self, schema: Any, path: tuple[str, ...], resolver: Resolver[Any]) -> FieldType | None:
        """Return the type that a schema declares for the member at `path`; None if it declares none.

        _ABSENT if no record that fits the schema has the member. Raises ContractError beyond the limits of visits and
        nesting.
        """
        if not isinstance(schema, dict):
            return _ABSENT if schema is False else None if path else FieldType()
        key = (id(schema), base_of(resolver), len(path))
        if key in self._known:
            return self._known[key]
        if key in self._within:  # a loop that takes no step into the record
            return None if path else FieldType()
        self._visit()
        self._within.add(key)
        found = self._found(schema, path, resolver)
        self._within.discard(key)
        self._known[key] = found
        return found

    def find_anywhere(self, schema: Any, path: tuple[str, ...], resolver: Resolver[Any]) -> FieldType | None:
        """Return the combined type of the properties at `path` in all schemas that `schema` reaches, or None."""
        found: FieldType | None = None
        seen: set[tuple[int, str]] = set()
        waiting = [(schema, resolver)]
        while waiting and path:
            node, inside = waiting.pop()
            key = (id(node), base_of(inside))
            if not isinstance(node, dict) or key in seen:
                continue
            seen.add(key)
            self._visit()
            for child in _properties(node, path[0]):
                each = self.find(child, path[1:], inside)
                if each is not None and each is not _ABSENT:
                    found = each if found is None else found.either(each)
            waiting.extend(_referenced(node, inside, REFERENCES))
            waiting.extend((part, inside) for at, part in subschemas(node) if at[0] not in _DEFINED)
        return found

    def _visit(self) -> None:
        self.visits += 1
        if self.visits > self.budget:
            message = f"looking its fields up takes more than {MAX_VISITS:,} steps; declare fewer fields or alternatives"
            raise ContractError.at(_DEFINITION, message)
        if len(self._within) >= _MAX_NESTING:
            message = (
                f"a field is looked up through more than {_MAX_NESTING} schemas; follow fewer references"
            )
            raise ContractError.at(_DEFINITION, message)

    def _found(
        self, schema: dict[str, Any], path: tuple[str, ...], resolver: Resolver[Any]
    ) -> FieldType | None:
        schema = self._applied(schema)
        found = self._child(schema, path, resolver) if path else _own_type(schema)
        if found is None and _excludes(schema, path[0]):
            found = _ABSENT
        for part, inner in _all_of(schema, resolver):
            found = _both(found, self.find(part, path, inner))
        for branches in _any_of(schema):
            found = _both(found, self._either(branches, path, resolver))
        # The target depends on the schemas that led here, and may be another one that declares nothing.
        for part, inner in _referenced(schema, resolver, _DYNAMIC):
            found = _both(found, self._either([part, True], path, inner))
        return found

    def _applied(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return a schema without the keywords that its draft ignores."""
        if not self.ignored:
            return schema
        if _BESIDE_REF in self.ignored and isinstance(schema.get("$ref"), str):
            return {"$ref": schema["$ref"]}
        return {keyword: value for keyword, value in schema.items() if keyword not in self.ignored}

    def _child(
        self, schema: dict[str, Any], path: tuple[str, ...], resolver: Resolver[Any]
    ) -> FieldType | None:
        first, rest = path[0], path[1:]
        member: FieldType | None = None
        for child in _members(schema, first):
            member = _both(member, self.find(child, rest, resolver))
        if first != "*" and not is_index(first):
            return member
        leading, further = _items(schema)
        if first == "*":  # any element of the array has one of the types that are declared for elements
            items = [*leading, *(further or [True])] if leading else further
        else:
            items = leading[int(first) : int(first) + 1] or further
        element = self._either(items, rest, resolver) if items else None
        types = _own_type(schema).types
        holders = ((member, "object"), (element, "array"))
        return _either([each for each, holder in holders if each is not None or holder in types])

    def _either(
        self, schemas: Iterable[Any], path: tuple[str, ...], resolver: Resolver[Any]
    ) -> FieldType | None:
        return _either([self.find(schema, path, resolver) for schema in schemas])


def _declared(schema: Any, resolver: Resolver[Any]) -> Iterator[tuple[str, Any, Resolver[Any]]]:
    """Yield the members that a schema and its in-place applicators declare: name, schema and resolver of each."""
    seen: set[tuple[int, str]] = set()
    waiting = [iter([(schema, resolver)])]
    while waiting:
        node, inside = next(waiting[-1], (None, resolver))
        if node is None:
            waiting.pop()
            continue
        key = (id(node), base_of(inside))
        if not isinstance(node, dict) or key in seen:
            continue
        seen.add(key)
        yield from ((name, child, inside) for name, child in node.get("properties", {}).items())
        waiting.append(_beside(node, inside))


def _beside(schema: dict[str, Any], resolver: Resolver[Any]) -> Iterator[tuple[Any, Resolver[Any]]]:
    yield from _all_of(schema, resolver)
    yield from _referenced(schema, resolver, _DYNAMIC)
    for branches in _any_of(schema):
        yield from ((branch, resolver) for branch in branches)


def _all_of(schema: dict[str, Any], resolver: Resolver[Any]) -> Iterator[tuple[Any, Resolver[Any]]]:
    yield from _referenced(schema, resolver, ("$ref",))
    for part in schema.get("allOf", ()):
        yield part, resolver


def _referenced(
    schema: dict[str, Any], resolver: Resolver[Any], keywords: Iterable[str]
) -> Iterator[tuple[Any, Resolver[Any]]]:
    for keyword in keywords:
        if isinstance(schema.get(keyword), str):
            try:
                resolved = resolver.lookup(schema[keyword])
            except Unresolvable:
                continue
            yield resolved.contents, resolved.resolver


def _any_of(schema: dict[str, Any]) -> Iterator[list[Any]]:
    for keyword in ("anyOf", "oneOf"):
        if isinstance(schema.get(keyword), list):
            yield schema[keyword]
    if "then" in schema or "else" in schema:
        # Without `if`, neither of the two applies to any record.
        yield [schema.get("then", True), schema.get("else", True), *([] if "if" in schema else [True])]
    for branch in schema.get("dependentSchemas", {}).values():
        yield [branch, True]


def _both(one: FieldType | None, other: FieldType | None) -> FieldType | None:
    if one is None or other is None:
        return one or other
    if one is _ABSENT or other is _ABSENT:  # closing keywords do not see what is declared beside them
        return other if one is _ABSENT else one
    return one.both(other)


def _ignored(schema: Schema) -> frozenset[str]:
    written = str(schema.get("$schema")) if isinstance(schema, dict) else ""
    return next((ignored for draft, ignored in _IGNORED.items() if draft in written), frozenset())


def _either(found: Iterable[FieldType | None]) -> FieldType | None:
    """Return the type of a field in records that fit one of several alternatives, from its type in each.

    It is partial if an alternative declares nothing, because a record that fits it may hold any value.
    """
    possible = [each for each in found if each is not _ABSENT]
    known = [each for each in possible if each is not None]
    if not known:
        return None if possible else _ABSENT
    either = reduce(FieldType.either, known)
    return either if len(known) == len(possible) else replace(either, is_closed=False, is_partial=True)


def _excludes(schema: dict[str, Any], name: str) -> bool:
    """Return whether no value that fits a schema has the member `name`, which the schema itself does not declare."""
    if isinstance(schema.get("$ref"), str):  # up to draft 7, other keywords beside `$ref` are ignored
        return False
    types = _own_type(schema).types
    if name == "*" or is_index(name):
        return not types & {"array", "object"}
    # Python cannot read every pattern, so that one of them may declare the member.
    is_closed = schema.get("additionalProperties") is False and not schema.get("patternProperties")
    return is_closed or "object" not in types


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


def _members(schema: dict[str, Any], name: str) -> Iterator[Any]:
    """Yield the subschemas that a schema itself applies to the member `name` of an object."""
    named = list(_properties(schema, name))
    yield from named
    # A schema for `additionalProperties` declares a map; `{}` and `true` only leave the object open.
    others = schema.get("additionalProperties")
    if not named and isinstance(others, dict) and others:
        yield others


def _properties(schema: dict[str, Any], name: str) -> Iterator[Any]:
    """Yield the subschemas that a schema declares for its member `name`, by name or by pattern."""
    if name in schema.get("properties", {}):
        yield schema["properties"][name]
    for pattern, child in schema.get("patternProperties", {}).items():
        if _matches(pattern, name):
            yield child


def _items(schema: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Return the subschemas for the first elements of an array, and the one for all further ones, if there is one."""
    items = schema.get("items")
    leading = schema.get("prefixItems", items if isinstance(items, list) else [])
    further = schema.get("additionalItems") if isinstance(items, list) else items
    return leading, [] if further is None else [further]


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name) is not None
    except re.error:  # ECMA-262 syntax that Python does not support
        return False


def _in_place(level: Iterable[tuple[Any, Resolver[Any]]]) -> Iterator[tuple[dict[str, Any], Resolver[Any]]]:
    """Yield the schemas that may apply to the same values as those of `level`, including these."""
    waiting = list(level)
    seen: set[tuple[int, str]] = set()
    while waiting:
        node, inside = waiting.pop()
        key = (id(node), base_of(inside))
        if not isinstance(node, dict) or key in seen:
            continue
        seen.add(key)
        yield node, inside
        waiting.extend(_referenced(node, inside, REFERENCES))
        waiting.extend((part, inside) for at, part in subschemas(node) if at[0] in _IN_PLACE)


def _inner(schema: dict[str, Any], name: str) -> Iterator[Any]:
    """Yield the subschemas of a schema that may apply to its member `name`, or to its elements."""
    for at, part in subschemas(schema):
        if at[0] in _OF_MEMBERS or at == ("properties", name):
            yield part


def names_of_members(schema: dict[str, Any]) -> Iterator[str]:
    """Yield the names of members that a schema itself has, as in `properties` and `required`, or in listed values."""
    for keyword in ("properties", *_BY_NAME):
        yield from schema.get(keyword, {})
    for names in (
        schema.get("required"),
        *_values(schema, "dependentRequired"),
        *_values(schema, "dependencies"),
    ):
        yield from names if isinstance(names, list) else ()
    for part in objects_of(schema.get("propertyNames")):
        yield from (name for name in _listed(part) if isinstance(name, str))
    yield from _names_in_values(schema)


def _names_in_values(schema: dict[str, Any]) -> Iterator[str]:
    """Yield the names of members in the values that a schema lists."""
    for each in objects_of(_listed(schema)):
        yield from each


def _listed(schema: dict[str, Any]) -> list[Any]:
    values = schema.get("enum")
    return [*(values if isinstance(values, list) else []), *([schema["const"]] if "const" in schema else [])]


def _declared_names(schema: Any) -> Iterator[str]:
    """Yield the property names in all objects of a schema, also inside an `enum`: its author wrote them too."""
    for node in objects_of(schema):
        if isinstance(node.get("properties"), dict):
            yield from node["properties"]
        for names in (
            node.get("required"),
            *_values(node, "dependentRequired"),
            *_values(node, "dependencies"),
        ):
            if isinstance(names, list):
                yield from (name for name in names if isinstance(name, str))


def _values(schema: dict[str, Any], keyword: str) -> Iterator[Any]:
    members = schema.get(keyword)
    return iter(members.values()) if isinstance(members, dict) else iter(())
