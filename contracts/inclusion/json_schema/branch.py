"""A set of literals about one value, taken apart: leaves that hold, leaves that do not, and what is left to choose."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from tidegate.contracts.inclusion.json_schema.facts import Facts
from tidegate.contracts.inclusion.json_schema.nodes import (
    All,
    AnyOf,
    Condition,
    Node,
    Not,
    OneOf,
    OneValue,
    Reference,
    TypeIs,
    concerns,
)

Literal = tuple[Node, bool]
"""A node, and whether it holds."""
Clause = tuple[Literal, ...]
"""Literals of which at least one is true."""

MAX_ALTERNATIVES: Final = 40
"""Most alternatives of a `oneOf` that are told apart in pairs."""


@dataclass(frozen=True, eq=False)
class Branch:
    """What is known of one value, and what is left to choose."""

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
                # A leaf holds for every value of another type.
                mask &= concerns(leaf)
        return mask

    @cached_property
    def listed(self) -> list[Any]:
        """Return the values that are left of those that leaves list; none when no leaf lists any."""
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
        """Return how many steps one look at the branch counts as."""
        return 1 + (len(self.facts.leaves) + 4 * len(self.broken) + len(self.asserted)) // 256

    @property
    def core(self) -> Branch:
        """What is known already, without what is left to choose."""
        return Branch(self.facts, self.broken, (), self.asserted)

    def without(self, clause: Clause) -> Branch:
        """Return the branch with one choice less."""
        return Branch(
            self.facts, self.broken, tuple(each for each in self.clauses if each is not clause), self.asserted
        )

    def has(self, clause: Clause) -> bool:
        """Return whether one of the literals of a clause is asserted."""
        return any((node.id, holds) in self.asserted for node, holds in clause)


NOTHING_KNOWN: Final = Branch(Facts({}), {}, (), frozenset())


def extended(
    branch: Branch, literals: Iterable[Literal], are_disjoint: Callable[[OneOf], bool]
) -> Branch | None:
    """Add literals to a branch; None when they contradict each other or what is known by their form alone."""
    return _Extension(branch, are_disjoint).with_(list(literals))


class _Extension:
    def __init__(self, branch: Branch, are_disjoint: Callable[[OneOf], bool]) -> None:
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
        """Take one literal apart; False for what can never be true."""
        match node:
            case All(parts=parts) | AnyOf(parts=parts):
                if isinstance(node, All) is holds:
                    stack.extend((part, holds) for part in parts)
                    return True
                return self._choose(tuple((part, holds) for part in parts), stack)
            case Not(part=part):
                stack.append((part, not holds))
            case Reference():
                if node.definition.node is not None:
                    stack.append((node.definition.node, holds))
            case Condition(test=test, then=then, otherwise=otherwise):
                return self._choose(((test, False), (then, holds)), stack) and self._choose(
                    ((test, True), (otherwise, holds)), stack
                )
            case OneOf():
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

    def _one_of(self, node: OneOf, stack: list[Literal], *, holds: bool) -> bool:
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
            # Not exactly one: whichever holds, another one holds too.
            for part in parts:
                others = tuple((other, True) for other in parts if other is not part)
                self._choose(((part, False), *others), stack)
        return True


def _unwrapped(node: Node) -> Node:
    """Go through connectives that say the same as one of their parts, and so have its id."""
    while isinstance(node, All | AnyOf):
        same = next((part for part in node.parts if part.id == node.id), None)
        if same is None:
            break
        node = same
    return node
