"""A model of refusals that are discarded or sent to the source topic, between batches, replays and rewinds.

A copy is a new record of the source with its own position, which the other models cover. This model shows that a refusal is
sent at most once, and that a refusal that was sent is never written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import StrEnum
from itertools import chain

from tests.model.replay import ReplayProtocol, next_request
from tests.model.world import (
    COMMITTED,
    LEFT,
    Bounds,
    Chain,
    Instance,
    Ledger,
    Pointer,
    World,
    ready,
    with_instance,
)
from tidegate.contracts.stream.closure import Closure
from tidegate.contracts.stream.replay import ReplayAction
from tidegate.spark_jobs.adopt.rewind import RewindStep
from tidegate.spark_jobs.steps import ReplayStep, Step

STEPS = (ReplayStep.READ, ReplayStep.SEND, ReplayStep.POSITIONS, ReplayStep.PUBLISH)
"""The steps that read or write shared state, in order."""
_KNOW = "read what was sent"
_HALF_SENT = "second transaction of what is sent"
_HALF_DONE = "after the commit"
_LOST: Chain = ((),)
"""A chain whose digest matches no record."""


class ClosurePart(StrEnum):
    """The parts that can be removed; each value says what happens instead."""

    SKIP_CLOSED = "replay-read: refusals that were closed before are taken again"
    FENCE_SENDER = "replay-read: earlier instances may continue to send"
    CHECKS_CLAIM = (
        "replay-read: an instance that has fenced the sender sends even if another has claimed since"
    )
    LOOKS_AHEAD = "replay-read: records that were sent and that no ledger names are not searched"
    SENDS_FIRST = "replay-send: the records are sent after the commit"
    ONE_TRANSACTION_RECORDS_FIRST = "replay-send: the positions are written in a second transaction"
    ONE_TRANSACTION_POSITIONS_FIRST = "replay-send: the records are sent in a second transaction"
    POSITIONS_FIRST = "replay-positions: those of a discard are written after the commit"
    COMPARES = "replay-publish: a closing chunk overwrites the ledger even if it has changed"
    NAMES_POSITIONS = "replay-publish: the ledger does not name what it closes"
    NAMES_AHEAD = "replay-publish: of the records sent before, only those of the chunk are named"
    LEFT_OUT = "judge: records that were sent before a rewind are judged again"
    COUNTS_LEFT_OUT = "publish: records that are left out are not counted"
    REWIND_FENCES_SENDER = "fence: earlier instances may continue to send"
    REWIND_KEEPS_SENT = "look: records sent from the point of a rewind on are forgotten"
    REWIND_LOOKS_AHEAD = "look: records that were sent and that no ledger names are not searched"
    REWIND_REOPENS = "look: records discarded from the point of a rewind on stay discarded"


class ClosureProtocol(ReplayProtocol):
    """The steps of instances, requests and rewinds; `without` removes one part of the protocol."""

    def __init__(
        self,
        bounds: Bounds,
        actions: Collection[ReplayAction],
        requests: int,
        rewinds: int = 0,
        without: ClosurePart | None = None,
        mended: frozenset[Pointer] = frozenset(),
    ) -> None:
        """Set the bounds of the model; each request has one of the `actions`."""
        super().__init__(bounds, requests, rewinds, mended=mended)
        self._actions = actions
        self._lacks = without

    def following(self, world: World) -> Iterator[tuple[str, World]]:
        """Yield each possible next step with the world after it."""
        for what, after in super().following(world):
            if len(after.requests) == len(world.requests):
                yield what, after
                continue
            for action in self._actions:
                yield f"{what}: {action}", after._replace(actions=(*world.actions, action))

    def violation(self, world: World) -> str | None:
        """Return a violation of replays, a refusal that was sent twice or was closed and written, or a wrong list in the ledger; else None."""
        return self._of_sent(world) or self._of_discarded(world) or super().violation(world)

    @staticmethod
    def _of_sent(world: World) -> str | None:
        resent = world.ledger.resent
        for pointer in world.copies:
            if world.copies.count(pointer) > 1:
                return f"{pointer} was sent {world.copies.count(pointer)} times"
            if pointer in world.table:
                return f"{pointer} was sent, and is written too"
        if not _is_written(world, Closure.RESENT, resent):
            return "the ledger names sent records that no topic has"
        if not _all_of(resent) <= {*world.copies}:
            return f"{resent} are closed as sent, and {world.copies} were"
        return None

    @staticmethod
    def _of_discarded(world: World) -> str | None:
        ledger = world.ledger
        if not _is_written(world, Closure.DISCARDED, ledger.discarded):
            return "the ledger names discarded records that no topic has"
        if {*world.table} & {*ledger.all_discarded}:
            return "a record was discarded, and is written"
        refused = {each.pointer for each in world.log if each.state == COMMITTED and ledger.counts(each)}
        if not _all_of(ledger.discarded) <= refused:
            return f"{ledger.discarded} are closed as discarded, and only {sorted(refused)} are refused"
        return None

    # After a rewind, batches skip records that were sent before, because the source has their copies.

    def _judged(self, me: Instance, contract: int, verdict: str) -> list[Pointer]:
        return [each for each in super()._judged(me, contract, verdict) if each not in self._sent_before(me)]

    def _published(self, world: World, who: int, me: Instance) -> Ledger:
        new = super()._published(world, who, me)
        if self._lacks is ClosurePart.COUNTS_LEFT_OUT:
            return new
        within = [p for p in self._sent_before(me) if me.start[p[0]] <= p[1] < me.end[p[0]]]
        return new._replace(dropped=new.dropped + len(within))

    def _sent_before(self, me: Instance) -> set[Pointer]:
        assert me.held is not None
        return set() if self._lacks is ClosurePart.LEFT_OUT else _all_of(me.held.resent)

    # Chunks of requests.

    def _step(self, world: World, who: int, me: Instance) -> Iterator[tuple[str, World]]:
        match me.at:
            case _ if me.at == _KNOW:
                yield self._know(world, who, me)
            case ReplayStep.SEND:
                yield self._send(world, who, me)
            case _ if me.at == _HALF_SENT:
                yield self._send_rest(world, who, me)
            case _ if me.at == _HALF_DONE:
                yield self._do_rest(world, who, me)
            case _:
                yield from super()._step(world, who, me)

    def _read(self, world: World, who: int, me: Instance) -> Iterator[tuple[str, World]]:
        held = me.held
        assert held is not None
        if (found := next_request(world, held)) is None:
            return
        if me.ahead is None:
            sender = world.sender if self._lacks is ClosurePart.FENCE_SENDER else who
            after = with_instance(
                world._replace(sender=sender), who, me._replace(at=_KNOW, begun=world.contract)
            )
            yield "fences the sender", after
        elif world.actions[found.request] == ReplayAction.REPLAY:
            yield from super()._read(world, who, me)
        else:
            for places, progress in found.chunks():
                after = self._closing(world, me, world.actions[found.request], places, progress)
                yield f"reads {places} of request {found.request}", with_instance(world, who, after)

    def _know(self, world: World, who: int, me: Instance) -> tuple[str, World]:
        """Stop if the ledger has another epoch; else read the sent refusals that the ledger does not name."""
        assert me.held is not None
        if world.ledger.epoch != me.held.epoch and self._lacks is not ClosurePart.CHECKS_CLAIM:
            return "is fenced: another has claimed the ledger", with_instance(world, who, LEFT)
        looks = self._lacks is not ClosurePart.LOOKS_AHEAD
        ahead = _ahead(world, me.held) if looks else ()
        return f"knows that {ahead} were sent", with_instance(
            world, who, me._replace(at=Step.JUDGE, ahead=ahead)
        )

    def _accepted_again(self, world: World, me: Instance, places: tuple[int, ...]) -> tuple[Pointer, ...]:
        found = super()._accepted_again(world, me, places)
        return tuple(each for each in found if each not in self._closed(me, {*(me.ahead or ())}))

    def _closing(
        self, world: World, me: Instance, action: str, places: tuple[int, ...], progress: tuple[int, ...]
    ) -> Instance:
        """Return the instance that is about to close the refusals at `places`."""
        held, ahead = me.held, {*(me.ahead or ())}
        assert held is not None
        if action == ReplayAction.DISCARD:
            chunk = {*self._open(world, held, places)} - self._closed(me, ahead)
            new = _with(held, Closure.DISCARDED, chunk, progress)
            return me._replace(at=ReplayStep.POSITIONS, new=self._named(held, new), sending=(), begun=None)
        chunk = {*self._open(world, held, places)} - self._closed(me, set())
        due = {each for each in chunk - ahead if self._passes(world, me, each)}
        named = chunk & ahead if self._lacks is ClosurePart.NAMES_AHEAD else ahead
        new = _with(held, Closure.RESENT, named | due, progress)
        begins_late = self._lacks is ClosurePart.SENDS_FIRST
        at = ReplayStep.SEND if due and not begins_late else ReplayStep.POSITIONS
        return me._replace(at=at, new=self._named(held, new), sending=tuple(sorted(due)), begun=None)

    def _open(self, world: World, held: Ledger, places: tuple[int, ...]) -> Iterator[Pointer]:
        """Yield the open refusals at `places` that the ledger covers."""
        for entry in (world.log[place] for place in places):
            partition, offset = entry.pointer
            is_open = entry.pointer not in held.replayed and held.counts(entry)
            if is_open and offset < held.end[partition]:
                yield entry.pointer

    def _closed(self, me: Instance, ahead: set[Pointer]) -> set[Pointer]:
        assert me.held is not None
        if self._lacks is ClosurePart.SKIP_CLOSED:
            return set()
        return _all_of(me.held.discarded) | _all_of(me.held.resent) | ahead

    def _named(self, held: Ledger, new: Ledger) -> Ledger:
        if self._lacks is not ClosurePart.NAMES_POSITIONS:
            return new
        return new._replace(discarded=held.discarded, resent=held.resent)

    def _send(self, world: World, who: int, me: Instance) -> tuple[str, World]:
        """Send records, and the chain of all sent refusals with them, in one transaction."""
        assert me.held is not None
        if world.sender != who and self._lacks is not ClosurePart.FENCE_SENDER:
            return "is fenced by the broker", with_instance(world, who, LEFT)
        known = tuple(sorted({*(me.ahead or ()), *me.sending}))
        after = with_instance(world, who, me._replace(at=ReplayStep.POSITIONS, ahead=known))
        half = with_instance(world, who, me._replace(at=_HALF_SENT))
        match self._lacks:
            case ClosurePart.ONE_TRANSACTION_RECORDS_FIRST:
                return "sends records alone", _with_copies(half, me.sending)
            case ClosurePart.ONE_TRANSACTION_POSITIONS_FIRST:
                return "writes positions alone", _with_chain(half, Closure.RESENT, (*me.held.resent, known))
        sent = _with_copies(after, me.sending)
        return f"sends {me.sending}", _with_chain(sent, Closure.RESENT, (*me.held.resent, known))

    def _send_rest(self, world: World, who: int, me: Instance) -> tuple[str, World]:
        assert me.held is not None
        known = tuple(sorted({*(me.ahead or ()), *me.sending}))
        after = with_instance(world, who, me._replace(at=ReplayStep.POSITIONS, ahead=known))
        if self._lacks is ClosurePart.ONE_TRANSACTION_RECORDS_FIRST:
            return "writes the positions", _with_chain(after, Closure.RESENT, (*me.held.resent, known))
        return "sends the records", _with_copies(after, me.sending)

    def _positions(self, world: World, who: int, me: Instance) -> tuple[str, World]:
        assert me.new is not None
        what, after = super()._positions(world, who, me)
        if self._lacks is ClosurePart.POSITIONS_FIRST and me.new.discarded:
            return what, after
        return what, _with_chains(after, me.new)

    def _publish_chunk(self, world: World, who: int, me: Instance) -> Iterator[tuple[str, World]]:
        held, new = me.held, me.new
        assert held is not None
        assert new is not None
        if me.chunk or (held.discarded, held.resent) == (new.discarded, new.resent):
            yield from super()._publish_chunk(world, who, me)
            return
        if world.ledger != held and self._lacks is not ClosurePart.COMPARES:
            yield "is fenced: the ledger is another", with_instance(world, who, LEFT)
            return
        left = me.ahead if new.resent == held.resent else ()
        after = ready(me._replace(held=new, ahead=left))
        if self._lacks in {ClosurePart.SENDS_FIRST, ClosurePart.POSITIONS_FIRST}:
            after = me._replace(at=_HALF_DONE)
        closed = _all_of(new.discarded) | _all_of(new.resent)
        yield f"closes {sorted(closed)}", with_instance(world._replace(ledger=new), who, after)

    def _do_rest(self, world: World, who: int, me: Instance) -> tuple[str, World]:
        assert me.new is not None
        after = with_instance(world, who, ready(me._replace(held=me.new, ahead=())))
        if self._lacks is ClosurePart.SENDS_FIRST:
            return f"sends {me.sending}", _with_copies(after, me.sending)
        return "writes the positions", _with_chains(after, me.new)

    # Rewinds.

    def _fence_slot(self, world: World, who: int, me: Instance) -> tuple[str, World]:
        what, after = super()._fence_slot(world, who, me)
        is_last = after.instances[who].at == RewindStep.LOOK
        fences = is_last and self._lacks is not ClosurePart.REWIND_FENCES_SENDER
        return (what, after._replace(sender=who)) if fences else (what, after)

    def _look(self, world: World, who: int, me: Instance) -> tuple[str, World]:
        what, after = super()._look(world, who, me)
        found, point = after.instances[who], me.start
        assert found.new is not None
        new = found.new
        discarded = {each for each in _all_of(new.discarded) if each[1] < point[each[0]]}
        if self._lacks is ClosurePart.REWIND_REOPENS:
            discarded = _all_of(new.discarded)
        sent = _all_of(new.resent)
        if self._lacks is not ClosurePart.REWIND_LOOKS_AHEAD:
            sent |= {*_ahead(world, new)}
        if self._lacks is ClosurePart.REWIND_KEEPS_SENT:
            sent = {each for each in sent if each[1] < point[each[0]]}
        if (discarded, sent) != (_all_of(new.discarded), _all_of(new.resent)):
            begun = _LOST if new.resent else ()
            new = new._replace(
                all_discarded=tuple(each for each in new.all_discarded if each[1] < point[each[0]]),
                discarded=(tuple(sorted(discarded)),) if discarded else (),
                resent=(tuple(sorted(sent)),) if sent else begun,
            )
        return what, with_instance(_with_chains(after, new), who, found._replace(new=new))


def _all_of(positions: Chain) -> set[Pointer]:
    return {*chain.from_iterable(positions)}


def _is_written(world: World, closure: Closure, positions: Chain) -> bool:
    """Return whether a chain of the ledger is in its topic; an empty or lost one needs no record."""
    return not positions or positions == _LOST or (closure, positions) in world.closed_chains


def _ahead(world: World, held: Ledger) -> tuple[Pointer, ...]:
    """Return the sent refusals that follow the chain of the ledger, sorted."""
    length, found = len(held.resent), set[Pointer]()
    for closure, positions in world.closed_chains:
        if closure == Closure.RESENT and positions[:length] == held.resent:
            found |= _all_of(positions[length:])
    return tuple(sorted(found))


def _with(held: Ledger, closure: Closure, closed: set[Pointer], progress: tuple[int, ...]) -> Ledger:
    """Return the ledger after a chunk that closes the refusals `closed`."""
    new = held._replace(n=held.n + 1, progress=progress)
    if not closed:
        return new
    part = tuple(sorted(closed))
    if closure is Closure.DISCARDED:
        truth = tuple(sorted({*held.all_discarded, *closed}))
        return new._replace(discarded=(*held.discarded, part), all_discarded=truth)
    return new._replace(resent=(*held.resent, part))


def _with_copies(world: World, sent: tuple[Pointer, ...]) -> World:
    return world._replace(copies=tuple(sorted((*world.copies, *sent))))


def _with_chain(world: World, closure: Closure, positions: Chain) -> World:
    if not positions or positions == _LOST or (closure, positions) in world.closed_chains:
        return world
    return world._replace(closed_chains=tuple(sorted((*world.closed_chains, (closure, positions)))))


def _with_chains(world: World, ledger: Ledger) -> World:
    """Return the world with the chains of the ledger written."""
    return _with_chain(_with_chain(world, Closure.DISCARDED, ledger.discarded), Closure.RESENT, ledger.resent)
