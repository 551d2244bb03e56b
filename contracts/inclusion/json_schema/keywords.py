"""Handlers of the JSON Schema keywords: each builds the formula that a keyword adds to its schema."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import reduce
from typing import Final

from tidegate.contracts.document.source import escape
from tidegate.contracts.inclusion.json_schema.compiler import Compiler, Handler
from tidegate.contracts.inclusion.json_schema.dialect import SAME_EVERYWHERE, Dialect
from tidegate.contracts.inclusion.json_schema.document import CompilerPosition
from tidegate.contracts.inclusion.json_schema.nodes import (
    All,
    Bound,
    Contains,
    ExactlyOne,
    Format,
    IfThenElse,
    ItemCount,
    Length,
    MultipleOf,
    Node,
    Not,
    OneValue,
    Opaque,
    Pattern,
    PatternProperty,
    Precision,
    PropertyCount,
    PropertyNames,
    SchemaPlace,
    UniqueItems,
    WrittenAsInteger,
)
from tidegate.contracts.inclusion.json_schema.unevaluated import unevaluated
from tidegate.contracts.inclusion.json_schema.values import (
    ANYTHING,
    INTEGER,
    MAX_EXACT,
    NUMBER,
    OBJECT,
    STRING,
    TYPES,
    exact,
    key_of,
)


def _unique_items(compiler: Compiler, spot: CompilerPosition, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    return UniqueItems(compiler.number("unique"), place) if place.value else compiler.true(place)


def _prefix_items(compiler: Compiler, spot: CompilerPosition, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    items = [
        compiler.item_at(item.place, index, item) for index, item in enumerate(compiler.each(spot, keyword))
    ]
    return compiler.all(place, items)


def _items(compiler: Compiler, spot: CompilerPosition, keyword: str) -> Node:
    if isinstance(spot.schema[keyword], list):
        return _prefix_items(compiler, spot, keyword)
    first = len(spot.schema.get("prefixItems", ())) if "prefixItems" in compiler.handlers else 0
    return compiler.items_from(compiler.place(spot, keyword), first, compiler.schema(spot.at(keyword)))


def _additional_items(compiler: Compiler, spot: CompilerPosition, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    listed = spot.schema.get("items")
    if not isinstance(listed, list):
        return compiler.true(place)
    return compiler.items_from(place, len(listed), compiler.schema(spot.at(keyword)))


def _contains(compiler: Compiler, spot: CompilerPosition, keyword: str) -> Node:
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


def _required(compiler: Compiler, spot: CompilerPosition, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    return compiler.all(place, [compiler.required_name(place, name) for name in place.value])


def _properties(compiler: Compiler, spot: CompilerPosition, keyword: str) -> Node:
    parts = []
    for name in spot.schema[keyword]:
        schema = compiler.schema(spot.at(keyword, name))
        parts.append(compiler.property(schema.place, name, schema))
    return compiler.all(compiler.place(spot, keyword), parts)


def _pattern_properties(compiler: Compiler, spot: CompilerPosition, keyword: str) -> Node:
    parts = []
    for pattern in spot.schema[keyword]:
        schema = compiler.schema(spot.at(keyword, pattern))
        number = compiler.number("matching", pattern, schema.id)
        parts.append(PatternProperty(number, schema.place, pattern, schema))
    return compiler.all(compiler.place(spot, keyword), parts)


def _additional_properties(compiler: Compiler, spot: CompilerPosition, keyword: str) -> Node:
    names = frozenset(spot.schema.get("properties", ()))
    patterns = tuple(spot.schema.get("patternProperties", ()))
    return compiler.additional(
        compiler.place(spot, keyword), names, patterns, compiler.schema(spot.at(keyword))
    )


def _property_names(compiler: Compiler, spot: CompilerPosition, keyword: str) -> Node:
    schema = compiler.schema(spot.at(keyword))
    return PropertyNames(compiler.number("names", schema.id), compiler.place(spot, keyword), schema)


def _dependent_required(compiler: Compiler, spot: CompilerPosition, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    return compiler.all(
        place, [_needs(compiler, place, name, needed) for name, needed in place.value.items()]
    )


def _needs(compiler: Compiler, place: SchemaPlace, name: str, needed: list[str]) -> Node:
    own = replace(place, pointer=f"{place.pointer}/{escape(name)}", value=needed)
    absent = compiler.negated(compiler.required_name(own, name))
    return compiler.any(
        own, (absent, compiler.all(own, [compiler.required_name(own, each) for each in needed]))
    )


def _dependent_schemas(compiler: Compiler, spot: CompilerPosition, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    return compiler.all(place, [_depends(compiler, spot, keyword, name) for name in spot.schema[keyword]])


def _depends(compiler: Compiler, spot: CompilerPosition, keyword: str, name: str) -> Node:
    inner = spot.at(keyword, name)
    place = SchemaPlace(compiler.side, inner.pointer, keyword, inner.schema)
    if isinstance(inner.schema, list):
        return _needs(compiler, compiler.place(spot, keyword), name, inner.schema)
    absent = compiler.negated(compiler.required_name(place, name))
    return compiler.any(place, (compiler.type_is(place, ANYTHING & ~OBJECT), absent, compiler.schema(inner)))


def _reference(compiler: Compiler, spot: CompilerPosition, keyword: str) -> Node:
    target = compiler.follow(spot, keyword)
    return compiler.outside(spot, keyword) if target is None else compiler.schema(target)


def _type(compiler: Compiler, spot: CompilerPosition, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    names = [place.value] if isinstance(place.value, str) else place.value
    mask = reduce(int.__or__, (TYPES[name] for name in names), 0)
    if compiler.dialect is not Dialect.DRAFT4 or "integer" not in names or "number" in names:
        return compiler.type_is(place, mask)
    whole = WrittenAsInteger(compiler.number("written-as-integer"), place)
    integer = compiler.all(place, (compiler.type_is(place, INTEGER), whole))
    rest = mask & ~INTEGER
    return compiler.any(place, (integer, compiler.type_is(place, rest))) if rest else integer


def _values(compiler: Compiler, spot: CompilerPosition, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    return compiler.values(place, place.value if keyword == "enum" else (place.value,))


def _all_of(compiler: Compiler, spot: CompilerPosition, keyword: str) -> Node:
    return compiler.all(compiler.place(spot, keyword), compiler.each(spot, keyword))


def _any_of(compiler: Compiler, spot: CompilerPosition, keyword: str) -> Node:
    place, parts = compiler.place(spot, keyword), compiler.each(spot, keyword)
    listed = [each for part in parts if (each := _listed(part)) is not None]
    if len(listed) < len(parts):
        return compiler.any(place, parts)
    return compiler.values(place, (value for each in listed for value in each.values))


def _one_of(compiler: Compiler, spot: CompilerPosition, keyword: str) -> Node:
    place, parts = compiler.place(spot, keyword), compiler.each(spot, keyword)
    listed = [each for part in parts if (each := _listed(part)) is not None]
    if len(listed) < len(parts):
        number = compiler.number("one", tuple(sorted(part.id for part in parts)))
        return ExactlyOne(number, place, tuple(parts))
    times = Counter(key for each in listed for key in each.by_key)
    single = [value for each in listed for value in each.values if times[key_of(value)] == 1]
    return compiler.values(place, single)


def _listed(node: Node) -> OneValue | None:
    """Return the list of values of a schema that only has `enum` or `const`; None for any other schema."""
    while isinstance(node, All) and len(node.parts) == 1:
        node = node.parts[0]
    return node if isinstance(node, OneValue) else None


def _not(compiler: Compiler, spot: CompilerPosition, keyword: str) -> Node:
    part = compiler.schema(spot.at(keyword))
    return Not(compiler.number("not", part.id), compiler.place(spot, keyword), part)


def _if(compiler: Compiler, spot: CompilerPosition, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    test = compiler.schema(spot.at(keyword))
    then = compiler.schema(spot.at("then")) if "then" in spot.schema else compiler.true(place)
    otherwise = compiler.schema(spot.at("else")) if "else" in spot.schema else compiler.true(place)
    number = compiler.number("if", test.id, then.id, otherwise.id)
    return IfThenElse(number, place, test, then, otherwise)


def _bound(compiler: Compiler, spot: CompilerPosition, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    limit = exact(place.value)
    if limit is None:
        return compiler.opaque(spot, keyword, NUMBER)
    is_lower = keyword.lower().endswith("minimum")
    beside = spot.schema.get(f"exclusive{keyword.capitalize()}")
    is_exclusive = keyword.startswith("exclusive") or (compiler.dialect is Dialect.DRAFT4 and beside is True)
    precision = Precision.EXACT if abs(limit) <= MAX_EXACT else Precision.UNKNOWN
    number = compiler.number("bound", is_lower, limit, is_exclusive, precision)
    return Bound(number, place, is_lower, limit, is_exclusive, precision)


def _multiple_of(compiler: Compiler, spot: CompilerPosition, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    step = exact(place.value) if isinstance(place.value, int | float) else None
    if step is None:
        return compiler.opaque(spot, keyword, NUMBER)
    is_exact = isinstance(place.value, int) or step.denominator != 1
    precision = Precision.EXACT if is_exact else Precision.UNKNOWN
    return MultipleOf(compiler.number("multiple", step, precision), place, step, precision)


def _limit(compiler: Compiler, spot: CompilerPosition, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    is_lower, limit = keyword.startswith("min"), int(place.value)
    kind = {"Items": ItemCount, "Length": Length, "Properties": PropertyCount}[keyword[3:]]
    return kind(compiler.number(keyword, limit), place, is_lower, limit)


def _pattern(compiler: Compiler, spot: CompilerPosition, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    return Pattern(compiler.number("pattern", place.value), place, place.value)


def _format(compiler: Compiler, spot: CompilerPosition, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    if place.value not in compiler.formats or compiler.dialect is None:
        return compiler.true(place)
    where = "" if place.value in SAME_EVERYWHERE else compiler.dialect.uri
    return Format(compiler.number("format", place.value, where), place, place.value, compiler.dialect.uri)


def _content(compiler: Compiler, spot: CompilerPosition, keyword: str) -> Node:
    content = (spot.schema.get("contentEncoding"), spot.schema.get("contentMediaType"))
    return Opaque(compiler.number("content", keyword, *content), compiler.place(spot, keyword), STRING)


_EVERYWHERE: Final[dict[str, Handler]] = {
    "$ref": _reference,
    "type": _type,
    "enum": _values,
    "minimum": _bound,
    "maximum": _bound,
    "multipleOf": _multiple_of,
    "minLength": _limit,
    "maxLength": _limit,
    "pattern": _pattern,
    "format": _format,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "minItems": _limit,
    "maxItems": _limit,
    "uniqueItems": _unique_items,
    "items": _items,
    "minProperties": _limit,
    "maxProperties": _limit,
    "required": _required,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "dependencies": _dependent_schemas,
}
_UNTIL_2019: Final[dict[str, Handler]] = {"additionalItems": _additional_items}
_CONTENT: Final[dict[str, Handler]] = {"contentEncoding": _content, "contentMediaType": _content}
_6: Final[dict[str, Handler]] = {
    **_EVERYWHERE,
    "const": _values,
    "exclusiveMinimum": _bound,
    "exclusiveMaximum": _bound,
    "contains": _contains,
    "propertyNames": _property_names,
}
_7: Final[dict[str, Handler]] = {**_6, "if": _if}
_2019: Final[dict[str, Handler]] = {
    **_7,
    "dependentRequired": _dependent_required,
    "dependentSchemas": _dependent_schemas,
    "unevaluatedItems": unevaluated,
    "unevaluatedProperties": unevaluated,
}

HANDLERS: Final[dict[Dialect, dict[str, Handler]]] = {
    Dialect.DRAFT4: {**_EVERYWHERE, **_UNTIL_2019},
    Dialect.DRAFT6: {**_6, **_CONTENT, **_UNTIL_2019},
    Dialect.DRAFT7: {**_7, **_CONTENT, **_UNTIL_2019},
    Dialect.DRAFT201909: {**_2019, **_UNTIL_2019, "$recursiveRef": _reference},
    Dialect.DRAFT202012: {**_2019, "prefixItems": _prefix_items, "$dynamicRef": _reference},
}
"""The handlers of keywords that refuse values, by dialect.

A keyword that only modifies another one, such as `minContains`, is read by the handler of that one.
"""
KEYWORDS: Final = {dialect: frozenset(handlers) for dialect, handlers in HANDLERS.items()}
"""The keywords that refuse values, by dialect."""
