"""Judge a batch where its records are, and write the accepted ones to data files there.

One pass over the records, in the Python workers: what goes back to the driver is the refused records, the counts, and
the names of the files. A file that no snapshot names is invisible, so that nothing is written as far as any reader can
tell until the driver has looked at the whole batch.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import load_file_io
from pyspark import TaskContext

from contracts.plan import EnforcementPlan
from contracts.rules.clock import Moments
from contracts.verdict import Disposition
from spark_jobs.comparing import Comparing
from spark_jobs.crashes import crashes_without_values
from spark_jobs.judge import schema_headers
from spark_jobs.noting import NOTHING_ASKED, Asked, Noting

INPUT: Final = ("partition", "offset", "timestamp", "key", "value", "to_json(headers) AS headers")
"""What a worker needs of the Kafka source, as SQL expressions.

Headers cross as JSON, their values in base64: Spark asks for the size of a batch at every row, and the size of a column
of lists takes it time in proportion to the rows so far.
"""

RESULT: Final = pa.schema(
    [
        ("disposition", pa.int8()),
        ("failed", pa.binary()),
        ("records", pa.int64()),
        ("file", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.string()),
        ("timestamp_ms", pa.int64()),
        ("noted", pa.binary()),
        ("rows", pa.binary()),
        ("shadow", pa.binary()),
        ("kept", pa.binary()),
    ]
)
"""What a worker returns, rows of seven kinds: counts (disposition, failed, records), written files (file), single
records (disposition, failed, partition, offset): every quarantined one with its bytes, and of the failed ones the first
of each source partition; for expectations what was noted, and rows as Great Expectations is to see them; what another
version of the contract would have made of the records; and accepted records that Spark keeps until they are written."""

RESULT_DDL: Final = (
    "disposition tinyint, failed binary, records bigint, file string, partition int, offset bigint, key binary, "
    "value binary, headers string, timestamp_ms bigint, noted binary, rows binary, shadow binary, kept binary"
)

DELETED: Final = "_deleted"
"""Column of rows that wait to be merged: whether a row is a tombstone, which holds the primary key alone."""

_ROW_GROUP_ROWS: Final = 100_000


class OpenPart(AbstractContextManager["OpenPart"], Protocol):
    """What a task writes accepted rows to: invisible, and complete when it is left without an error."""

    written: list[str]
    """Names of what was written, once it is complete; none if there was nothing to write."""

    def write(
        self, columns: pa.StructArray | None, batch: pa.RecordBatch, is_written: pa.Array | None
    ) -> bytes | None:
        """Write a batch of the columns of INPUT; of the rows that `is_written` names, if not all.

        `columns` are its typed columns; null where the target has no use for them. Gives what Spark is to keep of it.
        """
        ...


class RowTarget(Protocol):
    """Where and how the accepted rows of one batch are written; travels to the workers."""

    is_typed: ClassVar[bool]
    """Whether it writes typed columns, and not the records as they came."""

    def open(self, task: str) -> OpenPart:
        """Open the part of one attempt of one task, which no other writes to."""
        ...


@dataclass(frozen=True, slots=True)
class FileTarget:
    """Where and how the accepted rows of one batch are written.

    `schema` are the typed columns, then `_source` and `_contract`, each with its field id in the table, and DELETED where
    files are to be merged. File names begin with `location`; `properties` are those of the table's file system.
    """

    location: str
    schema: pa.Schema
    topic: str
    contract: str
    compression: str
    properties: dict[str, str]

    is_typed: ClassVar[bool] = True

    def open(self, task: str) -> DataFile:
        """Open a file of this target."""
        return DataFile(self, task)


def judge_and_write(
    plan: EnforcementPlan, target: RowTarget, asked: Asked = NOTHING_ASKED
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for `mapInArrow`: it takes batches of the columns of INPUT and gives batches of RESULT."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts: Counter[tuple[int, bytes | None]] = Counter()
        first_failed: dict[int, dict[str, Any]] = {}
        noting = Noting(plan, asked.library_columns)
        is_typed = target.is_typed or bool(plan.expectations)
        comparing = Comparing.of(plan, asked.shadow, typed=is_typed)
        with crashes_without_values(), target.open(_task_name()) as file:
            for batch in batches:
                headers = schema_headers(plan, batch.column("headers"))
                moments = Moments(records=batch.column("timestamp"))
                if is_typed:
                    judged = plan.judge_typed(batch.column("value"), moments, headers, batch.column("key"))
                else:
                    judged = plan.judge(batch.column("value"), moments, headers)
                columns = judged.field(2) if is_typed else None
                comparing.add(batch, judged)
                dispositions = asked.refuse(np.asarray(judged.field(0)), batch)
                failed = judged.field(1)
                others = np.flatnonzero(dispositions)
                counts[int(Disposition.ACCEPTED), None] += len(dispositions) - len(others)
                slots = failed.take(pa.array(others)).to_pylist()
                counts.update(zip(dispositions[others].tolist(), slots, strict=True))
                is_written = dispositions <= int(Disposition.ALERTED)
                some_written = None if is_written.all() else pa.array(is_written)
                kept = file.write(columns, batch, some_written)
                if kept is not None:
                    yield pa.RecordBatch.from_pylist([{"kept": kept}], RESULT)
                for seen in noting.add(columns, some_written):
                    yield pa.RecordBatch.from_pylist([{"rows": seen}], RESULT)
                refused = np.flatnonzero(dispositions == int(Disposition.QUARANTINED))
                if len(refused):
                    yield _originals(batch.take(pa.array(refused)), failed.take(pa.array(refused)))
                _note_first(first_failed, batch, failed, dispositions == int(Disposition.FAILED))
        rows: list[dict[str, Any]] = [
            {"disposition": disposition, "failed": bits, "records": records}
            for (disposition, bits), records in counts.items()
            if records
        ]
        rows += first_failed.values()
        rows += [{"file": name} for name in file.written]
        if (noted := noting.finish()) is not None:
            rows.append({"noted": noted})
        rows += [{"shadow": found} for found in comparing.finish()]
        yield pa.RecordBatch.from_pylist(rows, RESULT)

    return work


def _note_first(
    first: dict[int, dict[str, Any]],
    batch: pa.RecordBatch,
    failed: pa.Array,
    is_failed: npt.NDArray[np.bool_],
) -> None:
    """Note of the records that must not pass the first of each source partition."""
    for index in np.flatnonzero(is_failed).tolist():
        partition, offset = batch.column("partition")[index].as_py(), batch.column("offset")[index].as_py()
        if partition not in first or offset < first[partition]["offset"]:
            first[partition] = {
                "disposition": int(Disposition.FAILED),
                "failed": failed[index].as_py(),
                "partition": partition,
                "offset": offset,
            }


class DataFile:
    """One Parquet file, made when the first rows are written, complete when it is left without an error."""

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
        self, columns: pa.StructArray | None, batch: pa.RecordBatch, is_written: pa.Array | None
    ) -> None:
        """Write the typed columns of a batch with its positions; of the rows that `is_written` names, if not all."""
        assert columns is not None, "the target is typed"  # noqa: S101 - a programming error
        count = len(columns)
        target = self._target
        source = pa.StructArray.from_arrays(
            [
                pa.repeat(pa.scalar(target.topic), count),
                batch.column("partition"),
                batch.column("offset"),
                batch.column("timestamp"),
            ],
            fields=list(target.schema.field("_source").type),
        )
        arrays = [*columns.flatten(), source, pa.repeat(pa.scalar(target.contract), count)]
        if DELETED in target.schema.names:
            arrays.append(pc.is_null(batch.column("value")))
        rows = pa.RecordBatch.from_arrays(arrays, schema=target.schema)
        if is_written is not None:
            rows = rows.filter(is_written)
        if rows.num_rows:
            self._rows.append(rows)
        if sum(each.num_rows for each in self._rows) >= _ROW_GROUP_ROWS:
            self._write_row_group()

    def _write_row_group(self) -> None:
        if self._rows:
            self._writer = self._writer or self._create()
            self._writer.write_table(pa.Table.from_batches(self._rows))
            self._rows = []

    def _create(self) -> pq.ParquetWriter:
        io = load_file_io(self._target.properties, self._target.location)
        stream = self._open.enter_context(io.new_output(self._name).create())
        writer = pq.ParquetWriter(
            stream,
            self._target.schema,
            compression=self._target.compression,
            # As the table format wants them: 4 or 8 bytes where the precision allows.
            store_decimal_as_integer=True,
        )
        return self._open.enter_context(writer)


def _task_name() -> str:
    """Name a task's attempt: no other of this application has the same."""
    task = TaskContext.get()
    assert task is not None  # noqa: S101 - workers run within a task
    return f"{task.partitionId():05d}-{task.taskAttemptId()}"


def _originals(batch: pa.RecordBatch, failed: pa.Array) -> pa.RecordBatch:
    """Keep what refused records are rebuilt from."""
    count = batch.num_rows
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(int(Disposition.QUARANTINED), pa.int8()), count),
            failed,
            pa.nulls(count, pa.int64()),
            pa.nulls(count, pa.string()),
            batch.column("partition"),
            batch.column("offset"),
            batch.column("key"),
            batch.column("value"),
            batch.column("headers"),
            _milliseconds(batch.column("timestamp")),
            *[pa.nulls(count, pa.binary())] * 4,
        ],
        schema=RESULT,
    )


def _milliseconds(timestamps: pa.Array) -> pa.Array:
    """Count from 1970, down to the whole millisecond."""
    return pc.divide(pc.floor_temporal(timestamps, unit="millisecond").cast(pa.int64()), 1000)


def as_records(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Give rows of the columns of INPUT as rows of RECORDS."""
    kept = ("partition", "offset", "key", "value")
    headers, timestamps = batch.column("headers"), batch.column("timestamp")
    return pa.RecordBatch.from_arrays(
        [*(batch.column(name) for name in kept), _headers(headers), _milliseconds(timestamps)], schema=RECORDS
    )


def with_headers(results: pa.Table) -> pa.Table:
    """Give the headers of refused records as a list of struct<key, value>, as they came: a missing value is null."""
    index = results.schema.get_field_index("headers")
    return results.set_column(index, "headers", _headers(results.column("headers")))


def _headers(texts: pa.Array) -> pa.Array:
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), _HEADERS)
    lists = [
        None
        if text is None
        else [
            (each["key"], b64decode(each["value"]) if "value" in each else None) for each in json.loads(text)
        ]
        for text in texts.to_pylist()
    ]
    return pa.array(lists, _HEADERS)


_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

RECORDS: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", _HEADERS),
        ("timestamp_ms", pa.int64()),
    ]
)
"""Records as output records are made of them; `partition` and `offset` are those of the source."""
