"""The status of a stream: one answer for the API, the desk and the command line."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from tidegate.contracts.stream.control import Condition
from tidegate.gateway.streams.reports import GONE_AFTER
from tidegate.gateway.streams.summaries import StreamSummary
from tidegate.gateway.streams.usual import refused_share

SILENT_AFTER: Final = timedelta(minutes=2)
"""A stream with waiting records is silent after this time without a report."""
STUCK_AFTER: Final = timedelta(minutes=10)
"""A job is stuck if one batch takes this time; batches normally take seconds."""
_RUNS: Final = "it judges and writes records"


class StreamHealth(StrEnum):
    """The state of a stream."""

    RUNNING = "running"
    IDLE = "idle"
    ENDED = "ended"
    PAUSED = "paused"
    SILENT = "silent"
    STUCK = "stuck"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """A stream's state, and its refused share in the last half hour and in the day before it.

    Shares are from 0 to 1, and None without records. `detail` says why it is in this state.
    """

    state: StreamHealth
    detail: str
    refused_share: float | None
    usual_refused_share: float | None
    is_unusual: bool
    """Whether more is refused than usual; a share that is always high is usual."""


def status_of(summary: StreamSummary, now: datetime) -> StreamStatus:
    """Return the status of a stream."""
    state, detail = _state(summary, now)
    share = refused_share(summary.sparkline)
    return StreamStatus(state, detail, share.now, share.usual, share.is_raised)


def _state(summary: StreamSummary, now: datetime) -> tuple[StreamHealth, str]:
    latest = summary.condition
    match latest.condition:
        case Condition.PAUSED:
            return StreamHealth.PAUSED, f"{latest.reason} ({latest.by})"
        case Condition.STOPPED:
            return StreamHealth.STOPPED, latest.reason or "its job has stopped or failed"
        case Condition.ENDED:
            return StreamHealth.ENDED, "its job was ended, or had read everything"
        case Condition.RUNNING:
            return _observed(summary, now)


def _observed(summary: StreamSummary, now: datetime) -> tuple[StreamHealth, str]:
    """Return the state of a stream whose job should run, from its last heartbeat and report."""
    if summary.seen_at is not None and now - max(summary.seen_at, summary.last_committed_at) > GONE_AFTER:
        return StreamHealth.SILENT, f"its job has sent no heartbeat for {GONE_AFTER.seconds} seconds"
    if summary.busy_seconds is not None:
        is_stuck = summary.busy_seconds >= STUCK_AFTER.total_seconds()
        state = StreamHealth.STUCK if is_stuck else StreamHealth.RUNNING
        return state, f"one batch has taken {int(summary.busy_seconds // 60)} minutes" if is_stuck else _RUNS
    if now - summary.last_committed_at <= SILENT_AFTER:
        return StreamHealth.RUNNING, _RUNS
    if summary.lag_records:
        return StreamHealth.SILENT, "records wait, and no report has come for two minutes"
    return StreamHealth.IDLE, "nothing has come since the last report"
