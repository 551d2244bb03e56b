"""Committed positions as a consumer group, so that ordinary tools show a stream's lag. Nothing reads them back."""

from __future__ import annotations

from concurrent.futures import Future

import structlog
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.ledger import Vector

log = structlog.get_logger()

_TIMEOUT_SECONDS = 10.0
_CLOSE_SECONDS = 5.0


def group_of(contract_id: str) -> str:
    """Name of the consumer group that shows where a stream stands."""
    return f"tidegate.{contract_id}"


class PublishedOffsets:
    """Tells the broker where a stream stands, best effort and in the background: no batch waits for it or fails by it."""

    def __init__(self, kafka: KafkaConnection, contract_id: str) -> None:
        self._group = group_of(contract_id)
        self._admin = AdminClient({**kafka.for_librdkafka(), "log_level": 2})
        self._last: Future[ConsumerGroupTopicPartitions] | None = None
        self._has_failed = False

    def publish(self, topic: str, end: Vector) -> None:
        """Tell the first offset of each partition that the ledger does not cover. Returns at once, never raises."""
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
        """Wait a little for what was told last."""
        if self._last is not None:
            try:
                self._last.result(_CLOSE_SECONDS)
            except (KafkaException, TimeoutError):
                return  # noted already, or too late to matter

    def _look(self, future: Future[ConsumerGroupTopicPartitions]) -> None:
        error = future.exception()
        if error is None:
            self._has_failed = False
        else:
            self._note(error)

    def _note(self, error: BaseException) -> None:
        """Log the first failure in a row: a group that somebody consumes with refuses every time."""
        if not self._has_failed:
            log.warning("offsets_not_told", group=self._group, error=str(error))
        self._has_failed = True
