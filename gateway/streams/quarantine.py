"""Reading of refused records from a quarantine topic, bounded in count, bytes and time.

The contract of the stream determines the topic. Records of other streams in it are never returned. Otherwise a
producer could write records to it for a person who may not read their own topic.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import zip_longest

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from tidegate.contracts.errors import NotFoundError, Unavailable
from tidegate.contracts.stream.evidence import (
    EventPointer,
    Evidence,
    headers_of,
    read_evidence,
    read_timestamp,
)
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.output_topics import quarantine_topic

FIRST_WINDOW = 64
"""Offsets per topic that the first step back from the end reads; each further step doubles it."""
MOST_OFFSETS = 4096
NEAR = 64
"""Gaps of fewer offsets between two records are read through, because a seek costs about as much."""
MOST_BYTES = 64 * 1024 * 1024
PART_BYTES = 8 * 1024 * 1024
"""Bytes after which a part of the records at some positions ends, so that it may exceed this by one record."""
GIVE_UP_AFTER = timedelta(seconds=4)
"""Maximum time that a page waits for the broker."""
QUIET_AFTER_FAILURE = timedelta(seconds=5)
"""How long an unreachable broker is not asked again, so that pages load immediately during an outage."""

_NO_BROKER = "the registry knows no Kafka broker: start it with TIDEGATE_BOOTSTRAP_SERVERS set"

_Window = dict[int, tuple[int, int]]
"""Partition to (first offset, offset after the last)."""


class NoBroker(Unavailable):
    """A request that needs Kafka, to a registry without brokers: asking again does not help."""

    def __init__(self, message: str = _NO_BROKER) -> None:
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Origin:
    """The stream whose refused records are read: the id of its contract, and the `topic` that the contract owns."""

    contract_id: str
    topic: str

    @property
    def quarantine_topic(self) -> str:
        """Return the name of the topic for the stream's refused records."""
        return quarantine_topic(self.topic)

    def owns(self, evidence: Evidence) -> bool:
        """Return whether a record was read from this topic and refused by this contract."""
        contract_id, _, _ = evidence.contract.rpartition("@")
        return evidence.source.topic == self.topic and contract_id == self.contract_id


@dataclass(frozen=True, slots=True)
class QuarantinedRecord:
    """One record of a quarantine topic, with the evidence that Tidegate added to it."""

    pointer: EventPointer
    timestamp: datetime | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    evidence: Evidence
    refused_at: datetime | None = None
    """When the broker received it; None unless the topic records the time of arrival."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the records at requested positions. `looked_at` counts the positions, also those without a record."""

    records: list[QuarantinedRecord]
    looked_at: int


@dataclass(frozen=True, slots=True)
class Latest:
    """The newest requested records, newest first.

    `looked_at` counts the records read to find them; `is_complete` is True if the whole topic was read.
    """

    records: tuple[QuarantinedRecord, ...]
    looked_at: int
    is_complete: bool


class QuarantineReader:
    """A thread-safe reader of quarantine topics, with one cached consumer that never commits.

    Methods raise Unavailable if the broker does not answer in time.
    """

    def __init__(self, kafka: KafkaConnection) -> None:
        self._kafka = kafka
        self._lock = threading.Lock()
        self._consumer: Consumer | None = None
        self._quiet_until = 0.0

    def latest(self, origin: Origin, *, limit: int, rule: str | None = None) -> Latest:
        """Return the newest `limit` refused records of a stream; only those that violate `rule`, if given.

        A missing topic has no records: the first refusal creates it.
        """
        with self._session(origin) as session:
            return session.latest(limit, rule)

    def record(self, origin: Origin, partition: int, offset: int) -> QuarantinedRecord:
        """Return one refused record of a stream by its position in the quarantine topic. Raises NotFoundError."""
        with self._session(origin) as session:
            low, high = session.edges().get(partition, (0, 0))
            if low <= offset < high:
                for message in session.read({partition: (offset, offset + 1)}):
                    if (found := _record(message, origin)) is not None:
                        return found
        raise NotFoundError(
            f"{origin.quarantine_topic}/{partition}/{offset} holds no refused record of {origin.contract_id}; retention may "
            "have removed it"
        )

    def records(
        self, origin: Origin, positions: Iterable[tuple[int, int]], patience: timedelta = GIVE_UP_AFTER
    ) -> Iterator[QuarantinedRecord]:
        """Yield the refused records of a stream at some (partition, offset), in any order, without missing ones.

        They are read in parts, so a caller who keeps only what it needs of each holds few of them in memory.
        `patience` is the maximum time to read them.
        """
        for part in self.parts(origin, positions, patience):
            yield from part.records

    def parts(
        self, origin: Origin, positions: Iterable[tuple[int, int]], patience: timedelta = GIVE_UP_AFTER
    ) -> Iterator[Part]:
        """Yield the records at some positions like `records`, in parts of about PART_BYTES, at least one record each.

        Other callers may read between two parts.
        """
        left = set(positions)
        while left:
            with self._session(origin, patience) as session:
                begun = time.monotonic()
                found, unread = session.at(left)
            patience -= timedelta(seconds=time.monotonic() - begun)
            yield Part(found, len(left) - len(unread))
            left = unread

    def topic_id(self, origin: Origin) -> str | None:
        """Return the id of a stream's quarantine topic, which changes if it is recreated; None without the topic."""
        name, seconds = origin.quarantine_topic, GIVE_UP_AFTER.total_seconds()
        admin = AdminClient({**self._kafka.for_librdkafka(), "log_level": 0})
        try:
            asked = admin.describe_topics(TopicCollection([name]), request_timeout=seconds)
            return str(asked[name].result().topic_id)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise Unavailable(f"the broker at {self._kafka} does not answer") from error

    def close(self) -> None:
        """Close the connection to the broker."""
        with self._lock:
            self._drop_consumer()

    @contextmanager
    def _session(self, origin: Origin, patience: timedelta = GIVE_UP_AFTER) -> Iterator[_Session]:
        deadline = time.monotonic() + patience.total_seconds()
        if not self._lock.acquire(timeout=GIVE_UP_AFTER.total_seconds()):
            raise Unavailable("the desk is still reading for another user; try again")
        try:
            self._refuse_while_quiet()
            yield _Session(self._connected(), origin, deadline)
        except (KafkaException, Unavailable) as error:
            # A failed consumer may have an incomplete assignment: the next session starts with a new consumer.
            self._drop_consumer()
            if not isinstance(error, Unavailable):
                self._quiet_until = time.monotonic() + QUIET_AFTER_FAILURE.total_seconds()
                raise Unavailable(f"the broker at {self._kafka} does not answer") from error
            raise
        finally:
            self._lock.release()

    def _refuse_while_quiet(self) -> None:
        if time.monotonic() < self._quiet_until:
            raise Unavailable(f"the broker at {self._kafka} did not answer a moment ago")

    def _connected(self) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer(
                {
                    **self._kafka.for_reader("tidegate-desk"),
                    "client.id": "tidegate-desk",
                    "auto.offset.reset": "error",
                    "allow.auto.create.topics": False,
                    "fetch.wait.max.ms": 50,
                    # What is fetched ahead takes memory too.
                    "queued.max.messages.kbytes": PART_BYTES // 1024,
                    "socket.connection.setup.timeout.ms": 3000,
                    "reconnect.backoff.max.ms": 1000,
                    "log_level": 0,  # an unreachable broker is reported on the page, once
                }
            )
        return self._consumer

    def _drop_consumer(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


class _Session:
    """Look-ups in the quarantine topic of one stream by one caller, all within one deadline."""

    def __init__(self, consumer: Consumer, origin: Origin, deadline: float) -> None:
        self._consumer = consumer
        self._origin = origin
        self._topic = origin.quarantine_topic
        self._deadline = deadline

    def edges(self) -> _Window:
        """Return (first offset, offset after the last committed record) by partition; {} without the topic."""
        metadata = self._consumer.list_topics(self._topic, timeout=self._left()).topics[self._topic]
        if metadata.error is not None:
            if metadata.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return {}
            raise KafkaException(metadata.error)
        edges: _Window = {}
        for partition in sorted(metadata.partitions):
            found = self._consumer.get_watermark_offsets(
                TopicPartition(self._topic, partition), timeout=self._left()
            )
            if found is None:
                raise Unavailable("the broker took too long to tell where the quarantine topic ends")
            edges[partition] = found
        return edges

    def latest(self, limit: int, rule: str | None) -> Latest:
        """Return the newest records; read backwards until enough are found or the bounds are reached."""
        edges = self.edges()
        upper = {partition: high for partition, (_, high) in edges.items()}
        found: list[QuarantinedRecord] = []
        looked_at = read_bytes = offsets = 0
        step = max(4, FIRST_WINDOW // max(1, len(edges)))
        while True:
            window = {
                partition: (max(low, upper[partition] - step), upper[partition])
                for partition, (low, _) in edges.items()
                if upper[partition] > low
            }
            if not window or len(found) >= limit or offsets >= MOST_OFFSETS or read_bytes >= MOST_BYTES:
                break
            for message in self.read(window):
                looked_at += 1
                read_bytes += len(message.value() or b"")
                record = _record(message, self._origin)
                if record is not None and (rule is None or rule in record.evidence.rules):
                    found.append(record)
            offsets += sum(end - start for start, end in window.values())
            upper.update({partition: start for partition, (start, _) in window.items()})
            step *= 2
        found.sort(key=_newest_first)
        return Latest(tuple(found[:limit]), looked_at, is_complete=not window)

    def at(
        self, positions: Iterable[tuple[int, int]]
    ) -> tuple[list[QuarantinedRecord], set[tuple[int, int]]]:
        """Return the records at scattered positions, without missing ones, and the positions left after PART_BYTES.

        Near positions are read in one window, with the records between them; each pass reads one window per partition.
        """
        edges = self.edges()
        wanted = {
            (partition, offset)
            for partition, offset in positions
            if edges.get(partition, (0, 0))[0] <= offset < edges.get(partition, (0, 0))[1]
        }
        found: list[QuarantinedRecord] = []
        read_until: dict[int, int] = {}
        size = 0
        for window in _windows(wanted):
            for message in self.read(window):
                partition, offset = message.partition() or 0, message.offset() or 0
                read_until[partition] = offset + 1
                if (partition, offset) in wanted and (record := _record(message, self._origin)) is not None:
                    found.append(record)
                    size += _size(record)
                if size >= PART_BYTES:
                    return found, {each for each in wanted if each[1] >= read_until.get(each[0], 0)}
            read_until.update({partition: end for partition, (_, end) in window.items()})
        return found, set()

    def read(self, window: _Window) -> Iterator[Message]:
        """Yield the messages in a window. Offsets without a record (transaction markers) are skipped."""
        open_until = {partition: end for partition, (_, end) in window.items()}
        self._consumer.assign(
            [TopicPartition(self._topic, partition, start) for partition, (start, _) in window.items()]
        )
        while open_until:
            message = self._consumer.poll(self._left())
            if message is None:
                continue
            partition, offset = message.partition() or 0, message.offset() or 0
            # At the end of a partition the consumer returns this error (`for_reader` sets enable.partition.eof): what is
            # left of the window are transaction markers.
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's public name
                raise KafkaException(error)
            if partition not in open_until:
                continue
            if error is None and offset < open_until[partition]:
                yield message
            if error is not None or offset >= open_until[partition] - 1:
                del open_until[partition]

    def _left(self) -> float:
        """Return the seconds that are left. Raises Unavailable if there are none."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise Unavailable(
                "the broker took too long to return the records; try again, or look for fewer: by their position in the "
                "source topic, or with a filter"
            )
        return left


def _windows(wanted: set[tuple[int, int]]) -> Iterator[_Window]:
    """Yield windows that cover all positions; those of one partition are in the order of offsets."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for partition, offset in sorted(wanted):
        of_partition = spans.setdefault(partition, [])
        if of_partition and offset - of_partition[-1][1] < NEAR:
            of_partition[-1] = of_partition[-1][0], offset + 1
        else:
            of_partition.append((offset, offset + 1))
    for window in zip_longest(*([(partition, each) for each in found] for partition, found in spans.items())):
        yield dict(each for each in window if each is not None)


def _size(record: QuarantinedRecord) -> int:
    parts = (record.key, record.value, *(value for _, value in record.headers))
    return sum(len(each) for each in parts if each is not None)


def _newest_first(record: QuarantinedRecord) -> tuple[float, int, int]:
    source = record.evidence.source
    when = record.timestamp.timestamp() if record.timestamp is not None else 0.0
    return -when, -source.offset, source.partition


def _record(message: Message, origin: Origin) -> QuarantinedRecord | None:
    """Return the record; None for one without evidence, or with that of another stream."""
    kind, milliseconds = message.timestamp()
    headers = tuple(headers_of(message))
    evidence = read_evidence(headers)
    if evidence is None or not origin.owns(evidence):
        return None
    own = read_timestamp(headers)  # the broker may have replaced the timestamp by the time of arrival
    if own is None and kind != TIMESTAMP_NOT_AVAILABLE:
        own = milliseconds
    return QuarantinedRecord(
        pointer=EventPointer(message.topic() or "", message.partition() or 0, message.offset() or 0),
        timestamp=None if own is None else _moment(own),
        key=message.key(),
        value=message.value(),
        headers=headers,
        evidence=evidence,
        refused_at=_moment(milliseconds) if kind == TIMESTAMP_LOG_APPEND_TIME else None,
    )


def _moment(milliseconds: int) -> datetime | None:
    """Return the UTC time; None for one outside of the calendar, since producers may write any 64-bit number."""
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None
