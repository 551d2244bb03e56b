"""Judge held-back records by a proposed contract, to estimate how many good records it would refuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from tidegate.contracts.document.fields import join
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.infer.columns import Positions
from tidegate.contracts.infer.proposal import LEAST, MOST, Proposal
from tidegate.contracts.infer.values import Occurrences
from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.verdict import Stage, Violation

_TOLERABLE: Final = 0.0005
"""Share of held-back records that a rule may refuse beyond those that its known exceptions predict."""
_DEVIATIONS: Final = 5
"""Number of standard deviations by which the refused records may exceed the predicted number by chance."""


@dataclass(slots=True)
class Evaluation:
    """The held-back records that the contract refuses, of `records` in all.

    `explained` records violate a proposal with known exceptions; `broken` ones cannot be read. All others are
    `unexpected`: no record from which the contract was inferred violates it for the same reason.
    """

    records: int = 0
    explained: int = 0
    broken: int = 0
    unexpected: Occurrences = field(default_factory=Occurrences)
    reasons: Counter[str] = field(default_factory=Counter)
    """Counts of the violations of unexpected records, as code and pointer."""

    @property
    def false_refusals(self) -> float:
        """Return the expected share of good records that are refused."""
        return self.unexpected.count / max(self.records, 1)


def evaluate(
    contract: DataContract,
    values: Iterable[pa.Array],
    positions: Positions,
    proposals: list[Proposal],
    profiled: int,
) -> Evaluation:
    """Judge held-back records, and set in each proposal how many of them violate it.

    A rule or length becomes doubtful if it refuses clearly more than its exceptions among the `profiled` records
    predict; its refusals then do not count.
    """
    plan = compile_plan(contract)
    found: list[tuple[int, tuple[Violation, ...]]] = []
    at = 0
    for array in values:
        judged = plan.judge(array.cast(pa.large_binary()))
        failed = judged.field("failed")
        verdicts = list(plan.explain_each(array.cast(pa.large_binary()), failed=failed))
        found += [
            (at + index, verdict.violations) for index, verdict in enumerate(verdicts) if verdict.violations
        ]
        at += len(array)
    by_place: dict[tuple[str, str], Proposal] = {}
    for each in proposals:
        if each.rule is None:
            # A violation of `required` has the pointer of the object, without the name of the missing field.
            place = (each.code, join(each.path[:-1]) if each.code == "required" else each.pointer)
            if place not in by_place or by_place[place].exceptions < each.exceptions:
                by_place[place] = each  # of several, the one with the most exceptions
    by_rule = {each.code: each for each in proposals if each.rule is not None}
    causes = [(index, _causes(violations, by_place, by_rule)) for index, violations in found]
    counts = Counter(id(cause) for _, each in causes for cause in each if isinstance(cause, Proposal))
    for proposal in proposals:
        proposal.held_back = counts[id(proposal)]
        expected = at * proposal.exceptions / max(profiled, 1)
        proposal.unexpected = max(0.0, proposal.held_back - expected)
        # Types and required fields are never doubtful: without them there is no schema.
        may_be_doubtful = proposal.rule is not None or proposal.code in (LEAST, MOST)
        if may_be_doubtful and proposal.unexpected > _TOLERABLE * at + _DEVIATIONS * expected**0.5:
            proposal.doubt = f"it refuses {proposal.held_back} of {at:,} held-back records"
    return _summary(causes, positions, at)


Cause = Proposal | str
"""What refused a record: a proposal, or the code and pointer of a violation that no proposal has."""


def _causes(
    violations: tuple[Violation, ...], by_place: dict[tuple[str, str], Proposal], by_rule: dict[str, Proposal]
) -> list[Cause]:
    """Return the proposals that a record violates, and a text for each violation without a proposal."""
    causes: dict[int | str, Cause] = {}
    for each in violations:
        cause: Cause
        if each.stage is Stage.DECODE:
            cause = "decode"
        elif each.stage is Stage.RULE:
            cause = by_rule[each.code]
        else:
            # A step of digits is the name of a property, or the index of an element.
            pointer = _any_element(each.pointer)
            place = (each.code, each.pointer if (each.code, each.pointer) in by_place else pointer)
            cause = by_place.get(place, f"{each.code} {pointer}")
        causes[cause if isinstance(cause, str) else id(cause)] = cause
    return list(causes.values())


def _any_element(pointer: str) -> str:
    """Return a pointer with `*` for each step of digits, as the paths of proposals have it for elements of arrays."""
    return "/".join("*" if step.isdigit() else step for step in pointer.split("/"))


def _summary(causes: list[tuple[int, list[Cause]]], positions: Positions, records: int) -> Evaluation:
    summary = Evaluation(records)
    unexpected = []
    for index, each in causes:
        enforced = [cause for cause in each if isinstance(cause, str) or cause.is_enforced]
        if not enforced:
            continue
        if "decode" in enforced:
            summary.broken += 1
        elif any(isinstance(cause, Proposal) and cause.exceptions for cause in enforced):
            summary.explained += 1
        else:
            unexpected.append(int(positions[index]))
            summary.reasons.update(
                cause if isinstance(cause, str) else f"{cause.code} {cause.pointer}" for cause in enforced
            )
    summary.unexpected.add_counted(len(unexpected), unexpected)
    return summary
