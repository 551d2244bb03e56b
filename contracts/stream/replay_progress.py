"""How far a replay of refused records is, as the ledger of its stream has it."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class ReplayProgress(BaseModel):
    """The newest replay request that a stream has begun. It is changed in the same commit as the rows that it writes.

    `done` counts the refusals that were processed, in the order of partition and offset. `written` are accepted now,
    `refused` fail again and stay as they were, and `left` were not judged: written before, or no longer there.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    request: str = Field(pattern=r"^[0-9a-f]{32}$", description="Id of the request, 32 hexadecimal digits.")
    digest: str = Field(description="Digest of the positions of the request.")
    records: int = Field(ge=0, description="Number of the positions.")
    written: int = Field(default=0, ge=0)
    refused: int = Field(default=0, ge=0)
    left: int = Field(default=0, ge=0)

    @property
    def done(self) -> int:
        """Number of refusals that were processed."""
        return self.written + self.refused + self.left

    @property
    def is_finished(self) -> bool:
        """Whether all refusals of the request were processed."""
        return self.done == self.records

    @model_validator(mode="after")
    def _sums_hold(self) -> Self:
        if self.done > self.records:
            raise ValueError("more refusals were processed than the request has")
        return self
