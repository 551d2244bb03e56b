"""A model of replays between the batches of a sink, with rewinds if the sink is a table.

A request is a list of places in the quarantine topic: all that are committed at some time. The instance that holds the
ledger processes it in chunks, under its claim.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from tests.model.rewind import RewindProtocol
from tests.model.world import (
    ACCEPT,
    COMMITTED,
    LEFT,
    Bounds,
    Entry,
    Instance,
    Ledger,
    Pointer,
    World,
    more,
    ready,
    with_chain,
    with_instance,
)
from tidegate.spark_jobs.steps import ReplayStep, Step

STEPS = (ReplayStep.READ, ReplayStep.POSITIONS, ReplayStep.PUBLISH)
"""The steps that read or write shared state, in order."""
_SECOND = "second commit of a replay"


class ReplayPart(StrEnum):
    """The parts that can be removed; each value says what happens instead."""

    SKIP_REPLAYED = "replay-read: records that were replayed before are taken again"
    SKIP_OVERRULED = "replay-read: refusals that a rewind has overruled are taken too"
    SKIP_AHEAD = "replay-read: refusals ahead of the ledger are taken too"
    POSITIONS_FIRST = "replay-positions: they are written after the commit"
    COMPARES = "replay-publish: the ledger is overwritten even if it has changed"
    COUNT = "replay-publish: the totals of refusals stay as they were"
    NAMES_POSITIONS = "replay-publish: the ledger does not name the positions"
    ONE_COMMIT_ROWS_FIRST = "replay-publish: the ledger moves in a second commit"
    ONE_COMMIT_LEDGER_FIRST = "replay-publish: the rows are added in a second commit"
    REWIND_FORGETS = "look: records from the point of a rewind on stay replayed"


class ReplayProtocol(RewindProtocol):
    """The steps of instances, replay requests and rewinds; `without` removes one part of the protocol."""

    def __init__(
        self,
        bounds: Bounds,
        requests: int,
        rewinds: int = 0,
        without: ReplayPart | None = None,
        mended: frozenset[Pointer] = frozenset(),
    ) -> None:
        """Set the bounds of the model; `mended` are the records that a fix makes valid for every contract."""
        super().__init__(bounds, rewinds)
        self._requests = requests
        self._left = without
        self._mended = mended

    def following(self, world: World) -> Iterator[tuple[str, World]]:
        """Yield each possible next step with the world after it."""
        yield from super().following(world)
        refused = tuple(place for place, entry in enumerate(world.log) if entry.state == COMMITTED)
        if refused and len(world.requests) < self._requests:
            yield f"a replay of {refused} is asked for", world._replace(requests=(*world.requests, refused))

    def violation(self, world: World) -> str | None:
        """Return a violation of batches, or that the list of replayed records is lost; else None."""
        replayed = world.ledger.replayed
        if replayed and replayed not in world.chains:
            return "the ledger names replayed records that no topic has"
        return super().violation(world)

    def is_complete(self, world: World) -> bool:
        """Return whether the ledger has reached the end of the source, and every request is processed."""
        sizes = [len(each) for each in world.requests]
        return super().is_complete(world) and sizes == [_done(world.ledger, r) for r in range(len(sizes))]

    def _step(self, world: World, who: int, me: Instance) -> Iterator[tuple[str, World]]:
        match me.at:
            case ReplayStep.POSITIONS:
                yield self._positions(world, who, me)
            case ReplayStep.PUBLISH:
                yield from self._publish_chunk(world, who, me)
            case _ if me.at == _SECOND:
                yield self._publish_rest(world, who, me)
            case _:
                yield from super()._step(world, who, me)
                if me.at == Step.JUDGE:
                    yield from self._read(world, who, me)

    def _read(self, world: World, who: int, me: Instance) -> Iterator[tuple[str, World]]:
        """Read the next refusals of the oldest open request, and judge them by the current contract."""
        held = me.held
        assert held is not None
        if (found := next_request(world, held)) is None:
            return
        for places, progress in found.chunks():
            chunk = self._accepted_again(world, me, places)
            new = self._after(held, chunk)._replace(progress=progress)
            after = me._replace(at=ReplayStep.POSITIONS, chunk=chunk, new=new, begun=None)
            yield f"reads {places} of request {found.request}", with_instance(world, who, after)

    def _accepted_again(self, world: World, me: Instance, places: tuple[int, ...]) -> tuple[Pointer, ...]:
        held = me.held
        assert held is not None
        found: set[Pointer] = set()
        for place in places:
            entry = world.log[place]
            partition, offset = entry.pointer
            if entry.pointer in held.replayed and self._left is not ReplayPart.SKIP_REPLAYED:
                continue
            if not held.counts(entry) and self._left is not ReplayPart.SKIP_OVERRULED:
                continue
            if offset >= held.end[partition] and self._left is not ReplayPart.SKIP_AHEAD:
                continue
            if self._passes(world, me, entry.pointer):
                found.add(entry.pointer)
        return tuple(sorted(found))

    def _passes(self, world: World, me: Instance, pointer: Pointer) -> bool:
        contract = world.contract if me.begun is None else me.begun
        return self._bounds.verdicts[pointer][contract] == ACCEPT or pointer in self._mended

    def _after(self, held: Ledger, chunk: tuple[Pointer, ...]) -> Ledger:
        """Return the ledger after a chunk, whose records are no longer refused."""
        names = self._left is not ReplayPart.NAMES_POSITIONS
        counted = 0 if self._left is ReplayPart.COUNT else len(chunk)
        return held._replace(
            n=held.n + 1,
            quarantined=held.quarantined - counted,
            replayed=tuple(sorted({*held.replayed, *chunk})) if names else held.replayed,
        )

    def _positions(self, world: World, who: int, me: Instance) -> tuple[str, World]:
        """Write the list of replayed records, before the ledger names it."""
        assert me.new is not None
        after = with_instance(world, who, me._replace(at=ReplayStep.PUBLISH))
        if self._left is ReplayPart.POSITIONS_FIRST:
            return "writes no positions yet", after
        return f"writes the positions {me.new.replayed}", with_chain(after, me.new.replayed)

    def _publish_chunk(self, world: World, who: int, me: Instance) -> Iterator[tuple[str, World]]:
        """Commit rows and ledger together if the instance may still commit."""
        new, compares = me.new, self._left is not ReplayPart.COMPARES
        assert new is not None
        if compares and not self._may_commit(world, who, me):
            yield "is fenced", with_instance(world, who, LEFT)
            return
        after = ready(me._replace(held=new))
        match self._left:
            case ReplayPart.ONE_COMMIT_ROWS_FIRST:
                half = world._replace(table=more(world.table, [*me.chunk]))
            case ReplayPart.ONE_COMMIT_LEDGER_FIRST:
                half = world._replace(ledger=new)
            case ReplayPart.POSITIONS_FIRST:
                half = world._replace(ledger=new, table=more(world.table, [*me.chunk]))
            case _:
                whole = world._replace(ledger=new, table=more(world.table, [*me.chunk]))
                yield f"replays {me.chunk}", with_instance(whole, who, after)
                return
        yield "commits one half", with_instance(half, who, me._replace(at=_SECOND))

    def _may_commit(self, world: World, who: int, me: Instance) -> bool:  # noqa: ARG002 - of the Kafka sink
        return world.ledger == me.held

    def _publish_rest(self, world: World, who: int, me: Instance) -> tuple[str, World]:
        assert me.new is not None
        after = with_instance(world, who, ready(me._replace(held=me.new)))
        match self._left:
            case ReplayPart.ONE_COMMIT_ROWS_FIRST:
                return "moves the ledger", after._replace(ledger=me.new)
            case ReplayPart.ONE_COMMIT_LEDGER_FIRST:
                return "adds the rows", after._replace(table=more(world.table, [*me.chunk]))
        return "writes the positions", with_chain(after, me.new.replayed)

    def _still_replayed(self, held: Ledger, point: tuple[int, int]) -> tuple[Pointer, ...]:
        return (
            held.replayed if self._left is ReplayPart.REWIND_FORGETS else super()._still_replayed(held, point)
        )


class KafkaReplayProtocol(ReplayProtocol):
    """Replays into the Kafka sink: a batch or chunk, with its ledger, is one transaction of slot 0.

    Only the instance that initialised the slot last can commit. No refusal is ahead of the ledger, and there are no rewinds.
    """

    def _step(self, world: World, who: int, me: Instance) -> Iterator[tuple[str, World]]:
        match me.at:
            case Step.CLAIM if me.held is None:
                after = with_instance(world, who, me._replace(at=Step.VERIFY, held=world.ledger))
                yield "fences", after._replace(owners=(who,))
            case Step.VERIFY:
                after = with_instance(world, who, me._replace(at=Step.CLAIM, held=world.ledger))
                yield f"reads the ledger: {sum(world.ledger.end)}", after
            case Step.CLAIM | Step.QUARANTINE if not self._may_commit(world, who, me):
                yield "is fenced", with_instance(world, who, LEFT)
            case Step.CLAIM:
                assert me.held is not None
                claimed = me.held._replace(epoch=me.held.epoch + 1, instance=who)
                after = with_instance(world, who, ready(me._replace(held=claimed)))
                yield f"claims epoch {claimed.epoch}", after._replace(ledger=claimed)
            case Step.QUARANTINE:  # follows a judged batch: all of it is one transaction
                new = self._published(world, who, me)
                refused = tuple(Entry(each, 0, who, COMMITTED) for each in self._refused(me, me.contract))
                landed = self._commit(world, me, new)._replace(log=world.log + refused)
                yield f"publishes up to {me.end}", with_instance(landed, who, ready(me._replace(held=new)))
            case ReplayStep.POSITIONS:
                yield from self._publish_chunk(world, who, me)
            case _:
                yield from super()._step(world, who, me)

    def _may_commit(self, world: World, who: int, me: Instance) -> bool:  # noqa: ARG002 - of a table
        return world.owners == (who,)

    def _publish_chunk(self, world: World, who: int, me: Instance) -> Iterator[tuple[str, World]]:
        assert me.new is not None
        for what, after in super()._publish_chunk(world, who, me):
            is_late = self._left is ReplayPart.POSITIONS_FIRST or after.ledger == world.ledger
            yield what, after if is_late else with_chain(after, me.new.replayed)


class OpenRequest(NamedTuple):
    """The oldest open request, and the number of processed refusals of each request."""

    request: int
    places: tuple[int, ...]
    progress: tuple[int, ...]

    def chunks(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Yield the places of the next chunk, which is one place or all that remain, and the progress after it."""
        done = self.progress[self.request]
        for end in {done + 1, len(self.places)}:
            progress = (*self.progress[: self.request], end, *self.progress[self.request + 1 :])
            yield self.places[done:end], progress


def next_request(world: World, held: Ledger) -> OpenRequest | None:
    """Return the oldest request that the ledger has not completed, or None."""
    progress = tuple(_done(held, r) for r in range(len(world.requests)))
    for request, places in enumerate(world.requests):
        if progress[request] < len(places):
            return OpenRequest(request, places, progress)
    return None


def _done(ledger: Ledger, request: int) -> int:
    return ledger.progress[request] if request < len(ledger.progress) else 0
