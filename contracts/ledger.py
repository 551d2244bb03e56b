"""The ledger: one value per stream that says where it stands. Pure values and arithmetic; no I/O.

It is kept where the data is kept and changed only by compare-and-set, in the same commit as the data. Because
its text is compared, it is always written in one canonical form (`Ledger.text`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from pydantic import BaseModel, ConfigDict, Field

from contracts.errors import StreamStopped
from contracts.report import RuleCount

Vector = dict[int, int]
"""Partition to offset: the first offset that is not yet accounted for."""

Position = tuple[int, int]
"""Partition and offset of one record of the source topic."""


class BatchTotals(BaseModel):
    """What became of the offsets of one or more batches; the four of them add up to all offsets covered.

    `absent` counts offsets at which a reader finds no record: compaction, transaction markers, aborted records.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    written: int = Field(default=0, ge=0)
    quarantined: int = Field(default=0, ge=0)
    dropped: int = Field(default=0, ge=0, description="Records dropped by the contract's own wish.")
    absent: int = Field(default=0, ge=0)

    def __add__(self, other: BatchTotals) -> BatchTotals:
        return BatchTotals(
            written=self.written + other.written,
            quarantined=self.quarantined + other.quarantined,
            dropped=self.dropped + other.dropped,
            absent=self.absent + other.absent,
        )

    @property
    def offsets(self) -> int:
        """Number of offsets covered."""
        return self.written + self.quarantined + self.dropped + self.absent


class Ledger(BaseModel):
    """Where a stream stands.

    `epoch` counts claims, `n` counts published batches. `begin` and `end` map each source partition to the first
    offset that the ledger covers and the first one not yet accounted for: `span(begin, end) == totals.offsets`.
    `scan_from` maps each output topic to the offsets from which a recovery must look for records of a batch that
    was not published. `slots` is the number of transactional producers that may hold open transactions.
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

    @property
    def text(self) -> str:
        """The canonical JSON text that is stored and compared."""
        return self.model_dump_json()

    @classmethod
    def parse(cls, text: str | bytes) -> Self:
        """Read a stored ledger; raises StreamStopped when it is not one that this version wrote."""
        try:
            return cls.model_validate_json(text)
        except ValueError as error:
            raise StreamStopped(f"the stored ledger cannot be read by this version: {error}") from error

    def claim(self, slots: int) -> Ledger:
        """Give the ledger after the next instance has claimed it.

        `slots` never shrinks here: until the new instance has fenced them, transactions of the old slots may be
        open, and the instance after it has to know.
        """
        return self.model_copy(update={"epoch": self.epoch + 1, "slots": max(self.slots, slots)})

    def publish(self, batch: PublishedBatch) -> Ledger:
        """Give the ledger after `batch` has been published."""
        return self.model_copy(
            update={
                "n": self.n + 1,
                "begin": {**batch.start, **self.begin},
                "end": {**self.end, **batch.end},
                "scan_from": batch.scan_from,
                "slots": batch.slots,
                "totals": self.totals + batch.totals,
                "contract": batch.contract,
            }
        )


@dataclass(frozen=True, slots=True)
class PublishedBatch:
    """What one batch changes in the ledger."""

    start: Vector
    end: Vector
    scan_from: dict[str, Vector]
    totals: BatchTotals
    contract: str
    slots: int


def span(start: Vector, end: Vector) -> int:
    """Count the offsets in [start, end); a partition missing in `start` counts from 0."""
    return sum(offset - start.get(partition, 0) for partition, offset in end.items())


def require_contiguous(ledger_end: Vector, start: Vector) -> None:
    """Require that a batch begins exactly where the ledger ends.

    A partition that the ledger does not know yet may begin anywhere: it was added to the topic since.
    Raises StreamStopped that names the first partition that leaves a gap or overlaps.
    """
    for partition, expected in sorted(ledger_end.items()):
        actual = start.get(partition, expected)
        if actual != expected:
            kind = "leaves a gap" if actual > expected else "overlaps"
            raise StreamStopped(
                f"the batch {kind}: partition {partition} starts at {actual}, the ledger ends at {expected}; "
                "restart the stream, and if this comes back, run reconcile before going on"
            )


@dataclass(frozen=True, slots=True)
class Settlement:
    """A record that an attempt which never published has already written to an output topic, for good."""

    output: str
    partition: int
    offset: int
    rules: tuple[RuleCount, ...] = ()


@dataclass(frozen=True, slots=True)
class Settled:
    """The records whose fate is final although no published batch covers them (S in the protocol).

    A position in it is left out of every output and counted as quarantined: its first verdict stands, even if the
    contract has changed since.
    """

    entries: Mapping[Position, Settlement] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.entries)

    def within(self, start: Vector, end: Vector) -> dict[Position, Settlement]:
        """Give the entries of source offsets in [start, end)."""
        return {
            (partition, offset): entry
            for (partition, offset), entry in self.entries.items()
            if start.get(partition, 0) <= offset < end.get(partition, 0)
        }

    def after(self, end: Vector) -> Settled:
        """Give the entries that are still ahead of a ledger which ends at `end`."""
        return Settled(
            {
                (partition, offset): entry
                for (partition, offset), entry in self.entries.items()
                if offset >= end.get(partition, 0)
            }
        )

    def scan_from(self, ends: dict[str, Vector]) -> dict[str, Vector]:
        """Where the next recovery has to begin: the first entry that is still ahead, or else the output's end."""
        begin = {topic: dict(vector) for topic, vector in ends.items()}
        for entry in self.entries.values():
            vector = begin.setdefault(entry.output, {})
            vector[entry.partition] = min(vector.get(entry.partition, entry.offset), entry.offset)
        return begin


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """Whether every record of the source is in exactly one place; the sets hold what is not.

    `unaccounted` are source records below the ledger's end that are in no output; that many must have been dropped by
    the contract's own wish. `beyond` are written records that the ledger does not cover. Quarantined ones that it does
    not cover are no fault: the batch in flight has settled them, and the next instance will leave them out.
    """

    unaccounted: frozenset[Position]
    written_twice: frozenset[Position]
    quarantined_twice: frozenset[Position]
    in_both: frozenset[Position]
    beyond: frozenset[Position]
    dropped: int

    @property
    def lost(self) -> int:
        """Number of records that are in no output and were not dropped."""
        return max(0, len(self.unaccounted) - self.dropped)

    @property
    def twice(self) -> int:
        """Number of records that are in more than one place, or twice in one."""
        return len(self.written_twice | self.quarantined_twice | self.in_both)

    @property
    def holds(self) -> bool:
        """Whether nothing is lost, nothing is there twice and nothing is beyond the ledger."""
        return (
            self.lost == 0 and self.twice == 0 and not self.beyond and len(self.unaccounted) == self.dropped
        )


def reconcile(
    ledger: Ledger, source: Iterable[Position], written: Iterable[Position], quarantined: Iterable[Position]
) -> Reconciliation:
    """Compare what is in the source topic with what is in the outputs.

    The positions may repeat in `written` and `quarantined`: a repetition is what is looked for. Records of the
    source outside the ledger's range are ignored.
    """
    covered = {
        (partition, offset)
        for partition, offset in source
        if ledger.begin.get(partition, 0) <= offset < ledger.end.get(partition, 0)
    }
    in_table, written_twice = _distinct(written)
    in_quarantine, quarantined_twice = _distinct(quarantined)
    return Reconciliation(
        unaccounted=frozenset(covered - in_table - in_quarantine),
        written_twice=written_twice,
        quarantined_twice=quarantined_twice,
        in_both=frozenset(in_table & in_quarantine),
        beyond=frozenset(in_table - covered),
        dropped=ledger.totals.dropped,
    )


def _distinct(positions: Iterable[Position]) -> tuple[set[Position], frozenset[Position]]:
    seen: set[Position] = set()
    twice: set[Position] = set()
    for position in positions:
        if position in seen:
            twice.add(position)
        seen.add(position)
    return seen, frozenset(twice)
