"""What an adoption would do, as lines for people."""

from __future__ import annotations

from tidegate.contracts.stream.adoption import PartitionFound
from tidegate.contracts.stream.ledger import Ledger
from tidegate.spark_jobs.adopt.adopt import Forgotten, Look, Skip

_SHOWN_PARTITIONS = 50
_SHOWN_RECORDS = 20


def look_text(look: Look) -> str:
    """Return what was found, partition by partition, and what cannot be proven."""
    proposal = look.proposal
    was = "no ledger"
    if look.held is not None:
        ends = ", ".join(f"{partition}: {end}" for partition, end in sorted(look.held.end.items()))
        was = f"the ledger ends at {ends} (epoch {look.held.epoch}, batch {look.held.n})"
    lines = [f"{look.sink}: {was}; {look.ledger} follows from what is there"]
    lines += [_partition(row) for row in proposal.partitions[:_SHOWN_PARTITIONS]]
    if (more := len(proposal.partitions) - _SHOWN_PARTITIONS) > 0:
        lines.append(f"  ... and {more} more partitions")
    totals = proposal.totals
    lines.append(
        f"accounted for: {totals.written:,} written, {totals.quarantined:,} quarantined, {totals.absent:,} offsets without a "
        "record"
    )
    for name, records in look.others.items():
        lines.append(f"not counted: {records:,} quarantined records of ledger {name}")
    if proposal.twice:
        first = ", ".join(f"{p}/{offset}" for p, offset in proposal.twice.first(_SHOWN_RECORDS))
        lines.append(f"there twice already: {len(proposal.twice):,} records, which stay as they are: {first}")
    lines += _holes(look)
    return "\n".join(lines)


def skip_text(skip: Skip) -> str:
    """Return what is given up of one partition."""
    if skip.end is None:
        what = f"it was added since the ledger was written; up to {skip.first:,} records (offsets 0 to {skip.first - 1}) are given up"
    else:
        given_up = skip.first - skip.end
        what = f"the ledger has it up to {skip.end}; {given_up:,} offsets ({skip.end} to {skip.first - 1}) are given up"
    return f"{skip.sink}: partition {skip.partition} of {skip.held.topic} goes on at {skip.first}: {what}"


def forgotten_text(forgotten: Forgotten) -> str:
    """Return which records are not known any more, and what may become of theirs."""
    gaps = sorted(forgotten.gaps.items())
    lines = [
        f"{forgotten.sink}: {forgotten.offsets:,} offsets of {forgotten.topic} were deleted before a start looked at them",
        *(
            f"  partition {partition}: {begin} to {first - 1}"
            for partition, (begin, first) in gaps[:_SHOWN_PARTITIONS]
        ),
    ]
    if (more := len(gaps) - _SHOWN_PARTITIONS) > 0:
        lines.append(f"  ... and {more} more partitions")
    lines.append(
        "what a batch that was never published wrote there is judged again: it can be written a second time, and a changed "
        "contract can judge it otherwise. Nothing is lost"
    )
    return "\n".join(lines)


def adopted_text(ledger: Ledger) -> str:
    """Return what was written."""
    ends = ", ".join(f"{partition}: {end}" for partition, end in sorted(ledger.end.items()))
    return (
        f"{ledger.stream} is adopted as {ledger.name}, epoch {ledger.epoch}: it goes on at {ends}. Noted in the registry's "
        f"log of changes as {ledger.adopted}. Start the stream, then run: tidegate reconcile {ledger.stream}"
    )


def _partition(row: PartitionFound) -> str:
    found = [
        f"{name} {span[0]} to {span[1]}" if span else f"{name} nothing"
        for name, span in (("written", row.written), ("quarantined", row.quarantined))
    ]
    holes = [
        f"{count:,} {what}"
        for count, what in (
            (row.absent, "without a record"),
            (row.unanswered, "in no output"),
            (row.past_retention, "past retention"),
        )
        if count
    ]
    ledger = f"ledger {row.begin} to {row.end - 1}" if row.end > row.begin else f"ledger begins at {row.end}"
    return f"  partition {row.partition}: {', '.join(found)}; {ledger}; holes: {', '.join(holes) or 'none'}"


def _holes(look: Look) -> list[str]:
    proposal = look.proposal
    if not proposal.holes:
        return ["every offset is accounted for: nothing is lost, and nothing will be written twice"]
    unproven = (
        f"cannot be proven: {proposal.holes:,} offsets are in no output. They may be records that the contract dropped or that "
        "an upsert replaced or deleted, which leave no trace; or they are lost"
    )
    lines = [unproven]
    if proposal.unanswered:
        first = ", ".join(f"{p}/{offset}" for p, offset in proposal.unanswered.first(_SHOWN_RECORDS))
        more = ", ..." if len(proposal.unanswered) > _SHOWN_RECORDS else ""
        lines.append(f"  the source still holds {len(proposal.unanswered):,} of them: {first}{more}")
    return lines
