"""What the tasks of a judged batch have told the driver."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from contracts.expectations.compile import Partials
from contracts.plan import EnforcementPlan
from contracts.shadow import ShadowResult
from contracts.verdict import Disposition
from spark_jobs.data_files import with_headers
from spark_jobs.decide import FailedRecord, Tally
from spark_jobs.noting import Asked, read_noted, read_rows
from spark_jobs.shadow import merged


@dataclass(frozen=True, slots=True)
class TaskResults:
    """The rows that `judge_and_write` gave for a batch, which was asked for `asked` and judged by `plan`."""

    rows: pa.Table
    plan: EnforcementPlan
    asked: Asked

    @property
    def tallies(self) -> tuple[Tally, ...]:
        """Records by disposition and failed slots."""
        counts = self.rows.filter(pc.field("records").is_valid())
        sums = counts.group_by(["disposition", "failed"]).aggregate([("records", "sum")])
        return tuple(
            Tally(Disposition(row["disposition"]), row["failed"], row["records_sum"])
            for row in sums.to_pylist()
        )

    def first_failed(self) -> FailedRecord:
        """Look for the first record that must not pass."""
        failed = self._records(Disposition.FAILED)
        ordered = failed.sort_by([("partition", "ascending"), ("offset", "ascending")])
        (found,) = ordered.slice(0, 1).select(["partition", "offset", "failed"]).to_pylist()
        return FailedRecord(found["partition"], found["offset"], found["failed"])

    def noted(self) -> Partials:
        """Put together what the tasks have noted of the accepted rows."""
        return read_noted(self.plan, self.rows.column("noted").drop_null().to_pylist())

    def library_rows(self) -> pa.Table:
        """Put together the columns that were asked for of the accepted rows."""
        columns = [self.plan.columns.field(name) for name in self.asked.library_columns]
        return read_rows(pa.schema(columns), self.rows.column("rows").drop_null().to_pylist())

    def compared(self) -> ShadowResult | None:
        """Put together what the tasks have found about the shadow."""
        return merged(self.asked.shadow, self.rows.column("shadow").drop_null().to_pylist())

    def files(self) -> list[str]:
        """Name what the tasks have written."""
        names: list[str] = self.rows.column("file").drop_null().to_pylist()
        return names

    def kept(self) -> pa.ChunkedArray:
        """Give what the target had Spark keep, an array of binary."""
        return self.rows.column("kept").drop_null()

    def quarantined(self) -> pa.Table:
        """Give the refused records, as `refused_records` takes them."""
        return with_headers(self._records(Disposition.QUARANTINED))

    def _records(self, disposition: Disposition) -> pa.Table:
        is_wanted = (pc.field("disposition") == int(disposition)) & pc.field("offset").is_valid()
        return self.rows.filter(is_wanted)
