"""Framed records in workers: headers that name a schema, and a registry that is away."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import SparkSession

from tests.spark.worker_verdicts import file_target, kafka_rows, results, typed_rows, verdicts
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.errors import Unavailable
from tidegate.contracts.formats.writers import SCHEMA_HEADER, WriterSchema, WriterSchemas
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.verdict import Disposition
from tidegate.spark_jobs.worker.judge import worker_errors

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


def test_headers_name_the_schema_of_each_record(spark: SparkSession, tmp_path: Path) -> None:
    values, all_headers, expected = (list(column) for column in zip(*ROWS, strict=True))
    framed = plan("confluent-header", is_current=True)
    found = results(kafka_rows(spark, values, all_headers), framed, file_target(framed, tmp_path))
    assert [disposition for disposition, _ in verdicts(found)] == expected
    assert typed_rows(found) == [{"a": 1}] * expected.count(GOOD)


def test_an_outage_in_a_worker_is_an_outage_here_and_no_bug(spark: SparkSession) -> None:
    rows = kafka_rows(spark, [b"\0\0\0\0\x07\x02", b"\0\0\0\0\x08\x02"])
    with pytest.raises(Unavailable, match="names a schema that was not registered when"), worker_errors():
        results(rows, plan("confluent-prefix", is_current=False))
