"""Commits of a stream's offsets to a consumer group, for lag monitoring tools. Tidegate never reads them back."""

from __future__ import annotations

from concurrent.futures import Future

import structlog
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.ledger import Vector

log = structlog.get_logger()

_TIMEOUT_SECONDS = 10.0
_CLOSE_SECONDS = 5.0


def group_of(contract_id: str) -> str:
    """Return the name of the consumer group that shows a stream's position."""
    return f"tidegate.{contract_id}"


class PublishedOffsets:
    """The committed offsets of a stream. Commits are asynchronous, best effort: no batch waits or fails for them."""

    def __init__(self, kafka: KafkaConnection, contract_id: str) -> None:
        self._group = group_of(contract_id)
        self._admin = AdminClient({**kafka.for_librdkafka(), "log_level": 2})
        self._last: Future[ConsumerGroupTopicPartitions] | None = None
        self._has_failed = False

    def publish(self, topic: str, end: Vector) -> None:
        """Commit the first offset of each partition that the ledger does not cover. Never blocks, never raises."""
        offsets = [TopicPartition(topic, partition, offset) for partition, offset in sorted(end.items())]
        if not offsets:
            return
        request = [ConsumerGroupTopicPartitions(self._group, offsets)]
        try:
            futures = self._admin.alter_consumer_group_offsets(request, request_timeout=_TIMEOUT_SECONDS)
        except (KafkaException, ValueError, TypeError) as error:
            self._note(error)
            return
        self._last = futures[self._group]
        self._last.add_done_callback(self._look)

    def close(self) -> None:
        """Wait briefly for the last commit."""
        if self._last is not None:
            try:
                self._last.result(_CLOSE_SECONDS)
            except (KafkaException, TimeoutError):
                return  # logged already, or too late to matter

    def _look(self, future: Future[ConsumerGroupTopicPartitions]) -> None:
        error = future.exception()
        # A broker refuses single partitions, and the client reports that in the result.
        places = (future.result().topic_partitions or ()) if error is None else ()
        refused = [each.error for each in places if each.error is not None]
        if error is None and not refused:
            self._has_failed = False
        else:
            self._note(error or refused[0])

    def _note(self, error: BaseException | KafkaError) -> None:
        """Log only the first of consecutive failures: a group with active members refuses every commit."""
        if not self._has_failed:
            log.warning("offsets_not_told", group=self._group, error=str(error))
        self._has_failed = True
