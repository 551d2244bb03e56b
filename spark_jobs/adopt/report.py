"""Reports of adoptions, archives, rewinds and erasures as text."""

from __future__ import annotations

from tidegate.contracts.stream.adoption import PartitionFound
from tidegate.contracts.stream.ledger import Ledger
from tidegate.spark_jobs.adopt.adopt import Forgotten, Look, Skip
from tidegate.spark_jobs.adopt.archive import Archive
from tidegate.spark_jobs.adopt.erase import EraseLook
from tidegate.spark_jobs.adopt.rewind import RewindLook

_SHOWN_PARTITIONS = 50
_SHOWN_RECORDS = 20


def look_text(look: Look) -> str:
    """Return a summary of the outputs by partition, and of the offsets that cannot be proven."""
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
    """Return a summary of the offsets of one partition that would be given up."""
    if skip.end is None:
        what = f"it was added since the ledger was written; up to {skip.first:,} records (offsets 0 to {skip.first - 1}) are given up"
    else:
        given_up = skip.first - skip.end
        what = f"the ledger has it up to {skip.end}; {given_up:,} offsets ({skip.end} to {skip.first - 1}) are given up"
    return f"{skip.sink}: partition {skip.partition} of {skip.held.topic} goes on at {skip.first}: {what}"


def forgotten_text(forgotten: Forgotten) -> str:
    """Return a summary of the deleted output records, and of the consequences."""
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


def archive_text(archive: Archive) -> str:
    """Return a summary of what would be archived, and the offsets at which the stream begins again."""
    lines = [f"{archive.sink} is archived as {archive.name}; nothing is deleted"]
    if archive.held is not None:
        totals = archive.held.totals
        lines.append(
            f"  its ledger {archive.held.name}: {totals.written:,} written, {totals.quarantined:,} quarantined"
        )
    if archive.held is not None and archive.held.topic != archive.topic:
        lines.append(f"  it counts topic {archive.held.topic}; the stream reads {archive.topic} from now on")
    elif archive.is_recreated:
        lines.append(f"  topic {archive.topic} was created again since: its offsets are new ones")
    begin = ", ".join(
        f"{partition}: {first}" for partition, first in sorted(archive.begin.items())[:_SHOWN_PARTITIONS]
    )
    lines.append(f"the stream begins again at {begin}; earlier records are only in the archived output")
    if archive.repeated:
        lines.append(f"readers of {archive.sink} get up to {archive.repeated:,} records again")
    if archive.skipped:
        lines.append(f"{archive.skipped:,} offsets of {archive.topic} were not judged, and are left out")
    return "\n".join(lines)


def archived_text(ledger: Ledger, name: str) -> str:
    """Return the result of an archive."""
    return (
        f"{ledger.stream} is archived as {name}, and begins again as {ledger.name}, epoch {ledger.epoch}. Noted in the "
        f"registry's audit log as {ledger.adopted}. Start the stream, then run: tidegate reconcile {ledger.stream}"
    )


def rewind_text(look: RewindLook) -> str:
    """Return a preview of a rewind, by partition."""
    rewind = look.rewind
    held, counts = rewind.held, rewind.fates.totals
    points = sorted(rewind.points.items())
    lines = [f"{look.sink}: the ledger {held.name} is at epoch {held.epoch}, batch {held.n}"]
    lines += [
        f"  partition {partition}: from {held.end[partition]} back to {offset}"
        f" ({held.end[partition] - offset:,} offsets)"
        for partition, offset in points[:_SHOWN_PARTITIONS]
    ]
    if (more := len(points) - _SHOWN_PARTITIONS) > 0:
        lines.append(f"  ... and {more} more partitions")
    lines.append(
        f"deleted: {rewind.rows:,} rows; judged again: {rewind.rejudged:,} refusals and {rewind.dropped_before:,} dropped "
        f"records, by {look.contract} or the version that is enforced then"
    )
    if rewind.left_out:
        lines.append(
            f"left out: {len(rewind.left_out):,} records that were sent back to the source; their copies are judged"
        )
    if counts["unproven"]:
        lines.append(f"judged after all: {counts['unproven']:,} records that were given up")
    lines.append(f"the source {held.topic} still holds all of them")
    return "\n".join(lines)


def rewound_text(ledger: Ledger) -> str:
    """Return the result of a rewind."""
    ends = ", ".join(f"{partition}: {end}" for partition, end in sorted(ledger.end.items()))
    return (
        f"{ledger.stream} is rewound as generation {ledger.generation}, epoch {ledger.epoch}: it goes on at {ends}. Noted in "
        f"the registry's audit log as {ledger.adopted}. Start the stream, then run: tidegate reconcile {ledger.stream}"
    )


def erase_text(look: EraseLook) -> str:
    """Return a preview of an erasure, which does not identify the person."""
    erasure = look.erasure
    lines = [
        f"{look.sink}: the ledger {erasure.held.name} is at epoch {erasure.held.epoch}, batch {erasure.held.n}",
        f"erased: {len(erasure.rows):,} rows and {erasure.quarantined:,} refused records",
    ]
    if look.unread:
        lines.append(f"  {look.unread:,} of the refused ones cannot be decoded, and contain the value")
    if look.unfollowed:
        lines.append(f"  {look.unfollowed:,} rows of the quarantine table are left by an interrupted erasure")
    if look.left:
        lines.append(f"left: {look.left}")
    return "\n".join(lines)


def erased_text(ledger: Ledger) -> str:
    """Return the result of an erasure."""
    return (
        f"the records are erased; epoch {ledger.epoch}. Noted in the registry's log of changes as {ledger.adopted}, without "
        "the value. Older snapshots of the table and closed segments of the topic hold them until they expire"
    )


def adopted_text(ledger: Ledger) -> str:
    """Return the result of an adoption: the ledger that was written."""
    ends = ", ".join(f"{partition}: {end}" for partition, end in sorted(ledger.end.items()))
    return (
        f"{ledger.stream} is adopted as {ledger.name}, epoch {ledger.epoch}: it goes on at {ends}. Noted in the registry's "
        f"audit log as {ledger.adopted}. Start the stream, then run: tidegate reconcile {ledger.stream}"
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
