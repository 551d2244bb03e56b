"""Branches of the proof: the leaves that hold for one value, those that do not, and the remaining choices.

`Facts` indexes the leaves that hold, so that the constraints on one property or item are looked up in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from tidegate.contracts.inclusion.json_schema.evaluate import is_additional, matches
from tidegate.contracts.inclusion.json_schema.nodes import (
    Additional,
    All,
    AnyOf,
    Contains,
    DefinitionReference,
    ExactlyOne,
    IfThenElse,
    ItemAt,
    ItemCount,
    ItemsFrom,
    Node,
    Not,
    OneValue,
    PatternProperty,
    Property,
    PropertyCount,
    PropertyNames,
    Required,
    TypeIs,
    UniqueItems,
    concerns,
)
from tidegate.contracts.inclusion.json_schema.values import ANYTHING, type_of


class Facts:
    """Leaves that all hold for one value; immutable once built.

    `mask` are the types that the value may have, and `speaks_of` the types that any other leaf constrains.
    """

    def __init__(self, leaves: dict[int, Node]) -> None:
        self.leaves = leaves
        self.mask = ANYTHING
        self.speaks_of = 0
        self.values: list[OneValue] = []
        for leaf in leaves.values():
            if isinstance(leaf, TypeIs):
                self.mask &= leaf.mask
            elif isinstance(leaf, OneValue):
                self.values.append(leaf)
                self.mask &= types_of(leaf)
            else:
                self.speaks_of |= concerns(leaf)

    @cached_property
    def objects(self) -> ObjectFacts:
        """Return the constraints that the leaves put on an object."""
        return ObjectFacts(self.leaves.values())

    @cached_property
    def arrays(self) -> ArrayFacts:
        """Return the constraints that the leaves put on an array."""
        return ArrayFacts(self.leaves.values())


def types_of(node: OneValue) -> int:
    """Return the types of the listed values, as a mask."""
    mask = 0
    for value in node.values:
        mask |= type_of(value)
    return mask


@dataclass(slots=True)
class Count:
    """Bounds of a count, both inclusive; `most` is None if unbounded."""

    least: int = 0
    most: int | None = None

    def at_least(self, limit: int) -> None:
        """Narrow the range from below."""
        self.least = max(self.least, limit)

    def at_most(self, limit: int) -> None:
        """Narrow the range from above."""
        self.most = limit if self.most is None else min(self.most, limit)

    @property
    def is_empty(self) -> bool:
        """Return whether no number is left."""
        return self.most is not None and self.least > self.most

    def copy(self) -> Count:
        """Return a copy that can be narrowed independently."""
        return Count(self.least, self.most)


@dataclass(slots=True)
class ObjectFacts:
    """The constraints on an object, sorted by what they constrain."""

    leaves: Iterable[Node]
    count: Count = field(default_factory=Count)
    required: dict[str, Required] = field(default_factory=dict)
    properties: dict[str, list[Node]] = field(default_factory=dict)
    matching: list[PatternProperty] = field(default_factory=list)
    additional: list[Additional] = field(default_factory=list)
    names: list[Node] = field(default_factory=list)
    is_possible: bool = False
    """True once every required property was checked and none was proven impossible."""
    fillers: dict[str, list[Any]] = field(default_factory=dict)
    """Values that were built for required properties, smallest first."""
    _at: dict[str, tuple[Node, ...]] = field(default_factory=dict)
    _filled: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        for leaf in self.leaves:
            match leaf:
                case Required(name=name):
                    self.required[name] = leaf
                case Property(name=name, schema=schema):
                    self.properties.setdefault(name, []).append(schema)
                case PatternProperty():
                    self.matching.append(leaf)
                case Additional():
                    self.additional.append(leaf)
                case PropertyNames(schema=schema):
                    self.names.append(schema)
                case PropertyCount(is_lower=True, limit=limit):
                    self.count.at_least(limit)
                case PropertyCount(limit=limit):
                    self.count.at_most(limit)

    @property
    def filled(self) -> dict[str, Any] | None:
        """Return the required properties, each with its first filler; None while one of them has no filler."""
        if self._filled is None and self.required.keys() <= self.fillers.keys():
            self._filled = {name: self.fillers[name][0] for name in self.required}
        return self._filled

    def at(self, name: str) -> tuple[Node, ...]:
        """Return the schemas that certainly apply to the value of a property; those that may apply are left out."""
        known = self._at.get(name)
        if known is None:
            known = (
                *self.properties.get(name, ()),
                *(each.schema for each in self.matching if matches(each.pattern, name)),
                *(each.schema for each in self.additional if is_additional(name, each)),
            )
            self._at[name] = known
        return known


@dataclass(slots=True)
class ArrayFacts:
    """The constraints on an array, sorted by what they constrain."""

    leaves: Iterable[Node]
    count: Count = field(default_factory=Count)
    is_unique: bool = False
    single: dict[int, list[Node]] = field(default_factory=dict)
    rest: list[ItemsFrom] = field(default_factory=list)
    contains: list[Contains] = field(default_factory=list)
    every: list[Node] = field(default_factory=list)
    """The schemas that no item may fit: those of `contains` with at most 0."""

    def __post_init__(self) -> None:
        for leaf in self.leaves:
            match leaf:
                case ItemCount(is_lower=True, limit=limit):
                    self.count.at_least(limit)
                case ItemCount(limit=limit):
                    self.count.at_most(limit)
                case UniqueItems():
                    self.is_unique = True
                case ItemAt(index=index, schema=schema):
                    self.single.setdefault(index, []).append(schema)
                case ItemsFrom():
                    self.rest.append(leaf)
                case Contains():
                    self.contains.append(leaf)
                    if not leaf.is_lower and leaf.limit == 0:
                        self.every.append(leaf.schema)

    @property
    def regular_from(self) -> int:
        """Return the index from which the same schemas apply to all items."""
        return max([0, *(index + 1 for index in self.single), *(each.index for each in self.rest)])

    def at(self, index: int) -> tuple[Node, ...]:
        """Return the schemas that apply to the item at an index."""
        return (
            *self.single.get(index, ()),
            *(each.schema for each in self.rest if each.index <= index),
        )


Literal = tuple[Node, bool]
"""A node, and whether it must hold."""
Clause = tuple[Literal, ...]
"""Literals of which at least one must be true."""

MAX_ALTERNATIVES: Final = 40
"""Maximum alternatives of a `oneOf` that are compared in pairs."""


@dataclass(frozen=True, eq=False)
class Branch:
    """A conjunction about one value: leaves that hold, leaves that are broken, and clauses left to choose from.

    `broken` is by node id. `asserted` are the literals that were added so far, by node id.
    """

    facts: Facts
    broken: dict[int, Node]
    clauses: tuple[Clause, ...]
    asserted: frozenset[tuple[int, bool]]

    @cached_property
    def mask(self) -> int:
        """Return the types that the value may have."""
        mask = self.facts.mask
        for leaf in self.broken.values():
            if isinstance(leaf, TypeIs):
                mask &= ~leaf.mask
            elif not isinstance(leaf, OneValue):
                # A leaf holds for every value of a type that it does not constrain, so the value has one that it does.
                mask &= concerns(leaf)
        return mask

    @cached_property
    def listed(self) -> list[Any]:
        """Return the values that every list allows and no broken list contains; empty if no leaf lists values."""
        if not self.facts.values:
            return []
        first, *others = self.facts.values
        gone = [leaf.by_key for leaf in self.broken.values() if isinstance(leaf, OneValue)]
        return [
            value
            for key, value in first.by_key.items()
            if all(key in other.by_key for other in others) and not any(key in each for each in gone)
        ]

    @cached_property
    def weight(self) -> int:
        """Return the number of budget steps that one examination of the branch costs."""
        return 1 + (len(self.facts.leaves) + 4 * len(self.broken) + len(self.asserted)) // 256

    @property
    def core(self) -> Branch:
        """Return the branch without its clauses."""
        return Branch(self.facts, self.broken, (), self.asserted)

    def without(self, clause: Clause) -> Branch:
        """Return the branch without one of its clauses."""
        return Branch(
            self.facts, self.broken, tuple(each for each in self.clauses if each is not clause), self.asserted
        )

    def has(self, clause: Clause) -> bool:
        """Return whether one of the literals of a clause is asserted."""
        return any((node.id, holds) in self.asserted for node, holds in clause)


NOTHING_KNOWN: Final = Branch(Facts({}), {}, (), frozenset())


def extended(
    branch: Branch, literals: Iterable[Literal], are_disjoint: Callable[[ExactlyOne], bool]
) -> Branch | None:
    """Return a branch with more literals; None if they contradict each other or the branch by their form alone.

    `are_disjoint` says whether the alternatives of a `oneOf` exclude each other.
    """
    return _Extension(branch, are_disjoint).with_(list(literals))


class _Extension:
    """The literals that are added to a branch, decomposed into leaves and clauses."""

    def __init__(self, branch: Branch, are_disjoint: Callable[[ExactlyOne], bool]) -> None:
        self._branch = branch
        self._are_disjoint = are_disjoint
        self._holding: dict[int, Node] = {}
        self._broken: dict[int, Node] = {}
        self._clauses: list[Clause] = []
        self._asserted: set[tuple[int, bool]] = set()

    def with_(self, stack: list[Literal]) -> Branch | None:
        known = self._branch.asserted
        while stack:
            node, holds = stack.pop()
            node = _unwrapped(node)
            mark, opposite = (node.id, holds), (node.id, not holds)
            if opposite in known or opposite in self._asserted:
                return None
            if mark in known or mark in self._asserted:
                continue
            self._asserted.add(mark)
            if not self._take(node, stack, holds=holds):
                return None
        return self._result()

    def _result(self) -> Branch:
        branch = self._branch
        facts = Facts({**branch.facts.leaves, **self._holding}) if self._holding else branch.facts
        return Branch(
            facts,
            {**branch.broken, **self._broken} if self._broken else branch.broken,
            (*branch.clauses, *self._clauses),
            branch.asserted | self._asserted,
        )

    def _take(self, node: Node, stack: list[Literal], *, holds: bool) -> bool:
        """Decompose one literal onto the stack, leaves or clauses. Return False if it can never be true."""
        match node:
            case All(parts=parts) | AnyOf(parts=parts):
                if isinstance(node, All) is holds:
                    stack.extend((part, holds) for part in parts)
                    return True
                return self._choose(tuple((part, holds) for part in parts), stack)
            case Not(part=part):
                stack.append((part, not holds))
            case DefinitionReference():
                if node.definition.node is not None:
                    stack.append((node.definition.node, holds))
            case IfThenElse(test=test, then=then, otherwise=otherwise):
                return self._choose(((test, False), (then, holds)), stack) and self._choose(
                    ((test, True), (otherwise, holds)), stack
                )
            case ExactlyOne():
                return self._one_of(node, stack, holds=holds)
            case _ if holds:
                self._holding[node.id] = node
            case _:
                self._broken[node.id] = node
        return True

    def _choose(self, clause: Clause, stack: list[Literal]) -> bool:
        if len(clause) == 1:
            stack.extend(clause)
        elif clause:
            self._clauses.append(clause)
        return bool(clause)

    def _one_of(self, node: ExactlyOne, stack: list[Literal], *, holds: bool) -> bool:
        parts = node.parts
        if self._are_disjoint(node):
            if holds:
                return self._choose(tuple((part, True) for part in parts), stack)
            stack.extend((part, False) for part in parts)
            return True
        if holds:
            pairs = [(one, other) for index, one in enumerate(parts) for other in parts[index + 1 :]]
            if len(parts) <= MAX_ALTERNATIVES:
                self._clauses.extend(((one, False), (other, False)) for one, other in pairs)
            return self._choose(tuple((part, True) for part in parts), stack)
        if len(parts) <= MAX_ALTERNATIVES:
            # Not exactly one holds: if one part holds, another one holds too.
            for part in parts:
                others = tuple((other, True) for other in parts if other is not part)
                self._choose(((part, False), *others), stack)
        return True


def _unwrapped(node: Node) -> Node:
    """Return the innermost part of connectives that are equivalent to one of their parts, and so share its id."""
    while isinstance(node, All | AnyOf):
        same = next((part for part in node.parts if part.id == node.id), None)
        if same is None:
            break
        node = same
    return node
