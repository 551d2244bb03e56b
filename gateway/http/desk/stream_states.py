"""The state of a stream in words: whether it runs, and whether it refuses more records than usual."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tidegate.gateway.http.desk.chart import sparkline
from tidegate.gateway.streams.status import StreamHealth, status_of
from tidegate.gateway.streams.summaries import StreamSummary
from tidegate.gateway.streams.usual import RefusedShare, refused_share

SPARK_WIDTH = 144
SPARK_HEIGHT = 24


@dataclass(frozen=True, slots=True)
class State:
    """The state of a stream: `name` is a CSS class, `label` the state in words, `detail` a sentence."""

    name: str
    label: str
    detail: str


@dataclass(frozen=True, slots=True)
class StreamLine:
    """One stream in the list. `spark` is the SVG path of its sparkline.

    `refused_day` is the number of records refused in the time of the sparkline.
    """

    summary: StreamSummary
    state: State
    share: RefusedShare
    spark: str
    refused_day: int


def stream_row(summary: StreamSummary, now: datetime) -> StreamLine:
    """Return a stream with its state at the time `now`."""
    buckets = summary.sparkline
    share = refused_share(buckets)
    return StreamLine(
        summary=summary,
        state=_state(summary, share, now),
        share=share,
        spark=sparkline([bucket.refused for bucket in buckets], SPARK_WIDTH, SPARK_HEIGHT),
        refused_day=sum(bucket.refused for bucket in buckets),
    )


def _state(summary: StreamSummary, share: RefusedShare, now: datetime) -> State:
    status = status_of(summary, now)
    if (trouble := _TROUBLES.get(status.state)) is not None:
        return State(*trouble, status.detail)
    if share.is_raised:
        return State(
            "raised", "Above usual", "the refused share of the last 30 minutes is above the usual one"
        )
    if share.now:
        if share.is_known:
            return State("usual", "As usual", "records are refused, at the usual share")
        return State("usual", "Refusing", "records are refused; too few came before to know what is usual")
    if status.state is StreamHealth.RUNNING:
        return State("clear", "All clear", "nothing was refused in the last 30 minutes")
    return State("quiet", status.state.capitalize(), status.detail)


_TROUBLES: Final = {
    StreamHealth.PAUSED: ("paused", "Paused"),
    StreamHealth.STOPPED: ("stopped", "Stopped"),
    StreamHealth.SILENT: ("silent", "Silent"),
    StreamHealth.STUCK: ("silent", "Stuck"),
}
"""The CSS class and label of the states in which a stream does not run. They take precedence over refused records."""
