"""A model of the Kafka sink whose tasks write accepted records.

It is the protocol of the table sinks with swapped roles: transactions of slots write accepted records before the ledger,
and refused records are published together with the ledger. The claim is exact because slot 0, which writes the ledger, is
fenced before the ledger is read. One step is new: a task on another worker takes over its slot in the middle of a batch.
A task of a zombie may do so after another instance has fenced the slots, so a task then reads the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.staged import BATCH, StagedProtocol
from tests.model.world import ABORTED, LEFT, PENDING, Bounds, Instance, World, with_instance

LOOK = "look"
"""The step of a task after it took over its slot."""


class TaskSlotsProtocol(StagedProtocol):
    """The steps of instances; if `looks` is False, a task that took over a slot does not check the ledger."""

    def __init__(self, bounds: Bounds, *, looks: bool = True) -> None:
        super().__init__(bounds)
        self._looks = looks

    def _step(self, world: World, who: int, me: Instance) -> Iterator[tuple[str, World]]:
        if me.at == LOOK:
            yield self._look(world, who, me)
        else:
            yield from super()._step(world, who, me)

    def _quarantine(self, world: World, who: int, me: Instance) -> tuple[str, World]:
        slots = self._by_slot(world, who, me)
        if not slots or world.owners[min(slots)] == who:
            return super()._quarantine(world, who, me)
        slot = min(slots)
        log = tuple(
            entry._replace(state=ABORTED) if entry.slot == slot and entry.state == PENDING else entry
            for entry in world.log
        )
        owners = (*world.owners[:slot], who, *world.owners[slot + 1 :])
        after = me._replace(at=LOOK) if self._looks else me
        return f"takes slot {slot} over", with_instance(world._replace(log=log, owners=owners), who, after)

    def _look(self, world: World, who: int, me: Instance) -> tuple[str, World]:
        assert me.held is not None
        if world.ledger.epoch != me.held.epoch:
            return "is fenced: the ledger is another", with_instance(world, who, LEFT)
        return "looks at the ledger", with_instance(world, who, me._replace(at=BATCH[1]))
