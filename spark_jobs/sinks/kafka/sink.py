"""The Kafka sink: refused records and the ledger in one transaction of the driver's producer, slot 0.

Accepted records are in that transaction too. With slots for tasks, tasks write them first, each in its own transaction
(`task_slots.py`). The transactional.id of slot 0 acts as the compare-and-set: only the instance that initialized it
last can commit the ledger.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.contracts.errors import ConflictError, Fenced
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.counts import RuleKey
from tidegate.contracts.stream.decide import Decision
from tidegate.contracts.stream.ledger import BatchRefusal, Ledger, Settled, Vector
from tidegate.contracts.stream.masked_values import MaskedValues
from tidegate.spark_jobs.kafka.dropped import DroppedTopic
from tidegate.spark_jobs.kafka.kafka_ledger import (
    ensure_ledger_topic,
    ledger_name,
    ledger_record,
    read_ledger,
    transactional_id,
)
from tidegate.spark_jobs.kafka.outputs import OutputRecord, TransactionalProducer
from tidegate.spark_jobs.kafka.replayed import ReplayedTopic
from tidegate.spark_jobs.kafka.topics import TopicDescription, Topics
from tidegate.spark_jobs.sinks.judged_rows import judged_rows
from tidegate.spark_jobs.sinks.recovery_scan import (
    accepted,
    names_ledger,
    require_not_ahead,
    settled_in,
    unclaimed_history,
)
from tidegate.spark_jobs.sinks.sink import CommittedBatch, JudgedBatch, MicroBatch, Replay, StreamStart
from tidegate.spark_jobs.sinks.spool import Spool
from tidegate.spark_jobs.steps import ReplayStep, Step, Stopwatch
from tidegate.spark_jobs.worker.judge import worker_errors
from tidegate.spark_jobs.worker.record_spool import Packing, RecordTarget, SpooledRecords
from tidegate.spark_jobs.worker.records import Decided, Destination, accepted_records, refused_records
from tidegate.spark_jobs.worker.result_kinds import COLUMNS, AcceptedPiece
from tidegate.spark_jobs.worker.task_results import TaskResults
from tidegate.spark_jobs.worker.task_slots import WRITTEN_DDL, SlotTarget, write_packed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spark_jobs.settings import JobSettings


_CLAIM_SECONDS = 10.0
"""Maximum wait for the claim of an instance that has fenced this one."""
_LOOK_SECONDS = 0.5


class KafkaSink:
    """The sink of a topic `<topic>.accepted`, its quarantine topic, and the ledger in a compacted topic."""

    def __init__(
        self,
        settings: JobSettings,
        contract_id: str,
        accepted: TopicDescription,
        quarantine: TopicDescription,
        dropped: DroppedTopic,
        replayed: ReplayedTopic,
    ) -> None:
        self._settings = settings
        self._topics = Topics(settings.kafka)
        self._accepted = accepted
        self._quarantine = quarantine
        self._dropped = dropped
        self._replayed = replayed
        self._ledger_name = ledger_name(contract_id)
        self._tasks = settings.accepted_slots if settings.accepted_slots > 1 else 0
        self._slots = 1 + self._tasks
        self._producer: TransactionalProducer | None = None
        self._ledger: Ledger | None = None
        self._settled = Settled()
        self._contract_id = contract_id
        self._end: Vector = {}
        self._turns = (0,) * self._tasks
        self._is_fenced = False
        self.name = f"kafka:{accepted.name}"

    @property
    def settled(self) -> Settled:
        """Return the records that tasks have written and that are still ahead of the ledger."""
        return self._settled

    def adopt(self, plan: EnforcementPlan) -> None:
        """Require that the contract's masks can be applied, and prepare the topic of dropped positions."""
        MaskedValues(plan)
        self._dropped.adopt(plan)

    def start(self, start: StreamStart) -> Ledger:
        """Fence the driver's slot, read and claim the ledger; fence the tasks' slots, verify, scan."""
        self.adopt(start.plan)
        kafka = self._settings.kafka
        ensure_ledger_topic(self._topics)
        with start.watch(Step.FENCE):  # slot 0: from here on, no other instance can change the ledger
            producer = self._producer_of(self._ledger_name, 0)
            producer.fence()
        with start.watch(Step.VERIFY):
            self._ledger = read_ledger(kafka, self._ledger_name)
            if self._ledger is None:
                self._require_unwritten(start)
            else:
                self._require_newest(self._ledger)
            held = self._ledger or start.new_ledger(self._ledger_name, {}, 1)
        with start.watch(Step.CLAIM):
            if self._tasks and not held.scan_from:  # earlier records were written together with their ledger
                now = self._topics.latest(self._accepted.name)
                held = held.model_copy(update={"scan_from": {self._accepted.name: now}})
            claimed = start.claimable(held).claim(self._slots)
            with self._noticing_fences():
                producer.write([ledger_record(claimed)])
        self._producer, self._ledger = producer, claimed
        if claimed.slots > 1 or claimed.scan_from:
            self._settle(held, claimed, start.watch)
        self._spool = Spool(self._settings, self._contract_id, claimed.epoch)
        self._spool.clear()
        return claimed

    def _settle(self, before: Ledger, claimed: Ledger, watch: Stopwatch) -> None:
        """Fence all slots of tasks, also unused ones; find the records that they wrote ahead of the ledger.

        `before` is the ledger as the earlier instances left it.
        """
        kafka = self._settings.kafka
        with watch(Step.FENCE):
            for slot in range(1, claimed.slots):
                self._producer_of(claimed.name, slot).fence()
        with watch(Step.VERIFY):  # the watermark is taken after the fence, so it bounds their records
            self._end = self._topics.latest(self._accepted.name)
            if read_ledger(kafka, self._ledger_name) != claimed:
                raise Fenced(f"{claimed.name}: another instance of this stream holds the ledger now")
        with watch(Step.SCAN):
            found = settled_in(kafka, self._accepted.name, before, self._end, accepted)
            self._settled = Settled(found)

    def _require_newest(self, ledger: Ledger) -> None:
        """Raise StreamStopped if the ledger is older than an output that is written in one transaction with it."""
        by_tasks = (
            ledger.slots > 1 or ledger.scan_from
        )  # accepted records of tasks may be ahead of the ledger
        for topic in (self._quarantine.name, *(() if by_tasks else (self._accepted.name,))):
            require_not_ahead(self._settings.kafka, topic, ledger)

    def _require_unwritten(self, start: StreamStart) -> None:
        """Raise StreamStopped if a stream without a ledger has already written records."""
        for topic in (self._accepted.name, self._quarantine.name):
            if names_ledger(self._settings.kafka, topic, self._ledger_name, start.source.name):
                what = f"records of ledger {self._ledger_name}"
                raise unclaimed_history(start.plan.contract.id, topic, what)

    @property
    def table_size(self) -> None:
        """Return None, because a topic is not a table."""

    @property
    def maintenance(self) -> None:
        """Return None, because the broker maintains its topics."""

    def is_held(self) -> bool:
        """Return whether the ledger is still the one that this instance has claimed, or read before its claim.

        An instance fences slot 0 first and then claims the ledger, so after a fence this waits for its claim.
        """
        deadline = time.monotonic() + (_CLAIM_SECONDS if self._is_fenced else 0)
        while True:
            found = read_ledger(self._settings.kafka, self._ledger_name)
            if (found and found.epoch) != (self._ledger and self._ledger.epoch):
                return False
            if time.monotonic() >= deadline:
                return True
            time.sleep(_LOOK_SECONDS)

    def _producer_of(self, ledger: str, slot: int) -> TransactionalProducer:
        timeout = self._settings.transaction_timeout_seconds
        return TransactionalProducer(self._settings.kafka, transactional_id(ledger, slot), timeout)

    @contextmanager
    def _noticing_fences(self) -> Iterator[None]:
        try:
            yield
        except Fenced:
            self._is_fenced = True
            raise

    def close(self) -> None:
        """Release the producer."""
        self._producer = None

    def judge(self, batch: MicroBatch) -> JudgedBatch[SpooledRecords | KeptRows]:
        """Judge the rows that are not settled; accepted ones are spooled, or persisted in Spark for tasks."""
        settled, spool = self._settled.within(batch.start, batch.end), self._spool
        target = RecordTarget(Packing() if self._tasks else spool.parts("accepted"))
        judged = judged_rows(batch, settled, target, spool.parts("refused"), self._tasks or None)
        if not self._tasks:
            with spool.kept(judged) as kept:
                results = spool.results(kept, batch)
                return JudgedBatch(batch, results, spool.accepted(kept, results))
        kept = judged.persist()  # kept on the executors, where tasks will write the accepted records
        try:
            results = spool.results(kept, batch)
        except BaseException:
            kept.unpersist()
            raise
        return JudgedBatch(batch, results, KeptRows(kept, results, spool))

    def publish(self, judged: JudgedBatch[SpooledRecords | KeptRows], decision: Decision) -> CommittedBatch:
        """Write refused records, accepted ones, dropped positions and the ledger, in one transaction.

        With slots for tasks, tasks write the accepted records first. If a batch is refused as a whole, all of its
        records are written as refused.
        """
        refused: Iterator[pa.RecordBatch] = judged.results.refused.batches()
        accepted: Iterator[pa.RecordBatch] = iter(())
        if decision.refusal:
            refused = chain(refused, judged.accepted.batches())
        elif isinstance(judged.accepted, KeptRows):
            self._write_in_tasks(judged.accepted, judged.batch)
        else:
            accepted = judged.accepted.batches()
        if self._tasks:
            # No task writes until the next batch, so nothing of this stream below the end is ahead of the new ledger.
            self._end = self._topics.end_after_commit(self._accepted.name)
        held, batch = self._held, judged.batch
        assert self._producer is not None, "the sink was not started"  # noqa: S101 - a programming error
        ahead = self._settled.after(batch.end)
        # Without tasks it is the end at the start: the driver's records are never ahead of the ledger.
        scan_from = ahead.scan_from({self._accepted.name: self._end}) if self._tasks or len(ahead) else {}
        noted, digest = self._dropped.records(held, judged.results.dropped())
        new = held.publish(batch.published(decision, scan_from, self._slots, digest))
        refusals = (BatchRefusal(batch.end, decision.refusal),) if decision.refusal else ()
        evidence: Counter[RuleKey] = Counter()
        quarantine = Destination(self._quarantine, held, batch.plan)
        records: Iterator[OutputRecord] = chain(
            refused_records(refused, quarantine, evidence, Decided(refusals, batch.asked.set_aside)),
            accepted_records(accepted, Destination(self._accepted, held, batch.plan)),
            noted,
            [ledger_record(new)],
        )
        with batch.watch(Step.PUBLISH), self._noticing_fences():
            self._producer.write(records)
        self._ledger, self._settled = new, ahead
        return CommittedBatch(new, evidence)

    def deletes_known_since(self) -> Vector:
        """Return no offsets: a topic has no deletes."""
        return {}

    def require_replayable(self, *, has_keys: bool, append_late: bool) -> None:
        """Require that no record has a key, or that the request appends it after newer ones of its key."""
        require_order(self._accepted.name, has_keys=has_keys, append_late=append_late)

    def keep_positions(self) -> None:
        """Create the topic of replayed positions."""
        self._replayed.ensure()

    def replay(self, judged: JudgedBatch[SpooledRecords | KeptRows], replay: Replay) -> Ledger:
        """Write the accepted records, the positions of replayed records and the ledger, in one transaction."""
        held, batch = self._held, judged.batch
        assert self._producer is not None, "the sink was not started"  # noqa: S101 - a programming error
        with batch.watch(ReplayStep.POSITIONS):
            positions, digest = self._replayed.records(held, replay.chunk)
        new = replay.ledger(held, digest)
        to = Destination(self._accepted, held, batch.plan)
        records: Iterator[OutputRecord] = chain(
            accepted_records(judged.accepted.batches(), to, replay.progress.request),
            positions,
            [ledger_record(new)],
        )
        with batch.watch(ReplayStep.PUBLISH), self._noticing_fences():
            self._producer.write(records)
        self._ledger = new
        return new

    def _write_in_tasks(self, accepted: KeptRows, batch: MicroBatch) -> None:
        """Write accepted records in tasks, one task per partition of the data frame; all commit before the ledger."""
        turns = self._turns
        target = SlotTarget(
            Destination(self._accepted, self._held, batch.plan),
            self._settings.kafka,
            turn=max(turns) + 1,
            turns=turns,
            since=self._end,
            timeout_seconds=self._settings.transaction_timeout_seconds,
        )
        with batch.watch(Step.SLOT), worker_errors():
            tasks = len(accepted.packed.mapInArrow(write_packed(target), WRITTEN_DDL).collect())
        self._turns = (target.turn,) * tasks + turns[tasks:]

    @property
    def _held(self) -> Ledger:
        assert self._ledger is not None, "the sink was not started"  # noqa: S101 - a programming error
        return self._ledger


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Accepted records that Spark persists on the executors, in rows of RESULT."""

    kept: DataFrame
    results: TaskResults
    spool: Spool

    @property
    def packed(self) -> DataFrame:
        """Return the records in the form of `Packing`, as one binary column."""
        column = COLUMNS[AcceptedPiece]
        return self.kept.filter(f"{column} IS NOT NULL").select(f"{column}.records")

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Collect the records to the driver and read them."""
        spooled = self.spool.accepted(self.kept, self.results)
        try:
            yield from spooled.batches()
        finally:
            spooled.release()

    def release(self) -> None:
        """Release the persisted records."""
        self.kept.unpersist()


def require_order(topic: str, *, has_keys: bool, append_late: bool) -> None:
    """Raise ConflictError if records have keys, unless the request appends them after newer ones of their keys."""
    if has_keys and not append_late:
        raise ConflictError(
            f"{topic} would get records behind newer ones of their keys: nothing more was replayed. If its readers expect "
            "that, replay with --append-late; otherwise send the corrected records to the source topic, with --to-source"
        )
