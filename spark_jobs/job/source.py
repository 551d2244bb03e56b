"""The Kafka source: one topic, read by the JVM connector, and the offsets that each batch covers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tidegate.contracts.errors import Unavailable
from tidegate.contracts.stream.ledger import Vector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark_jobs.settings import JobSettings


LOOK_SECONDS: Final = 0.5
"""Maximum seconds between two polls for new records."""

FETCH_OPTIONS: Final = {
    # Near the end of a topic, a long fetch blocks the offset look-ups behind it, for 0.5-1.0 s per batch.
    "kafka.fetch.max.wait.ms": "50",
    # At every poll, Spark asks for the first and the last offset of the partition, in two requests. With the default of
    # 500 records per poll, that took a quarter of the job's read time and an eighth of the broker's work. The fetch of
    # a partition is 4 MiB, so that a poll can return that many records.
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(4 * 1024 * 1024),
}
"""Consumer properties that control how Spark's source fetches records."""


class BatchHandler:
    """The function that Spark calls for each batch, until it is closed.

    Py4J keeps a reference to it until a garbage collection of the JVM. A closed handler must not keep the attempt
    alive: an attempt owns Kafka clients, and a process cannot have more than about 1,000 of them.
    """

    def __init__(self, handle: Callable[[DataFrame, int], None]) -> None:
        self._handle: Callable[[DataFrame, int], None] | None = handle

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Handle a batch; after `close`, do nothing."""
        if self._handle is not None:
            self._handle(rows, batch_id)

    def close(self) -> None:
        """Drop the reference to the attempt."""
        self._handle = None


def read_topic(spark: SparkSession, settings: JobSettings, topic: str, start: Vector) -> DataFrame:
    """Return a streaming data frame of `topic` from `start`, which must have every current partition of the topic.

    Columns: key, value, topic, partition, offset, timestamp, timestampType, headers.
    """
    options = {
        **pacing_options(settings),
        **_options(settings, topic),
        "subscribe": topic,
        "startingOffsets": _offsets(topic, start),
        "maxOffsetsPerTrigger": str(settings.max_offsets),
    }
    return spark.readStream.format("kafka").options(**options).load()


def read_range(
    spark: SparkSession, settings: JobSettings, topic: str, start: Vector, end: Vector
) -> DataFrame:
    """Return the records of [start, end) by a batch query, with the columns of `read_topic`."""
    partitions = sorted(partition for partition, last in end.items() if last > start.get(partition, 0))
    options = {
        **_options(settings, topic),
        # Spark caches consumers, with their fetched records, for five minutes under the group of their query. With one
        # group per part, each kept 100 MB of 5 KB records: a driver of 1 GB ran out of memory at the fourth part.
        "kafka.group.id": f"tidegate-{topic}-parts",
        "assign": json.dumps({topic: partitions}),  # a subscription would need offsets of all partitions
        "startingOffsets": _offsets(topic, {each: start.get(each, 0) for each in partitions}),
        "endingOffsets": _offsets(topic, {each: end[each] for each in partitions}),
    }
    return spark.read.format("kafka").options(**options).load()


def _offsets(topic: str, vector: Vector) -> str:
    return json.dumps({topic: {str(partition): offset for partition, offset in sorted(vector.items())}})


def _options(settings: JobSettings, topic: str) -> dict[str, str]:
    return {
        **settings.kafka.for_spark(),
        "includeHeaders": "true",
        "failOnDataLoss": "true",
        "kafka.isolation.level": "read_committed",
        **FETCH_OPTIONS,
        "groupIdPrefix": f"tidegate-{topic}",
    }


def pacing_options(settings: JobSettings) -> dict[str, str]:
    """Return the options that let a batch wait for more records, unless a full batch is available.

    A longer trigger interval would delay every batch, also those of a backlog.
    """
    if settings.available_now or settings.batch_seconds <= LOOK_SECONDS:
        return {}
    return {
        "minOffsetsPerTrigger": str(settings.max_offsets),
        "maxTriggerDelay": f"{round(settings.batch_seconds * 1000)}ms",
    }


class BatchOffsets:
    """The offsets of each batch of one query, from Spark's write-ahead offset log.

    They do not come from the rows: a compacted topic has gaps, and a batch may hold no readable record.
    """

    def __init__(self, spark: SparkSession, checkpoint: str, topic: str, start: Vector) -> None:
        jvm = spark._jvm  # noqa: SLF001 - the offset log has no Python API
        assert jvm is not None  # noqa: S101 - narrows for the type checker
        log = jvm.org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqLog
        self._log = log(spark._jsparkSession, f"{checkpoint}/offsets")  # noqa: SLF001 - the same
        self._topic = topic
        self._ends: dict[int, Vector] = {-1: start}

    def of(self, batch_id: int) -> tuple[Vector, Vector]:
        """Return start and end of a batch. A partition that was added since the previous batch begins at 0.

        Raises Unavailable if the checkpoint was deleted; the next attempt creates a new one.
        """
        end = self._end(batch_id)
        before = self._end(batch_id - 1)
        self._ends = {batch_id - 1: before, batch_id: end}
        return {partition: before.get(partition, 0) for partition in end}, end

    def _end(self, batch_id: int) -> Vector:
        if batch_id not in self._ends:
            entry = self._log.get(batch_id)
            if entry.isEmpty():
                # Another instance deletes the checkpoint when it starts; then the ledger shows that this one is fenced.
                raise Unavailable(f"the checkpoint has lost batch {batch_id} of Spark's offset log")
            text = entry.get().offsets().apply(0).get().json()
            self._ends[batch_id] = {int(p): int(o) for p, o in json.loads(text)[self._topic].items()}
        return self._ends[batch_id]
