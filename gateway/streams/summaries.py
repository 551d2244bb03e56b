"""The current state of streams, computed from reports, events and heartbeats: all streams in a few queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidegate.contracts.stream.control import StreamCondition, StreamControl, condition_of
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.contracts.stream.report import BatchReport
from tidegate.gateway.storage.reports import Buckets
from tidegate.gateway.storage.sql import Stores
from tidegate.gateway.storage.stream_control import HeartbeatRow
from tidegate.gateway.storage.tables import StreamRow
from tidegate.gateway.streams.budgets import BudgetUse, budget_uses

_RATE_WINDOW = timedelta(minutes=1)
_SPARKLINE = timedelta(minutes=30), 48  # 24 hours
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class StreamTotals:
    """Counts since the first batch; `records = written + quarantined + dropped`."""

    batches: int
    records: int
    written: int
    warned: int
    alerted: int
    quarantined: int
    dropped: int

    @property
    def refused(self) -> int:
        """Return the number of records that did not reach the sink."""
        return self.quarantined + self.dropped

    @property
    def refused_share(self) -> float:
        """Return the refused share of all records, from 0 to 1; 0 without records."""
        return self.refused / self.records if self.records else 0.0


@dataclass(frozen=True, slots=True)
class SparkBucket:
    """A slice of a stream's time: the number of records in its batches, and the number of refused ones."""

    start: datetime
    records: int
    refused: int


@dataclass(frozen=True, slots=True)
class StreamSummary:
    """The current state of one stream.

    `first_started_at` is the start of its first batch, `started_at` of the first batch since its job last started.
    Rates are records per second: over the last minute, and from `started_at` to the last commit. `lag_records` is from
    the last report or the last heartbeat, whichever is newer. `seen_at` is the last heartbeat of its job, None without
    one. `busy_seconds` is how long the oldest batch in progress had taken then, None without such a batch. `sparkline`
    covers the last 24 hours, oldest first. Instants are UTC.
    """

    stream: str
    topic: str
    quarantine_topic: str
    sink: str
    contract: str
    fingerprint: str
    epoch: int
    n: int
    first_started_at: datetime
    started_at: datetime
    last_committed_at: datetime
    records_per_second_last_minute: float
    records_per_second_since_start: float
    lag_records: int | None
    condition: StreamCondition
    seen_at: datetime | None
    busy_seconds: float | None
    budget: BudgetUse | None
    totals: StreamTotals
    sparkline: tuple[SparkBucket, ...]


def summaries_of(stores: Stores, topics: Mapping[str, str], now: datetime) -> tuple[StreamSummary, ...]:
    """Return the state of streams, given as topics by stream, ordered by name.

    Streams without a readable last report are left out.
    """
    names = tuple(topics)
    width, count = _SPARKLINE
    buckets = Buckets(now + _MICROSECOND - width * count, width, count)
    reports = stores.reports
    last, recent = (
        reports.last_reports(names),
        reports.records_of(names, now - _RATE_WINDOW, buckets.until),
    )
    volumes = reports.volumes(names, buckets)
    controls, events = stores.controls.all(names), stores.controls.last_events(names)
    heartbeats, budgets = stores.controls.heartbeats(names), budget_uses(stores, last)
    found = []
    for sums in reports.sums(names):
        name = sums.stream
        if name not in last:
            continue
        control = controls.get(name, StreamControl(stream=name))
        condition = condition_of(control, events.get(name), last[name].committed_at)
        rate = _rate(recent.get(name, 0), min(_RATE_WINDOW, now - sums.first_started_at))
        spark = spark_buckets(volumes.get(name, {}), buckets)
        heard = heartbeats.get(name)
        facts = topics[name], condition, rate, spark, budgets.get(name)
        found.append(_summary(sums, last[name], heard, facts))
    return tuple(found)


def _summary(
    sums: StreamRow,
    last: BatchReport,
    heard: HeartbeatRow | None,
    facts: tuple[str, StreamCondition, float, tuple[SparkBucket, ...], BudgetUse | None],
) -> StreamSummary:
    topic, condition, recent_rate, spark, budget = facts
    return StreamSummary(
        stream=sums.stream,
        topic=topic,  # from the contract: a report may name another topic, and must not give access to it
        quarantine_topic=quarantine_topic(topic),
        sink=last.sink,
        contract=last.contract,
        fingerprint=last.fingerprint,
        epoch=last.epoch,
        n=last.n,
        first_started_at=sums.first_started_at,
        started_at=sums.epoch_started_at,
        last_committed_at=last.committed_at,
        records_per_second_last_minute=recent_rate,
        records_per_second_since_start=_rate(sums.epoch_records, last.committed_at - sums.epoch_started_at),
        lag_records=lag_of(last, heard),
        condition=condition,
        seen_at=None if heard is None else heard.at,
        busy_seconds=None if heard is None else heard.busy_seconds,
        budget=budget,
        totals=StreamTotals(**{name: getattr(sums, name) for name in StreamTotals.__slots__}),
        sparkline=spark,
    )


def spark_buckets(found: Mapping[int, tuple[int, int]], buckets: Buckets) -> tuple[SparkBucket, ...]:
    """Return all slices of a span, empty ones included; `found` has (records, refused) by index."""
    return tuple(
        SparkBucket(start, *found.get(index, (0, 0))) for index, start in enumerate(buckets.starts())
    )


def lag_of(last: BatchReport | None, heard: HeartbeatRow | None) -> int | None:
    """Return the number of waiting records by the last report or heartbeat, whichever is newer; None if unknown."""
    if heard is not None and heard.lag_records is not None and (last is None or heard.at > last.committed_at):
        return heard.lag_records
    return None if last is None else last.lag_records


def _rate(records: int, time: timedelta) -> float:
    seconds = time.total_seconds()
    return records / seconds if seconds > 0 else 0.0
