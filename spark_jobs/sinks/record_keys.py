"""Primary keys of source records that are in no output, and of the rows of a table with upserts.

A record's key is computed by the job's own judging code. So it equals the row's key for any payload format and masks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message

from tidegate.contracts.formats.framing import schema_header
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.rules.clock import Moments
from tidegate.contracts.stream.evidence import headers_of
from tidegate.contracts.stream.key_marks import key_digests
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.reconcile import RECORDS, can_compare, key_bytes
from tidegate.spark_jobs.sinks.merging import merge_limits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_AT_A_TIME = 10_000
_LARGEST_BYTES = 16 << 20
_IN_MEMORY_BYTES = 32 << 20
_DDL = "key binary, partition int, offset bigint, timestamp_ms bigint, deletes boolean"


@dataclass(frozen=True, slots=True)
class KeyFields:
    """The columns of a primary key with the types of the plan: `fields` in the order of the key.

    With `is_digested`, keys are compared by their digests, as marks store them.
    """

    fields: tuple[pa.Field, ...]
    is_digested: bool = False

    @classmethod
    def of(cls, plan: EnforcementPlan) -> KeyFields | None:
        """Return the key fields of a contract; None if it has no primary key, or its keys cannot be compared."""
        fields = tuple(plan.columns.field(name) for name in plan.contract.primary_key)
        return cls(fields) if fields and can_compare(fields) else None

    def keys(self, columns: list[pa.Array]) -> pa.Array:
        """Return the keys of rows as one binary array; null where any column is null."""
        return key_digests(columns) if self.is_digested else key_bytes(columns)

    @property
    def names(self) -> list[str]:
        """Return the names of the key columns."""
        return [field.name for field in self.fields]

    def rows(
        self, columns: list[pa.Array], partition: pa.Array, offset: pa.Array, timestamp: pa.Array
    ) -> pa.RecordBatch:
        """Return a table's rows as RECORDS; `columns` are the key columns, `timestamp` may have any unit."""
        typed = [each.cast(field.type) for each, field in zip(columns, self.fields, strict=True)]
        milliseconds = timestamp.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("ms", "UTC"), safe=False)
        arrays = [
            self.keys(typed),
            partition.cast(pa.int32()),
            offset.cast(pa.int64()),
            milliseconds.cast(pa.int64()),
            pa.repeat(pa.scalar(value=False), len(offset)),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=RECORDS)


class RecordKeys:
    """Keys of source records. The records are judged in groups of some thousands."""

    def __init__(self, plan: EnforcementPlan, key: KeyFields) -> None:
        self._plan = plan.for_table(merge_limits(plan))
        self._key = key
        self._waiting: list[Message] = []
        self._bytes = 0
        self._found: list[pa.RecordBatch] = []

    def add(self, message: Message) -> None:
        """Add a record; judge the collected group when it is large enough."""
        self._waiting.append(message)
        self._bytes += len(message)
        if len(self._waiting) >= _AT_A_TIME or self._bytes > _LARGEST_BYTES:
            self._judge()

    def table(self, refused: Positions) -> pa.Table:
        """Return the added records as RECORDS, without those at the positions `refused`, which have no rows."""
        self._judge()
        found = pa.Table.from_batches(self._found, RECORDS)
        positions = zip(
            found.column("partition").to_pylist(), found.column("offset").to_pylist(), strict=True
        )
        return found.filter(pa.array([each not in refused for each in positions], pa.bool_()))

    def _judge(self) -> None:
        if not self._waiting:
            return
        messages, self._waiting, self._bytes = self._waiting, [], 0
        values = pa.array([each.value() for each in messages], pa.large_binary())
        times = pa.array([each.timestamp()[1] for each in messages], pa.int64())
        headers = None
        if self._plan.reads_headers:
            found = [schema_header(headers_of(each)) for each in messages]
            headers = pa.array(found, pa.binary())
        moments = Moments(records=times.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC")))
        keys = pa.array([each.key() for each in messages], pa.binary())
        columns = self._plan.judge_typed(values, moments, headers, keys).field(2)
        of_key = [pc.struct_field(columns, name) for name in self._key.names]
        arrays = [
            self._key.keys(of_key),
            pa.array([each.partition() for each in messages], pa.int32()),
            pa.array([each.offset() for each in messages], pa.int64()),
            times,
            values.is_null(),
        ]
        self._found.append(pa.RecordBatch.from_arrays(arrays, schema=RECORDS))


class SnapshotRows:
    """Rows in a temporary file: read from one snapshot of a table, and compared later."""

    def __init__(self) -> None:
        self._file: IO[bytes] = SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115 - closed by `__exit__`
        self._writer = pa.ipc.new_stream(self._file, RECORDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows of RECORDS."""
        self._writer.write_batch(rows)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows. Call it once, after all rows were added."""
        self._writer.close()
        self._file.seek(0)
        yield from pa.ipc.open_stream(self._file)


def rows_of_spark(rows: DataFrame, key: KeyFields, wanted: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a data frame whose key is in `wanted`, as RECORDS; only these are sent to the driver."""
    columns = [f"`{name}`" for name in key.names]
    source = ["_source.partition", "_source.offset", "_source.timestamp"]

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            *of_key, partition, offset, timestamp = batch.columns
            yield key.rows(of_key, partition, offset, timestamp)

    found = rows.where("_source IS NOT NULL").selectExpr(*columns, *source).mapInArrow(work, _DDL)
    unique = pa.table({"key": pc.unique(wanted.column("key").drop_null())})
    keys = rows.sparkSession.createDataFrame(unique)
    yield from found.join(keys, "key", "left_semi").toArrow().select(RECORDS.names).cast(RECORDS).to_batches()


def rows_of_values(key: KeyFields, values: list[tuple[Any, ...]]) -> pa.RecordBatch:
    """Return RECORDS for database rows of partition, offset, timestamp, and then the key columns."""
    partition, offset, timestamp, *of_key = zip(*values, strict=True)
    return key.rows(
        [pa.array(column, field.type) for column, field in zip(of_key, key.fields, strict=True)],
        pa.array(partition, pa.int32()),
        pa.array(offset, pa.int64()),
        pa.array(timestamp, pa.timestamp("us", "UTC")),
    )
