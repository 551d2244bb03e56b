"""The topic of marks of deleted keys: written before the ledger that names them, and read before a replay."""

from __future__ import annotations

from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.key_marks import KeyMarks, KnownMarks, chained_marks
from tidegate.contracts.stream.ledger import Ledger, Vector
from tidegate.contracts.stream.output_topics import marks_topic
from tidegate.spark_jobs.kafka.dropped import chain_records, read_texts
from tidegate.spark_jobs.kafka.outputs import OutputRecord
from tidegate.spark_jobs.kafka.topics import TopicDescription, Topics


class MarksTopic:
    """The topic `<topic>.marks`, created for the first contract whose tombstones delete, or with the first replay."""

    def __init__(self, topics: Topics, source: TopicDescription, days: int | None) -> None:
        """Store the settings of the topic. `days` is how long refused records are kept; None means without limit."""
        self._topics = topics
        self._source = source
        self._days = days
        self._name = marks_topic(source.name)
        self._is_there = False

    def adopt(self, plan: EnforcementPlan) -> None:
        """Create the topic if tombstones delete. Raises StreamStopped if it would lose marks, Unavailable."""
        if plan.contract.tombstones == "delete":
            self.ensure()

    def ensure(self) -> None:
        """Create the topic, regardless of the contract. Raises the same errors as `adopt`."""
        if not self._is_there:
            self._topics.ensure_marks(self._name, self._source, self._days)
            self._is_there = True

    def records(self, held: Ledger, end: Vector, marks: KeyMarks) -> tuple[list[OutputRecord], str]:
        """Return the records that add marks to the chain of a ledger, and the digest of the last one.

        `end` is the end of the ledger that will name them. Without marks there are no records, and the digest is empty.
        """
        return chain_records(self._name, chained_marks(held, end, marks, self._source.max_message_bytes))


def read_marks(kafka: KafkaConnection, ledger: Ledger) -> KnownMarks:
    """Return the marks that a ledger names, as far as their topic still has them. Raises Unavailable."""
    has_marks = ledger.marks is not None and ledger.marks.digest
    return KnownMarks.read(ledger, read_texts(kafka, marks_topic(ledger.topic)) if has_marks else ())
