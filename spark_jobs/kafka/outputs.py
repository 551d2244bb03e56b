"""Kafka outputs: transactional producers that the broker fences, and reads of committed records.

Slots of the driver begin at 0. With slots for tasks, slot 0 is the driver's and the others are the tasks'
(`task_slots.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, NoReturn, TypeVar, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tidegate.contracts.errors import Unavailable
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.ledger import Vector, span
from tidegate.spark_jobs.kafka.topics import FENCED, REFUSED, Topics, TransactionEnded, kafka_errors
from tidegate.spark_jobs.progress import doing

Headers = list[tuple[str, str | bytes | None]]
"""Headers in the type of the client; our own and those of a source are always bytes or null."""

_INIT_SECONDS = 60.0
_COMMIT_SECONDS = 60.0
_FLUSH_SECONDS = 0.5
_LOOK_SECONDS = 0.05
"""Duration of one poll. A poll takes this long even at the end of the data; a start waits for two or three."""
_STALL_SECONDS = 90.0
"""Maximum wait for the next record: an open transaction of another producer ends by then (timeout of 60 s)."""
_FATAL: Final = cast("type[BaseException]", KafkaError)
"""What the client raises for a fatal error. It is no subclass of BaseException, so other handlers do not catch it."""

OutputRecord = tuple[str, bytes | None, bytes | None, int, int, Headers]
"""One record to produce: topic, value, key, partition, milliseconds since 1970 UTC, headers.

Value and key may be None. A plain tuple, because one is created for every record of the Kafka sink. Records of one
source partition go to one output partition, and so stay in order.
"""

T = TypeVar("T")
Send = Callable[[Iterable[OutputRecord]], int]
"""Sends records in an open transaction, and returns their number."""


class TransactionalProducer:
    """The producer of one slot, with its own transactional.id. It fences every older producer of that id.

    Do not use it after any of its methods has raised: librdkafka lacks part 2 of KIP-890, so the next attempt needs a
    new producer.
    """

    def __init__(self, kafka: KafkaConnection, transactional_id: str, timeout_seconds: int = 60) -> None:
        """Create a producer whose transactions the broker aborts after `timeout_seconds`."""
        self.transactional_id = transactional_id
        self._timeout_seconds = timeout_seconds
        self._refused: list[KafkaError] = []
        self._producer = Producer(
            {
                **kafka.for_librdkafka(),
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_seconds * 1000,
                "linger.ms": 5,
                "compression.type": "lz4",
                # The topic's own limit decides; this only lifts the limit of the client.
                "message.max.bytes": 1_000_000_000,
                "batch.size": 500_000,
                "queue.buffering.max.messages": 1_000_000,
                "queue.buffering.max.kbytes": 256 * 1024,
                "log_level": 2,
                "delivery.report.only.error": True,
                "on_delivery": _noting(self._refused),
            }
        )

    def fence(self) -> None:
        """Fence older producers of this id and abort their open transactions. Raises Fenced or Unavailable."""
        with kafka_errors(f"initialise transactions of {self.transactional_id}"):
            # Connects first. Without a connection, the client would retry to find its coordinator after half a second.
            self._producer.list_topics(timeout=_INIT_SECONDS)
            _with_callbacks(self._producer.init_transactions, _INIT_SECONDS)

    def require_newest(self, topic: str) -> None:
        """Raise Fenced if a newer producer of this id has started: write a record to the topic, and abort it."""
        with kafka_errors(f"write as {self.transactional_id}"):
            self._producer.begin_transaction()
            begun = time.monotonic()
            try:
                self._producer.produce(topic, partition=0)
                self._await_delivered()
            except (SystemError, KafkaException) as error:
                self._raise_cause(error, time.monotonic() - begun)
            _with_callbacks(self._producer.abort_transaction, _COMMIT_SECONDS)

    def write(self, records: Iterable[OutputRecord]) -> int:
        """Write the records in one transaction and commit it; return their number. Raises Fenced or Unavailable."""
        with self.transaction() as send:
            return send(records)

    @contextmanager
    def transaction(self) -> Iterator[Send]:
        """Open a transaction for any number of records, and commit it when the context exits without an error.

        Yields a function that sends records and returns their number. Raises Fenced or Unavailable.
        """
        with kafka_errors(f"write as {self.transactional_id}"):
            self._producer.begin_transaction()
            begun = time.monotonic()
            try:
                yield self._send
                self._await_delivered()
                # Flushes first, and fails if any single record was not acknowledged.
                _with_callbacks(self._producer.commit_transaction, _COMMIT_SECONDS)
            except (SystemError, KafkaException) as error:
                self._raise_cause(error, time.monotonic() - begun)

    def _raise_cause(self, error: SystemError | KafkaException, seconds: float) -> NoReturn:
        """Raise the cause of a transaction that failed after `seconds`; the client only reports that it failed.

        Never commit afterwards, because records may be missing.
        """
        code = None if isinstance(error, SystemError) else error.args[0].code()
        if code in {None, KafkaError._FATAL}:  # noqa: SLF001 - a public constant
            # A fatal error, such as a fence. The Python client loses it if it occurs during a callback for delivery
            # reports, and the error of produce() has no cause. Aborting raises it again immediately.
            _with_callbacks(self._producer.abort_transaction, _COMMIT_SECONDS)
            raise Unavailable(f"write as {self.transactional_id}: the client lost an error") from error
        if code == KafkaError._STATE:  # noqa: SLF001 - the same
            # A record could not be delivered while others were sent; this raises the reason.
            self._await_delivered()
        if code in REFUSED:
            with suppress(KafkaException):  # it would hold up the readers of the topics until it times out
                _with_callbacks(self._producer.abort_transaction, _COMMIT_SECONDS)
        elif seconds > self._timeout_seconds and code not in {*FENCED, KafkaError.MSG_SIZE_TOO_LARGE}:
            # Records wait in the client at most as long as a transaction may be open, so the client may give up first.
            raise TransactionEnded(
                f"write as {self.transactional_id}: {error.args[0].str()}; the transaction was open for more than "
                f"{self._timeout_seconds} s"
            ) from error
        raise error

    def _await_delivered(self) -> None:
        """Wait until the records are delivered. Raise if the broker refuses one: later ones would only time out."""
        deadline = time.monotonic() + _COMMIT_SECONDS
        while True:
            waiting = _with_callbacks(self._producer.flush, _FLUSH_SECONDS)
            if self._refused:
                raise KafkaException(self._refused[0])
            if not waiting or time.monotonic() > deadline:
                return

    def _send(self, records: Iterable[OutputRecord]) -> int:
        produce, poll = self._producer.produce, self._producer.poll
        sent = 0
        for sent, (topic, value, key, partition, timestamp_ms, headers) in enumerate(records, start=1):
            while True:
                try:
                    produce(topic, value, key, partition, timestamp=timestamp_ms, headers=headers)
                    break
                except BufferError:
                    _with_callbacks(poll, 0.1)
            if sent % 1000 == 0:
                _with_callbacks(poll, 0)
        return sent


def _with_callbacks(method: Callable[[float], T], seconds: float) -> T:
    """Call a method of a client that runs callbacks. Raises KafkaException, also for a fatal error that one reports."""
    try:
        return method(seconds)
    except _FATAL as error:
        fatal = error
    # Outside of the handler: as a context of the exception, an error without a traceback breaks its report.
    raise KafkaException(fatal)


def _noting(refused: list[KafkaError]) -> Callable[[KafkaError | None, Message], None]:
    """Return a callback for failed deliveries. It holds no producer, so unused producers are freed immediately."""

    def note(error: KafkaError | None, _: Message) -> None:
        if error is not None and error.code() in {KafkaError.MSG_SIZE_TOO_LARGE, *REFUSED}:
            refused.append(error)

    return note


def read_committed(kafka: KafkaConnection, topic: str, start: Vector, end: Vector) -> Iterator[Message]:
    """Yield the committed records of [start, end) of each partition in `end`; a missing start means 0.

    A start before the first available offset is moved there. Raises Unavailable if the broker stops answering, or if a
    transaction stays open for too long.
    """
    # The first offsets are looked up here, because a consumer takes half a second to find them.
    earliest = Topics(kafka).earliest(topic)
    begin = {p: max(start.get(p, 0), earliest.get(p, 0)) for p in end}
    open_partitions = {p for p, offset in end.items() if offset > begin[p]}
    if not open_partitions:
        return
    consumer = Consumer(
        {
            **kafka.for_reader("tidegate-scan"),
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
            "log_level": 2,
        }
    )
    try:
        with kafka_errors(f"read topic {topic}"):
            consumer.assign([TopicPartition(topic, p, begin[p]) for p in sorted(open_partitions)])
            yield from _read_until(consumer, begin, topic, end)
    finally:
        consumer.close()


def _read_until(consumer: Consumer, begin: Vector, topic: str, end: Vector) -> Iterator[Message]:
    open_partitions = {p for p, offset in end.items() if offset > begin[p]}
    deadline = time.monotonic() + _STALL_SECONDS
    read, wanted = dict(begin), span(begin, end)
    while open_partitions:
        doing(f"reading {topic}: {span(begin, read):,} of {wanted:,} offsets")
        if time.monotonic() > deadline:
            raise Unavailable(
                f"topic {topic}: partitions {sorted(open_partitions)} do not reach their end: a transaction is open there. It "
                "ends when its producer goes on, and after the producer's transaction timeout otherwise; then try again"
            )
        for message in consumer.consume(10_000, _LOOK_SECONDS):
            error = message.error()
            partition, offset = _place(message)
            if error is None and partition in open_partitions and offset < end[partition]:
                yield message
                deadline = time.monotonic() + _STALL_SECONDS  # the caller may have taken long
            elif error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - a public constant
                raise Unavailable(f"read topic {topic}: {error.str()}")
            # The end of a partition arrives as a separate message, past transaction markers and aborted records.
            last = offset if error is not None else offset + 1
            read[partition] = last
            if last >= end[partition]:
                open_partitions.discard(partition)


def _place(message: Message) -> tuple[int, int]:
    partition, offset = message.partition(), message.offset()
    if partition is None or offset is None:
        raise Unavailable(f"read topic {message.topic()}: {message.error()}")
    return partition, offset
