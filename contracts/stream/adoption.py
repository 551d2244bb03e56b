"""Adoption: a ledger rebuilt from the outputs, for a stream that has lost its own. Pure values; no I/O.

The ledger must end where no record is written twice and none is missing. One output is updated in the same commit as
the ledger, which covers all of its records. The other output is written before the ledger is updated, so it may have
later records; the next start finds and omits these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import not_
from typing import Annotated, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
)
from pyroaring import BitMap64

from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.stream.bounds import Offsets
from tidegate.contracts.stream.counts import Count
from tidegate.contracts.stream.ledger import BatchTotals, Vector
from tidegate.contracts.stream.positions import Positions, Sightings

Ahead = Literal["written", "quarantined"]
"""The output that is written before the ledger is updated."""

EPOCH_GAP = 1000
"""Epochs that an adoption skips, because claims that published nothing are not reported but must be older."""


@dataclass(frozen=True, slots=True)
class SourceRange:
    """The first offset that each partition of the source still holds, and the offset after its last one."""

    earliest: Vector
    latest: Vector


@dataclass(frozen=True, slots=True)
class OutputPositions:
    """Source positions of the records that a stream has written; each output was read to its end.

    `ahead` names the output that may be ahead of the lost ledger; None if both are updated with the ledger. It is ahead
    by at most `window` offsets of a partition; None for any number, because the other output was rolled back.
    """

    written: Sightings
    quarantined: Sightings
    ahead: Ahead | None
    window: int | None
    replayed: Positions = field(default_factory=Positions)
    """Records that were refused and then written by a replay; they are not in `quarantined`."""

    @property
    def all(self) -> Positions:
        """Return the positions that are in either output."""
        return self.written.seen | self.quarantined.seen


@dataclass(frozen=True, slots=True)
class Bounds:
    """The start and end of a rebuilt ledger; `holes` are the positions between them that are in no output."""

    begin: Vector
    end: Vector
    holes: Positions


@dataclass(frozen=True, slots=True)
class PartitionFound:
    """The findings about one partition: lowest and highest offset in each output, and the number of holes by cause.

    `absent` holes have no record in the source. `unanswered` holes have a record that is in no output: it was
    dropped, superseded or deleted, or it is lost. The source has deleted the records of `past_retention` holes.
    """

    partition: int
    begin: int
    end: int
    written: tuple[int, int] | None
    quarantined: tuple[int, int] | None
    absent: int
    unanswered: int
    past_retention: int


@dataclass(frozen=True, slots=True)
class ProposedLedger:
    """The ledger that the outputs account for.

    `unanswered` are the records of the source that no output holds. `twice` are positions that are in an output more
    than once, or in both outputs; these records are left as they are.
    """

    begin: Vector
    end: Vector
    totals: BatchTotals
    partitions: tuple[PartitionFound, ...]
    unanswered: Positions
    twice: Positions

    @property
    def holes(self) -> int:
        """Return the number of offsets whose fate cannot be proven: a person must accept them as lost."""
        return self.totals.unproven


class Adoption(BaseModel):
    """The registry's entry of an adoption: the new ledger, and the accepted loss.

    The command creates `id` once for each adoption. `partition` is set if one partition was skipped forward in an
    existing ledger. `forgotten` counts the offsets of an output topic that were deleted before a start had read them.
    `archived` is the new name of the old table, if the stream starts again with a new one.

    A `kind` of rewind sets a ledger back from `rewound_from` to `end`, as its `generation`: `deleted` rows are
    deleted, and `rejudged` refusals no longer count. A `kind` of erasure removes the records of one person: `deleted`
    rows and `erased` refused records. Neither names the person.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    stream: Annotated[str, Field(max_length=500)]
    topic: Annotated[str, Field(max_length=500)]
    sink: Annotated[str, Field(max_length=2000)]
    ledger: Annotated[str, Field(max_length=1000)]
    at: AwareDatetime
    epoch: Count
    begin: Offsets
    end: Offsets
    written: Count
    quarantined: Count
    absent: Count
    accepted_loss: Count
    twice: Count = 0
    partition: Count | None = None
    # Most adoptions lack these, and registries of earlier versions reject unknown fields.
    forgotten: Count = Field(default=0, exclude_if=not_)
    archived: str = Field(default="", max_length=2000, exclude_if=not_)
    kind: Literal["adoption", "rewind", "erasure"] = Field(
        default="adoption", exclude_if=lambda kind: kind == "adoption"
    )
    generation: Count = Field(default=0, exclude_if=not_)
    rewound_from: Offsets = Field(default={}, exclude_if=not_)
    deleted: Count = Field(default=0, exclude_if=not_)
    rejudged: Count = Field(default=0, exclude_if=not_)
    erased: Count = Field(default=0, exclude_if=not_)


class KeptAdoption(BaseModel):
    """An adoption as the registry has kept it: by whom, and when."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    by: str = Field(description="Name of the principal that adopted.")
    at: AwareDatetime
    adoption: Adoption


def bounds(
    found: OutputPositions, source: SourceRange, *, from_earliest: bool, known_begin: Vector | None = None
) -> Bounds:
    """Return the start and end that the rebuilt ledger must have.

    `known_begin` is the start of the ledger that is replaced. For partitions without one, `from_earliest` means that
    the stream started with the first available record, so all records of the source must be accounted for. Raises
    StreamStopped if an output holds positions past the end of the source.
    """
    begin: Vector = {}
    end: Vector = {}
    everything = found.all
    for partition, offsets in everything.bitmaps().items():
        if offsets.max() >= source.latest.get(partition, 0):
            raise StreamStopped(
                f"partition {partition} of the source ends at {source.latest.get(partition, 0)}, and an output holds its "
                f"offset {offsets.max()}: the topic was deleted and created again, or has lost records. Its offsets are "
                "not those of the written records. To archive the output and begin again: tidegate archive STREAM"
            )
    for partition, first in source.earliest.items():
        seen = everything.bitmaps().get(partition)
        lowest = seen.min() if seen else first
        begun = (known_begin or {}).get(partition, first if from_earliest else lowest)
        begin[partition] = min(lowest, begun)
        end[partition] = max(begin[partition], first, _end(found, partition, begin[partition]))
    ranges = {p: BitMap64() for p in begin}
    for partition, offsets in ranges.items():
        offsets.add_range(begin[partition], end[partition])
    return Bounds(begin, end, Positions.of(ranges) - everything)


def propose(
    found: OutputPositions, source: SourceRange, limits: Bounds, present: Positions
) -> ProposedLedger:
    """Return the proposed ledger for these bounds. `present` are the holes at which the source holds a record."""
    written = found.written.seen.within(limits.begin, limits.end)
    quarantined = found.quarantined.seen.within(limits.begin, limits.end) - written
    unanswered = limits.holes & present
    past = limits.holes.within({}, source.earliest)
    absent = limits.holes - present - past
    totals = BatchTotals(
        written=len(written),
        quarantined=len(quarantined),
        absent=len(absent),
        unproven=len(unanswered | past),
    )
    rows = tuple(
        PartitionFound(
            partition=partition,
            begin=limits.begin[partition],
            end=limits.end[partition],
            written=_range(found.written.seen.bitmaps(), partition),
            quarantined=_range(found.quarantined.seen.bitmaps(), partition),
            absent=_count(absent, partition),
            unanswered=_count(unanswered, partition),
            past_retention=_count(past, partition),
        )
        for partition in sorted(limits.begin)
    )
    twice = found.written.again | found.quarantined.again | (found.written.seen & found.quarantined.seen)
    return ProposedLedger(limits.begin, limits.end, totals, rows, unanswered - past, twice)


def _end(found: OutputPositions, partition: int, begin: int) -> int:
    """Return the first offset of a partition that is to be judged again."""
    written = found.written.seen.bitmaps().get(partition)
    quarantined = found.quarantined.seen.bitmaps().get(partition)
    after_written = written.max() + 1 if written else begin
    after_quarantined = quarantined.max() + 1 if quarantined else begin
    if found.ahead is None:
        return max(after_written, after_quarantined)
    if found.ahead == "quarantined":
        return after_written if found.window is None else max(after_written, after_quarantined - found.window)
    first = (
        after_quarantined if found.window is None else max(after_quarantined, after_written - found.window)
    )
    if written is None or first >= after_written:
        return first
    missing = BitMap64()
    missing.add_range(first, after_written + 1)
    missing -= written
    return missing.min()


def _range(offsets: Mapping[int, BitMap64], partition: int) -> tuple[int, int] | None:
    found = offsets.get(partition)
    return (found.min(), found.max()) if found else None


def _count(positions: Positions, partition: int) -> int:
    found = positions.bitmaps().get(partition)
    return len(found) if found else 0
