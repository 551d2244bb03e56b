"""What a stream's batches add up to by rule and by step: kept beside the reports, so that nobody sums them anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import BigInteger, Integer, Text, UniqueConstraint, insert, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from contracts.counts import RuleCount
from contracts.report import BatchReport
from contracts.verdict import Severity, Stage
from gateway.storage.tables import Table


class StreamRuleRow(Table):
    """How many records of a stream violated one rule or keyword. `key` grows in the order in which they were first seen."""

    __tablename__ = "stream_rules"
    __table_args__ = (
        UniqueConstraint("stream", "stage", "code", "severity", name="uq_stream_rules_identity"),
    )

    key: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    stream: Mapped[str] = mapped_column(Text)
    stage: Mapped[str] = mapped_column(Text)
    code: Mapped[str] = mapped_column(Text)
    severity: Mapped[str] = mapped_column(Text)
    records: Mapped[int] = mapped_column(BigInteger)


class StreamStepRow(Table):
    """How long the batches of a stream took in one step."""

    __tablename__ = "stream_steps"

    stream: Mapped[str] = mapped_column(Text, primary_key=True)
    step: Mapped[str] = mapped_column(Text, primary_key=True)
    milliseconds: Mapped[int] = mapped_column(BigInteger)


@dataclass(frozen=True, slots=True)
class RuleSum:
    """How many records of a stream violated one rule or keyword."""

    stage: Stage
    code: str
    severity: Severity
    records: int


class StreamSumStore:
    """Sums by rule and by step, as `stores.sums`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, report: BatchReport) -> None:
        """Add a report that is new. Only in a write transaction: writers take turns."""
        self._add_rules(report.stream, report.rules)
        for step, milliseconds in report.timings_ms.items():
            row = self._session.get(StreamStepRow, (report.stream, step))
            if row is None:
                self._session.add(StreamStepRow(stream=report.stream, step=step, milliseconds=milliseconds))
            else:
                row.milliseconds += milliseconds
        self._session.flush()

    def _add_rules(self, stream: str, counts: Sequence[RuleCount]) -> None:
        if not counts:
            return
        codes = {count.code for count in counts}
        query = select(StreamRuleRow).where(StreamRuleRow.stream == stream, StreamRuleRow.code.in_(codes))
        known = {(row.stage, row.code, row.severity): row for row in self._session.scalars(query)}
        new = []
        for count in counts:
            row = known.get((count.stage.value, count.code, count.severity.value))
            if row is None:
                new.append({"stream": stream, **count.model_dump(mode="json")})
            else:
                row.records += count.records
        if new:
            self._session.execute(insert(StreamRuleRow), new)

    def rules(self, stream: str) -> Sequence[RuleSum]:
        """List the sums by rule in the order in which the rules were first violated: new ones come last."""
        query = select(StreamRuleRow).where(StreamRuleRow.stream == stream).order_by(StreamRuleRow.key)
        return tuple(
            RuleSum(Stage(row.stage), row.code, Severity(row.severity), row.records)
            for row in self._session.scalars(query)
        )

    def milliseconds(self, stream: str) -> dict[str, int]:
        """Give how long the batches took in each step."""
        rows = self._session.scalars(
            select(StreamStepRow).where(StreamStepRow.stream == stream).order_by(StreamStepRow.step)
        )
        return {row.step: row.milliseconds for row in rows}
