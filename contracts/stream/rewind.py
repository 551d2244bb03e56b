"""Rewinds: a ledger is set back to earlier offsets, from which all records are judged again. Pure values; no I/O.

The ledger's counts are reduced by what the outputs hold from the point on. A reconciliation therefore still finds faults
below the point. A fault at or after the point disappears with the records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.contracts.errors import ConflictError
from tidegate.contracts.stream.closure import ClosedRefusals, Closure
from tidegate.contracts.stream.generations import pruned, rewound
from tidegate.contracts.stream.ledger import BatchTotals, Ledger, Position, Vector, span
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.segments import FateCounts, Segment

_NAMED = 5


@dataclass(frozen=True, slots=True)
class Held:
    """The contents of the source and the outputs of a stream.

    `source` are the records between the points and the ledger's end. `quarantined` are the refusals that count in the
    ledger. `needed` are the rewinds that a refusal needs, by partition and first offset. `dropped` are all known
    positions of dropped records, `replayed` those of records that were refused and later written. `resent` records were
    sent to the source topic.
    """

    earliest: Vector
    source: Positions
    written: Positions
    quarantined: Positions
    dropped: Positions
    replayed: Positions = field(default_factory=Positions)
    resent: Positions = field(default_factory=Positions)
    needed: frozenset[tuple[int, int]] = frozenset()
    is_quarantine_whole: bool = True


@dataclass(frozen=True, slots=True)
class Fates:
    """Positions that are judged again, by the fate with which they were counted. `absent` is a number of offsets."""

    accepted: Positions = field(default_factory=Positions)
    quarantined: Positions = field(default_factory=Positions)
    dropped: Positions = field(default_factory=Positions)
    unproven: Positions = field(default_factory=Positions)
    absent: int = 0

    @property
    def totals(self) -> Mapping[str, int]:
        """Return the counts to subtract from the ledger's totals, by name."""
        return {
            "written": len(self.accepted),
            "quarantined": len(self.quarantined),
            "dropped": len(self.dropped),
            "unproven": len(self.unproven),
            "absent": self.absent,
        }


@dataclass(frozen=True, slots=True)
class Rewind:
    """A rewind of `held` to `points`: the fates that are removed, and the dropped records before the points.

    `rows` counts the rows that are deleted; `settled` the refusals ahead of the ledger that are judged again too.
    """

    held: Ledger
    points: Vector
    fates: Fates
    rows: int
    settled: int
    dropped: Positions
    needed: frozenset[tuple[int, int]]
    replayed: Positions
    """The replayed records below the points; later ones are judged again, and may be refused again."""
    left_out: Positions
    """The records from the points on that were sent to the source: their copies are judged instead."""

    @property
    def rejudged(self) -> int:
        """Return the number of refusals that no longer count because their records are judged again."""
        return len(self.fates.quarantined - self.left_out) + self.settled

    @property
    def dropped_before(self) -> int:
        """Return the number of records that were dropped, and are judged again."""
        return len(self.fates.dropped - self.left_out)

    def ledger(self, claimed: Ledger, rewind: str, dropped_digest: str) -> Ledger:
        """Return the ledger after the rewind, which follows `claimed`; `rewind` is its id.

        Raises ConflictError if a partition then has more than MOST_REWINDS rewinds.
        """
        generation = claimed.generation + 1
        totals = claimed.totals.model_dump()
        for name, count in self.fates.totals.items():
            totals[name] = totals.get(name, 0) - count
        segments = {
            p: _cut(each, p, self.points[p], self.fates) if p in self.points else each
            for p, each in claimed.segments.items()
        }
        return claimed.model_copy(
            update={
                "epoch": claimed.epoch + 1,
                "end": {**claimed.end, **self.points},
                "totals": BatchTotals.model_validate(totals),
                "segments": {p: each for p, each in segments.items() if each},
                "generation": generation,
                "rewinds": pruned(rewound(claimed.rewinds, self.points, generation), self.needed),
                "dropped_digest": dropped_digest,
                "adopted": rewind,
                "instance": rewind[:8],
                "closed": self._closed(claimed),
            }
        )

    def _closed(self, claimed: Ledger) -> dict[Closure, ClosedRefusals]:
        """Return the closed refusals; batches up to the old end omit the records that were sent to the source."""
        before = claimed.closed.get(Closure.RESENT)
        if before is None or not self.left_out:
            return claimed.closed
        until = {p: max(before.until.get(p, 0), claimed.end[p]) for p in self.points}
        resent = before.model_copy(update={"until": {**before.until, **until}})
        return {**claimed.closed, Closure.RESENT: resent}


def points_of(held: Ledger, wanted: Vector, *, is_exact: bool) -> Vector:
    """Return the points of a rewind: `wanted`, limited to the range of the ledger.

    With `is_exact`, a point outside the ledger is an error instead. Raises ConflictError for such a point, and if no
    record would be judged again.
    """
    for partition, offset in sorted(wanted.items()):
        begin, end = held.begin.get(partition, 0), held.end.get(partition)
        if is_exact and (end is None or not begin <= offset <= end):
            covered = "does not know it" if end is None else f"covers {begin} to {end - 1}"
            raise ConflictError(
                f"partition {partition} cannot be rewound to {offset}: the ledger {covered}; nothing was changed"
            )
    points = {
        partition: min(max(offset, held.begin.get(partition, 0)), held.end[partition])
        for partition, offset in sorted(wanted.items())
        if partition in held.end
    }
    if all(offset == held.end[partition] for partition, offset in points.items()):
        raise ConflictError("nothing is to be judged again: the ledger ends there; nothing was changed")
    return points


def rewind_to(points: Vector, held: Ledger, found: Held) -> Rewind:
    """Return the rewind of a ledger to `points`. Raises ConflictError if the source lacks records to judge again."""
    _require_retained(points, held, found)
    end = {p: held.end[p] for p in points}
    rows = found.written.since(points).within({}, dict.fromkeys(points, 1 << 62))
    source = found.source.within(points, end)
    accepted = rows.within(points, end)
    quarantined = found.quarantined.within(points, end) - accepted
    dropped = found.dropped.within(points, end) - accepted - quarantined
    if gone := (accepted | quarantined | dropped) - source:
        raise ConflictError(
            f"{held.topic} no longer holds {len(gone):,} records that would be judged again, which were compacted or "
            f"deleted: {_named(gone)}; nothing was changed. Rewind to a point after them, or leave them as they are"
        )
    seen = Fates(accepted, quarantined, dropped, absent=span(points, end) - len(source))
    settled = found.quarantined.since(end).within({}, dict.fromkeys(points, 1 << 62))
    kept = found.dropped.within({}, {**held.end, **points})
    replayed = found.replayed.within({}, {**held.end, **points})
    left_out = found.resent.within(points, end)
    needed = frozenset(found.needed)
    fates = _explained(seen, source - accepted - quarantined - dropped, held, found)
    return Rewind(
        held, points, _fitting(fates, held), len(rows), len(settled), kept, needed, replayed, left_out
    )


def _require_retained(points: Vector, held: Ledger, found: Held) -> None:
    for partition, offset in points.items():
        first = found.earliest.get(partition, 0)
        if offset < min(first, held.end[partition]):
            raise ConflictError(
                f"{held.topic} no longer holds offset {offset} of partition {partition}: it begins at {first}. Records "
                f"before cannot be judged again; nothing was changed. Rewind to {partition}:{first} or later"
            )


def _explained(seen: Fates, missing: Positions, held: Ledger, found: Held) -> Fates:
    """Return the fates including `missing`, the records in no output, with the fate that the ledger must count.

    Raises ConflictError if several fates are possible.
    """
    if not missing:
        return seen
    unknown_drops = held.totals.dropped - len(found.dropped)
    kinds = [
        kind
        for kind, is_possible in (
            ("quarantined", not found.is_quarantine_whole),
            ("dropped", unknown_drops >= len(missing)),
            ("unproven", held.totals.unproven >= len(missing)),
        )
        if is_possible
    ]
    if len(kinds) > 1:
        raise ConflictError(
            f"{len(missing):,} records that would be judged again are in no output, and the ledger does not say whether each "
            f"was {' or '.join(kinds)}: {_named(missing)}; nothing was changed. Rewind to a point after them"
        )
    # The remaining explanation is a lost row: it was counted as written, and is written when it is judged again.
    kind = kinds[0] if kinds else "accepted"
    more = {name: getattr(seen, name) for name in ("accepted", "quarantined", "dropped", "unproven")}
    more[kind] = more[kind] | missing
    return Fates(**more, absent=seen.absent)


def _fitting(fates: Fates, held: Ledger) -> Fates:
    short = [name for name, count in fates.totals.items() if getattr(held.totals, name) < count]
    if short:
        raise ConflictError(
            f"the ledger counts fewer records as {', '.join(short)} than the outputs hold from there on; nothing was changed. "
            f"Look at what differs: tidegate reconcile {held.stream}. Then: tidegate adopt {held.stream} --replace"
        )
    return fates


def _cut(segments: tuple[Segment, ...], partition: int, point: int, fates: Fates) -> tuple[Segment, ...]:
    """Return the segments below a point; one that extends beyond it is cut, and its counts are reduced."""
    kept: list[Segment] = []
    for each in segments:
        if each.begin >= point:
            break
        if each.end > point:
            start, end = {partition: point}, {partition: each.end}
            lost = FateCounts(
                len(fates.accepted.within(start, end)),
                len(fates.quarantined.within(start, end)),
                len(fates.dropped.within(start, end)),
            )
            left = (
                each.accepted - lost.accepted,
                each.quarantined - lost.quarantined,
                each.dropped - lost.dropped,
            )
            if min(left) < 0:
                return ()  # the counts are wrong: the partition's segments restart
            each = Segment(each.begin, point, *left)  # noqa: PLW2901 - the rest of it
        kept.append(each)
    return tuple(kept)


def _named(positions: Positions) -> str:
    first: list[Position] = positions.first(_NAMED)
    more = ", ..." if len(positions) > _NAMED else ""
    return ", ".join(f"{p}/{offset}" for p, offset in first) + more
