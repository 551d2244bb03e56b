"""What became of the expectations of each batch: the history that pages and the API show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Boolean, ForeignKey, Index, Text, insert, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from tidegate.contracts.stream.report import BatchReport, ExpectationResult
from tidegate.gateway.storage.tables import BatchRow, Instant, Table


class ExpectationResultRow(Table):
    """One expectation in one batch: the result itself, and beside it what queries look for."""

    __tablename__ = "expectation_results"
    __table_args__ = (Index("ix_expectation_results_committed", "stream", "committed_at"),)

    batch_id: Mapped[int] = mapped_column(ForeignKey("batches.id"), primary_key=True)
    expectation: Mapped[str] = mapped_column(Text, primary_key=True)
    stream: Mapped[str] = mapped_column(Text)
    committed_at: Mapped[datetime] = mapped_column(Instant)
    outcome: Mapped[str] = mapped_column(Text)
    agrees: Mapped[bool | None] = mapped_column(Boolean)
    result: Mapped[str] = mapped_column(Text)


@dataclass(frozen=True, slots=True)
class PastResult:
    """What became of an expectation in the batch `n` of an epoch, committed at an instant."""

    epoch: int
    n: int
    committed_at: datetime
    result: ExpectationResult


class ExpectationStore:
    """Results of expectations, as `stores.expectations`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, batch_id: int, report: BatchReport) -> None:
        """Keep the results of a report that is new."""
        if report.expectations:
            self._session.execute(
                insert(ExpectationResultRow), [_row(batch_id, report, each) for each in report.expectations]
            )

    def between(
        self, stream: str, since: datetime, until: datetime, limit: int, expectation: str | None = None
    ) -> Sequence[PastResult]:
        """List the results of batches committed in [since, until), newest first, at most `limit`."""
        query = (
            select(BatchRow.epoch, BatchRow.n, ExpectationResultRow.committed_at, ExpectationResultRow.result)
            .join(BatchRow, BatchRow.id == ExpectationResultRow.batch_id)
            .where(
                ExpectationResultRow.stream == stream,
                ExpectationResultRow.committed_at >= since,
                ExpectationResultRow.committed_at < until,
            )
        )
        if expectation is not None:
            query = query.where(ExpectationResultRow.expectation == expectation)
        newest = query.order_by(
            ExpectationResultRow.committed_at.desc(),
            ExpectationResultRow.batch_id.desc(),
            ExpectationResultRow.expectation,
        ).limit(limit)
        return [
            PastResult(epoch, n, committed_at, ExpectationResult.model_validate_json(result))
            for epoch, n, committed_at, result in self._session.execute(newest)
        ]


def _row(batch_id: int, report: BatchReport, result: ExpectationResult) -> dict[str, object]:
    return {
        "batch_id": batch_id,
        "expectation": result.id,
        "stream": report.stream,
        "committed_at": report.committed_at,
        "outcome": result.outcome.value,
        "agrees": result.agrees,
        "result": result.model_dump_json(),
    }
