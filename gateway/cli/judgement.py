"""Records of a source with their verdicts, their entries in the output, and the overall result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Self

import pyarrow as pa

from tidegate.contracts.explain.account import Explainer, Explanation
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.verdict import Verdict
from tidegate.gateway.cli.judge_report import JudgeFindings
from tidegate.gateway.cli.judge_summary import JudgeCounts
from tidegate.gateway.sources.record_files import RecordBlock
from tidegate.gateway.sources.source import Unreadable


@dataclass(frozen=True, slots=True)
class JudgedBlock:
    """A block of records with their verdicts. `place_of` names a record by its position, such as `line 12`."""

    plan: EnforcementPlan
    explainer: Explainer
    block: RecordBlock
    verdicts: list[Verdict]
    place_of: Callable[[int], str]

    @classmethod
    def of(cls, plan: EnforcementPlan, block: RecordBlock, place_of: Callable[[int], str]) -> Self:
        """Judge records, also by their columns. Raises Unavailable if a record names a schema that the plan does not have."""
        headers = None if plan.writers is None else pa.array(block.headers, pa.binary())
        values = pa.array(block.values, pa.large_binary())
        judged = plan.judge_typed(values, headers=headers)
        verdicts = list(plan.explain_each(values, headers=headers, typed=True, failed=judged.field("failed")))
        return cls(plan, Explainer.of(plan), block, verdicts, place_of)

    def place(self, index: int) -> str:
        """Return the place of the record at an index."""
        return self.place_of(self.block.positions[index])

    def explained(self, index: int) -> tuple[Explanation, ...]:
        """Return an explanation of each violation of the record at an index."""
        block = self.block
        return self.explainer.explain(
            block.values[index], self.verdicts[index].violations, block.headers[index]
        )

    def entry(self, index: int) -> dict[str, Any]:
        """Return the verdict on the record at an index as JSON."""
        return {
            "place": self.place(index),
            "disposition": self.verdicts[index].disposition.name.lower(),
            "violations": [_as_json(each) for each in self.explained(index)],
        }

    def unreadable_entry(self, each: Unreadable) -> dict[str, Any]:
        """Return the entry of an unreadable record as JSON. Its disposition is null, because no job would get it."""
        return {
            "place": self.place_of(each.position),
            "disposition": None,
            "unreadable": {"pointer": each.pointer, "reason": each.reason},
        }


@dataclass(slots=True)
class Judgement:
    """The result for some records: counts and the first refused ones. `findings`, by rule and field, are for a report only."""

    tally: JudgeCounts
    findings: JudgeFindings | None

    @classmethod
    def empty(cls, show: int, *, has_findings: bool) -> Self:
        """Return an empty result that keeps the first `show` refused and unreadable records."""
        return cls(JudgeCounts(limit=show), JudgeFindings() if has_findings else None)

    @property
    def has_refused(self) -> bool:
        """Return whether a record is refused, or cannot be read."""
        return bool(self.tally.refused or self.tally.unreadable)

    def add(self, judged: JudgedBlock) -> None:
        """Add judged records."""
        self.tally.add(judged.verdicts, judged.place, judged.explained)
        self.tally.add_unreadable(judged.block.unreadable, judged.place_of)
        if self.findings is not None:
            self.findings.add(judged.verdicts, judged.explained, judged.place)

    def merge(self, later: Judgement) -> None:
        """Add the result for later records."""
        self.tally.merge(later.tally)
        if self.findings is not None and later.findings is not None:
            self.findings.merge(later.findings)


def _as_json(explanation: Explanation) -> dict[str, str | None]:
    """Return a violation as JSON, with its explanation."""
    meaning = {
        "sentence": explanation.sentence,
        "description": explanation.description,
        "passes": explanation.passes,
    }
    return {**asdict(explanation.violation), **meaning}
