"""Send records to one topic, and count those that the brokers have acknowledged."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tidegate.contracts.errors import NotFoundError, SettingsError, TidegateError, Unavailable
from tidegate.contracts.stream.kafka_connection import KafkaConnection

_REACH_SECONDS: Final = 10.0
_DELIVERY_MILLISECONDS: Final = 30_000
_WAIT_SECONDS: Final = 0.2
_SHORTEST_WAIT: Final = 0.005
"""Seconds; shorter waits are skipped, so a high rate is sent in bursts of this length."""
_REFUSALS: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
_SETTINGS: Final[dict[str, str | int | bool]] = {
    "enable.idempotence": True,  # acks=all, and a retry neither repeats nor reorders
    "delivery.timeout.ms": _DELIVERY_MILLISECONDS,
    "linger.ms": 20,
    "compression.type": "lz4",
    # The partitioner of Java producers, so that records of a key stay in one partition.
    "partitioner": "murmur2_random",
    # The topic's own limit decides; this one only bounds the client.
    "message.max.bytes": 1_000_000_000,
    "queue.buffering.max.kbytes": 64 * 1024,
    "log_level": 0,
}


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to be sent."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


class Sender:
    """Sends records to a topic, at most `rate` a second; None means without limit."""

    def __init__(self, kafka: KafkaConnection, topic: str, rate: float | None = None) -> None:
        """Connect. Raises Unavailable without a broker, NotFoundError without the topic."""
        self._topic = topic
        self._servers = str(kafka)
        self._rate = rate
        self._failures: list[KafkaError] = []
        self._due = 0.0
        self.sent = 0
        self.acknowledged = 0
        self._producer = Producer({**kafka.for_librdkafka(), **_SETTINGS, "on_delivery": self._delivered})
        try:
            found = self._producer.list_topics(topic, timeout=_REACH_SECONDS).topics[topic]
        except KafkaException as error:
            raise Unavailable(f"no broker answers at {self._servers}: {error.args[0].str()}") from None
        if not found.partitions:
            raise NotFoundError(f"the brokers {self._servers} have no topic {topic}, or do not show it")

    def send(self, record: Outgoing) -> None:
        """Send a record as soon as the rate permits. Raises SettingsError or Unavailable if an earlier record failed."""
        self._pace()
        self._raise_failure()
        while True:
            try:
                self._producer.produce(
                    self._topic, value=record.value, key=record.key, headers=[*record.headers]
                )
            except BufferError:
                self._producer.poll(_WAIT_SECONDS)
                self._raise_failure()
                continue
            except KafkaException as error:
                self._failures.append(error.args[0])
                self._raise_failure()
            self.sent += 1
            return

    def finish(self) -> None:
        """Wait until all records are acknowledged. Raises SettingsError and Unavailable if one is not."""
        while self._producer.flush(_WAIT_SECONDS):
            pass  # each record is delivered, or fails after its time-out
        self._raise_failure()

    def _pace(self) -> None:
        """Wait until the rate permits the next record. Lost time is not made up for, beyond _SHORTEST_WAIT."""
        while self._rate is not None and (left := self._due - time.monotonic()) > _SHORTEST_WAIT:
            self._producer.poll(min(left, _WAIT_SECONDS))
        if self._rate is not None:
            self._due = max(self._due, time.monotonic()) + 1 / self._rate
        self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.acknowledged += 1
        elif not self._failures:
            self._failures.append(error)

    def _raise_failure(self) -> None:
        if self._failures:
            self._producer.purge()
            raise self._error(self._failures[0])

    def _error(self, cause: Any) -> TidegateError:
        counts = f"{self.acknowledged:,} records are acknowledged, of the others some may be in the topic"
        if cause.code() in _REFUSALS:
            return SettingsError(
                f"the brokers refuse a record of topic {self._topic}: {cause.str()}; {counts}"
            )
        return Unavailable(
            f"the brokers {self._servers} do not take the records of topic {self._topic}: {cause.str()}; {counts}"
        )
