"""Reconcile a stream: has every offset one fate? Reads with other tools than the job writes.

Topics are read with a plain read_committed consumer, tables with PyIceberg, SQL or Delta's own reader in Spark; nothing
of the job's memory. Exact while the stream runs, for what is read is read in this order:

1. The ledger, with the table's rows of the same moment: one metadata file of Iceberg, one version of Delta, one
   transaction of PostgreSQL. Kafka has no such moment: the ledger, then the accepted records, then the ledger again.
2. The topics, up to the ends that they have then: all that the ledger covers was committed before it. What is beyond
   the ledger is in flight.
3. What the topics still hold: what was deleted while it was read is past retention, and not missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pyarrow.compute as pc
from psycopg import sql
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import FileScanTask
from pyspark.sql import SparkSession

from contracts.errors import NotFoundError, StreamStopped, Unavailable
from contracts.evidence import headers_of, read_provenance
from contracts.fates import Reconciliation, Retained, reconcile
from contracts.kafka_connection import KafkaConnection
from contracts.ledger import Ledger, Position
from contracts.output_topics import accepted_topic, quarantine_topic
from contracts.positions import Positions, Sightings
from spark_jobs.catalogs import open_table, outages
from spark_jobs.kafka_ledger import ledger_name, read_ledger
from spark_jobs.outputs import read_committed
from spark_jobs.session import build_session
from spark_jobs.settings import SinkSettings
from spark_jobs.sinks.delta_table import DeltaTable, table_location
from spark_jobs.sinks.iceberg_table import LEDGER_PROPERTY, table_name
from spark_jobs.sinks.postgresql_rows import connect, first_line
from spark_jobs.sinks.postgresql_table import qualified_name
from spark_jobs.topics import Topics

_ROWS_AT_A_TIME = 50_000
_ROWS_IN_A_TURN = 2_000_000
_SOURCE_FIELDS = ("_source.partition", "_source.offset")
_POSITIONS = sql.SQL(
    "SELECT _source_partition, _source_offset FROM {} "
    # Rows that somebody else has written have no source.
    "WHERE _source_partition IS NOT NULL AND _source_offset IS NOT NULL"
)


@dataclass(frozen=True, slots=True)
class Outputs:
    """The ledger, and the source position of every row or record that was let in.

    Both are as of one moment, or else the positions are of a later one, and `later` is the ledger of a moment after that.
    """

    ledger: Ledger
    written: Sightings
    later: Ledger | None = None
    is_ahead: bool = False
    """Whether accepted records are written before the ledger moves: by the tasks of a batch in flight."""


def reconcile_stream(settings: SinkSettings, contract_id: str) -> Reconciliation:
    """Reconcile a stream, whatever its sink, running or not.

    Raises NotFoundError when no stream has claimed that sink, SettingsError for an Iceberg catalog that PyIceberg cannot
    open, StreamStopped when the topic was made anew, Unavailable.
    """
    return _reconcile(settings.kafka, _read_outputs(settings, contract_id))


def _read_outputs(settings: SinkSettings, contract_id: str) -> Outputs:
    match settings.sink:
        case "iceberg":
            return _read_iceberg(settings, contract_id)
        case "delta":
            return _read_delta(settings, contract_id)
        case "kafka":
            return _read_kafka(settings.kafka, contract_id)
        case "postgresql":
            assert settings.postgresql_url is not None, "the settings have checked it"  # noqa: S101 - for mypy
            return _read_postgresql(settings.postgresql_url.get_secret_value(), contract_id)


def _read_iceberg(settings: SinkSettings, contract_id: str) -> Outputs:
    table = open_table(settings, contract_id)
    text = table.properties.get(LEDGER_PROPERTY)
    if text is None:
        raise _unclaimed(table_name(contract_id))
    scan = table.scan(selected_fields=_SOURCE_FIELDS)
    reader = ArrowScan(table.metadata, table.io, scan.projection(), AlwaysTrue())
    written = Sightings()
    with outages():
        for files in _a_few(scan.plan_files()):
            for batch in reader.to_record_batches(files):
                source = batch.column(0)
                written.add_arrays(pc.struct_field(source, "partition"), pc.struct_field(source, "offset"))
    return Outputs(Ledger.parse(text), written)


def _a_few(files: Iterable[FileScanTask]) -> Iterator[list[FileScanTask]]:
    """Give files in turns: PyIceberg begins with all that it is given, and keeps what it has read until it is taken."""
    turn: list[FileScanTask] = []
    rows = 0
    for file in files:
        turn.append(file)
        rows += file.file.record_count
        if rows >= _ROWS_IN_A_TURN:
            yield turn
            turn, rows = [], 0
    if turn:
        yield turn


def _read_delta(settings: SinkSettings, contract_id: str) -> Outputs:
    location = table_location(settings.warehouse, contract_id)
    if not Path(location.removeprefix("file://"), "_delta_log").is_dir():
        raise _unclaimed(location)
    # One that is not there already ends with the process.
    table = DeltaTable(SparkSession.getActiveSession() or build_session(settings), location)
    ledger, written = table.read_with_positions()
    if ledger is None:
        raise _unclaimed(location)
    return Outputs(ledger, written)


def _read_kafka(kafka: KafkaConnection, contract_id: str) -> Outputs:
    name = ledger_name(contract_id)
    ledger = read_ledger(kafka, name)
    if ledger is None:
        raise _unclaimed(f"contract {contract_id} in Kafka")
    written = Sightings(output_positions(kafka, accepted_topic(ledger.topic), ledger))
    later = read_ledger(kafka, name)
    return Outputs(ledger, written, later, max(ledger.slots, later.slots if later else 1) > 1)


def _read_postgresql(url: str, contract_id: str) -> Outputs:
    schema, table = qualified_name(contract_id)
    rows = sql.Identifier(schema, table)
    try:
        with connect(url) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            # Before the moment that is read: to a table that is rewritten after it, such a transaction finds no row.
            # Source: PostgreSQL, "Caveats" of concurrency control.
            connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(rows))
            query = "SELECT ledger FROM tidegate.ledger WHERE stream = %s"
            found = connection.execute(query, (contract_id,)).fetchone()
            if found is None or found[0] is None:
                raise _unclaimed(f"{schema}.{table}")
            # On the server: rows come as they are asked for.
            with connection.cursor(name="positions") as cursor:
                cursor.itersize = _ROWS_AT_A_TIME
                cursor.execute(_POSITIONS.format(rows))
                return Outputs(Ledger.parse(found[0]), Sightings(cursor))
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
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


def _reconcile(kafka: KafkaConnection, outputs: Outputs) -> Reconciliation:
    ledger = outputs.ledger
    topics = Topics(kafka)
    quarantine = quarantine_topic(ledger.topic)
    identity = topics.identity(ledger.topic)
    if identity is None or identity[0] != ledger.topic_id:
        raise StreamStopped(
            f"topic {ledger.topic} was deleted or made anew since: its offsets say nothing about the ledger's"
        )
    source = Positions(
        (message.partition() or 0, message.offset() or 0)
        for message in read_committed(kafka, ledger.topic, ledger.begin, ledger.end)
    )
    quarantined = Sightings(output_positions(kafka, quarantine, ledger))
    retained = Retained(
        source=topics.earliest(ledger.topic),
        is_source_compacted=topics.is_compacted(ledger.topic),
        is_quarantine_whole=not any(topics.earliest(quarantine).values()),
        is_written_ahead=outputs.is_ahead,
    )
    return reconcile(ledger, source, outputs.written, quarantined, retained, outputs.later)
