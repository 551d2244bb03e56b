"""Whether every document that one JSON Schema accepts is accepted by another: proven, refuted, or neither."""

from __future__ import annotations

from typing import Any, Final

from contracts.compatibility.inclusion import Counterexample, Difference, Inclusion, Outcome
from contracts.compatibility.json_schema.candidates import Maker
from contracts.compatibility.json_schema.codes import difference
from contracts.compatibility.json_schema.compiler import Compiler, TooDeepError
from contracts.compatibility.json_schema.counterexample import MAX_CHECKS, Judged, Refuter
from contracts.compatibility.json_schema.document import without_annotations
from contracts.compatibility.json_schema.gaps import Gap, branch_of, gaps
from contracts.compatibility.json_schema.loops import loop_in
from contracts.compatibility.json_schema.nodes import Interner, Node, Side
from contracts.compatibility.json_schema.prover import Budget, BudgetSpentError, Prover
from contracts.compatibility.json_schema.values import exceeds, shape_of
from contracts.compatibility.json_schema.work import Work
from contracts.formats.json_schema import JsonSchemaFormat
from contracts.model import JsonSchema

DEFAULT_BUDGET: Final = 50_000
"""Steps of the proof; a second or two where every one is needed."""
MAX_NESTING: Final = 200
MAX_PARTS: Final = 200_000
_LEAST_CHECKS: Final = 15
_SHARE: Final = 8
"""One difference gets an eighth of the steps that are left, so that a hard one leaves some for the others."""

Schema = dict[str, Any] | bool


def includes(old: Schema, new: Schema, *, formats_asserted: bool, budget: int = DEFAULT_BUDGET) -> Inclusion:
    """Answer whether every document that `old` accepts is accepted by `new`.

    Takes schemas of drafts 4 to 2020-12, each by its `$schema`. `formats_asserted` is how both judge `format`. `budget`
    bounds the steps of the proof, and again those of the search for counterexamples; what does not fit is
    UNDETERMINED. Raises ContractError for a schema that the judge does not compile. Nothing is fetched.
    """
    if any(exceeds(schema, MAX_NESTING, MAX_PARTS) for schema in (old, new)):
        return Inclusion(
            Outcome.UNDETERMINED, (_undecided("the schemas are too large or too deeply nested"),)
        )
    judges = (_judge(old, formats_asserted=formats_asserted), _judge(new, formats_asserted=formats_asserted))
    bare = (without_annotations(old), without_annotations(new))
    if bare[0] == bare[1] and shape_of(bare[0]) == shape_of(bare[1]):  # for `==`, 1 is true
        return Inclusion(Outcome.PROVEN)
    interner = Interner()
    compilers = [
        Compiler(side, schema, interner, formats_asserted=formats_asserted)
        for side, schema in ((Side.OLD, old), (Side.NEW, new))
    ]
    try:
        before, after = (compiler.compile() for compiler in compilers)
    except (TooDeepError, RecursionError):
        return Inclusion(Outcome.UNDETERMINED, (_undecided("the schemas are too deeply nested"),))
    # A loop has a reference in it that leads back, and most schemas have none.
    are_recursive = [compiler.has_references for compiler in compilers]
    nodes = [node for node, is_recursive in zip((before, after), are_recursive, strict=True) if is_recursive]
    loop = next((found for node in nodes if (found := loop_in(node)) is not None), None)
    judged = [
        Judged(judge, node, Work(node, is_recursive=is_recursive))
        for judge, node, is_recursive in zip(judges, (before, after), are_recursive, strict=True)
    ]
    return _Comparison(judged[0], judged[1], Prover(interner, Budget(budget)), loop).answer(budget)


class _Comparison:
    def __init__(self, old: Judged, new: Judged, prover: Prover, loop: Node | None) -> None:
        self._schemas = (old.node, new.node)
        self._prover = prover
        self._loop = loop
        self._refuter = Refuter(old, new, Maker(prover))

    def answer(self, budget: int) -> Inclusion:
        found = gaps(self._prover, *self._schemas)
        if not found and self._loop is None:
            return Inclusion(Outcome.PROVEN)
        left = Budget(budget)
        checks = min(MAX_CHECKS, max(_LEAST_CHECKS, 10 * MAX_CHECKS // max(1, len(found))))
        differences = [self._difference(gap, left, checks) for gap in found]
        if not any(each.outcome is Outcome.REFUTED for each in differences):
            self._prover.budget = Budget(budget // _SHARE)
            differences = self._refuted_anyhow(differences)
        refuted = any(each.outcome is Outcome.REFUTED for each in differences)
        return Inclusion(Outcome.REFUTED if refuted else Outcome.UNDETERMINED, tuple(differences))

    def _difference(self, gap: Gap, left: Budget, checks: int) -> Difference:
        given = left.left // _SHARE
        self._prover.budget = Budget(given)
        known: list[Node] = []
        try:
            known = self._known(gap)
            return difference(gap, known, self._refuter.refute(gap, checks))
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
        """Look for a document that tells the schemas apart for a reason that the proof did not see."""
        try:
            found = self._refuter.refute_anywhere()
        except (BudgetSpentError, RecursionError):
            found = None
        if self._loop is not None:
            place = self._loop.place
            sentence = "a reference leads back to itself without a step into the record"
            # A proof that fails for the loop alone says so of the whole schema.
            differences = [each for each in differences if each.keyword]
            return [*differences, _undecided(sentence, self._loop, found, place.keyword or "$ref")]
        if found is None or not differences:
            return differences
        first = differences[0]
        return [_refuted(first, found), *differences[1:]]


def _refuted(undetermined: Difference, found: Counterexample) -> Difference:
    sentence = (
        undetermined.sentence.rpartition("; ")[0]
        + "; a record that the old schema accepts breaks the new one"
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
    sentence: str, loop: Node | None = None, found: Counterexample | None = None, keyword: str = ""
) -> Difference:
    old = loop.place.pointer if loop is not None and loop.place.side is Side.OLD else ""
    new = loop.place.pointer if loop is not None and loop.place.side is Side.NEW else ""
    code = "schema.undecided" if loop is None else "schema.reference-undecided"
    outcome = Outcome.UNDETERMINED if found is None else Outcome.REFUTED
    return Difference(outcome, code, keyword, old, new, "", sentence, found)


def _judge(schema: Schema, *, formats_asserted: bool) -> JsonSchemaFormat:
    formats = "assert" if formats_asserted else "annotate"
    return JsonSchemaFormat(
        JsonSchema.model_validate({"type": "json-schema", "definition": schema, "formats": formats})
    )
