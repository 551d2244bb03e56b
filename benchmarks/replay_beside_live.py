"""Measure how much a replay of refused records slows the stream down beside which it runs.

A job of its own process reads 1,000 records a second, with a real broker and a real registry. Many records were refused
before: each has an unknown age. Their replay with a fix is requested of the registry, and the job processes it between its
batches. The latency of a record is that of `operations`: with the replay and, in the same job, before it.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import httpx
from confluent_kafka import Producer

from benchmarks.admissions_data import REFUSED, values
from benchmarks.figures import Figure, benchmark_parser, report_figures
from benchmarks.operations import RATE, Feed, Job, Line, latencies, percentile, registry, wait_until
from tidegate.contracts.fix.load import parse_fix
from tidegate.contracts.stream.evidence import headers_of, read_provenance
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import ReplayOrder, digest_of_refusals, runs_of
from tidegate.gateway.embedded.broker import Broker, BrokerOptions
from tidegate.gateway.embedded.jars import ensure_jars
from tidegate.gateway.embedded.java import find_java
from tidegate.gateway.embedded.processes import RunDirectory
from tidegate.spark_jobs.kafka.outputs import read_committed
from tidegate.spark_jobs.kafka.topics import Topics

FIX: Final = """{"fix": "age", "steps": [{"action": "set", "field": "/age", "value": 40}]}"""
_AGE: Final = re.compile(rb'"age":[0-9]+')
_DIFFERENT: Final = 20_000


def fill(bootstrap: str, topic: str, records: int) -> None:
    """Produce records that violate only the rule of the age."""
    good = [each for index, each in enumerate(values(_DIFFERENT)) if index % REFUSED]
    refused = [_AGE.sub(b'"age":999', each) for each in good]
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "compression.type": "lz4"})
    for number in range(records):
        while True:
            try:
                producer.produce(topic, refused[number % len(refused)], partition=0)
                break
            except BufferError:
                producer.poll(0.1)
    assert not producer.flush(120)


def order_of(bootstrap: str, source: str, records: int) -> ReplayOrder:
    """Return a request to replay the first records of the source, which were all refused."""
    kafka, topic = KafkaConnection(bootstrap_servers=bootstrap), quarantine_topic(source)
    topics, found = Topics(kafka), Positions()
    for message in read_committed(kafka, topic, {}, topics.latest(topic)):
        provenance = read_provenance(headers_of(message))
        if provenance is not None and provenance.source.offset < records:
            found.add(message.partition() or 0, message.offset() or 0)
    assert len(found) == records
    identity, fix = topics.identity(topic), parse_fix(FIX, name="fix.json")
    assert identity is not None
    return ReplayOrder(
        topic=topic,
        topic_id=identity[0],
        positions=runs_of(found),
        records=records,
        digest=digest_of_refusals(topic, found),
        fix=fix.text,
        fingerprint=fix.fingerprint,
    )


def measure(line: Line, address: str, records: int, warm: float, measured: float) -> list[Figure]:
    """Return the figures of one job: before the replay, and during the replay."""
    order = order_of(line.bootstrap, line.topic, records)
    with line.feed() as feed, line.job() as job:
        wait_until(lambda: bool(job.published) and job.records > len(feed.sent) - RATE)
        time.sleep(warm)
        alone = _latencies_during(job, feed, lambda: time.sleep(measured))
        begun = time.monotonic()
        beside = _latencies_during(job, feed, lambda: _replay(line, address, order))
        taken = time.monotonic() - begun
    return [
        Figure.of("latency_median_beside_a_replay", percentile(beside, 50), "s", percentile(alone, 50)),
        Figure.of("latency_p99_beside_a_replay", percentile(beside, 99), "s", percentile(alone, 99)),
        Figure.of("replayed_beside_a_stream", records / taken, "records/s", RATE),
    ]


def _latencies_during(job: Job, feed: Feed, work: Callable[[], object]) -> list[float]:
    """Return the latencies of the records that are produced during `work`, in ascending order."""
    first = len(feed.sent)
    work()
    return sorted(latencies(job, feed, first, len(feed.sent)))


def _replay(line: Line, address: str, order: ReplayOrder) -> None:
    """Request the replay, and wait until it has written all of its records."""
    path = f"{address}/api/v1/streams/{line.stream}/replays"
    asked: dict[str, Any] = (
        httpx.post(path, json=order.model_dump(mode="json"), timeout=60).raise_for_status().json()
    )
    while (found := httpx.get(f"{path}/{asked['id']}", timeout=60).raise_for_status().json())[
        "state"
    ] == "open":
        time.sleep(0.5)
    assert (found["state"], found["report"]["written"]) == ("done", order.records), found


def main() -> None:
    """Start broker and registry, refuse records, measure, write the figures."""
    parser = benchmark_parser(__doc__)
    parser.add_argument("--records", type=int)
    arguments = parser.parse_args()
    records = arguments.records or (2_000 if arguments.smoke else 1_000_000)
    warm, measured = (1, 5) if arguments.smoke else (20, 60)
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-replay-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        run = RunDirectory(folder / "run", folder / "logs")
        broker = stack.enter_context(
            Broker(folder / "broker", run, ensure_jars(), find_java(), BrokerOptions())
        )
        address = stack.enter_context(registry(folder))
        line = Line(folder, broker.bootstrap, address)
        fill(broker.bootstrap, line.topic, records)
        with line.job() as job:
            wait_until(lambda: job.records == records, 900)
        report_figures(measure(line, address, records, warm, measured), arguments.out)


if __name__ == "__main__":
    main()
