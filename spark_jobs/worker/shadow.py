"""Judge a batch by another version of its contract too, in the same pass, and say only what would be otherwise.

Whatever goes wrong with that version is caught here: it is reported, and no verdict of the enforced one depends on it.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa

from tidegate.contracts.columns.table_limits import TableLimits
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.rules.clock import Moments
from tidegate.contracts.stream.bounds import LONGEST_POINTER, MOST_RULES
from tidegate.contracts.stream.counts import LONGEST_CODE, RuleCount, RuleKey, rule_counts
from tidegate.contracts.stream.shadow import Change, ShadowReason, ShadowResult, ShadowSample
from tidegate.contracts.verdict import Disposition

SHADOW_TYPE: Final = pa.struct(
    [pa.field("disposition", pa.int8()), pa.field("failed", pa.binary()), pa.field("failure", pa.string())]
)
"""A verdict of the shadow, as VERDICT_TYPE; or, where it could not judge, the name of what was raised."""

_MOST_SAMPLES: Final = 10
_SAMPLES_OF_A_KIND: Final = 3
_MOST_REASONS: Final = 20


@dataclass(frozen=True, slots=True)
class Original:
    """What one record is explained from: its value, its schema header, an array of its one timestamp, its Kafka key."""

    value: bytes | None
    header: bytes | None
    timestamp: pa.Array
    key: bytes | None = None


Look = Callable[[EnforcementPlan, int], Original]
"""Gives a record of a batch by its index, as a plan wants to see it."""


@dataclass(frozen=True, slots=True)
class Shadow:
    """A version that is judged beside the enforced one. Without a plan it is only reported, with its `failure`.

    The plan travels to the workers as bytes, so that one that cannot be made there fails here and not their task.
    """

    version: str
    pickled: bytes | None = None
    failure: str | None = None

    @classmethod
    def of(cls, plan: EnforcementPlan) -> Shadow:
        """Make a compiled version ready to travel."""
        return cls(plan.contract.version, pickle.dumps(plan))

    def for_table(self, limits: Callable[[EnforcementPlan], TableLimits]) -> Shadow:
        """Return this version for a table that asks more of its rows, as `limits` says. Never raises."""
        if self.pickled is None:
            return self
        try:
            plan = self.plan()
            return Shadow.of(plan.for_table(limits(plan)))
        except Exception as error:  # noqa: BLE001 - whatever the shadow does must not hurt the enforced version
            return Shadow(self.version, failure=_could_not(type(error).__name__))

    def plan(self) -> EnforcementPlan:
        """Return the compiled version; compiled once in a process."""
        assert self.pickled is not None  # noqa: S101 - asked only where there is one
        plan: EnforcementPlan = pickle.loads(self.pickled)  # noqa: S301 - our own driver's, and come as Spark's pickles do
        return plan

    def judge(
        self,
        values: pa.Array,
        moments: Moments,
        headers: Callable[[EnforcementPlan], pa.Array],
        keys: pa.Array | None = None,
        *,
        typed: bool,
    ) -> pa.StructArray:
        """Judge as `EnforcementPlan.judge` does, or `judge_typed`; gives SHADOW_TYPE, of the same length. Never raises."""
        count = len(values)
        try:
            plan = self.plan()
            looked_up = headers(plan)
            judged = (
                plan.judge_typed(values, moments, looked_up, keys)
                if typed
                else plan.judge(values, moments, looked_up)
            )
            verdict = [judged.field(0), judged.field(1), pa.nulls(count, pa.string())]
        except Exception as error:  # noqa: BLE001 - whatever the shadow does must not hurt the enforced version
            name = pa.scalar(type(error).__name__)
            verdict = [pa.nulls(count, pa.int8()), pa.nulls(count, pa.binary()), pa.repeat(name, count)]
        return pa.StructArray.from_arrays(verdict, fields=list(SHADOW_TYPE))


class Differences:
    """Counts where the shadow's verdicts differ from the enforced ones, batch by batch."""

    def __init__(self, active: EnforcementPlan, shadow: Shadow, *, typed: bool) -> None:
        self._active = active
        self._shadow = shadow
        self._typed = typed
        self._compared = self._would_stop = 0
        self._kinds: Counter[tuple[Change, bytes | None]] = Counter()
        self._samples: list[ShadowSample] = []
        self._failure: str | None = None

    def add(
        self, positions: pa.RecordBatch | pa.Table, active: pa.StructArray, shadow: pa.StructArray, look: Look
    ) -> None:
        """Compare the verdicts of some records; `positions` has their columns partition and offset. Never raises.

        `active` begins with the fields of VERDICT_TYPE, `shadow` is SHADOW_TYPE.
        """
        try:
            self._add(positions, active, shadow, look)
        except Exception as error:  # noqa: BLE001 - a report is worth no batch
            self._failure = _could_not(type(error).__name__)

    def result(self) -> ShadowResult:
        """Return what was found."""
        sums = {change: self._by_rule(change) for change in Change}
        totals = {
            change: sum(records for (of, _), records in self._kinds.items() if of is change)
            for change in Change
        }
        return ShadowResult(
            version=self._shadow.version,
            compared=self._compared,
            would_refuse=totals[Change.REFUSE],
            would_accept=totals[Change.ACCEPT],
            would_stop=self._would_stop,
            refused_by=sums[Change.REFUSE],
            accepted_by=sums[Change.ACCEPT],
            samples=tuple(self._samples),
            failure=self._failure,
        )

    def _add(
        self, positions: pa.RecordBatch | pa.Table, active: pa.StructArray, shadow: pa.StructArray, look: Look
    ) -> None:
        failures = shadow.field(2).drop_null()
        if len(failures):
            self._failure = _could_not(failures[0].as_py())
        before, after = np.asarray(active.field(0)), np.asarray(shadow.field(0).fill_null(-1))
        is_compared = after >= 0
        self._compared += int(is_compared.sum())
        stop = int(Disposition.FAILED)
        self._would_stop += int(((after == stop) & (before != stop)).sum())
        was_refused, is_refused = before > int(Disposition.ALERTED), after > int(Disposition.ALERTED)
        for index in np.flatnonzero(is_compared & (was_refused != is_refused)).tolist():
            change = Change.REFUSE if is_refused[index] else Change.ACCEPT
            failed = (shadow if change is Change.REFUSE else active).field(1)[index].as_py()
            self._kinds[change, failed] += 1
            if self._kinds[change, failed] <= _SAMPLES_OF_A_KIND and len(self._samples) < _MOST_SAMPLES:
                partition, offset = (
                    positions.column(name)[index].as_py() for name in ("partition", "offset")
                )
                reasons = self._reasons(change, index, look)
                self._samples.append(
                    ShadowSample(partition=partition, offset=offset, change=change, reasons=reasons)
                )

    def _reasons(self, change: Change, index: int, look: Look) -> tuple[ShadowReason, ...]:
        plan = self._refusing(change)
        seen = look(plan, index)
        verdict = plan.explain(
            seen.value, seen.header, typed=self._typed, moments=Moments(records=seen.timestamp), key=seen.key
        )
        return tuple(
            ShadowReason(
                stage=each.stage, code=each.code[:LONGEST_CODE], pointer=each.pointer[:LONGEST_POINTER]
            )
            for each in verdict.violations[:_MOST_REASONS]
        )

    def _by_rule(self, change: Change) -> tuple[RuleCount, ...]:
        counts: Counter[RuleKey] = Counter()
        kinds = [(failed, records) for (of, failed), records in self._kinds.items() if of is change]
        for failed, records in kinds:
            for slot in self._refusing(change).failed_slots(failed):
                counts[slot.stage, slot.code, slot.severity] += records
        return rule_counts(counts)[:MOST_RULES]

    def _refusing(self, change: Change) -> EnforcementPlan:
        return self._shadow.plan() if change is Change.REFUSE else self._active


def merged(shadow: Shadow | None, results: Iterable[bytes]) -> ShadowResult | None:
    """Put together what the tasks of a batch have found, each as JSON; None where no version is judged beside."""
    if shadow is None:
        return None
    found = (ShadowResult.model_validate_json(each) for each in results)
    return reduce(ShadowResult.merged, found, ShadowResult(version=shadow.version, failure=shadow.failure))


def _could_not(error: str) -> str:
    return f"records were left out, for a worker could not judge them by it: {error}"
