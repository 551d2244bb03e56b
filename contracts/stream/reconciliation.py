"""A reconciliation requested from a job: the request and its findings. Counts and positions, never a value."""

from __future__ import annotations

from enum import StrEnum
from operator import not_
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import (
    AwareDatetime,
    BaseModel,
    Field,
    model_validator,
)

from tidegate.contracts.stream.bounds import MOST_PLACES, Instant, Offsets, StreamText
from tidegate.contracts.stream.counts import Count
from tidegate.contracts.stream.versions import MESSAGE

PlaceText = Annotated[str, Field(pattern=r"^[0-9]{1,19}/[0-9]{1,19}$")]


class ReconciliationAnswer(StrEnum):
    """The answer of a reconciliation."""

    HOLDS = "holds"
    """Every offset has one fate."""
    LOST = "lost"
    """Records are lost, there twice, or not those that the ledger counts."""
    UNPROVEN = "cannot-be-proven"
    """No fault was found, and some offsets cannot be checked."""


class NamedRecords(BaseModel):
    """The number of records with one fault, and the first of them as `partition/offset` of the source topic."""

    model_config = MESSAGE

    count: Count
    first: Annotated[tuple[PlaceText, ...], Field(max_length=MOST_PLACES)]


class FaultyRecords(BaseModel):
    """The records with no fate or with two, by fault; faults without records are left out."""

    model_config = MESSAGE

    in_no_output: NamedRecords | None = None
    written_twice: NamedRecords | None = None
    quarantined_twice: NamedRecords | None = None
    written_and_quarantined: NamedRecords | None = None
    written_but_not_covered: NamedRecords | None = None
    # Earlier releases have no quarantine table, and reject its faults.
    not_in_quarantine_table: NamedRecords | None = Field(default=None, exclude_if=not_)
    twice_in_quarantine_table: NamedRecords | None = Field(default=None, exclude_if=not_)


class Findings(BaseModel):
    """The findings about the offsets between `begin` and `end`, as of batch `epoch`/`n` of the ledger.

    `lost` and `twice` count records, and `surplus` those that are in an output beyond what the ledger counts there.
    `unverifiable` counts the offsets that cannot be shown to have one fate. Findings of a version that had no `answer` are
    read too: those with unverifiable offsets said that they hold, and could not know it.
    """

    model_config = MESSAGE

    stream: StreamText
    answer: ReconciliationAnswer
    holds: bool = Field(description="Whether the answer is `holds`.")
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
    surplus: Count = 0
    closed: Count | None = Field(
        default=None,
        exclude_if=lambda count: count is None,
        description="Quarantined records that were discarded or sent to the source topic; left out without any.",
    )
    records: FaultyRecords

    @model_validator(mode="before")
    @classmethod
    def _with_answer(cls, found: Any) -> Any:
        """Add `answer` to findings of an older version, which did not have the field."""
        if not isinstance(found, dict) or "answer" in found or "holds" not in found:
            return found
        is_proven = found.get("unverifiable") == 0
        answer = (
            ReconciliationAnswer.LOST
            if not found["holds"]
            else ReconciliationAnswer.HOLDS
            if is_proven
            else ReconciliationAnswer.UNPROVEN
        )
        return {**found, "answer": answer, "holds": answer is ReconciliationAnswer.HOLDS}

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        if self.holds != (self.answer is ReconciliationAnswer.HOLDS):
            raise ValueError("holds and answer contradict each other")
        return self

    @property
    def verdict(self) -> str:
        """Return the answer in words."""
        match self.answer:
            case ReconciliationAnswer.HOLDS:
                return "every offset has one fate"
            case ReconciliationAnswer.UNPROVEN:
                return (
                    f"cannot be proven: no fault shows, but the fate of {self.unverifiable:,} offsets cannot be shown; "
                    "docs/how-to/reconcile.md says why"
                )
            case ReconciliationAnswer.LOST if self.is_only_of_quarantine_table:
                return (
                    "every offset has one fate, but the quarantine table is not what the quarantine topic holds: drop the "
                    "table, and the next start of the job fills a new one"
                )
            case ReconciliationAnswer.LOST if self.lost or self.twice or not self.surplus:
                counts = f"lost {self.lost:,}, twice {self.twice:,}"
            case ReconciliationAnswer.LOST:
                counts = f"{self.surplus:,} records more in the outputs than the ledger counts"
        return f"{counts}: stop the stream, keep the topics, and ask who wrote"

    @property
    def is_only_of_quarantine_table(self) -> bool:
        """Return whether the only fault is a difference between the quarantine table and the quarantine topic."""
        faults = {name for name, found in self.records if found is not None}
        is_there = not (self.lost or self.twice or self.surplus)
        return (
            is_there and bool(faults) and faults <= {"not_in_quarantine_table", "twice_in_quarantine_table"}
        )


class ReconciliationResult(BaseModel):
    """The result of a request: the findings, or why there are none."""

    model_config = MESSAGE

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
    """A request to reconcile a stream."""

    model_config = MESSAGE

    id: UUID
    stream: str
    by: str = Field(description="Name of the principal that asked.")
    at: AwareDatetime


class StreamReconciliation(BaseModel):
    """A request and its result; it is open as long as it has none."""

    model_config = MESSAGE

    asked: ReconciliationRequest
    result: ReconciliationResult | None = None

    @property
    def is_open(self) -> bool:
        """Return whether the request still has no result."""
        return self.result is None


class HeartbeatAnswer(BaseModel):
    """The gateway's answer to the heartbeat of a stream: what is asked of its job."""

    model_config = MESSAGE

    reconciliation: ReconciliationRequest | None = None
    replay: UUID | None = Field(
        default=None,
        exclude_if=not_,
        description="The replay request that the job is to process; left out without one.",
    )
