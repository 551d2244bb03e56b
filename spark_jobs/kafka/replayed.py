"""The topic of the positions of replayed, discarded and resent records: written before the ledger that names them."""

from __future__ import annotations

from typing import Final
from uuid import uuid4

from tidegate.contracts.errors import ConflictError, StreamStopped
from tidegate.contracts.stream.bounds import MOST_SLOTS
from tidegate.contracts.stream.closure import ClosedRefusals, Closure, chain_of
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.ledger import Ledger
from tidegate.contracts.stream.output_topics import replayed_topic
from tidegate.contracts.stream.positions import Positions, chained, following, named_by
from tidegate.contracts.stream.replay import Closed
from tidegate.contracts.stream.replayed_chunk import ReplayedChunk
from tidegate.spark_jobs.kafka.dropped import chain_records, read_chain, read_texts
from tidegate.spark_jobs.kafka.kafka_ledger import transactional_id
from tidegate.spark_jobs.kafka.outputs import OutputRecord, TransactionalProducer
from tidegate.spark_jobs.kafka.topics import TopicDescription, Topics

_COMMAND_SLOT: Final = MOST_SLOTS
"""Slot of the producer of a command. No job uses it."""
_SENDER_SLOT: Final = MOST_SLOTS + 1
"""Slot of the producer that sends refused records back to their source topic."""


class ReplayedTopic:
    """The topic `<topic>.replayed`, which is created with the first replay of a stream."""

    def __init__(self, topics: Topics, source: TopicDescription) -> None:
        self._topics = topics
        self._source = source
        self._name = replayed_topic(source.name)
        self._is_there = False

    def ensure(self) -> None:
        """Create the topic. Raises StreamStopped if an existing one would lose positions, Unavailable."""
        if not self._is_there:
            self._topics.ensure_replayed(self._name, self._source)
            self._is_there = True

    def records(self, held: Ledger, chunk: ReplayedChunk) -> tuple[list[OutputRecord], str]:
        """Return the records that add a chunk's positions to a chain of a ledger, and the digest of the last one.

        Without positions there are no records, and the digest is empty.
        """
        if chunk.closure is None:
            return self.chain(held.name, held.replayed_digest, chunk.written)
        before = held.closed.get(chunk.closure)
        return self.chain(
            chain_of(held.name, chunk.closure),
            "" if before is None else before.digest,
            chunk.closed | chunk.also,
        )

    def chain(self, name: str, after: str, positions: Positions) -> tuple[list[OutputRecord], str]:
        """Return the records that add positions to the chain `name`, and the digest of the last one.

        `after` is the digest with which the chain ends now, empty for a new one.
        """
        return chain_records(self._name, chained(name, after, positions, self._source.max_message_bytes))


def read_replayed(kafka: KafkaConnection, ledger: Ledger) -> Positions:
    """Return the source positions of replayed records that a ledger names, as far as their topic still has them.

    They are complete if their number is `ledger.replayed`. Raises Unavailable.
    """
    return read_chain(kafka, replayed_topic(ledger.topic), ledger.name, ledger.replayed_digest)


def require_replayed(kafka: KafkaConnection, ledger: Ledger) -> Positions:
    """Return all source positions of replayed records. Raises ConflictError if their topic lost some, Unavailable."""
    found = read_replayed(kafka, ledger)
    if len(found) != ledger.replayed:
        raise ConflictError(
            f"{replayed_topic(ledger.topic)} holds {len(found):,} of the {ledger.replayed:,} positions that the ledger counts: "
            "which refused records were written since is not known, and nothing was changed. Restore the topic"
        )
    return found


def require_closed(kafka: KafkaConnection, ledger: Ledger) -> Closed:
    """Return the source positions of all closed refused records, also of sent ones that the ledger does not name.

    Raises ConflictError if their topic has lost some, Unavailable.
    """
    found = read_closed(kafka, ledger)
    for closure, closed in ledger.closed.items():
        if len(found[closure]) != closed.records:
            raise ConflictError(
                f"{replayed_topic(ledger.topic)} holds {len(found[closure]):,} of the {closed.records:,} positions of "
                f"{closure} records that the ledger counts, and nothing was changed. Restore the topic"
            )
    resent = found[Closure.RESENT] | resent_ahead(kafka, ledger)
    return Closed(require_replayed(kafka, ledger), found[Closure.DISCARDED], resent)


def read_closed(kafka: KafkaConnection, ledger: Ledger) -> dict[Closure, Positions]:
    """Return the positions of discarded and of resent records that a ledger names, as far as the topic has them.

    Raises Unavailable.
    """
    topic = replayed_topic(ledger.topic)
    return {
        closure: read_chain(kafka, topic, chain_of(ledger.name, closure), ledger.closed[closure].digest)
        if closure in ledger.closed
        else Positions()
        for closure in (Closure.DISCARDED, Closure.RESENT)
    }


def fenced_sender(kafka: KafkaConnection, ledger: str) -> TransactionalProducer:
    """Return the producer that sends records of a ledger back, after fencing earlier ones. Raises Unavailable."""
    producer = TransactionalProducer(kafka, transactional_id(ledger, _SENDER_SLOT))
    producer.fence()
    return producer


def resent_ahead(kafka: KafkaConnection, ledger: Ledger) -> Positions:
    """Return the source positions of records that were sent to the source, and that the ledger does not name yet.

    They continue the chain that the ledger names. Call it when no other instance can send records. Raises Unavailable.
    """
    before = ledger.closed.get(Closure.RESENT)
    name = chain_of(ledger.name, Closure.RESENT)
    # Not kept: the topic has a record for each chunk of each replay, for ever.
    texts = read_texts(kafka, replayed_topic(ledger.topic))
    return following(name, "" if before is None else before.digest, texts)


def left_out(kafka: KafkaConnection, ledger: Ledger) -> Positions:
    """Return the positions ahead of a rewound ledger that are not judged, because copies were sent to the source.

    Raises StreamStopped if the topic has lost some of the positions, Unavailable.
    """
    resent = ledger.closed.get(Closure.RESENT)
    if resent is None or all(end <= ledger.end.get(p, 0) for p, end in resent.until.items()):
        return Positions()
    topic = replayed_topic(ledger.topic)
    found = read_chain(kafka, topic, chain_of(ledger.name, Closure.RESENT), resent.digest)
    if len(found) != resent.records:
        raise StreamStopped(
            f"{topic} holds {len(found):,} of the {resent.records:,} positions of records that were sent back to {ledger.topic}. "
            "The stream was rewound, so the others could be written beside their copies. Restore the topic; if it is lost, "
            f"begin again with a new table, which gets both where the contract accepts both: tidegate archive {ledger.stream}"
        )
    return found.within(ledger.end, resent.until)


def ever_closed(kafka: KafkaConnection, topic: str, ledger: str) -> dict[Closure, Positions]:
    """Return the closed positions that the topic has for a lost ledger, also those of unpublished chunks.

    The records of unpublished chunks stay refused: they were to be closed, and no output has them.
    """
    texts = list(read_texts(kafka, replayed_topic(topic)))
    found = {each: named_by(chain_of(ledger, each), texts) for each in (Closure.DISCARDED, Closure.RESENT)}
    return {closure: positions for closure, positions in found.items() if positions}


def ever_replayed(kafka: KafkaConnection, topic: str, ledger: str) -> Positions:
    """Return all replayed positions that the topic has for a ledger, also those of unpublished chunks."""
    return named_by(ledger, read_texts(kafka, replayed_topic(topic)))


def write_replayed(
    kafka: KafkaConnection, source: TopicDescription, ledger: Ledger, replayed: Positions
) -> Ledger:
    """Write positions as a new chain; return the ledger that names it. For commands, after the fence."""
    digest = _write_chain(kafka, source, ledger, None, replayed)
    return ledger.model_copy(update={"replayed": len(replayed), "replayed_digest": digest})


def write_closed(
    kafka: KafkaConnection, source: TopicDescription, ledger: Ledger, closed: dict[Closure, Positions]
) -> Ledger:
    """Write closed positions as new chains; return the ledger that names only these. For commands, after the fence.

    A chain that has lost all of its positions gets a digest that no record has. So records sent before do not continue
    it.
    """
    named = {}
    for closure, positions in closed.items():
        if positions:
            digest = _write_chain(kafka, source, ledger, closure, positions)
            until = ledger.closed[closure].until if closure in ledger.closed else {}
            named[closure] = ClosedRefusals(records=len(positions), digest=digest, until=until)
        elif closure in ledger.closed:
            named[closure] = ClosedRefusals(records=0, digest=uuid4().hex)
    return ledger.model_copy(update={"closed": named})


def _write_chain(
    kafka: KafkaConnection,
    source: TopicDescription,
    ledger: Ledger,
    closure: Closure | None,
    positions: Positions,
) -> str:
    topic = ReplayedTopic(Topics(kafka), source)
    topic.ensure()
    records, digest = topic.chain(chain_of(ledger.name, closure), "", positions)
    if records:
        producer = TransactionalProducer(kafka, transactional_id(ledger.name, _COMMAND_SLOT))
        producer.fence()
        producer.write(records)
    return digest
