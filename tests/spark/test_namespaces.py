"""Streams that start at once make one namespace of the catalog together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from pyspark.sql import SparkSession

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.judge.plan import compile_plan
from tidegate.spark_jobs.sinks.iceberg.table import IcebergTable, table_name

STREAMS = 4


def test_streams_that_start_at_once_share_a_new_namespace(spark: SparkSession) -> None:
    plan = compile_plan(
        DataContract.model_validate(
            {
                "apiVersion": "tidegate/v1",
                "kind": "DataContract",
                "id": "a.b",
                "version": "1.0.0",
                "topic": "t",
                "schema": {"type": "json-schema", "definition": {"properties": {"n": {"type": "integer"}}}},
            }
        )
    )
    ready = Barrier(STREAMS)

    def start(name: str) -> list[str]:
        table = IcebergTable(spark, name)
        ready.wait(timeout=60)
        table.ensure(plan)
        return spark.table(name).columns

    with ThreadPoolExecutor(STREAMS) as pool:
        for attempt in range(2):
            names = [table_name(f"raced{attempt}.t{number}") for number in range(STREAMS)]
            assert list(pool.map(start, names)) == [["n", "_source", "_contract"]] * STREAMS
