"""Read the records of a Kafka topic, from its beginning to its end at the start of reading."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from tidegate.contracts.errors import NotFoundError, SettingsError, Unavailable
from tidegate.contracts.formats.framing import schema_header
from tidegate.contracts.infer.infer import VALUES
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.gateway.sources.avro_values import FramedAvroValues
from tidegate.gateway.sources.source import BATCH_RECORDS, RAW_RECORDS, Chunk, TopicPart

_REACH_SECONDS: Final = 10.0
_WAIT_SECONDS: Final = 0.5
_MOST_RECORDS: Final = 1_000_000
_OFFSET_BITS: Final = 40
_FRAME_BYTES: Final = 5
_RUNS: Final = 20
"""Number of runs of offsets in the sample of each partition."""
Window = dict[int, tuple[int, int]]
"""By partition, the first offset and the one after the last."""
_FETCH: Final = {
    # By default, a consumer prefetches up to 64 MiB.
    "queued.max.messages.kbytes": 16_384,
    "fetch.message.max.bytes": 1_048_576,
}


class TopicSource:
    """A topic that is read without a consumer group, for at most `most_seconds`. Tombstones are skipped.

    The Confluent frame of JSON values is removed; `framing` is then `auto`. `avro` reads Avro values. A position holds
    the partition and the offset. Without `most_records`, about _MOST_RECORDS are read at most.
    With a `part`, its records are read as RAW_RECORDS, with frames and tombstones, and without that default limit.
    """

    def __init__(
        self,
        topic: str,
        kafka: KafkaConnection,
        most_records: int | None,
        most_seconds: float,
        *,
        part: TopicPart | None = None,
        avro: FramedAvroValues | None = None,
    ) -> None:
        self.title = f"topic {topic}"
        self.stem = topic
        self.avro_schema: Any = None if avro is None else avro.schema
        self.is_untyped = False
        self.framing = "none" if avro is None else avro.framing
        self._avro = avro
        self._topic = topic
        self._servers = str(kafka)
        self._part = part
        self._most = most_records or (_MOST_RECORDS if part is None else sys.maxsize)
        self._until = time.monotonic() + most_seconds
        self._read = 0
        self._consumer = Consumer(
            {
                **kafka.for_reader("tidegate.infer"),
                **_FETCH,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        self._ends = self._partitions()
        total = sum(end - start for start, end in self._ends.values())
        self.size: int | None = min(self._most, total)
        self.is_whole = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def chunks(self) -> Iterator[Chunk]:
        """Yield the records. Raises Unavailable."""
        for window in self._windows():
            yield from self._window(window)

    def _windows(self) -> Iterator[Window]:
        """Yield the ranges of offsets to read, one after the other."""
        sample = None if self._part is None else self._part.sample
        total = sum(end - start for start, end in self._ends.values())
        if sample is None or total <= sample:
            yield self._ends
            return
        for run in range(_RUNS):
            window = {}
            for partition, (start, end) in self._ends.items():
                length = end - start
                first, following = start + run * length // _RUNS, start + (run + 1) * length // _RUNS
                # The run's share; the next run makes up for rounding down.
                count = (run + 1) * length * sample // (total * _RUNS) - run * length * sample // (
                    total * _RUNS
                )
                window[partition] = (first, min(first + count, following))
            yield window

    def _window(self, window: Window) -> Iterator[Chunk]:
        unfinished = {partition for partition, (start, end) in window.items() if start < end}
        self._consumer.assign(
            [TopicPartition(self._topic, each, window[each][0]) for each in sorted(unfinished)]
        )
        while unfinished and self._read < self._most:
            if time.monotonic() >= self._until:
                self.is_whole = False
                return
            try:
                messages = self._consumer.consume(BATCH_RECORDS, _WAIT_SECONDS)
            except KafkaException as error:
                raise Unavailable(f"{self.title} cannot be read: {error}") from None
            kept = []
            for message in messages:
                if (partition := self._finished(message, window)) is not None:
                    unfinished.discard(partition)
                if (
                    message.error() is None
                    and _known(message.offset()) < window[_known(message.partition())][1]
                ):
                    kept.append(message)
            chunk = self._raw_chunk(kept) if self._part is not None else self._values_chunk(kept)
            self._read += len(chunk.positions)
            if len(chunk.positions):
                yield chunk

    def _values_chunk(self, messages: list[Message]) -> Chunk:
        found = [(each, value) for each in messages if (value := each.value()) is not None]
        if self._avro is None:
            values = [self._unframed(value) for _, value in found]
        else:
            values = [self._avro.payload(value, _schema_header(each)) for each, value in found]
            self.framing = self._avro.framing
        batch = pa.record_batch([pa.array(values, pa.binary())], VALUES)
        return Chunk(batch, np.array([_position(each) for each, _ in found], np.int64))

    @staticmethod
    def _raw_chunk(messages: list[Message]) -> Chunk:
        times = [each.timestamp() for each in messages]
        columns = [
            pa.array([each.value() for each in messages], pa.large_binary()),
            pa.array([_schema_header(each) for each in messages], pa.binary()),
            pa.array(
                [None if kind == TIMESTAMP_NOT_AVAILABLE else at for kind, at in times], pa.timestamp("ms")
            ),
        ]
        positions = np.array([_position(each) for each in messages], np.int64)
        return Chunk(pa.record_batch(columns, RAW_RECORDS), positions)

    def progress(self) -> int:
        """Return the number of records read."""
        return self._read

    def places(self, positions: Sequence[int]) -> str:
        """Name positions as partition/offset."""
        if not positions:
            return "no position is known"
        mask = (1 << _OFFSET_BITS) - 1
        return "offsets " + ", ".join(f"{each >> _OFFSET_BITS}/{each & mask}" for each in positions)

    def _partitions(self) -> Window:
        """Return the range of offsets of each partition. Raises Unavailable, and NotFoundError without such a topic."""
        try:
            found = self._consumer.list_topics(self._topic, timeout=_REACH_SECONDS).topics[self._topic]
            # A missing topic has no partitions, but an error.
            ends = {
                each: self._consumer.get_watermark_offsets(
                    TopicPartition(self._topic, each), timeout=_REACH_SECONDS
                )
                for each in found.partitions
            }
            ends = self._from_start(ends) if ends and self._part is not None else ends
        except KafkaException as error:
            self._consumer.close()
            raise Unavailable(f"no broker answers at {self._servers}: {error}") from None
        if not ends:
            self._consumer.close()
            raise NotFoundError(
                f"the brokers {self._servers} have no topic {self._topic}, or do not show it: {found.error}"
            )
        return ends

    def _from_start(self, ends: Window) -> Window:
        """Return the ranges of offsets from the start of `part` on."""
        part = self._part or TopicPart()
        starts = dict.fromkeys(ends, part.start)
        if part.is_time:
            asked = [TopicPartition(self._topic, each, part.start) for each in ends]
            found = self._consumer.offsets_for_times(asked, timeout=_REACH_SECONDS)
            # A negative offset means that all records are earlier.
            starts = {each.partition: each.offset if each.offset >= 0 else sys.maxsize for each in found}
        return {each: (min(max(low, starts[each]), high), high) for each, (low, high) in ends.items()}

    def _finished(self, message: Message, window: Window) -> int | None:
        """Return the partition whose range ends with this message; None if none does. Raises Unavailable for an error."""
        error = message.error()
        partition = _known(message.partition())
        if error is None:
            return partition if _known(message.offset()) >= window[partition][1] - 1 else None
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's public name of it
            return partition
        raise Unavailable(f"{self.title} cannot be read: {error}")

    def _unframed(self, value: bytes) -> bytes:
        if value[:1] != b"\0":
            return value
        rest = value[_FRAME_BYTES:]
        if rest[:1] not in (b"{", b"["):
            raise SettingsError(
                f"the records of {self.title} name a schema and are not JSON: name the registry that has it with --registry, "
                "or the Avro schema with --schema"
            )
        self.framing = "auto"
        return rest


def _schema_header(message: Message) -> bytes | None:
    headers = message.headers() or ()
    pairs = headers.items() if isinstance(headers, dict) else headers
    return schema_header(
        [(name, value.encode() if isinstance(value, str) else value) for name, value in pairs]
    )


def _position(message: Message) -> int:
    return (_known(message.partition()) << _OFFSET_BITS) + _known(message.offset())


def _known(number: int | None) -> int:
    """Return a number that is never None in a consumed message."""
    assert number is not None  # noqa: S101 - only messages to be sent have none
    return number
