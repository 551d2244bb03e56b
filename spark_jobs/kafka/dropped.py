"""The topic of dropped positions: written before a batch's ledger, and read by a reconciliation."""

from __future__ import annotations

import time

from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.ledger import Ledger
from tidegate.contracts.stream.output_topics import dropped_topic
from tidegate.contracts.stream.positions import Positions, chained, digest_of, dropped_by
from tidegate.spark_jobs.kafka.outputs import OutputRecord, read_committed
from tidegate.spark_jobs.kafka.topics import Topic, Topics


class DroppedTopic:
    """`<topic>.dropped`, which is created for the first contract that drops records."""

    def __init__(self, topics: Topics, source: Topic) -> None:
        self._topics = topics
        self._source = source
        self._name = dropped_topic(source.name)
        self._is_there = False

    def adopt(self, plan: EnforcementPlan) -> None:
        """Create the topic if the contract drops records. Raises StreamStopped if it would lose positions, Unavailable."""
        if plan.drops_records and not self._is_there:
            self.ensure()

    def ensure(self) -> None:
        """Create the topic, whatever the contract says. Raises what `adopt` raises."""
        self._topics.ensure_dropped(self._name, self._source)
        self._is_there = True

    def records(self, held: Ledger, dropped: Positions) -> tuple[list[OutputRecord], str]:
        """Return the records that add positions to the chain of a ledger, and the digest of the last one.

        No record and an empty digest when there are no positions.
        """
        if not dropped:
            return [], ""
        now = int(time.time() * 1000)
        texts = [
            each.text
            for each in chained(held.name, held.dropped_digest, dropped, self._source.max_message_bytes)
        ]
        records: list[OutputRecord] = [
            (self._name, text, digest_of(text).encode(), 0, now, []) for text in texts
        ]
        return records, digest_of(texts[-1])


def read_dropped(kafka: KafkaConnection, ledger: Ledger) -> Positions:
    """Return the dropped positions that a ledger references, as far as their topic still holds them. Raises Unavailable."""
    topics, name = Topics(kafka), dropped_topic(ledger.topic)
    if not ledger.dropped_digest or topics.identity(name) is None:
        return Positions()
    messages = read_committed(kafka, name, {}, topics.latest(name))
    texts = (text for each in messages if (text := each.value()) is not None)
    return dropped_by(ledger.name, ledger.dropped_digest, texts)
