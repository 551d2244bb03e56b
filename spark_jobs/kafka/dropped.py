"""The topic of dropped positions: written before a batch's ledger, and read by a reconciliation."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from confluent_kafka import Message

from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.ledger import Ledger
from tidegate.contracts.stream.output_topics import dropped_topic
from tidegate.contracts.stream.positions import Positions, chained, digest_of, dropped_by
from tidegate.spark_jobs.kafka.outputs import OutputRecord, read_committed
from tidegate.spark_jobs.kafka.topics import TopicDescription, Topics

_PARTITION: Final = 0
"""The partition of all records of a chain, in the order of the chain."""
_OFFSETS_AT_A_TIME: Final = 50_000


class DroppedTopic:
    """The topic `<topic>.dropped`, which is created for the first contract that drops records."""

    def __init__(self, topics: Topics, source: TopicDescription) -> None:
        self._topics = topics
        self._source = source
        self._name = dropped_topic(source.name)
        self._is_there = False

    def adopt(self, plan: EnforcementPlan) -> None:
        """Create the topic if the contract drops records. Raises StreamStopped if it would lose positions, Unavailable."""
        if plan.drops_records and not self._is_there:
            self.ensure()

    def ensure(self) -> None:
        """Create the topic, regardless of the contract. Raises the same errors as `adopt`."""
        self._topics.ensure_dropped(self._name, self._source)
        self._is_there = True

    def records(self, held: Ledger, dropped: Positions) -> tuple[list[OutputRecord], str]:
        """Return the records that add positions to the chain of a ledger, and the digest of the last one.

        Without positions there are no records, and the digest is empty.
        """
        most_bytes = self._source.max_message_bytes
        return chain_records(self._name, chained(held.name, held.dropped_digest, dropped, most_bytes))


class ChainRecord(Protocol):
    """A record of a chain. It is identified by the digest of its text."""

    @property
    def text(self) -> bytes:
        """Return the canonical text."""
        ...


def chain_records(topic: str, chain: Iterable[ChainRecord]) -> tuple[list[OutputRecord], str]:
    """Return the records of a part of a chain of positions or marks, and the last digest, empty without records."""
    now, records, digest = int(time.time() * 1000), list[OutputRecord](), ""
    for text in (each.text for each in chain):
        digest = digest_of(text)
        records.append((topic, text, digest.encode(), _PARTITION, now, []))
    return records, digest


def read_dropped(kafka: KafkaConnection, ledger: Ledger) -> Positions:
    """Return the dropped positions that a ledger names, as far as their topic still has them. Raises Unavailable."""
    return read_chain(kafka, dropped_topic(ledger.topic), ledger.name, ledger.dropped_digest)


def read_chain(kafka: KafkaConnection, name: str, ledger: str, digest: str) -> Positions:
    """Return the positions of the chain that ends with a digest, as far as the topic has them. Raises Unavailable."""
    return dropped_by(ledger, digest, _newest_first(kafka, name)) if digest else Positions()


def _newest_first(kafka: KafkaConnection, name: str) -> Iterator[Iterator[bytes]]:
    """Yield the record values of a topic of positions in parts, the newest first. Raises Unavailable.

    A stream that drops records of twelve partitions writes six million records in a month: they would not fit in memory.
    """
    topics = Topics(kafka)
    if topics.identity(name) is None:
        return
    begin, end = topics.earliest(name)[_PARTITION], topics.latest(name)[_PARTITION]
    while end > begin:
        start = max(begin, end - _OFFSETS_AT_A_TIME)
        yield _texts(read_committed(kafka, name, {_PARTITION: start}, {_PARTITION: end}))
        end = start


def read_texts(kafka: KafkaConnection, name: str) -> Iterator[bytes]:
    """Yield the record values of a topic of positions; none if the topic does not exist. Raises Unavailable."""
    topics = Topics(kafka)
    if topics.identity(name) is None:
        return
    yield from _texts(read_committed(kafka, name, {}, topics.latest(name)))


def _texts(messages: Iterable[Message]) -> Iterator[bytes]:
    return (text for message in messages if (text := message.value()) is not None)
