"""Archiving of a stream's output under another name, so that the stream begins again with an empty output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

from tidegate.contracts.errors import ConflictError
from tidegate.contracts.stream.adoption import EPOCH_GAP, Adoption
from tidegate.contracts.stream.ledger import BatchTotals, Ledger, Vector
from tidegate.spark_jobs.adopt.stream_change import StreamChange
from tidegate.spark_jobs.sinks.adoption import readable
from tidegate.spark_jobs.sinks.recovery_scan import require_own


@dataclass(frozen=True, slots=True)
class Archive:
    """An output that would be archived as `name`, and the offsets `begin` at which the stream then begins again.

    `held` is the ledger of the output, or None. `is_recreated`: that ledger counts another topic, or a topic of this
    name that was deleted since, so its offsets are not offsets of the present topic. `repeated` counts the offsets that
    readers of the output get again, `skipped` the offsets that are never judged.
    """

    sink: str
    name: str
    held: Ledger | None
    topic: str
    is_recreated: bool
    begin: Vector
    repeated: int
    skipped: int


class Archiver(StreamChange):
    """The archiving of one stream's output.

    From StreamChange: `_sink` is the AdoptableSink, `_log` the registry's list of changes, `_source` the source topic with
    its id, and `_topics` the client that reads the topics' offsets.
    """

    def archive(self, name: str, confirm: Callable[[Archive], None], *, repeats: bool = False) -> Ledger:
        """Archive the output as `name`, and write the ledger of a stream that begins again with an empty output.

        Nothing is deleted: a table keeps its rows, and a topic its records, which name the ledger that wrote them.
        The new ledger continues the epochs, so that the registry accepts the reports of its batches as newer.

        If it is interrupted at any point, it can be run again: finished parts stay, and missing ones are created.
        Raises ConflictError if the name is taken, or, without `repeats`, if readers of a topic would get records again.
        Raises Unavailable.
        """
        held = readable(self._sink.ledger_if_there)  # an unreadable ledger may be the reason to archive
        if held is not None:
            require_own(held, self._stream, self._sink.name)
        archive = self._archive_of(name, held)
        if archive.repeated and not repeats:
            raise ConflictError(
                f"{self._sink.name}: a topic cannot be renamed, and its readers would get again up to {archive.repeated:,} "
                f"records that {self._source.name} still holds; nothing was changed. To accept that: tidegate archive "
                f"{self._stream} --repeat-records; to begin at the end of {self._source.name} instead: --starting latest"
            )
        confirm(archive)
        # Retention may have deleted records while the user decided.
        earliest = self._topics.earliest(self._source.name)
        begin = {p: max(offset, earliest.get(p, 0)) for p, offset in archive.begin.items()}
        identity = uuid4().hex
        epoch = max(self._log.last_epoch(), held.epoch if held else 0) + EPOCH_GAP
        # The registry knows the change first: an interrupted run is then visible, and no later one gets its epoch again.
        self._log.keep(self._archived(archive, identity, epoch))
        if held is not None:
            self._sink.fence(held.name, held.slots)
        self._sink.archive(name)
        self._sink.prepare()
        ledger = self._sink.new_ledger(identity[:8])
        scanned = self._sink.scanned
        is_there = scanned is not None and self._topics.identity(scanned) is not None
        new = Ledger(
            name=ledger,
            stream=self._stream,
            topic=self._source.name,
            topic_id=self._source.topic_id,
            epoch=epoch,
            n=0,
            begin=begin,
            end=begin,
            scan_from={scanned: self._topics.latest(scanned)} if scanned is not None and is_there else {},
            slots=self._sink.slots,
            instance=identity[:8],
            adopted=identity,
        )
        # An interrupted run may have left producers of the new ledger, if the sink gives it the same name again.
        self._sink.fence(ledger, self._sink.slots)
        self._sink.write(readable(self._sink.read), new, is_rebuilt=True)
        return new

    def _archive_of(self, name: str, held: Ledger | None) -> Archive:
        """Return what would be archived, without changing anything."""
        source, begin = self._source, self._begin()
        is_recreated = held is not None and held.topic_id != source.topic_id
        latest = self._topics.latest(source.name)
        end = held.end if held is not None else latest
        repeated = skipped = 0
        if not is_recreated:
            if not self._sink.is_renamed and (held is not None or self._sink.has_written()):
                repeated = sum(
                    max(0, min(last, latest.get(p, 0)) - begin.get(p, last)) for p, last in end.items()
                )
            skipped = sum(max(0, first - end.get(p, 0)) for p, first in begin.items()) if held else 0
        return Archive(self._sink.name, name, held, source.name, is_recreated, begin, repeated, skipped)

    def _begin(self) -> Vector:
        """Return the offsets at which a stream without a ledger begins, according to its settings."""
        if self._settings.starting == "latest":
            return self._topics.latest(self._source.name)
        return self._topics.earliest(self._source.name)

    def _archived(self, archive: Archive, identity: str, epoch: int) -> Adoption:
        totals = archive.held.totals if archive.held else BatchTotals()
        return Adoption(
            id=identity,
            stream=self._stream,
            topic=self._source.name,
            sink=self._sink.name,
            ledger=archive.held.name if archive.held else self._sink.name,
            at=datetime.now(UTC),
            epoch=epoch,
            begin=archive.begin,
            end=archive.begin,
            written=totals.written,
            quarantined=totals.quarantined,
            absent=totals.absent,
            accepted_loss=0,
            archived=archive.name,
        )
