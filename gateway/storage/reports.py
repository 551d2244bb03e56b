"""Storage of batch reports, and of their sums by stream, rule and step, and of results of expectations.

A job can name any number of rules and steps over time. Only the first ones of a stream are stored by name; all later
ones share the name OTHER.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from pydantic import ValidationError
from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    ForeignKey,
    Index,
    Integer,
    Select,
    Text,
    UniqueConstraint,
    and_,
    delete,
    func,
    insert,
    or_,
    select,
    type_coerce,
)
from sqlalchemy.orm import Mapped, mapped_column

from tidegate.contracts.stream.bounds import MOST_RULES, MOST_STEPS
from tidegate.contracts.stream.counts import RuleCount, RuleKey
from tidegate.contracts.stream.report import BatchReport, ExpectationResult
from tidegate.contracts.verdict import Severity, Stage
from tidegate.gateway.storage.report_pages import ReportPage, ReportPlace, first_places
from tidegate.gateway.storage.shadows import ShadowStore
from tidegate.gateway.storage.tables import (
    BatchRow,
    BatchRuleRow,
    ByCodePoint,
    Instant,
    Store,
    StreamRow,
    Table,
    to_microseconds,
)

OTHER: Final = "(other)"
"""The rule and step under which those beyond a stream's limit are counted; no contract has a rule with this id."""


class StreamRuleRow(Table):
    """The number of a stream's records that violated one rule or keyword. `key` has the order of first violations."""

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
    """The total time that the batches of a stream took in one step."""

    __tablename__ = "stream_steps"

    stream: Mapped[str] = mapped_column(Text, primary_key=True)
    step: Mapped[str] = mapped_column(Text, primary_key=True)
    milliseconds: Mapped[int] = mapped_column(BigInteger)


@dataclass(frozen=True, slots=True)
class RuleSum:
    """The number of records of a stream that violated one rule or keyword."""

    stage: Stage
    code: str
    severity: Severity
    records: int


class StreamSumStore(Store):
    """Sums by rule and by step, as `stores.sums`."""

    def add(self, report: BatchReport) -> Mapping[RuleKey, int]:
        """Add a new report; return its counts by rule, those beyond the limit under OTHER.

        Call it only in a write transaction: these run one after another, so no update is lost.
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

    def rules(self, streams: Sequence[str]) -> dict[str, list[RuleSum]]:
        """Return the sums by rule of each stream, in the order in which its rules were first violated."""
        query = select(StreamRuleRow).where(StreamRuleRow.stream.in_(streams)).order_by(StreamRuleRow.key)
        found: dict[str, list[RuleSum]] = {}
        for row in self._session.scalars(query):
            rule = RuleSum(Stage(row.stage), row.code, Severity(row.severity), row.records)
            found.setdefault(row.stream, []).append(rule)
        return found

    def milliseconds(self, streams: Sequence[str]) -> dict[str, dict[str, int]]:
        """Return how long the batches of each stream took in each step."""
        query = select(StreamStepRow).where(StreamStepRow.stream.in_(streams)).order_by(StreamStepRow.step)
        found: dict[str, dict[str, int]] = {}
        for row in self._session.scalars(query):
            found.setdefault(row.stream, {})[row.step] = row.milliseconds
        return found


class ExpectationResultRow(Table):
    """One expectation in one batch: the result itself as JSON, and the columns that queries filter by."""

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
    """The result of an expectation in the batch `n` of an epoch, committed at an instant."""

    epoch: int
    n: int
    committed_at: datetime
    result: ExpectationResult


class ExpectationStore(Store):
    """Results of expectations, as `stores.expectations`."""

    def add(self, batch_id: int, report: BatchReport) -> None:
        """Store the results of a new report."""
        if report.expectations:
            self._session.execute(
                insert(ExpectationResultRow), [_row(batch_id, report, each) for each in report.expectations]
            )

    def between(
        self, stream: str, since: datetime, until: datetime, limit: int, expectation: str | None = None
    ) -> Sequence[PastResult]:
        """List the results in batches committed in [since, until), newest first, at most `limit`.

        Only those of `expectation`, if given.
        """
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


_MICROSECOND = timedelta(microseconds=1)
_SUMMED = ("records", "written", "warned", "alerted", "quarantined", "dropped")


@dataclass(frozen=True, slots=True)
class ReportsEnd:
    """The end of a stream's reports: the last batch of its ledger, and the time of the newest commit."""

    epoch: int
    n: int
    newest: datetime


@dataclass(frozen=True, slots=True)
class Buckets:
    """Equal slices of the time from `since` on; `count` of them, each `width` long."""

    since: datetime
    width: timedelta
    count: int

    @property
    def until(self) -> datetime:
        """Return the first instant after the last bucket."""
        return self.since + self.width * self.count

    def starts(self) -> tuple[datetime, ...]:
        """Return the first instant of each bucket."""
        return tuple(self.since + self.width * index for index in range(self.count))


class ReportStore(Store):
    """Streams and their batch reports, as `stores.reports`."""

    def report(self, stream: str, epoch: int, n: int) -> BatchReport | None:
        """Find one report by its identity; None if it is unknown."""
        query = select(BatchRow.report).where(
            BatchRow.stream == stream, BatchRow.epoch == epoch, BatchRow.n == n
        )
        found = self._session.scalar(query)
        return None if found is None else BatchReport.model_validate_json(found)

    def add_report(self, report: BatchReport) -> None:
        """Store a new report, and add it to the sums of its stream."""
        self._add_to_sums(report)
        counts = StreamSumStore(self._session).add(report)
        ShadowStore(self._session).add(report)
        row = BatchRow(
            stream=report.stream,
            epoch=report.epoch,
            n=report.n,
            committed_at=report.committed_at,
            records=report.records,
            quarantined=report.quarantined,
            dropped=report.dropped,
            report=report.model_dump_json().encode(),
        )
        self._session.add(row)
        self._session.flush()
        ExpectationStore(self._session).add(row.id, report)
        if counts:
            self._session.execute(
                insert(BatchRuleRow),
                [
                    {
                        "batch_id": row.id,
                        "stage": stage,
                        "code": code,
                        "severity": severity,
                        "records": records,
                    }
                    for (stage, code, severity), records in counts.items()
                ],
            )

    def sums(self, streams: Sequence[str] | None = None) -> tuple[StreamRow, ...]:
        """Return the sums of every stream, or of those in `streams`, ordered by name."""
        query = select(StreamRow).order_by(ByCodePoint(StreamRow.stream))
        return tuple(
            self._session.scalars(query if streams is None else query.where(StreamRow.stream.in_(streams)))
        )

    def sums_of(self, stream: str) -> StreamRow | None:
        """Return the sums of one stream; None for a stream that never reported."""
        return self._session.get(StreamRow, stream)

    def last_reports(self, streams: Sequence[str]) -> dict[str, BatchReport]:
        """Return the report of the last batch of each ledger, by stream; without those that this version refuses."""
        newest = _last_batch(StreamRow.stream, BatchRow.id).correlate(StreamRow).scalar_subquery()
        query = select(BatchRow.stream, BatchRow.report).join(StreamRow, BatchRow.id == newest)
        rows = self._session.execute(query.where(StreamRow.stream.in_(streams)))
        found = {stream: _readable(report) for stream, report in rows}
        return {stream: report for stream, report in found.items() if report is not None}

    def reach(self, stream: str) -> ReportsEnd | None:
        """Return the end of a stream's reports; None for a stream that never reported."""
        newest = select(func.max(BatchRow.committed_at)).where(BatchRow.stream == stream).scalar_subquery()
        found = self._session.execute(_last_batch(stream, BatchRow.epoch, BatchRow.n, newest)).first()
        return None if found is None else ReportsEnd(*found)

    def prune(self, stream: str, keep_from: datetime, most: int) -> int:
        """Delete at most `most` of the oldest reports committed before an instant; return the number of deleted ones.

        The report of the last batch of the ledger is kept, and the sums still count the deleted reports.
        """
        last = _last_batch(stream, BatchRow.id).scalar_subquery()
        oldest = (
            select(BatchRow.id)
            .where(BatchRow.stream == stream, BatchRow.committed_at < keep_from, BatchRow.id != last)
            .order_by(BatchRow.committed_at)
            .limit(most)
        )
        keys = list(self._session.scalars(oldest))
        if keys:
            self._session.execute(delete(BatchRuleRow).where(BatchRuleRow.batch_id.in_(keys)))
            self._session.execute(delete(ExpectationResultRow).where(ExpectationResultRow.batch_id.in_(keys)))
            self._session.execute(delete(BatchRow).where(BatchRow.id.in_(keys)))
        return len(keys)

    def page(
        self, stream: str, since: datetime, until: datetime, limit: int, older_than: ReportPlace | None
    ) -> ReportPage:
        """Return the newest reports committed in [since, until): at most `limit`, and about PAGE_BYTES.

        With `older_than`, those after this place of the list.
        """
        newest_first = BatchRow.committed_at.desc(), BatchRow.id.desc()
        query = select(BatchRow.committed_at, BatchRow.id, func.length(BatchRow.report)).where(
            BatchRow.stream == stream, *_committed_in(since, until)
        )
        if older_than is not None:
            at = BatchRow.committed_at
            is_older = and_(at == older_than.committed_at, BatchRow.id < older_than.id)
            query = query.where(or_(at < older_than.committed_at, is_older))
        sizes = self._session.execute(query.order_by(*newest_first).limit(limit + 1))
        places, older = first_places(sizes, limit)
        reports = select(BatchRow.report).where(BatchRow.id.in_([each.id for each in places]))
        found = (_readable(each) for each in self._session.scalars(reports.order_by(*newest_first)))
        return ReportPage(tuple(each for each in found if each is not None), older)

    def counts(self, stream: str, since: datetime, until: datetime, limit: int) -> Iterator[tuple[int, int]]:
        """Yield (records, refused ones) of the batches committed in [since, until), newest first, at most `limit`."""
        query = (
            select(BatchRow.records, BatchRow.quarantined + BatchRow.dropped)
            .where(BatchRow.stream == stream, *_committed_in(since, until))
            .order_by(BatchRow.committed_at.desc(), BatchRow.id.desc())
            .limit(limit)
        )
        return ((records, refused) for records, refused in self._session.execute(query))

    def records_between(self, stream: str, since: datetime, until: datetime) -> int:
        """Sum the records of the batches of a stream committed in [since, until)."""
        return self.records_of((stream,), since, until).get(stream, 0)

    def records_of(self, streams: Sequence[str], since: datetime, until: datetime) -> dict[str, int]:
        """Sum the records of the batches committed in [since, until) by stream, without streams that had none."""
        query = (
            select(BatchRow.stream, func.sum(BatchRow.records))
            .where(BatchRow.stream.in_(streams), *_committed_in(since, until))
            .group_by(BatchRow.stream)
        )
        return {stream: int(records) for stream, records in self._session.execute(query)}

    def volumes(self, streams: Sequence[str], buckets: Buckets) -> dict[str, dict[int, tuple[int, int]]]:
        """Sum (records, refused records) by stream and bucket index; buckets without batches are left out."""
        bucket = _bucket_of(buckets)
        query = (
            select(
                BatchRow.stream,
                bucket,
                func.sum(BatchRow.records),
                func.sum(BatchRow.quarantined + BatchRow.dropped),
            )
            .where(BatchRow.stream.in_(streams), *_committed_in(buckets.since, buckets.until))
            .group_by(BatchRow.stream, bucket)
        )
        found: dict[str, dict[int, tuple[int, int]]] = {}
        for stream, index, records, refused in self._session.execute(query):
            found.setdefault(stream, {})[index] = int(records), int(refused)
        return found

    def violations_by_bucket(
        self, stream: str, buckets: Buckets, severity: Severity
    ) -> dict[int, dict[tuple[Stage, str], int]]:
        """Count the records with violations of one severity by bucket index and by (stage, code)."""
        bucket = _bucket_of(buckets)
        query = (
            select(bucket, BatchRuleRow.stage, BatchRuleRow.code, func.sum(BatchRuleRow.records))
            .join(BatchRuleRow, BatchRuleRow.batch_id == BatchRow.id)
            .where(
                BatchRow.stream == stream,
                BatchRuleRow.severity == severity.value,
                *_committed_in(buckets.since, buckets.until),
            )
            .group_by(bucket, BatchRuleRow.stage, BatchRuleRow.code)
        )
        counts: dict[int, dict[tuple[Stage, str], int]] = {}
        for index, stage, code, records in self._session.execute(query):
            counts.setdefault(index, {})[Stage(stage), code] = int(records)
        return counts

    def _add_to_sums(self, report: BatchReport) -> None:
        """Add a report to its stream's row. A late report of an older epoch changes no `epoch_` field."""
        row = self._session.get(StreamRow, report.stream, with_for_update=True)
        if row is None:
            row = StreamRow(
                stream=report.stream,
                first_started_at=report.started_at,
                epoch=report.epoch,
                epoch_started_at=report.started_at,
                **dict.fromkeys(("epoch_records", "batches", *_SUMMED), 0),
            )
            self._session.add(row)
        row.batches += 1
        row.first_started_at = min(row.first_started_at, report.started_at)
        for name in _SUMMED:
            setattr(row, name, getattr(row, name) + getattr(report, name))
        if report.epoch > row.epoch:
            row.epoch, row.epoch_started_at, row.epoch_records = report.epoch, report.started_at, 0
        if report.epoch == row.epoch:
            row.epoch_started_at = min(row.epoch_started_at, report.started_at)
            row.epoch_records += report.records
        self._session.flush()


def _last_batch(stream: Any, *columns: Any) -> Select[Any]:
    """Return a query for columns of the last batch of a stream's ledger."""
    newest_first = BatchRow.epoch.desc(), BatchRow.n.desc()
    return select(*columns).where(BatchRow.stream == stream).order_by(*newest_first).limit(1)


def _readable(kept: bytes) -> BatchReport | None:
    """Return a stored report; None for one beyond the current bounds, which earlier versions accepted.

    One such report must not break a page.
    """
    try:
        return BatchReport.model_validate_json(kept)
    except ValidationError:
        return None


def _committed_in(since: datetime, until: datetime) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return BatchRow.committed_at >= since, BatchRow.committed_at < until


def _bucket_of(buckets: Buckets) -> ColumnElement[int]:
    since = to_microseconds(buckets.since)
    bucket: ColumnElement[int] = (type_coerce(BatchRow.committed_at, BigInteger) - since) // (
        buckets.width // _MICROSECOND
    )
    return bucket
