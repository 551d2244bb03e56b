"""Comparison of the verdicts of two contract versions in a worker.

Every error of the shadow version is caught here and reported: it must not affect the verdicts of the enforced one.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, Self

import numpy as np
import pyarrow as pa

from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.rules.clock import Moments
from tidegate.contracts.stream.bounds import LONGEST_POINTER, MOST_RULES
from tidegate.contracts.stream.counts import LONGEST_CODE, RuleCount, RuleKey, rule_counts
from tidegate.contracts.stream.shadow import ShadowReason, ShadowResult, ShadowSample, VerdictChange
from tidegate.contracts.verdict import Disposition
from tidegate.spark_jobs.worker.judge import schema_headers
from tidegate.spark_jobs.worker.shadow import Shadow, could_not_judge

_MOST_SAMPLES: Final = 10
_SAMPLES_OF_A_KIND: Final = 3
_MOST_REASONS: Final = 20


class ShadowComparison:
    """The comparison for one task: judges its records by the shadow too, and counts verdicts that differ."""

    def __init__(self, active: EnforcementPlan, shadow: Shadow, *, typed: bool) -> None:
        self._active = active
        self._shadow = shadow
        self._typed = typed
        self._compared = self._would_stop = 0
        self._kinds: Counter[tuple[VerdictChange, bytes | None]] = Counter()
        self._samples: list[ShadowSample] = []
        self._failure: str | None = None

    @classmethod
    def of(cls, active: EnforcementPlan, shadow: Shadow | None, *, typed: bool) -> Self | None:
        """Return a comparison for verdicts of `judge`, or of `judge_typed` if `typed`; None without a plan."""
        return None if shadow is None or shadow.pickled is None else cls(active, shadow, typed=typed)

    def add(self, batch: pa.RecordBatch, judged: pa.StructArray) -> None:
        """Compare the enforced verdicts of a batch, with the columns of INPUT, with the shadow's. Never raises."""
        try:
            self._add(batch, judged)
        except Exception as error:  # noqa: BLE001 - a report must not fail the batch
            self._failure = could_not_judge(type(error).__name__)

    def result(self) -> ShadowResult:
        """Return the result of the comparison."""
        sums = {change: self._by_rule(change) for change in VerdictChange}
        totals = {
            change: sum(records for (of, _), records in self._kinds.items() if of is change)
            for change in VerdictChange
        }
        return ShadowResult(
            version=self._shadow.version,
            compared=self._compared,
            would_refuse=totals[VerdictChange.REFUSE],
            would_accept=totals[VerdictChange.ACCEPT],
            would_stop=self._would_stop,
            refused_by=sums[VerdictChange.REFUSE],
            accepted_by=sums[VerdictChange.ACCEPT],
            samples=tuple(self._samples),
            failure=self._failure,
        )

    def _add(self, batch: pa.RecordBatch, judged: pa.StructArray) -> None:
        shadow = self._judge(batch)
        before, after = np.asarray(judged.field(0)), np.asarray(shadow.field(0))
        self._compared += len(after)
        stop = int(Disposition.FAILED)
        self._would_stop += int(((after == stop) & (before != stop)).sum())
        was_refused, is_refused = before > int(Disposition.ALERTED), after > int(Disposition.ALERTED)
        for index in np.flatnonzero(was_refused != is_refused).tolist():
            change = VerdictChange.REFUSE if is_refused[index] else VerdictChange.ACCEPT
            failed = (shadow if change is VerdictChange.REFUSE else judged).field(1)[index].as_py()
            self._kinds[change, failed] += 1
            if self._kinds[change, failed] <= _SAMPLES_OF_A_KIND and len(self._samples) < _MOST_SAMPLES:
                self._samples.append(self._sample(batch.slice(index, 1), change))

    def _judge(self, batch: pa.RecordBatch) -> pa.StructArray:
        plan, values = self._shadow.plan(), batch.column("value")
        moments, headers = Moments(records=batch.column("timestamp")), schema_headers(plan, batch["headers"])
        if self._typed:
            return plan.judge_typed(values, moments, headers, batch.column("key"))
        return plan.judge(values, moments, headers)

    def _sample(self, record: pa.RecordBatch, change: VerdictChange) -> ShadowSample:
        plan = self._refusing(change)
        headers = schema_headers(plan, record.column("headers"))
        verdict = plan.explain(
            record.column("value")[0].as_py(),
            None if headers is None else headers[0].as_py(),
            typed=self._typed,
            moments=Moments(records=record.column("timestamp")),
            key=record.column("key")[0].as_py(),
        )
        return ShadowSample(
            partition=record.column("partition")[0].as_py(),
            offset=record.column("offset")[0].as_py(),
            change=change,
            reasons=tuple(
                ShadowReason(
                    stage=each.stage, code=each.code[:LONGEST_CODE], pointer=each.pointer[:LONGEST_POINTER]
                )
                for each in verdict.violations[:_MOST_REASONS]
            ),
        )

    def _by_rule(self, change: VerdictChange) -> tuple[RuleCount, ...]:
        counts: Counter[RuleKey] = Counter()
        kinds = [(failed, records) for (of, failed), records in self._kinds.items() if of is change]
        for failed, records in kinds:
            for slot in self._refusing(change).failed_slots(failed):
                counts[slot.stage, slot.code, slot.severity] += records
        return rule_counts(counts)[:MOST_RULES]

    def _refusing(self, change: VerdictChange) -> EnforcementPlan:
        return self._shadow.plan() if change is VerdictChange.REFUSE else self._active
