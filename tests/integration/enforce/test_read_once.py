"""Kafka is read once for a batch and the judge runs once for a record: counted where it happens."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any, cast
from uuid import UUID

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from tests.integration.enforce.checker import require_exactly_once
from tests.integration.enforce.line import KNOWN, Line, row
from tests.marks import full
from tidegate.contracts.columns.table_limits import TableLimits
from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.spark_jobs.job.source import read_topic

RECORDS = 60
DEADLINE_SECONDS = 60

# The workers know nothing of this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class CountingPlan:
    """A plan that notes in a file how many values it is given to judge, in whichever process."""

    def __init__(self, plan: EnforcementPlan, notes: Path) -> None:
        self._plan = plan
        self._notes = notes

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # asked for while it is unpickled
            raise AttributeError(name)
        return getattr(self._plan, name)

    def with_now(self, now: int) -> CountingPlan:
        return CountingPlan(self._plan.with_now(now), self._notes)

    def for_table(self, limits: TableLimits) -> CountingPlan:
        return CountingPlan(self._plan.for_table(limits), self._notes)

    def judge(self, values: pa.Array, *beside: Any) -> pa.StructArray:
        self._note(len(values))
        return self._plan.judge(values, *beside)

    def judge_typed(self, values: pa.Array, *beside: Any) -> pa.StructArray:
        self._note(len(values))
        return self._plan.judge_typed(values, *beside)

    def _note(self, count: int) -> None:
        file = os.open(self._notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, b"%d\n" % count)
        os.close(file)


class InputRows(StreamingQueryListener):
    """Sums up how many rows Spark says that it has read, over all batches of the queries that it saw starting.

    Events come late: the end of the query before may come when the next one runs.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.ended = Event()
        self._runs: set[UUID] = set()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        self._runs.add(event.runId)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        if event.progress.runId in self._runs:
            self.rows += event.progress.numInputRows

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        if event.runId in self._runs:
            self.ended.set()


@pytest.fixture
def rows_read(spark: SparkSession) -> Callable[[Callable[[], object]], int]:
    """Return a function that runs one query and returns the number of rows that Spark has read for it."""

    def count(run: Callable[[], object]) -> int:
        listener = InputRows()
        spark.streams.addListener(listener)
        try:
            run()
            assert listener.ended.wait(DEADLINE_SECONDS)
        finally:
            spark.streams.removeListener(listener)
        return listener.rows

    return count


def count_judged(line: Line, notes: Path, **changes: object) -> None:
    line.contracts.plan = cast("EnforcementPlan", CountingPlan(line.plan(**changes), notes))


def judged(notes: Path) -> int:
    return sum(map(int, notes.read_text().split()))


def test_the_measure_notices_a_second_read(
    line: Line, rows_read: Callable[..., int], spark: SparkSession, tmp_path: Path
) -> None:
    """What the job would do without holding its batch."""
    line.produce(*(row(n) for n in range(RECORDS)))

    def read_twice(rows: DataFrame, _batch_id: int) -> None:
        for _ in range(2):
            rows.write.format("noop").mode("append").save()

    def run() -> None:
        topic = read_topic(spark, line.settings, line.topic, {0: 0, 1: 0})
        writer = topic.writeStream.foreachBatch(read_twice).option("checkpointLocation", str(tmp_path / "c"))
        writer.trigger(availableNow=True).start().awaitTermination()

    assert rows_read(run) == 2 * RECORDS


@pytest.mark.parametrize("sink", ["iceberg", *full("kafka")])
def test_each_record_is_read_and_judged_once(
    make_line: Callable[..., Line], rows_read: Callable[..., int], tmp_path: Path, sink: str
) -> None:
    """In several batches, with records of every disposition: the table and the quarantine are written from one look."""
    line = make_line(sink=sink, max_offsets=25)
    dropped = {**KNOWN, "id": "drop-zero", "values": [0], "on_violation": "drop"}
    warned = {**KNOWN, "id": "warn-seven", "values": [7], "severity": "warning"}
    count_judged(line, tmp_path / "notes", rules=[KNOWN, dropped, warned])
    line.produce(*(row(n, {1: 999, 2: 0, 3: 7}.get(n % 5, 1)) for n in range(RECORDS)))
    assert rows_read(line.enforce) == RECORDS
    assert judged(tmp_path / "notes") == RECORDS
    assert len(line.reports) == 3
    assert line.reconcile().holds
    assert line.ledger().totals.offsets == RECORDS


@pytest.mark.parametrize("sink", ["iceberg", *full("kafka")])
def test_batches_are_bounded_in_bytes_and_each_record_is_judged_once(
    make_line: Callable[..., Line], tmp_path: Path, sink: str
) -> None:
    """Spark offers all of them at once. The first batches are small, because the size of records is not known yet."""
    line = make_line(sink=sink, max_batch_bytes=100_000)
    count_judged(line, tmp_path / "notes")
    sent = [row(n, 999 if n % 3 == 0 else 1, id=f"r{n}-" + "x" * 5_000) for n in range(RECORDS)]
    line.produce(*sent)
    line.enforce()
    assert judged(tmp_path / "notes") == RECORDS
    size = max(len(each.value or b"") + len(each.key or b"") for each in sent)
    largest = 100_000 // size
    assert line.reports[0].records <= 4
    assert all(report.records <= largest for report in line.reports)
    assert len(line.reports) <= 1 + -(-RECORDS // (largest - 1))  # a share is rounded down in each partition
    require_exactly_once(line)


def last_job(spark: SparkSession) -> int:
    """Return the number of the last job that Spark has begun."""
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    return max(jobs.apply(index).jobId() for index in range(jobs.size()))


@pytest.mark.full
@pytest.mark.parametrize("sink", ["kafka", pytest.param("iceberg", marks=pytest.mark.full)])
def test_compiled_expectations_ask_for_no_job_and_no_second_look(
    make_line: Callable[..., Line], spark: SparkSession, tmp_path: Path, sink: str
) -> None:
    """Ten of them, noted while the records are judged; Great Expectations is not asked."""
    line = make_line(sink=sink, expectations_proof_every=0)
    bounds = {"column": "amount", "min_value": 0, "max_value": 30}
    kinds = ("mean", "min", "max", "sum", "stdev")
    expectations = [
        {"id": f"{kind}-{index}", "type": f"expect_column_{kind}_to_be_between", "kwargs": bounds}
        for kind in kinds
        for index in range(2)
    ]
    asked = []
    noted = {"expectations": [{**each, "on_violation": "alert"} for each in expectations]}
    first = [{}] if sink == "iceberg" else []  # makes the table
    for number, changes in enumerate([*first, {}, noted]):
        notes = tmp_path / f"notes-{number}"
        count_judged(line, notes, **changes)
        line.produce(*(row(n) for n in range(RECORDS)))
        before = last_job(spark)
        line.enforce()
        asked.append(last_job(spark) - before)
        assert judged(notes) == RECORDS
    assert [len(report.expectations) for report in line.reports][-2:] == [0, 10]
    assert asked[-1] == asked[-2], asked


def test_a_batch_that_stops_the_stream_is_read_and_judged_once(
    line: Line, rows_read: Callable[..., int], tmp_path: Path
) -> None:
    """Although it is looked at a second time, for the first record that must not pass."""
    count_judged(line, tmp_path / "notes", rules=[{**KNOWN, "on_violation": "fail"}])
    line.produce(*(row(n, 999 if n > RECORDS // 2 else 1) for n in range(RECORDS)))

    def run() -> None:
        with pytest.raises(StreamStopped, match=f"partition 0, offset {RECORDS // 4 + 1} "):
            line.enforce()

    # Spark reports no rows of a batch whose query is stopped before the report; a second read would make it twice as many.
    assert rows_read(run) in {0, RECORDS}
    assert judged(tmp_path / "notes") == RECORDS
