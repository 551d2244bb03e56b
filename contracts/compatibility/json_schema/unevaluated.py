"""`unevaluatedProperties` and `unevaluatedItems`, told without "evaluated".

Which properties are evaluated hangs on which subschemas the value fits. For every set of those it may fit, the rest
must fit the keyword's schema, unless it fits one that is not in the set: that is a formula without memory.

Source: JSON Schema 2020-12, Core, section 11. None is given where there are too many sets, or where what is evaluated
hangs on single items (`contains`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import TYPE_CHECKING, Final

from contracts.compatibility.json_schema.document import Spot
from contracts.compatibility.json_schema.nodes import Node

if TYPE_CHECKING:
    from contracts.compatibility.json_schema.compiler import Compiler  # it calls these functions

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


@dataclass(frozen=True, slots=True)
class _Share:
    """What is evaluated when all conditions hold."""

    conditions: tuple[Node, ...]
    evaluated: _Evaluated


_Own = Callable[[Spot, bool], _Evaluated]


def unevaluated_properties(compiler: Compiler, spot: Spot) -> Node | None:
    """Compile `unevaluatedProperties` of a schema; None where it cannot be told."""
    keyword = "unevaluatedProperties"
    rest = compiler.schema(spot.at(keyword))
    place = compiler.place(spot, keyword)

    def leaf(evaluated: _Evaluated) -> Node:
        return compiler.additional(place, evaluated.names, evaluated.patterns, rest)

    return _compiled(compiler, spot, keyword, _own_properties, leaf)


def unevaluated_items(compiler: Compiler, spot: Spot) -> Node | None:
    """Compile `unevaluatedItems` of a schema; None where it cannot be told."""
    keyword = "unevaluatedItems"
    rest = compiler.schema(spot.at(keyword))
    place = compiler.place(spot, keyword)

    def leaf(evaluated: _Evaluated) -> Node:
        return compiler.items_from(place, evaluated.count, rest)

    return _compiled(compiler, spot, keyword, _own_items, leaf)


def _compiled(
    compiler: Compiler, spot: Spot, keyword: str, own: _Own, leaf: Callable[[_Evaluated], Node]
) -> Node | None:
    place = compiler.place(spot, keyword)
    try:
        shares = list(_Collector(compiler, own).shares(spot, (), 0))
    except _GiveUpError:
        return None
    certain = reduce(
        _Evaluated.__or__, (share.evaluated for share in shares if not share.conditions), _Evaluated()
    )
    if certain.everything:
        return compiler.true(place)
    conditional = [share for share in shares if share.conditions and (share.evaluated | certain) != certain]
    conditions = {share.conditions: compiler.all(place, share.conditions) for share in conditional}
    if len(conditions) > _MAX_CONDITIONS:
        return None
    cases: list[Node] = []
    for holds in product((False, True), repeat=len(conditions)):
        held = {key for key, is_held in zip(conditions, holds, strict=True) if is_held}
        evaluated = reduce(
            _Evaluated.__or__, (share.evaluated for share in conditional if share.conditions in held), certain
        )
        if not evaluated.everything:
            others = [node for key, node in conditions.items() if key not in held]
            cases.append(compiler.any(place, [*others, leaf(evaluated)]))
    return compiler.all(place, cases)


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
    def __init__(self, compiler: Compiler, own: _Own) -> None:
        self._compiler = compiler
        self._own = own

    def shares(self, spot: Spot, conditions: tuple[Node, ...], depth: int) -> Iterator[_Share]:
        """Give what a schema and the schemas beside it evaluate. Raises _GiveUpError."""
        if not isinstance(spot.schema, dict):
            return
        if depth > _MAX_DEPTH or "dependencies" in spot.schema:
            raise _GiveUpError
        yield _Share(conditions, self._own(spot, depth == 0))
        for inner, more in self._beside(spot):
            yield from self.shares(inner, conditions + more, depth + 1)

    def _beside(self, spot: Spot) -> Iterator[tuple[Spot, tuple[Node, ...]]]:
        schema = spot.schema
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
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
            needed = self._compiler.required_name(self._compiler.place(spot, "dependentSchemas"), name)
            yield spot.at("dependentSchemas", name), (needed,)

    def _conditional(self, spot: Spot) -> Iterator[tuple[Spot, tuple[Node, ...]]]:
        test = self._compiler.schema(spot.at("if"))
        yield spot.at("if"), (test,)
        if "then" in spot.schema:
            yield spot.at("then"), (test,)
        if "else" in spot.schema:
            yield spot.at("else"), (self._compiler.negated(test),)
