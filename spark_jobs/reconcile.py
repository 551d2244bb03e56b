"""Reconcile a stream: has every offset one fate? Reads with other tools than the job writes.

Topics are read with a plain read_committed consumer, tables with PyIceberg, SQL or Delta's own reader in Spark; nothing
of the job's memory. To be run while the stream is stopped, or its records in flight show as differences.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from contracts.errors import NotFoundError, Unavailable
from contracts.evidence import headers_of, read_provenance
from contracts.kafka_connection import KafkaConnection
from contracts.ledger import Ledger, Position, Reconciliation, Retained, reconcile
from contracts.output_topics import accepted_topic, quarantine_topic
from spark_jobs.outputs import read_committed
from spark_jobs.session import build_session
from spark_jobs.settings import SinkSettings
from spark_jobs.sinks.delta_table import DeltaTable, table_location
from spark_jobs.sinks.iceberg_table import LEDGER_PROPERTY, table_name
from spark_jobs.sinks.kafka import ledger_name, read_ledger
from spark_jobs.sinks.postgresql_rows import connect, first_line
from spark_jobs.sinks.postgresql_table import qualified_name
from spark_jobs.topics import Topics

_ROWS_AT_A_TIME = 50_000

Outputs = tuple[Ledger, Iterator[Position]]
"""The ledger, and the source position of every row or record that was let in; both as of one moment."""


def reconcile_stream(settings: SinkSettings, contract_id: str) -> Reconciliation:
    """Reconcile a stream, whatever its sink. Raises NotFoundError when no stream has claimed that sink."""
    with _outputs(settings, contract_id) as (ledger, written):
        return _reconcile(settings.kafka, ledger, written)


@contextmanager
def _outputs(settings: SinkSettings, contract_id: str) -> Iterator[Outputs]:
    match settings.sink:
        case "iceberg":
            yield _read_iceberg(settings.warehouse, contract_id)
        case "delta":
            yield _read_delta(settings, contract_id)
        case "kafka":
            yield _read_kafka(settings.kafka, contract_id)
        case "postgresql":
            assert settings.postgresql_url is not None, "the settings have checked it"  # noqa: S101 - for mypy
            with _read_postgresql(settings.postgresql_url.get_secret_value(), contract_id) as outputs:
                yield outputs


def open_table(warehouse: Path, contract_id: str) -> Table:
    """Open a contract's table in the embedded catalog. Raises NotFoundError when there is none yet."""
    root = warehouse.absolute()
    catalog = SqlCatalog("lake", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}")
    identifier = tuple(table_name(contract_id).split(".")[1:])
    if not catalog.table_exists(identifier):
        raise NotFoundError(
            f"{table_name(contract_id)} does not exist in {warehouse}; enforce the contract first"
        )
    return catalog.load_table(identifier)


def _read_iceberg(warehouse: Path, contract_id: str) -> Outputs:
    table = open_table(warehouse, contract_id)
    text = table.properties.get(LEDGER_PROPERTY)
    if text is None:
        raise _unclaimed(table_name(contract_id))
    written = table.scan(selected_fields=("_source",)).to_arrow().column("_source").combine_chunks()
    positions = zip(written.field("partition").to_pylist(), written.field("offset").to_pylist(), strict=True)
    return Ledger.parse(text), positions


def _read_delta(settings: SinkSettings, contract_id: str) -> Outputs:
    location = table_location(settings.warehouse, contract_id)
    if not Path(location.removeprefix("file://"), "_delta_log").is_dir():
        raise _unclaimed(location)
    # One that is not there already ends with the process.
    table = DeltaTable(SparkSession.getActiveSession() or build_session(settings), location)
    ledger = table.read()
    if ledger is None:
        raise _unclaimed(location)
    return ledger, table.positions()


def _read_kafka(kafka: KafkaConnection, contract_id: str) -> Outputs:
    ledger = read_ledger(kafka, ledger_name(contract_id))
    if ledger is None:
        raise _unclaimed(f"contract {contract_id} in Kafka")
    return ledger, output_positions(kafka, accepted_topic(ledger.topic), ledger)


@contextmanager
def _read_postgresql(url: str, contract_id: str) -> Iterator[Outputs]:
    schema, table = qualified_name(contract_id)
    try:
        with connect(url) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            query = "SELECT ledger FROM tidegate.ledger WHERE stream = %s"
            found = connection.execute(query, (contract_id,)).fetchone()
            if found is None or found[0] is None:
                raise _unclaimed(f"{schema}.{table}")
            ledger = Ledger.parse(found[0])
            with connection.cursor(
                name="positions"
            ) as cursor:  # on the server: rows come as they are asked for
                cursor.itersize = _ROWS_AT_A_TIME
                cursor.execute(
                    sql.SQL("SELECT _source_partition, _source_offset FROM {}").format(
                        sql.Identifier(schema, table)
                    )
                )
                yield ledger, iter(cursor)
    except psycopg.errors.UndefinedTable as error:
        raise _unclaimed(f"{schema}.{table}") from error
    except psycopg.Error as error:
        raise Unavailable(f"{schema}.{table}: {first_line(error)}") from error


def _unclaimed(name: str) -> NotFoundError:
    return NotFoundError(f"{name} has no ledger: no stream has claimed it; enforce the contract first")


def output_positions(kafka: KafkaConnection, topic: str, ledger: Ledger) -> Iterator[Position]:
    """Give the source position of every committed record that `ledger` has in an output topic, repetitions included."""
    topics = Topics(kafka)
    for message in read_committed(kafka, topic, topics.earliest(topic), topics.latest(topic)):
        provenance = read_provenance(headers_of(message))
        if (
            provenance is not None
            and provenance.ledger == ledger.name
            and provenance.source.topic == ledger.topic
        ):
            yield provenance.source.partition, provenance.source.offset


def _reconcile(kafka: KafkaConnection, ledger: Ledger, written: Iterator[Position]) -> Reconciliation:
    topics = Topics(kafka)
    quarantine = quarantine_topic(ledger.topic)
    retained = Retained(
        source=topics.earliest(ledger.topic),
        is_quarantine_whole=not any(topics.earliest(quarantine).values()),
    )
    source = (
        (message.partition() or 0, message.offset() or 0)
        for message in read_committed(kafka, ledger.topic, ledger.begin, ledger.end)
    )
    quarantined = output_positions(kafka, quarantine, ledger)
    return reconcile(ledger, source, written, quarantined, retained)
