"""The records of a Kafka topic, from its beginning to its end at the time of asking."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tidegate.contracts.errors import NotFoundError, SettingsError, Unavailable
from tidegate.contracts.infer.infer import VALUES
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.gateway.sources.source import BATCH_RECORDS, Chunk

_REACH_SECONDS: Final = 10.0
_WAIT_SECONDS: Final = 0.5
_MOST_RECORDS: Final = 1_000_000
_OFFSET_BITS: Final = 40
_FRAME_BYTES: Final = 5
_FETCH: Final = {
    # A consumer that reads ahead would keep 64 MiB of each partition.
    "queued.max.messages.kbytes": 16_384,
    "fetch.message.max.bytes": 1_048_576,
}


class TopicSource:
    """A topic that is read without a consumer group, for at most `most_seconds`. Tombstones are left out.

    A Confluent frame is removed from JSON; `framing` is then `auto`. A position is a partition and an offset in it.
    """

    def __init__(
        self, topic: str, kafka: KafkaConnection, most_records: int | None, most_seconds: float
    ) -> None:
        self.title = f"topic {topic}"
        self.stem = topic
        self.avro_schema: Any = None
        self.is_untyped = False
        self.framing = "none"
        self._topic = topic
        self._servers = str(kafka)
        self._most = most_records or _MOST_RECORDS
        self._until = time.monotonic() + most_seconds
        self._read = 0
        self._consumer = Consumer(
            {
                **kafka.for_librdkafka(),
                **_FETCH,
                "group.id": "tidegate.infer",  # librdkafka wants one; nothing is committed
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        self._ends = self._partitions()
        self.size: int | None = min(self._most, sum(end - start for start, end in self._ends.values()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def chunks(self) -> Iterator[Chunk]:
        """Yield the records."""
        unfinished = {partition for partition, (start, end) in self._ends.items() if start < end}
        self._consumer.assign(
            [TopicPartition(self._topic, each, self._ends[each][0]) for each in sorted(unfinished)]
        )
        while unfinished and self._read < self._most and time.monotonic() < self._until:
            try:
                messages = self._consumer.consume(BATCH_RECORDS, _WAIT_SECONDS)
            except KafkaException as error:
                raise Unavailable(f"{self.title} cannot be read: {error}") from None
            values: list[bytes] = []
            positions = []
            for message in messages:
                if (partition := self._finished(message)) is not None:
                    unfinished.discard(partition)
                if message.error() is None and (value := message.value()) is not None:
                    values.append(self._unframed(value))
                    positions.append((_known(message.partition()) << _OFFSET_BITS) + _known(message.offset()))
            self._read += len(values)
            if values:
                yield Chunk(
                    pa.record_batch([pa.array(values, pa.binary())], VALUES), np.array(positions, np.int64)
                )

    def progress(self) -> int:
        """Return how many records have been read."""
        return self._read

    def places(self, positions: Sequence[int]) -> str:
        """Name positions as partition/offset."""
        if not positions:
            return "no position is known"
        mask = (1 << _OFFSET_BITS) - 1
        return "offsets " + ", ".join(f"{each >> _OFFSET_BITS}/{each & mask}" for each in positions)

    def _partitions(self) -> dict[int, tuple[int, int]]:
        """Return for each partition its first offset, and the one after its last."""
        try:
            found = self._consumer.list_topics(self._topic, timeout=_REACH_SECONDS).topics[self._topic]
            # A topic that does not exist has no partitions, and an error.
            ends = {
                each: self._consumer.get_watermark_offsets(
                    TopicPartition(self._topic, each), timeout=_REACH_SECONDS
                )
                for each in found.partitions
            }
        except KafkaException as error:
            self._consumer.close()
            raise Unavailable(f"no broker answers at {self._servers}: {error}") from None
        if not ends:
            self._consumer.close()
            raise NotFoundError(
                f"the brokers {self._servers} have no topic {self._topic}, or do not show it: {found.error}"
            )
        return ends

    def _finished(self, message: Message) -> int | None:
        """Return the partition that ends with a message. Raises Unavailable for an error."""
        error = message.error()
        partition = _known(message.partition())
        if error is None:
            return partition if _known(message.offset()) >= self._ends[partition][1] - 1 else None
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's public name of it
            return partition
        raise Unavailable(f"{self.title} cannot be read: {error}")

    def _unframed(self, value: bytes) -> bytes:
        if value[:1] != b"\0":
            return value
        rest = value[_FRAME_BYTES:]
        if rest[:1] not in (b"{", b"["):
            raise SettingsError(
                f"the records of {self.title} name a schema and are not JSON: the registry has their schema, so that nothing is "
                "to be inferred; write them to an Avro container to infer rules"
            )
        self.framing = "auto"
        return rest


def _known(number: int | None) -> int:
    """Return a number that every consumed message has."""
    assert number is not None  # noqa: S101 - only messages to be sent have none
    return number
