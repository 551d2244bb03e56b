"""Merging of accepted rows into a Spark table: the row of a primary key is its newest record.

Event order decides which record is newest. Within a source partition it is the one with the higher offset, which is
Kafka's own order. Between partitions it is the one with the later timestamp, then with the higher partition.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import load_file_io
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from tidegate.contracts.columns.table_limits import TableLimits
from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.spark_jobs.sinks.evolution import BEGIN_AGAIN
from tidegate.spark_jobs.sinks.store import TableContents
from tidegate.spark_jobs.worker.part_writer import DELETED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PRIMARY_KEY_PROPERTY: Final = "tidegate.primary-key"
"""Property of a table with upserts: the primary key columns, as a JSON list."""

_NEWER: Final = """CASE WHEN s._source.partition = t._source.partition THEN s._source.offset > t._source.offset
  ELSE struct(s._source.timestamp, s._source.partition) > struct(t._source.timestamp, t._source.partition) END"""
_MERGE: Final = """
MERGE INTO {table} t USING {source} s ON {same_key}
WHEN MATCHED AND s.{deleted} AND t._source IS NOT NULL AND {newer} THEN DELETE
WHEN MATCHED AND t._source IS NOT NULL AND {newer} THEN UPDATE SET {assignments}
WHEN NOT MATCHED AND NOT s.{deleted} THEN INSERT ({columns}) VALUES ({values})"""


@dataclass(frozen=True, slots=True)
class Merging:
    """A merge on the primary key; `columns` are all columns of a row. A row without `_source` is never changed."""

    key: tuple[str, ...]
    columns: tuple[str, ...]

    def newest(self, rows: DataFrame) -> DataFrame:
        """Return the newest row of each key in one batch, tombstones included."""
        of_partition = F.expr("max_by(struct(*), _source.offset) AS newest")
        by_partition = rows.groupBy(*self.key, "_source.partition").agg(of_partition).select("newest.*")
        of_all = F.expr("max_by(struct(*), struct(_source.timestamp, _source.partition)) AS newest")
        return by_partition.groupBy(*self.key).agg(of_all).select("newest.*")

    def statement(self, table: str, source: str) -> str:
        """Return the MERGE statement for a source of newest rows; both names are SQL identifiers."""
        return _MERGE.format(
            table=table,
            source=source,
            same_key=" AND ".join(f"t.`{name}` = s.`{name}`" for name in self.key),
            newer=_NEWER,
            deleted=DELETED,
            assignments=", ".join(f"t.`{name}` = s.`{name}`" for name in self.columns),
            columns=", ".join(f"`{name}`" for name in self.columns),
            values=", ".join(f"s.`{name}`" for name in self.columns),
        )


def count_tombstones(files: Sequence[str], properties: dict[str, str]) -> int:
    """Return the number of tombstones in files to merge; `properties` are those of their file system."""
    found = 0
    for name in files:
        with load_file_io(properties, name).new_input(name).open() as file:
            marks = pq.read_table(file, columns=[DELETED]).column(DELETED)
        found += pc.sum(marks, min_count=0).as_py()
    return found


def merge_limits(plan: EnforcementPlan) -> TableLimits:
    """Return the limits that a table with upserts sets on its rows."""
    contract = plan.contract
    return TableLimits(key=contract.primary_key, deletes=contract.tombstones == "delete")


def require_mode(rows: TableContents, *, is_upsert: bool) -> None:
    """Raise StreamStopped, with what to do, unless the contract fits the write mode."""
    contract = rows.contract
    if is_upsert and not contract.primary_key:
        raise StreamStopped(
            f"contract {contract.id}@{contract.version} has no primary_key, which --write-mode upsert needs; add it"
        )
    if not is_upsert and contract.tombstones == "delete":
        raise StreamStopped(
            f"contract {contract.id}@{contract.version} lets tombstones delete, and --write-mode append deletes "
            "nothing; choose upsert, or tombstones pass or refuse"
        )


def require_key(table: str, found: str | None, key: tuple[str, ...], *, has_rows: bool) -> None:
    """Raise StreamStopped unless a table has the primary key `key`; `found` is its PRIMARY_KEY_PROPERTY, if set."""
    if found is None and has_rows:
        raise StreamStopped(
            f"{table} has rows that were appended, several of one key perhaps, and --write-mode upsert merges; go on with "
            f"append, or {BEGIN_AGAIN}"
        )
    if found is not None and json.loads(found) != [*key]:
        raise StreamStopped(
            f"{table}: its primary key is {json.loads(found)}, the contract's {[*key]}; {BEGIN_AGAIN}, or "
            f"merge the table's rows again and alter its property {PRIMARY_KEY_PROPERTY}"
        )


def require_appended(table: str, found: str | None) -> None:
    """Raise StreamStopped if a table is written with upserts; `found` is its PRIMARY_KEY_PROPERTY, if set."""
    if found is not None:
        raise StreamStopped(
            f"{table}: its rows have the primary key {json.loads(found)}, and --write-mode append would write several of one "
            f"key; choose upsert, or {BEGIN_AGAIN}"
        )
