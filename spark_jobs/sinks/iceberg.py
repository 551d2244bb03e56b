"""The Iceberg sink: refused records in fenced Kafka transactions first, then rows and ledger in one table commit.

The numbers in the comments are the steps of docs/exactly-once.md.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import inheritable_thread_target
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it
from pyspark.sql.types import StructField

from contracts.errors import Fenced, StreamStopped, Unavailable
from contracts.evidence import Evidence, read_evidence
from contracts.ledger import Ledger, Settled, Settlement, Vector
from contracts.plan import EnforcementPlan
from contracts.verdict import Disposition, Verdict
from spark_jobs.decide import Decision, FailedRecord, RuleKey, Tally, count_evidence, rule_counts
from spark_jobs.judge import column_types, judge_column
from spark_jobs.outputs import OutputRecord, TransactionalProducer, headers_of, read_committed
from spark_jobs.records import Destination, refused_records
from spark_jobs.sinks.iceberg_table import LedgerTable, table_name
from spark_jobs.sinks.sink import MicroBatch, Published, StreamStart
from spark_jobs.steps import Step
from spark_jobs.topics import Topic, Topics

if TYPE_CHECKING:
    from confluent_kafka import Message
    from pyspark.sql import Column, DataFrame, SparkSession

    from spark_jobs.settings import JobSettings

_STAGE_ATTEMPTS = 5
_ROWS_PER_FILE = 50_000
"""Fewer make one file of what several source partitions bring; more are written in parallel, a file a partition."""


class IcebergSink:
    """A table `lake.<contract id>` with the ledger in its properties, and the quarantine topic beside it."""

    def __init__(
        self, spark: SparkSession, settings: JobSettings, contract_id: str, quarantine: Topic
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._topics = Topics(settings.bootstrap_servers)
        self._table = LedgerTable(spark, table_name(contract_id))
        self._quarantine = quarantine
        self._slots: list[TransactionalProducer] = []
        self._settled = Settled()
        self._ledger: Ledger | None = None
        self._gone: tuple[StructField, ...] = ()
        self.name = f"iceberg:{self._table.name}"

    @property
    def settled(self) -> Settled:
        """The quarantined records that are still ahead of the ledger."""
        return self._settled

    def adopt(self, plan: EnforcementPlan) -> None:
        """Create the table or add its new columns."""
        self._gone = self._table.ensure(column_types(plan))

    def start(self, start: StreamStart) -> Ledger:
        """Take steps 1 to 5: claim, fence, verify, read, scan."""
        self.adopt(start.plan)
        with start.watch(Step.CLAIM):  # 1
            claimed = self._claim(start)
        with start.watch(Step.FENCE):  # 2: the old slots too, for their transactions may be open
            producers = [
                TransactionalProducer(self._settings.bootstrap_servers, f"tidegate/{claimed.name}/{slot}")
                for slot in range(claimed.slots)
            ]
            for producer in producers:
                producer.fence()
            self._slots = producers[: self._settings.quarantine_slots]
        with start.watch(
            Step.VERIFY
        ):  # 3 and 4: the watermark is taken after the fence, so it bounds all there is
            end = self._topics.latest(self._quarantine.name)
            if self._table.read() != claimed:
                raise Fenced(f"{self._table.name}: another instance of this stream holds the ledger now")
        with start.watch(Step.SCAN):  # 5
            self._settled = self._scan(claimed, end)
        self._ledger = claimed
        return claimed

    def is_held(self) -> bool:
        """Look whether another instance has claimed the table."""
        found = self._table.read()
        return found is not None and found.epoch == self._held.epoch

    def close(self) -> None:
        """Let go of the producers."""
        self._slots = []

    def judge(self, batch: MicroBatch) -> HeldBatch:
        """Judge the rows that are not settled, and keep what will be written of them."""
        judge = judge_column(batch.plan, typed=True)
        settled = self._settled.within(batch.start, batch.end)
        rows = _without(batch.rows, list(settled)) if settled else batch.rows
        verdict = F.col("_verdict")
        refused = verdict["disposition"] == int(Disposition.QUARANTINED)
        judged = rows.withColumn("_verdict", judge(F.col("value"))).select(
            verdict["disposition"].alias("_disposition"),
            verdict["failed"].alias("_failed"),
            verdict["columns"].alias("_columns"),
            "partition",
            "offset",
            "timestamp",
            # The bytes of accepted records are not needed again: only the refused ones are held.
            F.when(refused, _original()).alias("_original"),
        )
        # Held as rows: cheaper than a columnar cache that is read once. And where `persist` would read and judge again
        # after an executor is lost, this fails, and the batch begins anew: a record is judged once.
        held = judged.localCheckpoint(eager=False)
        return HeldBatch(self, held, batch, _tally(held))

    def quarantine(self, rows: pa.Table, batch: MicroBatch) -> Counter[RuleKey]:
        """Step 7: write refused records, one transaction for each slot, all committed before the sink."""
        evidence: Counter[RuleKey] = Counter()
        to = Destination(self._quarantine, self._held, batch.plan)
        by_slot: dict[int, list[OutputRecord]] = {}
        partitions = rows.column("partition").to_pylist()
        for source_partition, record in zip(partitions, refused_records(rows, to, evidence), strict=True):
            by_slot.setdefault(source_partition % len(self._slots), []).append(record)
        for slot, records in sorted(by_slot.items()):
            self._slots[slot].write(records)
        return evidence

    def stage(self, rows: DataFrame | None, batch: MicroBatch) -> str:
        """Step 9: write the accepted rows where no reader looks; gives the mark to publish them by."""
        with batch.watch(Step.STAGE):
            return self._table.stage(rows)

    def publish(self, rows: DataFrame | None, mark: str, batch: MicroBatch, decision: Decision) -> Ledger:
        """Take steps 8 and 10: where a scan would begin, and one commit of rows and ledger."""
        held = self._held
        ahead = self._settled.after(batch.end)
        for _ in range(_STAGE_ATTEMPTS):
            with batch.watch(Step.PUBLISH):
                ends = held.scan_from
                if decision.quarantined:  # otherwise nothing was added since
                    ends = {self._quarantine.name: self._topics.latest(self._quarantine.name)}
                new = held.publish(batch.published(decision, ahead.scan_from(ends), len(self._slots)))
                is_published = self._table.publish(mark, held, new)
            if is_published:
                self._ledger, self._settled = new, ahead
                return new
            mark = self.stage(rows, batch)
        raise Unavailable(f"{self._table.name}: other commits kept moving the table while a batch was staged")

    def fill(self, plan: EnforcementPlan) -> list[Column]:
        """Give the columns of the table that the contract has, and null for those it no longer has."""
        known = [F.col("_columns")[name].alias(name) for name in column_types(plan).names]
        return known + [F.lit(None).cast(field.dataType).alias(field.name) for field in self._gone]

    @property
    def _held(self) -> Ledger:
        assert self._ledger is not None, "the sink was not started"  # noqa: S101 - a programming error
        return self._ledger

    def _claim(self, start: StreamStart) -> Ledger:
        held = self._table.read()
        slots = self._settings.quarantine_slots
        before = held
        if before is None:
            # Named after the table's identity: a table that was dropped and made anew starts a ledger of its own.
            name = f"{start.plan.contract.id}@iceberg:{self._table.uuid[:8]}"
            scan_from = {self._quarantine.name: self._topics.latest(self._quarantine.name)}
            before = start.new_ledger(name, scan_from, slots)
        claimed = before.claim(slots)
        for _ in range(_STAGE_ATTEMPTS):
            if self._table.publish(self._table.stage(None), held, claimed):
                return claimed
        raise Unavailable(f"{self._table.name}: other commits kept moving the table during the claim")

    def _scan(self, ledger: Ledger, end: Vector) -> Settled:
        topic = self._quarantine.name
        start = ledger.scan_from.get(topic, {})
        for partition, first in self._topics.earliest(topic).items():
            if first > start.get(partition, 0):
                raise StreamStopped(
                    f"{topic}: partition {partition} begins at {first}, but what was quarantined from "
                    f"{start.get(partition, 0)} on must be known to go on without doubling it: records were deleted. Lengthen the topic's retention; to go on "
                    "without them, give the stream a new table or contract id"
                )
        entries: dict[tuple[int, int], Settlement] = {}
        for message in read_committed(self._settings.bootstrap_servers, topic, start, end):
            evidence = read_evidence(headers_of(message))
            if evidence is None or evidence.ledger != ledger.name or evidence.source.topic != ledger.topic:
                continue
            source = evidence.source
            if source.offset >= ledger.end.get(source.partition, 0):
                entries[source.partition, source.offset] = _settlement(message, topic, evidence)
        return Settled(entries)


@dataclass(frozen=True, slots=True)
class HeldBatch:
    """A judged batch in the executors' memory."""

    sink: IcebergSink
    judged: DataFrame
    batch: MicroBatch
    tallies: tuple[Tally, ...]

    def first_failed(self) -> FailedRecord:
        """Look for the first record that must not pass."""
        failed = self.judged.where(F.col("_disposition") == int(Disposition.FAILED))
        first = failed.select("partition", "offset", "_failed").orderBy("partition", "offset").limit(1)
        (found,) = first.toArrow().to_pylist()
        return FailedRecord(found["partition"], found["offset"], found["_failed"])

    def write(self, decision: Decision) -> Published:
        """Write refused records to the quarantine topic, the others to the table.

        The rows are staged meanwhile: staging is invisible, and the commit waits for both.
        """
        rows = self._rows(decision)
        on_my_behalf = inheritable_thread_target(self.judged.sparkSession)
        with ThreadPoolExecutor(1, thread_name_prefix="stage") as pool:
            staging = pool.submit(on_my_behalf(self.sink.stage), rows, self.batch)
            with self.batch.watch(Step.QUARANTINE):
                evidence = self._quarantine()
            mark = staging.result()
        return Published(self.sink.publish(rows, mark, self.batch, decision), evidence)

    def release(self) -> None:
        """Free the rows now; else they wait for a collection in the driver."""
        self.judged._jdf.queryExecution().logical().rdd().unpersist(False)  # noqa: SLF001 - it has no Python face

    def _quarantine(self) -> Counter[RuleKey]:
        if not any(tally.disposition is Disposition.QUARANTINED for tally in self.tallies):
            return Counter()
        refused = self.judged.where(F.col("_disposition") == int(Disposition.QUARANTINED))
        rows = refused.select("partition", "offset", "_original.*").toArrow()
        return self.sink.quarantine(rows, self.batch)

    def _rows(self, decision: Decision) -> DataFrame | None:
        if not decision.written:
            return None
        topic = F.lit(self.batch.plan.contract.topic).alias("topic")
        rows = self.judged.where(F.col("_disposition") <= int(Disposition.ALERTED)).select(
            *self.sink.fill(self.batch.plan),
            F.struct(topic, "partition", "offset", "timestamp").alias("_source"),
            F.lit(self.batch.contract).alias("_contract"),
        )
        return rows.coalesce(1 + decision.written // _ROWS_PER_FILE)


def _original() -> Column:
    """Hold what a quarantined record is rebuilt from."""
    return F.struct("key", "value", "headers", F.unix_millis("timestamp").alias("timestamp_ms"))


def _tally(judged: DataFrame) -> tuple[Tally, ...]:
    """Count the batch by verdict; this is the action that reads Kafka and judges."""
    counts = judged.groupBy("_disposition", "_failed").count().toArrow().to_pylist()
    return tuple(
        Tally(
            Disposition(row["_disposition"]),
            bytes(row["_failed"]) if row["_failed"] is not None else None,
            row["count"],
        )
        for row in counts
    )


def _without(rows: DataFrame, settled: list[tuple[int, int]]) -> DataFrame:
    """Leave settled records out of the batch."""
    partitions, offsets = zip(*settled, strict=True)
    positions = pa.table(
        {"partition": pa.array(partitions, pa.int32()), "offset": pa.array(offsets, pa.int64())}
    )
    known = rows.sparkSession.createDataFrame(positions)
    return rows.join(F.broadcast(known), ["partition", "offset"], "left_anti")


def _settlement(message: Message, topic: str, evidence: Evidence) -> Settlement:
    verdict = Verdict(Disposition.QUARANTINED, evidence.violations)
    rules = rule_counts(count_evidence((verdict,)))
    return Settlement(topic, message.partition() or 0, message.offset() or 0, rules)
