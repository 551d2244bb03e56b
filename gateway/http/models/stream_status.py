"""Response models about the status of a stream."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

STATUS: dict[str, Any] = {
    "state": "running",
    "detail": "it judges and writes records",
    "refused_share": 0.03,
    "usual_refused_share": 0.028,
    "is_unusual": False,
}
BUDGET: dict[str, Any] = {
    "ratio": 0.2,
    "min_records": 500,
    "window_records": None,
    "action": "pause",
    "records": 1000,
    "refused": 30,
    "used": 0.15,
    "is_spent": False,
}


class StatusInfo(BaseModel):
    """The status of a stream."""

    model_config = ConfigDict(from_attributes=True)

    state: Literal["running", "idle", "ended", "paused", "silent", "stuck", "stopped"] = Field(
        description="silent: no heartbeat, or records wait without a report; stuck: one batch takes long."
    )
    detail: str
    refused_share: float | None = Field(
        description="Refused share of the last half hour; null without records."
    )
    usual_refused_share: float | None = Field(
        description="The same of the day before it; null without records."
    )
    is_unusual: bool = Field(
        description="Whether the share is at least three times the usual one, and more than chance explains."
    )


class BudgetInfo(BaseModel):
    """The error budget of the contract, and how much of it is used."""

    model_config = ConfigDict(from_attributes=True)

    ratio: float = Field(description="Refused share above which the budget is spent.")
    min_records: int = Field(description="Below so many records it is never spent.")
    window_records: int | None = Field(
        default=None, description="Records that the share is of; null for those of a batch."
    )
    action: Literal["fail", "pause", "quarantine"]
    records: int = Field(description="Records of the last batch, or of the window.")
    refused: int
    used: float | None = Field(description="Refused share in relation to the ratio; null if that is 0.")
    is_spent: bool
