"""The control of streams: pauses by people, and reports of jobs about error budgets, starts, ends and heartbeats."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.errors import ConflictError
from tidegate.contracts.stream.control import Heartbeat, RecordPosition, StreamControl, StreamEvent, Trip
from tidegate.contracts.stream.evidence import EventPointer
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.contracts.stream.reconciliation import HeartbeatAnswer
from tidegate.contracts.stream.report import BatchReport
from tidegate.gateway.access.principal import ANONYMOUS, Hidden, Principal, Role, require
from tidegate.gateway.registry.subject_scope import subject_of_contract, topic_of_contract, unknown_contract
from tidegate.gateway.storage.audit_chain import AuditedAction, content_hash
from tidegate.gateway.storage.database import Database
from tidegate.gateway.storage.sql import Stores

Announce = Callable[[StreamEvent | Trip | StreamControl], None]
"""Called once with each message of a job and each pause by a person, after it is stored."""


def announce_nothing(_event: StreamEvent | Trip | StreamControl) -> None:
    """Announce nothing."""


EMPTY_HEARTBEAT = Heartbeat()
"""A heartbeat without any figures."""


class StreamControls:
    """A service for decisions of people and error budgets about streams. The audit log has every change."""

    def __init__(
        self, database: Database, now: Callable[[], datetime], announce: Announce = announce_nothing
    ) -> None:
        self._database = database
        self._now = now
        self._announce = announce

    def control(self, stream: str) -> StreamControl:
        """Return the control of a stream. Raises NotFoundError for one without a contract."""
        with self._database.reading() as stores:
            subject_of_contract(stores, stream)
            return stores.controls.find(stream)

    def pause(self, stream: str, reason: str | None, by: Principal = ANONYMOUS) -> StreamControl:
        """Pause a stream from its next batch on; a paused stream does not change. Raises NotFoundError."""
        at = self._now()
        why = reason or "paused without a reason"
        with self._database.writing() as stores:
            subject = subject_of_contract(stores, stream)
            before = stores.controls.find(stream)
            if before.is_paused:
                return before
            after = before.paused(why, by.name, at)
            keep_control(stores, (before, after), "stream.paused", subject, (by.name, at))
        self._announce(after)
        return after

    def resume(
        self, stream: str, *, accept_batch: bool, decisions: int = 0, by: Principal = ANONYMOUS
    ) -> StreamControl:
        """Resume a stream; with `accept_batch` accept the batch that exceeded its error budget.

        `decisions` is the number of decisions that its job knows of; it matters after a restore of the registry's
        database that lost some. A running stream with nothing to accept does not change. Raises NotFoundError, and
        ConflictError for `accept_batch` if no batch has exceeded the budget.
        """
        at = self._now()
        with self._database.writing() as stores:
            subject = subject_of_contract(stores, stream)
            before = stores.controls.find(stream)
            if accept_batch and before.trip is None:
                raise ConflictError(
                    f"no batch of {stream} has spent its error budget, so there is none to accept; resume it without"
                )
            is_accepted = before.trip is not None and before.accepted == before.trip.range
            is_counted = decisions <= before.revision
            if not before.is_paused and is_counted and (not accept_batch or is_accepted):
                return before
            after = before.resumed(by.name, at, accept=accept_batch, decisions=decisions)
            action = "stream.resumed-accepting-batch" if accept_batch else "stream.resumed"
            keep_control(stores, (before, after), action, subject, (by.name, at))
            return after

    def set_aside(self, stream: str, record: RecordPosition, by: Principal = ANONYMOUS) -> StreamControl:
        """Quarantine one record without judging it; doing so again changes nothing. Raises NotFoundError."""
        at = self._now()
        with self._database.writing() as stores:
            topic = topic_of_contract(stores, stream)
            before = stores.controls.find(stream)
            if record in before.set_aside:
                return before
            after = before.with_set_aside(record)
            which = f"record {EventPointer(topic, record.partition, record.offset)}"
            keep_control(stores, (before, after), "stream.record-set-aside", which, (by.name, at))
            return after

    def trip(self, stream: str, trip: Trip, by: Principal = ANONYMOUS) -> StreamControl:
        """Record that a batch has spent the error budget, and pause the stream if the budget asks for it.

        Return the current control. A trip that was recorded before changes nothing. Raises ConflictError for a trip of
        another stream, NotFoundError, and Forbidden if `by` may not report for the stream's topic.
        """
        require_same(stream, trip.stream)
        at = self._now()
        with self._database.writing() as stores:
            topic = reporter_topic(stores, stream, by)
            require_own(trip, topic)
            subject = subject_of(topic)
            before = stores.controls.find(stream)
            if stores.controls.is_known(trip.id):
                return before
            stores.controls.add_event(trip)
            after = before.tripped(trip, by.name, at)
            keep_control(stores, (before, after), "stream.tripped", subject, (by.name, at))
        self._announce(trip)
        return after

    def record_event(self, stream: str, event: StreamEvent, by: Principal = ANONYMOUS) -> bool:
        """Record a start or an end; return False if it was recorded before.

        Raises ConflictError for an event of another stream, NotFoundError, and Forbidden if `by` may not report.
        """
        require_same(stream, event.stream)
        with self._database.writing() as stores:
            reporter_topic(stores, stream, by)
            if stores.controls.is_known(event.id):
                return False
            stores.controls.add_event(event)
        self._announce(event)
        return True

    def beat(
        self, stream: str, heartbeat: Heartbeat = EMPTY_HEARTBEAT, by: Principal = ANONYMOUS
    ) -> HeartbeatAnswer:
        """Store the heartbeat of a stream's job; return the open requests for it.

        Raises NotFoundError, and Forbidden if `by` may not report.
        """
        at = self._now()
        with self._database.writing() as stores:
            reporter_topic(stores, stream, by)
            stores.controls.beat(stream, at, heartbeat)
            return HeartbeatAnswer(
                reconciliation=stores.reconciliations.open(stream),
                replay=stores.replays.open(stream, heartbeat.ledger),
            )


def require_same(stream: str, named: str) -> None:
    """Check that a report is about the stream that it was posted to. Raises ConflictError."""
    if stream != named:
        raise ConflictError(f"this is about the stream {named}; post it there, not to {stream}")


def require_own(message: BatchReport | Trip, topic: str) -> None:
    """Check that a message names the contract and the topics of its stream, which reads `topic`.

    Raises ConflictError.
    """
    stream, expected = message.stream, quarantine_topic(topic)
    if message.contract.rpartition("@")[0] != stream:
        raise ConflictError(
            f"this names the contract {message.contract}; a batch of {stream} is judged by {stream}@VERSION"
        )
    named = {message.topic} - {topic}
    if isinstance(message, BatchReport):
        named |= {message.quarantine_topic} - {expected}
    if named:
        raise ConflictError(
            f"this names the topic {min(named)}, and {stream} reads {topic} and refuses into {expected}; run the job "
            "against the registry that holds its contract"
        )


def reporter_topic(stores: Stores, stream: str, by: Principal) -> str:
    """Return the topic of a stream that `by` may report about.

    Raises NotFoundError for an unknown or hidden stream, Forbidden without the role reporter.
    """
    topic = stores.contracts.topic_of(stream)
    if topic is None:
        raise unknown_contract(stream)
    if not by.sees(subject_of(topic)):
        raise Hidden(str(unknown_contract(stream)))
    require(by, Role.REPORTER, subject_of(topic))
    return topic


def keep_control(
    stores: Stores,
    change: tuple[StreamControl, StreamControl],
    action: str,
    subject: str,
    made: tuple[str, datetime],
) -> None:
    """Store the control after a change, given as (before, after), with an audit entry; `made` is (who, when)."""
    before, after = change
    stores.controls.put(after)
    earlier = _hash(before) if before.revision else None
    who, at = made
    stores.audit.append(AuditedAction(at, who, action, subject, earlier, _hash(after)))


def _hash(control: StreamControl) -> str:
    return content_hash(control.model_dump(mode="json"))
