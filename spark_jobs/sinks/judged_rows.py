"""The Spark query that reads and judges a batch, for every sink; its `target` writes the accepted rows."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from tidegate.contracts.stream.ledger import Position, span
from tidegate.spark_jobs.sinks.sink import MicroBatch
from tidegate.spark_jobs.worker.part_writer import INPUT, RowTarget, judge_and_write
from tidegate.spark_jobs.worker.record_spool import RecordParts
from tidegate.spark_jobs.worker.request import JUDGED_AT
from tidegate.spark_jobs.worker.result_kinds import RESULT_TYPE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RECORDS_PER_TASK: Final = 25_000
"""Records per task. A smaller batch is judged in one task, which writes one file for several source partitions."""


def judged_rows(
    batch: MicroBatch,
    settled: Collection[Position],
    target: RowTarget,
    refused: RecordParts,
    tasks: int | None = None,
) -> DataFrame:
    """Judge the rows of a batch that are not settled; return a data frame with the schema RESULT_TYPE.

    `tasks` is the number of Spark tasks; by default it is derived from the number of offsets.
    """
    tasks = tasks or 1 + span(batch.start, batch.end) // _RECORDS_PER_TASK
    rows = without(batch.rows, settled) if settled else batch.rows
    work = judge_and_write(batch.plan, target, refused, batch.asked)
    columns = (*INPUT, JUDGED_AT) if batch.asked.is_replay else INPUT
    return rows.selectExpr(*columns).coalesce(tasks).mapInArrow(work, RESULT_TYPE)


def without(rows: DataFrame, left_out: Collection[Position]) -> DataFrame:
    """Return the source rows that are not at the positions of `left_out`, which must not be empty."""
    partitions, offsets = zip(*left_out, strict=True)
    positions = pa.table(
        {"partition": pa.array(partitions, pa.int32()), "offset": pa.array(offsets, pa.int64())}
    )
    known = rows.sparkSession.createDataFrame(positions)
    return rows.join(F.broadcast(known), ["partition", "offset"], "left_anti")
