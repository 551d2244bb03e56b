"""The pages about streams, computed from the batch reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from tidegate.contracts.stream.control import Condition
from tidegate.contracts.stream.report import BatchReport
from tidegate.contracts.verdict import Severity, Stage
from tidegate.gateway.http.desk.chart import Bar, Chart, Series, coloured, sparkline, stacked
from tidegate.gateway.streams.reports import (
    GONE_AFTER,
    RefusalBucket,
    SparkBucket,
    StreamReader,
    StreamSummary,
)


@dataclass(frozen=True, slots=True)
class Range:
    """A range that ends now, cut into equal buckets whose edges do not move with the clock."""

    name: str
    bucket: timedelta
    buckets: int

    @property
    def span(self) -> timedelta:
        """The whole length."""
        return self.bucket * self.buckets

    def until(self, now: datetime) -> datetime:
        """Return the end of the bucket that holds `now`; all edges are multiples of the bucket since 1970."""
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        return epoch + ((now - epoch) // self.bucket + 1) * self.bucket

    def since(self, now: datetime) -> datetime:
        """Return the start of the first bucket."""
        return self.until(now) - self.span


RANGES = (
    Range("15m", timedelta(seconds=15), 60),
    Range("1h", timedelta(minutes=1), 60),
    Range("6h", timedelta(minutes=5), 72),
    Range("24h", timedelta(minutes=30), 48),
    Range("7d", timedelta(hours=2), 84),
    Range("30d", timedelta(hours=12), 60),
)


def ranges_within(retention: timedelta) -> tuple[Range, ...]:
    """Return the ranges in which nothing is deleted yet; a retention is at least a day."""
    return tuple(one for one in RANGES if one.span <= retention)


def range_named(
    name: str | None, offered: tuple[Range, ...], first_report: datetime, last_report: datetime, now: datetime
) -> Range:
    """Return the offered range of that name; for an unknown name, a default that shows the reports.

    The default is a quarter of an hour for a younger stream, otherwise an hour. If the last hour has no report, it is
    the shortest range that includes the last report and some time before it.
    """
    named = next((one for one in offered if one.name == name), None)
    if named is not None:
        return named
    shortest, *others = offered
    if first_report >= now - shortest.span:
        return shortest
    return next((one for one in others if last_report >= now - one.span * 3 / 4), others[-1])


SILENT_AFTER = timedelta(minutes=2)
"""A stream with records waiting that has reported nothing for so long is silent."""
STUCK_AFTER = timedelta(minutes=10)
"""A job that has had one batch in hand for so long is stuck: a batch takes seconds."""
SPARK_WIDTH = 144
SPARK_HEIGHT = 24
MOST_BATCHES = 12


@dataclass(frozen=True, slots=True)
class State:
    """The state of a stream: `name` is a CSS class, `label` a word, `detail` a sentence."""

    name: str
    label: str
    detail: str


@dataclass(frozen=True, slots=True)
class StreamRow:
    """One stream in the list."""

    summary: StreamSummary
    state: State
    refused_now: float | None
    refused_usually: float | None
    spark: tuple[Bar, ...]
    refused_day: int


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One rule or keyword in a range; `slot` is its colour in the chart (None: not in it)."""

    stage: Stage
    code: str
    severity: Severity
    records: int
    share: float | None
    last_seen: datetime | None
    slot: int | None
    address: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class BatchRow:
    """One batch; `leading` is the code that refused most of it."""

    report: BatchReport
    refused: int
    share: float | None
    milliseconds: int
    leading: str | None


@dataclass(frozen=True, slots=True)
class RangeLink:
    """One choice of the range switch."""

    name: str
    address: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class StreamView:
    """All of a stream's page but its latest records, which the broker holds."""

    row: StreamRow
    range: Range
    ranges: tuple[RangeLink, ...]
    rule: str | None
    chart: Chart
    rules: tuple[RuleRow, ...]
    batches: tuple[BatchRow, ...]
    records: int
    refused: int
    address: str
    latest_address: str
    without_rule: str


def stream_rows(reader: StreamReader, now: datetime) -> tuple[StreamRow, ...]:
    """Return every stream, those that need someone first, then by name."""
    rows = (_stream_row(summary, now) for summary in reader.summaries())
    order = ("stopped", "paused", "silent", "refusing", "clear", "quiet")
    return tuple(sorted(rows, key=lambda row: (order.index(row.state.name), row.summary.stream)))


def stream_view(
    reader: StreamReader,
    stream: str,
    *,
    range_name: str | None,
    rule: str | None,
    now: datetime,
    ranges: tuple[Range, ...],
) -> StreamView:
    """Return a stream's page for one of the ranges and, if one is named, a single rule. Raises NotFoundError."""
    summary = reader.summary(stream)
    chosen = range_named(range_name, ranges, summary.first_started_at, summary.last_committed_at, now)
    since, until = chosen.since(now), chosen.until(now)
    errors = reader.refusals(stream, since, until, chosen.buckets)
    warnings = reader.refusals(stream, since, until, chosen.buckets, Severity.WARNING)
    volumes = reader.volumes(stream, since, until, chosen.buckets)
    batches = reader.batches(stream, since, until)
    explicit_range = range_name if range_name == chosen.name else None
    base = f"/desk/streams/{stream}"
    records = sum(volume.records for volume in volumes)
    series = _series(errors)
    slots = {one.label: one.slot for one in series}
    return StreamView(
        row=_stream_row(summary, now),
        range=chosen,
        ranges=tuple(RangeLink(one.name, _address(base, one.name, rule), one == chosen) for one in ranges),
        rule=rule,
        chart=stacked(
            [bucket.start for bucket in errors],
            chosen.bucket,
            [one for one in series if rule in {None, one.label}],
        ),
        rules=tuple(
            _rule_rows(errors, Severity.ERROR, batches, _Frame(base, explicit_range, rule, records, slots))
            + _rule_rows(warnings, Severity.WARNING, batches, _Frame(base, explicit_range, rule, records, {}))
        ),
        batches=_batch_rows(batches, rule),
        records=records,
        refused=sum(volume.refused for volume in volumes),
        address=_address(base, explicit_range, rule),
        latest_address=_address(f"{base}/latest", None, rule),
        without_rule=_address(base, explicit_range, None),
    )


@dataclass(frozen=True, slots=True)
class _Frame:
    """What all rows of the rule table share."""

    base: str
    range_name: str | None
    rule: str | None
    records: int
    slots: dict[str, int]


def _stream_row(summary: StreamSummary, now: datetime) -> StreamRow:
    buckets = summary.sparkline
    last = buckets[-1] if buckets else None
    return StreamRow(
        summary=summary,
        state=_state(summary, now),
        refused_now=_share(last.refused, last.records) if last is not None else None,
        refused_usually=_share(
            sum(bucket.refused for bucket in buckets), sum(bucket.records for bucket in buckets)
        ),
        spark=sparkline([bucket.refused for bucket in buckets], SPARK_WIDTH, SPARK_HEIGHT),
        refused_day=sum(bucket.refused for bucket in buckets),
    )


def _state(summary: StreamSummary, now: datetime) -> State:
    if (trouble := _trouble(summary, now)) is not None:
        return trouble
    last: SparkBucket | None = summary.sparkline[-1] if summary.sparkline else None
    if last is not None and last.refused:
        return State("refusing", "Refusing", "records were refused in the last 30 minutes")
    if now - summary.last_committed_at > SILENT_AFTER and summary.busy_seconds is None:
        return _quiet(summary)
    return State("clear", "All clear", "nothing was refused in the last 30 minutes")


def _trouble(summary: StreamSummary, now: datetime) -> State | None:
    """Return what keeps a stream from going on; None when nothing does."""
    reported = summary.condition
    if reported.condition is Condition.PAUSED:
        return State("paused", "Paused", f"{reported.reason} ({reported.by})")
    if reported.condition is Condition.STOPPED:
        return State("stopped", "Stopped", reported.reason or "its job has stopped or failed")
    is_late = now - summary.last_committed_at > SILENT_AFTER
    is_gone = reported.condition is Condition.RUNNING and _is_gone(summary, now)
    if is_gone:
        return State("silent", "Silent", f"its job has sent no heartbeat for {GONE_AFTER.seconds} seconds")
    if summary.busy_seconds is not None and summary.busy_seconds >= STUCK_AFTER.total_seconds():
        minutes = int(summary.busy_seconds // 60)
        return State("silent", "Stuck", f"its job lives, and has had one batch in hand for {minutes} minutes")
    if is_late and summary.lag_records and summary.busy_seconds is None:
        return State("silent", "Silent", "records wait, and no report has come for two minutes")
    return None


def _quiet(summary: StreamSummary) -> State:
    if summary.condition.condition is Condition.ENDED:
        return State("quiet", "Ended", "its job was ended, or had read everything")
    if summary.seen_at is not None:
        return State("quiet", "Idle", "its job runs, and nothing has come since the last report")
    return State("quiet", "Quiet", "everything was read at the last report, and nothing has come since")


def _is_gone(summary: StreamSummary, now: datetime) -> bool:
    """Return whether a job that used to say that it lives does so no more; of one that never did nothing is known."""
    return summary.seen_at is not None and now - max(summary.seen_at, summary.last_committed_at) > GONE_AFTER


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _address(base: str, range_name: str | None, rule: str | None) -> str:
    query = {name: value for name, value in (("range", range_name), ("rule", rule)) if value}
    return f"{base}?{urlencode(query)}" if query else base


def _series(buckets: Sequence[RefusalBucket]) -> tuple[Series, ...]:
    """Return each code its counts and its colour, which a filter does not change."""
    counts: dict[str, list[int]] = {}
    for at, bucket in enumerate(buckets):
        for (_, code), records in bucket.counts.items():
            counts.setdefault(code, [0] * len(buckets))[at] += records
    return coloured(counts)


def _rule_rows(
    buckets: Sequence[RefusalBucket], severity: Severity, batches: Iterable[BatchReport], frame: _Frame
) -> list[RuleRow]:
    totals: dict[tuple[Stage, str], int] = {}
    seen: dict[tuple[Stage, str], datetime] = {}
    for bucket in buckets:
        for key, records in bucket.counts.items():
            totals[key] = totals.get(key, 0) + records
            seen[key] = bucket.start
    for batch in reversed(list(batches)):  # newest last: exact times take the place of the buckets'
        for count in batch.rules:
            if count.severity is severity and (count.stage, count.code) in totals:
                seen[count.stage, count.code] = batch.committed_at
    return [
        RuleRow(
            stage=key[0],
            code=key[1],
            severity=severity,
            records=records,
            share=_share(records, frame.records),
            last_seen=seen.get(key),
            slot=frame.slots.get(key[1]),
            address=_address(frame.base, frame.range_name, None if frame.rule == key[1] else key[1]),
            is_chosen=frame.rule == key[1],
        )
        for key, records in sorted(totals.items(), key=lambda item: (-item[1], item[0]))
    ]


def _batch_rows(batches: Iterable[BatchReport], rule: str | None) -> tuple[BatchRow, ...]:
    wanted = (batch for batch in batches if rule is None or any(count.code == rule for count in batch.rules))
    return tuple(_batch_row(batch) for batch, _ in zip(wanted, range(MOST_BATCHES), strict=False))


def _batch_row(batch: BatchReport) -> BatchRow:
    refused = batch.quarantined + batch.dropped
    errors = [count for count in batch.rules if count.severity is Severity.ERROR]
    return BatchRow(
        report=batch,
        refused=refused,
        share=_share(refused, batch.records),
        milliseconds=round((batch.committed_at - batch.started_at) / timedelta(milliseconds=1)),
        leading=max(errors, key=lambda count: count.records).code if errors and refused else None,
    )
