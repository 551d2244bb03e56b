"""A model of the Kafka sink: one transaction has the accepted records, the refused records and the ledger.

Only the instance that initialised the transactional.id last can commit, so the ledger is read after that.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from tidegate.spark_jobs.steps import Step

START = (Step.FENCE, Step.VERIFY, Step.CLAIM)
BATCH = (Step.JUDGE, Step.PUBLISH)


class Part(StrEnum):
    """The parts that can be removed; each value says what happens instead."""

    FENCE = "fence: older producers continue to write"
    READ_AFTER_FENCE = "verify: the ledger is read before the fence"
    READ_COMMITTED = "verify: a ledger of an aborted transaction is read too"
    LEDGER_IN_TRANSACTION = "publish: the ledger has a transaction of its own, after that of the records"
    LEDGER_NOT_FIRST = "publish: the ledger has a transaction of its own, before that of the records"


class Ledger(NamedTuple):
    epoch: int = 0
    end: int = 0


class Write(NamedTuple):
    """One transaction: the records that it adds, and the new ledger; None if it does not change the ledger."""

    records: tuple[tuple[int, int], ...] = ()
    """Source offset and contract version of each record; the version determines the output."""
    ledger: Ledger | None = None


class Instance(NamedTuple):
    at: str = Step.FENCE
    held: Ledger = Ledger()
    writes: tuple[Write, ...] = ()
    """The transactions that are not committed yet."""
    is_open: bool = False


class World(NamedTuple):
    ledger: Ledger
    appended: Ledger
    """The newest record of the ledger topic, even if its transaction was aborted."""
    outputs: tuple[tuple[int, int], ...]
    owner: int
    pending: tuple[tuple[int, Write], ...]
    contract: int
    instances: tuple[Instance, ...]


_GONE = Instance(at="gone")


class OneTransactionProtocol:
    """The steps of instances with `records` records in one partition; `without` removes one part of the protocol."""

    def __init__(self, records: int, instances: int, without: Part | None = None) -> None:
        self._records = records
        self._instances = instances
        self._without = without

    def first(self) -> World:
        at = Step.VERIFY if self._without is Part.READ_AFTER_FENCE else Step.FENCE
        return World(Ledger(), Ledger(), (), -1, (), 0, (Instance(at),) * self._instances)

    def following(self, world: World) -> Iterator[tuple[str, World]]:
        """Yield each possible next step with the world after it."""
        if world.contract == 0:
            yield "the contract is replaced", world._replace(contract=1)
        for who, me in enumerate(world.instances):
            for what, after in self._step(world, who, me):
                yield f"{'ABCD'[who]} {what}", after

    def violation(self, world: World) -> str | None:
        """Return a violation: a record that is duplicated, lost, or beyond the ledger; else None."""
        offsets = [offset for offset, _ in world.outputs]
        for offset in range(self._records):
            wanted = 1 if offset < world.ledger.end else 0
            if offsets.count(offset) != wanted:
                return f"record {offset} is there {offsets.count(offset)} times, the ledger ends at {world.ledger.end}"
        return None

    def is_complete(self, world: World) -> bool:
        """Return whether the ledger has reached the end of the source."""
        return world.ledger.end == self._records

    def _step(self, world: World, who: int, me: Instance) -> Iterator[tuple[str, World]]:
        match me.at:
            case Step.FENCE:
                yield self._fence(world, who, me)
            case Step.VERIFY:
                yield from self._read(world, who, me)
            case Step.CLAIM:
                claimed = me.held._replace(epoch=me.held.epoch + 1)
                claiming = me._replace(at=Step.PUBLISH, held=claimed, writes=(Write((), claimed),))
                yield f"is about to claim epoch {claimed.epoch}", _with(world, who, claiming)
            case Step.JUDGE:
                yield from self._judge(world, who, me)
            case Step.PUBLISH:
                yield self._write(world, who, me)

    def _fence(self, world: World, who: int, me: Instance) -> tuple[str, World]:
        at = Step.CLAIM if self._without is Part.READ_AFTER_FENCE else Step.VERIFY
        after = _with(world, who, me._replace(at=at))
        if self._without is Part.FENCE:
            return "fences nobody", after
        return "fences", after._replace(owner=who, pending=())

    def _read(self, world: World, who: int, me: Instance) -> Iterator[tuple[str, World]]:
        at = Step.FENCE if self._without is Part.READ_AFTER_FENCE else Step.CLAIM
        found = world.appended if self._without is Part.READ_COMMITTED else world.ledger
        yield f"reads the ledger: {found.end}", _with(world, who, me._replace(at=at, held=found))

    def _judge(self, world: World, who: int, me: Instance) -> Iterator[tuple[str, World]]:
        for end in range(me.held.end + 1, self._records + 1):
            records = tuple((offset, world.contract) for offset in range(me.held.end, end))
            new = me.held._replace(end=end)
            writes: tuple[Write, ...] = (Write(records, new),)
            if self._without is Part.LEDGER_IN_TRANSACTION:
                writes = (Write(records), Write((), new))
            if self._without is Part.LEDGER_NOT_FIRST:
                writes = (Write((), new), Write(records))
            judged = me._replace(at=Step.PUBLISH, held=new, writes=writes)
            yield f"judges up to {end} by contract {world.contract}", _with(world, who, judged)

    def _write(self, world: World, who: int, me: Instance) -> tuple[str, World]:
        write, *rest = me.writes
        is_fenced = self._without is not Part.FENCE and world.owner != who
        if is_fenced:
            return "is fenced by the broker", _with(world, who, _GONE)
        if not me.is_open:
            after = _with(world, who, me._replace(is_open=True))
            return "appends in a transaction", after._replace(
                pending=(*world.pending, (who, write)), appended=write.ledger or world.appended
            )
        done = me._replace(at=Step.PUBLISH if rest else Step.JUDGE, writes=tuple(rest), is_open=False)
        return "commits", _with(world, who, done)._replace(
            pending=tuple(each for each in world.pending if each[0] != who),
            outputs=tuple(sorted(world.outputs + write.records)),
            ledger=write.ledger or world.ledger,
        )


def _with(world: World, who: int, me: Instance) -> World:
    instances = world.instances
    return world._replace(instances=(*instances[:who], me, *instances[who + 1 :]))
