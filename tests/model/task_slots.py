"""The protocol of the Kafka sink whose tasks write accepted records, as a model.

It is that of the sinks with a table with the roles swapped: accepted records are what is written in the transactions of
slots, before the ledger, and refused ones are published together with it. The claim is exact because slot 0, under which
the ledger is written, is fenced before the ledger is read. What is new: a task that comes to another worker takes its
slot over in the middle of a batch. So may a zombie's, after everybody else has fenced: it looks at the ledger then.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.staged import BATCH, StagedProtocol
from tests.model.world import ABORTED, LEFT, PENDING, Bounds, Instance, World, with_instance

LOOK = "look"
"""What a task does that has taken its slot over."""


class TaskSlotsProtocol(StagedProtocol):
    """All possible steps; without the check of the ledger, an instance that took a slot over continues to write."""

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
