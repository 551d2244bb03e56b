"""What the keywords about arrays and objects say."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidegate.contracts.document.source import escape
from tidegate.contracts.inclusion.json_schema.compiler import Compiler, Handler
from tidegate.contracts.inclusion.json_schema.dialect import Dialect
from tidegate.contracts.inclusion.json_schema.document import Spot
from tidegate.contracts.inclusion.json_schema.nodes import (
    Contains,
    ItemCount,
    Matching,
    Names,
    Node,
    Place,
    PropertyCount,
    UniqueItems,
)
from tidegate.contracts.inclusion.json_schema.unevaluated import unevaluated_items, unevaluated_properties
from tidegate.contracts.inclusion.json_schema.values import ANYTHING, ARRAY, OBJECT


def _item_count(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    is_lower, limit = keyword.startswith("min"), int(place.value)
    return ItemCount(compiler.number("item-count", is_lower, limit), place, is_lower, limit)


def _unique_items(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    return UniqueItems(compiler.number("unique"), place) if place.value else compiler.true(place)


def _prefix_items(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    items = [
        compiler.item_at(item.place, index, item) for index, item in enumerate(compiler.each(spot, keyword))
    ]
    return compiler.all(place, items)


def _items(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    if isinstance(spot.schema[keyword], list):
        return _prefix_items(compiler, spot, keyword)
    first = len(spot.schema.get("prefixItems", ())) if "prefixItems" in compiler.handlers else 0
    return compiler.items_from(compiler.place(spot, keyword), first, compiler.schema(spot.at(keyword)))


def _additional_items(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    listed = spot.schema.get("items")
    if not isinstance(listed, list):
        return compiler.true(place)
    return compiler.items_from(place, len(listed), compiler.schema(spot.at(keyword)))


def _contains(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    item = compiler.schema(spot.at(keyword))
    counted = compiler.dialect is not None and compiler.dialect >= Dialect.DRAFT201909
    least = int(spot.schema.get("minContains", 1)) if counted else 1
    limits = [(True, least, "minContains")] if least else []
    if counted and "maxContains" in spot.schema:
        limits.append((False, int(spot.schema["maxContains"]), "maxContains"))
    return compiler.all(
        place,
        [
            Contains(
                compiler.number("contains", is_lower, limit, item.id),
                compiler.place(spot, name) if name in spot.schema else place,
                is_lower,
                limit,
                item,
            )
            for is_lower, limit, name in limits
        ],
    )


def _unevaluated_items(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    return unevaluated_items(compiler, spot) or compiler.opaque(spot, keyword, ARRAY)


def _property_count(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    is_lower, limit = keyword.startswith("min"), int(place.value)
    return PropertyCount(compiler.number("property-count", is_lower, limit), place, is_lower, limit)


def _required(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    return compiler.all(place, [compiler.required_name(place, name) for name in place.value])


def _properties(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    return compiler.all(
        compiler.place(spot, keyword),
        [_property(compiler, name, compiler.schema(spot.at(keyword, name))) for name in spot.schema[keyword]],
    )


def _property(compiler: Compiler, name: str, schema: Node) -> Node:
    return compiler.property(schema.place, name, schema)


def _pattern_properties(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    return compiler.all(
        compiler.place(spot, keyword),
        [
            _matching(compiler, pattern, compiler.schema(spot.at(keyword, pattern)))
            for pattern in spot.schema[keyword]
        ],
    )


def _matching(compiler: Compiler, pattern: str, schema: Node) -> Node:
    return Matching(compiler.number("matching", pattern, schema.id), schema.place, pattern, schema)


def _additional_properties(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    names = frozenset(spot.schema.get("properties", ()))
    patterns = tuple(spot.schema.get("patternProperties", ()))
    return compiler.additional(
        compiler.place(spot, keyword), names, patterns, compiler.schema(spot.at(keyword))
    )


def _property_names(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    schema = compiler.schema(spot.at(keyword))
    return Names(compiler.number("names", schema.id), compiler.place(spot, keyword), schema)


def _dependent_required(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    return compiler.all(
        place, [_needs(compiler, place, name, needed) for name, needed in place.value.items()]
    )


def _needs(compiler: Compiler, place: Place, name: str, needed: list[str]) -> Node:
    own = replace(place, pointer=f"{place.pointer}/{escape(name)}", value=needed)
    absent = compiler.negated(compiler.required_name(own, name))
    return compiler.any(
        own, (absent, compiler.all(own, [compiler.required_name(own, each) for each in needed]))
    )


def _dependent_schemas(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    return compiler.all(place, [_depends(compiler, spot, keyword, name) for name in spot.schema[keyword]])


def _depends(compiler: Compiler, spot: Spot, keyword: str, name: str) -> Node:
    inner = spot.at(keyword, name)
    place = Place(compiler.side, inner.pointer, keyword, inner.schema)
    if isinstance(inner.schema, list):
        return _needs(compiler, compiler.place(spot, keyword), name, inner.schema)
    absent = compiler.negated(compiler.required_name(place, name))
    return compiler.any(place, (compiler.type_is(place, ANYTHING & ~OBJECT), absent, compiler.schema(inner)))


def _unevaluated_properties(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    return unevaluated_properties(compiler, spot) or compiler.opaque(spot, keyword, OBJECT)


EVERYWHERE: Final[dict[str, Handler]] = {
    "minItems": _item_count,
    "maxItems": _item_count,
    "uniqueItems": _unique_items,
    "items": _items,
    "minProperties": _property_count,
    "maxProperties": _property_count,
    "required": _required,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "dependencies": _dependent_schemas,
}
"""The formula of each keyword about arrays and objects that every dialect has."""
UNTIL_2019: Final[dict[str, Handler]] = {"additionalItems": _additional_items}
FROM_6: Final[dict[str, Handler]] = {"contains": _contains, "propertyNames": _property_names}
FROM_2019: Final[dict[str, Handler]] = {
    "dependentRequired": _dependent_required,
    "dependentSchemas": _dependent_schemas,
    "unevaluatedItems": _unevaluated_items,
    "unevaluatedProperties": _unevaluated_properties,
}
FROM_2020: Final[dict[str, Handler]] = {"prefixItems": _prefix_items}
