"""A model of replays into a table with upserts: the row of a key after batches, deletes and replays in any order.

All records have one key and one partition. `World.table` has the accepted records, so that the checks of appended rows
apply; `World.row` is the row that readers see. Each delete writes a mark to a topic, and the ledger names the marks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

from tests.model.replay import ReplayProtocol
from tests.model.world import ACCEPT, Bounds, Instance, Ledger, Pointer, World, with_instance
from tidegate.spark_jobs.steps import ReplayStep, Step


class UpsertPart(StrEnum):
    """The parts that can be removed; each value says what happens instead."""

    NEWER_ROW = "replay-publish: a replayed record replaces a newer row"
    MARKS = "quarantine: deletes leave no mark"
    MARKS_FIRST = "quarantine: the marks of deletes are written after the commit"
    REPLAYED_DELETES = "replay-positions: a delete that is replayed leaves no mark"
    LOOK_AT_PUBLISH = "replay-publish: the marks are those read with the chunk"
    KEPT_IN_MEMORY = "replay-publish: the marks are those that the topic still has"
    KNOWN_MARKS = "replay-read: records from before the oldest mark that is kept are taken too"


class UpsertProtocol(ReplayProtocol):
    """The steps that change the row of one key; `without` removes one part of the protocol."""

    def __init__(
        self,
        bounds: Bounds,
        requests: int,
        deletes: frozenset[Pointer],
        without: UpsertPart | None = None,
        mended: frozenset[Pointer] = frozenset(),
    ) -> None:
        """Set the bounds of the model; `deletes` are the tombstones."""
        super().__init__(bounds, requests, mended=mended)
        self._deletes = deletes
        self._lacks = without

    def following(self, world: World) -> Iterator[tuple[str, World]]:
        """Yield each possible next step with the world after it; retention deletes the oldest mark first."""
        yield from super().following(world)
        kept = [each for each, _ in world.ledger.marks if each not in world.forgotten]
        if kept:
            yield f"the mark of {kept[0]} expires", world._replace(forgotten=(*world.forgotten, kept[0]))

    def violation(self, world: World) -> str | None:
        """Return a violation of replays, a lost list of marks, or a row that is not from the newest accepted record; else None."""
        if world.ledger.marks and world.ledger.marks not in world.mark_lists:
            return "the ledger names marks that no topic has"
        newest = max(world.table, default=None)
        expected = None if newest in self._deletes else newest
        if world.row != expected:
            return f"the row is {world.row}, and the newest accepted record is {newest}"
        return super().violation(world)

    def _step(self, world: World, who: int, me: Instance) -> Iterator[tuple[str, World]]:
        if me.at == ReplayStep.POSITIONS:
            yield from self._batch_meanwhile(world, who, me)
        for what, after in super()._step(world, who, me):
            is_late = self._lacks is UpsertPart.MARKS_FIRST
            if me.at == Step.QUARANTINE and after.instances[who].at == Step.PUBLISH and not is_late:
                yield what, _with_marks(after, self._published(world, who, me).marks)
            else:
                yield what, after

    def _published(self, world: World, who: int, me: Instance) -> Ledger:
        held = me.held
        assert held is not None
        return self._marked(super()._published(world, who, me), held, self._accepted(me))

    def _commit(self, world: World, me: Instance, new: Ledger) -> World:
        landed = super()._commit(world, me, new)
        return landed._replace(row=self._merged(world.row, self._accepted(me)))

    def _batch_meanwhile(self, world: World, who: int, me: Instance) -> Iterator[tuple[str, World]]:
        """Yield the publication of a batch between reading a chunk and publishing it, if all its records are accepted."""
        held, latest = me.held, self._bounds.latest
        assert held is not None
        assert me.new is not None
        if world.ledger != held or held.end == latest:
            return
        batch = Instance(at=Step.PUBLISH, held=held, start=held.end, end=latest, contract=world.contract)
        wanted = [each for each in self._bounds.verdicts if each[1] >= held.end[0]]
        if any(self._bounds.verdicts[each][world.contract] != ACCEPT for each in wanted):
            return
        published = self._published(world, who, batch)
        new = self._after(published, me.chunk)._replace(progress=me.new.progress)
        landed = self._commit(_with_marks(world, published.marks), batch, published)
        yield (
            f"publishes up to {latest} before the chunk",
            with_instance(landed, who, me._replace(held=published, new=new)),
        )

    # Chunks of replays.

    def _read(self, world: World, who: int, me: Instance) -> Iterator[tuple[str, World]]:
        assert me.held is not None
        seen = tuple(each for each, _ in me.held.marks if each not in world.forgotten)
        for what, after in super()._read(world, who, me):
            yield what, with_instance(after, who, after.instances[who]._replace(seen=seen, start=me.held.end))

    def _accepted_again(self, world: World, me: Instance, places: tuple[int, ...]) -> tuple[Pointer, ...]:
        assert me.held is not None
        found = super()._accepted_again(world, me, places)
        if self._lacks is UpsertPart.KNOWN_MARKS:
            return found
        first = _known_from(me.held, world.forgotten)
        return tuple(each for each in found if each[1] >= first)

    def _after(self, held: Ledger, chunk: tuple[Pointer, ...]) -> Ledger:
        new = super()._after(held, chunk)
        return new if self._lacks is UpsertPart.REPLAYED_DELETES else self._marked(new, held, chunk)

    def _positions(self, world: World, who: int, me: Instance) -> tuple[str, World]:
        assert me.new is not None
        what, after = super()._positions(world, who, me)
        return what, _with_marks(after, me.new.marks)

    def _publish_chunk(self, world: World, who: int, me: Instance) -> Iterator[tuple[str, World]]:
        assert me.held is not None
        # Marks that were read stay in memory, and marks of later batches are added, also after retention deleted them.
        since = [each for each, end in me.held.marks if end >= me.start[0]]
        known = me.seen if self._lacks is UpsertPart.LOOK_AT_PUBLISH else (*me.seen, *since)
        if self._lacks is UpsertPart.KEPT_IN_MEMORY:
            known = tuple(each for each, _ in me.held.marks if each not in world.forgotten)
        standing = [each for each in me.chunk if not any(mark > each for mark in known)]
        for what, after in super()._publish_chunk(world, who, me):
            if after.ledger == world.ledger:
                yield what, after
                continue
            wins = self._lacks is UpsertPart.NEWER_ROW
            row = self._merged(None if wins and standing else world.row, standing)
            yield what, after._replace(row=row)

    def _marked(self, new: Ledger, held: Ledger, accepted: Iterable[Pointer]) -> Ledger:
        """Return the ledger with marks of the deletes among the accepted records."""
        if self._lacks is UpsertPart.MARKS:
            return new
        found = tuple((each, held.end[0]) for each in sorted(accepted) if each in self._deletes)
        return new._replace(marks=(*held.marks, *found))

    def _merged(self, row: Pointer | None, records: Iterable[Pointer]) -> Pointer | None:
        """Return the row after a merge: that of the newest record, or None if it is a tombstone."""
        newest = max(records, default=None)
        if newest is None or (row is not None and row > newest):
            return row
        return None if newest in self._deletes else newest


def _known_from(held: Ledger, forgotten: tuple[Pointer, ...]) -> int:
    """Return the lowest offset from which all deletes have marks."""
    if not any(each in forgotten for each, _ in held.marks):
        return 0
    kept = [before for each, before in held.marks if each not in forgotten]
    return kept[0] if kept else held.end[0]


def _with_marks(world: World, marks: tuple[tuple[Pointer, int], ...]) -> World:
    """Return the world with a list of marks written; an empty list is not written."""
    if not marks or marks in world.mark_lists:
        return world
    return world._replace(mark_lists=tuple(sorted((*world.mark_lists, marks))))
