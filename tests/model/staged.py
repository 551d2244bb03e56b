"""A model of the sinks that commit data and ledger together (Iceberg, PostgreSQL, Delta).

The world has a source with two partitions, a quarantine topic written in transactions, a table with its ledger, a contract
that is replaced once, and instances of the job. The steps of the instances interleave in any order. An instance that takes
no more steps has crashed; one that continues late is a zombie. `Part` lists the parts that can be removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

from tests.model.parts import Part
from tests.model.world import (
    ABORTED,
    ACCEPT,
    COMMITTED,
    DROP,
    GONE,
    LEFT,
    PENDING,
    REFUSE,
    Bounds,
    Entry,
    Instance,
    Ledger,
    Pointer,
    World,
    is_within,
    more,
    ready,
    with_instance,
)
from tidegate.spark_jobs.steps import Step

START = (Step.CLAIM, Step.FENCE, Step.VERIFY, Step.SCAN)
BATCH = (Step.JUDGE, Step.QUARANTINE, Step.PUBLISH)
"""The steps that read or write shared state, in order; `judge` includes `decide` and `stage` here."""


class StagedProtocol:
    """The steps of instances; `without` removes one part of the protocol."""

    def __init__(self, bounds: Bounds, without: Part | None = None) -> None:
        self._bounds = bounds
        self._without = without

    def first(self) -> World:
        slots = self._bounds.slots
        ledger = Ledger(0, 0, (0, 0), 0, slots[0])
        return World(ledger, (), (), (-1,) * max(slots), 0, (0, 0), (Instance(),) * len(slots))

    def following(self, world: World) -> Iterator[tuple[str, World]]:
        """Yield each possible next step with the world after it."""
        if world.contract == 0:
            yield "the contract is replaced", world._replace(contract=1)
        for who in self._movable(world, range(len(self._bounds.slots))):
            for what, after in self._step(world, who, world.instances[who]):
                yield f"{'ABCD'[who]} {what}", after

    @staticmethod
    def _movable(world: World, among: Iterable[int]) -> Iterator[int]:
        """Yield the instances that can move. Those that have not started are equal, so only the first of them is included."""
        for who in among:
            me = world.instances[who]
            if me.at != GONE:
                yield who
            if me.at == Step.CLAIM and me.held is None:
                return

    def violation(self, world: World) -> str | None:
        """Return a violation: a record that is duplicated, lost or not covered by the ledger, or wrong totals; else None."""
        committed = [entry for entry in world.log if entry.state == COMMITTED]
        counting = [entry.pointer for entry in committed if world.ledger.counts(entry)]
        quarantined = [pointer for pointer in counting if pointer not in world.ledger.replayed]
        for entry in committed:
            if world.ledger.counts(entry) and not world.ledger.counts(entry, truly=True):
                return f"the refusal of {entry.pointer} from before the rewind counts after it"
        seen = [*world.table, *quarantined]
        for pointer in seen:
            if seen.count(pointer) > 1:
                return f"record {pointer} is there {seen.count(pointer)} times"
        below = {p for p in self._bounds.verdicts if p[1] < world.ledger.end[p[0]]}
        missing = sorted(below - set(seen))
        if len(missing) > world.ledger.dropped:
            return f"of {missing} {world.ledger.dropped} were dropped; the ledger has passed them: a record is lost"
        if not below >= set(world.table):
            return "the table has a record that the ledger does not cover"
        counted, found = world.ledger.quarantined, len(below & set(quarantined))
        if counted != found or world.ledger.dropped != len(missing):
            return f"the ledger counts {counted} quarantined and {world.ledger.dropped} dropped; {found} and {len(missing)} are"
        return None

    def is_complete(self, world: World) -> bool:
        """Return whether the ledger has reached the end of the source."""
        return world.ledger.end == self._bounds.latest

    def alone(self, world: World) -> World:
        """Return the world after the last instance has run alone until it has no more steps."""
        who = len(self._bounds.slots) - 1
        while True:
            following = next(self._step(world, who, world.instances[who]), None)
            if following is None:
                return world
            world = following[1]

    def _step(self, world: World, who: int, me: Instance) -> Iterator[tuple[str, World]]:
        match me.at:
            case Step.CLAIM:
                yield from self._claim(world, who, me)
            case Step.FENCE:
                yield self._fence(world, who, me)
            case Step.VERIFY:
                yield self._verify(world, who, me)
            case Step.SCAN:
                yield from self._scan(world, who, me)
            case Step.JUDGE:
                yield from self._judge(world, who, me)
            case Step.QUARANTINE:
                yield self._quarantine(world, who, me)
            case Step.PUBLISH:
                yield from self._publish(world, who, me)
            case _:
                yield self._second_commit(world, who, me)

    # Steps of a start; numbers are those in docs/explanation/exactly-once.md.

    def _claim(self, world: World, who: int, me: Instance) -> Iterator[tuple[str, World]]:
        """Step 1: read the ledger. In the next step, replace it if it has not changed."""
        held, slots = me.held, self._bounds.slots[who]
        if held is None:
            yield "reads the ledger", with_instance(world, who, me._replace(held=world.ledger))
            return
        watermark = len(world.log)
        if self._is_out(Part.CLAIM):
            yield "claims nothing", with_instance(world, who, me._replace(at=Step.FENCE, watermark=watermark))
            return
        claimed = held._replace(epoch=held.epoch + 1, slots=max(held.slots, slots), instance=who)
        if self._is_out(Part.CLAIM_IS_MARKED):
            claimed = claimed._replace(instance=-1)
        if world.ledger == claimed:  # its request failed, and it reads the ledger to learn the result
            after = me._replace(at=Step.FENCE, held=claimed, watermark=watermark)
            yield "takes the claim of another for its own", with_instance(world, who, after)
        elif world.ledger != held and not self._is_out(Part.CLAIM_COMPARES):
            yield "cannot claim: the ledger has moved", with_instance(world, who, LEFT)
        else:
            after = me._replace(at=Step.FENCE, held=claimed, watermark=watermark)
            yield f"claims epoch {claimed.epoch}", with_instance(world._replace(ledger=claimed), who, after)

    def _fence(self, world: World, who: int, me: Instance) -> tuple[str, World]:
        """Step 2: initialise the transactional.id of one slot."""
        assert me.held is not None
        all_slots = max(me.held.slots, self._bounds.slots[who])
        if self._is_out(Part.FENCE_OLD_SLOTS):
            all_slots = self._bounds.slots[who]
        log, owners, slot = world.log, world.owners, me.slot
        if not self._is_out(Part.FENCE):
            log = tuple(
                entry._replace(state=ABORTED) if entry.slot == slot and entry.state == PENDING else entry
                for entry in log
            )
            owners = (*owners[:slot], who, *owners[slot + 1 :])
        after = me._replace(slot=slot + 1)
        if after.slot == all_slots:
            after = after._replace(at=Step.VERIFY, slot=0)
        return f"fences slot {slot}", with_instance(world._replace(log=log, owners=owners), who, after)

    def _verify(self, world: World, who: int, me: Instance) -> tuple[str, World]:
        """Steps 3 and 4: read the end of the log; stop if the ledger is not the claimed one."""
        if world.ledger != me.held and not self._is_out(Part.VERIFY):
            return "is fenced: the ledger is another", with_instance(world, who, LEFT)
        watermark = me.watermark if self._is_out(Part.WATERMARK_AFTER_FENCE) else len(world.log)
        return "verifies", with_instance(world, who, me._replace(at=Step.SCAN, watermark=watermark))

    def _scan(self, world: World, who: int, me: Instance) -> Iterator[tuple[str, World]]:
        """Step 5: read committed records from `scan_from` to the watermark. No step while a transaction is open."""
        held = me.held
        assert held is not None
        wanted = (COMMITTED, ABORTED) if self._is_out(Part.SCAN_COMMITTED) else (COMMITTED,)
        part = list(enumerate(world.log))[held.scan_from : me.watermark]
        if any(entry.state == PENDING for _, entry in part):
            return
        settled = tuple(
            (entry.pointer, place)
            for place, entry in part
            if entry.state in wanted
            and entry.pointer[1] >= held.end[entry.pointer[0]]
            and self._is_final(held, entry)
        )
        if self._is_out(Part.SCAN):
            settled = ()
        after = me._replace(at=Step.JUDGE, settled=settled, watermark=0)
        yield f"scans, {len(settled)} settled", with_instance(world, who, after)

    def _is_final(self, held: Ledger, entry: Entry) -> bool:
        return held.counts(entry)

    def _generation(self, held: Ledger) -> int:
        """Return the generation that refused records name."""
        return held.generation

    # Steps of a batch.

    def _judge(self, world: World, who: int, me: Instance) -> Iterator[tuple[str, World]]:
        """Step 6: choose any end beyond the start, and the current contract."""
        assert me.held is not None
        start = world.checkpoint if self._is_out(Part.START_AT_LEDGER) else me.held.end
        latest = self._bounds.latest
        ends = product(*(range(begin, last + 1) for begin, last in zip(start, latest, strict=True)))
        for end in sorted(ends, reverse=True):
            if end == start:
                continue
            judging = me._replace(at=Step.QUARANTINE, start=start, end=end, contract=world.contract)
            if self._is_out(Part.QUARANTINE_BEFORE_PUBLISH):
                judging = judging._replace(at=Step.PUBLISH)
            after = with_instance(world, who, judging)
            if self._is_out(Part.STAGE):
                after = after._replace(table=more(after.table, self._accepted(judging)))
            yield f"judges up to {end} by contract {world.contract}", after

    def _quarantine(self, world: World, who: int, me: Instance) -> tuple[str, World]:
        """Step 7: append and commit one transaction for each slot with refused records; each call is one of these steps."""
        refused = self._by_slot(world, who, me)
        if not refused:
            return "has nothing to quarantine", with_instance(world, who, self._quarantined(me))
        slot = min(refused)
        is_direct = self._is_out(Part.TRANSACTIONS)
        if world.owners[slot] != who and not is_direct and not self._is_out(Part.FENCE):
            return "is fenced by the broker", with_instance(world, who, LEFT)
        mine = [
            entry for entry in world.log if (entry.owner, entry.slot, entry.state) == (who, slot, PENDING)
        ]
        if mine:
            what = f"commits slot {slot}"
            log = tuple(entry._replace(state=COMMITTED) if entry in mine else entry for entry in world.log)
        else:
            what = f"appends {refused[slot]} to slot {slot}"
            state = COMMITTED if is_direct else PENDING
            assert me.held is not None
            generation = self._generation(me.held)
            log = world.log + tuple(Entry(pointer, slot, who, state, generation) for pointer in refused[slot])
        world = world._replace(log=log)
        if not mine and not is_direct:
            return what, world
        if slot == max(refused) or self._is_out(Part.ALL_SLOTS):
            return what, with_instance(world, who, self._quarantined(me))
        return what, with_instance(world, who, me._replace(slot=slot + 1))

    def _by_slot(self, world: World, who: int, me: Instance) -> dict[int, list[Pointer]]:
        """Return the refused records of each slot that are not written yet; slots below `me.slot` are done."""
        contract = world.contract if self._is_out(Part.ONE_CONTRACT) else me.contract
        refused: dict[int, list[Pointer]] = {}
        for pointer in self._refused(me, contract):
            slot = pointer[0] % self._bounds.slots[who]
            if slot >= me.slot:
                refused.setdefault(slot, []).append(pointer)
        return refused

    def _quarantined(self, me: Instance) -> Instance:
        is_late = self._is_out(Part.QUARANTINE_BEFORE_PUBLISH)
        return ready(me) if is_late else me._replace(at=Step.PUBLISH, slot=0)

    def _publish(self, world: World, who: int, me: Instance) -> Iterator[tuple[str, World]]:
        """Steps 8 and 10: commit rows and ledger together, with the mark, if the ledger is still the held one."""
        held = me.held
        assert held is not None
        if not self._is_still(held, world.ledger):
            yield "is fenced: the ledger is another", with_instance(world, who, LEFT)
            return
        new = self._published(world, who, me)
        after = ready(me._replace(held=new))
        if self._is_out(Part.QUARANTINE_BEFORE_PUBLISH):
            after = me._replace(at=Step.QUARANTINE, held=new)
        if self._without in _TWO_COMMITS:
            after = me._replace(at="second commit")
        landed = self._commit(world, me, new)
        yield f"publishes up to {me.end}", with_instance(landed, who, after)
        if self._is_still(held, landed.ledger):  # the store may receive a request twice
            yield f"publishes up to {me.end}, twice", with_instance(self._commit(landed, me, new), who, after)

    def _commit(self, world: World, me: Instance, new: Ledger) -> World:
        rows = [] if self._is_out(Part.STAGE) else self._accepted(me)
        data = world._replace(table=more(world.table, rows))
        if self._is_out(Part.ONE_COMMIT_DATA_FIRST):
            return data
        if self._is_out(Part.ONE_COMMIT_LEDGER_FIRST):
            return world._replace(ledger=new)
        return data._replace(ledger=new)

    def _second_commit(self, world: World, who: int, me: Instance) -> tuple[str, World]:
        held = me.held
        assert held is not None
        new = self._published(world, who, me)
        rows = self._accepted(me)
        after = with_instance(world, who, ready(me._replace(held=new)))
        if self._is_out(Part.START_AT_LEDGER):
            return "lets Spark commit", after._replace(checkpoint=me.end)
        if self._is_out(Part.ONE_COMMIT_DATA_FIRST):
            return "moves the ledger", after._replace(ledger=new)
        return "moves the data", after._replace(table=more(world.table, rows))

    # Derived values.

    def _published(self, world: World, who: int, me: Instance) -> Ledger:
        held = me.held
        assert held is not None
        refused = self._refused(me, me.contract)
        settled = [pointer for pointer, _ in me.settled if is_within(pointer, me)]
        count = {*refused} if self._is_out(Part.COUNT_SETTLED) else {*refused, *settled}
        ahead = [place for pointer, place in me.settled if pointer[1] >= me.end[pointer[0]]]
        scan_from = len(world.log)
        if ahead and not self._is_out(Part.SCAN_FROM_SETTLED):
            scan_from = min(ahead)
        return held._replace(
            n=held.n + 1,
            end=me.end,
            scan_from=scan_from,
            slots=self._bounds.slots[who],
            quarantined=held.quarantined + len(count),
            dropped=held.dropped + len(self._judged(me, me.contract, DROP)),
        )

    def _refused(self, me: Instance, contract: int) -> list[Pointer]:
        is_out = self._is_out(Part.LEAVE_SETTLED_OUT_OF_QUARANTINE)
        return self._judged(me._replace(settled=()) if is_out else me, contract, REFUSE)

    def _accepted(self, me: Instance) -> list[Pointer]:
        is_out = self._is_out(Part.LEAVE_SETTLED_OUT_OF_TABLE)
        return self._judged(me._replace(settled=()) if is_out else me, me.contract, ACCEPT)

    def _judged(self, me: Instance, contract: int, verdict: str) -> list[Pointer]:
        settled = dict(me.settled)
        return [
            pointer
            for pointer, verdicts in self._bounds.verdicts.items()
            if verdicts[contract] == verdict and is_within(pointer, me) and pointer not in settled
        ]

    def _is_still(self, held: Ledger, found: Ledger) -> bool:
        if self._is_out(Part.PUBLISH_COMPARES_EPOCH):
            return held.n == found.n
        if self._is_out(Part.PUBLISH_COMPARES_N):
            return held.epoch == found.epoch
        return held == found

    def _is_out(self, part: Part) -> bool:
        return self._without is part


_TWO_COMMITS = (Part.ONE_COMMIT_DATA_FIRST, Part.ONE_COMMIT_LEDGER_FIRST, Part.START_AT_LEDGER)
"""Without these parts, publishing has a second commit; for START_AT_LEDGER it is step 11, Spark's commit of positions."""


class Recovery(StagedProtocol):
    """A check in every state that a new instance, which runs alone, processes the whole stream."""

    def violation(self, world: World) -> str | None:
        if world.instances[len(self._bounds.slots) - 1] != Instance():
            return None  # it has started, and there is no other new instance
        if self.is_complete(self.alone(world)):
            return None
        return "the next instance does not come to the end"
