"""Replays a schedule of the models with the real sinks: each instance is a real attempt that waits at the step of the schedule.

The observer of an attempt holds it after a step. Gates hold it at the places that no observer is told of: they call what
they stand for and wait, and change nothing. An instance that waits for ever has crashed there: its transaction stays open and
its files stay staged. When it is let go at last, it is a zombie.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, current_thread
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from tests.integration.enforce.checker import account, require_exactly_once
from tests.integration.enforce.line import KNOWN, Line, Sent, row
from tests.integration.enforce.replaying import refusals, request, require_closed_once
from tests.integration.enforce.scheduled_rewind import (
    PATIENCE_SECONDS,
    REFUSED,
    OpenRewinder,
    Place,
    ScheduledRewind,
    ScheduledThread,
)
from tests.model.schedules import (
    FENCES_SENDER,
    KNOWS,
    READ,
    REPLACE,
    Move,
    ReplayWorld,
    moves,
)
from tests.model.world import ACCEPT, Bounds
from tidegate.contracts.errors import Fenced, StreamStopped, Unavailable
from tidegate.contracts.stream.ledger import Ledger, Vector
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.contracts.stream.replay import ReplayAction, ReplayReport, ReplayRequest, ReplayState
from tidegate.spark_jobs.job import resend
from tidegate.spark_jobs.job.batch_limits import BatchLimits
from tidegate.spark_jobs.job.stream import StreamAttempt
from tidegate.spark_jobs.kafka.outputs import TransactionalProducer
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.sinks import staged
from tidegate.spark_jobs.sinks.delta.table import DeltaTable
from tidegate.spark_jobs.sinks.iceberg.table import IcebergTable
from tidegate.spark_jobs.sinks.postgresql.table import PostgresqlTable
from tidegate.spark_jobs.steps import ReplayStep, Step

LOOK_SECONDS = 0.2
TRANSACTION_SECONDS = 600
"""No transaction ends by itself while its instance waits."""
STORES = (IcebergTable, DeltaTable, PostgresqlTable)

REPLAYS: tuple[str, ...] = (
    FENCES_SENDER,
    KNOWS,
    ReplayStep.READ,
    ReplayStep.SEND,
    ReplayStep.POSITIONS,
    ReplayStep.PUBLISH,
)
"""The steps of a chunk of a replay, which come behind the batch that was published last."""
BEHIND = 10
"""More than a start or a batch has steps."""

WHOLE = math.inf
"""A step with all its slots."""


@dataclass(frozen=True)
class Order:
    """The steps of a protocol in their order, and in which one a transaction is written: at the start and in a batch."""

    start: tuple[str, ...]
    batch: tuple[str, ...]
    writes: tuple[str, str]

    def place(self, batch: int, step: str, slot: float = WHOLE, *, is_open: bool = False) -> Place:
        """Return the place at which a step is over.

        It is the batch (0 is the start), the step, the slot, and whether the slot's transaction is committed.
        """
        if step == Step.SLOT:
            step = self.writes[min(batch, 1)]
        steps = self.batch if batch else self.start
        return batch, steps.index(step), slot, not is_open


STAGED = Order(
    (READ, Step.CLAIM, Step.FENCE, Step.VERIFY, Step.SCAN),
    (Step.JUDGE, Step.QUARANTINE, Step.PUBLISH),
    (Step.CLAIM, Step.QUARANTINE),
)
IN_ONE_TRANSACTION = Order(
    (Step.FENCE, Step.VERIFY, Step.CLAIM), (Step.JUDGE, Step.PUBLISH), (Step.CLAIM, Step.PUBLISH)
)
TOLD = {step: step for step in (Step.CLAIM, Step.FENCE, Step.VERIFY, Step.SCAN, Step.QUARANTINE)} | {
    Step.DECIDE: Step.JUDGE
}
"""What is told of, as the models name it: to them a batch is judged when it is decided. The rest goes on without waiting."""


class Instance(ScheduledThread, BatchLimits):
    """An attempt of its own, which goes on no further than it may, and takes the batches that it is told to."""

    def __init__(self, line: Line, order: Order, name: str, slots: int) -> None:
        ScheduledThread.__init__(self, name, (0, -1, 0, 0))
        BatchLimits.__init__(self, line.settings.max_batch_bytes)
        self._line, self._order = line, order
        self._judged = self._published = 0
        self._ends: list[Vector] = []
        self._fenced_slots = 0
        self._chunks_told = self._chunks = 0
        self._is_replaying = False
        self.asks_twice = False
        self._attempt = line.attempt(
            self._observe,
            limits=self,
            quarantine_slots=slots,
            transaction_timeout_seconds=TRANSACTION_SECONDS,
            # As on a machine of its own: no other instance deletes what it has spooled.
            checkpoints=line.settings.checkpoints / name,
        )
        self._attempt._control.replays = self  # type: ignore[assignment, misc] # those of the line, behind a gate

    def work(self) -> None:
        self._attempt.run(Event(), Event())

    def take(self, move: Move) -> None:
        """Go on until the instance has done what a line of the schedule says, or more, or has ended."""
        if move.end is not None:
            self._ends.append(dict(enumerate(move.end)))
        batch = len(self._ends)
        if move.step in REPLAYS:
            self._chunks_told += move.step == ReplayStep.READ
            chunk = self._chunks_told + (move.step in {FENCES_SENDER, KNOWS})
            self.go(behind(batch, chunk, move.step))
            return
        slot = WHOLE if move.slot is None else move.slot
        self.go(self._order.place(batch, move.step, slot, is_open=move.is_open))

    # In the threads of the attempt.

    def before_batch(self) -> None:
        """Wait until the next batch may be judged."""
        with self._changed:
            before = (self._judged + 1, -1, 0, 0)
            # Stopping a query waits for its current batch, so an attempt that has failed is released first.
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not (self._may > before or self._attempt._closing):
                assert time.monotonic() < deadline
                self._changed.wait(LOOK_SECONDS)

    def end_of_batch(self, start: Vector, end: Vector) -> Vector:
        """Wait until the batch may be judged; it ends where the schedule says, and with all there is after that."""
        self.before_batch()
        with self._changed:
            self._judged += 1
            if self._judged > len(self._ends):
                return end
            wanted = self._ends[self._judged - 1]
            return {p: min(last, max(wanted[p], start.get(p, 0))) for p, last in end.items()}

    def wait_at(self, step: str, slot: float = WHOLE, *, is_open: bool = False) -> None:
        """Tell that this is done, and wait until the instance may go on."""
        with self._changed:
            batch = 0 if step in self._order.start or not self._judged else self._published + 1
            place = self._order.place(batch, step, slot, is_open=is_open)
        self._wait(place)

    def fenced(self) -> None:
        """Wait after one slot is fenced."""
        self._fenced_slots += 1
        self.wait_at(Step.FENCE, self._fenced_slots - 1)

    def published(self, *, is_counted: bool = True) -> None:
        """Wait after a commit of a batch, which may be counted by another one."""
        self.wait_at(Step.PUBLISH)
        self._published += is_counted

    def current(self) -> ReplayRequest | None:
        """Wait until the instance may replay, and return the request of the line.

        No chunk begins before the batches are published that the schedule names before it.
        """
        with self._changed:
            while not (self._may_replay() or self._attempt._closing):
                self._changed.wait(LOOK_SECONDS)
        return None if self._attempt._closing else self._line.replays.current()

    def _may_replay(self) -> bool:
        first = behind(len(self._ends), self._chunks + 1, FENCES_SENDER)
        return self._may >= first and not self._attempt._in_hand

    def report(self, report: ReplayReport) -> bool:
        """Report it to the line. A request that is stopped takes no more steps: its chunk is over."""
        if report.state is ReplayState.STOPPED:
            with self._changed:
                self._at = behind(self._published, self._chunks, ReplayStep.PUBLISH)
                self._changed.notify_all()
        return self._line.replays.report(report)

    def _replay(self, step: ReplayStep) -> None:
        self._chunks += step is ReplayStep.READ
        self._is_replaying = step is not ReplayStep.PUBLISH
        if step in REPLAYS:
            self._wait_in_chunk(self._chunks, step)

    def fences_sender(self) -> None:
        """Note that the producer that the instance initialises now sends records back to the source."""
        self._is_replaying = True

    def wait_before_chunk(self, step: str) -> None:
        """Wait at a step that comes before the first refusals of a request are read."""
        self._wait_in_chunk(self._chunks + 1, step)

    def _wait_in_chunk(self, chunk: int, step: str) -> None:
        self._wait(behind(self._published, chunk, step))

    def _observe(self, _stream: str, step: Step | ReplayStep) -> None:
        if isinstance(step, ReplayStep):
            self._replay(step)
        elif step in TOLD:
            self.wait_at(TOLD[step])
        elif step is Step.PUBLISH and self._order is not STAGED:  # a table may ask for the same batch again
            self.published()


def behind(batch: int, chunk: int, step: str) -> Place:
    """Return the place at which a step of a chunk of a replay is over, behind a batch."""
    return batch, BEHIND + len(REPLAYS) * chunk + REPLAYS.index(step), WHOLE, True


class Gates:
    """Hold instances at places that have no step for the observer, then continue with the real function."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._of: WeakKeyDictionary[object, tuple[Instance, int]] = WeakKeyDictionary()
        monkeypatch.setattr(staged, "move_ledger", self._between_read_and_claim(staged.move_ledger))
        producer = TransactionalProducer
        monkeypatch.setattr(producer, "fence", self._after_fence(producer.fence))
        monkeypatch.setattr(
            producer, "_await_delivered", self._waiting(producer._await_delivered, is_open=True)
        )
        monkeypatch.setattr(producer, "write", self._waiting(producer.write, is_open=False))
        monkeypatch.setattr(StreamAttempt, "_on_batch", self._before_batch(StreamAttempt._on_batch))
        monkeypatch.setattr(resend, "fenced_sender", _gated(resend.fenced_sender, FENCES_SENDER))
        monkeypatch.setattr(resend, "resent_ahead", _gated(resend.resent_ahead, KNOWS))
        for store in STORES:
            monkeypatch.setattr(store, "publish", self._after_commit(store.publish))

    def _between_read_and_claim(self, move_ledger: Callable[..., None]) -> Callable[..., None]:
        def gated(table: object, *claim: Any) -> None:
            if isinstance(me := current_thread(), Instance):
                self._of[table] = me, 0
                me.wait_at(READ)
            move_ledger(table, *claim)

        return gated

    def _before_batch(self, on_batch: Callable[..., None]) -> Callable[..., None]:
        """Hold a batch before it is begun: a chunk of a replay could not begin beside it."""

        def gated(attempt: StreamAttempt, *batch: Any) -> None:
            if isinstance(limits := attempt._limits, Instance):
                limits.before_batch()
            on_batch(attempt, *batch)

        return gated

    def _after_fence(self, fence: Callable[[TransactionalProducer], None]) -> Callable[..., None]:
        def gated(producer: TransactionalProducer) -> None:
            fence(producer)
            if isinstance(me := current_thread(), Instance) and not me._is_replaying:
                self._of[producer] = me, me._fenced_slots
                me.fenced()

        return gated

    def _waiting(self, work: Callable[..., Any], *, is_open: bool) -> Callable[..., Any]:
        def gated(producer: TransactionalProducer, *records: Any) -> Any:
            done = work(producer, *records)
            me, slot = self._of.get(producer, (None, 0))
            if me is not None and not me._is_replaying:
                me.wait_at(Step.SLOT, slot, is_open=is_open)
            return done

        return gated

    def _after_commit(self, publish: Callable[..., Ledger | None]) -> Callable[..., Ledger | None]:
        """Hold an instance after a commit that has landed. A claim is held by the observer."""

        def gated(
            table: object, mark: str, held: Ledger | None, new: Ledger, **options: Any
        ) -> Ledger | None:
            published = publish(table, mark, held, new, **options)
            me, _ = self._of.get(table, (None, 0))
            if me is None or published is None or held is None or held.epoch != new.epoch:
                return published
            if me._is_replaying:
                return published  # the observer is told of it
            if me.asks_twice:
                me.asks_twice = False
                with suppress(Fenced, StreamStopped, Unavailable):  # the answer to the first is what it gets
                    publish(table, mark, held, new, **options)
            me.published(is_counted=new.n > held.n)
            return published

        return gated


def _gated(work: Callable[..., Any], step: str) -> Callable[..., Any]:
    """Hold an instance after what it does before it reads the first refusals of a request."""

    def gated(*arguments: Any) -> Any:
        me = current_thread()
        if not isinstance(me, Instance):
            return work(*arguments)
        if step == FENCES_SENDER:
            me.fences_sender()
        done = work(*arguments)
        me.wait_before_chunk(step)
        return done

    return gated


class Replay:
    """A line in which the records of a model are, and the instances that a schedule moves."""

    def __init__(
        self,
        line: Line,
        bounds: Bounds,
        order: Order,
        world: ReplayWorld | None = None,
        open_rewinder: OpenRewinder | None = None,
    ) -> None:
        """`world` has what replays mend, and which records delete."""
        self._line, self._bounds, self._order = line, bounds, order
        self._mended = frozenset() if world is None else world.mended
        self._deletes = None if world is None else world.deletes
        self._actions: list[ReplayAction] = []
        self._open_rewinder = open_rewinder
        self._rewinds: dict[str, ScheduledRewind] = {}
        self._instances: dict[str, Instance] = {}
        self.harm = ""
        """What the checker has found."""
        self._replace_contract(0)
        # As in the models, a ledger is there before the first instance.
        line.enforce(quarantine_slots=bounds.slots[0])
        line.produce(*map(self._record, bounds.verdicts))

    def run(self, schedule: Iterable[str]) -> None:
        """Take every move; then let another instance do the rest, and wake those that wait. Look at everything twice."""
        for move in moves(schedule):
            if move.step == REPLACE:
                self._replace_contract(1)
                continue
            if move.action is not None:
                self._request(move.action)
                continue
            if move.who.startswith("rewind"):
                self._rewind(move)
                continue
            instance = self._instance(move.who)
            instance.asks_twice = (move.untold or "").endswith("twice")
            instance.take(move)
        self._line.enforce()
        if self._actions:  # what was ahead of the ledger then can be replayed now
            self._request(self._actions[-1])
            self._line.enforce()
            self._line.enforce()  # what was sent to the source
        self._check()
        for rewind in self._rewinds.values():
            rewind.finish()
            assert rewind.failure is None or isinstance(rewind.failure, REFUSED), rewind.failure
        for instance in self._instances.values():
            instance.finish()
            if isinstance(instance.failure, StreamStopped) and not isinstance(instance.failure, Fenced):
                raise instance.failure
            assert instance.failure is None or isinstance(instance.failure, Fenced | Unavailable)
        self._check()

    def close(self) -> None:
        """End what still waits, whatever it ends with, and let go of its producers."""
        while self._rewinds:
            self._rewinds.popitem()[1].finish()
        while self._instances:
            self._instances.popitem()[1].finish()

    def _record(self, pointer: tuple[int, int]) -> Sent:
        """Return a record; those of a table with upserts have one key."""
        if self._deletes is None:
            return row_of(pointer)
        if pointer in self._deletes:
            return Sent(None, b"r0", pointer[0])
        value = json.dumps({"id": "r0", "amount": amount_of(pointer)}).encode()
        return Sent(value, b"r0", pointer[0])

    def _rewind(self, move: Move) -> None:
        assert self._open_rewinder is not None
        if move.point is not None:
            self._rewinds[move.who] = ScheduledRewind(self._open_rewinder, move.point, move.who)
        rewind = self._rewinds[move.who]
        rewind.take(move)
        if rewind.has_committed:
            kafka = self._line.settings.kafka
            rewind.quarantine_end = Topics(kafka).latest(quarantine_topic(self._line.topic))

    def _request(self, action: ReplayAction) -> None:
        """Ask for an action on all that is refused now, with a fix of what the model says."""
        self._actions.append(action)
        if action is ReplayAction.DISCARD:
            request(self._line, action=action, reason="of the model")
            return
        values = [{"from": amount_of(pointer), "to": 1} for pointer in sorted(self._mended)]
        values = values or [{"from": _NO_AMOUNT, "to": 1}]
        fix = {"fix": "mended", "steps": [{"action": "map", "field": "/amount", "values": values}]}
        request(self._line, action=action, fix=fix, allowed=1.0)

    def _check(self) -> None:
        try:
            if self._rewinds or {*self._actions} - {ReplayAction.REPLAY}:
                require_closed_once(self._line, is_rewound=bool(self._rewinds))
                self._require_judged_again()
            else:
                require_exactly_once(self._line, self._mended if self._actions else frozenset())
        except AssertionError as error:
            found, totals = account(self._line), self._line.ledger().totals
            harm = {name: positions for name, positions in vars(found).items() if positions}
            self.harm = f"{error}: {harm or 'miscounted'}, {totals.written} written and {totals.quarantined} quarantined"
            raise AssertionError(self.harm) from error

    def _require_judged_again(self) -> None:
        """Require of each record from the point of a rewind on a row, or a refusal that is newer than the rewind."""
        written = {*self._line.positions()}
        for rewind in self._rewinds.values():
            if not rewind.has_committed or self._actions:
                continue
            newer = {
                source
                for (partition, offset), source in refusals(self._line).items()
                if offset >= rewind.quarantine_end[partition]
            }
            judged = {each for each in self._bounds.verdicts if each[1] >= rewind.point[each[0]]}
            assert not judged - written - newer, f"with a verdict of before: {judged - written - newer}"

    def _instance(self, who: str) -> Instance:
        if who not in self._instances:
            slots = self._bounds.slots["ABCD".index(who)]
            self._instances[who] = Instance(self._line, self._order, who, slots)
        return self._instances[who]

    def _replace_contract(self, version: int) -> None:
        """Let a contract be in force that refuses what the model's does. What the model drops is refused here."""
        verdicts = self._bounds.verdicts
        refused = [amount_of(pointer) for pointer in verdicts if verdicts[pointer][version] != ACCEPT]
        rules = [{**KNOWN, "values": refused or [_NO_AMOUNT]}]
        keyed = {} if self._deletes is None else {"primary_key": ["id"], "tombstones": "delete"}
        self._line.contracts.plan = self._line.plan(version=f"1.0.{version}", rules=rules, **keyed)


_NO_AMOUNT = -1
"""An amount that no record has: a contract that refuses nothing of a schedule still has a rule."""


def amount_of(pointer: tuple[int, int]) -> int:
    """Return the amount of a record, by which contracts tell it from others."""
    partition, offset = pointer
    return 100 * (partition + 1) + offset


def row_of(pointer: tuple[int, int]) -> Any:
    """Return the record of a pointer; its number's parity is its partition."""
    partition, offset = pointer
    return row(2 * offset + partition, amount_of(pointer))
