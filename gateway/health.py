"""Liveness and readiness of this process."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Literal

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tidegate.contracts.errors import Unavailable
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.gateway.storage.database import Database

_TIMEOUT_SECONDS = 1.0
_FRESH_SECONDS = 5.0
"""Age up to which an answer is given again."""


class BrokerProbe:
    """A probe that requests the metadata of a Kafka cluster. It connects on first use and stays connected.

    Anyone can ask for it, and each request takes a thread. So only one at a time waits for the cluster.
    """

    def __init__(self, kafka: KafkaConnection) -> None:
        self._kafka = kafka
        self._client: AdminClient | None = None
        self._lock = threading.Lock()
        self._last: tuple[float, bool] | None = None

    def answers(self) -> bool:
        """Return whether the cluster responds within one second, or did so a few seconds ago."""
        if (last := self._last) is not None and (self._is_fresh(last) or self._lock.locked()):
            return last[1]
        with self._lock:
            if self._last is None or not self._is_fresh(self._last):
                self._last = (time.monotonic(), self._responds())
            return self._last[1]

    @staticmethod
    def _is_fresh(answer: tuple[float, bool]) -> bool:
        return time.monotonic() - answer[0] < _FRESH_SECONDS

    def _responds(self) -> bool:
        if self._client is None:
            self._client = AdminClient(
                # librdkafka logs plain text to stderr, which would corrupt our JSON log.
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
    """The results of the readiness checks.

    `broker` is informational only: the registry serves contracts without a broker.
    """

    database: Literal["reachable"]
    migrations: Literal["current"]
    broker: BrokerState


class HealthCheck:
    """The readiness check of this process: its database, and the broker if one is configured (None: it is not)."""

    def __init__(self, database: Database, broker: BrokerProbe | None) -> None:
        self._database = database
        self._broker = broker

    def readiness(self) -> Readiness:
        """Return the readiness of the process. Raises Unavailable if the database is unreachable or out of date."""
        if not self._database.is_current():
            raise Unavailable(
                "the tables of the registry's database are older than this version of tidegate needs; "
                "restart it, and the migrations run"
            )
        return Readiness("reachable", "current", self._broker_state())

    def _broker_state(self) -> BrokerState:
        if self._broker is None:
            return "not configured"
        return "reachable" if self._broker.answers() else "unreachable"
