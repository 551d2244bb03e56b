"""Compiler from a JSON Schema document to a formula without dialects, references and defaults; fetches nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT3, specification_with

from tidegate.contracts.document.source import escape
from tidegate.contracts.inclusion.json_schema.dialect import (
    FORMATS,
    METASCHEMAS,
    Dialect,
    dialect_of,
)
from tidegate.contracts.inclusion.json_schema.document import CompilerPosition, Survey, refers, shape
from tidegate.contracts.inclusion.json_schema.nodes import (
    Additional,
    All,
    AnyOf,
    Definition,
    DefinitionReference,
    Interner,
    ItemAt,
    ItemsFrom,
    Node,
    Not,
    OneValue,
    Opaque,
    Property,
    Required,
    SchemaPlace,
    Side,
    TypeIs,
)
from tidegate.contracts.inclusion.json_schema.values import ANYTHING, key_of

MAX_DEPTH: Final = 110
"""Maximum nesting of schemas, with references followed."""
_ROOT: Final = "urn:tidegate:schema"


class SchemaTooDeepError(ValueError):
    """A schema that is nested deeper than MAX_DEPTH with its references followed."""


class Compiler:
    """Compiles one schema document. The judge must have compiled it before, so that it fits its meta-schema."""

    def __init__(
        self,
        side: Side,
        document: Any,
        interner: Interner,
        handlers: Mapping[Dialect, Mapping[str, Handler]],
        *,
        formats_asserted: bool,
    ) -> None:
        """Initialise from a document and the handlers of keywords (`keywords.HANDLERS`)."""
        self.side = side
        self._document = document
        self._interner = interner
        self._document_id = interner.id_of(object())
        self.dialect = dialect_of(document)
        self.formats = FORMATS[self.dialect] if formats_asserted and self.dialect else frozenset()
        self.handlers = handlers[self.dialect or Dialect.DRAFT202012]
        self._known: dict[int, Definition] = {}
        self._schemas = Survey(document, self.dialect)
        self._flat: dict[str, dict[int, frozenset[int]]] = {"all": {}, "any": {}}
        self._followed: dict[tuple[str, str], CompilerPosition] = {}
        self._parts_of: dict[int, int] = {}
        self.parts = 0
        """The number of parts of the schema, each counted once for every path that leads to it."""
        self.has_references = False
        """Whether some reference is recursive: it leads to a schema that contains it."""

    def number(self, *form: Hashable) -> int:
        """Return the id of a form from the shared interner."""
        return self._interner.id_of(*form)

    def compile(self) -> Node:
        """Compile the document. Raises TooDeepError."""
        specification = specification_with(self.dialect.uri) if self.dialect else DRAFT3
        resource = specification.create_resource(self._document)
        registry: Registry[Any] = Registry().with_resource(_ROOT, resource)
        resolver = registry.resolver(_ROOT).in_subresource(resource)
        spot = CompilerPosition(self._document, "", resolver, specification)
        self._root = resolver
        if self.dialect is None or self._schemas.is_unclear:
            return self.opaque(spot, "$schema", ANYTHING)
        return self.schema(spot)

    def schema(self, spot: CompilerPosition) -> Node:
        """Compile one schema. Raises TooDeepError."""
        if spot.depth > MAX_DEPTH:
            raise SchemaTooDeepError
        if not isinstance(spot.schema, dict):
            place = SchemaPlace(self.side, spot.pointer, "", spot.schema)
            return self.true(place) if spot.schema is True else self.false(place)
        definition = self._known.get(id(spot.schema))
        if definition is None:
            definition = self._known[id(spot.schema)] = Definition()
            before = self.parts
            self.parts += _own_parts(spot.schema)
            definition.node = self._compiled(spot)
            self._parts_of[id(spot.schema)] = self.parts - before
            return definition.node
        if definition.node is not None:
            self.parts += self._parts_of[id(spot.schema)]
            return definition.node
        self.has_references = True
        place = self.place(spot, "$ref")
        number = self.number("reference", self._document_id, id(spot.schema))
        return DefinitionReference(number, place, definition)

    def _compiled(self, spot: CompilerPosition) -> Node:
        schema: dict[str, Any] = spot.schema
        counting: Collection[str] = self.handlers
        if self.dialect is not None and self.dialect <= Dialect.DRAFT7 and "$ref" in schema:
            counting = ("$ref",)
        parts = [self.handlers[keyword](self, spot, keyword) for keyword in schema if keyword in counting]
        return self.all(SchemaPlace(self.side, spot.pointer, "", schema), parts)

    def each(self, spot: CompilerPosition, keyword: str) -> list[Node]:
        """Compile the list of schemas under a keyword. Raises TooDeepError."""
        return [self.schema(spot.at(keyword, index)) for index in range(len(spot.schema[keyword]))]

    # Connectives.

    def place(self, spot: CompilerPosition, keyword: str) -> SchemaPlace:
        """Return the place of a keyword; for a keyword that is not written, with the pointer of the schema."""
        pointer = f"{spot.pointer}/{escape(keyword)}" if keyword in spot.schema else spot.pointer
        return SchemaPlace(self.side, pointer, keyword, spot.schema.get(keyword))

    def true(self, place: SchemaPlace) -> Node:
        """Return a node that accepts everything."""
        return self.all(place, ())

    def false(self, place: SchemaPlace) -> Node:
        """Return a node that accepts nothing."""
        return AnyOf(self.number("any", frozenset()), place, ())

    def all(self, place: SchemaPlace, parts: Iterable[Node]) -> Node:
        """Return a node that holds if all parts hold; nesting and order do not change the id."""
        parts = tuple(parts)
        return All(self._joined("all", All, parts), place, parts)

    def any(self, place: SchemaPlace, parts: Iterable[Node]) -> Node:
        """Return a node that holds if at least one part holds; nesting and order do not change the id."""
        parts = tuple(parts)
        return AnyOf(self._joined("any", AnyOf, parts), place, parts)

    def _joined(self, form: str, connective: type[All | AnyOf], parts: tuple[Node, ...]) -> int:
        known = self._flat[form]
        ids: set[int] = set()
        for part in parts:
            flat = known.get(part.id) if isinstance(part, connective) else None
            if flat is None:
                ids.add(part.id)
            else:
                ids |= flat
        if len(ids) == 1:
            return ids.pop()
        number = self.number(form, frozenset(ids))
        known[number] = frozenset(ids)
        return number

    def negated(self, node: Node) -> Node:
        """Return a node that holds for values that do not fit a node."""
        return Not(self.number("not", node.id), node.place, node)

    def opaque(self, spot: CompilerPosition, keyword: str, concerns: int) -> Node:
        """Return a node that is not analysed and equals only the same keyword at the same place of an equal document.

        A schema without references means the same everywhere, so its node equals that of an equal schema at any place.
        """
        is_schema = isinstance(spot.schema, dict)
        if is_schema and not refers(spot.schema):
            form: tuple[Hashable, ...] = (self.dialect, shape(spot.schema), keyword)
        else:
            form = (self.own_shape, spot.pointer, keyword)
        place = self.place(spot, keyword) if is_schema else SchemaPlace(self.side, spot.pointer)
        return Opaque(self.number("opaque", *form), place, concerns)

    @cached_property
    def own_shape(self) -> Hashable:
        """Return a key of the document that ignores annotations and the order of members."""
        return shape(self._document)

    def outside(self, spot: CompilerPosition, keyword: str) -> Node:
        """Return an opaque node for a reference that is not followed.

        References to a published meta-schema are equal everywhere.
        """
        reference = spot.schema[keyword].rstrip("#")
        if keyword == "$ref" and reference in METASCHEMAS and not self._schemas.has_dynamic_anchors:
            return Opaque(self.number("outside", reference), self.place(spot, keyword), ANYTHING)
        return self.opaque(spot, keyword, ANYTHING)

    def type_is(self, place: SchemaPlace, mask: int) -> Node:
        """Return a node that tests the type of a value."""
        return TypeIs(self.number("type", mask), place, mask)

    def values(self, place: SchemaPlace, values: Iterable[Any]) -> Node:
        """Return a node that tests for a list of values; duplicates are ignored."""
        by_key = {key_of(value): value for value in values}
        return OneValue(self.number("values", frozenset(by_key)), place, by_key)

    def required_name(self, place: SchemaPlace, name: str) -> Node:
        """Return a node that tests for the presence of a property."""
        return Required(self.number("required", name), place, name)

    def items_from(self, place: SchemaPlace, index: int, schema: Node) -> Node:
        """Return a node that tests all items from an index on."""
        return ItemsFrom(self.number("items", index, schema.id), place, index, schema)

    def item_at(self, place: SchemaPlace, index: int, schema: Node) -> Node:
        """Return a node that tests one item."""
        return ItemAt(self.number("item", index, schema.id), place, index, schema)

    def property(self, place: SchemaPlace, name: str, schema: Node) -> Node:
        """Return a node that tests one property."""
        return Property(self.number("property", name, schema.id), place, name, schema)

    def additional(
        self, place: SchemaPlace, names: frozenset[str], patterns: tuple[str, ...], schema: Node
    ) -> Node:
        """Return a node that tests all properties except `names` and those that match `patterns`."""
        number = self.number("additional", names, frozenset(patterns), schema.id)
        return Additional(number, place, names, patterns, schema)

    # References.

    def follow(self, spot: CompilerPosition, keyword: str) -> CompilerPosition | None:
        """Return the schema that a reference resolves to.

        None if it cannot be resolved, is outside the document, or depends on the dynamic scope.
        """
        reference = spot.schema[keyword]
        if self._schemas.is_ambiguous(keyword, reference):
            return self._followed_outermost(spot, reference) if keyword == "$dynamicRef" else None
        if self._schemas.has_ids:
            return self._looked_up(spot, keyword, reference)
        # Without `$id` a reference means the same everywhere, and a lookup is slow.
        known = self._followed.get((keyword, reference))
        if known is None:
            known = self._looked_up(spot, keyword, reference)
            if known is not None and isinstance(known.schema, dict):
                self._followed[keyword, reference] = known
        return None if known is None else replace(known, depth=spot.depth + 1)

    def _followed_outermost(self, spot: CompilerPosition, reference: str) -> CompilerPosition | None:
        target = self._looked_up(spot, "$dynamicRef", reference)
        if target is None or not isinstance(target.schema, dict) or "$dynamicAnchor" not in target.schema:
            return None
        schema = self._schemas.outermost(reference)
        pointer = self._schemas.pointer_of(schema)
        return (
            None
            if pointer is None
            else CompilerPosition(schema, pointer, self._root, spot.specification, spot.depth + 1)
        )

    def _looked_up(self, spot: CompilerPosition, keyword: str, reference: str) -> CompilerPosition | None:
        try:
            found = spot.resolver.lookup(reference)
        except Unresolvable:
            return None
        pointer = self._schemas.pointer_of(found.contents)
        if pointer is None:
            if not isinstance(found.contents, bool):
                return None  # a meta-schema, or something that is not a schema
            pointer = f"{spot.pointer}/{escape(keyword)}"
        return CompilerPosition(found.contents, pointer, found.resolver, spot.specification, spot.depth + 1)


Handler = Callable[[Compiler, CompilerPosition, str], Node]
"""Builds the formula of a keyword from the schema that it is in."""


def _own_parts(schema: dict[str, Any]) -> int:
    """Return the number of parts of a schema itself, without its subschemas."""
    return 1 + sum(len(each) if isinstance(each, dict | list) else 1 for each in schema.values())
