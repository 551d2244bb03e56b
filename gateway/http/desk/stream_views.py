"""The page of a stream, computed from its batch reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from math import ceil
from urllib.parse import urlencode

from pydantic import BaseModel, Field

from tidegate.contracts.stream.report import BatchReport
from tidegate.contracts.verdict import Severity, Stage
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.desk.chart import Chart, ChartEvent, Series, coloured, placed, stacked
from tidegate.gateway.http.desk.contract_views import published_contract, rule_words
from tidegate.gateway.http.desk.parameters import Moment, Words
from tidegate.gateway.http.desk.stream_states import StreamLine, stream_row
from tidegate.gateway.http.desk.wording import keyword_words, length_of, machine
from tidegate.gateway.streams.marks import Happened, Happening
from tidegate.gateway.streams.reports import RefusalBucket
from tidegate.gateway.streams.summaries import SparkBucket, StreamSummary


@dataclass(frozen=True, slots=True)
class ChartRange:
    """A time range that ends now, divided into equal buckets whose edges do not move with the clock."""

    name: str
    bucket: timedelta
    buckets: int

    @property
    def span(self) -> timedelta:
        """Return the length of the range."""
        return self.bucket * self.buckets

    def until(self, now: datetime) -> datetime:
        """Return the end of the bucket that contains `now`; edges are multiples of the bucket since the epoch."""
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        return epoch + ((now - epoch) // self.bucket + 1) * self.bucket

    def since(self, now: datetime) -> datetime:
        """Return the start of the first bucket."""
        return self.until(now) - self.span


RANGES = (
    ChartRange("15m", timedelta(seconds=15), 60),
    ChartRange("1h", timedelta(minutes=1), 60),
    ChartRange("6h", timedelta(minutes=5), 72),
    ChartRange("24h", timedelta(minutes=30), 48),
    ChartRange("7d", timedelta(hours=2), 84),
    ChartRange("30d", timedelta(hours=12), 60),
)


def ranges_within(retention: timedelta) -> tuple[ChartRange, ...]:
    """Return the ranges that are within the retention of reports, which is at least a day."""
    return tuple(one for one in RANGES if one.span <= retention)


def range_named(
    name: str | None,
    offered: tuple[ChartRange, ...],
    first_report: datetime,
    last_report: datetime,
    now: datetime,
) -> ChartRange:
    """Return the offered range of this name; for an unknown name or None, a default that shows the reports.

    The default is 15 minutes if the stream is younger than that, otherwise an hour. If the last 45 minutes have no
    report, it is the shortest range whose last three quarters include the last report.
    """
    named = next((one for one in offered if one.name == name), None)
    if named is not None:
        return named
    shortest, *others = offered
    if first_report >= now - shortest.span:
        return shortest
    return next((one for one in others if last_report >= now - one.span * 3 / 4), others[-1])


@dataclass(frozen=True, slots=True)
class Span:
    """The time that a page shows, in equal buckets; `name` is that of its range, None for a custom time span."""

    since: datetime
    bucket: timedelta
    buckets: int
    name: str | None

    @property
    def until(self) -> datetime:
        """Return the end of the last bucket."""
        return self.since + self.bucket * self.buckets

    @property
    def words(self) -> str:
        """Return the span in words for the end of a sentence, such as `the last 24 h` or `the chosen 14 min`."""
        return f"the {'last' if self.name else 'chosen'} {length_of(self.bucket * self.buckets)}"


_WIDTHS = tuple(
    timedelta(seconds=seconds)
    for seconds in (1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400)
)
_MOST_BUCKETS = 90
_LEAST_BUCKETS = 12


def chosen_span(since: datetime, until: datetime, oldest: datetime, now: datetime) -> Span | None:
    """Return the span from `since` to `until` in round buckets, not before `oldest`; None if it is empty."""
    since, until = max(since, oldest), min(until, now + _WIDTHS[-1])
    if until - since < timedelta(seconds=1):
        return None
    bucket = next((each for each in _WIDTHS if (until - since) / each <= _MOST_BUCKETS), _WIDTHS[-1])
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    start = epoch + (since - epoch) // bucket * bucket
    return Span(start, bucket, max(_LEAST_BUCKETS, ceil((until - start) / bucket)), None)


MOST_BATCHES = 12


@dataclass(frozen=True, slots=True)
class RuleCountLine:
    """One rule or keyword in a span. `slot` is its colour in the chart; None if it is not in the chart.

    `words` is its requirement; None if unknown. `share` is of the records in the span, from 0 to 1.
    """

    stage: Stage
    code: str
    severity: Severity
    words: str | None
    records: int
    share: float | None
    last_seen: datetime | None
    slot: int | None
    address: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class BatchLine:
    """One batch; `leading` is the code that refused most of its records, None if none was refused."""

    report: BatchReport
    refused: int
    share: float | None
    milliseconds: int
    leading: str | None


@dataclass(frozen=True, slots=True)
class Link:
    """One option of a selector."""

    name: str
    address: str
    is_chosen: bool


class Measure(StrEnum):
    """The unit of the bars of the chart."""

    RECORDS = "records"
    SHARE = "share"


class StreamFilter(BaseModel):
    """The selection on a stream's page, as query parameters."""

    range: Words = None
    since: Moment = Field(default=None, alias="from")
    until: Moment = Field(default=None, alias="to")
    rule: Words = None
    show: Measure = Measure.RECORDS

    def address(self, stream: str, **changes: object) -> str:
        """Return the URL of a stream's page with this filter, after `changes` of some fields."""
        values: dict[str, object] = {**self.model_dump(), **changes}
        query = {
            "range": values["range"],
            "from": machine(values["since"]) if isinstance(values["since"], datetime) else None,
            "to": machine(values["until"]) if isinstance(values["until"], datetime) else None,
            "rule": values["rule"],
            "show": None if values["show"] == Measure.RECORDS else Measure.SHARE.value,
        }
        given = {name: str(value) for name, value in query.items() if value}
        return f"/desk/streams/{stream}?{urlencode(given)}" if given else f"/desk/streams/{stream}"


@dataclass(frozen=True, slots=True)
class Tiles:
    """The figures above the chart, for its span: of the selected rule, or of all rules."""

    refused: int
    records: int
    share: float | None
    last_seen: datetime | None


@dataclass(frozen=True, slots=True)
class StreamView:
    """The page of a stream, without its latest records, which are read from the broker."""

    row: StreamLine
    wanted: StreamFilter
    span: Span
    ranges: tuple[Link, ...]
    measures: tuple[Link, ...]
    rule: str | None
    chart: Chart
    rules: tuple[RuleCountLine, ...]
    batches: tuple[BatchLine, ...]
    tiles: Tiles
    latest_address: str
    without_rule: str
    zoom_address: str


@dataclass(frozen=True, slots=True)
class _Frame:
    """The values that all rows of the rule table share."""

    stream: str
    wanted: StreamFilter
    records: int
    slots: Mapping[str, int]
    words: Mapping[tuple[Stage, str], str]


def stream_view(factory: Factory, stream: str, wanted: StreamFilter, now: datetime) -> StreamView:
    """Return the page of a stream for the selected time span and rule. Raises NotFoundError."""
    reader = factory.streams()
    summary = reader.summary(stream)
    offered = ranges_within(factory.report_retention)
    span = _span(wanted, offered, summary, now)
    errors = reader.refusals(stream, span.since, span.until, span.buckets)
    warnings = reader.refusals(stream, span.since, span.until, span.buckets, Severity.WARNING)
    volumes = reader.volumes(stream, span.since, span.until, span.buckets)
    batches = reader.batches(stream, span.since, span.until)
    series = _series(errors)
    rule = wanted.rule
    slots = {one.label: one.slot for one in series}
    records = sum(volume.records for volume in volumes)
    frame = _Frame(stream, wanted, records, slots, rule_words(published_contract(factory, summary.contract)))
    rules = _rule_rows(errors, Severity.ERROR, batches, frame)
    rules += _rule_rows(warnings, Severity.WARNING, batches, replace(frame, slots={}))
    return StreamView(
        row=stream_row(summary, now),
        wanted=wanted,
        span=span,
        ranges=tuple(_range_link(one, stream, wanted, span) for one in offered),
        measures=tuple(
            Link(one.value.capitalize(), wanted.address(stream, show=one), one is wanted.show)
            for one in Measure
        ),
        rule=rule,
        chart=replace(
            _chart(errors, volumes, span, [one for one in series if rule in {None, one.label}], wanted.show),
            marks=_marks(factory, stream, span),
        ),
        rules=tuple(rules),
        batches=_batch_rows(batches, rule),
        tiles=_tiles(rules, volumes, rule),
        latest_address=f"/desk/streams/{stream}/latest" + (f"?{urlencode({'rule': rule})}" if rule else ""),
        without_rule=wanted.address(stream, rule=None),
        zoom_address=wanted.address(stream, range=None, since=None, until=None),
    )


def _range_link(one: ChartRange, stream: str, wanted: StreamFilter, span: Span) -> Link:
    address = wanted.address(stream, range=one.name, since=None, until=None)
    return Link(one.name, address, one.name == span.name)


def _chart(
    errors: Sequence[RefusalBucket],
    volumes: Sequence[SparkBucket],
    span: Span,
    series: Sequence[Series],
    measure: Measure,
) -> Chart:
    starts = [bucket.start for bucket in errors]
    records = [volume.records for volume in volumes]
    return stacked(starts, span.bucket, series, records, as_share=measure is Measure.SHARE)


def _span(
    wanted: StreamFilter, offered: tuple[ChartRange, ...], summary: StreamSummary, now: datetime
) -> Span:
    if wanted.since is not None and wanted.until is not None:
        found = chosen_span(wanted.since, wanted.until, now - offered[-1].span, now)
        if found is not None:
            return found
    named = range_named(wanted.range, offered, summary.first_started_at, summary.last_committed_at, now)
    return Span(named.since(now), named.bucket, named.buckets, named.name)


def _marks(factory: Factory, stream: str, span: Span) -> tuple[ChartEvent, ...]:
    happened = factory.stream_history().between(stream, span.since, span.until)
    return placed([_in_words(each) for each in happened], span.since, span.until)


def _in_words(happened: Happened) -> tuple[datetime, datetime | None, str, str]:
    words = {
        Happening.VERSION: f"version {happened.what}",
        Happening.PAUSE: f"paused by {happened.what}",
        Happening.REWIND: f"rewound by {happened.what}",
    }
    until = datetime.now(UTC) if happened.is_open else happened.until
    return happened.at, until, happened.kind.value, words[happened.kind]


def _tiles(rules: Sequence[RuleCountLine], volumes: Sequence[SparkBucket], rule: str | None) -> Tiles:
    records = sum(volume.records for volume in volumes)
    errors = [row for row in rules if row.severity is Severity.ERROR and rule in {None, row.code}]
    of_all = sum(volume.refused for volume in volumes)
    refused = of_all if rule is None else sum(row.records for row in errors)
    seen = [row.last_seen for row in errors if row.last_seen is not None]
    return Tiles(refused, records, _share(refused, records), max(seen, default=None))


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _series(buckets: Sequence[RefusalBucket]) -> tuple[Series, ...]:
    """Return one series per code. Colours do not depend on the selected rule."""
    counts: dict[str, list[int]] = {}
    for at, bucket in enumerate(buckets):
        for (_, code), records in bucket.counts.items():
            counts.setdefault(code, [0] * len(buckets))[at] += records
    return coloured(counts)


def _rule_rows(
    buckets: Sequence[RefusalBucket], severity: Severity, batches: Iterable[BatchReport], frame: _Frame
) -> list[RuleCountLine]:
    totals: dict[tuple[Stage, str], int] = {}
    seen: dict[tuple[Stage, str], datetime] = {}
    for bucket in buckets:
        for key, records in bucket.counts.items():
            totals[key] = totals.get(key, 0) + records
            seen[key] = bucket.start
    for batch in reversed(list(batches)):  # newest last; the exact times replace those of the buckets
        for count in batch.rules:
            if count.severity is severity and (count.stage, count.code) in totals:
                seen[count.stage, count.code] = batch.committed_at
    return [
        RuleCountLine(
            stage=key[0],
            code=key[1],
            severity=severity,
            words=frame.words.get(key) or keyword_words(key[0], key[1]),
            records=records,
            share=_share(records, frame.records),
            last_seen=seen.get(key),
            slot=frame.slots.get(key[1]),
            address=frame.wanted.address(frame.stream, rule=None if frame.wanted.rule == key[1] else key[1]),
            is_chosen=frame.wanted.rule == key[1],
        )
        for key, records in sorted(totals.items(), key=lambda item: (-item[1], item[0]))
    ]


def _batch_rows(batches: Iterable[BatchReport], rule: str | None) -> tuple[BatchLine, ...]:
    wanted = (batch for batch in batches if rule is None or any(count.code == rule for count in batch.rules))
    return tuple(_batch_row(batch) for batch, _ in zip(wanted, range(MOST_BATCHES), strict=False))


def _batch_row(batch: BatchReport) -> BatchLine:
    refused = batch.quarantined + batch.dropped
    errors = [count for count in batch.rules if count.severity is Severity.ERROR]
    return BatchLine(
        report=batch,
        refused=refused,
        share=_share(refused, batch.records),
        milliseconds=round((batch.committed_at - batch.started_at) / timedelta(milliseconds=1)),
        leading=max(errors, key=lambda count: count.records).code if errors and refused else None,
    )
