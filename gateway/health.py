"""Liveness and readiness of this process."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Literal

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tidegate.contracts.errors import Unavailable
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.gateway.storage.database import Database

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


BrokerState = Literal["reachable", "unreachable", "not configured"]


@dataclass(frozen=True, slots=True)
class Readiness:
    """The results of the readiness checks. The broker is shown and never decides: contracts are served without it."""

    database: Literal["reachable"]
    migrations: Literal["current"]
    broker: BrokerState


class HealthCheck:
    """Looks at what the process depends on."""

    def __init__(self, database: Database, broker: BrokerProbe | None) -> None:
        self._database = database
        self._broker = broker

    def readiness(self) -> Readiness:
        """Return the readiness of the process. Raises Unavailable with the reason if it is not ready."""
        if not self._database.is_current():
            raise Unavailable(
                "the tables of the registry's database are not those of this version of tidegate; "
                "restart it, and the migrations run"
            )
        return Readiness("reachable", "current", self._broker_state())

    def _broker_state(self) -> BrokerState:
        if self._broker is None:
            return "not configured"
        return "reachable" if self._broker.answers() else "unreachable"
