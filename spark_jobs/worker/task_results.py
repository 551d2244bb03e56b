"""What the tasks of a judged batch have told the driver."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
from pyroaring import BitMap64

from tidegate.contracts.expectations.compile import Partials
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.decide import FailedRecord, Tally
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.shadow import ShadowResult
from tidegate.contracts.verdict import Disposition
from tidegate.spark_jobs.worker.record_spool import SpooledRecords
from tidegate.spark_jobs.worker.request import WorkerRequest, read_noted, read_rows
from tidegate.spark_jobs.worker.result_kinds import (
    AcceptedPart,
    BytesRead,
    DroppedOffsets,
    ExpectationPartials,
    LibraryRows,
    RecordCount,
    ShadowFound,
    read_results,
)
from tidegate.spark_jobs.worker.shadow import merged

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class TaskResults:
    """The results of the tasks of a batch, which was judged by `plan` and asked for `asked`.

    `rows` are those of RESULT; of pieces that Spark keeps they have no records.
    """

    rows: pa.Table
    plan: EnforcementPlan
    asked: WorkerRequest
    refused: SpooledRecords
    """The refused records, rows of REFUSED."""

    def of(self, kind: type[R]) -> list[R]:
        """Return the results of one kind."""
        return read_results(self.rows, kind)

    @property
    def tallies(self) -> tuple[Tally, ...]:
        """Records by source partition, disposition and failed slots."""
        sums: Counter[tuple[int, int, bytes | None]] = Counter()
        for each in self.of(RecordCount):
            sums[each.partition, each.disposition, each.failed] += each.records
        return tuple(
            Tally(Disposition(disposition), failed, records, partition)
            for (partition, disposition, failed), records in sums.items()
        )

    def first_failed(self) -> FailedRecord:
        """Return the first record that must not pass."""
        return min(self.of(FailedRecord), key=lambda each: (each.partition, each.offset))

    def bytes_read(self) -> dict[int, int]:
        """Return the bytes of keys, values and headers that were read of each source partition."""
        read: Counter[int] = Counter()
        for each in self.of(BytesRead):
            read[each.partition] += each.bytes
        return dict(read)

    def dropped(self) -> Positions:
        """Return the positions of the records that the contract drops."""
        found = Positions()
        for each in self.of(DroppedOffsets):
            found.add_all(Positions.of({each.partition: BitMap64.deserialize(each.bitmap)}))
        return found

    def noted(self) -> Partials:
        """Put together what the tasks have noted of the accepted rows."""
        return read_noted(self.plan, (each.pickled for each in self.of(ExpectationPartials)))

    def library_rows(self) -> pa.Table:
        """Put together the columns that were asked for of the accepted rows."""
        columns = [self.plan.columns.field(name) for name in self.asked.library_columns]
        return read_rows(pa.schema(columns), (each.stream for each in self.of(LibraryRows)))

    def compared(self) -> ShadowResult | None:
        """Put together what the tasks have found about the shadow."""
        return merged(self.asked.shadow, (each.json for each in self.of(ShadowFound)))

    def parts(self) -> list[str]:
        """Return the names of the parts of accepted rows that the tasks have written."""
        return [each.name for each in self.of(AcceptedPart)]
