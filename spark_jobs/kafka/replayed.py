"""The topic of the positions of replayed records: written before the ledger that names them."""

from __future__ import annotations

from typing import Final

from tidegate.contracts.errors import ConflictError
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.ledger import Ledger
from tidegate.contracts.stream.output_topics import replayed_topic
from tidegate.contracts.stream.positions import Positions, chained, named_by
from tidegate.spark_jobs.kafka.dropped import chain_records, read_chain, read_texts
from tidegate.spark_jobs.kafka.kafka_ledger import transactional_id
from tidegate.spark_jobs.kafka.outputs import OutputRecord, TransactionalProducer
from tidegate.spark_jobs.kafka.topics import Topic, Topics

_COMMAND_SLOT: Final = 64
"""Slot of the producer of a command. No job has it: settings allow 64, from 0 on."""


class ReplayedTopic:
    """`<topic>.replayed`, which is created with the first replay of a stream."""

    def __init__(self, topics: Topics, source: Topic) -> None:
        self._topics = topics
        self._source = source
        self._name = replayed_topic(source.name)
        self._is_there = False

    def ensure(self) -> None:
        """Create the topic. Raises StreamStopped if an existing one would lose positions, Unavailable."""
        if not self._is_there:
            self._topics.ensure_replayed(self._name, self._source)
            self._is_there = True

    def records(self, held: Ledger, replayed: Positions) -> tuple[list[OutputRecord], str]:
        """Return the records that add positions to the chain of a ledger, and the digest of the last one.

        No record and an empty digest when there are no positions.
        """
        most_bytes = self._source.max_message_bytes
        return chain_records(self._name, chained(held.name, held.replayed_digest, replayed, most_bytes))


def read_replayed(kafka: KafkaConnection, ledger: Ledger) -> Positions:
    """Return the source positions of replayed records that a ledger names, as far as their topic still holds them.

    They are complete if there are as many as `ledger.replayed`. Raises Unavailable.
    """
    return read_chain(kafka, replayed_topic(ledger.topic), ledger.name, ledger.replayed_digest)


def require_replayed(kafka: KafkaConnection, ledger: Ledger) -> Positions:
    """Return all source positions of replayed records. Raises ConflictError when their topic has lost some, Unavailable."""
    found = read_replayed(kafka, ledger)
    if len(found) != ledger.replayed:
        raise ConflictError(
            f"{replayed_topic(ledger.topic)} holds {len(found):,} of the {ledger.replayed:,} positions that the ledger counts: "
            "which refused records were written since is not known, and nothing was changed. Restore the topic"
        )
    return found


def ever_replayed(kafka: KafkaConnection, topic: str, ledger: str) -> Positions:
    """Return all positions that the topic has for a ledger of a source topic, also those of chunks never published."""
    return named_by(ledger, read_texts(kafka, replayed_topic(topic)))


def write_replayed(kafka: KafkaConnection, source: Topic, ledger: Ledger, replayed: Positions) -> Ledger:
    """Write positions as a chain of their own; return the ledger that names it. For commands, after the fence."""
    topic = ReplayedTopic(Topics(kafka), source)
    topic.ensure()
    records, digest = topic.records(ledger.model_copy(update={"replayed_digest": ""}), replayed)
    if records:
        producer = TransactionalProducer(kafka, transactional_id(ledger.name, _COMMAND_SLOT))
        producer.fence()
        producer.write(records)
    return ledger.model_copy(update={"replayed": len(replayed), "replayed_digest": digest})
