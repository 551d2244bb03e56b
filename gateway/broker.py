"""Whether the broker answers, for the readiness page."""

from __future__ import annotations

import threading

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tidegate.contracts.stream.kafka_connection import KafkaConnection

_TIMEOUT_SECONDS = 1.0


class BrokerProbe:
    """Asks a Kafka cluster for its metadata; the connection is made at the first question and kept."""

    def __init__(self, kafka: KafkaConnection) -> None:
        self._kafka = kafka
        self._client: AdminClient | None = None
        self._lock = threading.Lock()

    def answers(self) -> bool:
        """Return whether the cluster answers within a second."""
        with self._lock:
            if self._client is None:
                self._client = AdminClient(
                    # librdkafka's own log would break the JSON lines of ours.
                    {**self._kafka.for_librdkafka(), "log_level": 0}
                )
            try:
                self._client.list_topics(timeout=_TIMEOUT_SECONDS)
            except KafkaException:
                return False
            return True
