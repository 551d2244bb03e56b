"""Writing of accepted records by tasks, each in a transaction of its own producer.

The tasks that judge a batch pack the accepted records, and Spark keeps them until the whole batch is decided; then
tasks write them. A slot is a transactional.id, and the task of partition i uses slot i + 1 (slot 0 is the driver's).
Its producer is kept in the worker that used it; if the task runs in another worker, that worker fences the slot. A task
of a fenced instance may do so too, long after another instance has fenced its slots. So a worker that fences a slot
reads the ledger before its first record. If it read the ledger before another instance's claim, that instance has
fenced the slot since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext

from tidegate.contracts.errors import Fenced
from tidegate.contracts.stream.evidence import headers_of, read_provenance
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.ledger import Position, Vector
from tidegate.spark_jobs.crashes import crashes_without_values
from tidegate.spark_jobs.kafka.kafka_ledger import ledger_name, read_ledger, transactional_id
from tidegate.spark_jobs.kafka.outputs import TransactionalProducer, read_committed
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.worker.record_spool import unpacked
from tidegate.spark_jobs.worker.records import AcceptedRecords, Destination

WRITTEN: Final = pa.schema([("records", pa.int64())])
WRITTEN_DDL: Final = "records bigint"
"""The result of a writing task: one row, the number of its records."""


@dataclass(frozen=True, slots=True)
class SlotTarget:
    """The topic and the slots to which the tasks of one batch write; it is pickled for the workers.

    `turn` numbers the batches of this instance that tasks write. `turns` has for each task the turn in which its slot
    was last used: the worker with that turn has the newest producer. `since` is an end of the topic before the batch.
    The broker aborts a transaction that is open for more than `timeout_seconds`.
    """

    to: Destination
    kafka: KafkaConnection
    turn: int
    turns: tuple[int, ...]
    since: Vector
    timeout_seconds: int = 60


def write_packed(target: SlotTarget) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `mapInArrow`: it writes packed records, one binary column, and yields batches of WRITTEN.

    Raises Fenced or Unavailable.
    """

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with crashes_without_values():
            slot = _take(target)
            accepted = AcceptedRecords(target.to)
            records = 0
            with slot.producer.transaction() as send:
                for rows in unpacked(value.as_buffer() for batch in batches for value in batch.column(0)):
                    records += send(accepted.of(slot.without_written(rows)))
            slot.keep(target.turn)
            yield pa.RecordBatch.from_pydict({"records": [records]}, WRITTEN)

    return work


@dataclass(slots=True)
class _Slot:
    """A slot of this worker; `written` are the positions that an earlier attempt of its task has committed."""

    id: str
    epoch: int
    producer: TransactionalProducer
    turn: int = 0
    written: frozenset[Position] = frozenset()

    def without_written(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows without those that are written already."""
        if not self.written:
            return rows
        places = zip(rows.column("partition").to_pylist(), rows.column("offset").to_pylist(), strict=True)
        return rows.filter(pa.array([place not in self.written for place in places], pa.bool_()))

    def keep(self, turn: int) -> None:
        """Keep the producer for a later batch.

        Do not call this after an error: the next one to fence the slot aborts the open transaction.
        """
        self.turn, self.written = turn, frozenset()
        _kept[self.id] = self


_kept: Final[dict[str, _Slot]] = {}
"""The slots of this worker, by transactional.id."""


def _take(target: SlotTarget) -> _Slot:
    """Return the slot of this task. Raises Fenced if the ledger is no longer ours."""
    task = TaskContext.get()
    assert task is not None  # noqa: S101 - workers run within a task
    ledger, index = target.to.ledger, task.partitionId()
    # No shuffle precedes the stage, so it runs once, and only single tasks may be retried.
    is_retry = task.attemptNumber() > 0
    name = transactional_id(ledger.name, index + 1)
    kept = _kept.pop(name, None)
    if kept and not is_retry and (kept.epoch, kept.turn) == (ledger.epoch, target.turns[index]):
        return kept
    producer = TransactionalProducer(target.kafka, name, target.timeout_seconds)
    producer.fence()
    found = read_ledger(target.kafka, ledger_name(ledger.stream))
    # An adoption leaves a gap before the next epoch. Still, an earlier epoch may occur again, so both are compared.
    if found is None or (found.epoch, found.adopted) != (ledger.epoch, ledger.adopted):
        raise Fenced(f"{ledger.name}: another instance of this stream holds the ledger now")
    return _Slot(name, ledger.epoch, producer, written=_already_written(target) if is_retry else frozenset())


def _already_written(target: SlotTarget) -> frozenset[Position]:
    """Return the source positions of the ledger's records that are committed since the batch before.

    Among them are those that an earlier attempt of the task has committed before it was lost.
    """
    topic, ledger = target.to.topic.name, target.to.ledger
    end = Topics(target.kafka).latest(topic)
    found = (
        read_provenance(headers_of(each)) for each in read_committed(target.kafka, topic, target.since, end)
    )
    return frozenset(
        (each.source.partition, each.source.offset)
        for each in found
        if each is not None and each.ledger == ledger.name and each.source.topic == ledger.topic
    )
