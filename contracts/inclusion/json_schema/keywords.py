"""What each keyword says, by name: the formula that it adds to its schema."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import reduce
from typing import Final

from tidegate.contracts.inclusion.json_schema import container_keywords as containers
from tidegate.contracts.inclusion.json_schema.compiler import Compiler, Handler
from tidegate.contracts.inclusion.json_schema.dialect import SAME_EVERYWHERE, Dialect
from tidegate.contracts.inclusion.json_schema.document import Spot
from tidegate.contracts.inclusion.json_schema.nodes import (
    All,
    Bound,
    Condition,
    Format,
    Length,
    MultipleOf,
    Node,
    Not,
    OneOf,
    OneValue,
    Opaque,
    Pattern,
    Precision,
    WrittenAsInteger,
)
from tidegate.contracts.inclusion.json_schema.values import (
    INTEGER,
    MAX_EXACT,
    NUMBER,
    STRING,
    TYPES,
    exact,
    key_of,
)


def _reference(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    target = compiler.follow(spot, keyword)
    return compiler.outside(spot, keyword) if target is None else compiler.schema(target)


def _type(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    names = [place.value] if isinstance(place.value, str) else place.value
    mask = reduce(int.__or__, (TYPES[name] for name in names), 0)
    if compiler.dialect is not Dialect.DRAFT4 or "integer" not in names or "number" in names:
        return compiler.type_is(place, mask)
    whole = WrittenAsInteger(compiler.number("written-as-integer"), place)
    integer = compiler.all(place, (compiler.type_is(place, INTEGER), whole))
    rest = mask & ~INTEGER
    return compiler.any(place, (integer, compiler.type_is(place, rest))) if rest else integer


def _values(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    return compiler.values(place, place.value if keyword == "enum" else (place.value,))


def _all_of(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    return compiler.all(compiler.place(spot, keyword), compiler.each(spot, keyword))


def _any_of(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    place, parts = compiler.place(spot, keyword), compiler.each(spot, keyword)
    listed = [each for part in parts if (each := _listed(part)) is not None]
    if len(listed) < len(parts):
        return compiler.any(place, parts)
    return compiler.values(place, (value for each in listed for value in each.values))


def _one_of(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    place, parts = compiler.place(spot, keyword), compiler.each(spot, keyword)
    listed = [each for part in parts if (each := _listed(part)) is not None]
    if len(listed) < len(parts):
        number = compiler.number("one", tuple(sorted(part.id for part in parts)))
        return OneOf(number, place, tuple(parts))
    times = Counter(key for each in listed for key in each.by_key)
    single = [value for each in listed for value in each.values if times[key_of(value)] == 1]
    return compiler.values(place, single)


def _listed(node: Node) -> OneValue | None:
    """Return the values of a schema that does nothing but list them."""
    while isinstance(node, All) and len(node.parts) == 1:
        node = node.parts[0]
    return node if isinstance(node, OneValue) else None


def _not(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    part = compiler.schema(spot.at(keyword))
    return Not(compiler.number("not", part.id), compiler.place(spot, keyword), part)


def _if(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    test = compiler.schema(spot.at(keyword))
    then = compiler.schema(spot.at("then")) if "then" in spot.schema else compiler.true(place)
    otherwise = compiler.schema(spot.at("else")) if "else" in spot.schema else compiler.true(place)
    number = compiler.number("if", test.id, then.id, otherwise.id)
    return Condition(number, place, test, then, otherwise)


def _bound(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    limit = exact(place.value)
    if limit is None:
        return compiler.opaque(spot, keyword, NUMBER)
    is_lower = keyword.lower().endswith("minimum")
    beside = spot.schema.get(f"exclusive{keyword.capitalize()}")
    is_exclusive = keyword.startswith("exclusive") or (compiler.dialect is Dialect.DRAFT4 and beside is True)
    precision = _precision(place.value, limit)
    number = compiler.number("bound", is_lower, limit, is_exclusive, precision)
    return Bound(number, place, is_lower, limit, is_exclusive, precision)


def _precision(written: float, limit: Fraction) -> Precision:
    if limit.denominator != 1:
        return Precision.EXACT
    if not isinstance(written, int):
        return Precision.DOUBLE
    return Precision.EXACT if abs(limit) <= MAX_EXACT else Precision.UNKNOWN


def _multiple_of(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    step = exact(place.value) if isinstance(place.value, int | float) else None
    if step is None:
        return compiler.opaque(spot, keyword, NUMBER)
    by_double = Precision.DOUBLE if isinstance(place.value, int) else Precision.UNKNOWN
    precision = by_double if step.denominator == 1 else Precision.EXACT
    return MultipleOf(compiler.number("multiple", step, precision), place, step, precision)


def _length(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    is_lower, limit = keyword.startswith("min"), int(place.value)
    return Length(compiler.number("length", is_lower, limit), place, is_lower, limit)


def _pattern(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    return Pattern(compiler.number("pattern", place.value), place, place.value)


def _format(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    place = compiler.place(spot, keyword)
    if place.value not in compiler.formats or compiler.dialect is None:
        return compiler.true(place)
    where = "" if place.value in SAME_EVERYWHERE else compiler.dialect.uri
    return Format(compiler.number("format", place.value, where), place, place.value, compiler.dialect.uri)


def _content(compiler: Compiler, spot: Spot, keyword: str) -> Node:
    content = (spot.schema.get("contentEncoding"), spot.schema.get("contentMediaType"))
    return Opaque(compiler.number("content", keyword, *content), compiler.place(spot, keyword), STRING)


_EVERYWHERE: Final[dict[str, Handler]] = {
    "$ref": _reference,
    "type": _type,
    "enum": _values,
    "minimum": _bound,
    "maximum": _bound,
    "multipleOf": _multiple_of,
    "minLength": _length,
    "maxLength": _length,
    "pattern": _pattern,
    "format": _format,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    **containers.EVERYWHERE,
}
_FROM_6: Final[dict[str, Handler]] = {
    "const": _values,
    "exclusiveMinimum": _bound,
    "exclusiveMaximum": _bound,
    **containers.FROM_6,
}
_IN_6_AND_7: Final[dict[str, Handler]] = {"contentEncoding": _content, "contentMediaType": _content}
_FROM_7: Final[dict[str, Handler]] = {"if": _if}
_6: Final = {**_EVERYWHERE, **_FROM_6}
_2019: Final = {**_6, **_FROM_7, **containers.FROM_2019}

HANDLERS: Final[dict[Dialect, dict[str, Handler]]] = {
    Dialect.DRAFT4: {**_EVERYWHERE, **containers.UNTIL_2019},
    Dialect.DRAFT6: {**_6, **_IN_6_AND_7, **containers.UNTIL_2019},
    Dialect.DRAFT7: {**_6, **_IN_6_AND_7, **_FROM_7, **containers.UNTIL_2019},
    Dialect.DRAFT201909: {**_2019, **containers.UNTIL_2019, "$recursiveRef": _reference},
    Dialect.DRAFT202012: {**_2019, **containers.FROM_2020, "$dynamicRef": _reference},
}
"""The formula of each keyword that refuses values, by dialect; what modifies another keyword goes with that one."""
KEYWORDS: Final = {dialect: frozenset(handlers) for dialect, handlers in HANDLERS.items()}
"""The keywords that refuse a value, by dialect."""
