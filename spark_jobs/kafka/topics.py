"""Topics through the admin client: identity and offsets of the source, and output topics with required settings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import structlog
from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from tidegate.contracts.errors import Fenced, StreamStopped, Unavailable
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.ledger import Vector
from tidegate.contracts.stream.output_topics import (
    LEDGER_POLICY,
    LEDGER_SETTINGS,
    accepted_settings,
    dropped_settings,
    is_enough,
    marks_settings,
    output_settings,
    quarantine_settings,
)

log = structlog.get_logger()

_TIMEOUT_SECONDS = 15.0
_POLL_SECONDS = 0.05
_MARKER_SECONDS = 0.5
"""Maximum wait for the markers of a commit: an open transaction of another producer looks the same."""
_MARKER_POLL_SECONDS = 0.005
_RETENTION = ("retention.ms", "retention.bytes")
FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)  # noqa: SLF001 - the library's public constants begin with an underscore

REFUSED = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.POLICY_VIOLATION,
)
"""Errors of a broker that a retry does not change: a permission, a topic's settings, or a policy forbids it."""
_SETTLING = (
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
)
"""Errors of a broker for a partition that was just created or has just moved."""
_NOT_LET_IN = (KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED)  # noqa: SLF001 - the same


class TransactionEnded(Unavailable):
    """A transaction of this stream has ended without a commit, and its ledger is unchanged.

    It was open for longer than its timeout, or another instance has fenced it and has not claimed the ledger yet.
    """

    @classmethod
    def by_broker(cls, stream: str, timeout_seconds: float) -> TransactionEnded:
        """Return the error for a transaction that the broker has ended."""
        return cls(
            f"{stream}: the broker has ended a transaction of this stream, whose ledger is unchanged; the stream starts "
            "again. Either another instance is about to take over, or the transaction was open for more than "
            f"{timeout_seconds} s. If this comes back, raise TIDEGATE_TRANSACTION_TIMEOUT_SECONDS or lower "
            "TIDEGATE_MAX_OFFSETS"
        )


class RefusedByBroker(Unavailable):
    """The broker refuses it for a reason that a retry does not change, until a person changes something."""


class TooLarge(StreamStopped):
    """A topic's settings refuse a record, or the record batch of the client that contains it."""


@contextmanager
def kafka_errors(doing: str) -> Iterator[None]:
    """Convert the client's errors: Fenced if a newer instance took over, TooLarge for a record, else Unavailable.

    TooLarge stops the stream, because a record that exceeds a topic's limit would be refused by each attempt.
    RefusedByBroker is an Unavailable, because a stream goes on as soon as a person has given it a permission.
    """
    try:
        yield
    except KafkaException as error:
        cause = error.args[0]
        if isinstance(cause, KafkaError) and cause.code() in FENCED:
            raise Fenced(f"{doing}: another instance of this stream has taken over") from error
        if isinstance(cause, KafkaError) and cause.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            raise TooLarge(
                f"{doing}: {cause.str()}. A record that the source holds well compressed can need more room here: give "
                "the topic named above a larger max.message.bytes (kafka-configs.sh --alter --entity-type topics "
                "--entity-name TOPIC --add-config max.message.bytes=BYTES), and start again"
            ) from error
        reason = f"{doing}: {cause.str() if isinstance(cause, KafkaError) else cause}"
        if isinstance(cause, KafkaError) and cause.code() in REFUSED:
            raise RefusedByBroker(reason) from error
        raise Unavailable(reason) from error


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic as described by the broker; `max_message_bytes` limits a record batch."""

    name: str
    topic_id: str
    partitions: int
    max_message_bytes: int


def _noting(refusals: list[str]) -> Callable[[KafkaError], None]:
    """Return a callback that collects the broker's messages about failed authentication.

    It must not reference the object that owns the client. Such a cycle would keep the client, its threads and its
    connections until the garbage collector runs, and a process can have about a thousand clients.
    """

    def note(error: KafkaError) -> None:
        if error.code() in _NOT_LET_IN:
            refusals.append(error.str())

    return note


class Topics:
    """The broker's topics, through its admin API. Every method raises Unavailable if the broker does not answer."""

    def __init__(self, kafka: KafkaConnection) -> None:
        self._refusals: list[str] = []
        callback: Any = _noting(self._refusals)  # the client's types have no callbacks
        self._admin = AdminClient({**kafka.for_admin(), "log_level": 2, "error_cb": callback})

    @contextmanager
    def _asking(self, doing: str) -> Iterator[None]:
        """Convert errors as `kafka_errors` does; report failed authentication, for which a request only times out."""
        try:
            with kafka_errors(doing):
                yield
        except Unavailable as error:
            self._refusals.clear()
            self._admin.poll(0)
            if self._refusals:
                raise Unavailable(f"{doing}: {self._refusals[-1]}; look at --kafka-config") from error
            raise

    def describe(self, name: str) -> TopicDescription | None:
        """Return the description of a topic; None if it does not exist."""
        identity = self.identity(name)
        if identity is None:
            return None
        topic_id, partitions = identity
        return TopicDescription(name, topic_id, partitions, int(self._settings(name)["max.message.bytes"]))

    def identity(self, name: str) -> tuple[str, int] | None:
        """Return id and number of partitions of a topic, in one request; None if it does not exist."""
        with self._asking(f"describe topic {name}"):
            futures = self._admin.describe_topics(TopicCollection([name]), request_timeout=_TIMEOUT_SECONDS)
            try:
                found = futures[name].result()
            except KafkaException as error:
                if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    return None
                raise
        return str(found.topic_id), len(found.partitions)

    def earliest(self, name: str) -> Vector:
        """Return the first offset of each partition that has not been deleted."""
        spec: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call] # it has no types
        return self._offsets(name, spec)

    def latest(self, name: str) -> Vector:
        """Return the high watermark of each partition: the offset after the last record, committed or not."""
        spec: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call] # it has no types
        return self._offsets(name, spec)

    def end_after_commit(self, name: str) -> Vector:
        """Return the high watermark of each partition, past the markers of transactions that were committed before.

        The broker acknowledges a commit before it writes the markers. Waits for them for half a second at most.
        """
        committed = self.latest(name)
        deadline = time.monotonic() + _MARKER_SECONDS
        while not self._is_decided(name, committed) and time.monotonic() < deadline:
            time.sleep(_MARKER_POLL_SECONDS)
        return self.latest(name)  # the markers may be past the first watermark

    def _is_decided(self, name: str, end: Vector) -> bool:
        """Return whether all transactions with records before `end` were committed or aborted, with their markers."""
        spec: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call] # it has no types
        stable = self._offsets(name, spec, IsolationLevel.READ_COMMITTED)
        return all(stable.get(partition, 0) >= offset for partition, offset in end.items())

    def at_time(self, name: str, milliseconds: int) -> Vector:
        """Return the first offset of each partition at or after a time, in milliseconds since 1970.

        Partitions without such a record are missing from the result.
        """
        spec: OffsetSpec = OffsetSpec.for_timestamp(milliseconds)
        return {partition: offset for partition, offset in self._offsets(name, spec).items() if offset >= 0}

    def is_compacted(self, name: str) -> bool:
        """Return whether a topic is compacted: records may be deleted when newer ones of their key arrive."""
        return "compact" in self._settings(name)["cleanup.policy"]

    def ensure_quarantine(self, name: str, source: TopicDescription, days: int | None) -> None:
        """Create a quarantine topic that keeps records for `days` (None: forever), or check the existing one.

        Raises StreamStopped, with the command to run, if a setting of an existing topic would lose records. The
        operator may choose any retention of at least one day; one that is shorter than the contract's is logged.
        """
        self._ensure(name, source.partitions, quarantine_settings(source.max_message_bytes, days))

    def ensure_accepted(self, name: str, source: TopicDescription, days: int | None) -> None:
        """Create an accepted topic that keeps records for `days` (None: a week longer than the source), or check it.

        Raises as `ensure_quarantine` does.
        """
        wanted = accepted_settings(source.max_message_bytes, days, self._retention_ms(source.name))
        self._ensure(name, source.partitions, wanted)

    def ensure_dropped(self, name: str, source: TopicDescription) -> None:
        """Create the topic of dropped positions of a source, or check it. Raises as `ensure_quarantine` does."""
        self._ensure(name, 1, dropped_settings(source.max_message_bytes, self._retention_ms(source.name)))

    def ensure_replayed(self, name: str, source: TopicDescription) -> None:
        """Create the topic of replayed positions, which are kept forever, or check it.

        Raises as `ensure_quarantine` does.
        """
        self._ensure(name, 1, output_settings(source.max_message_bytes))

    def ensure_marks(self, name: str, source: TopicDescription, days: int | None) -> None:
        """Create the topic of marks of deleted keys, for refused records that are kept for `days`, or check it.

        Raises as `ensure_quarantine` does.
        """
        wanted = marks_settings(source.max_message_bytes, days, self._retention_ms(source.name))
        self._ensure(name, 1, wanted)

    def delete_before(self, name: str, offsets: Vector) -> None:
        """Delete the records of partitions before these offsets, for all readers. Raises Unavailable."""
        with self._asking(f"delete records of topic {name}"):
            places = [TopicPartition(name, partition, offset) for partition, offset in offsets.items()]
            for future in self._admin.delete_records(places, request_timeout=_TIMEOUT_SECONDS).values():
                future.result()

    def _ensure(self, name: str, partitions: int, wanted: dict[str, str]) -> None:
        if not self._create(name, partitions, wanted):
            self._require(name, wanted)

    def _retention_ms(self, source: str) -> int:
        """Return the retention of a topic in milliseconds; -1 if it is unlimited or the topic is compacted."""
        settings = self._settings(source)
        return -1 if "compact" in settings["cleanup.policy"] else int(settings["retention.ms"])

    def ensure_compacted(self, name: str, partitions: int) -> None:
        """Create a compacted topic, or require that the existing one is compacted and has enough partitions.

        Otherwise raises StreamStopped, with a command that corrects the settings.
        """
        if self._create(name, partitions, LEDGER_SETTINGS):
            return
        self._require(name, LEDGER_POLICY)
        identity = self.identity(name)
        if identity is not None and identity[1] < partitions:
            raise StreamStopped(
                f"topic {name} has {identity[1]} partitions and needs {partitions}; kafka-topics.sh --alter --topic {name} "
                f"--partitions {partitions}"
            )

    def _create(self, name: str, partitions: int, settings: dict[str, str]) -> bool:
        with self._asking(f"create topic {name}"):
            try:
                self._admin.create_topics(
                    [NewTopic(name, partitions, config=settings)], request_timeout=_TIMEOUT_SECONDS
                )[name].result()
            except KafkaException as error:
                if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    return False
                raise
        self._await(name)
        return True

    def _await(self, name: str) -> None:
        """Wait until the broker that answers our requests knows a new topic."""
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while self.identity(name) is None:
            if time.monotonic() > deadline:
                raise Unavailable(f"topic {name} was created, but the broker does not know it yet")
            time.sleep(_POLL_SECONDS)

    def _require(self, name: str, wanted: dict[str, str]) -> None:
        actual = self._settings(name)
        wrong = [key for key, value in wanted.items() if not is_enough(key, actual[key], value)]
        if wrong:
            raise StreamStopped(
                f"topic {name} would not keep what is written to it ({_listed(actual, wrong)}); "
                f"{_command(name, wanted, wrong)}"
            )
        limits = [key for key in _RETENTION if key in wanted and _is_shorter(actual[key], wanted[key])]
        if _counts_arrival(wanted) and not _counts_arrival(actual) and actual["retention.ms"] != "-1":
            limits = ["message.timestamp.type", *limits]
        if limits:
            log.warning(
                "output_topic_forgets",
                topic=name,
                settings=_listed(actual, limits),
                command=_command(name, wanted, limits),
            )

    def _settings(self, name: str) -> dict[str, str]:
        with self._asking(f"read the settings of topic {name}"):
            resource = ConfigResource(ConfigResource.Type.TOPIC, name)
            entries = self._admin.describe_configs([resource], request_timeout=_TIMEOUT_SECONDS)[
                resource
            ].result()
        return {key: str(entry.value) for key, entry in entries.items()}

    def _offsets(
        self, name: str, spec: OffsetSpec, isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    ) -> Vector:
        identity = self.identity(name)
        if identity is None:
            raise Unavailable(f"topic {name} does not exist")
        with self._asking(f"look up offsets of topic {name}"):
            request = {TopicPartition(name, partition): spec for partition in range(identity[1])}
            deadline = time.monotonic() + _TIMEOUT_SECONDS
            while True:
                futures = self._admin.list_offsets(
                    request, isolation_level=isolation, request_timeout=_TIMEOUT_SECONDS
                )
                try:
                    return {found.partition: future.result().offset for found, future in futures.items()}
                except KafkaException as error:
                    if error.args[0].code() not in _SETTLING or time.monotonic() > deadline:
                        raise
                time.sleep(_POLL_SECONDS)


def _is_shorter(actual: str, wanted: str) -> bool:
    """Return whether a retention is shorter than the wanted one; -1 is unlimited."""
    return actual != "-1" and (wanted == "-1" or int(actual) < int(wanted))


def _counts_arrival(settings: dict[str, str]) -> bool:
    """Return whether retention counts from the arrival of a record, not from the record's own timestamp."""
    return settings.get("message.timestamp.type") == "LogAppendTime"


def _listed(settings: dict[str, str], keys: list[str]) -> str:
    return ", ".join(f"{key} is {settings[key]}" for key in keys)


def _command(topic: str, wanted: dict[str, str], keys: list[str]) -> str:
    settings = ",".join(f"{key}={wanted[key]}" for key in keys)
    return f"kafka-configs.sh --alter --entity-type topics --entity-name {topic} --add-config {settings}"
