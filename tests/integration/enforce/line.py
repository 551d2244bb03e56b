"""A line to test: a topic of its own, a contract, the job in this process, and readers that share nothing with it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import Any

import psycopg
from confluent_kafka import Producer
from psycopg import sql
from psycopg.rows import dict_row
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from tests.jvm import SHORT_LIVED_JAVA
from tidegate.contracts.document.load import parse_contract
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.stream.evidence import headers_of, read_timestamp
from tidegate.contracts.stream.ledger import Ledger, Position, Vector
from tidegate.contracts.stream.output_topics import accepted_topic, quarantine_topic
from tidegate.contracts.stream.reconcile import Reconciliation
from tidegate.contracts.stream.replay import ReplayReport, ReplayRequest, ReplayState
from tidegate.contracts.stream.report import BatchReport
from tidegate.gateway.embedded.jars import Jars
from tidegate.spark_jobs.history.request import HistoryRequest
from tidegate.spark_jobs.job.batch_limits import BatchLimits
from tidegate.spark_jobs.job.control import AlwaysRunning
from tidegate.spark_jobs.job.record_source import ContractTopic, HistorySource
from tidegate.spark_jobs.job.stream import Job, StreamAttempt
from tidegate.spark_jobs.kafka.kafka_ledger import ledger_name, read_ledger
from tidegate.spark_jobs.kafka.outputs import read_committed
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.reconcile.compare import reconcile_stream
from tidegate.spark_jobs.settings import JobSettings
from tidegate.spark_jobs.sinks.delta.merge import ledger_of_version
from tidegate.spark_jobs.sinks.delta.table import DeltaTable, table_location
from tidegate.spark_jobs.sinks.iceberg.catalogs import open_table
from tidegate.spark_jobs.sinks.iceberg.table import LEDGER_PROPERTY
from tidegate.spark_jobs.sinks.postgresql.table import qualified_name
from tidegate.spark_jobs.steps import StepObserver, ignore_steps

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["id", "amount"],
    "properties": {
        "id": {"type": "string"},
        "amount": {"type": "integer"},
        "day": {"type": "string", "format": "date"},
    },
    "additionalProperties": False,
}
KNOWN: dict[str, Any] = {"id": "amount-is-known", "kind": "forbidden", "field": "/amount", "values": [999]}


class Contracts:
    """A contract source that gives what a test puts into it."""

    is_away = False

    def __init__(self, plan: EnforcementPlan) -> None:
        self.plan = plan

    def current(self) -> EnforcementPlan:
        return self.plan

    def require_published(self, judged_by: str | None) -> None:
        """Know every version."""


class Reports(list[BatchReport]):
    """A reporter that keeps what it is given."""

    def report(self, batch: BatchReport) -> None:
        self.append(batch)


class Requests:
    """The replay requests of a stream, and what was reported of them."""

    def __init__(self) -> None:
        self.open: list[ReplayRequest] = []
        self.told: list[ReplayReport] = []

    def current(self) -> ReplayRequest | None:
        return self.open[0] if self.open else None

    def report(self, report: ReplayReport) -> bool:
        self.told.append(report)
        if report.state is not ReplayState.OPEN:
            self.open = [each for each in self.open if each.id != report.request]
        return True


@dataclass(frozen=True)
class Sent:
    """A record to produce, or one that was read back."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = 1_600_000_000_000


def row(number: int, amount: int = 1, **more: object) -> Sent:
    """A record that keeps the contract, unless the amount is 999."""
    value = json.dumps({"id": f"r{number}", "amount": amount, **more}).encode()
    return Sent(value, key=str(number).encode(), partition=number % 2)


@dataclass
class Line:
    """One stream under test, with two source partitions."""

    spark: SparkSession
    settings: JobSettings
    topic: str
    contract_id: str
    contracts: Contracts = field(init=False)
    reports: Reports = field(default_factory=Reports)
    replays: Requests = field(default_factory=Requests)

    def __post_init__(self) -> None:
        self.contracts = Contracts(self.plan())

    def document(self, **changes: object) -> dict[str, object]:
        return {
            "apiVersion": "tidegate/v1",
            "kind": "DataContract",
            "id": self.contract_id,
            "version": "1.0.0",
            "topic": self.topic,
            "schema": {"type": "json-schema", "definition": SCHEMA},
            "rules": [KNOWN],
            **changes,
        }

    def plan(self, **changes: object) -> EnforcementPlan:
        document = json.dumps(self.document(**changes))
        return compile_plan(parse_contract(document, name="test.json", read_schema=None).contract)

    def produce(self, *records: Sent) -> None:
        settings = {"bootstrap.servers": self.settings.bootstrap_servers, "linger.ms": 5}
        producer = Producer({**settings, "message.max.bytes": 100_000_000})  # the topic's own limit decides
        for record in records:
            producer.produce(
                self.topic,
                record.value,
                record.key,
                record.partition,
                timestamp=record.timestamp_ms,
                headers=list(record.headers),
            )
        producer.flush()

    def attempt(
        self,
        observer: StepObserver = ignore_steps,
        limits: BatchLimits | None = None,
        history: HistoryRequest | None = None,
        **changes: object,
    ) -> StreamAttempt:
        settings = self.settings.model_copy(update=changes)
        job = Job(self.spark, settings, Topics(settings.kafka), self.reports, observer)
        control = AlwaysRunning(self.contract_id, self.replays)
        source = ContractTopic if history is None else partial(HistorySource, history)
        return StreamAttempt(
            job, self.contract_id, self.contracts, control, limits=limits, open_source=source
        )

    def enforce(
        self,
        observer: StepObserver = ignore_steps,
        history: HistoryRequest | None = None,
        **changes: object,
    ) -> None:
        """Process what is there, of the topic or of a history; raises what stops the stream."""
        self.attempt(observer, history=history, **changes).run(Event(), Event())

    def rows(self) -> list[dict[str, Any]]:
        """The table's rows by source position, as PyIceberg, psycopg or Delta's reader reads them."""
        if self.settings.sink == "postgresql":
            return self._rows_of_postgresql()
        if self.settings.sink == "delta":
            rows = self.spark.read.format("delta").load(self.delta().name)
            return rows.orderBy("_source.partition", "_source.offset").toArrow().to_pylist()
        found = open_table(self.settings, self.contract_id).scan().to_arrow().to_pylist()
        return sorted(found, key=lambda each: (each["_source"]["partition"], each["_source"]["offset"]))

    def states(self) -> list[tuple[int, Vector]]:
        """The number of rows and the end of the ledger at each version of an Iceberg or Delta table, oldest first."""
        found: list[tuple[int, Vector]] = []
        if self.settings.sink == "iceberg":
            now = open_table(self.settings, self.contract_id)
            for name in (*(each.metadata_file for each in now.metadata.metadata_log), now.metadata_location):
                version = StaticTable.from_metadata(name)
                text = version.properties.get(LEDGER_PROPERTY)
                end = Ledger.parse(text).end if text is not None else {}
                found.append((version.scan().to_arrow().num_rows, end))
            return found
        reader, name, end = self.spark.read.format("delta"), self.delta().name, {}
        for number in range(int(self.delta()._snapshot().version()) + 1):
            ledger = ledger_of_version(name, number)
            end = ledger.end if ledger is not None else end
            found.append((reader.option("versionAsOf", number).load(name).count(), end))
        return found

    def positions(self) -> list[Position]:
        """The source positions of the table's rows."""
        if self.settings.sink == "postgresql":
            return [(each["_source_partition"], each["_source_offset"]) for each in self.rows()]
        return [(each["_source"]["partition"], each["_source"]["offset"]) for each in self.rows()]

    def _rows_of_postgresql(self) -> list[dict[str, Any]]:
        table = sql.Identifier(*qualified_name(self.contract_id))
        query = sql.SQL("SELECT * FROM {} ORDER BY _source_partition, _source_offset").format(table)
        with self.database() as connection:
            return connection.cursor(row_factory=dict_row).execute(query).fetchall()

    def delta(self) -> DeltaTable:
        """Open the table of the Delta sink."""
        return DeltaTable(self.spark, table_location(self.settings.warehouse, self.contract_id))

    def database(self) -> psycopg.Connection[Any]:
        """Connect to the database of the PostgreSQL sink."""
        assert self.settings.postgresql_url is not None
        return psycopg.connect(self.settings.postgresql_url.get_secret_value())

    def accepted(self) -> list[Sent]:
        return self.read(accepted_topic(self.topic))

    def quarantined(self) -> list[Sent]:
        return self.read(quarantine_topic(self.topic))

    def read(self, topic: str) -> list[Sent]:
        """All committed records of a topic, by partition, with their own times."""
        kafka = self.settings.kafka
        found = [
            Sent(
                message.value(),  # type: ignore[arg-type] # bytes: nothing deserialises them
                message.key(),  # type: ignore[arg-type] # the same
                message.partition() or 0,
                tuple(headers_of(message)),
                own if (own := read_timestamp(headers_of(message))) is not None else message.timestamp()[1],
            )
            for message in read_committed(kafka, topic, {}, Topics(kafka).latest(topic))
        ]
        return sorted(found, key=lambda record: record.partition)

    def ledger(self) -> Ledger:
        if self.settings.sink == "kafka":
            found = read_ledger(self.settings.kafka, ledger_name(self.contract_id))
            assert found is not None
            return found
        if self.settings.sink == "postgresql":
            with self.database() as connection:
                query = "SELECT ledger FROM tidegate.ledger WHERE stream = %s"
                row = connection.execute(query, (self.contract_id,)).fetchone()
            assert row is not None
            return Ledger.parse(row[0])
        if self.settings.sink == "delta":
            ledger = self.delta().read()
            assert ledger is not None
            return ledger
        table = open_table(self.settings, self.contract_id)
        return Ledger.parse(table.properties[LEDGER_PROPERTY])

    def reconcile(self) -> Reconciliation:
        return reconcile_stream(self.settings, self.contract_id, self.contracts.current)


def environment(line: Line, jars: Jars, registry_url: str) -> dict[str, str]:
    """Settings of a job in a process of its own."""
    url = line.settings.postgresql_url
    return {
        "TIDEGATE_POSTGRESQL_URL": url.get_secret_value() if url else "",
        "TIDEGATE_WRITE_MODE": line.settings.write_mode,
        "TIDEGATE_MERGE_MODE": line.settings.merge_mode,
        "TIDEGATE_BOOTSTRAP_SERVERS": line.settings.bootstrap_servers,
        "TIDEGATE_REGISTRY_URL": registry_url,
        "TIDEGATE_WAREHOUSE": str(line.settings.warehouse),
        "TIDEGATE_CHECKPOINTS": str(line.settings.checkpoints),
        "TIDEGATE_SINK": line.settings.sink,
        "TIDEGATE_TRIGGER_SECONDS": "0.5",
        "TIDEGATE_WATCH_SECONDS": "0.5",
        "TIDEGATE_ACCEPTED_SLOTS": str(line.settings.accepted_slots),
        "TIDEGATE_SPARK_JARS": str(jars.spark_dir),
        "TIDEGATE_HEARTBEAT_SECONDS": str(line.settings.heartbeat_seconds),
        "TIDEGATE_LEASE_SECONDS": str(line.settings.lease_seconds),
        "TIDEGATE_SPARK_DRIVER_MEMORY": "1g",
        **SHORT_LIVED_JAVA,
    }
