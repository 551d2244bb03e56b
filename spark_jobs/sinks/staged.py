"""The sinks with a table: refused records in fenced Kafka transactions first, then rows and ledger in one table commit.

The numbers in the comments are the steps of docs/explanation/exactly-once.md.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark import inheritable_thread_target

from tidegate.contracts.errors import Fenced, TidegateError, Unavailable
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.counts import RuleKey
from tidegate.contracts.stream.decide import Decision
from tidegate.contracts.stream.key_marks import KeyMarks, KnownMarks
from tidegate.contracts.stream.ledger import BatchRefusal, Ledger, PublishedBatch, Settled, Vector
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.report import TableMaintenance, TableSize
from tidegate.contracts.verdict import Disposition
from tidegate.spark_jobs.kafka.dropped import DroppedTopic
from tidegate.spark_jobs.kafka.kafka_ledger import transactional_id
from tidegate.spark_jobs.kafka.marks import MarksTopic, read_marks
from tidegate.spark_jobs.kafka.outputs import TransactionalProducer
from tidegate.spark_jobs.kafka.replayed import ReplayedTopic, left_out
from tidegate.spark_jobs.kafka.topics import TopicDescription, Topics
from tidegate.spark_jobs.sinks.judged_rows import judged_rows, without
from tidegate.spark_jobs.sinks.quarantine_table import QuarantineTable
from tidegate.spark_jobs.sinks.recovery_scan import (
    names_ledger,
    quarantined,
    require_own,
    settled_in,
    unclaimed_history,
)
from tidegate.spark_jobs.sinks.sink import CommittedBatch, JudgedBatch, MicroBatch, Replay, StreamStart
from tidegate.spark_jobs.sinks.spool import Spool
from tidegate.spark_jobs.sinks.store import STAGE_ATTEMPTS, LedgerStore, move_ledger
from tidegate.spark_jobs.sinks.upkeep import Upkeep, maintenance_of
from tidegate.spark_jobs.steps import ReplayStep, Step
from tidegate.spark_jobs.worker.record_spool import SpooledRecords
from tidegate.spark_jobs.worker.records import Decided, Destination, refused_records
from tidegate.spark_jobs.worker.request import WorkerRequest
from tidegate.spark_jobs.worker.task_results import TaskResults

if TYPE_CHECKING:
    from tidegate.spark_jobs.settings import JobSettings


class StagedSink:
    """The sink of a table with its ledger, and of the quarantine topic."""

    def __init__(  # noqa: PLR0913, PLR0917 - one argument for each output
        self,
        settings: JobSettings,
        table: LedgerStore,
        quarantine: TopicDescription,
        dropped: DroppedTopic,
        replayed: ReplayedTopic,
        marks: MarksTopic,
        refusals: QuarantineTable | None = None,
    ) -> None:
        """Open the sink. `refusals` is the quarantine table, if the stream has one."""
        self._settings = settings
        self._topics = Topics(settings.kafka)
        self._table = table
        self._quarantine = quarantine
        self._dropped = dropped
        self._replayed = replayed
        self._marks = marks
        self._known_marks: KnownMarks | None = None
        self._newest_marks = KeyMarks()
        self._marks_lock = Lock()
        self._is_upsert = settings.write_mode == "upsert"
        self._slots: list[TransactionalProducer] = []
        self._settled = Settled()
        self._left_out = Positions()
        self._ledger: Ledger | None = None
        self._refusals = refusals
        self._upkeeps = [
            Upkeep(each, settings.maintenance_seconds, settings.orphan_age_seconds)
            for each in (table, refusals)
            if each is not None
        ]
        self.name = f"{table.kind}:{table.name}"

    @property
    def settled(self) -> Settled:
        """Return the quarantined records that are still ahead of the ledger."""
        return self._settled

    def adopt(self, plan: EnforcementPlan) -> None:
        """Create the table or add its new columns, and the topics for a contract that drops or deletes."""
        self._table.ensure(plan)
        self._dropped.adopt(plan)
        self._marks.adopt(plan)

    def start(self, start: StreamStart) -> Ledger:
        """Run steps 1 to 5: claim, fence, verify, read, scan."""
        for each in self._upkeeps:
            each.relieve()
        self.adopt(start.plan)
        with start.watch(Step.CLAIM):  # 1
            before, claimed = self._claim(start)
            self._ledger = claimed
        with start.watch(Step.FENCE):  # 2: the old slots too, because their transactions may be open
            timeout = self._settings.transaction_timeout_seconds
            producers = [
                TransactionalProducer(self._settings.kafka, transactional_id(claimed.name, slot), timeout)
                for slot in range(claimed.slots)
            ]
            for producer in producers:
                producer.fence()
            self._slots = producers[: self._settings.quarantine_slots]
        with start.watch(
            Step.VERIFY
        ):  # 3 and 4: the watermark is taken after the fence, so no later record is ours
            end = self._topics.latest(self._quarantine.name)
            if self._table.read() != claimed:
                raise Fenced(f"{self._table.name}: another instance of this stream holds the ledger now")
        with start.watch(Step.SCAN):  # 5
            self._settled = Settled(
                settled_in(self._settings.kafka, self._quarantine.name, before, end, quarantined)
            )
            # After a rebuild, the refusal of a record that was sent back may be ahead of the ledger: it counts then.
            self._left_out = left_out(self._settings.kafka, claimed) - Positions(self._settled.entries)
            if self._left_out:
                self._dropped.ensure()
        self._spool = Spool(self._settings, start.plan.contract.id, claimed.epoch)
        self._spool.clear()
        if self._refusals is not None:
            self._refusals.start(claimed, start.plan.contract, start.watch.notify)
        for each in self._upkeeps:
            each.start()
        return claimed

    def is_held(self) -> bool:
        """Return whether no other instance has claimed the table."""
        found = self._table.read()
        return found is not None and self._ledger is not None and found.epoch == self._ledger.epoch

    def close(self) -> None:
        """Release the producers, and the threads that maintain the tables."""
        for each in self._upkeeps:
            each.close()
        self._slots = []

    @property
    def table_size(self) -> TableSize | None:
        """Return the size of the table at its last maintenance; None before that."""
        return self._upkeeps[0].size

    @property
    def maintenance(self) -> TableMaintenance | None:
        """Return the result of the background maintenance of both tables; None before the first round."""
        return maintenance_of(self._upkeeps)

    def judge(self, batch: MicroBatch) -> JudgedBatch[TableParts]:
        """Judge the rows that are not settled; write the accepted ones to files that are invisible to readers.

        Records that were sent to the source before a rewind count as dropped and are not judged: their copies in the
        source are judged instead.
        """
        shadow = batch.asked.shadow and batch.asked.shadow.for_table(self._table.limits)
        plan = batch.plan.for_table(self._table.limits(batch.plan))
        marked = plan.contract.primary_key if self._is_upsert else ()
        batch = replace(batch, plan=plan, asked=replace(batch.asked, shadow=shadow, marked=marked))
        settled = self._settled.within(batch.start, batch.end)
        target = self._table.target(batch.plan, batch.contract, f"tidegate-{self._held.epoch}")
        sent_back = self._left_out.within(batch.start, batch.end)
        judged = judged_rows(batch, [*settled, *sent_back], target, self._spool.parts("refused"))
        with self._spool.kept(judged) as kept:
            results = replace(self._spool.results(kept, batch), left_out=sent_back)
        return JudgedBatch(batch, results, TableParts(self._table, results.parts()))

    def publish(self, judged: JudgedBatch[TableParts], decision: Decision) -> CommittedBatch:
        """Run steps 7 to 10: write refused records to the quarantine topic, then the accepted rows with the ledger.

        The rows are staged while the quarantine topic is written: staging is invisible, and the commit waits for both.
        """
        if decision.refusal:
            return self._refuse(judged, decision)
        batch, parts = judged.batch, judged.accepted.take()
        with ThreadPoolExecutor(1, thread_name_prefix="stage") as pool:
            stage = inheritable_thread_target(batch.rows.sparkSession)(self._stage)
            staging = pool.submit(stage, parts, batch)
            with batch.watch(Step.QUARANTINE):
                evidence = self._write_refused(judged.results.refused, batch)
                dropped, marks = self._write_positions(judged.results, batch.end)
                # Read at each batch: aborted attempts and other ledgers append to the topic too. A mark before their
                # records or our own markers would stop the next start once retention has deleted them.
                end = self._topics.end_after_commit(self._quarantine.name)
            mark = staging.result()
        scan_from = self._settled.after(batch.end).scan_from({self._quarantine.name: end})
        changes = batch.published(decision, scan_from, len(self._slots), dropped, marks)
        published = CommittedBatch(self._commit(parts, mark, batch, changes), evidence)
        if self._refusals is not None and decision.quarantined:
            try:
                self._refusals.follow(published.ledger, batch.watch.notify)
            except TidegateError as error:
                return replace(published, failure=error)
        return published

    def _refuse(self, judged: JudgedBatch[TableParts], decision: Decision) -> CommittedBatch:
        """Write all records of the batch to the quarantine topic only, after reading them from the source again.

        The files hold only typed columns. A refused batch is rare, and keeping the bytes of every batch would be
        expensive.
        """
        batch = judged.batch
        refusals = (*batch.asked.refusals, BatchRefusal(batch.end, decision.refusal))
        asked = WorkerRequest(refusals=refusals, set_aside=batch.asked.set_aside)
        again = self.judge(replace(batch, asked=asked))
        try:
            quarantined = sum(
                each.records for each in again.results.tallies if each.disposition is Disposition.QUARANTINED
            )
            if quarantined + len(batch.settled) != decision.quarantined:
                raise Unavailable(
                    f"{self.name}: the records of a refused batch were others when they were read again"
                )
            return self.publish(again, replace(decision, refusal=()))
        finally:
            again.release()

    def _write_refused(self, refused: SpooledRecords, batch: MicroBatch) -> Counter[RuleKey]:
        """Run step 7: write refused records in one transaction per slot; all commit before the table does."""
        evidence: Counter[RuleKey] = Counter()
        to = Destination(self._quarantine, self._held, batch.plan)
        decided = Decided(batch.asked.refusals, batch.asked.set_aside)
        slots = len(self._slots)
        for slot in sorted({partition % slots for partition in refused.partitions()}):
            rows = (_of_slot(each, slot, slots) for each in refused.batches())
            self._slots[slot].write(refused_records(rows, to, evidence, decided))
            batch.watch.notify(Step.SLOT)
        return evidence

    def _write_positions(self, results: TaskResults, end: Vector) -> tuple[str, str]:
        """Write dropped positions and marks of deleted keys, before the ledger names them; return both digests."""
        held, marks = self._held, results.marks()
        self._note_marks(marks)
        dropped, dropped_digest = self._dropped.records(held, results.dropped())
        marked, marks_digest = self._marks.records(held, {**held.end, **end}, marks)
        if records := [*dropped, *marked]:
            self._slots[0].write(records)
        return dropped_digest, marks_digest

    def _stage(self, files: list[str], batch: MicroBatch) -> str:
        """Run step 9: stage the files of accepted rows; return the mark by which they are published."""
        with batch.watch(Step.STAGE):
            held = self._held
            at = held.model_copy(update={"n": held.n + 1, "end": {**held.end, **batch.end}})
            return self._table.stage(files, at)

    def deletes_known_since(self) -> Vector:
        """Read the marks of deleted keys once; batches add theirs. Return the offsets from which none is missing."""
        if not self._is_upsert:
            return {}
        with self._marks_lock:
            if self._known_marks is None:
                self._known_marks = read_marks(self._settings.kafka, self._held)
                # The marks of the batch that is being published: the ledger may not name them yet.
                self._known_marks.marks.append(self._newest_marks)
            return self._known_marks.since

    def require_replayable(self, *, has_keys: bool, append_late: bool) -> None:
        """Require nothing: a table with upserts keeps the newest row of a key, and deletes leave marks."""

    def keep_positions(self) -> None:
        """Create the topics of replayed positions and of marks."""
        self._replayed.ensure()
        if self._is_upsert:
            self._marks.ensure()

    def replay(self, judged: JudgedBatch[TableParts], replay: Replay) -> Ledger:
        """Write the positions of replayed records, then commit their rows and the ledger together.

        In a table with upserts, a record whose key was deleted by a newer record is not written. A batch may have
        deleted the key after the chunk was judged. So this is checked here, and the chunk is judged again without such
        records.
        """
        marks, written = judged.results.marks(), replay.chunk.written
        if len(written.since(self.deletes_known_since())) < len(written):
            raise Unavailable(f"{self._table.name}: marks of deleted keys were lost during a replay; again")
        deleted = self._known_marks.deleted_since(marks) if self._known_marks else Positions()
        if not deleted:
            return self._publish_chunk(judged, replay, marks)
        again = self.judge(replace(judged.batch, rows=without(judged.batch.rows, deleted)))
        try:
            chunk = replace(replay.chunk, deleted_since=deleted)
            return self._publish_chunk(again, replace(replay, chunk=chunk), marks)
        finally:
            again.release()

    def _publish_chunk(self, judged: JudgedBatch[TableParts], replay: Replay, marks: KeyMarks) -> Ledger:
        batch, parts, held = judged.batch, judged.accepted.take(), self._held
        with batch.watch(ReplayStep.POSITIONS):
            replayed, digest = self._replayed.records(held, replay.chunk)
            marked, marks_digest = self._marks.records(held, held.end, marks)
            self._note_marks(marks)
            if records := [*replayed, *marked]:
                self._slots[0].write(records)
        new = replay.ledger(held, digest, marks_digest)
        for _ in range(STAGE_ATTEMPTS):
            with batch.watch(ReplayStep.STAGE):
                mark = self._table.stage(parts, new)
            with batch.watch(ReplayStep.PUBLISH):
                published = self._table.publish(mark, held, new)
            if published is not None:
                self._ledger = published
                self._table.tidy(parts)
                return published
        raise Unavailable(
            f"{self._table.name}: other commits kept moving the table while a replay was staged"
        )

    def _note_marks(self, marks: KeyMarks) -> None:
        """Record the marks that are about to be published, for later chunks of replays."""
        with self._marks_lock:
            self._newest_marks = marks
            if self._known_marks is not None and not self._known_marks.add(marks):
                self._known_marks = None  # too many: the next chunk reads the newest again

    def _commit(self, files: list[str], mark: str, batch: MicroBatch, changes: PublishedBatch) -> Ledger:
        """Run step 10: commit rows and ledger together, with the `scan_from` of step 8; stage again if needed."""
        held = self._held
        new = held.publish(changes)
        for _ in range(STAGE_ATTEMPTS):
            with batch.watch(Step.PUBLISH):
                published = self._table.publish(mark, held, new)
            if published is not None:
                self._ledger, self._settled = published, self._settled.after(batch.end)
                self._table.tidy(files)
                return published
            mark = self._stage(files, batch)
        raise Unavailable(f"{self._table.name}: other commits kept moving the table while a batch was staged")

    @property
    def _held(self) -> Ledger:
        assert self._ledger is not None, "the sink was not started"  # noqa: S101 - a programming error
        return self._ledger

    def _claim(self, start: StreamStart) -> tuple[Ledger, Ledger]:
        """Claim the ledger; return it as the earlier instances left it, and as claimed."""
        held = self._table.read()
        slots = self._settings.quarantine_slots
        before = held
        if before is None:
            name = own_ledger_name(self._table, start.plan.contract.id)
            self._require_unwritten(start, name)
            scan_from = {self._quarantine.name: self._topics.latest(self._quarantine.name)}
            before = start.new_ledger(name, scan_from, slots)
        require_own(before, start.plan.contract.id, self._table.name)
        claimed = start.claimable(before).claim(slots, uuid4().hex[:8])
        self._take(held, claimed)
        return before, claimed

    def _take(self, held: Ledger | None, claimed: Ledger) -> None:
        """Replace the ledger by the claimed one. Raises Fenced if another instance has claimed it since.

        Raises Unavailable if only its batch number has moved: the instance that ran before has published a batch, or a
        delayed commit of this one has landed. The next attempt claims again.
        """
        try:
            move_ledger(self._table, held, claimed, "claim")
        except Fenced as error:
            found = self._table.read()
            if held is None or found is None or (found.epoch, found.instance) != (held.epoch, held.instance):
                raise
            raise Unavailable(f"{self._table.name}: a batch was published during the claim; again") from error

    def _require_unwritten(self, start: StreamStart, name: str) -> None:
        """Raise StreamStopped if a stream without a ledger has already written records."""
        stream, topic = start.plan.contract.id, start.source.name
        if self._table.has_rows_of(topic):
            raise unclaimed_history(stream, self._table.name, f"rows of topic {topic}")
        if names_ledger(self._settings.kafka, self._quarantine.name, name, topic):
            raise unclaimed_history(stream, self._quarantine.name, f"records of ledger {name}")


def own_ledger_name(table: LedgerStore, stream: str) -> str:
    """Return the name of a table's first ledger. It contains the table's UUID: a recreated table has a new ledger."""
    return f"{stream}@{table.kind}:{table.uuid[:8]}"


@dataclass(slots=True)
class TableParts:
    """Accepted rows of a batch in parts that are invisible to readers, by the names of the parts."""

    table: LedgerStore
    names: list[str]
    _is_taken: bool = False

    def take(self) -> list[str]:
        """Return the names for publishing; `release` then deletes nothing."""
        self._is_taken = True
        return self.names

    def release(self) -> None:
        """Delete the parts of a batch that is not published."""
        if not self._is_taken:
            self.table.delete_files(self.names)


def _of_slot(rows: pa.RecordBatch, slot: int, slots: int) -> pa.RecordBatch:
    """Return the rows of the source partitions that a slot writes."""
    if slots == 1:
        return rows
    return rows.filter(pa.array(np.asarray(rows.column("partition")) % slots == slot))
