"""Prove or refute that one JSON Schema accepts every document that another accepts."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

from tidegate.contracts.collector import without_collector
from tidegate.contracts.inclusion.answer import Counterexample, Difference, Inclusion, Outcome
from tidegate.contracts.inclusion.json_schema.candidates import WitnessBuilder
from tidegate.contracts.inclusion.json_schema.codes import counterexample_sentence, difference
from tidegate.contracts.inclusion.json_schema.containers import THEORIES
from tidegate.contracts.inclusion.json_schema.counterexample import MAX_CHECKS, Refuter
from tidegate.contracts.inclusion.json_schema.formula import Formula, Schema
from tidegate.contracts.inclusion.json_schema.gaps import Gap, branch_of, gaps
from tidegate.contracts.inclusion.json_schema.gathered import BUILDERS
from tidegate.contracts.inclusion.json_schema.nodes import Interner, Node, Side
from tidegate.contracts.inclusion.json_schema.prover import Budget, BudgetSpentError, Prover

DEFAULT_BUDGET: Final = 50_000
"""Steps of the proof; one to two seconds if all of them are used."""
_LEAST_CHECKS: Final = 15
_MAX_CHECKS: Final = 4_000
"""Maximum smaller documents that are judged for all differences together, unless there are very many differences."""
_SHARE: Final = 8
"""Each difference gets an eighth of the remaining steps, so that a hard one leaves steps for the others."""


def includes(old: Schema, new: Schema, *, formats_asserted: bool, budget: int = DEFAULT_BUDGET) -> Inclusion:
    """Decide whether `new` accepts every document that `old` accepts.

    Takes schemas of drafts 4 to 2020-12, each by its `$schema`. `formats_asserted` says whether both assert `format`.
    `budget` limits the steps of the proof and, separately, those of the search for counterexamples. What exceeds it is
    UNDETERMINED. Raises ContractError for a schema that the judge does not compile. Remote references are not fetched.
    """
    return SchemaPair(old, new, formats_asserted=(formats_asserted, formats_asserted)).forth(budget)


class SchemaPair:
    """Two schemas to compare in both directions, each compiled once."""

    def __init__(self, one: Schema, other: Schema, *, formats_asserted: tuple[bool, bool]) -> None:
        """Initialise from two schemas; `formats_asserted` says for each whether it asserts `format`."""
        interner = Interner()
        formulas = [
            Formula(side, schema, interner, formats_asserted=is_asserted)
            for side, schema, is_asserted in zip(
                (Side.ONE, Side.OTHER), (one, other), formats_asserted, strict=True
            )
        ]
        self.forth = DirectedPair(*formulas)
        """The check whether `other` accepts every document that `one` accepts."""
        self.back = DirectedPair(*reversed(formulas))
        """The check whether `one` accepts every document that `other` accepts."""


class DirectedPair:
    """One direction of a comparison: whether the new schema accepts every document that the old one accepts."""

    def __init__(self, old: Formula, new: Formula) -> None:
        self._old = old
        self._new = new

    def __call__(self, budget: int = DEFAULT_BUDGET, *, guarded: Schema | None = None) -> Inclusion:
        """Return the result, as `includes` does. `guarded` is a stricter schema to use as the old one."""
        old = self._old if guarded is None else self._old.instead(guarded)
        return _included(old, self._new, budget)

    def separates(self, document: Any, pointer: str) -> bool:
        """Return whether the old schema accepts a document and the new one refuses it at `pointer`.

        False for a document that cannot be judged in bounded time.
        """
        return self._refuter.separates(document, pointer)

    @cached_property
    def _refuter(self) -> Refuter:
        prover = Prover(self._old.interner, Budget(0), THEORIES)
        return Refuter(self._old, self._new, WitnessBuilder(prover, BUILDERS))


@without_collector()
def _included(old: Formula, new: Formula, budget: int) -> Inclusion:
    if old.is_too_large or new.is_too_large:
        return Inclusion(
            Outcome.UNDETERMINED, (_undecided("the schemas are too large or too deeply nested"),)
        )
    is_too_costly = old.is_too_costly or new.is_too_costly
    if not is_too_costly:
        _ = old.judge, new.judge  # an invalid schema must raise before any result is returned
    is_too_deep = old.is_too_deep or new.is_too_deep
    has_loop = old.loop is not None or new.loop is not None
    if not is_too_deep and not has_loop and old.node.id == new.node.id:
        return Inclusion(Outcome.PROVEN)
    # Only where no proof is possible: bringing both schemas into one form takes a tenth of a comparison.
    if is_too_deep or has_loop or is_too_costly:
        if old.formats_asserted == new.formats_asserted and old.shape == new.shape:
            return Inclusion(Outcome.PROVEN)
        if is_too_deep:
            return Inclusion(Outcome.UNDETERMINED, (_undecided("the schemas are too deeply nested"),))
        if is_too_costly:
            return Inclusion(
                Outcome.UNDETERMINED, (_undecided("judging by the schemas takes too much work"),)
            )
    prover = Prover(old.interner, Budget(budget), THEORIES)
    return _Comparison(old, new, prover, old.loop or new.loop).answer(budget)


class _Comparison:
    """One comparison: finds the gaps of the proof, and searches a counterexample for each."""

    def __init__(self, old: Formula, new: Formula, prover: Prover, loop: Node | None) -> None:
        self._schemas = (old.node, new.node)
        self._prover = prover
        self._loop = loop
        self._refuter = Refuter(old, new, WitnessBuilder(prover, BUILDERS))

    def answer(self, budget: int) -> Inclusion:
        found = gaps(self._prover, *self._schemas)
        if not found and self._loop is None:
            return Inclusion(Outcome.PROVEN)
        left = Budget(budget)
        differences = []
        for others, gap in zip(reversed(range(len(found))), found, strict=True):
            # The shrinker remembers what it learned from earlier differences, so later ones need fewer checks.
            spare = _MAX_CHECKS - self._refuter.checked - others * _LEAST_CHECKS
            checks = min(MAX_CHECKS, max(_LEAST_CHECKS, spare))
            differences.append(self._difference(gap, left, checks, len(found)))
        if not any(each.outcome is Outcome.REFUTED for each in differences):
            self._prover.budget = Budget(budget // _SHARE)
            differences = self._refuted_anyhow(differences)
        refuted = any(each.outcome is Outcome.REFUTED for each in differences)
        return Inclusion(Outcome.REFUTED if refuted else Outcome.UNDETERMINED, tuple(differences))

    def _difference(self, gap: Gap, left: Budget, checks: int, gaps: int) -> Difference:
        given = left.left // _SHARE
        self._prover.budget = Budget(given)
        known: list[Node] = []
        try:
            known = self._known(gap)
            return difference(gap, known, self._refuter.refute(gap, checks, gaps))
        except (BudgetSpentError, RecursionError):
            self._prover.forget_path()
            return difference(gap, known, None)
        finally:
            left.left -= given - max(self._prover.budget.left, 0)

    def _known(self, gap: Gap) -> list[Node]:
        at = gap.situation
        branch = branch_of(self._prover, at.holding, at.broken)
        narrowed = None if branch is None or not branch.clauses else self._prover.narrowed(branch, 0)
        return [] if narrowed is None else list(narrowed.facts.leaves.values())

    def _refuted_anyhow(self, differences: list[Difference]) -> list[Difference]:
        """Search for a counterexample to the whole schemas, for a reason that the proof did not find."""
        try:
            found = self._refuter.refute_anywhere()
        except (BudgetSpentError, RecursionError):
            found = None
        if self._loop is not None:
            sentence = "a reference leads back to itself without a step into the record"
            # A proof that fails only because of the loop yields a difference about the whole schema, without a keyword.
            differences = [each for each in differences if each.keyword]
            sides = (self._schemas[0].place.side, self._schemas[1].place.side)
            return [*differences, _undecided(sentence, self._loop, found, sides)]
        if found is None or not differences:
            return differences
        first = differences[0]
        is_reversed = self._schemas[0].place.side is Side.OTHER
        return [_refuted(first, found, is_reversed=is_reversed), *differences[1:]]


def _refuted(undetermined: Difference, found: Counterexample, *, is_reversed: bool) -> Difference:
    sentence = (
        f"{undetermined.sentence.rpartition('; ')[0]}; {counterexample_sentence(is_reversed=is_reversed)}"
    )
    return Difference(
        Outcome.REFUTED,
        undetermined.code,
        undetermined.keyword,
        undetermined.old_pointer,
        undetermined.new_pointer,
        undetermined.field,
        sentence,
        found,
    )


def _undecided(
    sentence: str,
    loop: Node | None = None,
    found: Counterexample | None = None,
    sides: tuple[Side, Side] = (Side.ONE, Side.OTHER),
) -> Difference:
    keyword = "" if loop is None else loop.place.keyword or "$ref"
    side = None if loop is None else loop.place.side
    pointer = "" if loop is None else loop.place.pointer
    old, new = (pointer if side is each else "" for each in sides)
    code = "schema.undecided" if loop is None else "schema.reference-undecided"
    outcome = Outcome.UNDETERMINED if found is None else Outcome.REFUTED
    return Difference(outcome, code, keyword, old, new, "", sentence, found)
