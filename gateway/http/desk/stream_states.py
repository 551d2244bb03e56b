"""The state of a stream in a word: what keeps it from going on, and whether it refuses more than usual."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tidegate.contracts.stream.control import Condition
from tidegate.gateway.http.desk.chart import sparkline
from tidegate.gateway.streams.reports import GONE_AFTER
from tidegate.gateway.streams.status import SILENT_AFTER, STUCK_AFTER
from tidegate.gateway.streams.summaries import StreamSummary
from tidegate.gateway.streams.usual import RefusedShare, refused_share

SPARK_WIDTH = 144
SPARK_HEIGHT = 24


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
    share: RefusedShare
    spark: str
    refused_day: int


def stream_row(summary: StreamSummary, now: datetime) -> StreamRow:
    """Return a stream with its state."""
    buckets = summary.sparkline
    share = refused_share(buckets)
    return StreamRow(
        summary=summary,
        state=_state(summary, share, now),
        share=share,
        spark=sparkline([bucket.refused for bucket in buckets], SPARK_WIDTH, SPARK_HEIGHT),
        refused_day=sum(bucket.refused for bucket in buckets),
    )


def _state(summary: StreamSummary, share: RefusedShare, now: datetime) -> State:
    if (trouble := _trouble(summary, now)) is not None:
        return trouble
    if share.is_raised:
        return State(
            "raised", "Above usual", "the refused share of the last 30 minutes is above the usual one"
        )
    if share.now:
        if share.is_known:
            return State("usual", "As usual", "records are refused, at the usual share")
        return State("usual", "Refusing", "records are refused; too few came before to know what is usual")
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
