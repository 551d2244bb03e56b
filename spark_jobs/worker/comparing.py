"""Compare the verdicts of two versions in a worker of a table sink, where the records are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.rules.clock import Moments
from tidegate.spark_jobs.worker.judge import schema_headers
from tidegate.spark_jobs.worker.shadow import Differences, Original, Shadow


@dataclass(frozen=True, slots=True)
class Comparing:
    """Judges the records of one task by the shadow too. Costs nothing where there is none."""

    shadow: Shadow | None
    differences: Differences | None = None
    typed: bool = True

    @classmethod
    def of(cls, plan: EnforcementPlan, shadow: Shadow | None, *, typed: bool) -> Self:
        """Begin to compare verdicts of `judge`, or with `typed` of `judge_typed`."""
        if shadow is None or shadow.pickled is None:
            return cls(None)
        return cls(shadow, Differences(plan, shadow, typed=typed), typed)

    def add(self, batch: pa.RecordBatch, judged: pa.StructArray) -> None:
        """Compare the enforced verdicts of a batch of the columns of INPUT with those of the shadow. Never raises."""
        if self.shadow is None or self.differences is None:
            return
        headers, timestamps = batch.column("headers"), batch.column("timestamp")
        shadow = self.shadow.judge(
            batch.column("value"),
            Moments(records=timestamps),
            lambda plan: schema_headers(plan, headers),
            batch.column("key"),
            typed=self.typed,
        )

        def look(plan: EnforcementPlan, index: int) -> Original:
            header = schema_headers(plan, headers.slice(index, 1))
            return Original(
                batch.column("value")[index].as_py(),
                None if header is None else header[0].as_py(),
                timestamps.slice(index, 1),
                batch.column("key")[index].as_py(),
            )

        self.differences.add(batch, judged, shadow, look)

    def finish(self) -> tuple[bytes, ...]:
        """Return what was found, if something was looked for, to be read by `merged`."""
        return () if self.differences is None else (self.differences.result().model_dump_json().encode(),)
