"""Measure what the exactly-once protocol adds to a batch: the same records judged and written, with it and plainly.

Both read the same records of a real broker, judge them in the same pass and write the same files. The protocol then
commits refused records in a fenced transaction, stages the files, and moves table and ledger by compare-and-set. Plainly,
refused records are produced and flushed, and the files appended in one commit: a crash in between loses or doubles.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import Producer

from benchmarks.admissions_data import contract
from benchmarks.figures import Figure, benchmark_parser, interleaved_seconds, report_figures
from benchmarks.kafka_throughput import TOPIC, fill
from benchmarks.spark_session import benchmark_session, benchmark_settings
from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.stream.counts import RuleKey
from tidegate.contracts.stream.decide import decide
from tidegate.contracts.stream.ledger import Ledger, Vector
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.gateway.embedded.broker import Broker, BrokerOptions
from tidegate.gateway.embedded.demo.stream import PARTITIONS
from tidegate.gateway.embedded.jars import ensure_jars
from tidegate.gateway.embedded.java import find_java
from tidegate.gateway.embedded.processes import RunDirectory
from tidegate.spark_jobs.kafka.dropped import DroppedTopic
from tidegate.spark_jobs.kafka.marks import MarksTopic
from tidegate.spark_jobs.kafka.replayed import ReplayedTopic
from tidegate.spark_jobs.kafka.topics import TopicDescription, Topics
from tidegate.spark_jobs.sinks.iceberg.table import IcebergTable, table_name
from tidegate.spark_jobs.sinks.sink import JudgedBatch, MicroBatch, StreamStart
from tidegate.spark_jobs.sinks.staged import StagedSink, TableParts
from tidegate.spark_jobs.steps import Stopwatch, ignore_steps
from tidegate.spark_jobs.worker.records import Destination, refused_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spark_jobs.settings import JobSettings

LARGE: Final = 100_000
SMALL: Final = 1_000


class Stream:
    """One stream with its own table, which processes the same first records of the topic in every batch."""

    def __init__(self, spark: SparkSession, settings: JobSettings, name: str) -> None:
        self._spark = spark
        self._settings = settings
        self._topics = Topics(settings.kafka)
        self._source = self._describe(TOPIC)
        self._topics.ensure_quarantine(quarantine_topic(TOPIC), self._source, None)
        self._quarantine = self._describe(quarantine_topic(TOPIC))
        self._plan = compile_plan(contract().model_copy(update={"id": f"bench.{name}", "topic": TOPIC}))
        self._table = IcebergTable(spark, table_name(self._plan.contract.id))
        self._sink = StagedSink(
            settings,
            self._table,
            self._quarantine,
            DroppedTopic(self._topics, self._source),
            ReplayedTopic(self._topics, self._source),
            MarksTopic(self._topics, self._source, None),
        )
        begin = dict.fromkeys(range(PARTITIONS), 0)
        watch = Stopwatch(self._plan.contract.id, ignore_steps)
        self._ledger: Ledger = self._sink.start(StreamStart(self._plan, self._source, begin, watch))
        self._producer = Producer({"bootstrap.servers": settings.bootstrap_servers, "linger.ms": 5})
        self.rows = 0

    def by_protocol(self, records: int) -> None:
        """Process a batch as the job does."""
        batch, judged = self._judge(records)
        # The job checks the identity of the topic before and after it reads records.
        for _ in range(2):
            assert self._topics.identity(TOPIC) is not None
        decision = decide(batch.plan, judged.results.tallies, judged.results.first_failed)
        self._sink.publish(judged, decision)
        self.rows += decision.written

    def plainly(self, records: int) -> None:
        """Process a batch without the protocol: a crash could lose or duplicate records."""
        batch, judged = self._judge(records)
        decision = decide(batch.plan, judged.results.tallies, judged.results.first_failed)
        to = Destination(self._quarantine, self._ledger, batch.plan)
        for topic, value, key, partition, timestamp_ms, headers in refused_records(
            judged.results.refused.batches(), to, Counter[RuleKey]()
        ):
            self._producer.produce(topic, value, key, partition, timestamp=timestamp_ms, headers=headers)
        assert not self._producer.flush(60)
        table = self._table._load()  # noqa: SLF001 - the commit without the ledger is no API
        append = table.newAppend()
        for name in judged.accepted.names:
            append.appendFile(self._table._described(table, name))  # noqa: SLF001 - as above
        append.commit()
        self.rows += decision.written

    def assert_complete(self) -> None:
        """Assert that the table has all written rows; it is not timed."""
        assert self._spark.table(table_name(self._plan.contract.id)).count() == self.rows > 0

    def _judge(self, records: int) -> tuple[MicroBatch, JudgedBatch[TableParts]]:
        ends: Vector = dict.fromkeys(range(PARTITIONS), records // PARTITIONS)
        options = {
            **self._settings.kafka.for_spark(),
            "subscribe": TOPIC,
            "startingOffsets": "earliest",
            "endingOffsets": json.dumps({TOPIC: {str(partition): end for partition, end in ends.items()}}),
            "includeHeaders": "true",
            "kafka.fetch.max.wait.ms": "50",
        }
        rows = self._spark.read.format("kafka").options(**options).load()
        watch = Stopwatch(self._plan.contract.id, ignore_steps)
        batch = MicroBatch(rows, dict.fromkeys(ends, 0), ends, self._plan, {}, watch)
        return batch, self._sink.judge(batch)

    def _describe(self, topic: str) -> TopicDescription:
        found = self._topics.describe(topic)
        assert found is not None
        return found


def main() -> None:
    """Start a broker, fill the topic, measure, write the figures."""
    arguments = benchmark_parser(__doc__).parse_args()
    sizes, rounds = ((2_000, 400), 1) if arguments.smoke else ((LARGE, SMALL), 15)
    folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-broker-"))
    try:
        run = RunDirectory(folder / "run", folder / "logs")
        with Broker(folder / "broker", run, ensure_jars(), find_java(), BrokerOptions()) as broker:
            fill(broker.bootstrap, max(sizes))
            settings = benchmark_settings(broker.bootstrap)
            spark = benchmark_session(settings)
            try:
                measured = [measure(spark, settings, size, rounds) for size in sizes]
            finally:
                spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    (large, large_plain), (small, small_plain) = ((a * 1000, b * 1000) for a, b in measured)
    figures = [
        Figure.of("protocol_large_batch_over_plain", large, "ms", large_plain),
        Figure.of("protocol_small_batch_over_plain", small, "ms", small_plain),
    ]
    for name, with_it, without in (("large", large, large_plain), ("small", small, small_plain)):
        print(
            f"  {name} batch: {with_it:,.0f} ms, plainly {without:,.0f} ms, added {with_it - without:,.0f} ms"
        )
    report_figures(figures, arguments.out)


def measure(spark: SparkSession, settings: JobSettings, records: int, rounds: int) -> tuple[float, float]:
    """Return the median seconds of a batch with the protocol, and without it."""
    exact = Stream(spark, settings, f"protocol{records}")
    plain = Stream(spark, settings, f"plain{records}")
    cases: dict[str, Callable[[], object]] = {
        "protocol": partial(exact.by_protocol, records),
        "plain": partial(plain.plainly, records),
    }
    seconds = interleaved_seconds(cases, rounds)
    exact.assert_complete()
    plain.assert_complete()
    return seconds["protocol"], seconds["plain"]


if __name__ == "__main__":
    main()
