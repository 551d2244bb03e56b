"""Copying of accepted rows into PostgreSQL: each task copies its rows into its own staging table.

A task creates and fills its staging table in one transaction, so a failed task leaves nothing. COPY uses the text
format, which Arrow produces from whole columns. This takes less than half the time of the binary format, which needs
each value separately.
"""

from __future__ import annotations

import json
from base64 import b64encode
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, NamedTuple, Self

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from tidegate.spark_jobs.progress import doing
from tidegate.spark_jobs.worker.part_writer import DELETED

STAGING_SCHEMA: Final = "tidegate"
UNREACHABLE: Final = "unreachable:"
UNFIT: Final = "unfit:"
"""Prefixes of an error text that a task returns in place of the name of its part; the driver raises the error.

An exception in a worker would count as a bug and end the stream.
"""

PROVENANCE: Final = pa.schema(
    [
        ("_source_topic", pa.string()),
        ("_source_partition", pa.int32()),
        ("_source_offset", pa.int64()),
        ("_source_timestamp", pa.timestamp("us", "UTC")),
        ("_contract", pa.string()),
    ]
)
"""The columns after the typed columns of a row: its source, and the contract version that accepted it."""

ROWS_AT_A_TIME: Final = 50_000
_MOMENT: Final = pa.timestamp("us", "UTC")
_YEAR_9999: Final = pa.scalar(datetime(9999, 12, 31, tzinfo=UTC), _MOMENT)
POSITIONS: Final = sql.SQL(
    "SELECT {} FROM {} "
    # Rows of other writers have another source or null.
    "WHERE _source_topic = %s AND _source_partition IS NOT NULL AND _source_offset IS NOT NULL"
)
"""Selects columns of a table's rows of a topic."""
PRIMARY_KEY: Final = (
    "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) "
    "WHERE i.indrelid = to_regclass(%s) AND i.indisprimary"
)
"""Selects the primary key columns of a table."""

_ESCAPES: Final = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))
_EMPTY, _TAB, _END_OF_LINE = (pa.scalar(text, pa.large_string()) for text in ("", "\t", "\n"))
_OPTIONS: Final = (
    # A worker that is suspended within its transaction must not block others for long.
    "-c idle_in_transaction_session_timeout=60s -c lock_timeout=60s -c client_encoding=UTF8 -c timezone=UTC"
)
_ALIVE: Final[dict[str, Any]] = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
"""Seconds, and milliseconds. Without them, Linux notices after two hours that a server has lost its power."""


class Staged(NamedTuple):
    """A staging table and its number of rows. `str` returns `rows@table`, the name of the part.

    The rows are counted because the table is unlogged: it is empty after a crash of the server.
    """

    rows: int
    table: str

    def __str__(self) -> str:
        return f"{self.rows}@{self.table}"

    @classmethod
    def parse(cls, name: str) -> Self:
        """Parse the form that `str` returns."""
        rows, _, table = name.partition("@")
        return cls(int(rows), table)

    @property
    def identifier(self) -> sql.Identifier:
        """Return the table as an SQL identifier."""
        return sql.Identifier(STAGING_SCHEMA, self.table)


@dataclass(frozen=True, slots=True)
class CopyTarget:
    """The target for staging the accepted rows of one batch.

    `columns` are the typed columns. Staging tables are named `<name>-<task>`. `topic` and `contract` (`id@version`) fill
    columns of PROVENANCE.
    """

    url: str
    name: str
    columns: pa.Schema
    topic: str
    contract: str

    is_typed: ClassVar[bool] = True

    def open(self, task: str) -> CopiedRows:
        """Open a staging table for one attempt of one task."""
        return CopiedRows(self, f"{self.name}-{task}")


class CopiedRows:
    """One staging table. It is created with the first rows, and committed if the `with` block ends without an error.

    `written` is set at the end of the block. It has the name of the part or an error text (UNREACHABLE, UNFIT), and is
    empty if there were no rows.
    """

    def __init__(self, target: CopyTarget, name: str) -> None:
        self._target = target
        self._name = name
        self._resources = ExitStack()
        self._copy: psycopg.Copy | None = None
        self._failure: str | None = None
        self._count = 0
        self.written: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            # Commits; rolls back after an error.
            self._resources.__exit__(*error)  # type: ignore[arg-type] # what it was called with
        except psycopg.Error as raised:
            self._failure = self._failure or _failure(raised)
        if self._failure is not None:
            self.written.append(self._failure)
        elif self._copy is not None and error[0] is None:
            self.written.append(str(Staged(self._count, self._name)))

    def write(
        self,
        columns: pa.StructArray | None,
        batch: pa.RecordBatch,
        is_written: pa.Array | None,
        judged_by: pa.Array | None = None,
    ) -> list[bytes]:
        """Write the typed columns of a batch with its positions; with `is_written`, only the rows where it is true.

        Returns no pieces: the rows are in PostgreSQL. After an error of the server it ignores all rows.
        """
        if self._failure is not None:
            return []
        assert columns is not None, "the target is typed"  # noqa: S101 - a programming error
        rows = self._rows(columns, batch, judged_by)
        if is_written is not None:
            rows = rows.filter(is_written)
        if not rows.num_rows:
            return []
        try:
            self._copy = self._copy or self._start_copy(rows.schema)
            self._copy.write(copy_text(rows))
            self._count += rows.num_rows
        except psycopg.Error as error:
            self._failure = _failure(error)
        return []

    def _rows(
        self, columns: pa.StructArray, batch: pa.RecordBatch, judged_by: pa.Array | None
    ) -> pa.RecordBatch:
        count = batch.num_rows
        if judged_by is None:
            judged_by = pa.repeat(pa.scalar(self._target.contract), count)
        arrays = [
            *columns.flatten(),
            pa.repeat(pa.scalar(self._target.topic), count),
            batch.column("partition"),
            batch.column("offset"),
            batch.column("timestamp"),
            judged_by,
            pc.is_null(batch.column("value")),
        ]
        fields = [*self._target.columns, *PROVENANCE, pa.field(DELETED, pa.bool_())]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def _start_copy(self, schema: pa.Schema) -> psycopg.Copy:
        connection = self._resources.enter_context(connect(self._target.url))
        table = sql.Identifier(STAGING_SCHEMA, self._name)
        fields = sql.SQL(", ").join(definition(field) for field in schema)
        connection.execute(sql.SQL("CREATE UNLOGGED TABLE {} ({})").format(table, fields))
        cursor = self._resources.enter_context(connection.cursor())
        return self._resources.enter_context(cursor.copy(sql.SQL("COPY {} FROM STDIN").format(table)))


def connect(url: str) -> psycopg.Connection[tuple[Any, ...]]:
    """Connect for one transaction; the end of the `with` block commits. Connections are not reused for batches.

    A server that is gone is noticed after a minute, unless the URL sets parameters of TCP.
    """
    given = conninfo_to_dict(url)
    alive = {name: value for name, value in _ALIVE.items() if name not in given}
    return psycopg.connect(url, options=_OPTIONS, connect_timeout=15, application_name="tidegate", **alive)


def copy_text(rows: pa.RecordBatch) -> memoryview:
    """Return rows in the text format of COPY, as UTF-8. Source: PostgreSQL, COPY, "Text Format"."""
    texts = [_text(column) for column in rows.columns]
    lines = pc.binary_join_element_wise(*texts, _TAB, null_handling="replace", null_replacement="\\N")
    ended = pc.binary_join_element_wise(lines, _EMPTY, _END_OF_LINE)
    # The values of a string array are contiguous in its data buffer, so the whole text needs no copy.
    _, offsets, data = ended.buffers()
    bounds = np.frombuffer(offsets, np.int64)[ended.offset : ended.offset + len(ended) + 1]
    return memoryview(data)[bounds[0] : bounds[-1]]


def _text(column: pa.Array) -> pa.Array:
    if pa.types.is_binary(column.type):
        texts = [None if each is None else f"\\\\x{each.hex()}" for each in column.to_pylist()]
        return pa.array(texts, pa.large_string())
    if pa.types.is_list(column.type):
        column = pa.array([None if each is None else _json(each) for each in column.to_pylist()], pa.string())
    if column.type == _MOMENT and pc.any(pc.greater(column, _YEAR_9999)).as_py():
        # Arrow's text of a year of five digits may be another year.
        micros = column.cast(pa.int64()).to_pylist()
        texts = [None if each is None else f"{np.datetime64(each, 'us')}+00" for each in micros]
        return pa.array(texts, pa.large_string())
    text = column.cast(pa.large_string())  # 64-bit offsets: a batch of rows may be longer than 2 GiB
    if pa.types.is_string(column.type):
        for plain, escaped in _ESCAPES:
            text = pc.replace_substring(text, plain, escaped)
    return text


def _json(value: Any) -> str:
    """Return a value of a list column as JSON: bytes as base64, and U+FFFD for NUL, which jsonb rejects."""
    return json.dumps(_plain(value))


def _plain(value: Any) -> Any:
    match value:
        case bytes():
            return b64encode(value).decode()
        case str():
            return value.replace("\0", "\ufffd")
        case list():
            return [_plain(each) for each in value]
        case dict():
            return {name: _plain(each) for name, each in value.items()}
    return value


def sql_type(arrow_type: pa.DataType) -> str:
    """Return the PostgreSQL type of an Arrow type, spelled as the server reports it. Raises KeyError for another type."""
    if pa.types.is_decimal(arrow_type):
        return f"numeric({arrow_type.precision},{arrow_type.scale})"
    return "jsonb" if pa.types.is_list(arrow_type) else _SQL_TYPES[arrow_type]


_SQL_TYPES: Final = {
    pa.bool_(): "boolean",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.binary(): "bytea",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp with time zone",
    pa.timestamp("us"): "timestamp without time zone",
}


def definition(field: pa.Field) -> sql.Composable:
    """Return the definition of a column, for CREATE TABLE."""
    # The types come from our own code, not from a user.
    return sql.SQL("{} " + sql_type(field.type)).format(sql.Identifier(field.name))


def records_present(
    connection: psycopg.Connection[tuple[Any, ...]], table: sql.Identifier, keys: pa.Table
) -> int:
    """Return the number of records whose primary key is in the table; `keys` as in `LedgerStore.records_present`."""
    doing("looking for the primary keys in the table")
    own = [sql.Identifier(f"k{number}") for number in range(keys.num_columns - 1)]
    same = [
        sql.SQL("t.{} = {}").format(sql.Identifier(name), each)
        for name, each in zip(keys.column_names, own, strict=False)
    ]
    query = sql.SQL(
        "SELECT coalesce(sum(records), 0) FROM unnest({}) AS k({}, records) WHERE EXISTS (SELECT FROM {} t WHERE {})"
    ).format(
        sql.SQL(", ").join(sql.SQL("%s::" + sql_type(each.type) + "[]") for each in keys.schema),
        sql.SQL(", ").join(own),
        table,
        sql.SQL(" AND ").join(same),
    )
    found = connection.execute(query, [column.to_pylist() for column in keys.columns]).fetchone()
    return int(found[0]) if found else 0


def _failure(error: psycopg.Error) -> str:
    kind = UNREACHABLE if isinstance(error, (psycopg.OperationalError, psycopg.InternalError)) else UNFIT
    return kind + first_line(error)


def first_line(error: psycopg.Error) -> str:
    """Return the server's primary message, without its detail, which may quote values."""
    return error.diag.message_primary or str(error).partition("\n")[0]
