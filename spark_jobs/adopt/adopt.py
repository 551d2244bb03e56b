"""Adoption of a stream: rebuild its ledger from its outputs, or let it continue past deleted records.

The order of the steps makes this safe. First the content of the outputs is shown, and nothing is changed. After the
confirmation the registry stores the adoption; if it cannot, nothing is changed. Then the producers of earlier instances
are fenced, and the outputs are read again. Only the confirmed ledger is written, by compare-and-set.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

from tidegate.contracts.errors import ConflictError, NotFoundError, StreamStopped
from tidegate.contracts.stream.adoption import (
    EPOCH_GAP,
    Adoption,
    OutputPositions,
    ProposedLedger,
    SourceRange,
    bounds,
    propose,
)
from tidegate.contracts.stream.bounds import MOST_SLOTS
from tidegate.contracts.stream.closure import Closure
from tidegate.contracts.stream.history import HISTORY_PARTITION, HistoryMark, of_topic
from tidegate.contracts.stream.ledger import Ledger, MarkedKeys, Vector
from tidegate.contracts.stream.positions import Positions, Sightings
from tidegate.spark_jobs.adopt.log import adoption_of
from tidegate.spark_jobs.adopt.stream_change import StreamChange
from tidegate.spark_jobs.kafka.outputs import read_committed
from tidegate.spark_jobs.kafka.replayed import ever_closed, ever_replayed, write_closed, write_replayed
from tidegate.spark_jobs.kafka.source_topic import not_its_topic
from tidegate.spark_jobs.sinks.outputs import provenances
from tidegate.spark_jobs.sinks.recovery_scan import names_ledger, require_own


@dataclass(frozen=True, slots=True)
class Look:
    """The content of a stream's outputs, and the ledger that follows from it.

    `held` is the ledger to replace, None if it is lost. `others` counts the quarantined records of this topic that name
    other ledgers, by ledger name.
    """

    sink: str
    held: Ledger | None
    ledger: str
    found: OutputPositions
    proposal: ProposedLedger
    others: dict[str, int]


@dataclass(frozen=True, slots=True)
class Skip:
    """A partition in which the ledger moves to offset `first`. `end` is its present offset; None if it has none."""

    sink: str
    held: Ledger
    partition: int
    first: int

    @property
    def end(self) -> int | None:
        """Return the offset at which the ledger ends in the partition; None for a partition that was added since."""
        return self.held.end.get(self.partition)


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Offsets of an output topic that were deleted before the next start could read them.

    `gaps` maps a partition to the offset at which the start would begin and the first remaining offset.
    """

    sink: str
    held: Ledger
    topic: str
    gaps: dict[int, tuple[int, int]]

    @property
    def offsets(self) -> int:
        """Return the number of offsets that were deleted."""
        return sum(first - begin for begin, first in self.gaps.values())


class Adopter(StreamChange):
    """The adoption of one stream."""

    def rebuild(
        self, ledger: str | None, confirm: Callable[[Look], None], *, replace: bool = False
    ) -> Ledger:
        """Write the ledger that follows from the outputs; `ledger` selects among the names in quarantined records.

        `confirm` shows the result, and raises to cancel. `replace` allows replacing an existing ledger, for a table
        that was rolled back.

        Raises NotFoundError if the stream has no output, ConflictError if it has a ledger or several names are
        possible, StreamStopped if the outputs change meanwhile.
        """
        held = self._replaced(replace=replace)
        look = self._look(ledger, held)
        confirm(look)
        adoption = self._adoption(look)
        self._sink.fence(look.ledger, MOST_SLOTS)  # the actual number was in the lost ledger
        # The confirmed ledger is written, so only the outputs must be unchanged: the source may grow or lose records.
        if self._found(look.ledger, held)[1] != look.found:
            raise StreamStopped(
                f"{self._stream}: the outputs changed before you confirmed; nothing was changed. Stop every job of this "
                "stream, and adopt it again"
            )
        self._log.keep(adoption)
        new = Ledger(
            name=look.ledger,
            stream=self._stream,
            topic=self._source.name,
            topic_id=self._source.topic_id,
            epoch=adoption.epoch,
            n=0,
            begin=look.proposal.begin,
            end=look.proposal.end,
            scan_from=self._scan_from(look),
            slots=self._sink.slots,
            totals=look.proposal.totals,
            instance=adoption.id[:8],
            adopted=adoption.id,
            generation=held.generation if held else 0,
            rewinds=held.rewinds if held else {},
            marks=self._marks(look.proposal.end),
            history=self._history() if HISTORY_PARTITION in look.proposal.end else None,
        )
        if look.found.replayed:
            new = write_replayed(self._kafka, self._source, new, look.found.replayed)
        new = self._with_closed(new, held, look.found)
        self._sink.write(held, new, is_rebuilt=True)
        return new

    def _with_closed(self, new: Ledger, held: Ledger | None, found: OutputPositions) -> Ledger:
        """Return the ledger with the discarded refusals that count, and with all records sent to the source topic.

        After a rewind the refusals of sent records no longer count, but these records must not be judged again.
        """
        closed = ever_closed(self._kafka, self._source.name, new.name)
        if Closure.DISCARDED in closed:
            closed[Closure.DISCARDED] &= found.quarantined.seen
        if not any(closed.values()):
            return new
        before = held.closed if held is not None else {}
        return write_closed(self._kafka, self._source, new.model_copy(update={"closed": before}), closed)

    def _marks(self, end: Vector) -> MarkedKeys | None:
        """Return the marks of a rebuilt ledger: for upserts, deletes before its end are unknown; else None."""
        return MarkedKeys(since=end, until=end) if self._settings.write_mode == "upsert" else None

    def skip(self, partition: int, first: int, confirm: Callable[[Skip], None]) -> Ledger:
        """Move the ledger of one partition to `first`, which must be the first offset that the topic still has.

        Raises NotFoundError if the stream has no ledger or the topic no such partition. Raises ConflictError if there
        is nothing to skip, or `first` is a different offset.
        """
        held = self._held()
        confirm(self._required(Skip(self._sink.name, held, partition, first)))
        identity = uuid4().hex
        new = held.skip_to(partition, first, identity)
        given_up = first - held.end.get(partition, 0)
        adoption = adoption_of(
            new, self._stream, self._sink.name, accepted_loss=given_up, partition=partition
        )
        self._replace(held, new, adoption)
        return new

    def forget_deleted(self, confirm: Callable[[Forgotten], None]) -> Ledger:
        """Let a stream continue although output records were deleted that its next start would have to read.

        Raises NotFoundError if the stream has no ledger, ConflictError if no output record is missing.
        """
        held, topic = self._held(), self._sink.scanned
        is_there = topic is not None and self._topics.identity(topic) is not None
        earliest = self._topics.earliest(topic) if topic and is_there else {}
        end = self._topics.latest(topic) if topic and is_there else {}
        begin = held.scan_start(topic or "", end)
        gaps = {p: (begin.get(p, 0), first) for p, first in earliest.items() if first > begin.get(p, 0)}
        if topic is None or not gaps:
            raise ConflictError(
                f"{self._sink.name}: no record is missing that the next start looks for; start the stream"
            )
        forgotten = Forgotten(self._sink.name, held, topic, gaps)
        confirm(forgotten)
        new = held.forget_deleted(topic, earliest, end, uuid4().hex)
        adoption = adoption_of(new, self._stream, self._sink.name, forgotten=forgotten.offsets)
        self._replace(held, new, adoption)
        return new

    def _held(self) -> Ledger:
        """Return the ledger. Raise NotFoundError if there is none, StreamStopped if it counts another topic."""
        self._sink.prepare()
        return self._with_ledger(self._sink.read(), "; adopt it whole first")

    def _replace(self, held: Ledger, new: Ledger, adoption: Adoption) -> None:
        """Store the adoption in the registry, fence the producers of the ledger, then write the new ledger."""
        self._log.keep(adoption)
        self._sink.fence(held.name, held.slots)
        self._sink.write(held, new)

    def _required(self, skip: Skip) -> Skip:
        """Return `skip` if its partition begins at `skip.first`, beyond the ledger; else raise."""
        earliest = self._topics.earliest(self._source.name).get(skip.partition)
        if earliest is None:
            raise NotFoundError(f"topic {self._source.name} has no partition {skip.partition}")
        if (skip.end or 0) >= earliest:
            raise ConflictError(
                f"{self._source.name}: nothing is missing of partition {skip.partition}: it begins at {earliest}; start the "
                "stream"
            )
        if earliest != skip.first:
            raise ConflictError(
                f"{self._source.name}: partition {skip.partition} begins at {earliest} now, not at {skip.first}: --from {earliest}"
            )
        return skip

    def _replaced(self, *, replace: bool) -> Ledger | None:
        """Return the ledger to replace, None if it is lost. Raises if there is nothing to adopt."""
        has_written = self._sink.has_written() or self._has_quarantined()
        found = None
        if has_written or replace:
            self._sink.prepare()
            found = self._sink.read()
        if found is None and not has_written:
            raise NotFoundError(
                f"{self._sink.name} and {self._quarantine} hold nothing of {self._stream}: there is nothing to adopt; start it"
            )
        if found is not None:
            require_own(found, self._stream, self._sink.name)
        if found is not None and not replace:
            raise ConflictError(
                f"{self._sink.name} has the ledger of {self._stream} (epoch {found.epoch}, batch {found.n}): nothing is to "
                "be adopted; start the stream, or ask tidegate reconcile. Only if the table was rolled back or restored, so that "
                "its rows are no longer those of the ledger: --replace"
            )
        if found is not None and found.topic_id != self._source.topic_id:
            raise StreamStopped(not_its_topic(self._source.name, found))
        return found

    def _has_quarantined(self) -> bool:
        if self._topics.identity(self._quarantine) is None:
            return False
        if self._settings.rules.is_table:
            self._sink.prepare()  # the ledger's name contains the table's UUID, so the table must exist
        return names_ledger(self._kafka, self._quarantine, self._sink.own_ledger, self._source.name)

    def _look(self, wanted: str | None, held: Ledger | None) -> Look:
        name, found, others = self._found(wanted, held)
        source = self._source_range(found)
        if held is None and self._log.was_rewound(name):
            raise _rewound_before(self._stream)
        limits = bounds(
            found,
            source,
            from_earliest=self._settings.starting == "earliest",
            known_begin=held.begin if held else None,
        )
        present = self._present(limits.holes)
        # Retention may have deleted records while the source was read; they are not absent.
        proposal = propose(found, self._source_range(found), limits, present)
        return Look(self._sink.name, held, name, found, proposal, others)

    def _source_range(self, found: OutputPositions) -> SourceRange:
        """Return the ranges that topic and history hold.

        Raises StreamStopped if the outputs hold records of a history that is gone.
        """
        earliest, latest = self._topics.earliest(self._source.name), self._topics.latest(self._source.name)
        if HISTORY_PARTITION not in found.all.bitmaps():
            return SourceRange(earliest, latest)
        mark = self._history()
        if mark is None:
            raise StreamStopped(
                f"{self._copied.path} is gone, and the outputs hold records of the stream's history: restore it. To begin "
                f"again with an empty output instead: tidegate archive {self._stream}"
            )
        begin, _ = self._copied.held(mark, mark.end)
        return SourceRange({**earliest, HISTORY_PARTITION: begin}, {**latest, HISTORY_PARTITION: mark.end})

    def _history(self) -> HistoryMark | None:
        """Return the newest load of the history; None if there is none."""
        manifest = self._copied.read()
        return manifest.marks[-1] if manifest is not None and manifest.loads else None

    def _found(self, wanted: str | None, held: Ledger | None) -> tuple[str, OutputPositions, dict[str, int]]:
        """Read both outputs; return the ledger's name, its positions, and the record counts of other ledgers."""
        by_ledger: defaultdict[str, Sightings] = defaultdict(Sightings)
        for found, _ in provenances(self._kafka, self._quarantine, self._source.name):
            partition, offset = found.source.partition, found.source.offset
            if held is None and found.generation:
                raise _rewound_before(self._stream)
            if held is None or found.ledger != held.name or held.counts(partition, offset, found.generation):
                by_ledger[found.ledger].add(partition, offset)
        written = self._sink.written()
        name = held.name if held else self._chosen(wanted, by_ledger, written)
        quarantined = by_ledger.pop(name, Sightings())
        replayed = quarantined.seen & written.seen & ever_replayed(self._kafka, self._source.name, name)
        if replayed:
            quarantined.seen, quarantined.again = quarantined.seen - replayed, quarantined.again - replayed
        others = {other: len(positions.seen) for other, positions in sorted(by_ledger.items())}
        # No window after a rollback: the quarantine topic also has records refused after the restored moment.
        window = None if held and self._sink.ahead == "quarantined" else self._settings.max_offsets
        return name, OutputPositions(written, quarantined, self._sink.ahead, window, replayed), others

    def _chosen(self, wanted: str | None, by_ledger: dict[str, Sightings], written: Sightings) -> str:
        """Return the ledger name of the quarantined records that belong to the written rows.

        A rebuilt table has a different UUID than the lost ledger's name contains. If that ledger never refused a
        record, the quarantine topic only has records of older tables, whose positions are among the rows too.

        Raises ConflictError if the name is ambiguous, or `wanted` is not a candidate.
        """
        own, prefix = self._sink.own_ledger, f"{self._stream}@{self._sink.kind}"
        borne = [name for name in by_ledger if name == prefix or name.startswith(f"{prefix}:")]
        candidates = sorted({*borne, own})
        if wanted is not None:
            if wanted not in candidates:
                raise ConflictError(f"no record names the ledger {wanted}; there are {', '.join(candidates)}")
            return wanted
        if own in borne or not borne:
            return own
        if len(borne) == 1:
            both = by_ledger[borne[0]].seen & written.seen
            if not both - ever_replayed(self._kafka, self._source.name, borne[0]):
                return borne[0]
        counts = ", ".join(f"{name} ({len(by_ledger[name].seen)} records)" for name in sorted(borne))
        raise ConflictError(
            f"{self._quarantine} holds records of other ledgers of this stream: {counts}. Say whose records belong to what "
            f"is written now, with --ledger NAME; {own} if none does"
        )

    def _present(self, holes: Positions) -> Positions:
        """Return the holes at which the source holds a record; all holes of a history, which has no gaps."""
        offsets = holes.bitmaps()
        begin: Vector = {partition: found.min() for partition, found in offsets.items()}
        end = of_topic({partition: found.max() + 1 for partition, found in offsets.items()})
        present = Positions.of(
            {p: found for p, found in offsets.items() if p == HISTORY_PARTITION}
        )  # no gaps
        for message in read_committed(self._kafka, self._source.name, begin, end):
            position = (message.partition() or 0, message.offset() or 0)
            if position in holes:
                present.add(*position)
        return present

    def _scan_from(self, look: Look) -> dict[str, Vector]:
        """Return the offsets from which the next start must scan for records ahead of the ledger."""
        if self._sink.scanned is None:
            return {}
        topic, end = self._sink.scanned, look.proposal.end
        begin = self._topics.latest(topic) if self._topics.identity(topic) is not None else {}
        written = look.found.written if self._sink.ahead == "written" else look.found.quarantined
        if not written.seen.since(end):
            return {topic: begin}
        for found, message in provenances(self._kafka, topic, self._source.name):
            if found.ledger == look.ledger and found.source.offset >= end.get(found.source.partition, 0):
                partition, offset = message.partition() or 0, message.offset() or 0
                begin[partition] = min(begin[partition], offset)
        return {topic: begin}

    def _adoption(self, look: Look) -> Adoption:
        held = look.held.epoch if look.held else 0
        seen = max(self._log.last_epoch(), self._sink.last_epoch(look.ledger), held)
        totals = look.proposal.totals
        return Adoption(
            id=uuid4().hex,
            stream=self._stream,
            topic=self._source.name,
            sink=look.sink,
            ledger=look.ledger,
            at=datetime.now(UTC),
            epoch=seen + EPOCH_GAP,
            begin=look.proposal.begin,
            end=look.proposal.end,
            written=totals.written,
            quarantined=totals.quarantined,
            absent=totals.absent,
            accepted_loss=totals.unproven,
            twice=len(look.proposal.twice),
        )


def _rewound_before(stream: str) -> ConflictError:
    return ConflictError(
        f"{stream} was rewound, and its ledger is lost: the outputs do not say which refusals were judged again since. Nothing "
        "was changed. Restore the table with its ledger from a backup, or begin again with a new table: tidegate archive "
        f"{stream}"
    )
