"""A Spark job of its own, which may try its tasks again: each first one is lost after its transaction was committed.

Takes from its standard input, pickled: the SlotTarget, and packed records.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from tidegate.spark_jobs.worker.task_slots import WRITTEN_DDL, SlotTarget, write_packed


def main() -> None:
    """Write the records."""
    target: SlotTarget
    target, packed = pickle.load(sys.stdin.buffer)  # noqa: S301 - the test beside this file has written it
    write = write_packed(target)

    def lost_once(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written = list(write(batches))
        task = TaskContext.get()
        if task is not None and task.attemptNumber() == 0:
            raise OSError("the executor is lost, and what it has committed is there")
        yield from written

    settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.log.level": "OFF"}
    builder = SparkSession.builder.master("local[1,3]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    rows = spark.createDataFrame([(packed,)], "kept binary").coalesce(1)
    (row,) = rows.mapInArrow(lost_once, WRITTEN_DDL).collect()
    print(row.records)  # noqa: T201 - the answer
    spark.stop()


if __name__ == "__main__":
    main()
