"""The request to the workers for a batch, and the aggregates that they collect for the contract's expectations."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.contracts.expectations.compile import Partials, typed_rows
from tidegate.contracts.fix.apply import RecordFix
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.ledger import BatchRefusal, Position
from tidegate.contracts.verdict import Disposition
from tidegate.spark_jobs.worker.record_spool import divided
from tidegate.spark_jobs.worker.shadow import Shadow

JUDGED_AT: Final = "judged_at"
"""Column of the rows of a replay: the time of their first verdict, in nanoseconds since 1970; never null."""


@dataclass(frozen=True, slots=True)
class WorkerRequest:
    """The request to the workers for one batch, besides the verdicts; it is pickled for them.

    `library_columns` are the columns of accepted rows for Great Expectations. `refusals` were decided by an attempt
    that never published: accepted records before their ends are refused with them. `shadow` judges too, and is only
    reported. `set_aside` are positions that a person has set aside: their records are not judged.

    `is_replay`: rows have the column `judged_at`, and all records that may not be written are refused, also those that
    the contract drops or fails on. `fix` is applied to the values first. A value that would grow beyond `most_bytes`,
    which an output topic may not accept, stays unchanged.

    `marked` are the primary key columns of a table with upserts: written tombstones are marked, and in a replay all
    written rows.
    """

    library_columns: tuple[str, ...] = ()
    refusals: tuple[BatchRefusal, ...] = ()
    shadow: Shadow | None = None
    set_aside: frozenset[Position] = frozenset()
    is_replay: bool = False
    fix: RecordFix | None = None
    most_bytes: int = 0
    marked: tuple[str, ...] = ()

    def fixed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with the fix applied to their values."""
        if self.fix is None:
            return rows
        values = rows.column("value")
        fixed = pa.array([self._fixed(self.fix, value) for value in values.to_pylist()], values.type)
        return rows.set_column(rows.schema.get_field_index("value"), rows.schema.field("value"), fixed)

    def _fixed(self, fix: RecordFix, value: bytes | None) -> bytes | None:
        new = fix.apply(value)
        return value if len(new or b"") > max(len(value or b""), self.most_bytes) else new

    def parts(self, rows: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, int | None]]:
        """Yield the rows to judge, with the time of their verdict in nanoseconds; None for the time of the plan.

        The records of a replay are fixed first, and grouped by the time of their first verdict, which is used again.
        """
        if not self.is_replay:
            yield rows, None
            return
        moments = rows.column(JUDGED_AT)
        fixed = self.fixed(rows.drop_columns([JUDGED_AT]))
        for moment in pc.unique(moments).to_pylist():
            yield fixed.filter(pc.equal(moments, moment)), moment

    def without_set_aside(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
        """Return the rows to judge, and those that are set aside; None if there are none."""
        return divided(rows, self.set_aside)

    def refuse(self, dispositions: npt.NDArray[np.int8], positions: pa.RecordBatch) -> npt.NDArray[np.int8]:
        """Return the dispositions with more records quarantined.

        In a replay these are the dropped and failed ones; otherwise those that would be written although their batch
        was refused.
        """
        if self.is_replay:
            return np.where(
                dispositions > int(Disposition.ALERTED), np.int8(Disposition.QUARANTINED), dispositions
            )
        if not self.refusals:
            return dispositions
        partitions, offsets = np.asarray(positions["partition"]), np.asarray(positions["offset"])
        is_refused = np.zeros(len(dispositions), bool)
        for refusal in self.refusals:
            for partition, end in refusal.end.items():
                is_refused |= (partitions == partition) & (offsets < end)
        is_refused &= dispositions <= int(Disposition.ALERTED)
        return np.where(is_refused, np.int8(Disposition.QUARANTINED), dispositions)


EMPTY_REQUEST: Final = WorkerRequest()


class PartialsCollector:
    """Collector of aggregates for a contract's expectations, batch by batch. Without expectations it does nothing."""

    def __init__(self, plan: EnforcementPlan, library_columns: tuple[str, ...]) -> None:
        self._expectations = plan.expectations
        self._schema = plan.columns
        self._names = plan.expectations.needed
        self._library_columns = library_columns
        self._noted: list[Partials] = []

    def add(self, columns: pa.StructArray | None, is_written: pa.Array | None) -> Iterator[bytes]:
        """Add the rows where `is_written` is true, or all; yield them as an Arrow stream if the library needs them.

        `columns` may be None only if the contract has no expectations.
        """
        if not self._expectations or columns is None:
            return
        wanted = tuple(dict.fromkeys((*self._names, *self._library_columns)))
        rows = typed_rows(columns, self._schema, wanted, is_written)
        self._noted.append(self._expectations.observe(rows))
        if self._library_columns:
            yield as_stream(rows.select(list(self._library_columns)))

    def finish(self) -> bytes | None:
        """Return the pickled aggregates, for `read_partials`; None without expectations."""
        if not self._expectations:
            return None
        return pickle.dumps(self._expectations.merge(self._noted))


def read_partials(plan: EnforcementPlan, noted: Iterable[bytes]) -> Partials:
    """Return the merged aggregates of a batch's tasks."""
    return plan.expectations.merge(pickle.loads(each) for each in noted)  # noqa: S301 - written by our own workers


def as_stream(rows: pa.RecordBatch) -> bytes:
    """Return rows as an Arrow stream, compressed with lz4."""
    buffer = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(buffer, rows.schema, options=options) as writer:
        writer.write_batch(rows)
    return bytes(buffer.getvalue())


def read_rows(schema: pa.Schema, streams: Iterable[bytes]) -> pa.Table:
    """Return the rows of Arrow streams as one table with this schema."""
    tables = [pa.ipc.open_stream(stream).read_all() for stream in streams]
    return pa.concat_tables([schema.empty_table(), *tables])
