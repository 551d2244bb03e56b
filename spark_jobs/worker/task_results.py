"""What the tasks of a judged batch have told the driver."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from tidegate.contracts.expectations.compile import Partials
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.decide import FailedRecord, Tally
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.shadow import ShadowResult
from tidegate.contracts.verdict import Disposition
from tidegate.spark_jobs.worker.noting import Asked, read_noted, read_rows
from tidegate.spark_jobs.worker.record_spool import SpooledRecords
from tidegate.spark_jobs.worker.shadow import merged


@dataclass(frozen=True, slots=True)
class TaskResults:
    """The rows that `judge_and_write` gave for a batch, which was asked for `asked` and judged by `plan`."""

    rows: pa.Table
    plan: EnforcementPlan
    asked: Asked
    refused: SpooledRecords
    """The refused records, rows of REFUSED."""

    @property
    def tallies(self) -> tuple[Tally, ...]:
        """Records by source partition, disposition and failed slots."""
        counts = self.rows.filter(pc.field("records").is_valid())
        sums = counts.group_by(["partition", "disposition", "failed"]).aggregate([("records", "sum")])
        return tuple(
            Tally(Disposition(row["disposition"]), row["failed"], row["records_sum"], row["partition"])
            for row in sums.to_pylist()
        )

    def first_failed(self) -> FailedRecord:
        """Look for the first record that must not pass."""
        is_failed = pc.field("disposition") == int(Disposition.FAILED)
        failed = self.rows.filter(is_failed & pc.field("offset").is_valid())
        ordered = failed.sort_by([("partition", "ascending"), ("offset", "ascending")])
        (found,) = ordered.slice(0, 1).select(["partition", "offset", "failed"]).to_pylist()
        return FailedRecord(found["partition"], found["offset"], found["failed"])

    def bytes_read(self) -> dict[int, int]:
        """Return the bytes of keys, values and headers that were read of each source partition."""
        read: Counter[int] = Counter()
        for row in self.rows.filter(pc.field("bytes").is_valid()).select(["partition", "bytes"]).to_pylist():
            read[row["partition"]] += row["bytes"]
        return dict(read)

    def dropped(self) -> Positions:
        """Return the positions of the records that the contract drops."""
        found = Positions()
        rows = self.rows.filter(pc.field("offsets").is_valid()).select(["partition", "offsets"])
        for row in rows.to_pylist():
            found.add_all(Positions.of({row["partition"]: BitMap64.deserialize(row["offsets"])}))
        return found

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
        """Name what the tasks have written of the accepted rows."""
        names: list[str] = self.rows.column("file").drop_null().to_pylist()
        return names
