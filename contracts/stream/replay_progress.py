"""The progress of a replay of refused records, which is stored in the ledger of its stream."""

from __future__ import annotations

from operator import not_
from typing import Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    model_validator,
)


class ReplayProgress(BaseModel):
    """The progress of the newest replay request of a stream. It is updated in the same commit as the rows it writes.

    `done` counts the refusals that were processed, in the order of partition and offset. `written` ones are accepted
    now, `refused` ones failed again and stay as they were. `left` ones were not judged, because they were written before
    or no longer exist, for example. `closed` ones were discarded, or sent to the source topic.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    request: str = Field(pattern=r"^[0-9a-f]{32}$", description="Id of the request, 32 hexadecimal digits.")
    digest: str = Field(description="Digest of the positions of the request.")
    records: int = Field(ge=0, description="Number of the positions.")
    written: int = Field(default=0, ge=0)
    refused: int = Field(default=0, ge=0)
    left: int = Field(default=0, ge=0)
    closed: int = Field(
        default=0, ge=0, exclude_if=not_
    )  # as in older ledgers, which are compared by their text

    @property
    def done(self) -> int:
        """Return the number of refusals that were processed."""
        return self.written + self.refused + self.left + self.closed

    @property
    def is_finished(self) -> bool:
        """Return whether all refusals of the request were processed."""
        return self.done == self.records

    @model_validator(mode="after")
    def _sums_hold(self) -> Self:
        if self.done > self.records:
            raise ValueError("more refusals were processed than the request has")
        return self
