"""Decisions about problems: the state, the assignee, and automatic changes of the state. No I/O."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

BY_ITSELF: Final = "tidegate"
"""The author of automatic changes of state."""
MOST_CHANGES: Final = 50
"""Maximum changes of state that are stored for one problem; the audit log has all that people made."""


class ProblemState(StrEnum):
    """The states of a problem, as issue trackers have them."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    MUTED = "muted"
    RESOLVED = "resolved"
    REGRESSED = "regressed"


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Mute(_Value):
    """Until when a problem is muted: an instant, so many further records, or a share of the stream's records in an hour.

    The first of those that are given ends it; without any it stays muted.
    """

    until: datetime | None = None
    count: int | None = Field(default=None, ge=1)
    ratio: float | None = Field(default=None, gt=0, le=1)


class StateChange(_Value):
    """One change of a problem's state; `by` is `tidegate` if it changed by itself."""

    at: datetime
    by: str
    before: ProblemState
    after: ProblemState


class ProblemDecision(_Value):
    """The decision about a problem.

    `records_then` is the number of its records when it was muted or resolved; that of a muted problem is reduced, also
    below 0, by each record that expires. `resolved_in` is the contract version that resolves it, `alerted_at` the time
    of the last alert about a surge. `gone_at` is the time at which none of its records was left in the topic, None if
    some are.
    """

    state: ProblemState = ProblemState.OPEN
    changed_at: datetime | None = None
    assignee: str | None = None
    mute: Mute | None = None
    records_then: int = 0
    resolved_in: str | None = None
    alerted_at: datetime | None = None
    gone_at: datetime | None = None
    changes: tuple[StateChange, ...] = ()

    def changed(
        self,
        state: ProblemState,
        by: str,
        at: datetime,
        *,
        mute: Mute | None = None,
        resolved_in: str | None = None,
        records: int = 0,
    ) -> ProblemDecision:
        """Return the decision with another state; `mute` and `resolved_in` replace the previous ones."""
        change = StateChange(at=at, by=by, before=self.state, after=state)
        return self.model_copy(
            update={
                "state": state,
                "changed_at": at,
                "mute": mute,
                "resolved_in": resolved_in,
                "records_then": records,
                "gone_at": None,
                "changes": (*self.changes, change)[-MOST_CHANGES:],
            }
        )

    @property
    def is_emptied(self) -> bool:
        """Return whether the problem was resolved automatically, because all its records were closed or have expired."""
        return self.state is ProblemState.RESOLVED and bool(self.changes) and self.changes[-1].by == BY_ITSELF

    def mute_ended(self, at: datetime, records: int, hourly_ratio: float | None) -> bool:
        """Return whether the problem is muted and a condition that ends that has occurred.

        `records` is the current number of its records; `hourly_ratio` is None if unknown.
        """
        mute = self.mute
        if self.state is not ProblemState.MUTED or mute is None:
            return False
        is_late = mute.until is not None and at >= mute.until
        is_many = mute.count is not None and records - self.records_then >= mute.count
        is_much = mute.ratio is not None and hourly_ratio is not None and hourly_ratio >= mute.ratio
        return is_late or is_many or is_much
