"""Prove that no value fits some nodes and breaks others. True is a proof; False means that none was found.

`old` is included in `new` when no value fits `old` and breaks `new`. The search decomposes the nodes into branches. A
branch is closed when its leaves contradict each other, directly or in an item or a property. A question that recurs
inside itself, for a part of the value, is answered yes. A value that refutes it would contain a smaller value that
refutes it too, and values cannot get smaller forever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tidegate.contracts.inclusion.json_schema.branch import (
    MAX_ALTERNATIVES,
    NOTHING_KNOWN,
    Branch,
    Clause,
    Literal,
    extended,
)
from tidegate.contracts.inclusion.json_schema.evaluate import fits_all
from tidegate.contracts.inclusion.json_schema.nodes import (
    ExactlyOne,
    Interner,
    Node,
    OneValue,
    Pattern,
    SchemaPlace,
    Side,
    TypeIs,
)
from tidegate.contracts.inclusion.json_schema.theories import NumberFacts, StringFacts
from tidegate.contracts.inclusion.json_schema.values import (
    ARRAY,
    BOOLEAN,
    FRACTION,
    INTEGER,
    NULL,
    OBJECT,
    STRING,
)

MAX_VALUE_DEPTH: Final = 40
_MAX_CHOICES: Final = 30
"""Deepest nesting of choices within one question."""
_NEVER: Final = 1 << 60
_CONSTANTS: Final = ((NULL, None), (BOOLEAN, True), (BOOLEAN, False))

Question = tuple[frozenset[int], frozenset[int]]
"""The ids of the nodes that a value must fit, and of those that it must break."""


class BudgetSpentError(Exception):
    """The step budget is used up."""


@dataclass(slots=True)
class Budget:
    """The remaining steps; a step takes between a few and a few hundred microseconds."""

    left: int

    def spend(self, steps: int = 1) -> None:
        """Spend steps. Raises BudgetSpentError."""
        self.left -= steps
        if self.left < 0:
            raise BudgetSpentError


@dataclass(slots=True)
class _Path:
    """The pending questions, and the provisional answers that depend on them."""

    pending: dict[Question, tuple[int, int]] = field(default_factory=dict)
    """Index and depth of each question on the path."""
    provisional: dict[Question, int] = field(default_factory=dict)
    """Questions answered yes provisionally, each with the lowest index of a pending question that it depends on."""
    lowest: int = _NEVER
    """The lowest index of a pending question that the current answer depends on."""


class Prover:
    """Answers questions about one pair of schemas within a budget of steps."""

    def __init__(
        self, interner: Interner, budget: Budget, container_theories: Mapping[int, ContainerTheory]
    ) -> None:
        """Initialise from the theories of arrays and objects (`containers.THEORIES`), by type."""
        self._container_theories = container_theories
        self.interner = interner
        self.budget = budget
        self._answers: dict[Question, bool] = {}
        self._path = _Path()
        self._bases: dict[frozenset[int], Branch | None] = {}
        self._disjoint: dict[int, bool] = {}
        self.text = TypeIs(interner.id_of("type", STRING), SchemaPlace(Side.NEITHER, ""), STRING)

    def is_empty(self, holding: Iterable[Node], broken: Iterable[Node] = (), depth: int = 0) -> bool:
        """Return whether it is proven that no value fits all of `holding` and none of `broken`.

        `depth` is the number of steps into the value. Raises BudgetSpentError.
        """
        fit, unfit = {node.id: node for node in holding}, {node.id: node for node in broken}
        if not fit.keys().isdisjoint(unfit):
            return True
        question = (frozenset(fit), frozenset(unfit))
        known = self._recall(question, depth)
        if known is not None:
            return known
        self.budget.spend()
        path = self._path
        index, outer, kept = len(path.pending), path.lowest, len(path.provisional)
        path.pending[question] = (index, depth)
        path.lowest = _NEVER
        try:
            answer = self._decide(fit, unfit, depth)
        finally:
            del path.pending[question]
        self._remember(question, index, kept, answer=answer)
        path.lowest = min(outer, path.lowest)
        return answer

    def patterns(self, *patterns: str | None) -> tuple[Node, ...]:
        """Return a `Pattern` node for each pattern; None is skipped."""
        return tuple(
            Pattern(self.interner.id_of("pattern", each), SchemaPlace(Side.NEITHER, ""), each)
            for each in patterns
            if each is not None
        )

    def forget_path(self) -> None:
        """Drop provisional answers after an abandoned question, such as after BudgetSpentError."""
        self._path = _Path()

    def _recall(self, question: Question, depth: int) -> bool | None:
        known = self._answers.get(question)
        if known is not None:
            return known
        path = self._path
        if question in path.provisional:
            path.lowest = min(path.lowest, path.provisional[question])
            return True
        if question in path.pending:
            index, opened_at = path.pending[question]
            if opened_at >= depth:
                return False
            path.lowest = min(path.lowest, index)
            return True
        return False if depth > MAX_VALUE_DEPTH else None

    def _remember(self, question: Question, index: int, kept: int, *, answer: bool) -> None:
        path = self._path
        since = list(path.provisional)[kept:]
        if not answer:
            self._answers[question] = False
            for each in since:
                del path.provisional[each]
            path.lowest = _NEVER
        elif path.lowest >= index:
            self._answers[question] = True
            for each in since:
                if path.provisional[each] >= index:
                    self._answers[each] = True
                    del path.provisional[each]
            path.lowest = _NEVER
        else:
            for each in since:
                path.provisional[each] = min(path.provisional[each], path.lowest)
            path.provisional[question] = path.lowest

    def _decide(self, fit: dict[int, Node], unfit: dict[int, Node], depth: int) -> bool:
        base = self.base(fit)
        if base is None:
            return True
        branch = self.extended(base, [(node, False) for node in unfit.values()])
        if branch is not None:
            self.budget.spend(branch.weight)
        return branch is None or self.is_closed(branch, depth)

    def base(self, fit: dict[int, Node]) -> Branch | None:
        """Return the branch of the nodes that hold, by their ids; None if they contradict each other."""
        key = frozenset(fit)
        if key not in self._bases:
            self.budget.spend(1 + len(fit) // 8)
            self._bases[key] = self.extended(NOTHING_KNOWN, [(node, True) for node in fit.values()])
        return self._bases[key]

    def extended(self, branch: Branch, literals: Sequence[Literal]) -> Branch | None:
        """Return a branch with more literals; None if their form alone contradicts it."""
        return extended(branch, literals, self.are_disjoint)

    def are_disjoint(self, node: ExactlyOne) -> bool:
        """Return whether it is proven that no value fits two alternatives of a `oneOf`."""
        known = self._disjoint.get(node.id)
        if known is not None:
            return known
        self._disjoint[node.id] = False  # until it is proven, also when the proof below asks again
        if len(node.parts) > MAX_ALTERNATIVES:
            return False
        # Provisional answers are valid only on the current path, but this result is kept for all paths.
        path, self._path = self._path, _Path()
        try:
            answer = all(
                self.is_empty((one, other))
                for index, one in enumerate(node.parts)
                for other in node.parts[index + 1 :]
            )
        finally:
            self._path = path
        self._disjoint[node.id] = answer
        return answer

    # Choices.

    def is_closed(self, branch: Branch, depth: int, choices: int = 0) -> bool:
        """Return whether it is proven that no value satisfies a branch. Raises BudgetSpentError.

        `choices` is the number of choices that were made to get to this branch.
        """
        if self.contradicts(branch, depth):
            return True
        narrowed = self.narrowed(branch, depth)
        if narrowed is None:
            return True
        if not narrowed.clauses or choices > _MAX_CHOICES:
            return False
        types = [bit for bit in _bits(narrowed.mask) if bit != FRACTION or not narrowed.mask & INTEGER]
        if len(types) > 1:
            return all(
                self._is_closed_with(narrowed, self.type_literal(bit, narrowed.mask), depth, choices)
                for bit in types
            )
        clause = min(narrowed.clauses, key=len)
        rest = narrowed.without(clause)
        return all(self._is_closed_with(rest, literal, depth, choices) for literal in clause)

    def type_literal(self, bit: int, mask: int) -> Literal:
        """Return the literal that a value has the type `bit`; integers and fractions of the mask stay together."""
        both = INTEGER | FRACTION
        chosen = mask & both if bit & both else bit
        return TypeIs(self.interner.id_of("type", chosen), SchemaPlace(Side.NEITHER, ""), chosen), True

    def _is_closed_with(self, branch: Branch, literal: Literal, depth: int, choices: int) -> bool:
        more = self.extended(branch, [literal])
        return more is None or self.is_closed(more, depth, choices + 1)

    def narrowed(self, branch: Branch, depth: int) -> Branch | None:
        """Return a branch without literals that cannot hold, and with forced ones asserted.

        None if a clause has no literal left.
        """
        changed = True
        while changed:
            changed = False
            open_clauses: list[Clause] = []
            for clause in branch.clauses:
                if branch.has(clause):
                    continue
                alive = self._alive(branch.core, clause, depth)
                if not alive:
                    return None
                if len(alive) == 1:
                    # A forced literal may decide other clauses, so all of them are checked again.
                    changed = True
                    taken = alive[0][1]
                    branch = Branch(taken.facts, taken.broken, branch.clauses, taken.asserted)
                    open_clauses.extend(taken.clauses)
                else:
                    open_clauses.append(tuple(literal for literal, _ in alive))
            branch = Branch(branch.facts, branch.broken, tuple(open_clauses), branch.asserted)
        return branch

    def _alive(self, core: Branch, clause: Clause, depth: int) -> list[tuple[Literal, Branch]]:
        alive = []
        for literal in clause:
            self.budget.spend(core.weight)
            more = self.extended(core, [literal])
            if more is not None and not self.contradicts(more, depth):
                alive.append((literal, more))
        return alive

    # Leaves.

    def contradicts(self, branch: Branch, depth: int) -> bool:
        """Return whether it is proven that the leaves of a branch contradict each other. Raises BudgetSpentError."""
        self.budget.spend(branch.weight)
        mask = branch.mask
        if not mask:
            return True
        if branch.facts.values:
            return self._excludes_all(branch.listed, branch)
        excluded = any(isinstance(leaf, OneValue) for leaf in branch.broken.values())
        speaks_of = branch.facts.speaks_of
        for leaf in branch.broken.values():
            if not isinstance(leaf, TypeIs):
                speaks_of |= leaf.group
        if excluded:
            speaks_of |= NULL | BOOLEAN
        if mask & ~speaks_of & ~(INTEGER | FRACTION):
            return False
        return all(self._contradicts_for(bit, branch, depth) for bit in _bits(mask))

    def _excludes_all(self, values: Iterable[Any], branch: Branch) -> bool:
        leaves, broken = branch.facts.leaves.values(), branch.broken.values()
        for value in values:
            self.budget.spend(1 + (len(leaves) + len(broken)) // 20)
            if fits_all(value, leaves, broken) is not False:
                return False
        return True

    def _contradicts_for(self, bit: int, branch: Branch, depth: int) -> bool:
        if bit in {NULL, BOOLEAN}:
            return self._excludes_all((value for each, value in _CONSTANTS if each == bit), branch)
        holding, broken = branch.facts.leaves.values(), list(branch.broken.values())
        if bit in {INTEGER, FRACTION}:
            return NumberFacts(holding, broken, is_integer=bit == INTEGER).is_empty
        if bit == STRING:
            facts = StringFacts(holding, broken)
            self.budget.spend(20 * (len(facts.inside) + len(facts.outside)))
            return facts.is_empty
        return self._container_theories[bit](self, branch, depth)


ContainerTheory = Callable[[Prover, Branch, int], bool]
"""Returns True if it is proven that no array (or object) satisfies the leaves of a branch at a depth."""


def _bits(mask: int) -> list[int]:
    return [bit for bit in (NULL, BOOLEAN, INTEGER, FRACTION, STRING, ARRAY, OBJECT) if mask & bit]
