"""A Kafka producer for one topic, with a rate limit and a count of the acknowledged records."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tidegate.contracts.errors import NotFoundError, SettingsError, TidegateError, Unavailable
from tidegate.contracts.stream.kafka_connection import KafkaConnection

_REACH_SECONDS: Final = 10.0
_DELIVERY_MILLISECONDS: Final = 30_000
_WAIT_SECONDS: Final = 0.2
_SHORTEST_WAIT: Final = 0.005
"""In seconds. Shorter waits are skipped, so at a high rate records are sent in bursts of this length."""
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
_FATAL: Final = cast("type[BaseException]", KafkaError)
"""What a callback of the client raises for a fatal error. It is no subclass of BaseException."""
_SETTINGS: Final[dict[str, str | int | bool]] = {
    "enable.idempotence": True,  # implies acks=all; a retry neither duplicates nor reorders records
    "delivery.timeout.ms": _DELIVERY_MILLISECONDS,
    "linger.ms": 20,
    "compression.type": "lz4",
    # The default of Java producers, so a key maps to the same partition as theirs.
    "partitioner": "murmur2_random",
    # The maximum, so that the limit of the topic applies.
    "message.max.bytes": 1_000_000_000,
    "queue.buffering.max.kbytes": 64 * 1024,
    "log_level": 0,
}


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to send; a `value` of None is a tombstone."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


class Sender:
    """A producer of records to one topic, at most `rate` records a second (None: no limit)."""

    def __init__(self, kafka: KafkaConnection, topic: str, rate: float | None = None) -> None:
        """Connect. Raises Unavailable if no broker responds, NotFoundError if there is no such topic."""
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
        """Queue a record as soon as the rate permits.

        Raises SettingsError or Unavailable if this record or an earlier one failed.
        """
        self._pace()
        self._raise_failure()
        while True:
            try:
                self._producer.produce(
                    self._topic, value=record.value, key=record.key, headers=[*record.headers]
                )
            except BufferError:
                self._with_callbacks(self._producer.poll, _WAIT_SECONDS)
                self._raise_failure()
                continue
            except KafkaException as error:
                # A record after a fatal error only fails with "fatal error"; the callback has the cause.
                self._with_callbacks(self._producer.poll, 0)
                self._failures.append(error.args[0])
                self._raise_failure()
            self.sent += 1
            return

    def finish(self) -> None:
        """Wait until all records are acknowledged. Raises SettingsError or Unavailable if one is not."""
        while self._with_callbacks(self._producer.flush, _WAIT_SECONDS):
            pass  # this ends: each record is delivered, or fails after delivery.timeout.ms
        self._raise_failure()

    def _pace(self) -> None:
        """Wait until the rate permits the next record. Idle time does not accumulate into a burst."""
        while self._rate is not None and (left := self._due - time.monotonic()) > _SHORTEST_WAIT:
            self._with_callbacks(self._producer.poll, min(left, _WAIT_SECONDS))
        if self._rate is not None:
            self._due = max(self._due, time.monotonic()) + 1 / self._rate
        self._with_callbacks(self._producer.poll, 0)

    def _with_callbacks(self, method: Callable[[float], int], seconds: float) -> int:
        """Call `poll` or `flush`. Note a fatal error of the client, which is the cause of failures noted before it."""
        try:
            return method(seconds)
        except KafkaException as error:
            self._failures.insert(0, error.args[0])
        except _FATAL as error:
            self._failures.insert(0, cast("KafkaError", error))
        return 0

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
