"""A reconciliation that somebody asked for: the request, and what the job has found. Counts and positions, never a value."""

from __future__ import annotations

from typing import Annotated, Self
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from contracts.bounds import MOST_PLACES, Instant, Offsets, StreamText
from contracts.counts import Count

PlaceText = Annotated[str, Field(pattern=r"^[0-9]{1,19}/[0-9]{1,19}$")]


class NamedRecords(BaseModel):
    """How many records have one fault, and the first of them as `partition/offset` of the source topic."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    count: Count
    first: Annotated[tuple[PlaceText, ...], Field(max_length=MOST_PLACES)]


class FaultyRecords(BaseModel):
    """The records that have no fate or two, by what is wrong with them; what nothing is wrong with is left out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    in_no_output: NamedRecords | None = None
    written_twice: NamedRecords | None = None
    quarantined_twice: NamedRecords | None = None
    written_and_quarantined: NamedRecords | None = None
    written_but_not_covered: NamedRecords | None = None


class Findings(BaseModel):
    """Whether every offset between `begin` and `end` has one fate, as of batch `epoch`/`n` of the ledger.

    `unverifiable` are offsets that a topic has deleted: nothing can be said of them any more.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    stream: StreamText
    holds: bool
    epoch: Count
    n: Count
    begin: Offsets
    end: Offsets
    written: Count
    quarantined: Count
    dropped_superseded_or_deleted: Count
    absent: Count
    unverifiable: Count
    lost: Count
    twice: Count
    records: FaultyRecords

    @property
    def verdict(self) -> str:
        """What it says, in words."""
        if not self.holds:
            return f"lost {self.lost:,}, twice {self.twice:,}: stop the stream, keep the topics, and ask who wrote"
        if self.unverifiable:
            return "every offset that can still be looked at has one fate"
        return "every offset has one fate"


class ReconciliationResult(BaseModel):
    """What became of a request: the findings, or why there are none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: Instant = Field(description="When the job had looked at everything, or gave up.")
    findings: Findings | None = None
    failure: Annotated[str, Field(max_length=2000)] | None = Field(
        default=None, description="Why there are no findings. Holds no payload value."
    )

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        if (self.findings is None) == (self.failure is None):
            raise ValueError("a result has findings or a failure")
        return self


class ReconciliationRequest(BaseModel):
    """Somebody's wish that a stream be reconciled."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: UUID
    stream: str
    by: str = Field(description="Name of the principal that asked.")
    at: AwareDatetime


class StreamReconciliation(BaseModel):
    """A request and its result; it is open as long as it has none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    asked: ReconciliationRequest
    result: ReconciliationResult | None = None

    @property
    def is_open(self) -> bool:
        """Whether a job is still to look."""
        return self.result is None


class HeartbeatAnswer(BaseModel):
    """What the gateway answers to a job that says that its stream lives: what is asked of it."""

    model_config = ConfigDict(frozen=True)  # not `forbid`: a newer gateway may ask for more

    reconciliation: ReconciliationRequest | None = None
