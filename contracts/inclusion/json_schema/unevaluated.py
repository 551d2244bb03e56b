"""Translation of `unevaluatedProperties` and `unevaluatedItems` to formulas without annotations.

Which properties are evaluated depends on the subschemas that the value matches. For each property that only some
subschemas evaluate, one of these must match, or the property must fit the schema of the keyword. Where patterns
evaluate properties, there is one formula for each set of subschemas that the value may match.

`contains` evaluates each item that fits its schema, so a remaining item must fit that schema or the keyword's.

Source: JSON Schema 2020-12, Core, section 11. The keyword is opaque if there are too many sets. It is also opaque
next to `contains` in 2019-09: jsonschema-rs counts `contains` as evaluating items there, the specification does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from typing import Final

from tidegate.contracts.formats.json_keywords import REFERENCES
from tidegate.contracts.inclusion.json_schema.compiler import Compiler
from tidegate.contracts.inclusion.json_schema.dialect import Dialect
from tidegate.contracts.inclusion.json_schema.document import CompilerPosition
from tidegate.contracts.inclusion.json_schema.evaluate import matches
from tidegate.contracts.inclusion.json_schema.nodes import Node
from tidegate.contracts.inclusion.json_schema.values import ARRAY, OBJECT

_MAX_CONDITIONS: Final = 4
_MAX_DEPTH: Final = 12
_LIMITS: Final = frozenset(
    {
        "type",
        "enum",
        "const",
        "minItems",
        "maxItems",
        "uniqueItems",
        "required",
        "minProperties",
        "maxProperties",
    }
)
"""Keywords that evaluate no property and no item."""


class _GiveUpError(Exception):
    """The evaluated parts cannot be determined from the schema."""


@dataclass(frozen=True, slots=True)
class _Evaluated:
    """A set of evaluated properties or items.

    The set contains all of them (`everything`), or the properties in `names` and those that match `patterns`. Of items,
    it contains those before index `count` and those that fit a node of `contained`.
    """

    everything: bool = False
    names: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = ()
    count: int = 0
    contained: tuple[Node, ...] = ()

    def __or__(self, other: _Evaluated) -> _Evaluated:
        return _Evaluated(
            self.everything or other.everything,
            self.names | other.names,
            tuple(dict.fromkeys(self.patterns + other.patterns)),
            max(self.count, other.count),
            tuple({node.id: node for node in self.contained + other.contained}.values()),
        )

    @property
    def kinds(self) -> frozenset[str | int]:
        """Return what evaluates members other than by name or index: patterns, and ids of `contains` nodes."""
        return frozenset(self.patterns) | {node.id for node in self.contained}

    def has(self, each: str | int) -> bool:
        """Return whether the set contains a property (by name) or an item (by index)."""
        if isinstance(each, int):
            return self.everything or each < self.count
        return self.everything or each in self.names or any(matches(one, each) for one in self.patterns)


@dataclass(frozen=True, slots=True)
class _Share:
    """What a subschema evaluates if all conditions hold."""

    conditions: tuple[Node, ...]
    evaluated: _Evaluated


def _union(parts: Iterable[_Evaluated]) -> _Evaluated:
    return reduce(_Evaluated.__or__, parts, _Evaluated())


_Conditional = list[tuple[Node, _Evaluated]]
"""Conditions, each with what is evaluated if it holds."""


def unevaluated(compiler: Compiler, spot: CompilerPosition, keyword: str) -> Node:
    """Compile `unevaluatedProperties` or `unevaluatedItems` of a schema; an opaque node if this is not possible."""
    if spot.schema[keyword] is True:
        return compiler.true(compiler.place(spot, keyword))
    node = _Unevaluated(compiler, spot, keyword).node(spot)
    if node is not None:
        return node
    evaluating = {name: value for name, value in spot.schema.items() if name not in _LIMITS}
    concerns = ARRAY if keyword == "unevaluatedItems" else OBJECT
    return compiler.opaque(replace(spot, schema=evaluating), keyword, concerns)


class _Unevaluated:
    """Compiles one `unevaluatedProperties` or `unevaluatedItems`."""

    def __init__(self, compiler: Compiler, spot: CompilerPosition, keyword: str) -> None:
        self._compiler = compiler
        self._keyword = keyword
        self._schema = compiler.schema(spot.at(keyword))
        self._place = compiler.place(spot, keyword)

    def node(self, spot: CompilerPosition) -> Node | None:
        compiler, place = self._compiler, self._place
        try:
            shares = list(self._shares(spot, (), 0))
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
        if all(evaluated.kinds <= certain.kinds for _, evaluated in conditional):
            return compiler.all(place, self._one_by_one(certain, conditional))
        if len(conditional) > _MAX_CONDITIONS:
            return None
        return compiler.all(place, self._set_by_set(certain, conditional))

    def _one_by_one(self, certain: _Evaluated, conditional: _Conditional) -> Iterator[Node]:
        """Yield a node for each conditional member: one of its conditions holds, or it fits the keyword's schema."""
        compiler, place = self._compiler, self._place
        whole = certain | _union(replace(evaluated, everything=False) for _, evaluated in conditional)
        for name in sorted(whole.names - certain.names):
            if not certain.has(name):
                conditions = [condition for condition, evaluated in conditional if evaluated.has(name)]
                yield compiler.any(place, [*conditions, compiler.property(place, name, self._schema)])
        for index in range(certain.count, whole.count):
            conditions = [condition for condition, evaluated in conditional if evaluated.has(index)]
            yield compiler.any(place, [*conditions, compiler.item_at(place, index, self._item(certain))])
        conditions = [condition for condition, evaluated in conditional if evaluated.everything]
        yield compiler.any(place, [*conditions, self._rest(whole)])

    def _set_by_set(self, certain: _Evaluated, conditional: _Conditional) -> Iterator[Node]:
        """Yield a node for each set of conditions: another condition holds, or the rest fits the keyword's schema."""
        for held in product((False, True), repeat=len(conditional)):
            pairs = list(zip(held, conditional, strict=True))
            evaluated = certain | _union(each for is_held, (_, each) in pairs if is_held)
            if not evaluated.everything:
                others = [condition for is_held, (condition, _) in pairs if not is_held]
                yield self._compiler.any(self._place, [*others, self._rest(evaluated)])

    def _rest(self, evaluated: _Evaluated) -> Node:
        """Return the node that all members outside a set of evaluated ones must fit."""
        if self._keyword == "unevaluatedItems":
            return self._compiler.items_from(self._place, evaluated.count, self._item(evaluated))
        return self._compiler.additional(self._place, evaluated.names, evaluated.patterns, self._schema)

    def _item(self, evaluated: _Evaluated) -> Node:
        """Return the node that an item must fit if its index does not evaluate it."""
        if not evaluated.contained:
            return self._schema
        return self._compiler.any(self._place, [*evaluated.contained, self._schema])

    def _own(self, spot: CompilerPosition, *, is_outermost: bool) -> _Evaluated:
        """Return what the keywords of a schema itself evaluate, without its subschemas. Raises _GiveUpError."""
        schema = spot.schema
        everything = not is_outermost and self._keyword in schema
        if self._keyword == "unevaluatedProperties":
            names, patterns = schema.get("properties", ()), schema.get("patternProperties", ())
            everything = everything or "additionalProperties" in schema
            return _Evaluated(everything, frozenset(names), tuple(patterns))
        if "contains" in schema and self._compiler.dialect is not Dialect.DRAFT202012:
            raise _GiveUpError
        items = schema.get("items")
        if isinstance(items, list):
            return _Evaluated(everything or "additionalItems" in schema, count=len(items))
        contained = (self._compiler.schema(spot.at("contains")),) if "contains" in schema else ()
        count = len(schema.get("prefixItems", ()))
        return _Evaluated(everything or items is not None, count=count, contained=contained)

    def _shares(self, spot: CompilerPosition, conditions: tuple[Node, ...], depth: int) -> Iterator[_Share]:
        """Yield what a schema and its in-place applicators evaluate. Raises _GiveUpError."""
        if not isinstance(spot.schema, dict):
            return
        depends = spot.schema.get("dependencies", {}).values()
        if depth > _MAX_DEPTH or any(not isinstance(each, list) for each in depends):
            raise _GiveUpError
        yield _Share(conditions, self._own(spot, is_outermost=depth == 0))
        for inner, more in self._beside(spot):
            yield from self._shares(inner, conditions + more, depth + 1)

    def _beside(self, spot: CompilerPosition) -> Iterator[tuple[CompilerPosition, tuple[Node, ...]]]:
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
            # `required` holds for a value that is not an object, but `dependentSchemas` does not apply to it.
            is_object = self._compiler.type_is(place, OBJECT)
            needed = self._compiler.required_name(place, name)
            yield spot.at("dependentSchemas", name), (is_object, needed)

    def _conditional(self, spot: CompilerPosition) -> Iterator[tuple[CompilerPosition, tuple[Node, ...]]]:
        test = self._compiler.schema(spot.at("if"))
        yield spot.at("if"), (test,)
        if "then" in spot.schema:
            yield spot.at("then"), (test,)
        if "else" in spot.schema:
            yield spot.at("else"), (self._compiler.negated(test),)
