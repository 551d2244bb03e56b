"""Storage of controls of streams, messages of their jobs, reconciliations, replays and adoptions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import BigInteger, ColumnElement, Float, ForeignKey, Text, func, select, update
from sqlalchemy.orm import Mapped, mapped_column

from tidegate.contracts.stream.adoption import Adoption, KeptAdoption
from tidegate.contracts.stream.control import EventKind, Heartbeat, StreamControl, StreamEvent, Trip
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.reconciliation import (
    ReconciliationRequest,
    ReconciliationResult,
    StreamReconciliation,
)
from tidegate.contracts.stream.replay import ReplayRequest, ReplayState, StreamReplay, positions_of
from tidegate.gateway.storage.tables import EntryStore, Instant, StreamEntry, Table

_KEPT = 200
"""Maximum events and trips that are kept for one stream: jobs do not repeat old messages."""

_TRIPPED = "tripped"


class ControlRow(Table):
    """The control of one stream. `control` is JSON."""

    __tablename__ = "stream_controls"

    stream: Mapped[str] = mapped_column(ForeignKey("contracts.id"), primary_key=True)
    control: Mapped[str] = mapped_column(Text)


class EventRow(StreamEntry):
    """A message of a job about a stream: a StreamEvent or a Trip as JSON, under the id that the job gave it."""

    __tablename__ = "stream_events"

    stream: Mapped[str] = mapped_column(Text)
    kind: Mapped[str] = mapped_column(Text)
    at: Mapped[datetime] = mapped_column(Instant)
    document: Mapped[str] = mapped_column(Text)


class HeartbeatRow(Table):
    """The last heartbeat of a stream's job; the fields of `Heartbeat` are null from jobs that do not send them.

    `table_size` and `maintenance` are JSON.
    """

    __tablename__ = "stream_heartbeats"

    stream: Mapped[str] = mapped_column(ForeignKey("contracts.id"), primary_key=True)
    at: Mapped[datetime] = mapped_column(Instant)
    lag_records: Mapped[int | None] = mapped_column(BigInteger)
    busy_seconds: Mapped[float | None] = mapped_column(Float)
    table_size: Mapped[str | None] = mapped_column(Text)
    maintenance: Mapped[str | None] = mapped_column(Text)


class ControlStore(EntryStore[EventRow]):
    """Controls of streams and the messages of their jobs, as `stores.controls`."""

    _row = EventRow
    _kept = _KEPT

    def find(self, stream: str) -> StreamControl:
        """Return the control state of a stream; a stream without changes runs."""
        row = self._session.get(ControlRow, stream)
        return StreamControl(stream=stream) if row is None else StreamControl.model_validate_json(row.control)

    def all(self, streams: Sequence[str] | None = None) -> dict[str, StreamControl]:
        """Return the controls of all streams that were ever changed, or of those in `streams`, by stream."""
        query = select(ControlRow)
        rows = self._session.scalars(
            query if streams is None else query.where(ControlRow.stream.in_(streams))
        )
        return {row.stream: StreamControl.model_validate_json(row.control) for row in rows}

    def put(self, control: StreamControl) -> None:
        """Store the control of a stream."""
        self._session.merge(ControlRow(stream=control.stream, control=control.model_dump_json()))

    def beat(self, stream: str, at: datetime, heartbeat: Heartbeat) -> None:
        """Store the heartbeat of a stream's job, replacing the previous one."""
        table, upkeep = heartbeat.table, heartbeat.maintenance
        row = HeartbeatRow(
            stream=stream,
            at=at,
            lag_records=heartbeat.lag_records,
            busy_seconds=heartbeat.busy_seconds,
            table_size=table.model_dump_json() if table else None,
            maintenance=upkeep.model_dump_json() if upkeep else None,
        )
        self._session.merge(row)

    def heartbeats(self, streams: Sequence[str] | None = None) -> dict[str, HeartbeatRow]:
        """Return the last heartbeat of each stream, or of those in `streams`, by stream."""
        query = select(HeartbeatRow)
        rows = self._session.scalars(
            query if streams is None else query.where(HeartbeatRow.stream.in_(streams))
        )
        return {row.stream: row for row in rows}

    def heartbeat(self, stream: str) -> HeartbeatRow | None:
        """Return the last heartbeat of one stream; None if its job never sent one."""
        return self._session.get(HeartbeatRow, stream)

    def is_known(self, event_id: UUID) -> bool:
        """Return whether an event or trip was stored before."""
        return self._session.scalar(select(EventRow.key).where(EventRow.id == str(event_id))) is not None

    def add_event(self, event: StreamEvent | Trip) -> None:
        """Store a new event or trip; delete the oldest of its stream."""
        kind = _TRIPPED if isinstance(event, Trip) else event.kind.value
        row = EventRow(id=str(event.id), stream=event.stream, kind=kind, at=event.at)
        row.document = event.model_dump_json()
        self._add(row)

    def last_events(self, streams: Sequence[str] | None = None) -> dict[str, StreamEvent]:
        """Return the last event of each stream, or of those in `streams`, by stream.

        Trips are left out, and so are overtaken instances, because the stream continues in another one.
        """
        kinds = [kind.value for kind in EventKind if kind is not EventKind.OVERTAKEN]
        newest = select(func.max(EventRow.key)).where(EventRow.kind.in_(kinds))
        if streams is not None:
            newest = newest.where(EventRow.stream.in_(streams))
        rows = self._session.scalars(
            select(EventRow).where(EventRow.key.in_(newest.group_by(EventRow.stream)))
        )
        return {row.stream: StreamEvent.model_validate_json(row.document) for row in rows}


RECONCILIATIONS_KEPT = 20
"""Maximum reconciliations that are kept for one stream."""


class ReconciliationRow(StreamEntry):
    """A request, and its result as JSON; null before the result."""

    __tablename__ = "stream_reconciliations"

    asked_by: Mapped[str] = mapped_column(Text)
    asked_at: Mapped[datetime] = mapped_column(Instant)
    result: Mapped[str | None] = mapped_column(Text)


class ReconciliationStore(EntryStore[ReconciliationRow]):
    """Reconciliations of streams, as `stores.reconciliations`."""

    _row = ReconciliationRow
    _kept = RECONCILIATIONS_KEPT

    def all(self, stream: str) -> tuple[StreamReconciliation, ...]:
        """Return the stored reconciliations of a stream, newest first."""
        return tuple(map(_reconciliation, self._entries(stream)))

    def find(self, stream: str, wanted: UUID) -> StreamReconciliation | None:
        """Find one reconciliation of a stream; None if it is unknown."""
        row = self._entry(stream, wanted)
        return None if row is None else _reconciliation(row)

    def open(self, stream: str) -> ReconciliationRequest | None:
        """Return the open request of a stream; there is at most one. None without one."""
        row = self._session.scalar(
            select(ReconciliationRow).where(
                ReconciliationRow.stream == stream, ReconciliationRow.result.is_(None)
            )
        )
        return None if row is None else _reconciliation(row).asked

    def last_findings(self) -> dict[str, ReconciliationResult]:
        """Return the newest result of each stream that has findings: one that failed takes nothing back."""
        row = ReconciliationRow
        # Findings name thousands of records: only the newest are read, and of the others the member after the time.
        has_findings = func.substr(row.result, 1, 100).not_like('%"findings":null%')
        newest = select(func.max(row.key)).where(has_findings).group_by(row.stream)
        found = self._session.execute(select(row.stream, row.result).where(row.key.in_(newest)))
        return {
            stream: ReconciliationResult.model_validate_json(result)
            for stream, result in found
            if result is not None
        }

    def add(self, request: ReconciliationRequest) -> None:
        """Store a new request; delete the oldest of its stream."""
        row = ReconciliationRow(id=str(request.id), stream=request.stream)
        row.asked_by, row.asked_at = request.by, request.at
        self._add(row)

    def answer(self, request: UUID, result: ReconciliationResult) -> None:
        """Store the result of a request."""
        self._change(request, result=result.model_dump_json())


def _reconciliation(row: ReconciliationRow) -> StreamReconciliation:
    return StreamReconciliation(
        asked=ReconciliationRequest(id=UUID(row.id), stream=row.stream, by=row.asked_by, at=row.asked_at),
        result=None if row.result is None else ReconciliationResult.model_validate_json(row.result),
    )


REPLAYS_KEPT = 100
"""Newest replays that are kept for one stream; those that wait are always kept. Their audit entries stay."""


CANCELLED_WITH_POSITIONS = 10
"""Newest cancelled replays of one stream that keep their positions: a report about their last chunk may be under way."""


class ReplayRow(StreamEntry):
    """One replay as JSON, and its whole request with all positions.

    The request is null when the replay has ended. The newest cancelled ones keep it.
    """

    __tablename__ = "stream_replays"

    state: Mapped[str] = mapped_column(Text)
    document: Mapped[str] = mapped_column(Text)
    # Up to megabytes: lists do not load it.
    request: Mapped[str | None] = mapped_column(Text, deferred=True)


class ReplayStore(EntryStore[ReplayRow]):
    """Replays of streams, as `stores.replays`."""

    _row = ReplayRow
    _kept = REPLAYS_KEPT

    def all(self, stream: str) -> tuple[StreamReplay, ...]:
        """Return the stored replays of a stream, newest first."""
        return tuple(StreamReplay.model_validate_json(row.document) for row in self._entries(stream))

    def find(self, stream: str, wanted: UUID) -> StreamReplay | None:
        """Find one replay of a stream; None if it is unknown."""
        row = self._entry(stream, wanted)
        return None if row is None else StreamReplay.model_validate_json(row.document)

    def request(self, stream: str, wanted: UUID) -> ReplayRequest | None:
        """Return the whole request of a replay; None if the replay is unknown or not open."""
        row = self._entry(stream, wanted)
        if row is None or row.state != ReplayState.OPEN or row.request is None:
            return None
        return ReplayRequest.model_validate_json(row.request)

    def positions(self, stream: str, wanted: UUID) -> Positions | None:
        """Return the positions of a replay's request; None if the replay is unknown, or has ended and keeps none."""
        row = self._entry(stream, wanted)
        if row is None or row.request is None:
            return None
        return positions_of(ReplayRequest.model_validate_json(row.request).positions)

    def open(self, stream: str, ledger: str | None) -> UUID | None:
        """Return the id of the oldest request that the job of a ledger has to process; None without one.

        A request without a ledger is for every job. A job of an earlier release, whose ledger is None, gets any request.
        """
        rows = self._session.scalars(
            select(ReplayRow)
            .where(ReplayRow.stream == stream, ReplayRow.state == ReplayState.OPEN)
            .order_by(ReplayRow.key)
        )
        replays = (StreamReplay.model_validate_json(row.document) for row in rows)
        return next((each.id for each in replays if ledger is None or each.ledger in {None, ledger}), None)

    def _may_go(self) -> ColumnElement[bool]:
        """Return the condition of ended replays; the others wait for a person or a job, and are bounded in number."""
        return ReplayRow.state.not_in((ReplayState.PROPOSED, ReplayState.OPEN))

    def add(self, replay: StreamReplay, request: ReplayRequest) -> None:
        """Store a new replay; delete the oldest ended ones of its stream."""
        row = ReplayRow(id=str(replay.id), stream=replay.stream, state=replay.state)
        row.document, row.request = replay.model_dump_json(), request.model_dump_json()
        self._add(row)

    def put(self, replay: StreamReplay) -> None:
        """Store a changed replay; delete the requests with positions of ended ones, except of the newest cancelled."""
        self._change(replay.id, state=replay.state, document=replay.model_dump_json())
        if not replay.is_ended:
            return
        row = ReplayRow
        held = (row.stream == replay.stream, row.request.is_not(None))
        cancelled = select(row.key).where(*held, row.state == ReplayState.CANCELLED)
        newest = cancelled.order_by(row.key.desc()).limit(CANCELLED_WITH_POSITIONS)
        ended = update(row).where(*held, self._may_go(), row.key.not_in(newest))
        self._session.execute(ended.values(request=None))


ADOPTIONS_KEPT = 100
"""Maximum adoptions that are kept for one stream. A person makes each; their audit entries always stay."""


class AdoptionRow(StreamEntry):
    """One adoption as JSON, who stored it, and when."""

    __tablename__ = "stream_adoptions"

    kept_by: Mapped[str] = mapped_column(Text)
    kept_at: Mapped[datetime] = mapped_column(Instant)
    document: Mapped[str] = mapped_column(Text)


class AdoptionStore(EntryStore[AdoptionRow]):
    """Adoptions of streams, as `stores.adoptions`."""

    _row = AdoptionRow
    _kept = ADOPTIONS_KEPT

    def find(self, wanted: str) -> KeptAdoption | None:
        """Return the adoption with this id, of any stream; None without one."""
        row = self._session.scalar(select(AdoptionRow).where(AdoptionRow.id == wanted))
        return None if row is None else _kept(row)

    def all(self, stream: str) -> tuple[KeptAdoption, ...]:
        """Return the stored adoptions of a stream, newest first."""
        return tuple(map(_kept, self._entries(stream)))

    def add(self, kept: KeptAdoption) -> None:
        """Store a new adoption; delete the oldest of its stream."""
        row = AdoptionRow(id=kept.adoption.id, stream=kept.adoption.stream)
        row.kept_by, row.kept_at, row.document = kept.by, kept.at, kept.adoption.model_dump_json()
        self._add(row)


def _kept(row: AdoptionRow) -> KeptAdoption:
    return KeptAdoption(by=row.kept_by, at=row.kept_at, adoption=Adoption.model_validate_json(row.document))
