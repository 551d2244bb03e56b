"""Judging of a batch in the Python workers, which also write the accepted records to data files.

This takes one pass over the records. Only counts and file names return to the driver, also for refused records
(`record_spool.py`). A file that no snapshot references is invisible, so no reader sees a row until the driver has
decided about the whole batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from itertools import count
from typing import ClassVar, Final, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import load_file_io
from pyroaring import BitMap64
from pyspark import TaskContext

from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.rules.clock import Moments
from tidegate.contracts.stream.decide import FailedRecord
from tidegate.contracts.stream.key_marks import KeyMarks
from tidegate.contracts.verdict import Disposition
from tidegate.spark_jobs.crashes import crashes_without_values
from tidegate.spark_jobs.worker.comparing import ShadowComparison
from tidegate.spark_jobs.worker.judge import schema_headers
from tidegate.spark_jobs.worker.record_spool import REFUSED, RecordPart, RecordParts, as_records
from tidegate.spark_jobs.worker.request import EMPTY_REQUEST, PartialsCollector, WorkerRequest
from tidegate.spark_jobs.worker.result_kinds import (
    AcceptedPart,
    AcceptedPiece,
    BytesRead,
    DroppedBitmap,
    ExpectationPartials,
    LibraryRows,
    MarkedRows,
    Piece,
    RecordCount,
    RefusedFile,
    RefusedPiece,
    Result,
    ShadowFound,
    as_batch,
)

INPUT: Final = ("partition", "offset", "timestamp", "key", "value", "to_json(headers) AS headers")
"""The columns of the Kafka source that a worker needs, as SQL expressions.

Headers are passed as JSON, with their values in base64: Spark computes the size of a batch at every row, and for a list
column this takes time proportional to the rows so far.
"""

DELETED: Final = "_deleted"
"""Column of rows that will be merged: whether a row is a tombstone, which has only the primary key."""

_ROW_GROUP_ROWS: Final = 100_000
_ROW_GROUP_BYTES: Final = 64 * 1024 * 1024
"""A worker holds at most this many bytes of rows, plus one batch, before it writes them."""
_SAMPLED_ROWS: Final = 1000
"""Rows at the start of a file that decide which columns get a dictionary."""


class OpenPart(AbstractContextManager["OpenPart"], Protocol):
    """The part to which a task writes accepted rows: invisible, and complete when its context exits without error."""

    written: list[str]
    """Names of the written files, set when they are complete; empty if there were no rows."""

    def write(
        self,
        columns: pa.StructArray | None,
        batch: pa.RecordBatch,
        is_written: pa.Array | None,
        judged_by: pa.Array | None = None,
    ) -> list[bytes]:
        """Write a batch with the columns of INPUT; only rows where `is_written` is true, unless it is None.

        `columns` are its typed columns; None if the target does not use them. `judged_by` has the contract version of
        each row as `id@version`; None if all rows have the target's. Return the packed records that Spark must pass on.
        """
        ...


class RowTarget(Protocol):
    """The target of the accepted rows of one batch; it is pickled for the workers."""

    is_typed: ClassVar[bool]
    """Whether it writes typed columns instead of the original records."""

    def open(self, task: str) -> OpenPart:
        """Open the part of one attempt of one task. It has no other writer."""
        ...


@dataclass(frozen=True, slots=True)
class FileTarget:
    """The data files for the accepted rows of one batch.

    `schema` has the typed columns, then `_source` and `_contract`, each with its field id if the table format has ids,
    and DELETED if files will be merged. File names begin with `location`; `properties` are those of the file system.
    """

    location: str
    schema: pa.Schema
    topic: str
    contract: str
    compression: str
    properties: dict[str, str]

    is_typed: ClassVar[bool] = True

    def open(self, task: str) -> DataFile:
        """Open the file of one attempt of one task."""
        return DataFile(self, task)


def judge_and_write(
    plan: EnforcementPlan, target: RowTarget, refused: RecordParts, asked: WorkerRequest = EMPTY_REQUEST
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `mapInArrow`: it reads batches with the columns of INPUT and yields batches of RESULT."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        name = _task_name()
        with (
            crashes_without_values(),
            target.open(name) as accepted_part,
            refused.open(name, REFUSED) as refused_part,
        ):
            task = _Task(plan, asked, accepted_part, refused_part, typed=target.is_typed)
            for batch in batches:
                for part, now in asked.parts(batch):
                    for result in task.judge(part, now):
                        yield as_batch([result])
        yield as_batch(task.finish())

    return work


class _Task:
    """One attempt of one task: judges and writes its records, and returns its results."""

    def __init__(
        self,
        plan: EnforcementPlan,
        asked: WorkerRequest,
        accepted: OpenPart,
        refused: RecordPart,
        *,
        typed: bool,
    ) -> None:
        self._plan = plan
        self._asked = asked
        self._accepted = accepted
        self._refused = refused
        self._is_typed = typed or bool(plan.expectations)
        self._noting = PartialsCollector(plan, asked.library_columns)
        self._comparison = ShadowComparison.of(plan, asked.shadow, typed=self._is_typed)
        self._counts: Counter[tuple[int, int, bytes | None]] = Counter()
        self._bytes: Counter[int] = Counter()
        self._dropped: dict[int, BitMap64] = {}
        self._marks: list[bytes] = []
        self._first_failed: dict[int, FailedRecord] = {}
        self._numbers = count(_task().partitionId() << 32)

    def judge(self, batch: pa.RecordBatch, now: int | None = None) -> Iterator[Result]:
        """Judge a batch with the columns of INPUT and write its records; yield the results known by then.

        `now` is the time of the verdicts in nanoseconds since 1970; None for that of the plan.
        """
        plan = self._plan
        self._bytes.update(_bytes_by_partition(batch))
        batch, aside = self._asked.without_set_aside(batch)
        if aside is not None:
            for partition, records in _sums_by_partition(aside).items():
                self._counts[partition, int(Disposition.QUARANTINED), None] += records
            yield from self._refuse(aside, pa.nulls(aside.num_rows, pa.binary()))
        headers = schema_headers(plan, batch.column("headers"))
        moments = Moments(now, batch.column("timestamp"))
        if self._is_typed:
            judged = plan.judge_typed(batch.column("value"), moments, headers, batch.column("key"))
        else:
            judged = plan.judge(batch.column("value"), moments, headers)
        columns = judged.field(2) if self._is_typed else None
        route = plan.route(batch.column("value"), headers)
        if self._comparison is not None:
            # The shadow is compared with the newest version, on the records of that version's group.
            compared = (
                (batch, judged)
                if route is None
                else [each.filter(route.is_newest) for each in (batch, judged)]
            )
            self._comparison.add(*compared)
        dispositions, failed = self._asked.refuse(np.asarray(judged.field(0)), batch), judged.field(1)
        self._count(batch, dispositions, failed)
        is_written = dispositions <= int(Disposition.ALERTED)
        some_written = None if is_written.all() else pa.array(is_written)
        judged_by = None if route is None else route.contracts
        yield from self._pieces(AcceptedPiece, self._accepted.write(columns, batch, some_written, judged_by))
        self._mark(columns, batch, is_written)
        # The expectations are those of the newest version, and cover the records of its compatibility group.
        expected = some_written if route is None else pc.and_(pa.array(is_written), route.is_newest)
        for seen in self._noting.add(columns, expected):
            yield LibraryRows(seen)
        refused = np.flatnonzero(dispositions == int(Disposition.QUARANTINED))
        if len(refused):
            yield from self._refuse(batch.take(pa.array(refused)), failed.take(pa.array(refused)))
        _note_dropped(self._dropped, batch, dispositions == int(Disposition.DROPPED))
        _note_first(self._first_failed, batch, failed, dispositions == int(Disposition.FAILED))

    def finish(self) -> Iterator[Result]:
        """Yield the results that are known only when all parts are complete."""
        for (partition, disposition, failed), records in self._counts.items():
            if records:
                yield RecordCount(partition, disposition, failed, records)
        yield from self._first_failed.values()
        yield from (BytesRead(partition, read) for partition, read in self._bytes.items())
        yield from (DroppedBitmap(partition, found.serialize()) for partition, found in self._dropped.items())
        if self._marks:
            yield MarkedRows(b"".join(self._marks))
        yield from map(AcceptedPart, self._accepted.written)
        yield from map(RefusedFile, self._refused.written)
        if (noted := self._noting.finish()) is not None:
            yield ExpectationPartials(noted)
        if self._comparison is not None:
            yield ShadowFound(self._comparison.result().model_dump_json().encode())

    def _mark(
        self, columns: pa.StructArray | None, batch: pa.RecordBatch, is_written: npt.NDArray[np.bool_]
    ) -> None:
        """Collect marks of the keys of written tombstones; in a replay, of all written rows."""
        if columns is None or not self._asked.marked:
            return
        is_marked = is_written
        if not self._asked.is_replay:
            is_marked = is_written & np.asarray(batch.column("value").is_null())
        if is_marked.any():
            chosen = pa.array(is_marked)
            of_key = [pc.struct_field(columns, name).filter(chosen) for name in self._asked.marked]
            self._marks.append(KeyMarks.of(of_key, batch.filter(chosen)).packed())

    def _count(self, batch: pa.RecordBatch, dispositions: npt.NDArray[np.int8], failed: pa.Array) -> None:
        for partition, accepted in _sums_by_partition(batch, dispositions == 0).items():
            self._counts[partition, int(Disposition.ACCEPTED), None] += accepted
        partitions = np.asarray(batch.column("partition"))
        others = np.flatnonzero(dispositions)
        slots = failed.take(pa.array(others)).to_pylist()
        kinds = zip(partitions[others].tolist(), dispositions[others].tolist(), slots, strict=True)
        self._counts.update(kinds)

    def _refuse(self, batch: pa.RecordBatch, failed: pa.Array) -> Iterator[Piece]:
        records = as_records(batch)
        rows = pa.RecordBatch.from_arrays([*records.columns, failed], schema=REFUSED)
        return self._pieces(RefusedPiece, self._refused.write(rows))

    def _pieces(self, kind: type[Piece], packed: Iterable[bytes]) -> Iterator[Piece]:
        return (kind(next(self._numbers), records) for records in packed)


def _bytes_by_partition(batch: pa.RecordBatch) -> dict[int, int]:
    """Return the bytes of keys, values and headers of each source partition."""
    lengths = sum(
        pc.fill_null(pc.binary_length(batch.column(name)), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        for name in ("key", "value", "headers")
    )
    return _sums_by_partition(batch, lengths)


def _sums_by_partition(
    batch: pa.RecordBatch, weights: npt.NDArray[np.int64] | npt.NDArray[np.bool_] | None = None
) -> dict[int, int]:
    """Return the sums of the rows' weights by source partition; without weights, the numbers of rows."""
    partitions, places = np.unique(np.asarray(batch.column("partition")), return_inverse=True)
    sums = np.bincount(places, weights=weights).astype(np.int64)
    return dict(zip(partitions.tolist(), sums.tolist(), strict=True))


def _note_dropped(
    dropped: dict[int, BitMap64], batch: pa.RecordBatch, is_dropped: npt.NDArray[np.bool_]
) -> None:
    """Add the offsets of dropped records to `dropped`, by source partition, because no output has them."""
    if not is_dropped.any():
        return
    partitions, offsets = np.asarray(batch.column("partition")), np.asarray(batch.column("offset"))
    for partition in np.unique(partitions[is_dropped]).tolist():
        found = offsets[is_dropped & (partitions == partition)]
        dropped.setdefault(partition, BitMap64()).update(found.tolist())


def _note_first(
    first: dict[int, FailedRecord], batch: pa.RecordBatch, failed: pa.Array, is_failed: npt.NDArray[np.bool_]
) -> None:
    """Keep in `first` the lowest record with a `fail` violation of each source partition."""
    for index in np.flatnonzero(is_failed).tolist():
        partition, offset = batch.column("partition")[index].as_py(), batch.column("offset")[index].as_py()
        if partition not in first or offset < first[partition].offset:
            first[partition] = FailedRecord(partition, offset, failed[index].as_py())


class DataFile:
    """One Parquet file. It is created with the first rows, and complete when the context exits without an error."""

    def __init__(self, target: FileTarget, task: str) -> None:
        self._target = target
        self._name = f"{target.location}-{task}.parquet"
        self._open = ExitStack()
        self._writer: pq.ParquetWriter | None = None
        self._rows: list[pa.RecordBatch] = []
        self.written: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with self._open:
            if error[0] is None:
                self._write_row_group()
        if self._writer is not None and error[0] is None:
            self.written.append(self._name)

    def write(
        self,
        columns: pa.StructArray | None,
        batch: pa.RecordBatch,
        is_written: pa.Array | None,
        judged_by: pa.Array | None = None,
    ) -> list[bytes]:
        """Write the typed columns of a batch with their provenance; return no packed records.

        Arguments as in `OpenPart.write`; `columns` is required.
        """
        assert columns is not None, "the target is typed"  # noqa: S101 - a programming error
        rows_in = len(columns)
        target = self._target
        source = pa.StructArray.from_arrays(
            [
                pa.repeat(pa.scalar(target.topic), rows_in),
                batch.column("partition"),
                batch.column("offset"),
                batch.column("timestamp"),
            ],
            fields=list(target.schema.field("_source").type),
        )
        if judged_by is None:
            judged_by = pa.repeat(pa.scalar(target.contract), rows_in)
        arrays = [*columns.flatten(), source, judged_by]
        if DELETED in target.schema.names:
            arrays.append(pc.is_null(batch.column("value")))
        rows = pa.RecordBatch.from_arrays(arrays, schema=target.schema)
        if is_written is not None:
            rows = rows.filter(is_written)
        if rows.num_rows:
            self._rows.append(rows)
        is_full = sum(each.num_rows for each in self._rows) >= _ROW_GROUP_ROWS
        if is_full or sum(each.nbytes for each in self._rows) >= _ROW_GROUP_BYTES:
            self._write_row_group()
        return []

    def _write_row_group(self) -> None:
        if self._rows:
            rows = pa.Table.from_batches(self._rows)
            self._writer = self._writer or self._create(_repeating(rows))
            self._writer.write_table(rows)
            self._rows = []

    def _create(self, repeating: list[str]) -> pq.ParquetWriter:
        io = load_file_io(self._target.properties, self._target.location)
        stream = self._open.enter_context(io.new_output(self._name).create())
        writer = pq.ParquetWriter(
            stream,
            self._target.schema,
            compression=self._target.compression,
            # Required by the table format: 4 or 8 bytes if the precision allows.
            store_decimal_as_integer=True,
            # A dictionary of unique values takes a fifth of the time to write a file, and makes it larger.
            use_dictionary=repeating,
        )
        return self._open.enter_context(writer)


def _repeating(rows: pa.Table) -> list[str]:
    """Return the paths of columns whose first rows have at most half as many distinct values as rows."""
    sample = rows.slice(0, _SAMPLED_ROWS).flatten()
    return [
        name
        for name, column in zip(sample.column_names, sample.columns, strict=True)
        # Arrow cannot find the unique values of a list column.
        if not pa.types.is_list(column.type) and 2 * len(pc.unique(column)) <= len(column)
    ]


def _task_name() -> str:
    """Return the name of a task's attempt, which is unique in this application."""
    task = _task()
    return f"{task.partitionId():05d}-{task.taskAttemptId()}"


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None  # noqa: S101 - workers run within a task
    return task
