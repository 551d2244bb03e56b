"""A model of rewinds beside the instances of a sink with a table: each is a separate process that may be killed.

A rewind goes to any point, at any time. In `World.instances`, the rewinds follow the instances of the job.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from itertools import product

from tests.model.staged import StagedProtocol
from tests.model.world import (
    ABORTED,
    COMMITTED,
    LEFT,
    PENDING,
    Bounds,
    Entry,
    Instance,
    Ledger,
    Pointer,
    World,
    with_chain,
    with_instance,
)
from tidegate.contracts.stream.generations import Rewound, overruling, pruned, rewound
from tidegate.spark_jobs.adopt.rewind import RewindStep
from tidegate.spark_jobs.steps import Step

STEPS = (RewindStep.CLAIM, RewindStep.FENCE, RewindStep.LOOK, RewindStep.COMMIT)
"""The steps that read or write shared state, in order."""
_SECOND = "second commit"


class RewindPart(StrEnum):
    """The parts that can be removed; each value says what happens instead."""

    CLAIM = "claim: the ledger is read, and not changed until the commit"
    FENCE = "fence: earlier instances continue to write"
    LOOK_AFTER_FENCE = "look: the refusals are looked at before the fence"
    COUNT_AGAIN = "look: the totals of refusals stay as they were"
    POINTS = "look: at every offset only the newest generation counts"
    GENERATION = "look: the generation stays, and all refusals count"
    COMMIT_COMPARES = "commit: the ledger is overwritten even if it has changed"
    DELETE = "commit: the rows stay"
    ONE_COMMIT_ROWS_FIRST = "commit: the ledger moves in a second commit"
    ONE_COMMIT_LEDGER_FIRST = "commit: the rows are deleted in a second commit"
    SCAN_COMPARES = "scan: refusals of all generations are settled"
    HEADER = "quarantine: refused records name no generation"


class RewindProtocol(StagedProtocol):
    """The steps of instances and rewinds; `leave_out` removes one part of the protocol."""

    def __init__(self, bounds: Bounds, rewinds: int, leave_out: RewindPart | None = None) -> None:
        super().__init__(bounds)
        self._rewinds = rewinds
        self._left_out = leave_out

    def first(self) -> World:
        world = super().first()
        return world._replace(instances=world.instances + (Instance(),) * self._rewinds)

    def following(self, world: World) -> Iterator[tuple[str, World]]:
        """Yield each possible next step with the world after it."""
        yield from super().following(world)
        first = len(self._bounds.slots)
        for who in self._movable(world, range(first, len(world.instances))):
            for what, after in self._rewind(world, who, world.instances[who]):
                yield f"rewind {who - first + 1} {what}", after

    def _rewind(self, world: World, who: int, me: Instance) -> Iterator[tuple[str, World]]:
        match me.at:
            case Step.CLAIM:
                yield from self._begin(world, who, me)
            case RewindStep.FENCE:
                yield self._fence_slot(world, who, me)
            case RewindStep.LOOK:
                yield self._look(world, who, me)
            case RewindStep.COMMIT:
                yield self._finish(world, who, me)
            case _:
                yield self._finish_second(world, who, me)

    def _begin(self, world: World, who: int, me: Instance) -> Iterator[tuple[str, World]]:
        """Read the ledger and choose a point below its end. In the next step, claim the ledger if it has not changed."""
        held = me.held
        if held is None:
            for point in product(*(range(end + 1) for end in world.ledger.end)):
                if point != world.ledger.end:
                    chosen = me._replace(held=world.ledger, start=point)
                    yield f"is to go to {point}", with_instance(world, who, chosen)
            return
        is_early = self._left_out is RewindPart.LOOK_AFTER_FENCE
        if self._left_out is RewindPart.CLAIM:
            yield "claims nothing", with_instance(world, who, me._replace(at=RewindStep.FENCE))
        elif world.ledger != held:
            yield "cannot claim: the ledger has moved", with_instance(world, who, LEFT)
        else:
            claimed = held._replace(epoch=held.epoch + 1, instance=who)
            after = me._replace(at=RewindStep.FENCE, held=claimed)
            if is_early:
                after = after._replace(new=self._rewound(world, after))
            yield f"claims epoch {claimed.epoch}", with_instance(world._replace(ledger=claimed), who, after)

    def _fence_slot(self, world: World, who: int, me: Instance) -> tuple[str, World]:
        held, slot = me.held, me.slot
        assert held is not None
        log, owners = world.log, world.owners
        if self._left_out is not RewindPart.FENCE:
            log = tuple(
                each._replace(state=ABORTED) if each.slot == slot and each.state == PENDING else each
                for each in log
            )
            owners = (*owners[:slot], who, *owners[slot + 1 :])
        is_last = slot + 1 == held.slots
        after = me._replace(slot=slot + 1, at=RewindStep.LOOK if is_last else me.at)
        return f"fences slot {slot}", with_instance(world._replace(log=log, owners=owners), who, after)

    def _look(self, world: World, who: int, me: Instance) -> tuple[str, World]:
        new = me.new or self._rewound(world, me)
        after = with_instance(world, who, me._replace(at=RewindStep.COMMIT, new=new))
        return "counts what goes", with_chain(after, new.replayed)

    def _finish(self, world: World, who: int, me: Instance) -> tuple[str, World]:
        if world.ledger != me.held and self._left_out is not RewindPart.COMMIT_COMPARES:
            return "is fenced: the ledger is another", with_instance(world, who, LEFT)
        assert me.new is not None
        match self._left_out:
            case RewindPart.ONE_COMMIT_ROWS_FIRST:
                half = self._deleted(world, me)
            case RewindPart.ONE_COMMIT_LEDGER_FIRST:
                half = world._replace(ledger=me.new)
            case RewindPart.DELETE:
                return "moves the ledger", with_instance(world._replace(ledger=me.new), who, LEFT)
            case _:
                whole = self._deleted(world, me)._replace(ledger=me.new)
                return f"goes back to {me.start}", with_instance(whole, who, LEFT)
        return "commits one half", with_instance(half, who, me._replace(at=_SECOND))

    def _finish_second(self, world: World, who: int, me: Instance) -> tuple[str, World]:
        assert me.new is not None
        is_ledger = self._left_out is RewindPart.ONE_COMMIT_ROWS_FIRST
        after = world._replace(ledger=me.new) if is_ledger else self._deleted(world, me)
        return "commits the other half", with_instance(after, who, LEFT)

    @staticmethod
    def _deleted(world: World, me: Instance) -> World:
        return world._replace(table=tuple(row for row in world.table if row[1] < me.start[row[0]]))

    def _rewound(self, world: World, me: Instance) -> Ledger:
        held, point = me.held, me.start
        assert held is not None
        goes = {p for p in self._bounds.verdicts if point[p[0]] <= p[1] < held.end[p[0]]}
        committed = [each for each in world.log if each.state == COMMITTED]
        refused = goes & {each.pointer for each in committed if held.counts(each)} - {*held.replayed}
        dropped = goes - refused - {*world.table}
        if self._left_out is RewindPart.COUNT_AGAIN:
            refused = set()
        generation = held.generation + (self._left_out is not RewindPart.GENERATION)
        points = dict.fromkeys((0, 1), 0) if self._left_out is RewindPart.POINTS else dict(enumerate(point))
        after = rewound(dict(enumerate(held.rewinds)), points, generation)
        needed = {overruling(after, *each.pointer, each.generation) for each in committed} - {None}
        kept = pruned(after, [each for each in needed if each is not None])
        truth = rewound(dict(enumerate(held.all_rewinds)), dict(enumerate(point)), held.generation + 1)
        return held._replace(
            epoch=held.epoch + 1,
            end=point,
            quarantined=held.quarantined - len(refused),
            dropped=held.dropped - len(dropped),
            generation=generation,
            rewinds=_by_partition(kept),
            all_rewinds=_by_partition(truth),
            replayed=self._still_replayed(held, point),
        )

    def _still_replayed(self, held: Ledger, point: tuple[int, int]) -> tuple[Pointer, ...]:
        """Return the replayed records below the point; later rows are deleted, and their records are judged again."""
        return tuple(each for each in held.replayed if each[1] < point[each[0]])

    def _is_final(self, held: Ledger, entry: Entry) -> bool:
        return self._left_out is RewindPart.SCAN_COMPARES or super()._is_final(held, entry)

    def _generation(self, held: Ledger) -> int:
        return 0 if self._left_out is RewindPart.HEADER else super()._generation(held)


def _by_partition(rewinds: dict[int, tuple[Rewound, ...]]) -> tuple[tuple[Rewound, ...], ...]:
    return tuple(rewinds.get(partition, ()) for partition in (0, 1))
