"""`unevaluatedProperties` and `unevaluatedItems`, told without "evaluated".

Which properties are evaluated hangs on which subschemas the value fits. So each one that some of them evaluate must
fit one of those, or the keyword's schema: that is a formula without memory. Where patterns evaluate, the same is said
for every set of subschemas that the value may fit.

Source: JSON Schema 2020-12, Core, section 11. None is given where there are too many sets, or where what is evaluated
hangs on single items (`contains`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from typing import Final

from tidegate.contracts.formats.json_keywords import REFERENCES
from tidegate.contracts.inclusion.json_schema.compiler import Compiler
from tidegate.contracts.inclusion.json_schema.document import Spot
from tidegate.contracts.inclusion.json_schema.evaluate import matches
from tidegate.contracts.inclusion.json_schema.nodes import Node, Place
from tidegate.contracts.inclusion.json_schema.values import OBJECT

_MAX_CONDITIONS: Final = 4
_MAX_DEPTH: Final = 12


class _GiveUpError(Exception):
    """What is evaluated cannot be told from the schema alone."""


@dataclass(frozen=True, slots=True)
class _Evaluated:
    """Properties or items that are evaluated: all, or those named, those matching, those before `count`."""

    everything: bool = False
    names: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = ()
    count: int = 0

    def __or__(self, other: _Evaluated) -> _Evaluated:
        return _Evaluated(
            self.everything or other.everything,
            self.names | other.names,
            tuple(dict.fromkeys(self.patterns + other.patterns)),
            max(self.count, other.count),
        )

    def has(self, each: str | int) -> bool:
        """Return whether a property or an item is among them."""
        if isinstance(each, int):
            return self.everything or each < self.count
        return self.everything or each in self.names or any(matches(one, each) for one in self.patterns)


@dataclass(frozen=True, slots=True)
class _Share:
    """What is evaluated when all conditions hold."""

    conditions: tuple[Node, ...]
    evaluated: _Evaluated


@dataclass(frozen=True, slots=True)
class _Kind:
    """How properties or items are spoken of."""

    keyword: str
    own: Callable[[Spot, bool], _Evaluated]
    """What a schema evaluates by its own keywords; the second argument: whether the keyword is its own, too."""
    one: Callable[[str | int], Node]
    """What one property or item must fit when it is not evaluated."""
    rest: Callable[[_Evaluated], Node]
    """What all must fit that are not evaluated."""


def unevaluated_properties(compiler: Compiler, spot: Spot) -> Node | None:
    """Compile `unevaluatedProperties` of a schema; None where it cannot be told."""
    keyword = "unevaluatedProperties"
    schema = compiler.schema(spot.at(keyword))
    place = compiler.place(spot, keyword)

    def one(name: str | int) -> Node:
        return compiler.property(place, str(name), schema)

    def rest(evaluated: _Evaluated) -> Node:
        return compiler.additional(place, evaluated.names, evaluated.patterns, schema)

    return _compiled(compiler, spot, _Kind(keyword, _own_properties, one, rest))


def unevaluated_items(compiler: Compiler, spot: Spot) -> Node | None:
    """Compile `unevaluatedItems` of a schema; None where it cannot be told."""
    keyword = "unevaluatedItems"
    schema = compiler.schema(spot.at(keyword))
    place = compiler.place(spot, keyword)

    def one(index: str | int) -> Node:
        return compiler.item_at(place, int(index), schema)

    def rest(evaluated: _Evaluated) -> Node:
        return compiler.items_from(place, evaluated.count, schema)

    return _compiled(compiler, spot, _Kind(keyword, _own_items, one, rest))


def _compiled(compiler: Compiler, spot: Spot, kind: _Kind) -> Node | None:
    place = compiler.place(spot, kind.keyword)
    try:
        shares = list(_Collector(compiler, kind.own).shares(spot, (), 0))
    except _GiveUpError:
        return None
    certain = _union(share.evaluated for share in shares if not share.conditions)
    if certain.everything:
        return compiler.true(place)
    conditional = [
        (compiler.all(place, share.conditions), share.evaluated)
        for share in shares
        if share.conditions and (share.evaluated | certain) != certain
    ]
    if all(set(evaluated.patterns) <= set(certain.patterns) for _, evaluated in conditional):
        return compiler.all(place, _one_by_one(compiler, place, kind, (certain, conditional)))
    if len(conditional) > _MAX_CONDITIONS:
        return None
    return compiler.all(place, _set_by_set(compiler, place, kind, (certain, conditional)))


_Found = tuple[_Evaluated, list[tuple[Node, _Evaluated]]]
"""What is evaluated anyway, and what is under conditions."""


def _one_by_one(compiler: Compiler, place: Place, kind: _Kind, found: _Found) -> Iterator[Node]:
    """Each property or item that may be evaluated is, by one that holds of its conditions, or fits the schema."""
    certain, conditional = found
    whole = certain | _union(replace(evaluated, everything=False) for _, evaluated in conditional)
    some: list[str | int] = [*sorted(whole.names - certain.names), *range(certain.count, whole.count)]
    for each in some:
        if not certain.has(each):
            conditions = [condition for condition, evaluated in conditional if evaluated.has(each)]
            yield compiler.any(place, [*conditions, kind.one(each)])
    conditions = [condition for condition, evaluated in conditional if evaluated.everything]
    yield compiler.any(place, [*conditions, kind.rest(whole)])


def _set_by_set(compiler: Compiler, place: Place, kind: _Kind, found: _Found) -> Iterator[Node]:
    """For every set of conditions: one outside the set holds, or what the set leaves fits the schema."""
    certain, conditional = found
    for held in product((False, True), repeat=len(conditional)):
        pairs = list(zip(held, conditional, strict=True))
        evaluated = certain | _union(each for is_held, (_, each) in pairs if is_held)
        if not evaluated.everything:
            others = [condition for is_held, (condition, _) in pairs if not is_held]
            yield compiler.any(place, [*others, kind.rest(evaluated)])


def _union(parts: Iterable[_Evaluated]) -> _Evaluated:
    return reduce(_Evaluated.__or__, parts, _Evaluated())


def _own_properties(spot: Spot, is_outermost: bool) -> _Evaluated:  # noqa: FBT001 - one of two functions of a kind
    schema = spot.schema
    everything = "additionalProperties" in schema or (not is_outermost and "unevaluatedProperties" in schema)
    return _Evaluated(
        everything, frozenset(schema.get("properties", ())), tuple(schema.get("patternProperties", ()))
    )


def _own_items(spot: Spot, is_outermost: bool) -> _Evaluated:  # noqa: FBT001 - one of two functions of a kind
    schema = spot.schema
    if "contains" in schema:
        raise _GiveUpError
    items = schema.get("items")
    everything = (
        (items is not None and not isinstance(items, list))
        or (isinstance(items, list) and "additionalItems" in schema)
        or (not is_outermost and "unevaluatedItems" in schema)
    )
    listed = items if isinstance(items, list) else schema.get("prefixItems", ())
    return _Evaluated(everything, count=len(listed))


class _Collector:
    def __init__(self, compiler: Compiler, own: Callable[[Spot, bool], _Evaluated]) -> None:
        self._compiler = compiler
        self._own = own

    def shares(self, spot: Spot, conditions: tuple[Node, ...], depth: int) -> Iterator[_Share]:
        """Yield what a schema and the schemas beside it evaluate. Raises _GiveUpError."""
        if not isinstance(spot.schema, dict):
            return
        depends = spot.schema.get("dependencies", {}).values()
        if depth > _MAX_DEPTH or any(not isinstance(each, list) for each in depends):
            raise _GiveUpError
        yield _Share(conditions, self._own(spot, depth == 0))
        for inner, more in self._beside(spot):
            yield from self.shares(inner, conditions + more, depth + 1)

    def _beside(self, spot: Spot) -> Iterator[tuple[Spot, tuple[Node, ...]]]:
        schema = spot.schema
        for keyword in REFERENCES:
            if keyword in schema:
                target = self._compiler.follow(spot, keyword)
                if target is None:
                    raise _GiveUpError
                yield target, ()
        for index in range(len(schema.get("allOf", ()))):
            yield spot.at("allOf", index), ()
        for keyword in ("anyOf", "oneOf"):
            for index in range(len(schema.get(keyword, ()))):
                branch = spot.at(keyword, index)
                yield branch, (self._compiler.schema(branch),)
        if "if" in schema:
            yield from self._conditional(spot)
        for name in schema.get("dependentSchemas", ()):
            place = self._compiler.place(spot, "dependentSchemas")
            # What is no object lacks nothing, and yet the schema does not apply to it.
            is_object = self._compiler.type_is(place, OBJECT)
            needed = self._compiler.required_name(place, name)
            yield spot.at("dependentSchemas", name), (is_object, needed)

    def _conditional(self, spot: Spot) -> Iterator[tuple[Spot, tuple[Node, ...]]]:
        test = self._compiler.schema(spot.at("if"))
        yield spot.at("if"), (test,)
        if "then" in spot.schema:
            yield spot.at("then"), (test,)
        if "else" in spot.schema:
            yield spot.at("else"), (self._compiler.negated(test),)
