"""Batch reports of the streams: the data of the pages and of the API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.errors import ConflictError, NotFoundError
from tidegate.contracts.stream.control import EventKind
from tidegate.contracts.stream.report import BatchReport, ExpectationOutcome
from tidegate.contracts.verdict import Severity, Stage
from tidegate.gateway.access.principal import ANONYMOUS, Principal
from tidegate.gateway.storage.database import Database
from tidegate.gateway.storage.report_pages import ReportPage, ReportPlace
from tidegate.gateway.storage.reports import Buckets, PastResult
from tidegate.gateway.storage.sql import Stores
from tidegate.gateway.storage.tables import StreamRow
from tidegate.gateway.streams.controls import reporter_topic, require_own, require_same
from tidegate.gateway.streams.summaries import SparkBucket, StreamSummary, spark_buckets, summaries_of

GONE_AFTER = timedelta(seconds=45)
"""Maximum age of the last heartbeat of a job that is alive; jobs send one every ten seconds."""

_PRUNED_AT_ONCE = 100
"""Old reports that each new one deletes: more than one, to reduce a backlog; few, so that no request takes long."""
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Enforcement:
    """Whether a job enforces a contract. `seen_at` is the job's last heartbeat, None if it never sent one."""

    is_enforced: bool
    seen_at: datetime | None


@dataclass(frozen=True, slots=True)
class RefusalBucket:
    """A slice of time, from `start` to before `end`, and how many records violated each (stage, code).

    Violations of one severity count. A record with several violations counts under each of them.
    """

    start: datetime
    end: datetime
    counts: Mapping[tuple[Stage, str], int]


class ReportService:
    """A service that stores the batch reports of jobs, and calls `announce` with each new report after that.

    Each new report deletes some that are older than the newest of their stream by more than `retention`. The sums of
    the stream still count these.
    """

    def __init__(
        self,
        database: Database,
        retention: timedelta,
        now: Callable[[], datetime],
        announce: Callable[[BatchReport], None] = lambda _report: None,
    ) -> None:
        self._database = database
        self._retention = retention
        self._now = now
        self._announce = announce

    def record(self, stream: str, report: BatchReport, by: Principal = ANONYMOUS) -> bool:
        """Store a report; return False if it was stored before, or if reports of its age are already deleted.

        A report is identified by (stream, epoch, n). Raises ConflictError if another batch has the same identity, or
        if the report names another stream, contract or topic. Raises NotFoundError or Forbidden if `by` may not
        report for the topic of the enforced contract.
        """
        require_same(stream, report.stream)
        with self._database.writing() as stores:
            require_own(report, reporter_topic(stores, stream, by))
            is_new = self._keep(stores, report)
        if is_new:
            self._announce(report)
        return is_new

    def _keep(self, stores: Stores, report: BatchReport) -> bool:
        kept = stores.reports.report(report.stream, report.epoch, report.n)
        if kept is not None:
            if (kept.start, kept.end, kept.records) == (report.start, report.end, report.records):
                return False
            raise ConflictError(
                f"batch {report.epoch}/{report.n} of {report.stream} was reported with other offsets, and the first "
                "report stands; a ledger that was created again needs a registry that has not seen the old one"
            )
        keep_from = None
        if (reach := stores.reports.reach(report.stream)) is not None:
            # A job whose clock is ahead must not make all reports look old.
            keep_from = min(max(reach.newest, report.committed_at), self._now()) - self._retention
            is_last = (report.epoch, report.n) > (reach.epoch, reach.n)
            if report.committed_at < keep_from and not is_last:
                return False  # it may have been stored and deleted: sums must not count it twice
        stores.reports.add_report(report)
        if keep_from is not None:
            stores.reports.prune(report.stream, keep_from, _PRUNED_AT_ONCE)
        return True


class StreamReader:
    """A reader of the state and the reports of streams, for one principal."""

    def __init__(self, database: Database, now: Callable[[], datetime], by: Principal = ANONYMOUS) -> None:
        self._database = database
        self._now = now
        self._by = by

    def summaries(self) -> tuple[StreamSummary, ...]:
        """Return the state of every visible stream that ever reported, ordered by name."""
        with self._database.reading() as stores:
            topics = stores.contracts.topics()
            seen = {
                sums.stream: topics[sums.stream]
                for sums in stores.reports.sums()
                if sums.stream in topics and self._by.sees(subject_of(topics[sums.stream]))
            }
            return summaries_of(stores, seen, self._now())

    def summary(self, stream: str) -> StreamSummary:
        """Return the state of one stream. Raises NotFoundError."""
        with self._database.reading() as stores:
            _known(stores, stream)
            topic = stores.contracts.topic_of(stream)
            found = () if topic is None else summaries_of(stores, {stream: topic}, self._now())
            if not found:
                raise _unknown(stream)
            return found[0]

    def has_reported(self, stream: str) -> bool:
        """Return whether a batch of the stream was ever reported."""
        with self._database.reading() as stores:
            return stores.reports.sums_of(stream) is not None

    def enforcement(self, stream: str) -> Enforcement:
        """Return whether a job enforces the contract with this id, by its last heartbeat and event."""
        with self._database.reading() as stores:
            heard = stores.controls.heartbeat(stream)
            event = stores.controls.last_events([stream]).get(stream)
        if heard is None:
            return Enforcement(is_enforced=False, seen_at=None)
        has_ended = event is not None and event.kind is not EventKind.STARTED and event.at >= heard.at
        return Enforcement(not has_ended and self._now() - heard.at <= GONE_AFTER, heard.at)

    def batches(
        self, stream: str, since: datetime, until: datetime, limit: int = 1000
    ) -> tuple[BatchReport, ...]:
        """List the batches on the first page of `page`. Raises NotFoundError."""
        return self.page(stream, since, until, limit).reports

    def page(
        self,
        stream: str,
        since: datetime,
        until: datetime,
        limit: int,
        older_than: ReportPlace | None = None,
    ) -> ReportPage:
        """Return the newest batches committed in [since, until), or the next ones; at most `limit`, of some MiB.

        Raises NotFoundError.
        """
        with self._database.reading() as stores:
            _known(stores, stream)
            return stores.reports.page(stream, since, until, limit, older_than)

    def volumes(self, stream: str, since: datetime, until: datetime, buckets: int) -> tuple[SparkBucket, ...]:
        """Count all and refused records in `buckets` equal slices of [since, until), empty ones included.

        Raises NotFoundError.
        """
        slices = Buckets(since, _width(until - since, buckets), buckets)
        with self._database.reading() as stores:
            _known(stores, stream)
            return _volumes(stores, stream, slices)

    def refusals(
        self,
        stream: str,
        since: datetime,
        until: datetime,
        buckets: int,
        severity: Severity = Severity.ERROR,
    ) -> tuple[RefusalBucket, ...]:
        """Count violations by (stage, code) in `buckets` equal slices of [since, until), empty ones included.

        The last slice may reach past `until` by less than one microsecond a bucket. Raises NotFoundError.
        """
        slices = Buckets(since, _width(until - since, buckets), buckets)
        with self._database.reading() as stores:
            _known(stores, stream)
            found = stores.reports.violations_by_bucket(stream, slices, severity)
        return tuple(
            RefusalBucket(start, start + slices.width, found.get(index, {}))
            for index, start in enumerate(slices.starts())
        )


def _known(stores: Stores, stream: str) -> StreamRow:
    sums = stores.reports.sums_of(stream)
    if sums is None:
        raise _unknown(stream)
    return sums


def _unknown(stream: str) -> NotFoundError:
    return NotFoundError(f"no batch of a stream {stream} was reported")


def _volumes(stores: Stores, stream: str, buckets: Buckets) -> tuple[SparkBucket, ...]:
    return spark_buckets(stores.reports.volumes((stream,), buckets).get(stream, {}), buckets)


def _width(span: timedelta, buckets: int) -> timedelta:
    """Return the width of a bucket, rounded up so that `buckets` of them cover the span."""
    return max(-(-span // buckets), _MICROSECOND)


_MOST = 10_000
_GOOD = frozenset({ExpectationOutcome.MET, ExpectationOutcome.SKIPPED})


@dataclass(frozen=True, slots=True)
class ExpectationHistory:
    """One expectation in a range of time: its results, newest first, never empty.

    `judged` counts the batches in which it was not skipped, `unmet` those in which it was not met. `disagreements`
    counts those in which Great Expectations, run for comparison, had another result.
    """

    expectation: str
    results: tuple[PastResult, ...]
    judged: int
    unmet: int
    disagreements: int

    @property
    def last(self) -> PastResult:
        """Return the newest result."""
        return self.results[0]


class ExpectationReader:
    """A reader of the results of expectations."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def results(
        self,
        stream: str,
        since: datetime,
        until: datetime,
        limit: int = _MOST,
        expectation: str | None = None,
    ) -> tuple[PastResult, ...]:
        """List the results in batches committed in [since, until), newest first, at most `limit`.

        Only those of `expectation`, if given. Raises NotFoundError.
        """
        with self._database.reading() as stores:
            if stores.reports.sums_of(stream) is None:
                raise NotFoundError(f"no batch of a stream {stream} was reported")
            return tuple(stores.expectations.between(stream, since, until, limit, expectation))

    def history(self, stream: str, since: datetime, until: datetime) -> tuple[ExpectationHistory, ...]:
        """Return the expectations with results in [since, until), ordered by id. Raises NotFoundError.

        Only the newest `_MOST` results count.
        """
        by_id: dict[str, list[PastResult]] = {}
        for each in self.results(stream, since, until):
            by_id.setdefault(each.result.id, []).append(each)
        return tuple(_history(name, tuple(found)) for name, found in sorted(by_id.items()))


def _history(name: str, found: tuple[PastResult, ...]) -> ExpectationHistory:
    outcomes = [each.result.outcome for each in found]
    return ExpectationHistory(
        name,
        found,
        judged=sum(outcome is not ExpectationOutcome.SKIPPED for outcome in outcomes),
        unmet=sum(outcome not in _GOOD for outcome in outcomes),
        disagreements=sum(each.result.agrees is False for each in found),
    )
