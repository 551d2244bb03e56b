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

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import FileScanTask, Table
from pyspark.sql import SparkSession

from tidegate.contracts.errors import NotFoundError, StreamStopped, Unavailable
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.evidence import headers_of, read_provenance
from tidegate.contracts.stream.fates import Reconciliation, Retained, Written, reconcile
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.ledger import Ledger, Position
from tidegate.contracts.stream.output_topics import accepted_topic, quarantine_topic
from tidegate.contracts.stream.positions import Positions, Sightings
from tidegate.contracts.stream.replaced import find_replaced
from tidegate.spark_jobs.kafka.dropped import read_dropped
from tidegate.spark_jobs.kafka.kafka_ledger import ledger_name, read_ledger
from tidegate.spark_jobs.kafka.outputs import read_committed
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.reconcile.keys import KeptRows, KeyFields, RecordKeys, rows_of_spark, rows_of_values
from tidegate.spark_jobs.session import build_session
from tidegate.spark_jobs.settings import SinkSettings
from tidegate.spark_jobs.sinks.catalogs import open_table, outages
from tidegate.spark_jobs.sinks.delta_table import DeltaTable, table_location
from tidegate.spark_jobs.sinks.iceberg_table import LEDGER_PROPERTY, table_name
from tidegate.spark_jobs.sinks.merging import PRIMARY_KEY_PROPERTY
from tidegate.spark_jobs.sinks.postgresql_rows import connect, first_line
from tidegate.spark_jobs.sinks.postgresql_table import PRIMARY_KEY, qualified_name

_ROWS_AT_A_TIME = 50_000
_ROWS_IN_A_TURN = 2_000_000
_SOURCE_FIELDS = ("_source.topic", "_source.partition", "_source.offset")
_POSITIONS = sql.SQL(
    "SELECT {} FROM {} "
    # Rows that somebody else has written have another source, or none.
    "WHERE _source_topic = %s AND _source_partition IS NOT NULL AND _source_offset IS NOT NULL"
)


@dataclass(frozen=True, slots=True)
class Keys:
    """How the keys of records are read, and the rows as of the ledger's moment, which may have the keys that it is given."""

    plan: EnforcementPlan
    fields: KeyFields
    rows: Callable[[pa.Table], Iterable[pa.RecordBatch]]


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
    is_whole: bool = True
    """Whether nothing that was written can have been deleted by the retention of a topic."""
    keys: Keys | None = None
    """Reads the keys of a table that is upserted into, when they can be known."""


FindPlan = Callable[[], EnforcementPlan | None]
"""Finds the contract of a stream; asked only when its table is upserted into."""


def reconcile_stream(
    settings: SinkSettings, contract_id: str, find_plan: FindPlan = lambda: None
) -> Reconciliation:
    """Reconcile a stream, whatever its sink, running or not.

    Without a plan the records of a table that is upserted into cannot be proven to be replaced. Raises NotFoundError when no stream has claimed that sink, SettingsError for an Iceberg catalog that PyIceberg cannot
    open, StreamStopped when the topic was recreated, Unavailable.
    """
    with ExitStack() as open_files:
        return _reconcile(settings.kafka, _read_outputs(settings, contract_id, find_plan, open_files))


def _read_outputs(
    settings: SinkSettings, contract_id: str, find_plan: FindPlan, open_files: ExitStack
) -> Outputs:
    match settings.sink:
        case "iceberg":
            return _read_iceberg(settings, contract_id, find_plan)
        case "delta":
            return _read_delta(settings, contract_id, find_plan)
        case "kafka":
            return _read_kafka(settings.kafka, contract_id)
        case "postgresql":
            assert settings.postgresql_url is not None, "the settings have checked it"  # noqa: S101 - for mypy
            url = settings.postgresql_url.get_secret_value()
            return _read_postgresql(url, contract_id, find_plan, open_files)


def _keyed(find_plan: FindPlan, key: Sequence[str]) -> tuple[EnforcementPlan, KeyFields] | None:
    """Return the contract and its key, if it is the table's and can be compared."""
    plan = find_plan() if key else None
    fields = None if plan is None or {*plan.contract.primary_key} != {*key} else KeyFields.of(plan)
    return None if plan is None or fields is None else (plan, fields)


def _read_iceberg(settings: SinkSettings, contract_id: str, find_plan: FindPlan) -> Outputs:
    table = open_table(settings, contract_id)
    text = table.properties.get(LEDGER_PROPERTY)
    if text is None:
        raise _unclaimed(table_name(contract_id))
    ledger = Ledger.parse(text)
    written = Sightings()
    for batch in _scanned(table, _SOURCE_FIELDS, ledger.topic):
        source = batch.column("_source")
        written.add_arrays(pc.struct_field(source, "partition"), pc.struct_field(source, "offset"))
    keys = None
    if (keyed := _keyed(find_plan, json.loads(table.properties.get(PRIMARY_KEY_PROPERTY, "[]")))) is not None:
        plan, fields = keyed
        keys = Keys(plan, fields, lambda _: _iceberg_keys(table, fields, ledger.topic))
    return Outputs(ledger, written, keys=keys)


def _iceberg_keys(table: Table, key: KeyFields, topic: str) -> Iterator[pa.RecordBatch]:
    for batch in _scanned(table, (*key.names, *_SOURCE_FIELDS, "_source.timestamp"), topic):
        source = batch.column("_source")
        of_source = (pc.struct_field(source, name) for name in ("partition", "offset", "timestamp"))
        yield key.rows([batch.column(name) for name in key.names], *of_source)


def _scanned(table: Table, fields: tuple[str, ...], topic: str) -> Iterator[pa.RecordBatch]:
    """Read some columns of all rows that came from a topic."""
    scan = table.scan(selected_fields=fields)
    reader = ArrowScan(table.metadata, table.io, scan.projection(), AlwaysTrue())
    with outages():
        for files in _a_few(scan.plan_files()):
            for batch in reader.to_record_batches(files):
                yield batch.filter(pc.equal(pc.struct_field(batch.column("_source"), "topic"), topic))


def _a_few(files: Iterable[FileScanTask]) -> Iterator[list[FileScanTask]]:
    """Yield files in turns: PyIceberg begins with all that it is given, and keeps what it has read until it is taken."""
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


def _read_delta(settings: SinkSettings, contract_id: str, find_plan: FindPlan) -> Outputs:
    location = table_location(settings.warehouse, contract_id)
    if not Path(location.removeprefix("file://"), "_delta_log").is_dir():
        raise _unclaimed(location)
    # One that is not there already ends with the process.
    table = DeltaTable(SparkSession.getActiveSession() or build_session(settings), location)
    found = table.read_with_positions()
    if found.ledger is None:
        raise _unclaimed(location)
    keys = None
    if (keyed := _keyed(find_plan, found.primary_key)) is not None:
        plan, fields = keyed
        keys = Keys(plan, fields, lambda wanted: rows_of_spark(found.rows, fields, wanted))
    return Outputs(found.ledger, found.written, keys=keys)


def _read_kafka(kafka: KafkaConnection, contract_id: str) -> Outputs:
    name = ledger_name(contract_id)
    ledger = read_ledger(kafka, name)
    if ledger is None:
        raise _unclaimed(f"contract {contract_id} in Kafka")
    accepted = accepted_topic(ledger.topic)
    written = Sightings(output_positions(kafka, accepted, ledger))
    later = read_ledger(kafka, name)
    is_whole = not any(Topics(kafka).earliest(accepted).values())
    return Outputs(ledger, written, later, max(ledger.slots, later.slots if later else 1) > 1, is_whole)


def _read_postgresql(url: str, contract_id: str, find_plan: FindPlan, open_files: ExitStack) -> Outputs:
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
            key = [name for (name,) in connection.execute(PRIMARY_KEY, (rows.as_string(connection),))]
            keyed = _keyed(find_plan, key)
            written, kept = Sightings(), open_files.enter_context(KeptRows())
            columns = ["_source_partition", "_source_offset", "_source_timestamp"]
            names = [*columns, *(keyed[1].names if keyed else ())]
            ledger = Ledger.parse(found[0])
            # On the server: rows come as they are asked for.
            with connection.cursor(name="positions") as cursor:
                selected = sql.SQL(", ").join(map(sql.Identifier, names))
                cursor.execute(_POSITIONS.format(selected, rows), (ledger.topic,))
                while values := cursor.fetchmany(_ROWS_AT_A_TIME):
                    for partition, offset, *_ in values:
                        written.add(partition, offset)
                    if keyed is not None:  # the transaction is not held open until they are asked for
                        kept.add(rows_of_values(keyed[1], values))
            keys = None if keyed is None else Keys(*keyed, lambda _: kept.batches())
            return Outputs(ledger, written, keys=keys)
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
        raise _unclaimed(f"{schema}.{table}") from error
    except psycopg.Error as error:
        raise Unavailable(f"{schema}.{table}: {first_line(error)}") from error


def _unclaimed(name: str) -> NotFoundError:
    return NotFoundError(f"{name} has no ledger: no stream has claimed it; enforce the contract first")


def output_positions(kafka: KafkaConnection, topic: str, ledger: Ledger) -> Iterator[Position]:
    """Yield the source position of every committed record that `ledger` has in an output topic, repetitions included."""
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
            f"topic {ledger.topic} was deleted or created again since: its offsets say nothing about the ledger's"
        )
    source, written = Positions(), outputs.written
    keys = outputs.keys if ledger.totals.superseded or ledger.totals.deleted else None
    records = None if keys is None else RecordKeys(keys.plan, keys.fields)
    for message in read_committed(kafka, ledger.topic, ledger.begin, ledger.end):
        position = message.partition() or 0, message.offset() or 0
        source.add(*position)
        if records is not None and position not in written.seen:
            records.add(message)
    quarantined = Sightings(output_positions(kafka, quarantine, ledger))
    retained = Retained(
        source=topics.earliest(ledger.topic),
        is_source_compacted=topics.is_compacted(ledger.topic),
        is_quarantine_whole=not any(topics.earliest(quarantine).values()),
        is_written_ahead=outputs.is_ahead,
        is_written_whole=outputs.is_whole,
    )
    dropped = read_dropped(kafka, ledger)
    upserts = None
    if keys is not None and records is not None:
        found = records.table(quarantined.seen | dropped)
        upserts = find_replaced(found, keys.rows(found) if found.num_rows else ())
    return reconcile(ledger, source, Written(written, outputs.later, upserts, dropped), quarantined, retained)
