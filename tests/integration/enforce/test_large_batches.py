"""Batches that hold more than one process may: refused records by the thousand, and large ones."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tests.integration.enforce.checker import require_exactly_once
from tests.integration.enforce.job import Publish, RunningJob
from tests.integration.enforce.line import Line, Sent, row
from tests.integration.enforce.registry import Registry
from tidegate.contracts.stream.evidence import headers_of, read_evidence
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.spark_jobs.kafka.outputs import read_committed
from tidegate.spark_jobs.kafka.topics import Topics

LARGE = "x" * 5_000
MIB = 1024 * 1024


@pytest.fixture
def small_results(spark: SparkSession) -> Iterator[None]:
    """Let Spark collect 12 MiB in one job. Each set of tasks reads the limit when it is made."""
    assert spark.sparkContext._jsc is not None
    conf = spark.sparkContext._jsc.sc().conf()
    before = conf.get("spark.driver.maxResultSize", "1g")
    conf.set("spark.driver.maxResultSize", "12m")
    yield
    conf.set("spark.driver.maxResultSize", before)


def large(number: int, amount: int) -> Sent:
    """A record of 5 KB."""
    return row(number, amount, id=f"r{number}-{LARGE}")


ELSEWHERE = "spark://elsewhere:7077"
"""A master that is not local: the job then takes no disk for shared. The session of the tests serves it all the same."""

SINKS = [
    pytest.param({}, id="iceberg"),
    pytest.param({"sink": "kafka"}, id="kafka", marks=pytest.mark.full),
    pytest.param({"sink": "kafka", "accepted_slots": 2}, id="kafka-tasks", marks=pytest.mark.full),
    pytest.param(
        {"spark_master": ELSEWHERE, "quarantine_slots": 2}, id="iceberg-cluster", marks=pytest.mark.full
    ),
    pytest.param({"sink": "kafka", "spark_master": ELSEWHERE}, id="kafka-cluster", marks=pytest.mark.full),
    pytest.param(
        {"sink": "kafka", "accepted_slots": 2, "spark_master": ELSEWHERE},
        id="kafka-tasks-cluster",
        marks=pytest.mark.full,
    ),
]


@pytest.mark.full
@pytest.mark.usefixtures("small_results")
@pytest.mark.parametrize("settings", SINKS)
def test_records_beyond_what_spark_collects(
    make_line: Callable[..., Line], settings: dict[str, object]
) -> None:
    """20 MB of refusals, 15 MB of others, and a job that may collect 12: they must come another way."""
    line = make_line(**settings)
    line.produce(*(large(n, 999 if n < 4_000 else 1) for n in range(7_000)))
    line.enforce()
    assert (line.ledger().n, len(line.quarantined())) == (1, 4_000)
    require_exactly_once(line)
    assert not list(line.settings.checkpoints.glob("*/*/spool/*/*"))


@pytest.mark.full
@pytest.mark.usefixtures("small_results")
@pytest.mark.parametrize("settings", SINKS)
def test_a_refused_batch_beyond_what_spark_collects(
    make_line: Callable[..., Line], settings: dict[str, object]
) -> None:
    """Its error budget is spent, so that all of it is quarantined, what keeps the contract too."""
    line = make_line(**settings)
    budget = {"ratio": 0.1, "min_records": 1, "action": "quarantine"}
    line.contracts.plan = line.plan(error_budget=budget)
    line.produce(*(large(n, 999 if n < 1_000 else 1) for n in range(4_000)))
    line.enforce()
    assert (line.ledger().n, len(line.quarantined())) == (1, 4_000)
    require_exactly_once(line)
    assert not list(line.settings.checkpoints.glob("*/*/spool/*/*"))


REFUSALS = 250_000


def produce_refusals(line: Line) -> None:
    """Produce the refusals of 5 KB and two good records, compressed: the source takes little disk."""
    settings = {"bootstrap.servers": line.settings.bootstrap_servers, "linger.ms": 20}
    producer = Producer({**settings, "compression.type": "lz4"})
    for number in range(REFUSALS + 2):
        record = large(number, 999) if number < REFUSALS else row(number)
        while True:
            try:
                producer.produce(line.topic, record.value, record.key, record.partition)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0


def quarantined_sources(line: Line) -> Iterator[tuple[int, int]]:
    """Yield the source positions in the quarantine topic; all records together would take gigabytes."""
    kafka, topic = line.settings.kafka, quarantine_topic(line.topic)
    for message in read_committed(kafka, topic, {}, Topics(kafka).latest(topic)):
        evidence = read_evidence(headers_of(message))
        assert evidence is not None
        assert len(message.value() or b"") > len(LARGE)
        yield evidence.source.partition, evidence.source.offset


@pytest.mark.full
@pytest.mark.parametrize("bytes_of_batch", [256 * MIB, 4096 * MIB], ids=["by-default", "in-one-batch"])
def test_a_stream_continues_past_250_000_refusals_of_5_kb(
    line: Line,
    registry: Registry,
    publish: Publish,
    start: Callable[..., RunningJob],
    bytes_of_batch: int,
) -> None:
    """1.25 GB of refusals: more than Spark collects by default, and than the Java of the job holds, which has 1 GB."""
    publish(line.document())
    produce_refusals(line)
    job = start(
        registry.url, [line], "--max-offsets", str(2 * REFUSALS), "--max-batch-bytes", str(bytes_of_batch)
    )
    job.await_event("batch_published", lag=0)
    assert job.stop(signal.SIGTERM) == 0
    assert not [each for each in job.events if each["event"] in {"batch_halved", "stream_restarting"}]
    totals = line.ledger().totals
    assert (totals.quarantined, totals.written) == (REFUSALS, 2)
    sources = list(quarantined_sources(line))
    assert len(sources) == len(set(sources)) == REFUSALS
    assert line.reconcile().holds
