"""What a stream's batches add up to by rule and by step, kept beside the reports.

A job can name any number of rules and steps over time. Only the first of a stream are kept by name; later ones share one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import BigInteger, Integer, Text, UniqueConstraint, func, insert, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from tidegate.contracts.stream.bounds import MOST_RULES, MOST_STEPS
from tidegate.contracts.stream.counts import RuleCount, RuleKey
from tidegate.contracts.stream.report import BatchReport
from tidegate.contracts.verdict import Severity, Stage
from tidegate.gateway.storage.tables import Table

OTHER: Final = "(other)"
"""Rule and step under which all are counted for which a stream has no room; no contract can have a rule of that id."""


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

    def add(self, report: BatchReport) -> Mapping[RuleKey, int]:
        """Add a report that is new; return its counts by rule, those without room under OTHER.

        Only in a write transaction: writers take turns.
        """
        counts = self._add_rules(report.stream, report.rules)
        self._add_steps(report.stream, report.timings_ms)
        self._session.flush()
        return counts

    def _add_steps(self, stream: str, milliseconds: Mapping[str, int]) -> None:
        query = select(StreamStepRow).where(StreamStepRow.stream == stream)
        rows = {row.step: row for row in self._session.scalars(query)}
        for step, spent in milliseconds.items():
            name = step if step in rows or len(rows) < MOST_STEPS else OTHER
            if name not in rows:
                rows[name] = StreamStepRow(stream=stream, step=name, milliseconds=0)
                self._session.add(rows[name])
            rows[name].milliseconds += spent

    def _add_rules(self, stream: str, counts: Sequence[RuleCount]) -> Mapping[RuleKey, int]:
        if not counts:
            return {}
        own = StreamRuleRow.stream == stream
        codes = {OTHER, *(count.code for count in counts)}
        query = select(StreamRuleRow).where(own, StreamRuleRow.code.in_(codes))
        known: dict[RuleKey, StreamRuleRow] = {
            (Stage(row.stage), row.code, Severity(row.severity)): row for row in self._session.scalars(query)
        }
        room = MOST_RULES - (self._session.scalar(select(func.count()).where(own)) or 0)
        kept: Counter[RuleKey] = Counter()
        for count in counts:
            key = count.stage, count.code, count.severity
            if key not in known and key not in kept:
                room -= 1
                if room < 0:
                    key = Stage.RULE, OTHER, count.severity
            kept[key] += count.records
        new = []
        for key, records in kept.items():
            if key in known:
                known[key].records += records
            else:
                stage, code, severity = key
                new.append(
                    {"stream": stream, "stage": stage.value, "code": code, "severity": severity.value}
                    | {"records": records}
                )
        if new:
            self._session.execute(insert(StreamRuleRow), new)
        return kept

    def rules(self, stream: str) -> Sequence[RuleSum]:
        """List the sums by rule in the order in which the rules were first violated: new ones come last."""
        query = select(StreamRuleRow).where(StreamRuleRow.stream == stream).order_by(StreamRuleRow.key)
        return tuple(
            RuleSum(Stage(row.stage), row.code, Severity(row.severity), row.records)
            for row in self._session.scalars(query)
        )

    def milliseconds(self, stream: str) -> dict[str, int]:
        """Return how long the batches took in each step."""
        rows = self._session.scalars(
            select(StreamStepRow).where(StreamStepRow.stream == stream).order_by(StreamStepRow.step)
        )
        return {row.step: row.milliseconds for row in rows}
