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
from typing import Any, Final, Protocol, Self

import numpy as np
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
    ]
)
"""What a worker returns, rows of six kinds: counts (disposition, failed, records), written files (file), single
records (disposition, failed, partition, offset): every quarantined one with its bytes, and of the failed ones the first
of each source partition; for expectations what was noted, and rows as Great Expectations is to see them; and what another
version of the contract would have made of the records."""

RESULT_DDL: Final = (
    "disposition tinyint, failed binary, records bigint, file string, partition int, offset bigint, key binary, "
    "value binary, headers string, timestamp_ms bigint, noted binary, rows binary, shadow binary"
)

DELETED: Final = "_deleted"
"""Column of rows that wait to be merged: whether a row is a tombstone, which holds the primary key alone."""

_ROW_GROUP_ROWS: Final = 100_000


class OpenPart(AbstractContextManager["OpenPart"], Protocol):
    """What a task writes accepted rows to: invisible, and complete when it is left without an error."""

    written: list[str]
    """Names of what was written, once it is complete; none if there was nothing to write."""

    def write(self, columns: pa.StructArray, batch: pa.RecordBatch, is_written: pa.Array | None) -> None:
        """Write the typed columns of a batch with its positions; of the rows that `is_written` names, if not all."""
        ...


class RowTarget(Protocol):
    """Where and how the accepted rows of one batch are written; travels to the workers."""

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
        comparing = Comparing.of(plan, asked.shadow)
        with crashes_without_values(), target.open(_task_name()) as file:
            for batch in batches:
                headers = schema_headers(plan, batch.column("headers"))
                moments = Moments(records=batch.column("timestamp"))
                judged = plan.judge_typed(batch.column("value"), moments, headers, batch.column("key"))
                comparing.add(batch, judged)
                dispositions = asked.refuse(np.asarray(judged.field(0)), batch)
                failed = judged.field(1)
                others = np.flatnonzero(dispositions)
                counts[int(Disposition.ACCEPTED), None] += len(dispositions) - len(others)
                for index in others.tolist():
                    counts[int(dispositions[index]), failed[index].as_py()] += 1
                is_written = dispositions <= int(Disposition.ALERTED)
                some_written = None if is_written.all() else pa.array(is_written)
                file.write(judged.field(2), batch, some_written)
                for seen in noting.add(judged.field(2), some_written):
                    yield pa.RecordBatch.from_pylist([{"rows": seen}], RESULT)
                refused = np.flatnonzero(dispositions == int(Disposition.QUARANTINED))
                if len(refused):
                    yield _originals(batch.take(pa.array(refused)), failed.take(pa.array(refused)))
                for index in np.flatnonzero(dispositions == int(Disposition.FAILED)).tolist():
                    partition = batch.column("partition")[index].as_py()
                    place = {"partition": partition, "offset": batch.column("offset")[index].as_py()}
                    if partition not in first_failed or place["offset"] < first_failed[partition]["offset"]:
                        failure = {"disposition": int(Disposition.FAILED), "failed": failed[index].as_py()}
                        first_failed[partition] = place | failure
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

    def write(self, columns: pa.StructArray, batch: pa.RecordBatch, is_written: pa.Array | None) -> None:
        """Write the typed columns of a batch with its positions; of the rows that `is_written` names, if not all."""
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
    milliseconds = pc.floor_temporal(batch.column("timestamp"), unit="millisecond").cast(pa.int64())
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
            pc.divide(milliseconds, 1000),
            pa.nulls(count, pa.binary()),
            pa.nulls(count, pa.binary()),
            pa.nulls(count, pa.binary()),
        ],
        schema=RESULT,
    )


def with_headers(results: pa.Table) -> pa.Table:
    """Give the headers of refused records as a list of struct<key, value>, as they came: a missing value is null."""
    lists = [
        None
        if text is None
        else [
            (each["key"], b64decode(each["value"]) if "value" in each else None) for each in json.loads(text)
        ]
        for text in results.column("headers").to_pylist()
    ]
    index = results.schema.get_field_index("headers")
    return results.set_column(index, "headers", pa.array(lists, _HEADERS))


_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
