"""Judge records in Python workers with the function of the job, and return their verdicts in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.spark_jobs.worker.part_writer import INPUT, FileTarget, RowTarget, judge_and_write
from tidegate.spark_jobs.worker.record_spool import Packing, RecordTarget
from tidegate.spark_jobs.worker.result_kinds import (
    RESULT_TYPE,
    AcceptedPart,
    RecordCount,
    read_results,
)

_SOURCE = pa.struct(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def kafka_rows(
    spark: SparkSession,
    values: Sequence[bytes | None],
    headers: Sequence[list[dict[str, Any]] | None] | None = None,
    timestamps: Sequence[Any] | None = None,
) -> DataFrame:
    """Return records as Spark reads them from Kafka, each in a source partition of its own."""
    many = len(values)
    table = pa.table(
        {
            "partition": pa.array(range(many), pa.int32()),
            "offset": pa.array([0] * many, pa.int64()),
            "timestamp": pa.array(timestamps or [0] * many, pa.timestamp("us", "UTC")),
            "key": pa.nulls(many, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.array(headers or [None] * many, _HEADERS),
        }
    )
    return spark.createDataFrame(table).repartition(3)


def results(rows: DataFrame, plan: EnforcementPlan, target: RowTarget | None = None) -> pa.Table:
    """Judge records as the job does; return rows of RESULT."""
    work = judge_and_write(plan, target or RecordTarget(Packing()), Packing())
    return rows.selectExpr(*INPUT).mapInArrow(work, RESULT_TYPE).toArrow()


def verdicts(found: pa.Table) -> Iterator[tuple[int, bytes | None]]:
    """Yield disposition and failed slots of each record of `kafka_rows`."""
    for each in sorted(read_results(found, RecordCount), key=lambda each: each.partition):
        yield each.disposition, each.failed


def file_target(plan: EnforcementPlan, folder: Path) -> FileTarget:
    """Return the target that writes typed columns to Parquet files in a folder."""
    schema = pa.schema([*plan.columns, ("_source", _SOURCE), ("_contract", pa.string())])
    return FileTarget(f"{folder}/rows", schema, "t", plan.name, "zstd", {})


def typed_rows(found: pa.Table) -> list[dict[str, Any]]:
    """Return the typed columns of the accepted records, in order, of records that went to a `file_target`."""
    files = [pq.read_table(part.name) for part in read_results(found, AcceptedPart)]
    rows = sorted(pa.concat_tables(files).to_pylist(), key=lambda row: row["_source"]["partition"])
    return [{name: value for name, value in row.items() if not name.startswith("_")} for row in rows]
