"""What workers do, done here: judge raw values and stage the accepted rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.contracts.document.load import parse_contract
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.stream.ledger import BatchTotals, Ledger, PublishedBatch
from tidegate.contracts.verdict import Disposition
from tidegate.spark_jobs.sinks.postgresql.rows import CopyTarget
from tidegate.spark_jobs.sinks.postgresql.table import PostgresqlTable

BEGAN = datetime(2024, 1, 1, tzinfo=UTC)
NEW = Ledger(
    name="l", stream="hospital.admissions", topic="adm", topic_id="t", epoch=0, n=0,
    begin={0: 0}, end={0: 0}, scan_from={}, slots=1,
)  # fmt: skip


class Record(NamedTuple):
    """A record of the source; `second` is its time."""

    value: dict[str, Any] | None
    offset: int
    partition: int = 0
    key: bytes | None = None
    second: int = 0


def plan_of(**changes: object) -> EnforcementPlan:
    document = {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": "hospital.admissions",
        "version": "1.0.0",
        "topic": "adm",
        "schema": {
            "type": "json-schema",
            "definition": {
                "type": "object",
                "required": ["id"],
                "properties": {"id": {"type": "string"}, "ward": {"type": "string"}},
            },
        },
        **changes,
    }
    return compile_plan(parse_contract(json.dumps(document), name="t.json", read_schema=None).contract)


def stage(
    table: PostgresqlTable, plan: EnforcementPlan, records: Sequence[Record], epoch: int = 1
) -> list[str]:
    """Stage records as one task does; returns the names of what was staged."""
    contract = f"{plan.contract.id}@{plan.contract.version}"
    return stage_at(
        table.target(plan, contract, f"tidegate-{epoch}"), plan.for_table(table.limits(plan)), records
    )


def stage_at(target: CopyTarget, plan: EnforcementPlan, records: Sequence[Record]) -> list[str]:
    """Stage records where a target says."""
    values = pa.array(
        [None if r.value is None else json.dumps(r.value).encode() for r in records], pa.binary()
    )
    times = [BEGAN + timedelta(seconds=r.second) for r in records]
    batch = pa.RecordBatch.from_pydict(
        {
            "partition": pa.array([r.partition for r in records], pa.int32()),
            "offset": pa.array([r.offset for r in records], pa.int64()),
            "timestamp": pa.array(times, pa.timestamp("us", "UTC")),
            "key": pa.array([r.key for r in records], pa.binary()),
            "value": values,
        }
    )
    judged = plan.judge_typed(values, keys=batch.column("key"))
    is_written = pc.less_equal(judged.field(0), int(Disposition.ALERTED))
    with target.open("0") as part:
        part.write(judged.field(2), batch, is_written)
    return part.written


def publish(table: PostgresqlTable, plan: EnforcementPlan, held: Ledger, records: Sequence[Record]) -> Ledger:
    """Stage and publish one batch."""
    partitions = {0, *(each.partition for each in records)}
    begin, end = dict.fromkeys(partitions, 0), dict.fromkeys(partitions, 9)
    new = held.publish(
        PublishedBatch(begin, end, {}, BatchTotals(written=len(records)), "hospital.admissions@1.0.0", 1)
    )
    landed = table.publish(table.stage(stage(table, plan, records, held.epoch)), held, new)
    assert landed is not None
    return landed


def claimed(table: PostgresqlTable, plan: EnforcementPlan) -> Ledger:
    """Make the table and claim it."""
    table.ensure(plan)
    claim = (table.read() or NEW).claim(1)
    assert table.publish(table.stage([]), table.read(), claim) == claim
    return claim
