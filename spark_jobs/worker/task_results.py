"""The results of the tasks of a judged batch, on the driver."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa
from pyroaring import BitMap64

from tidegate.contracts.expectations.compile import Partials
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.decide import FailedRecord, Tally
from tidegate.contracts.stream.key_marks import KeyMarks
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.shadow import ShadowResult
from tidegate.contracts.verdict import Disposition
from tidegate.spark_jobs.worker.record_spool import SpooledRecords
from tidegate.spark_jobs.worker.request import WorkerRequest, read_partials, read_rows
from tidegate.spark_jobs.worker.result_kinds import (
    AcceptedPart,
    BytesRead,
    DroppedBitmap,
    ExpectationPartials,
    LibraryRows,
    MarkedRows,
    RecordCount,
    ShadowFound,
    read_results,
)
from tidegate.spark_jobs.worker.shadow import merged

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class TaskResults:
    """The results of all tasks of a batch that was judged by `plan` with `request`.

    `rows` has the columns of `result_kinds.RESULT`, without packed records, which Spark keeps.
    """

    rows: pa.Table
    plan: EnforcementPlan
    request: WorkerRequest
    refused: SpooledRecords
    """The refused records, with the columns of `result_kinds.REFUSED`."""
    left_out: Positions = field(default_factory=Positions)
    """Records of the batch that were not judged and count as dropped."""

    def of(self, kind: type[R]) -> list[R]:
        """Return the results of one kind, a dataclass of `result_kinds`."""
        return read_results(self.rows, kind)

    @property
    def tallies(self) -> tuple[Tally, ...]:
        """Return counts of records by source partition, disposition and failed slots."""
        sums: Counter[tuple[int, int, bytes | None]] = Counter()
        for each in self.of(RecordCount):
            sums[each.partition, each.disposition, each.failed] += each.records
        for partition, bitmap in self.left_out.bitmaps().items():
            sums[partition, int(Disposition.DROPPED), None] += len(bitmap)
        return tuple(
            Tally(Disposition(disposition), failed, records, partition)
            for (partition, disposition, failed), records in sums.items()
        )

    def first_failed(self) -> FailedRecord:
        """Return the failed record with the lowest (partition, offset). Raises ValueError if no record failed."""
        return min(self.of(FailedRecord), key=lambda each: (each.partition, each.offset))

    def bytes_read(self) -> dict[int, int]:
        """Return the bytes of keys, values and headers that were read, by source partition."""
        read: Counter[int] = Counter()
        for each in self.of(BytesRead):
            read[each.partition] += each.bytes
        return dict(read)

    def dropped(self) -> Positions:
        """Return the positions of the records that the contract drops, and of those in `left_out`."""
        found = Positions()
        found.add_all(self.left_out)
        for each in self.of(DroppedBitmap):
            found.add_all(Positions.of({each.partition: BitMap64.deserialize(each.bitmap)}))
        return found

    def marks(self) -> KeyMarks:
        """Return the marks of the keys of written tombstones; in a replay, of all written rows."""
        return KeyMarks.unpacked(b"".join(each.packed for each in self.of(MarkedRows)))

    def partials(self) -> Partials:
        """Return the tasks' aggregates of the accepted rows for the expectations, merged."""
        return read_partials(self.plan, (each.pickled for each in self.of(ExpectationPartials)))

    def library_rows(self) -> pa.Table:
        """Return the columns `request.library_columns` of the accepted rows, for Great Expectations."""
        columns = [self.plan.columns.field(name) for name in self.request.library_columns]
        return read_rows(pa.schema(columns), (each.stream for each in self.of(LibraryRows)))

    def shadow_result(self) -> ShadowResult | None:
        """Return the tasks' comparisons with the shadow version, merged; None without a shadow."""
        return merged(self.request.shadow, (each.json for each in self.of(ShadowFound)))

    def parts(self) -> list[str]:
        """Return the names of the parts (files or staging tables) of accepted rows that the tasks have written."""
        return [each.name for each in self.of(AcceptedPart)]
