"""Record sources of a stream's attempt: its topic, by a streaming query, or its history, in a bounded run of batches.

Both identify a batch by its offsets, so the protocol is the same. The history counts as one more partition.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol

from pyspark import InheritableThread
from pyspark.sql import functions as F  # noqa: N812 - the conventional name

from tidegate.contracts.errors import SettingsError
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.evidence import ORIGIN_HEADER
from tidegate.contracts.stream.history import HISTORY_PARTITION, HistoryMark, of_topic
from tidegate.contracts.stream.ledger import Ledger, Vector, span
from tidegate.spark_jobs.history.folder import HistoryFolder
from tidegate.spark_jobs.history.load import load_history
from tidegate.spark_jobs.history.request import HistoryRequest
from tidegate.spark_jobs.job.source import LOOK_SECONDS, BatchHandler, BatchOffsets, read_range, read_topic
from tidegate.spark_jobs.kafka.consumer_group import PublishedOffsets
from tidegate.spark_jobs.kafka.source_topic import require_same, resume
from tidegate.spark_jobs.kafka.topics import TopicDescription, Topics
from tidegate.spark_jobs.settings import JobSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Query(Protocol):
    """A run that calls the batch handler until it ends: a StreamingQuery of Spark, or a run over a history."""

    def awaitTermination(self, timeout: Any = None) -> bool | None:  # noqa: N802 - Spark's name
        """Wait up to `timeout` seconds for the end of the run; return whether it has ended."""
        ...

    def stop(self) -> None:
        """Stop the run, and wait until it has ended."""
        ...


class RecordSource(Protocol):
    """The source of the batches of one attempt."""

    history: tuple[HistoryMark, ...]
    """The marks of the history after each load, in order; empty for a topic."""

    topic_start: Vector
    """Offsets in the contract's topic at which the ledger of a new stream begins."""

    def require_same(self, ledger: Ledger) -> None:
        """Raise StreamStopped if the records are no longer those that the ledger counts. Raises Unavailable too."""
        ...

    def resume(self, ledger: Ledger) -> int:
        """Seek to the end of the claimed ledger; return the number of records after it.

        Raises StreamStopped if records are missing.
        """
        ...

    def start(self, ledger: Ledger, handler: BatchHandler) -> Query:
        """Start reading at the position that `resume` has set."""
        ...

    def offsets_of(self, batch_id: int) -> tuple[Vector, Vector]:
        """Return start and end of a batch, by the id that the handler was called with."""
        ...

    def read(self, start: Vector, end: Vector) -> DataFrame:
        """Return the records of [start, end), with the columns of `read_topic`."""
        ...

    def latest(self) -> Vector:
        """Return the end offsets of the records. Raises Unavailable."""
        ...

    def publish(self, ledger: Ledger) -> None:
        """Publish the progress of the stream for other tools, best effort."""
        ...

    def close(self) -> None:
        """Release all open resources."""
        ...


OpenSource = Callable[["SparkSession", JobSettings, Topics, EnforcementPlan, TopicDescription], RecordSource]
"""Opens the source of an attempt. The topic is that of the contract."""


class ContractTopic:
    """The topic of a contract."""

    history: tuple[HistoryMark, ...] = ()

    def __init__(
        self,
        spark: SparkSession,
        settings: JobSettings,
        topics: Topics,
        plan: EnforcementPlan,
        topic: TopicDescription,
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._topics = topics
        self._contract_id = plan.contract.id
        self._topic = topic
        self._group: PublishedOffsets | None = None
        # Read before the claim, because retention may delete records meanwhile.
        self._earliest = topics.earliest(topic.name)
        self.topic_start = topics.latest(topic.name) if settings.starting == "latest" else self._earliest

    def require_same(self, ledger: Ledger) -> None:
        """Raise StreamStopped if the topic was created again."""
        require_same(self._topics, self._topic, ledger)

    def resume(self, ledger: Ledger) -> int:
        """Find the offsets to resume from, and commit them to the consumer group of the stream."""
        # Read again: the instance that held the ledger before may have judged newer records, also of new partitions.
        latest = self.latest()
        self._start = resume(ledger, self._topic, {**dict.fromkeys(latest, 0), **self._earliest}, latest)
        self._group = PublishedOffsets(self._settings.kafka, self._contract_id)
        self.publish(ledger)
        return span(self._start, latest)

    def start(self, ledger: Ledger, handler: BatchHandler) -> Query:
        """Start a streaming query with an empty checkpoint."""
        name, settings, start = self._topic.name, self._settings, self._start
        folder = settings.scratch(self._contract_id) / "checkpoint"
        shutil.rmtree(folder, ignore_errors=True)
        checkpoint = f"file://{folder}/{ledger.epoch}"
        self._offsets = BatchOffsets(self._spark, checkpoint, name, start)
        writer = (
            read_topic(self._spark, settings, name, start)
            .writeStream.queryName(f"{self._contract_id} {settings.sink} epoch {ledger.epoch}")
            .option("checkpointLocation", checkpoint)
            .foreachBatch(handler)
        )
        if settings.available_now:
            return writer.trigger(availableNow=True).start()
        pause = min(settings.batch_seconds, LOOK_SECONDS)
        return writer.trigger(processingTime=f"{round(pause * 1000)} milliseconds").start()

    def offsets_of(self, batch_id: int) -> tuple[Vector, Vector]:
        """Return start and end of a batch, from Spark's offset log."""
        return self._offsets.of(batch_id)

    def read(self, start: Vector, end: Vector) -> DataFrame:
        """Read a range of offsets with a separate batch query."""
        return read_range(self._spark, self._settings, self._topic.name, start, end)

    def latest(self) -> Vector:
        """Return the end offsets of the topic's partitions."""
        return self._topics.latest(self._topic.name)

    def publish(self, ledger: Ledger) -> None:
        """Commit the position to the consumer group of the stream."""
        if self._group is not None:
            self._group.publish(self._topic.name, of_topic(ledger.end))

    def close(self) -> None:
        """Close the consumer group."""
        if self._group is not None:
            self._group.close()


class HistorySource:
    """The local copy of a history. The constructor loads it."""

    def __init__(
        self,
        request: HistoryRequest,
        spark: SparkSession,
        settings: JobSettings,
        topics: Topics,
        plan: EnforcementPlan,
        topic: TopicDescription,
    ) -> None:
        """Load the new rows of the history. Raises SettingsError for upserts, and the errors of `load_history`."""
        if settings.write_mode == "upsert":
            raise SettingsError(
                "a history is appended, and the table is upserted into, where an old row could replace a newer one: send "
                f"the records to the topic {topic.name} instead, with tidegate send"
            )
        self._spark = spark
        self._settings = settings
        self._folder = HistoryFolder(settings, plan.contract.id)
        self._manifest = load_history(spark, self._folder, plan.contract, request)
        self.history = self._manifest.marks
        starts = topics.latest if settings.starting == "latest" else topics.earliest
        self.topic_start = starts(topic.name)

    def require_same(self, ledger: Ledger) -> None:
        """Do nothing: the claim has compared the histories, and the copy never changes."""

    def resume(self, ledger: Ledger) -> int:
        """Require that the rows after the ledger are complete, and divide them into batches; return their number."""
        begin = ledger.end.get(HISTORY_PARTITION, 0)
        self._folder.require_whole(self._manifest, begin)
        most = self._settings.max_offsets
        ends = range(begin + most, self._manifest.end + most, most)
        starts = [begin, *(min(each, self._manifest.end) for each in ends)]
        self._batches = [*pairwise(starts)]
        return self._manifest.end - begin

    def start(self, ledger: Ledger, handler: BatchHandler) -> Query:  # noqa: ARG002 - required by the protocol
        """Start a run to the end of the copy."""
        return BoundedQuery(len(self._batches), partial(self._handle, handler))

    def _handle(self, handler: BatchHandler, batch_id: int) -> None:
        handler(self.read(*self.offsets_of(batch_id)), batch_id)

    def offsets_of(self, batch_id: int) -> tuple[Vector, Vector]:
        """Return start and end of a batch."""
        start, end = self._batches[batch_id]
        return {HISTORY_PARTITION: start}, {HISTORY_PARTITION: end}

    def read(self, start: Vector, end: Vector) -> DataFrame:
        """Read the parts that hold a range. A row's offset is its part's first offset plus its index in the part."""
        first, last = start[HISTORY_PARTITION], end[HISTORY_PARTITION]
        placed = list(self._manifest.placed(first, last))
        root = self._folder.path
        firsts = [
            each
            for place in placed
            for each in (F.lit(place.part.path.rpartition("/")[2]), F.lit(place.first))
        ]
        rows = self._spark.read.schema("value binary, changed timestamp, origin string")
        position = F.create_map(*firsts)[F.col("_metadata.file_name")] + F.col("_metadata.row_index")
        header = F.struct(F.lit(ORIGIN_HEADER).alias("key"), F.col("origin").cast("binary").alias("value"))
        return (
            rows.parquet(*[f"file://{root / each.part.path}" for each in placed])
            .select(
                F.lit(HISTORY_PARTITION).alias("partition"),
                position.cast("long").alias("offset"),
                F.col("changed").alias("timestamp"),
                F.lit(None).cast("binary").alias("key"),
                "value",
                F.array(header).alias("headers"),
            )
            .where(F.col("offset").between(first, last - 1))
        )

    def latest(self) -> Vector:
        """Return the end offset of the copy."""
        return {HISTORY_PARTITION: self._manifest.end}

    def publish(self, ledger: Ledger) -> None:
        """Do nothing: consumer groups have no positions in a history."""

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


class BoundedQuery:
    """A query that handles a fixed number of batches in a thread, one after another."""

    def __init__(self, batches: int, handle: Callable[[int], None]) -> None:
        self._stopping = Event()
        self._batches = batches
        self._handle = handle
        self._failure: BaseException | None = None
        self._thread = InheritableThread(target=self._run, name="history", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for batch_id in range(self._batches):
                if self._stopping.is_set():
                    return
                self._handle(batch_id)
        except BaseException as error:  # noqa: BLE001 - raised again in the stream's own thread
            self._failure = error

    def awaitTermination(self, timeout: Any = None) -> bool:  # noqa: N802 - Spark's name
        """Wait for the thread; return whether it has ended. Raises the error that ended it."""
        self._thread.join(timeout)
        if self._failure is not None:
            raise self._failure
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Start no further batch, and wait for the one in progress."""
        self._stopping.set()
        self._thread.join()
