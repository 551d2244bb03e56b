"""The files that the workers write, as the table's readers see them: Spark, PyIceberg, and the folder itself."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.integration.enforce.line import KNOWN, SCHEMA, Line, Sent, row
from tests.marks import full
from tidegate.contracts.errors import StreamStopped
from tidegate.spark_jobs.sinks.iceberg.catalogs import open_table
from tidegate.spark_jobs.sinks.iceberg.table import table_name
from tidegate.spark_jobs.steps import Step

WIDE: dict[str, Any] = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "string"},
        "price": {"type": "number"},
        "charge": {"type": "number"},
        "huge": {"type": "number"},
        "day": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "flag": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "place": {"type": "object", "properties": {"country": {"type": "string"}}},
    },
}
COLUMNS = [
    {"name": "id", "from": "/id", "type": "string"},
    {"name": "price", "from": "/price", "type": "double"},
    {"name": "charge", "from": "/charge", "type": "decimal(12,2)"},
    {"name": "huge", "from": "/huge", "type": "decimal(38,0)"},
    {"name": "day", "from": "/day", "type": "date"},
    {"name": "at", "from": "/at", "type": "timestamp"},
    {"name": "flag", "from": "/flag", "type": "boolean"},
    {"name": "tags", "from": "/tags", "type": "json"},
    {"name": "country", "from": "/place/country", "type": "string"},
]


def data_files(line: Line) -> set[Path]:
    """Every data file in the table's folder, known to the table or not."""
    table = open_table(line.settings, line.contract_id)
    return set(Path(table.location().removeprefix("file:")).resolve().glob("data/**/*.parquet"))


def test_every_column_type_reads_the_same_in_spark_and_in_pyiceberg(line: Line, spark: SparkSession) -> None:
    line.contracts.plan = line.plan(
        schema={"type": "json-schema", "definition": WIDE}, columns=COLUMNS, rules=[]
    )
    line.produce(
        Sent(
            b'{"id": "a", "price": 0.5, "charge": 12345678.91, "huge": 12345678901234567890123456789012345678,'
            b' "day": "1600-02-29", "at": "2024-02-29T23:30:00.123456+01:00", "flag": true, "tags": ["x", "y"],'
            b' "place": {"country": "GB", "undeclared": 1}}'
        ),
        Sent(b'{"id": "b"}', partition=1),
    )
    line.enforce()
    full = {
        "id": "a",
        "price": 0.5,
        "charge": Decimal("12345678.91"),
        "huge": Decimal(12345678901234567890123456789012345678),
        "day": date(1600, 2, 29),
        "at": datetime(2024, 2, 29, 22, 30, 0, 123456, tzinfo=UTC),
        "flag": True,
        "tags": '["x","y"]',
        "country": "GB",
    }
    empty = {**dict.fromkeys(full), "id": "b"}
    assert [{name: each[name] for name in full} for each in line.rows()] == [full, empty]
    by_spark = spark.table(table_name(line.contract_id)).orderBy("id").select(*full).toArrow().to_pylist()
    assert by_spark == [full, empty]


def test_the_table_knows_the_bounds_of_its_files(line: Line, spark: SparkSession) -> None:
    line.produce(row(0, 5), row(2, 9), row(4, 7))
    line.enforce()
    (file,) = spark.table(f"{table_name(line.contract_id)}.files").collect()
    assert file["record_count"] == 3
    metrics = file["readable_metrics"]["amount"]
    assert (metrics["lower_bound"], metrics["upper_bound"], metrics["null_value_count"]) == (5, 9, 0)
    assert spark.table(table_name(line.contract_id)).where("amount > 100").count() == 0


def test_a_partitioned_table_gets_its_rows_where_it_wants_them(line: Line, spark: SparkSession) -> None:
    line.enforce()
    name = table_name(line.contract_id)
    spark.sql(f"ALTER TABLE {name} ADD PARTITION FIELD day")
    line.produce(row(0, day="2024-01-01"), row(1, day="2024-01-02"), row(2, 999), row(3, day="2024-01-01"))
    line.enforce()
    partitions = (
        spark.table(f"{name}.partitions").select("partition.day", "record_count").orderBy("day").collect()
    )
    assert [tuple(each) for each in partitions] == [(date(2024, 1, 1), 2), (date(2024, 1, 2), 1)]
    assert line.reconcile().holds
    known = {Path(each.file.file_path.removeprefix("file:")).resolve() for each in tasks(line)}
    assert data_files(line) == known


@pytest.mark.parametrize("change", ["ADD PARTITION FIELD day", *full("WRITE ORDERED BY amount")])
def test_files_stay_if_the_table_is_partitioned_or_sorted_while_they_are_published(
    line: Line, spark: SparkSession, change: str
) -> None:
    """They were appended as they are. Deleted afterwards, as for a table that sorts, their rows would be lost."""
    line.enforce()
    line.produce(row(0, day="2024-01-01"), row(1, day="2024-01-02"))
    changed = []

    def change_meanwhile(_stream: str, step: Step) -> None:
        if step is Step.STAGE and not changed:
            changed.append(step)
            spark.sql(f"ALTER TABLE {table_name(line.contract_id)} {change}")

    line.enforce(change_meanwhile)
    assert changed
    assert [each["id"] for each in line.rows()] == ["r0", "r1"]
    line.produce(row(2, day="2024-01-02"))
    line.enforce()
    assert line.reconcile().holds
    known = {Path(each.file.file_path.removeprefix("file:")).resolve() for each in tasks(line)}
    assert data_files(line) == known


def test_a_batch_that_is_stopped_leaves_no_file(line: Line) -> None:
    line.contracts.plan = line.plan(rules=[{**KNOWN, "on_violation": "fail"}])
    line.enforce()
    line.produce(row(0), row(1), row(2, 999))
    with pytest.raises(StreamStopped):
        line.enforce()
    assert line.rows() == []
    assert data_files(line) == set()


def test_a_table_that_has_more_columns_than_the_contract_gets_nulls_there(line: Line) -> None:
    line.produce(row(0, 1, day="2024-01-01"))
    line.enforce()
    narrow = {**SCHEMA, "properties": {name: SCHEMA["properties"][name] for name in ("id", "amount")}}
    line.contracts.plan = line.plan(version="2.0.0", schema={"type": "json-schema", "definition": narrow})
    line.produce(row(2, 2))
    line.enforce()
    assert [(each["id"], each["day"]) for each in line.rows()] == [("r0", date(2024, 1, 1)), ("r2", None)]


def tasks(line: Line) -> list[Any]:
    return list(open_table(line.settings, line.contract_id).scan().plan_files())
