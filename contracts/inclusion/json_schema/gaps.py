"""Gaps: parts of the new schema that may refuse what the old schema accepts, because no proof was found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from tidegate.contracts.inclusion.json_schema.branch import Branch
from tidegate.contracts.inclusion.json_schema.containers import PropertyPlace, explicit_names, places
from tidegate.contracts.inclusion.json_schema.nodes import (
    Additional,
    All,
    AnyOf,
    DefinitionReference,
    ExactlyOne,
    IfThenElse,
    ItemAt,
    ItemsFrom,
    Node,
    PatternProperty,
    Property,
    Side,
    is_false,
    resolved,
)
from tidegate.contracts.inclusion.json_schema.prover import Budget, BudgetSpentError, Prover

MAX_GAPS: Final = 500
_MAX_COMPARED: Final = 50_000
_MAX_CASES: Final = 12
_MAX_ALTERNATIVES: Final = 100
"""Maximum alternatives of either schema at one place that are examined one by one."""
_MAX_CHOICES: Final = 8
"""Maximum choices of the old schema at one place that are examined one by one."""
_MAX_LINKS: Final = 200
"""Maximum references in a row that are followed, because a loop of references never ends."""
_SHARE: Final = 4
"""Each question gets a quarter of the remaining steps, so that a hard one leaves steps for the others."""


_Ids = tuple[frozenset[int], frozenset[int]]
LEADING: Final = (Property, PatternProperty, Additional, ItemAt, ItemsFrom)
"""The leaves that apply a schema to properties or items."""


@dataclass(frozen=True, slots=True)
class ValueStep:
    """One step into a value: from a container to one of its properties or items.

    The container fits `holding` and breaks `broken`. `key` is a name or an index; None stands for any name in the
    region `place`.
    """

    holding: tuple[Node, ...]
    broken: tuple[Node, ...]
    key: str | int | None
    place: PropertyPlace | None = None


@dataclass(frozen=True)
class Situation:
    """A place in a record: the constraints of the old schema there, and the path to it.

    The value fits `holding` and breaks `broken`. `field` is the path as tokens, with `*` for any item or name.
    """

    holding: tuple[Node, ...]
    broken: tuple[Node, ...] = ()
    field: tuple[str, ...] = ()
    steps: tuple[ValueStep, ...] = ()
    old: Side = Side.ONE
    """The side of the old schema."""
    old_pointer: str = ""
    via: Node | None = None
    """The leaf of the new schema that leads here from the container; None at the root."""
    is_conditional: bool = False
    """Whether the new schema constrains this place only under an `if`."""
    is_declared: bool = True
    """Whether the old schema names this property."""

    @cached_property
    def ids(self) -> _Ids:
        """Return the ids of `holding` and of `broken`: equal for situations with the same constraints."""
        return _ids(self.holding), _ids(self.broken)


@dataclass(frozen=True, slots=True)
class Gap:
    """A node of the new schema that is not proven to hold for every value that the old schema accepts.

    `is_out_of_steps` says whether the budget ran out before.
    """

    situation: Situation
    target: Node
    is_out_of_steps: bool


def gaps(prover: Prover, old: Node, new: Node) -> list[Gap]:
    """Return the gaps between two schemas, at most MAX_GAPS; empty if `old` is proven to be included in `new`."""
    return _Search(prover, old.place.side).search(old, new)


class _Search:
    """The search for gaps: it descends into the parts of the new schema that are not proven to be covered."""

    def __init__(self, prover: Prover, side: Side) -> None:
        self._prover = prover
        self._side = side
        self._gaps: dict[tuple[str, tuple[str, ...]], Gap] = {}
        self._entered: set[tuple[_Ids, int]] = set()
        self._done: set[tuple[tuple[str, ...], _Ids, int]] = set()
        self._met_again = False
        self._is_uncovered = False
        self._is_out_of_steps = False

    def search(self, old: Node, new: Node) -> list[Gap]:
        situation = Situation((old,), old=self._side)
        self._compare_once(situation, new)
        if (self._is_uncovered or len(self._done) >= _MAX_COMPARED) and not self._gaps:
            self._add(situation, new)
        return list(self._gaps.values())

    def _compare(self, at: Situation, target: Node) -> None:
        mark = (at.field, at.ids, id(target))
        if len(self._gaps) >= MAX_GAPS or len(self._done) >= _MAX_COMPARED or mark in self._done:
            return
        self._done.add(mark)
        if isinstance(target, All):
            for part in target.parts:
                self._compare(at, part)
            return
        if self._is_covered(at.holding, (*at.broken, target)):
            return
        self._is_uncovered = True
        if isinstance(target, DefinitionReference) and target.definition.node is not None:
            self._compare_once(at, target.definition.node)
            return
        before, self._met_again = len(self._gaps), False
        try:
            self._descend(at, target)
        except (BudgetSpentError, RecursionError):
            self._prover.forget_path()
            self._is_out_of_steps = True
        if len(self._gaps) == before and not self._met_again:
            self._add(at, target)

    def _compare_once(self, at: Situation, target: Node) -> None:
        """Compare, unless the same comparison is already under way further up, which then finds the gaps."""
        mark = (at.ids, _named(target).id)
        if mark in self._entered:
            self._met_again = True
            return
        self._entered.add(mark)
        self._compare(at, target)
        self._entered.discard(mark)

    def _add(self, at: Situation, target: Node) -> None:
        key = (target.place.pointer, at.field)
        self._gaps.setdefault(key, Gap(at, target, self._is_out_of_steps))

    def _is_covered(self, holding: tuple[Node, ...], broken: tuple[Node, ...]) -> bool:
        whole = self._prover.budget
        self._prover.budget = Budget(whole.left // _SHARE)
        given = self._prover.budget.left
        try:
            return self._is_asserted(holding, broken) or self._prover.is_empty(holding, broken)
        except (BudgetSpentError, RecursionError):
            self._prover.forget_path()
            self._is_out_of_steps = True
            return False
        finally:
            whole.left -= given - max(self._prover.budget.left, 0)
            self._prover.budget = whole

    def _is_asserted(self, holding: tuple[Node, ...], broken: tuple[Node, ...]) -> bool:
        """Return whether a node that must be broken is asserted to hold: the usual case, and cheap to check."""
        base = self._prover.base({node.id: node for node in holding})
        return base is None or any((node.id, True) in base.asserted for node in broken)

    def _descend(self, at: Situation, target: Node) -> None:
        match target:
            case AnyOf(parts=parts):
                self._alternatives(at, target, parts)
            case ExactlyOne(parts=parts):
                if self._prover.are_disjoint(target):
                    self._alternatives(at, target, parts)
            case IfThenElse(test=test, then=then, otherwise=otherwise):
                self._compare(replace(at, holding=(*at.holding, test), is_conditional=True), then)
                self._compare(replace(at, broken=(*at.broken, test), is_conditional=True), otherwise)
            case Property() | PatternProperty() | Additional() | ItemAt() | ItemsFrom():
                for case in self._cases(at, target):
                    self._below(case, target)

    def _alternatives(self, at: Situation, target: Node, parts: tuple[Node, ...]) -> None:
        """Compare with the alternative that can hold, if it is the only one; otherwise the whole target is a gap."""
        if len(parts) > _MAX_ALTERNATIVES:
            self._add(at, target)
            return
        for case in self._cases(at, target):
            live = [part for part in parts if not self._is_covered((*case.holding, part), case.broken)]
            if len(live) == 1:
                self._compare(case, live[0])
            else:
                self._add(case, target)

    def _cases(self, at: Situation, target: Node) -> Iterator[Situation]:
        """Yield a place split by the choices of the old schema, without cases that are proven to fit the target."""
        waiting, given = [at], 0
        while waiting and given < _MAX_CASES:
            case = waiting.pop()
            branch = branch_of(self._prover, case.holding, case.broken)
            if branch is None:
                continue
            is_final = not branch.clauses or len(branch.clauses) > _MAX_CHOICES
            if is_final or given + len(waiting) >= _MAX_CASES:
                given += 1
                yield case
                continue
            clause = min(branch.clauses, key=len)
            if len(clause) > _MAX_ALTERNATIVES:
                given += 1
                yield case
                continue
            for node, holds in reversed(clause):
                chosen = (
                    replace(case, holding=(*case.holding, node))
                    if holds
                    else replace(case, broken=(*case.broken, node))
                )
                if not self._is_covered(chosen.holding, (*chosen.broken, target)):
                    waiting.append(chosen)

    def _below(self, at: Situation, target: Node) -> None:
        branch = branch_of(self._prover, at.holding, at.broken)
        if branch is None:
            return
        match target:
            case Property(name=name, schema=schema):
                place = PropertyPlace(name, branch.facts.objects.at(name), (schema,))
                self._property(at, branch, place, target)
            case PatternProperty() | Additional():
                for place in self._places(branch, target):
                    self._property(at, branch, place, target)
            case ItemAt(index=index, schema=schema):
                self._item(at, branch, index, (target, schema))
            case ItemsFrom(index=index, schema=schema):
                for each in range(index, max(index, branch.facts.arrays.regular_from) + 1):
                    self._item(at, branch, each, (target, schema))

    def _places(self, branch: Branch, target: PatternProperty | Additional) -> list[PropertyPlace]:
        try:
            return list(places(self._prover, branch.facts.objects, target, 0))
        except (BudgetSpentError, RecursionError):
            self._prover.forget_path()
            self._is_out_of_steps = True
            return []

    def _property(
        self,
        at: Situation,
        branch: Branch,
        place: PropertyPlace,
        target: Property | PatternProperty | Additional,
    ) -> None:
        token = "*" if place.name is None else place.name
        below = Situation(
            place.holding,
            field=(*at.field, token),
            steps=(*at.steps, ValueStep(at.holding, at.broken, place.name, place)),
            old=self._side,
            is_conditional=at.is_conditional,
            old_pointer=self._old_pointer(at, place.holding),
            via=target,
            is_declared=place.name in explicit_names(branch.facts.objects),
        )
        self._enter(below, target, target.schema)

    def _item(self, at: Situation, branch: Branch, index: int, leaf: tuple[Node, Node]) -> None:
        target, schema = leaf
        holding = branch.facts.arrays.at(index)
        if self._is_covered(holding, (schema,)):
            return
        below = Situation(
            holding,
            field=(*at.field, str(index) if isinstance(target, ItemAt) else "*"),
            steps=(*at.steps, ValueStep(at.holding, at.broken, index)),
            old=self._side,
            is_conditional=at.is_conditional,
            old_pointer=self._old_pointer(at, holding),
            via=target,
        )
        self._enter(below, target, schema)

    def _old_pointer(self, at: Situation, holding: tuple[Node, ...]) -> str:
        return nearest_old(holding, self._side, nearest_old(at.holding, self._side, at.old_pointer))

    def _enter(self, below: Situation, target: Node, schema: Node) -> None:
        """Compare one property or item; if the old schema left it unconstrained, that is one gap for all keywords."""
        if below.holding or is_false(schema):
            self._compare_once(below, schema)
        elif not self._is_covered((), (schema,)):
            self._add(below, target)


def branch_of(prover: Prover, holding: tuple[Node, ...], broken: tuple[Node, ...]) -> Branch | None:
    """Return the branch of some nodes, without clauses that already hold; None if their form is contradictory."""
    base = prover.base({node.id: node for node in holding})
    if base is None:
        return None
    branch = prover.extended(base, [(node, False) for node in broken])
    if branch is None:
        return None
    for clause in branch.clauses:
        if branch.has(clause):
            branch = branch.without(clause)
    return branch


def nearest_old(holding: tuple[Node, ...], side: Side, otherwise: str) -> str:
    """Return the pointer of the old schema's constraint on a place, with references followed.

    `holding` are the nodes at the place; `otherwise` is the result if none of them is from the old schema.
    """
    node = next((node for node in holding if node.place.side is side), None)
    if node is None:
        return otherwise
    for _ in range(_MAX_LINKS):
        target = resolved(node)
        if target is node and isinstance(node, All) and len(node.parts) == 1:
            target = resolved(node.parts[0])
        if target is node or target.place.keyword:
            break
        node = target
    return node.place.pointer


def _ids(nodes: tuple[Node, ...]) -> frozenset[int]:
    return frozenset(_named(node).id for node in nodes)


def _named(node: Node) -> Node:
    """Follow references and single-part conjunctions, so that a recursive schema is recognised."""
    for _ in range(_MAX_LINKS):
        if isinstance(node, All) and len(node.parts) == 1:
            node = node.parts[0]
        elif isinstance(node, DefinitionReference) and node.definition.node is not None:
            node = node.definition.node
        else:
            break
    return node
