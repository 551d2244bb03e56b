"""Moves of staged rows into a PostgreSQL table: append, or merge on its primary key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import psycopg
from psycopg import sql

from tidegate.contracts.errors import Unavailable
from tidegate.contracts.stream.ledger import BatchTotals
from tidegate.spark_jobs.sinks.postgresql.rows import Staged
from tidegate.spark_jobs.worker.part_writer import DELETED

Connection = psycopg.Connection[tuple[Any, ...]]


class Move(Protocol):
    """A function that moves rows within the transaction of `connection`; it returns the ledger's corrected totals."""

    def __call__(self, connection: Connection, staged: Sequence[Staged], totals: BatchTotals) -> BatchTotals:
        """Move the staged rows; `totals` counts all of them as written."""
        ...


@dataclass(frozen=True, slots=True)
class Append:
    """A move that appends: every accepted record is a separate row."""

    table: sql.Identifier
    columns: tuple[str, ...]

    def __call__(self, connection: Connection, staged: Sequence[Staged], totals: BatchTotals) -> BatchTotals:
        """Insert the staged rows; return `totals` unchanged."""
        columns = sql.SQL(", ").join(map(sql.Identifier, self.columns))
        insert = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {}")
        moved = sum(
            connection.execute(insert.format(self.table, columns, columns, each.identifier)).rowcount
            for each in staged
        )
        _require_all(staged, moved)
        return totals


class _Merged(NamedTuple):
    """Counts of a merge: staged rows and tombstones, and rows added to and deleted from the table."""

    rows: int
    tombstones: int
    added: int
    removed: int


_NEWER: Final = """CASE WHEN {a}._source_partition = {b}._source_partition THEN {a}._source_offset > {b}._source_offset
  ELSE ({a}._source_timestamp, {a}._source_partition) > ({b}._source_timestamp, {b}._source_partition) END"""
"""Event order: within a partition by offset, which is Kafka's own order; between partitions by timestamp."""

_MERGE: Final = """
WITH staged AS MATERIALIZED ({staged}),
newest AS MATERIALIZED (
  SELECT DISTINCT ON ({key}) * FROM (
    SELECT DISTINCT ON ({key}, _source_partition) * FROM staged ORDER BY {key}, _source_partition, _source_offset DESC
  ) AS newest_of_partition ORDER BY {key}, _source_timestamp DESC, _source_partition DESC
),
removed AS (
  DELETE FROM {table} AS t USING newest AS s WHERE s._deleted AND {same_key} AND {newer_than_row} RETURNING 1
),
merged AS (
  INSERT INTO {table} AS t ({columns}) SELECT {columns} FROM newest WHERE NOT _deleted
  ON CONFLICT ({key}) DO UPDATE SET {assignments} WHERE {newer_than_found} RETURNING xmax = 0 AS is_new
)
SELECT count(*) FILTER (WHERE NOT _deleted), count(*) FILTER (WHERE _deleted),
  (SELECT count(*) FROM merged WHERE is_new), (SELECT count(*) FROM removed) FROM staged"""


@dataclass(frozen=True, slots=True)
class Merge:
    """A move that merges: the newest record of a primary key, by event order, is its row; a tombstone deletes it."""

    table: sql.Identifier
    columns: tuple[str, ...]
    key: tuple[str, ...]

    def __call__(self, connection: Connection, staged: Sequence[Staged], totals: BatchTotals) -> BatchTotals:
        """Merge the staged rows. `totals` counts all of them as written; some are superseded or are tombstones."""
        row = connection.execute(self._statement(staged)).fetchone()
        assert row is not None, "an aggregate gives one row"  # noqa: S101 - narrows for the type checker
        merged = _Merged(*row)
        _require_all(staged, merged.rows + merged.tombstones)
        staged_records = merged.rows + merged.tombstones
        return totals.merged(staged_records, merged.tombstones, merged.added - merged.removed)

    @property
    def constraint(self) -> sql.Composed:
        """Return the statement that gives the table its primary key."""
        return sql.SQL("ALTER TABLE {} ADD PRIMARY KEY ({})").format(self.table, self._list(self.key))

    def _statement(self, staged: Sequence[Staged]) -> sql.Composed:
        names = [*self.columns, DELETED]
        selects = (sql.SQL("SELECT {} FROM {}").format(self._list(names), each.identifier) for each in staged)
        key = self._list(self.key)
        same = (sql.SQL("t.{0} = s.{0}").format(sql.Identifier(name)) for name in self.key)
        assignments = (sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in self.columns)
        return sql.SQL(_MERGE).format(
            staged=sql.SQL(" UNION ALL ").join(selects),
            table=self.table,
            key=key,
            columns=self._list(self.columns),
            same_key=sql.SQL(" AND ").join(same),
            newer_than_row=_newer("s"),
            newer_than_found=_newer("EXCLUDED"),
            assignments=sql.SQL(", ").join(assignments),
        )

    @staticmethod
    def _list(names: Sequence[str]) -> sql.Composed:
        return sql.SQL(", ").join(map(sql.Identifier, names))


def _require_all(staged: Sequence[Staged], found: int) -> None:
    """Raise Unavailable if staged rows are missing: a crash of the server empties unlogged tables."""
    wanted = sum(each.rows for each in staged)
    if found != wanted:
        raise Unavailable(
            f"{wanted} rows were staged and {found} are there: the server has crashed since; again"
        )


def _newer(row: str) -> sql.Composed:
    """Return the SQL condition that the row with this alias is newer than `t`."""
    return sql.SQL(_NEWER).format(a=sql.SQL("s" if row == "s" else "EXCLUDED"), b=sql.SQL("t"))
