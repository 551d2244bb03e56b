"""The lease of a stream: which of several instances runs it. For liveness only; the ledger's claim keeps data safe.

The instance that runs the stream writes its name and a counter to a consumer group without members. The others read
both, and take over when the counter has not changed for the length of the lease, by their own clock.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import Event, Thread
from typing import Final, NamedTuple, Protocol
from uuid import getnode, uuid4

import structlog
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from tidegate.contracts.errors import Unavailable
from tidegate.spark_jobs.kafka.consumer_group import group_of
from tidegate.spark_jobs.settings import JobSettings

log = structlog.get_logger()

_TIMEOUT_SECONDS = 5.0
_LOOKS = 10
"""How often a standby reads the lease during the lease's length."""
_RENEWALS = 4
"""How often the owner renews the lease during the lease's length."""
_SETTLE_SECONDS = 0.3
"""How long another instance may take from reading a free lease to writing its name."""
_FORBIDDEN: Final = (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED)
_NEVER: Final = (*_FORBIDDEN, KafkaError.UNKNOWN_TOPIC_OR_PART)
"""Errors that waiting does not cure. The stream runs without a lease, and reports itself what it lacks."""
_COORDINATOR_STARTS: Final = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)
_RETRY_SECONDS = 0.1
_PARTITION = 0
_FREE = ""


class Stop(Protocol):
    """The signal that ends a stream between two batches."""

    def is_set(self) -> bool:
        """Return whether the stream should end."""
        ...


class _Entry(NamedTuple):
    """The entry in the group's metadata: the instance that runs the stream, and its renewal counter."""

    owner: str
    beat: int


class Lease:
    """The lease of one stream, held or awaited by one instance of the job. Lease length 0 disables it."""

    def __init__(self, settings: JobSettings, stream: str) -> None:
        self._seconds = 0.0 if settings.available_now else settings.lease_seconds
        self._kafka = settings.kafka
        self._stream = stream
        self._group = lease_group(settings, stream)
        self._owner = f"{socket.gethostname()}/{_machine()}/{os.getpid()}/{uuid4().hex[:8]}"
        self._topic = ""
        self._beat = 0
        self._admin: AdminClient | None = None
        self._consumer: Consumer | None = None
        self._renewal: Thread | None = None
        self._ending = Event()
        self._lost = Event()
        self.is_waiting = False
        """Whether another instance runs the stream."""

    @property
    def is_lost(self) -> bool:
        """Return whether another instance has taken the lease from this one."""
        return self._lost.is_set()

    def acquire(self, topic: str, stopping: Event, stand_by: Callable[[], None]) -> bool:
        """Wait until no other instance runs the stream; return False if `stopping` was set first.

        Calls `stand_by` once if another instance runs the stream. Returns immediately while this instance holds the lease.
        Raises Unavailable if the broker does not answer the first read.
        """
        if not self._seconds or (self._renewal is not None and not self.is_lost):
            return True
        self._end_renewal()
        self._topic = topic
        try:
            has_it = self._await_free(stopping, stand_by)
        except KafkaException as error:
            if _code(error) not in _NEVER:
                raise Unavailable(f"{self._stream}: the lease in group {self._group}: {error}") from error
            log.warning("lease_unavailable", stream=self._stream, group=self._group, error=str(error))
            self.is_waiting = False
            self._lost.clear()
            return True
        if has_it:
            self.is_waiting = False
            self._begin_renewal()
        return has_it

    def is_elsewhere(self) -> bool:
        """Return whether another instance has the lease, so that this one waits instead of ending."""
        if not self._seconds or self._renewal is None:
            return False
        try:
            entry = self._read()
        except KafkaException:
            return self.is_lost
        if entry is not None and entry.owner not in {self._owner, _FREE}:
            self._lost.set()
        return self.is_lost

    def release(self) -> None:
        """Free the lease, so that another instance can take over immediately."""
        is_held = self._renewal is not None and not self.is_lost
        self._end_renewal()
        if is_held:
            try:
                entry = self._read()
                if entry is not None and entry.owner == self._owner:
                    self._write(_FREE)
            except KafkaException as error:
                log.warning("lease_not_released", stream=self._stream, error=str(error))
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _await_free(self, stopping: Event, stand_by: Callable[[], None]) -> bool:
        seen, since = self._read(), time.monotonic()
        has_failed = False
        while not stopping.is_set():
            try:
                if self._is_free(seen) or time.monotonic() - since >= self._seconds:
                    self._write(self._owner)
                    stopping.wait(_SETTLE_SECONDS)
                else:
                    self._note_waiting(seen, stand_by)
                    stopping.wait(self._seconds / _LOOKS)
                entry = self._read()
            except KafkaException as error:
                # A standby has seen the topic. A broker that has just started does not know it for a moment.
                if not self.is_waiting or _code(error) in _FORBIDDEN:
                    raise
                if not has_failed:
                    log.warning("lease_not_taken", stream=self._stream, error=str(error))
                has_failed = True
                # The owner may not reach the broker either, and cannot renew its lease: its time starts again.
                since = time.monotonic()
                stopping.wait(self._seconds / _LOOKS)
                continue
            if entry is not None and entry.owner == self._owner:
                return not stopping.is_set() or self._give_back()
            if entry != seen:
                seen, since, has_failed = entry, time.monotonic(), False
        return False

    def _note_waiting(self, seen: _Entry | None, stand_by: Callable[[], None]) -> None:
        if not self.is_waiting:
            self.is_waiting = True
            log.info("stream_standing_by", stream=self._stream, owner=seen.owner if seen else None)
            stand_by()

    def _give_back(self) -> bool:
        self._write(_FREE)
        return False

    def _is_free(self, entry: _Entry | None) -> bool:
        return entry is None or entry.owner in {self._owner, _FREE} or _has_died(entry.owner)

    def _begin_renewal(self) -> None:
        self._lost.clear()
        self._ending = Event()
        self._renewal = Thread(target=self._renew, name=f"lease-{self._stream}", daemon=True)
        self._renewal.start()
        log.info("lease_held", stream=self._stream, group=self._group)

    def _end_renewal(self) -> None:
        self._ending.set()
        if self._renewal is not None:
            self._renewal.join()
            self._renewal = None

    def _renew(self) -> None:
        has_failed = False
        while not self._ending.wait(self._seconds / _RENEWALS):
            try:
                began = time.monotonic()
                entry = self._read()
                if entry is not None and entry.owner not in {self._owner, _FREE}:
                    log.warning("lease_lost", stream=self._stream, owner=entry.owner)
                    self._lost.set()
                    return
                if (
                    time.monotonic() - began < self._seconds / _RENEWALS
                ):  # otherwise this process was suspended, and the entry that it has read may be stale
                    self._write(self._owner)
                has_failed = False
            except KafkaException as error:
                if not has_failed:
                    log.warning("lease_not_renewed", stream=self._stream, error=str(error))
                has_failed = True

    def _client(self) -> AdminClient:
        if self._admin is None:
            self._admin = AdminClient({**self._kafka.for_librdkafka(), "log_level": 2})
        return self._admin

    def _reader(self) -> Consumer:
        """Return a consumer without a subscription, which joins no group and reads no records.

        `AdminClient.list_consumer_group_offsets` crashes the process if the broker has just created
        `__consumer_offsets`: on NOT_COORDINATOR, librdkafka 2.x uses the consumer group of a client that has none.
        """
        if self._consumer is None:
            properties = {**self._kafka.for_librdkafka(), "log_level": 2}
            self._consumer = Consumer({**properties, "group.id": self._group, "enable.auto.commit": "false"})
        return self._consumer

    def _read(self) -> _Entry | None:
        found = self._committed()
        if found.error is not None:
            raise KafkaException(found.error)
        if not found.metadata:
            return None
        owner, _, beat = found.metadata.rpartition(" ")
        return _Entry(owner, int(beat)) if beat.isdecimal() else None

    def _committed(self) -> TopicPartition:
        """Return the committed offset that holds the entry as metadata. Waits for a coordinator that is starting."""
        places = [TopicPartition(self._topic, _PARTITION)]
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while True:
            try:
                return self._reader().committed(places, timeout=_TIMEOUT_SECONDS)[0]
            except KafkaException as error:
                if _code(error) not in _COORDINATOR_STARTS or time.monotonic() > deadline:
                    raise
            time.sleep(_RETRY_SECONDS)

    def _write(self, owner: str) -> None:
        """Write the entry, and use another client after a failure.

        A client that knows the coordinator never asks for it again while that broker is up, also if the coordinator
        has moved. Source: librdkafka, rdkafka_coord.c, rd_kafka_coord_req_fsm.
        """
        try:
            self._commit(owner)
        except KafkaException:
            self._admin = None
            raise

    def _commit(self, owner: str) -> None:
        """Commit the entry as metadata. Its offset is the end of the partition, so tools show no lag of this group."""
        place = TopicPartition(self._topic, _PARTITION)
        spec: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call] # it has no types
        ends = self._client().list_offsets({place: spec}, request_timeout=_TIMEOUT_SECONDS)
        end = ends[place].result().offset
        self._beat += 1
        entry_offset = TopicPartition(self._topic, _PARTITION, end, f"{owner} {self._beat}")
        request = [ConsumerGroupTopicPartitions(self._group, [entry_offset])]
        answers = self._client().alter_consumer_group_offsets(request, request_timeout=_TIMEOUT_SECONDS)
        for each in answers[self._group].result().topic_partitions or ():
            if each.error is not None:
                raise KafkaException(each.error)


class StopOrLoss:
    """The signal that ends an attempt: the stream is stopped, or another instance has taken its lease."""

    def __init__(self, stopping: Event, lease: Lease) -> None:
        self._stopping = stopping
        self._lease = lease

    def is_set(self) -> bool:
        """Return whether the attempt should end."""
        return self._stopping.is_set() or self._lease.is_lost


def lease_group(settings: JobSettings, stream: str) -> str:
    """Return the name of the group that holds the lease: one for each stream and destination of its rows."""
    return f"{group_of(stream)}.lease-{settings.destination}"


@cache
def _machine() -> str:
    """Return an id of the boot and the PID namespace: two containers may have the same host name."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}-{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:  # not Linux
        return f"{getnode():x}"


def _has_died(owner: str) -> bool:
    """Return whether a process of this machine had the lease and is gone; False for other machines, as unknown."""
    _, _, rest = owner.partition("/")
    machine, _, rest = rest.partition("/")
    pid = rest.partition("/")[0]
    if machine != _machine() or not pid.isdecimal():
        return False
    if int(pid) == os.getpid():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def _code(error: KafkaException) -> int | None:
    cause = error.args[0]
    return cause.code() if isinstance(cause, KafkaError) else None
