"""The fate of every offset: a ledger compared with what topics and outputs hold. Pure values and arithmetic; no I/O."""

from __future__ import annotations

from dataclasses import dataclass, field

from contracts.ledger import Ledger, Vector, span
from contracts.positions import Positions, Sightings


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """Whether every offset that `ledger` covers has one fate; the sets hold the records that do not.

    `unaccounted` are source records that are in no output; as many must have been dropped, superseded or deleted by the
    ledger's count (`in_no_output`). `beyond` are written records that no ledger covers, or that the source never
    held. Quarantined ones that it does not cover are no fault: the batch in flight has settled them, and the next
    instance will leave them out. `absent` offsets hold no record. Unverifiable are offsets that the source has deleted
    (`past_retention`) or compacted since they were judged (`compacted`), and records that the quarantine topic has
    deleted (`forgotten`), and records that an adoption has found in no output and somebody has given up (`given_up`).
    """

    ledger: Ledger
    unaccounted: Positions
    written_twice: Positions
    quarantined_twice: Positions
    in_both: Positions
    beyond: Positions
    written: int
    quarantined: int
    in_no_output: int
    absent: int
    past_retention: int = 0
    compacted: int = 0
    forgotten: int = 0
    given_up: int = 0

    @property
    def lost(self) -> int:
        """Number of records that are in no output and should be; at least that many, past retention."""
        return max(0, len(self.unaccounted) - self.in_no_output - self.forgotten - self.given_up)

    @property
    def unverifiable(self) -> int:
        """Number of offsets of which nothing can be said any more."""
        return self.past_retention + self.compacted + self.forgotten + self.given_up

    @property
    def twice(self) -> int:
        """Number of records that are in more than one place, or twice in one."""
        return len(self.written_twice | self.quarantined_twice | self.in_both)

    @property
    def holds(self) -> bool:
        """Whether nothing is lost, nothing is there twice and nothing is beyond the ledger, as far as one can tell."""
        # Of what is past retention some was dropped too, and nobody knows how much.
        is_counted = self.unverifiable > 0 or len(self.unaccounted) == self.in_no_output
        return self.lost == 0 and self.twice == 0 and not self.beyond and is_counted


@dataclass(frozen=True, slots=True)
class Retained:
    """What topics still hold: the first offsets of the source, whether it is compacted, and whether the quarantine topic is whole.

    `is_written_ahead`: accepted records too are written before the ledger moves, so those that it does not cover yet are no fault.

    To be looked up after the topics were read: what is deleted meanwhile is past retention then, and not out of thin air.
    """

    source: Vector = field(default_factory=dict)
    is_source_compacted: bool = False
    is_quarantine_whole: bool = True
    is_written_ahead: bool = False


def reconcile(
    ledger: Ledger,
    source: Positions,
    written: Sightings,
    quarantined: Sightings,
    retained: Retained | None = None,
    later: Ledger | None = None,
) -> Reconciliation:
    """Compare what is in the source topic with what is in the outputs, also while the stream runs.

    Records of the source outside the ledger's range are ignored. `retained` is all of it when left out.

    Exact if `source` and `quarantined` were read after `ledger`, and `written` are the rows of the same moment as `ledger`; or,
    where a store has no such moment, those of a later one, with the ledger of a moment after that as `later`. A row that
    `later` alone covers came meanwhile, and is looked at for repetitions only.
    """
    held = retained or Retained()
    begin = {p: max(first, held.source.get(p, 0)) for p, first in ledger.begin.items()}
    covered = source.within(begin, ledger.end)
    in_table, in_quarantine = written.seen, quarantined.seen
    found = len(in_quarantine.within(ledger.begin, ledger.end))
    forgotten = 0 if held.is_quarantine_whole else max(0, ledger.totals.quarantined - found)
    totals = ledger.totals
    absent = sum(max(0, ledger.end[p] - first) for p, first in begin.items()) - len(covered)
    # Who was not absent when they were judged was there.
    compacted = max(0, absent - totals.absent) if held.is_source_compacted else 0
    unaccounted = covered - in_table - in_quarantine
    in_no_output = totals.dropped + totals.superseded + totals.deleted
    # Of what was given up some is past retention by now.
    given_up = min(totals.unproven, max(0, len(unaccounted) - in_no_output - forgotten))
    return Reconciliation(
        ledger=ledger,
        unaccounted=unaccounted,
        written_twice=written.again,
        quarantined_twice=quarantined.again,
        in_both=in_table & in_quarantine,
        beyond=_unexplained(in_table - covered, ledger, begin, held, later),
        written=len(in_table & covered),
        quarantined=len(in_quarantine & covered),
        in_no_output=in_no_output,
        absent=absent - compacted,
        past_retention=span(ledger.begin, {p: min(begin[p], ledger.end[p]) for p in ledger.begin}),
        compacted=compacted,
        forgotten=forgotten,
        given_up=given_up,
    )


def _unexplained(
    strays: Positions, ledger: Ledger, begin: Vector, held: Retained, later: Ledger | None
) -> Positions:
    """Leave out of the written records without a source those that may be there: `begin` is what the source still holds."""
    past = {p: min(begin.get(p, 0), end) for p, end in ledger.end.items()}
    strays -= strays.within(ledger.begin, past)
    if held.is_source_compacted:
        strays -= strays.within(begin, ledger.end)
    if held.is_written_ahead:
        strays -= strays.since(ledger.end)
    if later is not None:
        # What a batch covers that was published after `ledger`.
        strays -= strays.within({**later.begin, **ledger.end}, later.end)
    return strays
