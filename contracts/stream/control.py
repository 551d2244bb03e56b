"""Controls of a stream: decisions of people and error budgets, stored by the gateway and read by the job.

The gateway is the control plane. The job reads the decisions at each batch boundary and reports events; nothing here
contains a payload value.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from operator import not_
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    model_validator,
)

from tidegate.contracts.stream.bounds import (
    MOST_OFFSETS,
    Instant,
    LedgerText,
    Offsets,
    StreamText,
    TopicText,
    VersionText,
)
from tidegate.contracts.stream.counts import Count, RuleCount
from tidegate.contracts.stream.report import TableMaintenance, TableSize
from tidegate.contracts.stream.versions import MESSAGE

Sentence = Annotated[str, Field(max_length=1000)]
Ability = Annotated[str, Field(pattern=r"^[a-z][a-z-]{0,39}$")]


MOST_SET_ASIDE = 100
"""Maximum number of set-aside records in a control; the oldest, which the stream has long passed, are omitted."""


class StreamState(StrEnum):
    """The state of a stream: whether it may judge and write."""

    RUNNING = "running"
    PAUSED = "paused"


class Range(BaseModel):
    """Offsets of a source topic by partition: from `start` to before `end`; a partition without a start starts at 0."""

    model_config = MESSAGE

    start: Offsets
    end: Offsets

    def overlaps(self, start: Offsets, end: Offsets) -> bool:
        """Return whether an offset in [start, end) of any partition is in the range."""
        return any(
            max(self.start.get(partition, 0), start.get(partition, 0)) < min(last, end[partition])
            for partition, last in self.end.items()
            if partition in end
        )


class RecordPosition(BaseModel):
    """One record of a source topic."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", json_schema_extra={"example": {"partition": 1, "offset": 90211}}
    )

    partition: Annotated[int, Field(ge=0, lt=2**31)]
    offset: Count


class Trip(BaseModel):
    """An error budget that one batch spent; nothing of that batch was written.

    The job creates `id` once for each trip, so that a repeated report has the same id. `records` and `refused` count
    the budget's whole window, which ends with the batch. `rules` counts only the batch.
    """

    model_config = MESSAGE

    id: UUID
    stream: StreamText
    topic: TopicText
    contract: VersionText = Field(description="id@version that the batch was judged by.")
    epoch: Count
    at: Instant
    start: Offsets = Field(description="First offset of the batch, by partition.")
    end: Offsets = Field(description="First offset after the batch, by partition.")
    records: Count
    refused: Count
    allowed: float = Field(ge=0, le=1, description="Refused share that the budget allows.")
    action: Literal["fail", "pause"]
    rules: tuple[RuleCount, ...] = Field(
        default=(), max_length=100, description="What the batch violated most."
    )

    @model_validator(mode="after")
    def _sums_hold(self) -> Self:
        if self.refused > self.records:
            raise ValueError("refused records are part of records, and here exceed them")
        if set(self.start) != set(self.end):
            raise ValueError("start and end name the same partitions")
        # Accepting the batch turns off the budget for these offsets, so they are limited. Spark rounds up per partition.
        if sum(max(0, last - self.start[p]) for p, last in self.end.items()) > 2 * MOST_OFFSETS:
            raise ValueError(f"a batch has {MOST_OFFSETS:,} offsets at most")
        return self

    @property
    def sentence(self) -> str:
        """Return the event in words."""
        return (
            f"error budget spent: {self.refused} of {self.records} records refused, {self.allowed:.1%} allowed; nothing "
            "of the batch is written"
        )

    @property
    def range(self) -> Range:
        """Return the offsets of the batch."""
        return Range(start=self.start, end=self.end)


class StreamControl(BaseModel):
    """The control of one stream. `revision` counts its changes; 0 means no change so far.

    `reason`, `by` and `at` are those of the last change. `trip` is the last budget that was spent. A batch that overlaps
    `accepted` is not stopped by the error budget: its records go where the contract sends them.

    A job that lacks what the control `requires` stops instead of obeying a part of it. Fields that are not known are
    kept: a gateway process of an older release must not drop what a newer one has decided.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    stream: str
    revision: Count = 0
    state: StreamState = StreamState.RUNNING
    reason: Sentence | None = None
    by: str | None = Field(default=None, description="Name of the principal that made the last change.")
    at: AwareDatetime | None = None
    trip: Trip | None = None
    accepted: Range | None = None
    shadow: str | None = Field(
        default=None, description="Version that is judged beside the enforced one, and only reported."
    )

    set_aside: tuple[RecordPosition, ...] = Field(
        default=(),
        max_length=MOST_SET_ASIDE,
        description="Records that are quarantined without being judged, the newest decision last.",
    )
    requires: tuple[Ability, ...] = Field(
        default=(),
        max_length=20,
        exclude_if=not_,  # jobs of earlier versions reject a field that they do not know
        description="What a job must be able to do to obey this; left out when every job can.",
    )

    @property
    def is_paused(self) -> bool:
        """Return whether the stream is paused, so that nothing may be judged or written."""
        return self.state is StreamState.PAUSED

    def paused(self, reason: str, by: str, at: datetime) -> StreamControl:
        """Return the control after a pause."""
        return self._changed(state=StreamState.PAUSED, reason=reason[:1000], by=by, at=at)

    def resumed(self, by: str, at: datetime, *, accept: bool, decisions: int = 0) -> StreamControl:
        """Return the control after a person has resumed the stream; `accept` also accepts the batch that tripped.

        Its revision is at least `decisions`, the number that a job knew before the database was restored.
        """
        accepted = self.trip.range if accept and self.trip is not None else self.accepted
        resumed = self._changed(state=StreamState.RUNNING, reason=None, by=by, at=at, accepted=accepted)
        return resumed.model_copy(update={"revision": max(resumed.revision, decisions)})

    def tripped(self, trip: Trip, by: str, at: datetime) -> StreamControl:
        """Return the control after an error budget was spent: paused if the budget's action is a pause."""
        state = StreamState.PAUSED if trip.action == "pause" else self.state
        return self._changed(state=state, reason=trip.sentence, by=by, at=at, trip=trip)

    def shadowed(self, version: str | None) -> StreamControl:
        """Return the control with `version` as the shadow, or none; the reason of a pause is kept."""
        return self._changed(shadow=version)

    def set_aside_within(self, start: Offsets, end: Offsets) -> frozenset[tuple[int, int]]:
        """Return (partition, offset) of the set-aside records in [start, end)."""
        return frozenset(
            (each.partition, each.offset)
            for each in self.set_aside
            if start.get(each.partition, 0) <= each.offset < end.get(each.partition, 0)
        )

    def with_set_aside(self, record: RecordPosition) -> StreamControl:
        """Return the control after a record was set aside; the reason of a pause is kept."""
        others = [each for each in self.set_aside if each != record]
        return self._changed(set_aside=(*others, record)[-MOST_SET_ASIDE:])

    def _changed(self, **changes: object) -> StreamControl:
        return self.model_copy(update={**changes, "revision": self.revision + 1})


class EventKind(StrEnum):
    """An event of a stream's job.

    `stopped` waits for a person and `failed` is any other unexpected end. `overtaken`: one instance has ended because
    another one holds the stream, which therefore still runs.
    """

    STARTED = "started"
    ENDED = "ended"
    STOPPED = "stopped"
    FAILED = "failed"
    OVERTAKEN = "overtaken"


class StreamEvent(BaseModel):
    """An event of a stream, other than a batch, that the job reports. The job creates `id` once for each event."""

    model_config = MESSAGE

    id: UUID
    stream: StreamText
    kind: EventKind
    at: Instant
    message: Annotated[str, Field(max_length=2000)] | None = Field(
        default=None, description="Of a stop or failure: what it was and what to do. Holds no payload value."
    )


class Heartbeat(BaseModel):
    """The heartbeat of one stream: sent every few seconds, whether it has records to judge or not."""

    model_config = MESSAGE

    lag_records: Count | None = Field(
        default=None, description="Records in the topic past the ledger's end; null when unknown."
    )
    busy_seconds: float | None = Field(
        default=None,
        ge=0,
        le=10**9,
        description="How long the oldest batch in hand has taken so far; null when none is in hand.",
    )
    table: TableSize | None = None
    maintenance: TableMaintenance | None = None
    ledger: LedgerText | None = Field(
        default=None, description="Name of the job's ledger; null before its stream runs."
    )


class Condition(StrEnum):
    """`ended`: its job was stopped by a signal, or had read everything; `stopped`: it stopped or failed by itself."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class StreamCondition:
    """The condition of a stream since `at`; `reason`, `by` and `at` are None if unknown."""

    condition: Condition
    reason: str | None = None
    by: str | None = None
    at: datetime | None = None


def condition_of(
    control: StreamControl, event: StreamEvent | None, last_committed_at: datetime | None
) -> StreamCondition:
    """Return the condition of a stream.

    A pause takes precedence over events of the job. A batch committed after an end shows that the stream runs again.
    """
    if control.is_paused:
        return StreamCondition(Condition.PAUSED, control.reason, control.by, control.at)
    if event is None or event.kind is EventKind.STARTED:
        return StreamCondition(Condition.RUNNING)
    if last_committed_at is not None and last_committed_at > event.at:
        return StreamCondition(Condition.RUNNING)
    condition = Condition.ENDED if event.kind is EventKind.ENDED else Condition.STOPPED
    return StreamCondition(condition, event.message, None, event.at)
