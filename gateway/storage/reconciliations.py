"""Store who asked for a reconciliation of a stream, and what was found."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey, Index, Integer, Text, insert, select, update
from sqlalchemy.orm import Mapped, Session, mapped_column

from tidegate.contracts.stream.reconciliation import (
    ReconciliationRequest,
    ReconciliationResult,
    StreamReconciliation,
)
from tidegate.gateway.storage.tables import Instant, Table, keep_newest

KEPT = 20
"""Reconciliations of one stream that are kept."""


class ReconciliationRow(Table):
    """A request, and its result as JSON; null as long as no one has looked."""

    __tablename__ = "stream_reconciliations"
    __table_args__ = (Index("ix_stream_reconciliations_stream", "stream", "key"),)

    key: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(Text, unique=True)
    stream: Mapped[str] = mapped_column(ForeignKey("contracts.id"))
    asked_by: Mapped[str] = mapped_column(Text)
    asked_at: Mapped[datetime] = mapped_column(Instant)
    result: Mapped[str | None] = mapped_column(Text)


class ReconciliationStore:
    """Reconciliations of streams, as `stores.reconciliations`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def all(self, stream: str) -> tuple[StreamReconciliation, ...]:
        """Return those of a stream that are kept, newest first."""
        rows = self._session.scalars(
            select(ReconciliationRow)
            .where(ReconciliationRow.stream == stream)
            .order_by(ReconciliationRow.key.desc())
        )
        return tuple(_reconciliation(row) for row in rows)

    def find(self, stream: str, wanted: UUID) -> StreamReconciliation | None:
        """Find one of a stream."""
        row = self._session.scalar(
            select(ReconciliationRow).where(
                ReconciliationRow.stream == stream, ReconciliationRow.id == str(wanted)
            )
        )
        return None if row is None else _reconciliation(row)

    def open(self, stream: str) -> ReconciliationRequest | None:
        """Return the request that no one has answered yet; there is one at most."""
        row = self._session.scalar(
            select(ReconciliationRow).where(
                ReconciliationRow.stream == stream, ReconciliationRow.result.is_(None)
            )
        )
        return None if row is None else _reconciliation(row).asked

    def last_findings(self, stream: str) -> ReconciliationResult | None:
        """Return the newest result of a stream that has findings: one that failed takes nothing back."""
        results = (each.result for each in self.all(stream))
        return next((each for each in results if each is not None and each.findings is not None), None)

    def add(self, request: ReconciliationRequest) -> None:
        """Keep a new request, when none of its stream is open; the oldest of its stream give way."""
        self._session.execute(
            insert(ReconciliationRow).values(
                id=str(request.id), stream=request.stream, asked_by=request.by, asked_at=request.at
            )
        )
        keep_newest(self._session, ReconciliationRow.key, ReconciliationRow.stream, request.stream, KEPT)

    def answer(self, request: UUID, result: ReconciliationResult) -> None:
        """Keep the result of a request."""
        self._session.execute(
            update(ReconciliationRow)
            .where(ReconciliationRow.id == str(request))
            .values(result=result.model_dump_json())
        )


def _reconciliation(row: ReconciliationRow) -> StreamReconciliation:
    return StreamReconciliation(
        asked=ReconciliationRequest(id=UUID(row.id), stream=row.stream, by=row.asked_by, at=row.asked_at),
        result=None if row.result is None else ReconciliationResult.model_validate_json(row.result),
    )
