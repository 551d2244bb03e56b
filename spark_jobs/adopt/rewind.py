"""Rewind of a stream: rows from a point on are deleted, and their records are judged again by the current contract.

First a preview is shown, and nothing is changed. After the confirmation, as at a start, the ledger is claimed and the
producers are fenced: from there on, no earlier instance can publish or commit. The outputs are counted again. Then the
registry records the rewind, and one commit deletes the rows and updates the ledger. An interrupted rewind can be run
again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import uuid4

from tidegate.contracts.errors import ConflictError, SettingsError, StreamStopped
from tidegate.contracts.stream.adoption import Adoption
from tidegate.contracts.stream.closure import Closure
from tidegate.contracts.stream.generations import overruling, rewound
from tidegate.contracts.stream.history import HISTORY_PARTITION, of_topic
from tidegate.contracts.stream.ledger import Ledger, Vector
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.rewind import Held, Rewind, points_of, rewind_to
from tidegate.spark_jobs.adopt.log import adoption_of
from tidegate.spark_jobs.adopt.stream_change import StreamChange
from tidegate.spark_jobs.kafka.dropped import DroppedTopic, read_dropped
from tidegate.spark_jobs.kafka.kafka_ledger import transactional_id
from tidegate.spark_jobs.kafka.outputs import TransactionalProducer, read_committed
from tidegate.spark_jobs.kafka.replayed import require_closed, write_closed, write_replayed
from tidegate.spark_jobs.sinks.outputs import provenances


class RewindStep(StrEnum):
    """The steps of a rewind; tests interrupt it after each."""

    CLAIM = "claim"
    FENCE = "fence"
    LOOK = "look"
    NOTE = "note"
    DROPPED = "dropped"
    COMMIT = "commit"


@dataclass(frozen=True, slots=True)
class RewindTo:
    """The target of a rewind: offsets by partition, a time, or a snapshot of the table. Exactly one is set."""

    offsets: Vector | None = None
    time: datetime | None = None
    snapshot: int | None = None

    @classmethod
    def parse(cls, text: str) -> RewindTo:
        """Parse `0:1200,1:1188`, `2026-07-01T12:00:00Z` or a snapshot id. Raises SettingsError for other texts."""
        if text.isascii() and text.isdigit():
            return cls(snapshot=int(text))
        try:
            if "-" in text:
                time = datetime.fromisoformat(text)
            else:
                places = [place.split(":") for place in text.split(",")]
                offsets = {int(partition): int(offset) for partition, offset in places}
                if len(offsets) < len(places):
                    raise SettingsError(f"--to {text}: a partition is named twice")
                return cls(offsets=offsets)
        except ValueError as error:
            raise SettingsError(
                f"--to {text}: give offsets by partition (0:1200,1:1188), a time (2026-07-01T12:00:00Z), or the id of a "
                "snapshot"
            ) from error
        if time.tzinfo is None:
            raise SettingsError(f"--to {text}: a time needs its zone, such as {text}Z or {text}+02:00")
        if time.timestamp() < 0:
            # Kafka uses negative timestamps as codes for the end and the beginning of a topic.
            raise SettingsError(f"--to {text}: a time is not before 1970-01-01T00:00:00Z")
        return cls(time=time)


@dataclass(frozen=True, slots=True)
class RewindLook:
    """The preview of a rewind. `contract` (`id@version`) is the one that would judge the records again now."""

    sink: str
    rewind: Rewind
    contract: str


class Rewinder(StreamChange):
    """The rewind of one stream; `on_step` is called after each `RewindStep`."""

    def look(self, to: RewindTo) -> RewindLook:
        """Return the preview of a rewind; nothing is changed.

        Raises NotFoundError if the stream has no ledger. Raises ConflictError, with what to do, if it cannot be rewound
        to that point. Raises StreamStopped if the topic was recreated.
        """
        self._sink.require_rewindable()
        held = self._held()
        rewind = rewind_to(points := self._points(held, to), held, self._found(held, points))
        rewind.ledger(held, "", "")  # raises if there are too many rewinds
        return RewindLook(self._sink.name, rewind, f"{self._stream}@{self._plan.contract.version}")

    def rewind(self, to: RewindTo, confirm: Callable[[RewindLook], None]) -> Ledger:
        """Rewind the stream; return the new ledger. `confirm` shows the preview, and raises to cancel.

        Raises the errors of `look`, and Fenced or StreamStopped if the outputs change meanwhile.
        """
        look = self.look(to)
        confirm(look)
        shown, identity = look.rewind, uuid4().hex
        held = shown.held
        claimed = held.claim(held.slots, identity[:8])
        self._sink.write(held, claimed)
        self._on_step(RewindStep.CLAIM)
        self._sink.fence(held.name, held.slots)
        self._on_step(RewindStep.FENCE)
        found = rewind_to(shown.points, claimed, self._found(claimed, shown.points))
        if (found.fates, found.rows) != (shown.fates, shown.rows):
            raise StreamStopped(
                f"{self._stream}: the outputs changed before you confirmed; no row was deleted. Stop every job of this "
                "stream, and run tidegate rewind again"
            )
        self._on_step(RewindStep.LOOK)
        # Not before: a rewind that was refused must not count as made, because `adopt` refuses a lost ledger after one.
        self._log.keep(self._adoption(look, shown.ledger(claimed, identity, "")))
        self._on_step(RewindStep.NOTE)
        if len(found.replayed) != claimed.replayed:
            changed = write_replayed(self._kafka, self._source, claimed, found.replayed)
        else:
            changed = claimed
        changed = self._with_closed(changed, found.points)
        digest = self._write_dropped(claimed, found)
        self._on_step(RewindStep.DROPPED)
        new = found.ledger(changed, identity, digest)
        self._sink.retract(shown.points, claimed, new)
        self._on_step(RewindStep.COMMIT)
        self._sink.follow_quarantine(new)
        return new

    def _with_closed(self, ledger: Ledger, points: Vector) -> Ledger:
        """Return the ledger without discarded records that are judged again, and with all records sent to the source.

        Sent records are never judged again, even if the instance that sent them ended before the ledger named them.
        """
        found = require_closed(self._kafka, ledger)
        discarded = found.discarded.within({}, {**ledger.end, **points})
        named = ledger.closed.get(Closure.RESENT)
        if discarded == found.discarded and len(found.resent) == (named.records if named else 0):
            return ledger
        closed = {Closure.DISCARDED: discarded, Closure.RESENT: found.resent}
        return write_closed(self._kafka, self._source, ledger, closed)

    def _held(self) -> Ledger:
        lost = f": there is nothing to rewind. If its ledger was lost: tidegate adopt {self._stream}"
        held = self._with_ledger(self._sink.ledger_if_there(), lost)
        if held.totals.superseded or held.totals.deleted:
            raise ConflictError(
                f"{self._sink.name} was upserted into: rows have replaced others, which no rewind brings back; nothing was "
                f"changed. Begin again with a new table: tidegate archive {self._stream}"
            )
        return held

    def _points(self, held: Ledger, to: RewindTo) -> Vector:
        if to.offsets is not None:
            return points_of(held, to.offsets, is_exact=True)
        if to.snapshot is not None:
            at = self._sink.position_at(to.snapshot, held)
            return points_of(held, {p: at.get(p, held.begin.get(p, 0)) for p in held.end}, is_exact=False)
        assert to.time is not None  # noqa: S101 - one of them is set
        found = self._topics.at_time(self._source.name, int(to.time.timestamp() * 1000))
        return points_of(held, {p: found.get(p, end) for p, end in held.end.items()}, is_exact=False)

    def _found(self, held: Ledger, points: Vector) -> Held:
        """Read the source and the outputs; return the positions that they hold."""
        source, quarantined, needed = Positions(), Positions(), set[tuple[int, int]]()
        closed = require_closed(self._kafka, held)
        replayed = closed.replayed
        after = rewound(held.rewinds, points, held.generation + 1)
        for found, _ in provenances(self._kafka, self._quarantine, self._source.name):
            if found.ledger != held.name:
                continue
            partition, offset = found.source.partition, found.source.offset
            if held.counts(partition, offset, found.generation) and (partition, offset) not in replayed:
                quarantined.add(partition, offset)
            if overruled := overruling(after, partition, offset, found.generation):
                needed.add(overruled)
        end = {partition: held.end[partition] for partition in points}
        for message in read_committed(self._kafka, self._source.name, points, of_topic(end)):
            source.add(message.partition() or 0, message.offset() or 0)
        history_begin, of_history = self._copied.held(held.history, held.end.get(HISTORY_PARTITION, 0))
        source.add_all(of_history)
        is_there = self._topics.identity(self._quarantine) is not None
        return Held(
            earliest={**self._topics.earliest(self._source.name), HISTORY_PARTITION: history_begin},
            source=source,
            written=self._sink.written().seen,
            quarantined=quarantined,
            dropped=read_dropped(self._kafka, held),
            replayed=replayed,
            resent=closed.resent,
            needed=frozenset(needed),
            is_quarantine_whole=is_there and not any(self._topics.earliest(self._quarantine).values()),
        )

    def _write_dropped(self, claimed: Ledger, rewind: Rewind) -> str:
        """Write the dropped positions that still count as a new chain; return its digest."""
        if not rewind.fates.dropped:
            return claimed.dropped_digest
        topic = DroppedTopic(self._topics, self._source)
        records, digest = topic.records(claimed.model_copy(update={"dropped_digest": ""}), rewind.dropped)
        if records:
            producer = TransactionalProducer(self._kafka, transactional_id(claimed.name, 0))
            producer.fence()
            producer.write(records)
        return digest

    def _adoption(self, look: RewindLook, new: Ledger) -> Adoption:
        rewind = look.rewind
        return adoption_of(
            new,
            self._stream,
            look.sink,
            kind="rewind",
            generation=new.generation,
            rewound_from={p: rewind.held.end[p] for p in rewind.points},
            deleted=rewind.rows,
            rejudged=rewind.rejudged,
        )
