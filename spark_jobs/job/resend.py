"""Resending of refused records to their source topic, exactly once: records and positions in one transaction.

The ledger names the positions in its next commit. Committed positions that the ledger does not name were sent by an
attempt that ended before that commit: they are not sent again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from tidegate.contracts.errors import ConflictError, Fenced
from tidegate.contracts.stream.closure import Closure
from tidegate.contracts.stream.evidence import SENT_BACK_HEADER, EventPointer
from tidegate.contracts.stream.history import HISTORY_PARTITION
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.ledger import Ledger, Position
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import Closed
from tidegate.contracts.stream.replay_preview import RefusedRecord
from tidegate.contracts.stream.replayed_chunk import ReplayedChunk
from tidegate.spark_jobs.kafka.outputs import OutputRecord, TransactionalProducer
from tidegate.spark_jobs.kafka.replayed import ReplayedTopic, fenced_sender, require_closed, resent_ahead
from tidegate.spark_jobs.kafka.topics import RefusedByBroker
from tidegate.spark_jobs.sinks.sink import Sink

_ANY: Final = -1
"""Kafka's number for a partition that the producer chooses."""


class ClosedRecords:
    """The closed refused records, as one attempt knows them; and the producer that sends records back.

    Its transactional.id is fenced before the positions are read. So an instance that was overtaken can send nothing
    afterwards.
    """

    def __init__(self, kafka: KafkaConnection, sink: Sink[Any], topic: ReplayedTopic) -> None:
        self._kafka = kafka
        self._sink = sink
        self._topic = topic
        self._producer: TransactionalProducer | None = None
        self._known: Closed | None = None
        self.ahead = Positions()
        """Source positions of sent records that the ledger does not name yet."""

    def known(self, held: Ledger) -> Closed:
        """Return the closed records.

        Raises ConflictError if their topic has lost some or the broker refuses the producer, Fenced, Unavailable.
        """
        if self._known is None:
            with _refusals_of(held.topic):
                producer = fenced_sender(self._kafka, held.name)
            if not self._sink.is_held():
                raise Fenced(f"{held.stream}: another instance of this stream has claimed the ledger")
            found = require_closed(self._kafka, held)
            self.ahead = resent_ahead(self._kafka, held)
            self._producer, self._known = producer, found
        return self._known

    def send(self, held: Ledger, records: Mapping[Position, tuple[RefusedRecord, bytes | None]]) -> None:
        """Send records with their new values to the partitions that they came from. Keys are source positions.

        After an error it is not known whether they were sent: the next call of `known` fences the producer, and finds
        out. Raises ConflictError if the broker refuses them for good, Fenced, Unavailable.
        """
        assert self._producer is not None, "nothing is known yet"  # noqa: S101 - a programming error
        assert self._known is not None, "the same"  # noqa: S101 - a programming error
        sent = Positions(sorted(records))
        # Includes earlier sends that the ledger does not name yet, so that the next attempt finds both.
        chunk = ReplayedChunk(closed=sent | self.ahead, closure=Closure.RESENT)
        positions, _ = self._topic.records(held, chunk)
        try:
            with _refusals_of(held.topic):
                self._producer.write([*_records(held.topic, records), *positions])
        except BaseException:
            self._known = None
            raise
        self.ahead.add_all(sent)
        self._known.resent.add_all(sent)

    def published(self, chunk: ReplayedChunk) -> None:
        """Record that a chunk was published: the ledger now names the records that it closes."""
        if self._known is not None:
            self._known.add(chunk)
        if chunk.closure is Closure.RESENT:
            self.ahead = Positions()


@contextmanager
def _refusals_of(topic: str) -> Iterator[None]:
    """Turn a refusal of the broker that a retry does not change into a ConflictError, which stops the request."""
    try:
        yield
    except RefusedByBroker as error:
        raise ConflictError(
            f"the broker refuses the records or the producer that sends them to {topic} ({error}): nothing was sent. Give the "
            f"job the permission to write {topic} and its transactional ids, or a fix that its settings allow; then request "
            "it again. A replay without --to-source does not write the source topic"
        ) from error


def _records(
    topic: str, records: Mapping[Position, tuple[RefusedRecord, bytes | None]]
) -> Iterable[OutputRecord]:
    now = int(time.time() * 1000)  # with the original time, retention could delete it before it is judged
    for (partition, offset), (record, value) in records.items():
        source = EventPointer(topic, partition, offset)
        headers: list[tuple[str, str | bytes | None]] = [
            *record.headers,
            (SENT_BACK_HEADER, str(source).encode()),
        ]
        # A topic has no history partition: records of a history go to any partition.
        yield topic, value, record.key, _ANY if partition == HISTORY_PARTITION else partition, now, headers
