"""Measure how much slower a stream is when every record is refused, through Spark, with records of 5 KB.

Three topics of the same records, from a real broker into an Iceberg table and the quarantine topic: all records keep the
contract, all break a rule, or all break the schema. The runs are interleaved, each with the job's own settings and with its
start (claim, fence, scan) included.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.figures import Figure, benchmark_parser, interleaved_seconds, report_figures
from benchmarks.kafka_throughput import FixedContract, Told
from benchmarks.spark_session import benchmark_session, benchmark_settings
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.gateway.embedded.broker import Broker, BrokerOptions
from tidegate.gateway.embedded.jars import ensure_jars
from tidegate.gateway.embedded.java import find_java
from tidegate.gateway.embedded.processes import RunDirectory
from tidegate.spark_jobs.job.stream import Job, StreamAttempt
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.steps import ignore_steps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spark_jobs.settings import JobSettings

RECORD_BYTES: Final = 5_000
PARTITIONS: Final = 4
UNKNOWN: Final = 999
_SEED: Final = 17
_NOTES: Final = 500
"""The number of different notes: a note for each record would need a gigabyte of Python strings."""

AMOUNTS: Final[dict[str, object]] = {"good": 1, "rule": UNKNOWN, "schema": "many"}
"""The amount of all records of a topic, by what the amount violates."""


def plan_of(contract_id: str, topic: str) -> EnforcementPlan:
    """Compile the contract that all topics have, under this id."""
    definition: dict[str, Any] = {
        "type": "object",
        "required": ["id", "amount", "note"],
        "properties": {
            "id": {"type": "string"},
            "amount": {"type": "integer"},
            "note": {"type": "string", "maxLength": 2 * RECORD_BYTES},
        },
        "additionalProperties": False,
    }
    document = {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": contract_id,
        "version": "1.0.0",
        "topic": topic,
        "schema": {"type": "json-schema", "definition": definition},
        "rules": [{"id": "amount-is-known", "kind": "forbidden", "field": "/amount", "values": [UNKNOWN]}],
    }
    return compile_plan(DataContract.model_validate(document))


class Runs:
    """Runs over whole topics; each run has its own contract id, and so its own ledger and table."""

    def __init__(self, spark: SparkSession, settings: JobSettings, records: int) -> None:
        self._spark = spark
        self._settings = settings
        self._records = records
        self._count = 0

    def enforce(self, kind: str) -> None:
        """Enforce a whole topic; assert that all of its records were refused, or none for "good"."""
        self._count += 1
        plan, told = plan_of(f"bench.refused{self._count}", topic_of(kind)), Told()
        job = Job(self._spark, self._settings, Topics(self._settings.kafka), told, ignore_steps)
        StreamAttempt(job, plan.contract.id, FixedContract(plan)).run(Event(), Event())
        assert (told.records, told.quarantined) == (self._records, 0 if kind == "good" else self._records)


def topic_of(kind: str) -> str:
    """Return the topic of one kind of records."""
    return f"bench.refused.{kind}"


def fill(bootstrap: str, records: int) -> None:
    """Create the topics and send the records."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(topic_of(kind), num_partitions=PARTITIONS, replication_factor=1) for kind in AMOUNTS]
    for future in client.create_topics(topics).values():
        future.result()
    maker = random.Random(_SEED)  # noqa: S311 - repeatable records
    notes = [maker.randbytes(RECORD_BYTES // 2 - 30).hex() for _ in range(_NOTES)]
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 20, "compression.type": "lz4", "acks": "all"}
    )
    for kind, amount in AMOUNTS.items():
        for number in range(records):
            value = json.dumps({"id": f"r{number}", "amount": amount, "note": notes[number % _NOTES]})
            while True:
                try:
                    producer.produce(topic_of(kind), value, str(number), number % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.1)
    if producer.flush(120):
        raise RuntimeError("the broker has not taken all records")


def measure(spark: SparkSession, settings: JobSettings, records: int, rounds: int) -> dict[str, float]:
    """Return records per second of each kind."""
    runs = Runs(spark, settings, records)
    cases: dict[str, Callable[[], object]] = {kind: partial(runs.enforce, kind) for kind in AMOUNTS}
    return {kind: records / taken for kind, taken in interleaved_seconds(cases, rounds).items()}


def main() -> None:
    """Start a broker, fill the topics, measure, write the figures."""
    parser = benchmark_parser(__doc__)
    parser.add_argument("--records", type=int)
    parser.add_argument("--rounds", type=int)
    arguments = parser.parse_args()
    records = arguments.records or (2_000 if arguments.smoke else 40_000)
    rounds = arguments.rounds or (1 if arguments.smoke else 3)
    folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-broker-"))
    try:
        run = RunDirectory(folder / "run", folder / "logs")
        with Broker(folder / "broker", run, ensure_jars(), find_java(), BrokerOptions()) as broker:
            fill(broker.bootstrap, records)
            settings = benchmark_settings(broker.bootstrap, available_now=True, spark_driver_memory="2g")
            spark = benchmark_session(settings)
            try:
                rates = measure(spark, settings, records, rounds)
            finally:
                spark.stop()
                shutil.rmtree(settings.warehouse.parent, ignore_errors=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    unit = "records/s"
    report_figures(
        [
            Figure.of("all_refused_by_a_rule_over_all_good", rates["rule"], unit, rates["good"]),
            Figure.of("all_refused_by_the_schema_over_all_good", rates["schema"], unit, rates["good"]),
        ],
        arguments.out,
    )


if __name__ == "__main__":
    main()
