"""Measure enforcement on the way: Kafka to Kafka and Kafka to Iceberg, enforced and untouched.

The same topic of 4 partitions, a real broker on the same cores, one Spark session, the same batch size. Untouched is
what a plain job does: copy key and value to another topic, or append them with their position to an Iceberg table.
Tuned is the same copy with the fetch settings of the job.
Maintained is enforcement with a round of table maintenance every second, which compacts from five small files on.
Enforced is the job's own stream, its start (claim, fence, scan) included: judge, refuse, write with the ledger. Judging
nothing is the same stream with a contract that takes all JSON: what is left then is the protocol and its provenance.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pyarrow as pa
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.admissions_data import contract, values
from benchmarks.figures import Figure, benchmark_parser, interleaved_seconds, report_figures
from benchmarks.spark_session import benchmark_session, benchmark_settings
from tidegate.contracts.document.model import DataContract, JsonSchema
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.stream.output_topics import accepted_topic, quarantine_topic
from tidegate.contracts.stream.report import BatchReport
from tidegate.gateway.embedded.broker import Broker, BrokerOptions
from tidegate.gateway.embedded.demo.feed import send
from tidegate.gateway.embedded.demo.stream import PARTITIONS, RECORDS, DemoStream
from tidegate.gateway.embedded.jars import ensure_jars
from tidegate.gateway.embedded.java import find_java
from tidegate.gateway.embedded.processes import RunDirectory
from tidegate.spark_jobs.job.source import FETCH_OPTIONS
from tidegate.spark_jobs.job.stream import Job, StreamAttempt
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.steps import ignore_steps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark_jobs.settings import JobSettings

TOPIC = "bench.admissions"
COPY = "bench.copy"
BATCH = 250_000


class Runs:
    """Runs of each case over the whole topic; every run has a separate output."""

    def __init__(self, spark: SparkSession, settings: JobSettings, records: int) -> None:
        self._spark = spark
        self._settings = settings
        self._records = records
        self._count = 0
        self._tables: list[str] = []

    def untouched_kafka(self) -> None:
        """Copy the topic with Spark's Kafka sink."""
        self._copy(self._source())

    def tuned_kafka(self) -> None:
        """Copy the topic with Spark's Kafka sink and the fetch settings of the job."""
        self._copy(self._source(FETCH_OPTIONS))

    def _copy(self, source: DataFrame) -> None:
        options = {
            "kafka.bootstrap.servers": self._settings.bootstrap_servers,
            "topic": COPY,
            "checkpointLocation": self._folder(),
        }
        query = source.select("key", "value").writeStream.format("kafka").options(**options)
        query.trigger(availableNow=True).start().awaitTermination()

    def untouched_iceberg(self) -> None:
        """Append the records as they are."""
        self._append(self._source())

    def tuned_iceberg(self) -> None:
        """Append the records as they are, with the fetch settings of the job."""
        self._append(self._source(FETCH_OPTIONS))

    def _append(self, source: DataFrame) -> None:
        folder = self._folder()
        table = f"lake.bench.untouched{self._count}"
        self._spark.sql("create namespace if not exists lake.bench")
        self._spark.sql(
            f"create table {table} (key binary, value binary, partition int, offset bigint, timestamp timestamp) "
            "using iceberg"
        )
        rows = source.select("key", "value", "partition", "offset", "timestamp")
        query = rows.writeStream.format("iceberg").option("checkpointLocation", folder)
        query.trigger(availableNow=True).toTable(table).awaitTermination()
        self._tables.append(table)

    def enforced_kafka(self) -> None:
        """Enforce into an accepted topic."""
        assert 0 < self._enforce("kafka", contract()) < self._records / 10

    def nothing_judged_kafka(self) -> None:
        """Run the same stream with a contract that accepts all JSON."""
        anything = JsonSchema.model_validate({"type": "json-schema", "definition": True})
        loose = {"schema_": anything, "rules": (), "columns": (), "primary_key": (), "classification": {}}
        refused = self._enforce("kafka", contract().model_copy(update=loose))
        assert refused < self._records / 100  # values that are not JSON

    def enforced_iceberg(self) -> None:
        """Enforce into a table."""
        assert 0 < self._enforce("iceberg", contract()) < self._records / 10

    def maintained_iceberg(self) -> None:
        """Enforce into a table that is maintained every second."""
        often = {"maintenance_seconds": 1.0, "compaction_min_files": 5}
        assert 0 < self._enforce("iceberg", contract(), often) < self._records / 10

    def assert_complete(self) -> None:
        """Assert that every untouched table has all records; it is not timed."""
        for table in self._tables:
            assert self._spark.table(table).count() == self._records

    def _enforce(self, sink: str, governing: DataContract, more: Mapping[str, object] = {}) -> int:
        """Enforce the whole topic; return the number of quarantined records."""
        self._count += 1
        settings = self._settings.model_copy(update={"sink": sink, "available_now": True, **more})
        # A new contract id has a new ledger, so the run starts at the first record.
        plan = compile_plan(governing.model_copy(update={"id": f"bench.run{self._count}", "topic": TOPIC}))
        told = Told()
        job = Job(self._spark, settings, Topics(settings.kafka), told, ignore_steps)
        StreamAttempt(job, plan.contract.id, FixedContract(plan)).run(Event(), Event())
        assert told.records == self._records
        return told.quarantined

    def _source(self, more: Mapping[str, str] = {}) -> DataFrame:
        options = {
            "kafka.bootstrap.servers": self._settings.bootstrap_servers,
            "subscribe": TOPIC,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(BATCH),
            "kafka.fetch.max.wait.ms": "50",
            **more,
        }
        return self._spark.readStream.format("kafka").options(**options).load()

    def _folder(self) -> str:
        self._count += 1
        return str(self._settings.checkpoints / f"untouched-{self._count}")


class FixedContract:
    """A source of contracts with one fixed plan."""

    def __init__(self, plan: EnforcementPlan) -> None:
        self._plan = plan

    def current(self) -> EnforcementPlan:
        """Return the plan."""
        return self._plan

    def require_published(self, judged_by: str | None) -> None:
        """Accept every version."""


class Told:
    """Totals of the batch reports."""

    def __init__(self) -> None:
        self.records = 0
        self.quarantined = 0

    def report(self, batch: BatchReport) -> None:
        """Add the counts of one batch."""
        self.records += batch.records
        self.quarantined += batch.quarantined


def main() -> None:
    """Start a broker, fill the topic, measure, write the figures."""
    arguments = benchmark_parser(__doc__).parse_args()
    records, rounds = (20_000, 1) if arguments.smoke else (4_000_000, 3)
    folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-broker-"))
    try:
        run = RunDirectory(folder / "run", folder / "logs")
        with Broker(folder / "broker", run, ensure_jars(), find_java(), BrokerOptions()) as broker:
            fill(broker.bootstrap, records)
            settings = benchmark_settings(broker.bootstrap, max_offsets=BATCH)
            spark = benchmark_session(settings)
            try:
                runs = Runs(spark, settings, records)
                seconds = interleaved_seconds(
                    {
                        "kafka": runs.untouched_kafka,
                        "kafka tuned": runs.tuned_kafka,
                        "kafka enforced": runs.enforced_kafka,
                        "nothing judged": runs.nothing_judged_kafka,
                        "iceberg": runs.untouched_iceberg,
                        "iceberg tuned": runs.tuned_iceberg,
                        "iceberg enforced": runs.enforced_iceberg,
                        "iceberg maintained": runs.maintained_iceberg,
                    },
                    rounds,
                    before=lambda: delete_outputs(broker.bootstrap),
                )
                runs.assert_complete()
            finally:
                spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rates = {name: records / taken for name, taken in seconds.items()}
    for name, rate in rates.items():
        print(f"  {name:16s} {rate:>12,.0f} records/s")
    report_figures(
        [
            Figure.of("kafka_to_kafka_over_untouched", rates["kafka enforced"], "records/s", rates["kafka"]),
            Figure.of(
                "kafka_to_kafka_over_tuned", rates["kafka enforced"], "records/s", rates["kafka tuned"]
            ),
            Figure.of(
                "kafka_to_kafka_over_judging_nothing",
                rates["kafka enforced"],
                "records/s",
                rates["nothing judged"],
            ),
            Figure.of(
                "kafka_to_iceberg_over_untouched", rates["iceberg enforced"], "records/s", rates["iceberg"]
            ),
            Figure.of(
                "kafka_to_iceberg_over_tuned", rates["iceberg enforced"], "records/s", rates["iceberg tuned"]
            ),
            Figure.of(
                "kafka_to_iceberg_maintained_over_untouched",
                rates["iceberg maintained"],
                "records/s",
                rates["iceberg"],
            ),
        ],
        arguments.out,
    )


def fill(bootstrap: str, records: int) -> None:
    """Create the topics and send the records."""
    topics = [NewTopic(name, num_partitions=PARTITIONS, replication_factor=1) for name in (TOPIC, COPY)]
    client = AdminClient({"bootstrap.servers": bootstrap})
    for future in client.create_topics(topics).values():
        future.result()
    payloads = values(records)
    keys = [str(index).encode() for index in range(records)]
    table = pa.table(
        {"key": pa.array(keys, pa.binary()), "value": pa.array(payloads, pa.binary())}, schema=RECORDS
    )
    send(DemoStream(name=TOPIC, records=table), bootstrap, Event())


def delete_outputs(bootstrap: str) -> None:
    """Delete the output topics of the last run.

    Each run is a new stream, and its start would look through the records of the earlier ones.
    """
    client = AdminClient({"bootstrap.servers": bootstrap})
    outputs = [accepted_topic(TOPIC), quarantine_topic(TOPIC)]
    there = [name for name in outputs if name in client.list_topics(timeout=10).topics]
    for future in client.delete_topics(there).values() if there else ():
        future.result()
    while any(name in client.list_topics(timeout=10).topics for name in there):
        time.sleep(0.1)


if __name__ == "__main__":
    main()
