"""Where it is kept what people and error budgets decided about streams, and what happened to their jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey, Index, Integer, Text, func, insert, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from tidegate.contracts.stream.control import EventKind, StreamControl, StreamEvent, Trip
from tidegate.gateway.storage.tables import Instant, Table, keep_newest

_KEPT = 200
"""Events and trips of one stream that are kept: what was told long ago is not told again."""

_TRIPPED = "tripped"


class ControlRow(Table):
    """What holds for one stream. `control` is JSON."""

    __tablename__ = "stream_controls"

    stream: Mapped[str] = mapped_column(ForeignKey("contracts.id"), primary_key=True)
    control: Mapped[str] = mapped_column(Text)


class EventRow(Table):
    """What a job told of a stream: a StreamEvent or a Trip as JSON, under the id that the job gave it."""

    __tablename__ = "stream_events"
    __table_args__ = (Index("ix_stream_events_stream", "stream", "key"),)

    key: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(Text, unique=True)
    stream: Mapped[str] = mapped_column(Text)
    kind: Mapped[str] = mapped_column(Text)
    at: Mapped[datetime] = mapped_column(Instant)
    document: Mapped[str] = mapped_column(Text)


class HeartbeatRow(Table):
    """When a stream's job said last that it lives."""

    __tablename__ = "stream_heartbeats"

    stream: Mapped[str] = mapped_column(ForeignKey("contracts.id"), primary_key=True)
    at: Mapped[datetime] = mapped_column(Instant)


class ControlStore:
    """Controls of streams and what their jobs told, as `stores.controls`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def find(self, stream: str) -> StreamControl:
        """Return what holds for a stream; of one that no one ever touched, that it runs."""
        row = self._session.get(ControlRow, stream)
        return StreamControl(stream=stream) if row is None else StreamControl.model_validate_json(row.control)

    def all(self) -> dict[str, StreamControl]:
        """Return what holds for every stream that was ever touched."""
        rows = self._session.scalars(select(ControlRow))
        return {row.stream: StreamControl.model_validate_json(row.control) for row in rows}

    def put(self, control: StreamControl) -> None:
        """Keep what holds for a stream now."""
        self._session.merge(ControlRow(stream=control.stream, control=control.model_dump_json()))

    def beat(self, stream: str, at: datetime) -> None:
        """Keep that a stream's job lives."""
        self._session.merge(HeartbeatRow(stream=stream, at=at))

    def heartbeats(self) -> dict[str, datetime]:
        """Return when the job of each stream said last that it lives."""
        return {row.stream: row.at for row in self._session.scalars(select(HeartbeatRow))}

    def heartbeat(self, stream: str) -> datetime | None:
        """Return when the job of one stream said so last; None if it never did."""
        row = self._session.get(HeartbeatRow, stream)
        return None if row is None else row.at

    def is_told(self, told: UUID) -> bool:
        """Return whether an event or trip was told before."""
        return self._session.scalar(select(EventRow.key).where(EventRow.id == str(told))) is not None

    def tell(self, told: StreamEvent | Trip) -> None:
        """Keep an event or trip that is not there yet; the oldest of its stream give way."""
        kind = _TRIPPED if isinstance(told, Trip) else told.kind.value
        self._session.execute(
            insert(EventRow).values(
                id=str(told.id), stream=told.stream, kind=kind, at=told.at, document=told.model_dump_json()
            )
        )
        keep_newest(self._session, EventRow.key, EventRow.stream, told.stream, _KEPT)

    def last_events(self, streams: Sequence[str] | None = None) -> dict[str, StreamEvent]:
        """Return the last event of each stream, or of the `streams` given.

        Left out are trips, and instances that were overtaken: the stream runs on in another instance.
        """
        kinds = [kind.value for kind in EventKind if kind is not EventKind.OVERTAKEN]
        newest = select(func.max(EventRow.key)).where(EventRow.kind.in_(kinds))
        if streams is not None:
            newest = newest.where(EventRow.stream.in_(streams))
        rows = self._session.scalars(
            select(EventRow).where(EventRow.key.in_(newest.group_by(EventRow.stream)))
        )
        return {row.stream: StreamEvent.model_validate_json(row.document) for row in rows}
