"""A chunk of a replay: the ledger after it, and the error budget of its request. Pure values and arithmetic; no I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tidegate.contracts.errors import ConflictError
from tidegate.contracts.stream.closure import ClosedRefusals, Closure
from tidegate.contracts.stream.ledger import BatchTotals, Ledger, with_marks
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay_progress import ReplayProgress
from tidegate.contracts.stream.segments import Segment


@dataclass(frozen=True, slots=True)
class ReplayedChunk:
    """The outcome of the next refusals of a request: the source positions that are written, and counts of the others.

    `refused` records failed again, `left` ones were not judged. `closed` are the source positions of refusals that a
    discard, or a request to the source topic, closes as `closure`.
    """

    written: Positions = field(default_factory=Positions)
    refused: int = 0
    left: int = 0
    closed: Positions = field(default_factory=Positions)
    closure: Closure | None = None
    also: Positions = field(default_factory=Positions)
    """Positions outside the chunk that are closed in the same way: an earlier attempt ended before its commit."""
    deleted_since: Positions = field(default_factory=Positions)
    """Those of `written` whose key was deleted by a newer record: they are superseded, and no row is written."""

    def ledger(self, held: Ledger, progress: ReplayProgress, digest: str, marks: str = "") -> Ledger:
        """Return the ledger after the chunk; `progress` is the progress before it.

        `digest` is the new end of the chain of written or closed positions, `marks` that of marked keys; empty if the
        chunk adds none. Raises ConflictError if the ledger counts fewer refusals than the chunk changes.
        """
        count = len(self.written)
        changes = self.written | self.closed | self.also
        if len(changes) > held.totals.quarantined or changes.since(held.end):
            raise ConflictError(
                f"{held.stream}: the ledger counts fewer refused records than are replayed; nothing was written. Look at what "
                f"differs: tidegate reconcile {held.stream}"
            )
        totals = held.totals.model_dump()
        superseded = len(self.deleted_since)
        totals["written"] += count - superseded
        totals["superseded"] = held.totals.superseded + superseded
        totals["quarantined"] -= count
        changed = {
            "written": progress.written + count,
            "refused": progress.refused + self.refused,
            "left": progress.left + self.left,
            "closed": progress.closed + len(self.closed),
        }
        segments = {p: kept for p, each in held.segments.items() if (kept := self._changed(each, p))}
        return held.model_copy(
            update={
                "n": held.n + 1,
                "totals": BatchTotals.model_validate(totals),
                "segments": segments,
                "replayed": held.replayed + count,
                "replayed_digest": (digest if count else "") or held.replayed_digest,
                "closed": self._closed(held, digest),
                "replay": ReplayProgress.model_validate(progress.model_dump() | changed),
                "marks": with_marks(held, held.end, marks),
            }
        )

    def _closed(self, held: Ledger, digest: str) -> dict[Closure, ClosedRefusals]:
        count = len(self.closed | self.also)
        if self.closure is None or not count:
            return held.closed
        before = held.closed.get(self.closure, ClosedRefusals(records=0, digest=""))
        after = before.model_copy(update={"records": before.records + count, "digest": digest})
        return {**held.closed, self.closure: after}

    def _changed(self, segments: tuple[Segment, ...], partition: int) -> tuple[Segment, ...]:
        changed = []
        for each in segments:
            count = len(self.written.within({partition: each.begin}, {partition: each.end}))
            if count > each.quarantined:
                return ()  # the counts are wrong: the partition's segments restart
            changed.append(
                each._replace(accepted=each.accepted + count, quarantined=each.quarantined - count)
            )
        return tuple(changed)


LEAST_JUDGED: Final = 100
"""Number of judged records from which the budget of a replay applies."""


def done_well(progress: ReplayProgress, chunk: ReplayedChunk) -> int:
    """Return how many records of a request did not fail again, including those of the chunk."""
    return progress.written + progress.closed + len(chunk.written) + len(chunk.closed)


def is_over_budget(progress: ReplayProgress, chunk: ReplayedChunk, allowed: float) -> bool:
    """Return whether too many records fail again, counted from the beginning of the request."""
    refused = progress.refused + chunk.refused
    judged = done_well(progress, chunk) + refused
    return judged >= LEAST_JUDGED and refused > allowed * judged
