"""The PostgreSQL sink as the job, `tidegate adopt` and a reconciliation open it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import sql

from tidegate.contracts.errors import Unavailable
from tidegate.contracts.stream.ledger import Ledger
from tidegate.contracts.stream.positions import Sightings
from tidegate.spark_jobs.progress import doing
from tidegate.spark_jobs.settings import JobSettings, SinkSettings
from tidegate.spark_jobs.sinks.kind import table_kind
from tidegate.spark_jobs.sinks.outputs import FindPlan, Outputs, keyed, unclaimed
from tidegate.spark_jobs.sinks.postgresql.rows import (
    POSITIONS,
    PRIMARY_KEY,
    ROWS_AT_A_TIME,
    connect,
    first_line,
)
from tidegate.spark_jobs.sinks.postgresql.table import PostgresqlTable, qualified_name
from tidegate.spark_jobs.sinks.record_keys import SnapshotRows, rows_of_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _open_store(_: Callable[[], SparkSession], settings: JobSettings, contract_id: str) -> PostgresqlTable:
    return PostgresqlTable(settings, contract_id)


def _read_outputs(
    settings: SinkSettings, contract_id: str, find_plan: FindPlan, open_files: ExitStack
) -> Outputs:
    schema, table = qualified_name(contract_id)
    rows = sql.Identifier(schema, table)
    try:
        with connect(settings.postgresql_address) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            # Lock before the snapshot is taken: after a rewrite of the table, an older snapshot would find no rows.
            # Source: PostgreSQL, "Caveats" of concurrency control.
            connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(rows))
            query = "SELECT ledger FROM tidegate.ledger WHERE stream = %s"
            found = connection.execute(query, (contract_id,)).fetchone()
            if found is None or found[0] is None:
                raise unclaimed(f"{schema}.{table}")
            key = [name for (name,) in connection.execute(PRIMARY_KEY, (rows.as_string(connection),))]
            written, kept = Sightings(), open_files.enter_context(SnapshotRows())
            # Rows are kept in a file, because the transaction must not stay open until they are compared.
            ledger = Ledger.parse(found[0])
            keys = keyed(find_plan, key, ledger, lambda *_: kept.batches())
            columns = ["_source_partition", "_source_offset", "_source_timestamp"]
            names = [*columns, *(keys.fields.names if keys else ())]
            # A server-side cursor streams the rows.
            doing("reading the rows of the table")
            with connection.cursor(name="positions") as cursor:
                selected = sql.SQL(", ").join(map(_readable, names))
                cursor.execute(POSITIONS.format(selected, rows), (ledger.topic,))
                while values := cursor.fetchmany(ROWS_AT_A_TIME):
                    for partition, offset, *_ in values:
                        written.add(partition, offset)
                    if keys is not None:
                        kept.add(rows_of_values(keys.fields, values))
            return Outputs(ledger, written, keys=keys)
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
        raise unclaimed(f"{schema}.{table}") from error
    except psycopg.Error as error:
        raise Unavailable(f"{schema}.{table}: {first_line(error)}") from error


def _readable(name: str) -> sql.Composable:
    """Return a column as psycopg can read it, which raises for a time after the year 9999."""
    column = sql.Identifier(name)
    return sql.SQL("least({}, '9999-12-31Z')").format(column) if name == "_source_timestamp" else column


KIND: Final = table_kind(_open_store, _read_outputs)
