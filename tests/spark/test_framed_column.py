"""Framed records as a Spark column: headers that name a schema, and a registry that is away."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.errors import Unavailable
from tidegate.contracts.formats.writers import SCHEMA_HEADER, WriterSchema, WriterSchemas
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.verdict import Disposition
from tidegate.spark_jobs.worker.judge import disposition_of, judge_column, worker_errors

SCHEMA = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
KNOWN = WriterSchema(7, UUID(int=7), "avro", SCHEMA)
GOOD, QUARANTINED = int(Disposition.ACCEPTED), int(Disposition.QUARANTINED)


def plan(framing: str, *, is_current: bool) -> EnforcementPlan:
    contract = DataContract.model_validate(
        {
            "apiVersion": "tidegate/v1",
            "kind": "DataContract",
            "id": "s",
            "version": "1.0.0",
            "topic": "t",
            "framing": framing,
            "schema": {
                "type": "avro",
                "definition": {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]},
            },
        }
    )
    return compile_plan(contract).with_writers(WriterSchemas((KNOWN,), is_current))


def headers(*values: bytes | None) -> list[dict[str, Any]]:
    others = [{"key": "trace", "value": b"\x01"}, {"key": "none", "value": None}]
    return others + [{"key": SCHEMA_HEADER, "value": value} for value in values]


ROWS: list[tuple[bytes, list[dict[str, Any]] | None, int]] = [
    (b"\x02", headers(KNOWN.header), GOOD),
    (b"\x02", headers(KNOWN.header, KNOWN.header), GOOD),
    (b"\x02", headers(KNOWN.header, b"\x01" + bytes(16)), QUARANTINED),
    (b"\x02", headers(b"\x01" + bytes(16)), QUARANTINED),
    (b"\x02", headers(KNOWN.header[1:]), QUARANTINED),
    (b"\x02", headers(None), QUARANTINED),
    (b"\x02", headers(), QUARANTINED),
    (b"\x02", None, QUARANTINED),
    (b"", headers(KNOWN.header), QUARANTINED),
]


def test_headers_name_the_schema_of_each_record(spark: SparkSession) -> None:
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    values, all_headers, expected = (list(column) for column in zip(*ROWS, strict=True))
    table = pa.table(
        {
            "value": pa.array(values, pa.binary()),
            "headers": pa.array(all_headers, header),
            "timestamp": pa.array([0] * len(values), pa.timestamp("us", "UTC")),
        }
    )
    judge = judge_column(plan("confluent-header", is_current=True), typed=True)
    judged = spark.createDataFrame(table).coalesce(1).select(judge(F.col("value")).alias("v"))
    disposition = disposition_of(F.col("v.verdict")).alias("disposition")
    found = judged.select(disposition, "v.columns.a").toArrow().to_pydict()
    assert found["disposition"] == expected
    assert found["a"] == [1 if each == GOOD else None for each in expected]


def test_an_outage_in_a_worker_is_an_outage_here_and_no_bug(spark: SparkSession) -> None:
    table = pa.table({"value": pa.array([b"\0\0\0\0\x07\x02", b"\0\0\0\0\x08\x02"], pa.binary())})
    judge = judge_column(plan("confluent-prefix", is_current=False), typed=False)
    judged = spark.createDataFrame(table).select(judge(F.col("value")).alias("v"))
    with pytest.raises(Unavailable, match="names a schema that was not registered when"), worker_errors():
        judged.toArrow()
