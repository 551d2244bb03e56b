"""Workers return the verdicts of the plan, whatever the bytes and the types."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from tests.spark.worker_verdicts import file_target, kafka_rows, results, typed_rows, verdicts
from tidegate.contracts.document.load import parse_contract
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.verdict import Disposition
from tidegate.spark_jobs.worker.judge import column_types

CONTRACT = {
    "apiVersion": "tidegate/v1",
    "kind": "DataContract",
    "id": "s",
    "version": "1.0.0",
    "topic": "t",
    "tombstones": "pass",
    "schema": {
        "type": "json-schema",
        "definition": {
            "type": "object",
            "properties": {
                "flag": {"type": "boolean"},
                "number": {"type": "number"},
                "whole": {"type": "integer"},
                "text": {"type": "string"},
                "day": {"type": "string", "format": "date"},
                "at": {"type": "string", "format": "date-time"},
                "more": {"type": "array"},
            },
        },
    },
    "columns": [
        {"name": "flag", "from": "/flag", "type": "boolean"},
        {"name": "exact", "from": "/number", "type": "decimal(12,2)"},
        {"name": "near", "from": "/number", "type": "double"},
        {"name": "small", "from": "/whole", "type": "int"},
        {"name": "big", "from": "/whole", "type": "long"},
        {"name": "text", "from": "/text", "type": "string"},
        {"name": "day", "from": "/day", "type": "date"},
        {"name": "at", "from": "/at", "type": "timestamp"},
        {"name": "more", "from": "/more", "type": "json"},
    ],
    "rules": [
        {"id": "known", "kind": "forbidden", "field": "/whole", "values": [999]},
        {"id": "small", "kind": "range", "field": "/whole", "maximum": 10, "severity": "warning"},
    ],
}
VALUES = [
    b'{"flag": true, "number": 12.25, "whole": 7, "text": "\xc3\xa9", "day": "2024-02-29", "more": [1, {}]}',
    b'{"at": "2024-02-29T23:59:59.123456+02:00", "whole": 11}',
    b'{"whole": 999}',
    b'{"whole": 3000000000}',
    b'{"number": 0.125}',
    b"{}",
    b"",
    None,
    b"\xff",
    b"[" * 100_000,
    b'{"number": 1e400}',
    b'{"text": "\\ud800"}',
]


@pytest.fixture(scope="module")
def plan() -> EnforcementPlan:
    return compile_plan(parse_contract(json.dumps(CONTRACT), name="c.json", read_schema=None).contract)


@pytest.mark.parametrize("typed", [False, True])
def test_workers_judge_as_the_plan_judges(
    spark: SparkSession, plan: EnforcementPlan, tmp_path: Path, *, typed: bool
) -> None:
    expected = (plan.judge_typed if typed else plan.judge)(pa.array(VALUES, pa.binary()))
    found = results(kafka_rows(spark, VALUES), plan, file_target(plan, tmp_path) if typed else None)
    assert [*verdicts(found)] == [(each["disposition"], each["failed"]) for each in expected.to_pylist()]
    if typed:
        written = [each for each in expected.to_pylist() if each["disposition"] <= Disposition.ALERTED]
        assert typed_rows(found) == [each["columns"] for each in written]


def test_a_record_is_judged_by_its_own_timestamp_and_all_by_one_now(spark: SparkSession) -> None:
    rules = [
        {"id": "not-ahead", "kind": "range", "field": "/at", "not_after": "now + 1 minute"},
        {"id": "fresh", "kind": "freshness", "field": "/at", "max_age": "1 day", "now": "batch"},
    ]
    document = json.dumps({**CONTRACT, "rules": rules})
    noon = datetime(2024, 3, 10, 12, tzinfo=UTC)
    plan = compile_plan(parse_contract(document, name="c.json", read_schema=None).contract)
    plan = plan.with_now(int(noon.timestamp()) * 10**9)
    moments = [("2024-03-10T11:00:00Z", -61), ("2024-03-10T11:00:00Z", -60), ("2024-03-08T11:00:00Z", 0)]
    values = [json.dumps({"at": at}).encode() for at, _ in moments]
    timestamps = [datetime.fromisoformat(at) + timedelta(seconds=seconds) for at, seconds in moments]
    found = results(kafka_rows(spark, values, timestamps=timestamps), plan)
    failed = [plan.failed_slots(each) for _, each in verdicts(found)]
    assert [[slot.code for slot in slots] for slots in failed] == [["not-ahead"], [], ["fresh"]]


def test_a_timestamp_without_a_zone_stays_without_one(plan: EnforcementPlan) -> None:
    types = {field.name: field.dataType.simpleString() for field in column_types(plan.columns)}
    assert types == {
        "flag": "boolean",
        "exact": "decimal(12,2)",
        "near": "double",
        "small": "int",
        "big": "bigint",
        "text": "string",
        "day": "date",
        "at": "timestamp",
        "more": "string",
    }


def test_a_crash_in_a_worker_is_reported_without_the_record(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    plan = compile_plan(parse_contract(json.dumps(CONTRACT), name="c.json", read_schema=None).contract)

    class Crashing:
        """Fails as Arrow does, whose messages quote the value."""

        columns = plan.columns
        contract = plan.contract
        expectations = plan.expectations
        fingerprint = plan.fingerprint
        plans = ()
        reads_headers = False
        slots = plan.slots

        def judge(self, values: pa.Array, *_: object) -> pa.Array:
            return pa.array(values.cast(pa.string()).to_pylist(), pa.int64())

    secret = "S3CR3T-of-a-patient"  # noqa: S105 - it opens nothing
    rows = kafka_rows(spark, [f'{{"text": "{secret}"}}'.encode()])
    with pytest.raises(PythonException) as caught:
        results(rows, Crashing())  # type: ignore[arg-type] # what a plan with a bug would be
    out, err = capfd.readouterr()
    assert secret not in f"{caught.value}{out}{err}"
    assert "tidegate.spark_jobs.crashes.WorkerCrash: pyarrow.lib.ArrowInvalid at" in str(caught.value)
