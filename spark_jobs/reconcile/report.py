"""The result of a reconciliation, as JSON and as text."""

from __future__ import annotations

from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.reconcile import Reconciliation
from tidegate.contracts.stream.reconciliation import FaultyRecords, Findings, NamedRecords


def as_findings(found: Reconciliation, limit: int) -> Findings:
    """Return the counts of all outcomes, and up to `limit` faulty records of each kind, as `partition/offset`.

    Records in no output cannot be distinguished from those that the ledger counts as dropped; in a table with upserts
    neither from superseded records whose keys are unknown. They are listed only if some of them are lost.
    """
    ledger = found.ledger
    return Findings(
        stream=ledger.stream,
        answer=found.answer,
        holds=found.holds,
        epoch=ledger.epoch,
        n=ledger.n,
        begin=ledger.begin,
        end=ledger.end,
        written=found.written,
        quarantined=found.quarantined,
        dropped_superseded_or_deleted=found.in_no_output,
        absent=found.absent,
        unverifiable=found.unverifiable,
        lost=found.lost,
        twice=found.twice,
        surplus=found.surplus,
        closed=found.closed or None,
        records=FaultyRecords(
            in_no_output=_named(found.unaccounted if found.lost else Positions(), limit),
            written_twice=_named(found.written_twice, limit),
            quarantined_twice=_named(found.quarantined_twice, limit),
            written_and_quarantined=_named(found.in_both, limit),
            written_but_not_covered=_named(found.beyond, limit),
            not_in_quarantine_table=_named(found.not_kept, limit),
            twice_in_quarantine_table=_named(found.kept_twice, limit),
        ),
    )


def json_text(findings: Findings) -> str:
    """Return the findings as JSON; kinds of faults without records are omitted."""
    return findings.model_dump_json(exclude_none=True)


def as_text(findings: Findings) -> str:
    """Return the findings as text."""
    fates = ("written", "quarantined", "dropped_superseded_or_deleted", "absent", "unverifiable")
    lines = [f"{getattr(findings, fate):>14,}  {fate.replace('_', ' ')}" for fate in fates]
    if findings.closed:
        lines.insert(2, f"{findings.closed:>14,}    of them discarded or sent to the source topic")
    for kind, records in findings.records:
        if records is not None:
            named = ", ".join(records.first)
            more = " ..." if records.count > len(records.first) else ""
            lines.append(f"{records.count:>14,}  {kind.replace('_', ' ')}: {named}{more}")
    return "\n".join([*lines, f"{findings.stream}: {findings.verdict}"])


def _named(positions: Positions, limit: int) -> NamedRecords | None:
    if not positions:
        return None
    first = tuple(f"{partition}/{offset}" for partition, offset in positions.first(limit))
    return NamedRecords(count=len(positions), first=first)
