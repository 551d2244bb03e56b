"""Replays of refused records: who asks, who approves, and how far the job is. Every decision is in the audit log."""

from __future__ import annotations

from datetime import datetime
from typing import Final
from uuid import UUID, uuid4

from tidegate.contracts.errors import ConflictError, NotFoundError
from tidegate.contracts.fix.load import parse_fix
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.contracts.stream.replay import (
    ReplayOrder,
    ReplayReport,
    ReplayRequest,
    ReplayState,
    StreamReplay,
)
from tidegate.gateway.access.principal import ANONYMOUS, Forbidden, Principal
from tidegate.gateway.registry.subject_scope import subject_of_contract, topic_of_contract
from tidegate.gateway.storage.audit_chain import Change, content_hash
from tidegate.gateway.storage.database import Service
from tidegate.gateway.storage.sql import Stores
from tidegate.gateway.streams.controls import reporter_topic, require_same

MOST_WAITING: Final = 10
"""Requests of a stream that are not ended: each may be large."""


class StreamReplays(Service):
    """Requests to replay refused records of streams."""

    def ask(self, stream: str, order: ReplayOrder, by: Principal = ANONYMOUS) -> StreamReplay:
        """Store a request; it is open, or waits for the approval of another person if it has a fix.

        Without access control there is no one else to ask. Raises NotFoundError for a stream without a contract,
        ConflictError for another topic, positions without their digest or too many requests, ContractError for mistakes of
        the fix.
        """
        at = self._now()
        request = ReplayRequest(id=uuid4(), stream=stream, **order.model_dump())
        _require_sound(request)
        is_open = request.fix is None or by is ANONYMOUS
        replay = StreamReplay(
            state=ReplayState.OPEN if is_open else ReplayState.PROPOSED,
            by=by.name,
            at=at,
            **request.model_dump(exclude={"positions", "topic_id"}),
        )
        with self._database.writing() as stores:
            subject = subject_of_contract(stores, stream)
            expected = quarantine_topic(topic_of_contract(stores, stream))
            if request.topic != expected:
                raise ConflictError(
                    f"the refused records of {stream} are in {expected}, not in {request.topic}"
                )
            if sum(not each.is_ended for each in stores.replays.all(stream)) >= MOST_WAITING:
                raise ConflictError(
                    f"{MOST_WAITING} replays of {stream} wait already: let them end, or cancel one"
                )
            stores.replays.add(replay, request)
            _audit(stores, replay, "stream.replay-asked", subject, (by.name, at))
        return replay

    def approve(self, stream: str, replay: UUID, by: Principal = ANONYMOUS) -> StreamReplay:
        """Approve a request of another person; one that is approved stays so.

        Raises NotFoundError, Forbidden for who asked for it, ConflictError for one that has ended.
        """
        at = self._now()
        with self._database.writing() as stores:
            subject = subject_of_contract(stores, stream)
            found = _find(stores, stream, replay)
            if found.state is ReplayState.OPEN:
                return found
            _require_waiting(found)
            if found.by == by.name and by is not ANONYMOUS:
                raise Forbidden(
                    f"{by.name} asked for the replay {replay}; another person with the role approver of the subject "
                    f"{subject} has to approve it"
                )
            approved = found.model_copy(update={"state": ReplayState.OPEN, "approved_by": by.name})
            stores.replays.put(approved)
            _audit(stores, approved, "stream.replay-approved", subject, (by.name, at))
            return approved

    def cancel(self, stream: str, replay: UUID, by: Principal = ANONYMOUS) -> StreamReplay:
        """End a request: what was written stays, and the job begins no further chunk. Raises NotFoundError, ConflictError."""
        at = self._now()
        with self._database.writing() as stores:
            subject = subject_of_contract(stores, stream)
            found = _find(stores, stream, replay)
            _require_waiting(found)
            ended = found.model_copy(update={"state": ReplayState.CANCELLED})
            stores.replays.put(ended)
            _audit(stores, ended, "stream.replay-cancelled", subject, (by.name, at))
            return ended

    def all(self, stream: str) -> tuple[StreamReplay, ...]:
        """Return those that are kept, newest first. Raises NotFoundError for a stream without a contract."""
        with self._database.reading() as stores:
            subject_of_contract(stores, stream)
            return stores.replays.all(stream)

    def find(self, stream: str, replay: UUID) -> StreamReplay:
        """Return one. Raises NotFoundError."""
        with self._database.reading() as stores:
            subject_of_contract(stores, stream)
            return _find(stores, stream, replay)

    def request(self, stream: str, replay: UUID, by: Principal = ANONYMOUS) -> ReplayRequest:
        """Return the whole request of an open one, for the job. Raises NotFoundError, Forbidden for who may not report."""
        with self._database.reading() as stores:
            reporter_topic(stores, stream, by)
            found = stores.replays.request(stream, replay)
            if found is None:
                raise NotFoundError(f"no replay {replay} of {stream} is open")
            return found

    def progress(self, stream: str, report: ReplayReport, by: Principal = ANONYMOUS) -> StreamReplay:
        """Store the report of the job. Of an ended request only the counts change. Raises NotFoundError, Forbidden, ConflictError."""
        require_same(stream, report.stream)
        at = self._now()
        with self._database.writing() as stores:
            subject = reporter_topic(stores, stream, by)
            found = _find(stores, stream, report.request)
            if found.state is ReplayState.PROPOSED:
                raise ConflictError(f"the replay {report.request} of {stream} waits for its approval")
            if report.state not in {ReplayState.OPEN, ReplayState.DONE, ReplayState.STOPPED}:
                raise ConflictError(f"a job does not report that a replay is {report.state}")
            state = found.state if found.is_ended else report.state
            changed = found.model_copy(update={"state": state, "report": report})
            stores.replays.put(changed)
            if changed.is_ended and not found.is_ended:
                _audit(stores, changed, f"stream.replay-{state}", subject, (by.name, at))
            return changed


def _require_sound(request: ReplayRequest) -> None:
    try:
        request.refusals()
    except ValueError as error:
        raise ConflictError(f"this request cannot be kept: {error}") from error
    if request.fix is not None and parse_fix(request.fix, name="fix.json").fingerprint != request.fingerprint:
        raise ConflictError("the fix does not have the fingerprint of the request")


def _find(stores: Stores, stream: str, replay: UUID) -> StreamReplay:
    found = stores.replays.find(stream, replay)
    if found is None:
        raise NotFoundError(f"no replay {replay} of {stream} was requested")
    return found


def _require_waiting(found: StreamReplay) -> None:
    if found.is_ended:
        raise ConflictError(f"the replay {found.id} of {found.stream} has ended: it is {found.state}")


def _audit(
    stores: Stores, replay: StreamReplay, action: str, subject: str, made: tuple[str, datetime]
) -> None:
    who, at = made
    after = content_hash(replay.model_dump(mode="json"))
    stores.audit.append(Change(at, who, action, subject, None, after))
