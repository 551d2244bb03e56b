"""The queries of the streams' batch reports, and of what they add up to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import ValidationError
from sqlalchemy import BigInteger, ColumnElement, delete, func, insert, select, type_coerce
from sqlalchemy.orm import Session

from tidegate.contracts.stream.report import BatchReport
from tidegate.contracts.verdict import Severity, Stage
from tidegate.gateway.storage.expectations import ExpectationResultRow, ExpectationStore
from tidegate.gateway.storage.ordering import ByCodePoint
from tidegate.gateway.storage.shadows import ShadowStore
from tidegate.gateway.storage.stream_sums import StreamSumStore
from tidegate.gateway.storage.tables import BatchRow, BatchRuleRow, StreamRow, fields_of, to_microseconds

_MICROSECOND = timedelta(microseconds=1)
_SUMMED = ("records", "written", "warned", "alerted", "quarantined", "dropped")


@dataclass(frozen=True, slots=True)
class StreamSums:
    """What one stream has done since its first batch; the `epoch_` fields since its job last started."""

    stream: str
    first_started_at: datetime
    epoch: int
    epoch_started_at: datetime
    epoch_records: int
    batches: int
    records: int
    written: int
    warned: int
    alerted: int
    quarantined: int
    dropped: int


@dataclass(frozen=True, slots=True)
class Reach:
    """How far the reports of a stream reach: the last batch of its ledger, and when the newest was committed."""

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
        """The first instant past the last bucket."""
        return self.since + self.width * self.count

    def starts(self) -> tuple[datetime, ...]:
        """Return the first instant of each bucket."""
        return tuple(self.since + self.width * index for index in range(self.count))


class ReportStore:
    """Streams and their batch reports."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def report(self, stream: str, epoch: int, n: int) -> BatchReport | None:
        """Find one report by its identity."""
        query = select(BatchRow.report).where(
            BatchRow.stream == stream, BatchRow.epoch == epoch, BatchRow.n == n
        )
        found = self._session.scalar(query)
        return None if found is None else BatchReport.model_validate_json(found)

    def add_report(self, report: BatchReport) -> None:
        """Keep a report and add it to the sums of its stream."""
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

    def sums(self) -> tuple[StreamSums, ...]:
        """Return the sums of every stream, by name."""
        rows = self._session.scalars(select(StreamRow).order_by(ByCodePoint(StreamRow.stream)))
        return tuple(_stream_sums(row) for row in rows)

    def sums_of(self, stream: str) -> StreamSums | None:
        """Return the sums of one stream, None for a stream that never reported."""
        row = self._session.get(StreamRow, stream)
        return None if row is None else _stream_sums(row)

    def last_report(self, stream: str) -> BatchReport | None:
        """Return the report of the batch that the ledger reached last, in whatever order they came.

        None for a stream that never reported, and for a report that this version refuses.
        """
        newest = select(BatchRow.report).where(BatchRow.stream == stream)
        query = newest.order_by(BatchRow.epoch.desc(), BatchRow.n.desc()).limit(1)
        found = self._session.scalar(query)
        return None if found is None else _readable(found)

    def reach(self, stream: str) -> Reach | None:
        """Return how far the reports of a stream reach, None for a stream that never reported."""
        newest = select(func.max(BatchRow.committed_at)).where(BatchRow.stream == stream).scalar_subquery()
        query = select(BatchRow.epoch, BatchRow.n, newest).where(BatchRow.stream == stream)
        found = self._session.execute(
            query.order_by(BatchRow.epoch.desc(), BatchRow.n.desc()).limit(1)
        ).first()
        return None if found is None else Reach(*found)

    def prune(self, stream: str, keep_from: datetime, most: int) -> int:
        """Delete the oldest reports committed before an instant, at most so many; returns how many there were.

        The report of the batch that the ledger reached last stays, and sums keep what they counted.
        """
        last = (
            select(BatchRow.id)
            .where(BatchRow.stream == stream)
            .order_by(BatchRow.epoch.desc(), BatchRow.n.desc())
            .limit(1)
            .scalar_subquery()
        )
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

    def reports(self, stream: str, since: datetime, until: datetime, limit: int) -> tuple[BatchReport, ...]:
        """List the reports committed in [since, until), newest first, at most `limit`."""
        query = (
            select(BatchRow.report)
            .where(BatchRow.stream == stream, *_committed_in(since, until))
            .order_by(BatchRow.committed_at.desc(), BatchRow.id.desc())
            .limit(limit)
        )
        found = (_readable(each) for each in self._session.scalars(query))
        return tuple(each for each in found if each is not None)

    def records_between(self, stream: str, since: datetime, until: datetime) -> int:
        """Sum the records of the batches committed in [since, until)."""
        query = select(func.sum(BatchRow.records)).where(
            BatchRow.stream == stream, *_committed_in(since, until)
        )
        return int(self._session.scalar(query) or 0)

    def records_by_bucket(self, stream: str, buckets: Buckets) -> dict[int, tuple[int, int]]:
        """Sum records and refused records by index of the bucket; empty buckets are left out."""
        bucket = _bucket_of(buckets)
        query = (
            select(bucket, func.sum(BatchRow.records), func.sum(BatchRow.quarantined + BatchRow.dropped))
            .where(BatchRow.stream == stream, *_committed_in(buckets.since, buckets.until))
            .group_by(bucket)
        )
        return {
            index: (int(records), int(refused)) for index, records, refused in self._session.execute(query)
        }

    def violations_by_bucket(
        self, stream: str, buckets: Buckets, severity: Severity
    ) -> dict[int, dict[tuple[Stage, str], int]]:
        """Count records by index of the bucket and by (stage, code), for one severity."""
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
        """Add a report to its stream's row. Reports may arrive late: an older epoch changes no `epoch_` field."""
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


def _readable(kept: bytes) -> BatchReport | None:
    """Return a kept report; None for one beyond today's bounds, which earlier versions took: it must not end a page."""
    try:
        return BatchReport.model_validate_json(kept)
    except ValidationError:
        return None


def _stream_sums(row: StreamRow) -> StreamSums:
    return StreamSums(**fields_of(row, StreamSums))


def _committed_in(since: datetime, until: datetime) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return BatchRow.committed_at >= since, BatchRow.committed_at < until


def _bucket_of(buckets: Buckets) -> ColumnElement[int]:
    since = to_microseconds(buckets.since)
    bucket: ColumnElement[int] = (type_coerce(BatchRow.committed_at, BigInteger) - since) // (
        buckets.width // _MICROSECOND
    )
    return bucket
