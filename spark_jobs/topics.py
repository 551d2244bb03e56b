"""Topics as the job needs them: the source's identity and range, output topics with the settings they must have."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import (
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from contracts.errors import Fenced, StreamStopped, Unavailable
from contracts.ledger import Vector

_TIMEOUT_SECONDS = 15.0
_POLL_SECONDS = 0.05
_NO_LIMIT = str(2**63 - 1)
_HEADER_ROOM_BYTES = 64 * 1024
"""What our headers may add to a record, with the margin of a record batch."""

_FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)  # noqa: SLF001 - the library's public constants begin with an underscore


@contextmanager
def kafka_errors(doing: str) -> Iterator[None]:
    """Turn the client's errors into ours: Fenced when a newer instance took over, else Unavailable."""
    try:
        yield
    except KafkaException as error:
        cause = error.args[0]
        if isinstance(cause, KafkaError) and cause.code() in _FENCED:
            raise Fenced(f"{doing}: another instance of this stream has taken over") from error
        raise Unavailable(f"{doing}: {cause.str() if isinstance(cause, KafkaError) else cause}") from error


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the broker describes it; `max_message_bytes` bounds a record batch."""

    name: str
    topic_id: str
    partitions: int
    max_message_bytes: int


class Topics:
    """The broker's topics, through its admin interface. Every method raises Unavailable when it does not answer."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 2})

    def describe(self, name: str) -> Topic | None:
        """Describe a topic; None when there is none of that name."""
        identity = self.identity(name)
        if identity is None:
            return None
        topic_id, partitions = identity
        return Topic(name, topic_id, partitions, int(self._settings(name)["max.message.bytes"]))

    def identity(self, name: str) -> tuple[str, int] | None:
        """Id and number of partitions of a topic, in one request; None when there is none of that name."""
        with kafka_errors(f"describe topic {name}"):
            futures = self._admin.describe_topics(TopicCollection([name]), request_timeout=_TIMEOUT_SECONDS)
            try:
                found = futures[name].result()
            except KafkaException as error:
                if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    return None
                raise
        return str(found.topic_id), len(found.partitions)

    def earliest(self, name: str) -> Vector:
        """First offset of each partition that has not been deleted."""
        spec: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call] # it has no types
        return self._offsets(name, spec)

    def latest(self, name: str) -> Vector:
        """High watermark of each partition: the offset after the last record, committed or not."""
        spec: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call] # it has no types
        return self._offsets(name, spec)

    def ensure_output(self, name: str, source: Topic) -> None:
        """Create an output topic, or require that the existing one keeps what is written to it.

        Raises StreamStopped with the command to type when a setting of an existing topic would lose records.
        """
        wanted = {
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "max.message.bytes": str(source.max_message_bytes + _HEADER_ROOM_BYTES),
            # A refused record keeps its own time: the broker must neither replace it nor refuse an old one.
            "message.timestamp.type": "CreateTime",
            "message.timestamp.before.max.ms": _NO_LIMIT,
            "message.timestamp.after.max.ms": _NO_LIMIT,
        }
        if not self._create(name, source.partitions, wanted):
            self._require(name, wanted)

    def ensure_compacted(self, name: str, partitions: int) -> None:
        """Create a compacted topic, or require that the existing one is compacted."""
        wanted = {"cleanup.policy": "compact"}
        if not self._create(name, partitions, wanted):
            self._require(name, wanted)

    def _create(self, name: str, partitions: int, settings: dict[str, str]) -> bool:
        with kafka_errors(f"create topic {name}"):
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
        """Wait until a new topic is known to the broker that answers us."""
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while self.identity(name) is None:
            if time.monotonic() > deadline:
                raise Unavailable(f"topic {name} was created, but the broker does not know it yet")
            time.sleep(_POLL_SECONDS)

    def _require(self, name: str, wanted: dict[str, str]) -> None:
        actual = self._settings(name)
        wrong = [key for key, value in wanted.items() if not _is_enough(key, actual[key], value)]
        if wrong:
            settings = ",".join(f"{key}={wanted[key]}" for key in wrong)
            raise StreamStopped(
                f"topic {name} would not keep what is written to it ("
                + ", ".join(f"{key} is {actual[key]}" for key in wrong)
                + f"); kafka-configs.sh --alter --entity-type topics --entity-name {name} --add-config {settings}"
            )

    def _settings(self, name: str) -> dict[str, str]:
        with kafka_errors(f"read the settings of topic {name}"):
            resource = ConfigResource(ConfigResource.Type.TOPIC, name)
            entries = self._admin.describe_configs([resource], request_timeout=_TIMEOUT_SECONDS)[
                resource
            ].result()
        return {key: str(entry.value) for key, entry in entries.items()}

    def _offsets(self, name: str, spec: OffsetSpec) -> Vector:
        identity = self.identity(name)
        if identity is None:
            raise Unavailable(f"topic {name} does not exist")
        with kafka_errors(f"look up offsets of topic {name}"):
            request = {TopicPartition(name, partition): spec for partition in range(identity[1])}
            futures = self._admin.list_offsets(request, request_timeout=_TIMEOUT_SECONDS)
            return {found.partition: future.result().offset for found, future in futures.items()}


def _is_enough(key: str, actual: str, wanted: str) -> bool:
    match key:
        case "retention.ms":
            return True  # how long refused records are kept is the operator's choice
        case "max.message.bytes":
            return int(actual) >= int(wanted)
        case _:
            return actual == wanted
