"""What a replay would do: which refused records would pass, and why the others would fail. No value is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from tidegate.contracts.fix.apply import CompiledFix
from tidegate.contracts.formats.framing import schema_header
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.rules.clock import Moments
from tidegate.contracts.stream.counts import RuleKey
from tidegate.contracts.stream.decide import rule_keys
from tidegate.contracts.stream.replay import Untouched


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A refused record as it was in its source; `judged_at` counts nanoseconds since 1970."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int
    judged_at: int


@dataclass(slots=True)
class ReplayPreview:
    """The records that would be written, and those that would stay refused, by reason.

    `changed` records are changed by the fix. A record counts once under each of its reasons.
    """

    passing: int = 0
    failing: int = 0
    changed: int = 0
    reasons: Counter[RuleKey] = field(default_factory=Counter)
    untouched: Counter[Untouched] = field(default_factory=Counter)

    @property
    def judged(self) -> int:
        """Number of records that would be judged."""
        return self.passing + self.failing

    def add(self, records: Iterable[RefusedRecord], plan: EnforcementPlan, fix: CompiledFix | None) -> None:
        """Fix and judge some records; those with one moment of judging are judged together."""
        by_moment: dict[int, list[RefusedRecord]] = {}
        for record in records:
            by_moment.setdefault(record.judged_at, []).append(record)
        for moment, together in by_moment.items():
            self._judge(together, plan.with_now(moment), fix)

    def _judge(self, records: list[RefusedRecord], plan: EnforcementPlan, fix: CompiledFix | None) -> None:
        values = [each.value if fix is None else fix.apply(each.value) for each in records]
        self.changed += sum(new is not old.value for new, old in zip(values, records, strict=True))
        headers = None
        if plan.reads_headers:
            headers = pa.array([schema_header(each.headers) for each in records], pa.binary())
        verdicts = plan.explain_each(
            pa.array(values, pa.binary()),
            Moments(records=pa.array([each.timestamp_ms for each in records], pa.timestamp("ms"))),
            headers,
            typed=True,
            keys=pa.array([each.key for each in records], pa.binary()),
        )
        for verdict in verdicts:
            if verdict.disposition.is_written:
                self.passing += 1
                continue
            self.failing += 1
            for reason in rule_keys(verdict.violations):
                self.reasons[reason] += 1
