"""Replays of refused records: requests, approvals, and progress of the job. Every decision is in the audit log."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Final, TypeVar
from uuid import UUID, uuid4

from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.errors import ConflictError, NotFoundError
from tidegate.contracts.fix.load import parse_fix
from tidegate.contracts.privacy.classes import Classes, Visibility, classes_of
from tidegate.contracts.stream.closure import Closure
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import (
    MOST_RECORDS,
    ReplayAction,
    ReplayOrder,
    ReplayReport,
    ReplayRequest,
    ReplayState,
    Run,
    StreamReplay,
    positions_of,
)
from tidegate.gateway.access.principal import ANONYMOUS, Forbidden, Principal
from tidegate.gateway.registry.subject_scope import enforced_contract, subject_of_contract, topic_of_contract
from tidegate.gateway.storage.audit_chain import AuditedAction, content_hash
from tidegate.gateway.storage.database import Service
from tidegate.gateway.storage.sql import Stores
from tidegate.gateway.streams.controls import reporter_topic, require_same
from tidegate.gateway.streams.masking import declared_names, masked_fix
from tidegate.gateway.streams.problem_watch import resolve_emptied
from tidegate.gateway.streams.quarantine_index.closures import add_closures, keep_reasons, problems_at
from tidegate.gateway.streams.quarantine_index.facets import problem_id
from tidegate.gateway.streams.quarantine_index.filters import StreamIndex
from tidegate.gateway.streams.quarantine_index.similarity import joined_problems
from tidegate.gateway.streams.replay_previews import open_positions
from tidegate.gateway.streams.reveals import REVEAL_ROLE

K = TypeVar("K")

_MOST_PROBLEMS: Final = 50
"""Maximum problems that are stored with a request."""
MOST_WAITING: Final = 10
"""Maximum requests of a stream that have not ended; each may be large."""


class StreamReplays(Service):
    """A service for requests to replay refused records of streams.

    A principal that may not reveal values sees a fix without the values of classified fields, and then without its
    fingerprint.
    """

    def ask(self, stream: str, order: ReplayOrder, by: Principal = ANONYMOUS) -> StreamReplay:
        """Store a request; it is open, or waits for another person's approval if the enforced contract requires that.

        Without access control no approval is needed. Raises NotFoundError for a stream without a contract, and
        ContractError for mistakes of the fix. Raises ConflictError for another topic, positions without their digest,
        or too many requests.
        """
        at = self._now()
        request = ReplayRequest(id=uuid4(), stream=stream, **order.model_dump())
        places = _require_sound(request)
        with self._database.reading() as stores:  # many positions take long, and only one can write at a time
            problems = _problems(stores, stream, places)
        with self._database.writing() as stores:
            is_open = by is ANONYMOUS or not needs_approval(stores, stream, order)
            replay = StreamReplay(
                state=ReplayState.OPEN if is_open else ReplayState.PROPOSED,
                by=by.name,
                at=at,
                problems=problems,
                **request.model_dump(exclude={"positions", "topic_id"}),
            )
            topic = topic_of_contract(stores, stream)
            expected = quarantine_topic(topic)
            if request.topic != expected:
                raise ConflictError(
                    f"the refused records of {stream} are in {expected}, not in {request.topic}"
                )
            if sum(not each.is_ended for each in stores.replays.all(stream)) >= MOST_WAITING:
                raise ConflictError(
                    f"{MOST_WAITING} replays of {stream} wait already: let them end, or cancel one"
                )
            stores.replays.add(replay, request)
            _audit(stores, replay, "asked", subject_of(topic), (by.name, at))
        return replay

    def needs_approval(self, stream: str, order: ReplayOrder) -> bool:
        """Return whether another person has to approve a request, with access control. Raises NotFoundError."""
        with self._database.reading() as stores:
            subject_of_contract(stores, stream)
            return needs_approval(stores, stream, order)

    def approve(self, stream: str, replay: UUID, by: Principal = ANONYMOUS) -> StreamReplay:
        """Approve a request of another person; approving it again changes nothing.

        Raises NotFoundError, Forbidden for the author of the request, ConflictError for one that has ended.
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
            _audit(stores, approved, "approved", subject, (by.name, at))
            return approved

    def cancel(self, stream: str, replay: UUID, by: Principal = ANONYMOUS) -> StreamReplay:
        """Cancel a request: written records stay, and the job begins no further chunk.

        Raises NotFoundError, ConflictError for one that has ended.
        """
        at = self._now()
        with self._database.writing() as stores:
            subject = subject_of_contract(stores, stream)
            found = _find(stores, stream, replay)
            _require_waiting(found)
            ended = found.model_copy(update={"state": ReplayState.CANCELLED})
            stores.replays.put(ended)
            _audit(stores, ended, "cancelled", subject, (by.name, at))
            return ended

    def of_problem(
        self, stream: str, problems: Collection[str], by: Principal = ANONYMOUS
    ) -> tuple[StreamReplay, ...]:
        """Return the stored replays with records of some problems (ids), newest first. Raises NotFoundError."""
        return tuple(each for each in self.all(stream, by) if not {*problems}.isdisjoint(each.problems))

    def open_records(self, stream: str, problem: str) -> tuple[str, Positions]:
        """Return the quarantine topic, and the positions of a problem's records that are not closed.

        Raises NotFoundError for a stream without a contract.
        """
        with self._database.reading() as stores:
            topic = quarantine_topic(topic_of_contract(stores, stream))
            return topic, open_positions(stores, stream, problem)

    def all(self, stream: str, by: Principal = ANONYMOUS) -> tuple[StreamReplay, ...]:
        """Return the stored replays, newest first. Raises NotFoundError for a stream without a contract."""
        with self._database.reading() as stores:
            subject_of_contract(stores, stream)
            return _shown(stores, stream, stores.replays.all(stream), by)

    def find(self, stream: str, replay: UUID, by: Principal = ANONYMOUS) -> StreamReplay:
        """Return one replay. Raises NotFoundError."""
        with self._database.reading() as stores:
            subject_of_contract(stores, stream)
            return _shown(stores, stream, [_find(stores, stream, replay)], by)[0]

    def request(self, stream: str, replay: UUID, by: Principal = ANONYMOUS) -> ReplayRequest:
        """Return the whole request of an open replay, with the hidden values of its fix, for the job.

        Raises NotFoundError, Forbidden for a principal that neither runs the job of the stream nor may reveal values.
        """
        with self._database.reading() as stores:
            subject = subject_of(reporter_topic(stores, stream, by))
            if not by.runs_job(subject):
                held = ", ".join(map(str, by.grants))
                raise Forbidden(
                    f"this needs the role reporter itself, or approver, of the subject {subject}; {by.name} has {held}. "
                    "Use a key with the role reporter for the job"
                )
            found = stores.replays.request(stream, replay)
            if found is None:
                raise NotFoundError(f"no replay {replay} of {stream} is open")
            return found

    def progress(self, stream: str, report: ReplayReport, by: Principal = ANONYMOUS) -> StreamReplay:
        """Store a report of the job; return the changed replay. An ended replay keeps its state.

        If the positions of its request are no longer stored, the report may only repeat an earlier one: its records are
        ignored. Raises NotFoundError, Forbidden, ConflictError.
        """
        require_same(stream, report.stream)
        at = self._now()
        closed, again = self._told(stream, report, by)
        with self._database.writing() as stores:
            subject = subject_of(reporter_topic(stores, stream, by))
            found = _find(stores, stream, report.request)
            if found.state is ReplayState.PROPOSED:
                raise ConflictError(f"the replay {report.request} of {stream} waits for its approval")
            if report.state not in {ReplayState.OPEN, ReplayState.DONE, ReplayState.STOPPED}:
                raise ConflictError(f"a job does not report that a replay is {report.state}")
            state = found.state if found.is_ended else report.state
            add_closures(stores, stream, closed)
            keep_reasons(stores, stream, again, closed.values())
            # Positions are stored once per stream, and not with each replay.
            kept = report.model_copy(update={"closures": {}, "again": {}})
            changed = found.model_copy(update={"state": state, "report": kept})
            stores.replays.put(changed)
            if closed:
                resolve_emptied(stores, stream, at)
            if changed.is_ended and not found.is_ended:
                _audit(stores, changed, str(state), subject, (by.name, at))
            return _shown(stores, stream, [changed], by)[0]

    def _told(
        self, stream: str, report: ReplayReport, by: Principal
    ) -> tuple[dict[Closure, Positions], dict[str, Positions]]:
        """Return the records that a report names as closed, and those that failed again, by code."""
        closed, again = _positions(report.closures), _positions(report.again)
        with self._database.reading() as stores:
            reporter_topic(stores, stream, by)
            found = _find(stores, stream, report.request)
            asked = stores.replays.positions(stream, found.id) if closed or again else None
        if asked is None:
            return {}, {}
        _require_asked(found, asked, (*closed.values(), *again.values()))
        return closed, again


def needs_approval(stores: Stores, stream: str, order: ReplayOrder) -> bool:
    """Return whether another person has to approve a request, by the contract that is enforced now."""
    enforced = enforced_contract(stores, stream)
    approval = "fixes" if enforced is None else enforced.replay_approval
    changes_records = order.fix is not None or order.action is ReplayAction.TO_SOURCE
    return approval == "always" or (approval == "fixes" and changes_records)


def _shown(
    stores: Stores, stream: str, found: Iterable[StreamReplay], by: Principal
) -> tuple[StreamReplay, ...]:
    """Return replays as a principal sees them."""
    found = tuple(found)
    if by.may(REVEAL_ROLE, subject_of_contract(stores, stream)) or all(each.fix is None for each in found):
        return found
    visibility = _visibility(stores, stream)
    return tuple(_masked(each, visibility) for each in found)


def _visibility(stores: Stores, stream: str) -> Visibility:
    """Return the visibility by all versions of a contract: a fix may be for records that any of them refused."""
    versions = stores.contracts.versions(stream, deleted=True)
    contracts = [each.contract for each in versions]
    if not contracts:
        return Visibility(None)
    classes = {pointer: name for each in contracts for pointer, name in classes_of(each).by_pointer.items()}
    names = [declared_names(each) for each in contracts]
    return Visibility(Classes(classes), frozenset().union(*names))


def _masked(replay: StreamReplay, visibility: Visibility) -> StreamReplay:
    """Return a replay without the hidden values of its fix.

    The fingerprint is removed with them: few values are possible, and it would confirm a guess.
    """
    fix = None if replay.fix is None else masked_fix(replay.fix, visibility)
    return replay if fix == replay.fix else replay.model_copy(update={"fix": fix, "fingerprint": None})


def _problems(stores: Stores, stream: str, places: Positions) -> tuple[str, ...]:
    index = StreamIndex(stores, stream, joined_problems)
    return tuple(map(problem_id, problems_at(index, places, _MOST_PROBLEMS)))


def _positions(places: Mapping[K, Mapping[int, tuple[Run, ...]]]) -> dict[K, Positions]:
    try:
        found = {name: positions_of(runs) for name, runs in places.items()}
    except ValueError as error:
        raise ConflictError(f"the records of this report cannot be kept: {error}") from error
    total = sum(map(len, found.values()))
    if total > MOST_RECORDS:
        raise ConflictError(
            f"the records of this report cannot be kept: they are {total:,} positions, and a report has {MOST_RECORDS:,} at "
            "most; report them in parts"
        )
    return found


def _require_asked(found: StreamReplay, asked: Positions, told: Iterable[Positions]) -> None:
    """Check that a report names only records of its request. Raises ConflictError."""
    for places in told:
        if others := places - asked:
            ((partition, offset),) = others.first(1)
            raise ConflictError(
                f"this report names {len(others):,} records that are not in the request of the replay {found.id}, such as "
                f"{partition}/{offset} of {found.topic}: report only records of the request"
            )


def _require_sound(request: ReplayRequest) -> Positions:
    try:
        places = request.refusals()
    except ValueError as error:
        raise ConflictError(f"this request cannot be kept: {error}") from error
    if request.fix is not None and parse_fix(request.fix, name="fix.json").fingerprint != request.fingerprint:
        raise ConflictError("the fix does not have the fingerprint of the request")
    return places


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
    stores.audit.append(
        AuditedAction(at, who, f"stream.{replay.action.value}-{action}", subject, None, after)
    )
