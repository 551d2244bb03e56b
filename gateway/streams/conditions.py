"""Whether a stream runs, as far as anybody told: what people decided, and what its job told last."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tidegate.contracts.stream.control import EventKind, StreamControl, StreamEvent


class Condition(StrEnum):
    """`ended`: its job was stopped by somebody, or had read everything; `stopped`: it stopped or failed by itself."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class StreamCondition:
    """The condition of a stream since `at`; `reason`, `by` and `at` are None where no one told any."""

    condition: Condition
    reason: str | None = None
    by: str | None = None
    at: datetime | None = None


def condition_of(
    control: StreamControl, event: StreamEvent | None, last_committed_at: datetime | None
) -> StreamCondition:
    """Return the condition of a stream. A pause hides what its job told; a batch after an end shows that it runs again."""
    if control.is_paused:
        return StreamCondition(Condition.PAUSED, control.reason, control.by, control.at)
    if event is None or event.kind is EventKind.STARTED:
        return StreamCondition(Condition.RUNNING)
    if last_committed_at is not None and last_committed_at > event.at:
        return StreamCondition(Condition.RUNNING)
    condition = Condition.ENDED if event.kind is EventKind.ENDED else Condition.STOPPED
    return StreamCondition(condition, event.message, None, event.at)
