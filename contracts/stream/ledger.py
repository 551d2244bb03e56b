"""The ledger: one value per stream with its position and counts. Pure values and arithmetic; no I/O.

It is stored with the data and updated only by compare-and-set, in the same commit as the data. The comparison is by
text, so a ledger has one canonical form (`Ledger.text`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import not_
from typing import Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
)

from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.stream.closure import ClosedRefusals, Closure
from tidegate.contracts.stream.counts import RuleCount
from tidegate.contracts.stream.generations import Rewound, oldest_counting
from tidegate.contracts.stream.history import HISTORY_PARTITION, HistoryMark
from tidegate.contracts.stream.replay_progress import ReplayProgress
from tidegate.contracts.stream.segments import FateCounts, Segment, extended, sums
from tidegate.contracts.stream.versions import LEDGER_FORMAT, newer_ledger
from tidegate.contracts.verdict import Violation

Vector = dict[int, int]
"""Partition to offset: the first offset that is not yet accounted for."""

Position = tuple[int, int]
"""Partition and offset of one record of the source topic."""


class BatchTotals(BaseModel):
    """Fates of the offsets of one or more batches; together they add up to all offsets covered.

    `superseded` and `deleted` are for tables with upserts. There `written` counts rows, `superseded` the records that
    were replaced by a newer one of their key, and `deleted` the tombstones. `absent` counts offsets at which a reader
    finds no record: compaction, transaction markers, aborted records. `unproven` counts offsets that someone has
    given up with `tidegate adopt --accept-loss`: no output holds them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    written: int = Field(default=0, ge=0)
    quarantined: int = Field(default=0, ge=0)
    dropped: int = Field(
        default=0,
        ge=0,
        description="Records that no output is to have: the contract drops them, or they were erased, or their copies count.",
    )
    # Ledgers are compared by their text, also with older ones, which lack these counts.
    superseded: int = Field(default=0, ge=0, exclude_if=not_)
    deleted: int = Field(default=0, ge=0, exclude_if=not_)
    absent: int = Field(default=0, ge=0)
    unproven: int = Field(default=0, ge=0, exclude_if=not_)

    def __add__(self, other: BatchTotals) -> BatchTotals:
        return BatchTotals(
            **{name: getattr(self, name) + getattr(other, name) for name in BatchTotals.model_fields}
        )

    def merged(self, staged: int, tombstones: int, growth: int) -> BatchTotals:
        """Return the totals after a merge; `self` counts all `staged` records as written.

        `tombstones` of them are deletes. `growth` is the change in the number of rows, and may be negative.
        """
        return self.model_copy(
            update={
                "written": self.written - staged + growth,
                "superseded": self.superseded + staged - tombstones - growth,
                "deleted": self.deleted + tombstones,
            }
        )

    @property
    def offsets(self) -> int:
        """Return the number of offsets covered."""
        in_no_output = self.dropped + self.superseded + self.deleted + self.unproven
        return self.written + self.quarantined + in_no_output + self.absent


class MarkedKeys(BaseModel):
    """The part of a ledger about the marks of deleted keys (`key_marks.py`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    digest: str = Field(
        default="", description="Digest of the newest record of marks; empty before the first."
    )
    since: Vector = Field(description="All deletes from these offsets on have marks; 0 where not given.")
    until: Vector = Field(
        description="End of the ledger when the newest record was written: no delete since."
    )


class Ledger(BaseModel):
    """The position of a stream.

    `epoch` counts claims, `n` counts published batches. `begin` maps each source partition to the first offset that
    the ledger covers, `end` to the first one that it does not cover yet. So `span(begin, end) == totals.offsets`. The
    history of a stream is one more partition in these maps (`history.py`). `scan_from` maps each output topic to the
    offsets from which a recovery must look for records of an unpublished batch. `slots` is the number of transactional
    producers that may hold open transactions.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="Unique name of this ledger; part of every transactional.id.")
    stream: str
    topic: str
    topic_id: str
    epoch: int = Field(ge=0)
    n: int = Field(ge=0)
    begin: Vector
    end: Vector
    scan_from: dict[str, Vector]
    slots: int = Field(ge=1)
    totals: BatchTotals = BatchTotals()
    contract: str | None = Field(default=None, description="id@version of the last published batch.")
    # Older ledgers lack the fields from here on, and are compared by their text: empty ones are left out of it.
    instance: str = Field(
        default="",
        exclude_if=not_,
        description="Mark of the claim; it distinguishes two claims of one epoch.",
    )
    adopted: str = Field(
        default="", exclude_if=not_, description="Id of the last adoption, as the registry has it."
    )
    segments: dict[int, tuple[Segment, ...]] = Field(
        default={},
        exclude_if=not_,
        description="Counts of recent offsets by partition; totals minus these are those of all before.",
    )
    dropped_digest: str = Field(
        default="",
        exclude_if=not_,
        description="Digest of the newest record of dropped positions; it names the one before it.",
    )
    generation: int = Field(
        default=0, exclude_if=not_, ge=0, description="Number of rewinds; refused records name it."
    )
    rewinds: dict[int, tuple[Rewound, ...]] = Field(
        default={},
        exclude_if=not_,
        description="First offset and generation of the rewinds that count, by partition.",
    )
    decisions: int = Field(
        default=0,
        exclude_if=not_,
        ge=0,
        description="Number of decisions about the stream (pauses, ...) that the registry knew at the last claim or batch.",
    )
    replayed: int = Field(
        default=0,
        exclude_if=not_,
        ge=0,
        description="Number of records that were refused, and written by a replay since.",
    )
    replayed_digest: str = Field(
        default="",
        exclude_if=not_,
        description="Digest of the newest record of their positions; it names the one before it.",
    )
    closed: dict[Closure, ClosedRefusals] = Field(
        default={},
        exclude_if=not_,
        description="Records that were discarded or sent to the source; they stay quarantined.",
    )
    replay: ReplayProgress | None = Field(
        default=None, exclude_if=not_, description="The newest replay request, and how far it is."
    )
    marks: MarkedKeys | None = Field(
        default=None,
        exclude_if=not_,
        description="Marks of deleted keys; null as long as the table has deleted none.",
    )
    history: HistoryMark | None = Field(
        default=None,
        exclude_if=not_,
        description="The copied files and tables whose records are one more partition.",
    )
    format: int = Field(
        default=1,
        ge=1,
        le=LEDGER_FORMAT,
        exclude_if=lambda format_: format_ == 1,
        description="Format of the text; left out while it is 1.",
    )

    @property
    def text(self) -> str:
        """Return the canonical JSON text that is stored and compared."""
        return self.model_dump_json()

    @classmethod
    def parse(cls, text: str | bytes) -> Self:
        """Parse a stored ledger. Raises StreamStopped if this version cannot read it.

        Unknown fields are refused, because a job that does not know a field would drop it with its next
        compare-and-set.
        """
        newer = newer_ledger(text)
        if newer is not None:
            number, release = newer
            raise StreamStopped(
                f"the stored ledger cannot be read by this version: it was written by {release} in format {number}, and "
                f"this version reads up to format {LEDGER_FORMAT}. Start the job with that release or a later one; to go "
                "back, restore table and ledger together from a backup made before the upgrade"
            )
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            # The message omits the ledger's text and the address of pydantic's documentation.
            found = error.errors(include_url=False, include_context=False, include_input=False)
            faults = "; ".join(
                f"{'/'.join(map(str, each['loc'])) or 'text'}: {each['msg']}" for each in found[:5]
            )
            raise StreamStopped(
                f"the stored ledger cannot be read by this version ({faults[:500]}). Start the job with the release that "
                "wrote it, or restore table and ledger together"
            ) from error

    @property
    def pending_history(self) -> int:
        """Return the number of history records that an attempt may have judged without publishing them."""
        return 0 if self.history is None else self.history.end - self.end.get(HISTORY_PARTITION, 0)

    def counts(self, partition: int, offset: int, generation: int) -> bool:
        """Return whether a refusal by `generation` still counts, because no later rewind covers its offset."""
        return oldest_counting(self.rewinds, partition, offset) <= generation <= self.generation

    def claim(self, slots: int, instance: str = "") -> Ledger:
        """Return the ledger after the next instance has claimed it; `instance` is its unique name.

        Without the name, two concurrent claims would write the same text. An instance whose commit failed would then
        mistake the other's claim for its own. `slots` never shrinks here. Transactions of the old slots may be open
        until the new instance has fenced them, so a later instance must know them.
        """
        changes: dict[str, Any] = {
            "epoch": self.epoch + 1,
            "slots": max(self.slots, slots),
            "instance": instance,
        }
        if self.marks is None and self.totals.deleted:  # by a release that wrote no marks
            changes["marks"] = MarkedKeys(since=self.end, until=self.end)
        return self.model_copy(update=changes)

    def skip_to(self, partition: int, first: int, adoption: str) -> Ledger:
        """Return the ledger in which a partition continues at `first`, claimed for the adoption with this id.

        Offsets of a known partition between its end and `first` are given up. A new partition starts at `first`.
        """
        given_up = first - self.end.get(partition, first)
        changes = {
            "begin": {partition: first, **self.begin},
            "end": {**self.end, partition: first},
            "totals": self.totals + BatchTotals(unproven=given_up),
            "adopted": adoption,
            # Offsets that are given up belong to no segment, so the partition's segments restart after them.
            "segments": {p: each for p, each in self.segments.items() if p != partition},
        }
        return self.claim(self.slots, adoption[:8]).model_copy(update=changes)

    def scan_start(self, topic: str, end: Vector) -> Vector:
        """Return the offsets from which a start scans an output topic with these end offsets.

        A mark beyond the end means that the topic was created again: then the partition is read from 0.
        """
        marks = self.scan_from.get(topic, {})
        return {partition: mark if mark <= end.get(partition, 0) else 0 for partition, mark in marks.items()}

    def forget_deleted(self, topic: str, earliest: Vector, end: Vector, adoption: str) -> Ledger:
        """Return the ledger whose next start scans `topic` from `earliest` on, claimed for the adoption with this id.

        Records that an unpublished attempt wrote before `earliest` are then unknown: they are judged again, and may be
        written twice. `earliest` and `end` are the offsets of the topic.
        """
        before = self.scan_start(topic, end)
        begin = {partition: max(first, before.get(partition, 0)) for partition, first in earliest.items()}
        changes = {"scan_from": {**self.scan_from, topic: begin}, "adopted": adoption}
        return self.claim(self.slots, adoption[:8]).model_copy(update=changes)

    def publish(self, batch: PublishedBatch) -> Ledger:
        """Return the ledger after `batch` has been published."""
        return self.model_copy(
            update={
                "n": self.n + 1,
                "begin": {**batch.start, **self.begin},
                "end": {**self.end, **batch.end},
                "scan_from": batch.scan_from,
                "slots": batch.slots,
                "totals": self.totals + batch.totals,
                "contract": batch.contract,
                "segments": extended(self.segments, batch.start, batch.end, batch.counts),
                "dropped_digest": batch.dropped_digest or self.dropped_digest,
                "decisions": max(self.decisions, batch.decisions),
                "marks": with_marks(self, {**self.end, **batch.end}, batch.marks),
            }
        )

    def closed_ranges(self) -> tuple[ClosedRange, ...]:
        """Return all offsets of the ledger as ranges with counts: the offsets before all segments, then each segment.

        The first range covers all partitions. A ledger of an older version has only this range.
        """
        begin = {p: self.begin.get(p, 0) for p in self.end}
        before = {p: self.segments[p][0].begin if self.segments.get(p) else self.end[p] for p in begin}
        counted = sums(segment for each in self.segments.values() for segment in each)
        totals = self.totals
        prefix = FateCounts(
            max(0, totals.written + totals.superseded + totals.deleted - counted.accepted),
            max(0, totals.quarantined - counted.quarantined),
            max(0, totals.dropped - counted.dropped),
        )
        return (
            ClosedRange(begin, before, prefix, totals.unproven),
            *(
                ClosedRange({p: each.begin}, {p: each.end}, sums((each,)))
                for p, segments in sorted(self.segments.items())
                for each in segments
            ),
        )


def with_marks(held: Ledger, end: Vector, digest: str) -> MarkedKeys | None:
    """Return the marks of the ledger that ends at `end`; `digest` is the newest record's, "" for no new one."""
    if not digest:
        return held.marks
    since = {} if held.marks is None else held.marks.since
    return MarkedKeys(digest=digest, since=since, until=end)


@dataclass(frozen=True, slots=True)
class PublishedBatch:
    """The changes that one published batch makes to the ledger."""

    start: Vector
    end: Vector
    scan_from: dict[str, Vector]
    totals: BatchTotals
    contract: str
    slots: int
    counts: Mapping[int, FateCounts] | None = None
    """Fates of the records by partition. None means unknown: the ledger's segments then restart after the batch."""
    dropped_digest: str = ""
    """Digest of the last record with positions that the batch drops; empty if it drops none."""
    decisions: int = 0
    """Number of decisions about the stream that the registry knew when the batch began."""
    marks: str = ""
    """Digest of the last record with keys that the batch marks; empty if it marks none."""


@dataclass(frozen=True, slots=True)
class ClosedRange:
    """Offsets in [begin, end), and how many of their records were accepted, quarantined and dropped.

    `given_up` offsets are in no output; it is unknown whether they had a record.
    """

    begin: Vector
    end: Vector
    counts: FateCounts
    given_up: int = 0


def span(start: Vector, end: Vector) -> int:
    """Return the number of offsets in [start, end); a partition missing from `start` counts from 0."""
    return sum(offset - start.get(partition, 0) for partition, offset in end.items())


def up_to(most: Vector, start: Vector, end: Vector) -> Vector:
    """Return the end of the part of [start, end) that is below `most`; a partition missing from `most` has none."""
    return {p: max(start.get(p, 0), min(last, most.get(p, 0))) for p, last in end.items()}


def require_contiguous(ledger_end: Vector, start: Vector) -> None:
    """Check that a batch starts exactly at the end of the ledger.

    A partition that is not in the ledger is new in the topic and must start at 0. Otherwise its first records were
    deleted before they were judged. Raises StreamStopped, which names the first partition with a gap or an overlap.
    """
    for partition, first in sorted(start.items()):
        if partition not in ledger_end and first > 0:
            raise StreamStopped(
                f"the batch leaves a gap: partition {partition} was added since the ledger was written, and starts at {first}, "
                "not at 0; restart the stream: it says how to go on"
            )
    for partition, expected in sorted(ledger_end.items()):
        actual = start.get(partition, expected)
        if actual != expected:
            kind = "leaves a gap" if actual > expected else "overlaps"
            raise StreamStopped(
                f"the batch {kind}: partition {partition} starts at {actual}, the ledger ends at {expected}; "
                "restart the stream, and if this comes back, run reconcile before going on"
            )


@dataclass(frozen=True, slots=True)
class BatchRefusal:
    """A batch that was refused as a whole: its end, and the violations of each record that is otherwise valid.

    The batch ends at `end`, so every instance that finishes it gets the same outcome.
    """

    end: Vector
    violations: tuple[Violation, ...]

    def covers(self, partition: int, offset: int) -> bool:
        """Return whether a record ahead of the ledger was part of the batch."""
        return offset < self.end.get(partition, 0)

    def overlaps(self, start: Vector, end: Vector) -> bool:
        """Return whether any offset of [start, end), which is ahead of the ledger, was part of the batch."""
        return span(start, up_to(self.end, start, end)) > 0


@dataclass(frozen=True, slots=True)
class Settlement:
    """A record that an unpublished attempt has committed to an output topic.

    `is_accepted` distinguishes the accepted topic from the quarantine topic. `refusal` is the refusal of its batch,
    if the record itself is valid.
    """

    output: str
    partition: int
    offset: int
    rules: tuple[RuleCount, ...] = ()
    refusal: BatchRefusal | None = None
    is_accepted: bool = False


@dataclass(frozen=True, slots=True)
class Settled:
    """The records whose fate is final although no published batch covers them (S in the protocol).

    The next batch writes none of them again and counts each by its first verdict, even if the contract has changed.
    """

    entries: Mapping[Position, Settlement] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.entries)

    def within(self, start: Vector, end: Vector) -> dict[Position, Settlement]:
        """Return the entries of source offsets in [start, end)."""
        return {
            (partition, offset): entry
            for (partition, offset), entry in self.entries.items()
            if start.get(partition, 0) <= offset < end.get(partition, 0)
        }

    def refusals(self) -> tuple[BatchRefusal, ...]:
        """Return the batches that were refused as a whole, each once."""
        found: list[BatchRefusal] = []
        for entry in self.entries.values():
            if entry.refusal is not None and entry.refusal not in found:
                found.append(entry.refusal)
        return tuple(found)

    def after(self, end: Vector) -> Settled:
        """Return the entries that are still ahead of a ledger that ends at `end`."""
        return Settled(
            {
                (partition, offset): entry
                for (partition, offset), entry in self.entries.items()
                if offset >= end.get(partition, 0)
            }
        )

    def scan_from(self, ends: dict[str, Vector]) -> dict[str, Vector]:
        """Return where the next recovery starts: at the first entry of an output partition, or else at its end.

        `ends` maps each output topic to the ends of its partitions.
        """
        begin = {topic: dict(vector) for topic, vector in ends.items()}
        for entry in self.entries.values():
            vector = begin.setdefault(entry.output, {})
            vector[entry.partition] = min(vector.get(entry.partition, entry.offset), entry.offset)
        return begin
