"""Ingestion of the quarantine topics of all streams into the index, in a background thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import uuid4

import structlog
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from tidegate.contracts.crash import described
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.document.terms import is_version
from tidegate.contracts.errors import TidegateError, Unavailable
from tidegate.contracts.stream.evidence import headers_of
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.gateway.registry.subject_reading import SubjectReader
from tidegate.gateway.storage.database import Database
from tidegate.gateway.storage.quarantine_index import IndexedPartition
from tidegate.gateway.streams.quarantine import Origin
from tidegate.gateway.streams.quarantine_index.avro_values import avro_decoder
from tidegate.gateway.streams.quarantine_index.merge import RefusalBatch
from tidegate.gateway.streams.quarantine_index.partitions import (
    IndexedPartitions,
    OffsetRange,
    PartitionCommit,
)
from tidegate.gateway.streams.quarantine_index.refusals import (
    UNKNOWN_CONTRACT,
    ContractHints,
    RawRefusal,
    RefusalReader,
)

_log = structlog.get_logger()

MOST_RECORDS: Final = 5_000
"""Maximum records of one step."""
MOST_BYTES: Final = 32 << 20
_QUEUE_KILOBYTES = 16 << 10
_FETCH_RECORDS = 500
_POLL_SECONDS = 0.5
_BREATH_SECONDS = 0.002
"""Pause after each step, in which the threads of requests can run."""
_CLAIMED_AT_ONCE = 100
"""Maximum leases that one transaction takes."""
_MOST_UNKNOWN = 1_000
_DISCOVER_SECONDS = 10.0
_RETAIN_SECONDS = 60.0
_TIMEOUT_SECONDS = 10.0
_BACK_OFF_SECONDS = 5.0
_ASIDE_SECONDS = 60.0
"""Time after which a partition with an error is tried again."""
_TOLD_SECONDS = 3600.0
"""Time after which an error of the same topic is logged again."""
_CLOSE_SECONDS = 2.0

Place = tuple[str, int]
"""Quarantine topic and partition."""


@dataclass(slots=True)
class _Assigned:
    """A partition that this process indexes, and the step that is being read; None before its first record."""

    partition: IndexedPartition
    reader: RefusalReader
    step: PartitionCommit | None = None


class QuarantineIngestion:
    """A background thread that keeps the index up to date with the topics.

    `on_step` is called after each step with the streams that got records. Several processes may run: each partition is
    read by the process that has its lease. A partition with an error is set aside for a while, and the others go on.
    """

    def __init__(
        self,
        database: Database,
        kafka: KafkaConnection,
        now: Callable[[], datetime],
        on_step: Callable[[frozenset[str]], None] = lambda _streams: None,
    ) -> None:
        self._database = database
        self._kafka = kafka
        self._partitions = IndexedPartitions(database, now, uuid4().hex)
        self._on_step = on_step
        self._assigned: dict[Place, _Assigned] = {}
        self._aside: dict[Place, float] = {}
        self._told: dict[str, float] = {}
        self._readers: dict[str, RefusalReader] = {}
        self._hints: dict[tuple[str, str], ContractHints] = {}
        self._unknown: set[tuple[str, str]] = set()
        self._consumer: Consumer | None = None
        self._admin: AdminClient | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._discover_at = self._retain_at = 0.0

    def start(self) -> None:
        """Start the background thread."""
        self._thread = threading.Thread(target=self._run, name="quarantine-index", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, and release the leases, so that another process takes over immediately."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_SECONDS)
        if (
            self._thread is None or not self._thread.is_alive()
        ):  # a consumer must not be closed while it waits for a broker
            self._disconnect()
        with suppress(TidegateError):
            self._partitions.release()

    def catch_up(self) -> int:
        """Read until every assigned partition has been read to its end; return how many records were read."""
        self._discover()
        records = 0
        while any(each.partition.next_offset < each.partition.high for each in self._assigned.values()):
            records += self.step()
        return records

    def step(self) -> int:
        """Read and commit once; return how many records were read. Raises Unavailable and KafkaException."""
        now = time.monotonic()
        if now >= self._discover_at:
            self._discover()
            self._discover_at = now + _DISCOVER_SECONDS
        if not self._assigned:
            self._stopping.wait(_POLL_SECONDS)
            self._tell(frozenset())
            return 0
        records = sum(self._take(message) for message in self._messages())
        self._tell(self._commit())
        return records

    def _run(self) -> None:
        is_failing = False
        while not self._stopping.is_set():
            try:
                self.step()
                is_failing = False
                self._stopping.wait(_BREATH_SECONDS)
            except Exception as error:  # noqa: BLE001 - a thread that ends would stop the index without a word
                if not is_failing:
                    _log.warning("quarantine_index_failed", error=described(error))
                is_failing = True
                self._disconnect()
                self._stopping.wait(_BACK_OFF_SECONDS)

    def _tell(self, streams: frozenset[str]) -> None:
        """Call `on_step` with the streams that got records; its failure does not stop the index."""
        try:
            self._on_step(streams)
        except Exception as error:  # noqa: BLE001 - it is tried again after the next step
            _log.warning("problem_watch_failed", error=described(error))

    def _messages(self) -> Iterator[Message]:
        """Yield the available messages, up to the limits of a step; wait up to _POLL_SECONDS for the first."""
        consumer = self._connected()
        message = consumer.poll(_POLL_SECONDS)
        found = [] if message is None else [message]
        records = size = 0
        while found:
            for each in found:
                records += 1
                size += len(each.value() or b"")
                yield each
            if records >= MOST_RECORDS or size >= MOST_BYTES:
                return
            found = consumer.consume(_FETCH_RECORDS, timeout=0)

    def _take(self, message: Message) -> int:
        topic, partition, offset = message.topic() or "", message.partition() or 0, message.offset() or 0
        assigned = self._assigned.get((topic, partition))
        if assigned is None:
            return 0
        error = message.error()
        if error is not None:
            return self._end(assigned, (topic, partition), error, offset)
        step = assigned.step
        if step is None:
            step = PartitionCommit(assigned.partition, RefusalBatch(), assigned.partition.next_offset)
        try:
            headers = headers_of(message)
            record = RawRefusal(
                partition, offset, message.timestamp()[1], message.key(), message.value(), headers
            )
            read = assigned.reader.read(record)
        except Unavailable:
            raise
        except Exception as failure:  # noqa: BLE001 - any producer can write to the topic; one record must not stop its index
            read = None
            if self._is_new(f"record of {topic}"):
                _log.warning(
                    "quarantined_record_skipped",
                    topic=topic,
                    partition=partition,
                    offset=offset,
                    error=described(failure),
                )
        if read is not None:
            step.batch.add(*read)
        assigned.step = PartitionCommit(step.claimed, step.batch, offset + 1, step.high)
        return 1

    def _end(self, assigned: _Assigned, place: Place, error: KafkaError, offset: int) -> int:
        """Handle the end of a partition, or its error; return 0 records."""
        code = error.code()
        if code == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's public name
            step = assigned.step
            batch = RefusalBatch() if step is None else step.batch
            if offset > (assigned.partition.next_offset if step is None else step.next_offset - 1):
                assigned.step = PartitionCommit(assigned.partition, batch, offset, offset)
            else:
                assigned.partition = replace(assigned.partition, high=offset)
        elif code in {
            KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001 - the client's public name
            KafkaError.OFFSET_OUT_OF_RANGE,
            KafkaError.UNKNOWN_TOPIC_OR_PART,
            KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - the client's public name
        }:
            self._unassign(place)  # retention has deleted the offset, or the topic is gone: discover it again
            self._discover_at = 0.0
        elif not error.retriable():
            self._set_aside(place, error)
        return 0

    def _commit(self) -> frozenset[str]:
        """Commit what was read, and return the streams that got records."""
        places = [place for place, each in self._assigned.items() if each.step is not None]
        steps = [step for place in places if (step := self._assigned[place].step) is not None]
        if not steps:
            return frozenset()
        for place, done in zip(places, self._partitions.commit(steps), strict=True):
            if done is None:
                self._unassign(place)
            else:
                self._assigned[place].partition = done
                self._assigned[place].step = None
        return frozenset(step.claimed.stream for step in steps if step.batch.rows)

    def _discover(self) -> None:
        """Renew the leases, claim free partitions, and remove what retention has deleted from the topics."""
        consumer = self._connected()
        self._unknown.clear()
        if self._assigned:
            self._partitions.renew()
        with self._database.reading() as stores:
            topics = stores.contracts.topics()
            known = {(each.stream, each.partition): each for each in stores.quarantine.partitions()}
        there = consumer.list_topics(timeout=_TIMEOUT_SECONDS).topics
        wanted: dict[Place, Origin] = {}
        for stream, topic in topics.items():
            origin = Origin(stream, topic)
            found = there.get(origin.quarantine_topic)
            if found is not None and found.error is None:
                wanted |= {(origin.quarantine_topic, partition): origin for partition in found.partitions}
        for place in self._assigned.keys() - wanted.keys():
            self._unassign(place)
        now = time.monotonic()
        self._aside = {place: until for place, until in self._aside.items() if until > now}
        free = [
            place
            for place, origin in wanted.items()
            if place not in self._assigned
            and place not in self._aside
            and self._partitions.is_free(known.get((origin.contract_id, place[1])))
        ]
        is_due = now >= self._retain_at
        edges = self._edges([*free, *(self._assigned if is_due else ())])
        free = [place for place in free if place in edges]
        if is_due:
            self._retain_at = time.monotonic() + _RETAIN_SECONDS
            for place in [*self._assigned]:
                self._retain(place, *edges[place])
        # These were read before the ends. So a position that another process has advanced since is noticed.
        revisions = {place: each.revision for place, each in known.items()}
        for start in range(0, len(free), _CLAIMED_AT_ONCE):
            origins = {place: wanted[place] for place in free[start : start + _CLAIMED_AT_ONCE]}
            self._claim(origins, edges, revisions)

    def _claim(
        self,
        origins: dict[Place, Origin],
        edges: dict[Place, tuple[int, int]],
        revisions: dict[tuple[str, int], int],
    ) -> None:
        ranges = [
            OffsetRange(
                origin.contract_id, place[1], *edges[place], revisions.get((origin.contract_id, place[1]))
            )
            for place, origin in origins.items()
        ]
        for (place, origin), claimed in zip(origins.items(), self._partitions.claim_all(ranges), strict=True):
            if claimed is not None:
                self._assigned[place] = _Assigned(claimed, self._reader(origin))
                self._retain(place, *edges[place])
        begun = [
            (place, self._assigned[place].partition.next_offset)
            for place in origins
            if place in self._assigned
        ]
        if begun:
            self._connected().incremental_assign([TopicPartition(*place, start) for place, start in begun])

    def _retain(self, place: Place, low: int, high: int) -> None:
        assigned = self._assigned[place]
        if low <= assigned.partition.low and high <= assigned.partition.high:
            return
        retained = self._partitions.retain(assigned.partition, low, high)
        if retained is None:
            self._unassign(place)
        else:
            assigned.partition = retained

    def _edges(self, places: list[Place]) -> dict[Place, tuple[int, int]]:
        """Return (first offset, end of the committed records) of partitions, in two requests.

        Partitions with an error are set aside and left out. Raises KafkaException if the broker does not answer.
        """
        earliest: Any = OffsetSpec.earliest()  # type: ignore[no-untyped-call] # it has no types
        latest: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call] # it has no types
        lows = self._offsets(places, earliest)
        highs = self._offsets([*lows], latest)
        return {place: (lows[place], high) for place, high in highs.items()}

    def _offsets(self, places: list[Place], spec: Any) -> dict[Place, int]:
        if not places or self._admin is None:
            return {}
        asked = {TopicPartition(*place): spec for place in places}
        answers = self._admin.list_offsets(
            asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_TIMEOUT_SECONDS
        )
        found: dict[Place, int] = {}
        for each, answer in answers.items():
            place = (each.topic, each.partition)
            try:
                found[place] = answer.result().offset
            except KafkaException as error:
                cause = error.args[0]
                if cause.code() < KafkaError.UNKNOWN:  # of the client, such as a broker that does not answer
                    raise
                self._set_aside(place, cause)
        return found

    def _reader(self, origin: Origin) -> RefusalReader:
        stream = origin.contract_id
        if stream not in self._readers:
            secret = self._database.read(lambda stores: stores.quarantine.secret())
            self._readers[stream] = RefusalReader(
                origin, secret, lambda version: self._hints_of(stream, version)
            )
        return self._readers[stream]

    def _hints_of(self, stream: str, version: str) -> ContractHints:
        """Return the hints of a contract version; they are cached, because a published version never changes."""
        # Every writer to the topic can name any version, also a text that the database refuses.
        if (stream, version) in self._unknown or not is_version(version):
            return UNKNOWN_CONTRACT
        found = self._hints.get((stream, version))
        if found is None:
            stored = self._database.read(lambda stores: stores.contracts.version(stream, version))
            if stored is None or not stored.document:
                if len(self._unknown) < _MOST_UNKNOWN:
                    self._unknown.add((stream, version))
                return UNKNOWN_CONTRACT
            contract = DataContract.model_validate_json(stored.document)
            found = ContractHints.of(contract, avro_decoder(contract, SubjectReader(self._database)))
            self._hints[stream, version] = found
        return found

    def _unassign(self, place: Place) -> None:
        if self._assigned.pop(place, None) is not None and self._consumer is not None:
            with suppress(KafkaException):
                self._consumer.incremental_unassign([TopicPartition(*place)])

    def _set_aside(self, place: Place, error: KafkaError) -> None:
        """Stop reading a partition for a while, so that its error does not stop the others."""
        self._unassign(place)
        self._aside[place] = time.monotonic() + _ASIDE_SECONDS
        if self._is_new(place[0]):
            _log.warning(
                "quarantine_partition_set_aside", topic=place[0], partition=place[1], error=error.str()
            )

    def _is_new(self, what: str) -> bool:
        """Return whether something was not logged in the last hour, and remember that it is."""
        now = time.monotonic()
        self._told = {told: at for told, at in self._told.items() if now < at + _TOLD_SECONDS}
        is_new = what not in self._told
        self._told.setdefault(what, now)
        return is_new

    def _connected(self) -> Consumer:
        if self._consumer is None:
            self._admin = AdminClient({**self._kafka.for_librdkafka(), "log_level": 0})
            self._consumer = Consumer(
                {
                    **self._kafka.for_reader("tidegate-index"),
                    "client.id": "tidegate-index",
                    "auto.offset.reset": "error",
                    "allow.auto.create.topics": False,
                    "queued.max.messages.kbytes": _QUEUE_KILOBYTES,
                    "log_level": 0,  # an unreachable broker is logged here, once
                }
            )
        return self._consumer

    def _disconnect(self) -> None:
        self._assigned.clear()
        self._aside.clear()
        self._discover_at = self._retain_at = 0.0
        consumer, self._consumer, self._admin = self._consumer, None, None
        if consumer is not None:
            with suppress(KafkaException, RuntimeError):
                consumer.close()
