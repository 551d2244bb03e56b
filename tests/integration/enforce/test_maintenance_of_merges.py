"""Maintenance of a table whose rows are merged: compactions and merges that want the same files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.enforce.line import Line, Sent, row
from tests.integration.enforce.running import eventually
from tests.integration.enforce.test_maintenance import QUIET, SMALL, fill, open_table
from tests.marks import full
from tidegate.spark_jobs.settings import MergeMode
from tidegate.spark_jobs.sinks.iceberg.compaction import Compaction
from tidegate.spark_jobs.sinks.iceberg.history import COMPACTED
from tidegate.spark_jobs.sinks.iceberg.table import IcebergTable, table_name
from tidegate.spark_jobs.steps import Step


def upserting(make_line: Callable[..., Line], sink: str, mode: MergeMode) -> Line:
    line = make_line(sink=sink, write_mode="upsert", merge_mode=mode)
    line.contracts.plan = line.plan(primary_key=["id"])
    return line


@pytest.mark.full
@pytest.mark.parametrize("mode", ["copy-on-write", *full("merge-on-read")])
def test_a_merge_that_replaces_files_of_a_compaction_makes_it_smaller(
    make_line: Callable[..., Line], mode: MergeMode
) -> None:
    """The plan is of a snapshot whose rows a MERGE has replaced and deleted before the compaction commits."""
    line = upserting(make_line, "iceberg", mode)
    fill(line, 6)
    planned: list[int] = []

    class Overtaken(Compaction):
        def _rewrite_data(self, table: Any, level: Any, most: int) -> Any:
            planned.append(most)
            if len(planned) == 1:
                line.produce(
                    *(row(n, 1000 + n) for n in range(0, 24, 2)), Sent(None, b"0"), Sent(None, b"5", 1)
                )
                line.enforce(**QUIET)
            return super()._rewrite_data(table, level, most)

    class Table(IcebergTable):
        def _compaction(self) -> Compaction:
            return Overtaken(self._spark, self.name, self._quoted, self._rules)

    Table(line.spark, table_name(line.contract_id), mode, rules=SMALL).compact()
    assert len(planned) >= 2
    assert planned[1] < planned[0]
    amounts = {each["id"]: each["amount"] for each in line.rows()}
    assert amounts == {f"r{n}": n if n % 2 else 1000 + n for n in range(24)}
    assert line.reconcile().holds
    fill(line, 1)
    assert line.reconcile().holds


@pytest.mark.full
@pytest.mark.parametrize("sink", ["iceberg", *full("delta")])
@pytest.mark.parametrize("mode", ["merge-on-read", *full("copy-on-write")])
def test_rows_that_were_deleted_stay_deleted(
    make_line: Callable[..., Line], sink: str, mode: MergeMode
) -> None:
    line = upserting(make_line, sink, mode)
    fill(line, 6)
    for amount in range(5):
        line.produce(*(row(n, 2000 + amount) for n in range(amount, 24, 3)))
        line.enforce(**QUIET)
    rows = line.rows()
    open_table(line).compact()
    assert line.rows() == rows
    assert len(rows) == 24
    assert line.reconcile().holds
    line.produce(row(1, 5))
    line.enforce(**QUIET)
    assert [each["amount"] for each in line.rows() if each["id"] == "r1"] == [5]
    assert line.reconcile().holds


@pytest.mark.full
def test_a_stream_of_merges_and_its_compaction_both_make_progress(
    make_line: Callable[..., Line],
) -> None:
    """Each batch merges into the rows of those before; at some commits the stream waits for one compaction more."""
    line = upserting(make_line, "iceberg", "merge-on-read")
    line.produce(*(row(n % 12, n) for n in range(100)))
    marked = f"summary['{COMPACTED}'] = 'true'"
    found: list[int] = []
    waited: list[int] = []

    def compactions() -> int:
        return line.spark.table(f"{table_name(line.contract_id)}.snapshots").where(marked).count()

    def wait(_stream: str, step: Step) -> None:
        if step is Step.COMMITTED:
            found.append(compactions())
            if len(found) in {8, 14, 20}:
                eventually(lambda: compactions() > len(waited))
                waited.append(compactions())

    line.enforce(wait, max_offsets=4, compaction_min_files=4, maintenance_seconds=0.01, snapshots_kept=500)
    assert len(found) == 25
    assert len(waited) == 3
    told = line.reports[-1].maintenance
    assert told is not None
    assert told.failures == 0
    newest = {n % 12: n for n in range(100)}
    assert {each["id"]: each["amount"] for each in line.rows()} == {f"r{k}": n for k, n in newest.items()}
    assert line.reconcile().holds


@pytest.mark.full
@pytest.mark.parametrize("sink", ["iceberg", "delta"])
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_merges_that_never_wait_and_compactions_make_progress(
    make_line: Callable[..., Line], sink: str, mode: MergeMode
) -> None:
    """Each batch adds rows, and replaces one of an earlier batch. The next batch begins as soon as one has ended."""
    line = upserting(make_line, sink, mode)
    line.produce(*(row(n if n % 4 else n % 16, n) for n in range(80)))
    line.enforce(max_offsets=4, compaction_min_files=4, maintenance_seconds=0.01)
    done = line.reports[-1].maintenance
    assert done is not None
    assert done.failures == 0
    assert done.files_compacted >= 8
    newest = {f"r{n if n % 4 else n % 16}": n for n in range(80)}
    assert {each["id"]: each["amount"] for each in line.rows()} == newest
    assert line.reconcile().holds
