"""The Kafka sink: accepted and refused records and the ledger in one transaction of one producer.

The transactional.id is the compare-and-set: who has initialised it last is the only one who can commit. So no scan
is needed; a restart fences first and reads the ledger then.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from contracts.counts import RuleKey
from contracts.expectations.compile import Partials
from contracts.kafka_connection import KafkaConnection
from contracts.ledger import BatchRefusal, Ledger, Settled
from contracts.output_topics import LEDGER_PARTITIONS, LEDGER_TOPIC
from contracts.plan import EnforcementPlan
from contracts.privacy.masked_values import MaskedValues
from contracts.shadow import ShadowResult
from contracts.verdict import Disposition
from contracts.wire import schema_header
from spark_jobs.decide import Decision, FailedRecord, Tally
from spark_jobs.judge import judge_column
from spark_jobs.outputs import OutputRecord, TransactionalProducer, read_committed
from spark_jobs.records import Destination, accepted_records, refused_records
from spark_jobs.shadow import Differences, Original, merged
from spark_jobs.sinks.sink import MicroBatch, Published, StreamStart
from spark_jobs.steps import Step
from spark_jobs.topics import Topic, Topics

if TYPE_CHECKING:
    from spark_jobs.settings import JobSettings

COLUMN_PREFIX = "_column."
"""Before the name of a typed column in a collected batch."""


class KafkaSink:
    """A topic `<topic>.accepted`, the quarantine topic beside it, and the ledger in a compacted topic."""

    def __init__(self, settings: JobSettings, contract_id: str, accepted: Topic, quarantine: Topic) -> None:
        self._settings = settings
        self._topics = Topics(settings.kafka)
        self._accepted = accepted
        self._quarantine = quarantine
        self._ledger_name = ledger_name(contract_id)
        self._producer: TransactionalProducer | None = None
        self._ledger: Ledger | None = None
        self.name = f"kafka:{accepted.name}"

    @property
    def settled(self) -> Settled:
        """Nothing: what a transaction did not commit is not there."""
        return Settled()

    def adopt(self, plan: EnforcementPlan) -> None:
        """Require that records can be masked as the contract says; else a topic holds records of any contract."""
        MaskedValues(plan)

    def start(self, start: StreamStart) -> Ledger:
        """Fence, read the ledger, claim it."""
        self.adopt(start.plan)
        self._topics.ensure_compacted(LEDGER_TOPIC, LEDGER_PARTITIONS)
        with start.watch(Step.FENCE):
            producer = TransactionalProducer(self._settings.kafka, f"tidegate/{self._ledger_name}/0")
            producer.fence()
        with start.watch(Step.VERIFY):
            held = read_ledger(self._settings.kafka, self._ledger_name)
        with start.watch(Step.CLAIM):
            claimed = (held or start.new_ledger(self._ledger_name, {}, 1)).claim(1)
            producer.write([_ledger_record(claimed)])
        self._producer, self._ledger = producer, claimed
        return claimed

    def is_held(self) -> bool:
        """Look whether another instance has claimed the ledger."""
        found = read_ledger(self._settings.kafka, self._ledger_name)
        return found is not None and self._ledger is not None and found.epoch == self._ledger.epoch

    def close(self) -> None:
        """Let go of the producer."""
        self._producer = None

    def judge(self, batch: MicroBatch) -> CollectedBatch:
        """Judge a batch and fetch it: the one producer lives here, in the driver."""
        verdict = F.col("_verdict")
        expectations = batch.plan.expectations
        shadow = batch.asked.shadow if batch.asked.shadow and batch.asked.shadow.pickled else None
        judge = judge_column(batch.plan, typed=bool(expectations), shadow=shadow)
        wanted = dict.fromkeys((*expectations.needed, *batch.asked.library_columns))
        rows = batch.rows.withColumn("_verdict", judge(F.col("value"))).select(
            verdict["disposition"].alias("disposition"),
            verdict["failed"].alias("failed"),
            "partition",
            "offset",
            "key",
            "value",
            "headers",
            F.unix_millis("timestamp").alias("timestamp_ms"),
            *([verdict["shadow"].alias("shadow")] if shadow else []),
            *(verdict["columns"][name].alias(f"{COLUMN_PREFIX}{name}") for name in wanted),
        )
        return CollectedBatch(self, batch, rows.toArrow())

    def commit(self, rows: pa.Table, decision: Decision, batch: MicroBatch) -> Published:
        """Write everything that one batch changes, in one transaction."""
        held, producer = self._ledger, self._producer
        assert held is not None, "the sink was not started"  # noqa: S101 - a programming error
        assert producer is not None, "the sink was not started"  # noqa: S101 - a programming error
        new = held.publish(batch.published(decision, {}, 1))
        disposition = rows.column("disposition")
        written = rows.filter(pc.less_equal(disposition, int(Disposition.ALERTED)))
        refused = rows.filter(pc.equal(disposition, int(Disposition.QUARANTINED)))
        refusals: tuple[BatchRefusal, ...] = ()
        if decision.refusal:
            refusals = (BatchRefusal(batch.end, decision.refusal),)
            written, refused = written.slice(0, 0), pa.concat_tables([refused, written])
        evidence: Counter[RuleKey] = Counter()
        records: Iterator[OutputRecord] = chain(
            refused_records(refused, Destination(self._quarantine, held, batch.plan), evidence, refusals),
            accepted_records(written, Destination(self._accepted, held, batch.plan)),
            [_ledger_record(new)],
        )
        with batch.watch(Step.PUBLISH):
            producer.write(records)
        self._ledger = new
        return Published(new, evidence)


@dataclass(frozen=True, slots=True)
class CollectedBatch:
    """A judged batch in the driver's memory, as Arrow."""

    sink: KafkaSink
    batch: MicroBatch
    rows: pa.Table

    @property
    def tallies(self) -> tuple[Tally, ...]:
        """Records by disposition and failed slots."""
        counts = self.rows.group_by(["disposition", "failed"]).aggregate([([], "count_all")])
        return tuple(
            Tally(Disposition(row["disposition"]), row["failed"], row["count_all"])
            for row in counts.to_pylist()
        )

    def first_failed(self) -> FailedRecord:
        """Look for the first record that must not pass."""
        failed = self.rows.filter(pc.equal(self.rows.column("disposition"), int(Disposition.FAILED)))
        ordered = failed.sort_by([("partition", "ascending"), ("offset", "ascending")])
        (found,) = ordered.slice(0, 1).select(["partition", "offset", "failed"]).to_pylist()
        return FailedRecord(found["partition"], found["offset"], found["failed"])

    def noted(self) -> Partials:
        """Note what the expectations of the contract ask for, here where the rows are."""
        expectations = self.batch.plan.expectations
        rows = self._written(expectations.needed)
        return expectations.merge(expectations.observe(each) for each in rows.to_batches())

    def library_rows(self) -> pa.Table:
        """Give the columns that were asked for of the accepted rows."""
        names = self.batch.asked.library_columns
        return self._written(names).select(list(names))

    def _written(self, names: tuple[str, ...]) -> pa.Table:
        """Give typed columns of the accepted rows, and one more that keeps count of the rows."""
        is_written = pc.less_equal(self.rows.column("disposition"), int(Disposition.ALERTED))
        rows = self.rows.filter(is_written)
        fields = [self.batch.plan.columns.field(name) for name in names]
        columns = [rows.column(f"{COLUMN_PREFIX}{field.name}").cast(field.type) for field in fields]
        return pa.table([*columns, rows.column("disposition")], pa.schema([*fields, ("", pa.int8())]))

    def compared(self) -> ShadowResult | None:
        """Compare the verdicts of the shadow, which came with the others."""
        shadow, plan = self.batch.asked.shadow, self.batch.plan
        if shadow is None or shadow.pickled is None:
            return merged(shadow, ())
        differences = Differences(plan, shadow, typed=bool(plan.expectations))
        for rows in self.rows.to_batches():
            active = pa.StructArray.from_arrays(
                [rows.column("disposition"), rows.column("failed")], ["disposition", "failed"]
            )
            differences.add(rows, active, rows.column("shadow"), partial(_original, rows))
        return differences.result()

    def write(self, decision: Decision) -> Published:
        """Write accepted and refused records and the ledger, in one transaction."""
        return self.sink.commit(self.rows, decision, self.batch)

    def release(self) -> None:
        """Nothing to give back: the table goes with this value."""


def _original(rows: pa.RecordBatch, _plan: EnforcementPlan, index: int) -> Original:
    (row,) = rows.slice(index, 1).select(["value", "headers", "timestamp_ms"]).to_pylist()
    header = schema_header([(each["key"], each["value"]) for each in row["headers"] or ()])
    return Original(row["value"], header, pa.array([row["timestamp_ms"]], pa.timestamp("ms")))


def read_ledger(kafka: KafkaConnection, name: str) -> Ledger | None:
    """Read a stream's ledger from the ledger topic; None when nobody has claimed it yet.

    To be called after the stream's transactional.id was initialised: only then is nothing of it in doubt.
    """
    end = Topics(kafka).latest(LEDGER_TOPIC)
    partition = _ledger_partition(name)
    found: bytes | None = None
    for message in read_committed(kafka, LEDGER_TOPIC, {}, {partition: end[partition]}):
        if message.key() == name.encode():
            found = message.value()
    return Ledger.parse(found) if found is not None else None


def ledger_name(contract_id: str) -> str:
    """Name of a stream's ledger in Kafka."""
    return f"{contract_id}@kafka"


def _ledger_partition(name: str) -> int:
    return crc32(name.encode()) % LEDGER_PARTITIONS


def _ledger_record(ledger: Ledger) -> OutputRecord:
    key = ledger.name.encode()
    return (
        LEDGER_TOPIC,
        ledger.text.encode(),
        key,
        _ledger_partition(ledger.name),
        int(time.time() * 1000),
        [],
    )
