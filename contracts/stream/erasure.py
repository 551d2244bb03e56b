"""Erasure of the records of one person, and the ledger after it. Pure values and arithmetic; no I/O.

An erased record counts as dropped: its position stays known, and no output holds it. A reconciliation therefore treats
it like a record that the contract drops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.contracts.errors import ConflictError
from tidegate.contracts.stream.ledger import BatchTotals, Ledger, Vector
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.segments import Segment

MOST_ROWS = 50_000
"""Maximum number of rows in one erasure: a value that more records share does not identify a person."""


@dataclass(frozen=True, slots=True)
class Erasure:
    """The records that an erasure removes from a ledger's outputs, by source position.

    `rows` are in the table, `refused` are refusals that count in the ledger. `quarantined` is the number of records that
    are removed from the quarantine topic, including refusals that a rewind has overruled.
    """

    held: Ledger
    rows: Positions = field(default_factory=Positions)
    refused: Positions = field(default_factory=Positions)
    quarantined: int = 0

    def __bool__(self) -> bool:
        return bool(self.rows or self.quarantined)

    @property
    def dropped(self) -> Positions:
        """Return the positions that count as dropped from now on."""
        return self.rows | self.refused

    def ledger(
        self, claimed: Ledger, erasure: str, dropped_digest: str, scan_from: Mapping[str, Vector]
    ) -> Ledger:
        """Return the ledger after the erasure, which follows `claimed`; `erasure` is its id.

        `scan_from` maps output topics to the offsets from which the next start scans them; other topics keep theirs.
        """
        rows, refused = len(self.rows), len(self.refused)
        totals = claimed.totals.model_dump()
        totals["written"] -= rows
        totals["quarantined"] -= refused
        totals["dropped"] += rows + refused
        changes: dict[str, object] = {
            "epoch": claimed.epoch + 1,
            "totals": BatchTotals.model_validate(totals),
            "segments": {p: self._changed(each, p) for p, each in claimed.segments.items()},
            "dropped_digest": dropped_digest or claimed.dropped_digest,
            "adopted": erasure,
            "instance": erasure[:8],
            "scan_from": {**claimed.scan_from, **scan_from},
        }
        return claimed.model_copy(update=changes)

    def _changed(self, segments: tuple[Segment, ...], partition: int) -> tuple[Segment, ...]:
        changed = []
        for each in segments:
            start, end = {partition: each.begin}, {partition: each.end}
            rows, refused = len(self.rows.within(start, end)), len(self.refused.within(start, end))
            changed.append(
                each._replace(
                    accepted=each.accepted - rows,
                    quarantined=each.quarantined - refused,
                    dropped=each.dropped + rows + refused,
                )
            )
        return tuple(changed)


def erase_from(
    held: Ledger, rows: Positions, refused: Positions, quarantined: int, dropped: Positions
) -> Erasure:
    """Return the erasure of rows and refusals. `dropped` are the positions that already count as dropped.

    An erasure that was interrupted after its commit has left refusals in the topic that count as dropped. Raises
    ConflictError for too many rows, for refusals ahead of the ledger, and if the ledger counts fewer records.
    """
    if len(rows) > MOST_ROWS:
        raise ConflictError(
            f"{len(rows):,} rows have this value, more than the {MOST_ROWS:,} of one erasure; nothing was changed. Does the "
            "field name a person?"
        )
    ahead = refused - refused.within({}, held.end)
    if ahead:
        raise ConflictError(
            f"{len(ahead):,} refused records belong to a batch that was not published; nothing was changed. Start the job, "
            "stop it after its next batch, and run tidegate erase again"
        )
    found = Erasure(held, rows - dropped, refused - rows - dropped, quarantined)
    if len(found.rows) > held.totals.written or len(found.refused) > held.totals.quarantined:
        raise ConflictError(
            "the ledger counts fewer records than the outputs hold; nothing was changed. Look at what differs: tidegate "
            f"reconcile {held.stream}"
        )
    return found
