"""Expiry of the snapshots that a stream writes to its Iceberg table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.sql import SparkSession

from benchmarks.table_growth import KEPT
from tests.integration.enforce.line import Line, row
from tests.integration.enforce.test_rolled_back import insert_by_hand, roll_back, snapshots
from tidegate.contracts.stream.ledger import Ledger
from tidegate.spark_jobs.sinks.iceberg.table import BRANCH, IcebergTable, table_name
from tidegate.spark_jobs.sinks.maintenance import MaintenanceRules, SnapshotRetention
from tidegate.spark_jobs.steps import Step

AT_ONCE = SnapshotRetention(most=2, protected_seconds=0)


def table_of(line: Line, retention: SnapshotRetention = AT_ONCE) -> IcebergTable:
    return IcebergTable(line.spark, table_name(line.contract_id), rules=MaintenanceRules(retention=retention))


def fill(line: Line, batches: int) -> None:
    """Write a batch of one row at a time; each attempt leaves two snapshots, that of its claim and that of its batch."""
    for number in range(batches):
        line.produce(row(number))
        line.enforce(snapshot_expiry=False)


@pytest.mark.full
def test_what_others_need_stays(line: Line) -> None:
    """Snapshots of others, of tags and branches, those that branches were made from, and what an attempt has staged."""
    name = table_name(line.contract_id)
    fill(line, 3)
    insert_by_hand(line, "by hand")
    fill_from = snapshots(line)
    foreign, tagged, branched = fill_from[-1], fill_from[0], fill_from[2]
    line.spark.sql(f"ALTER TABLE {name} CREATE TAG `kept` AS OF VERSION {tagged}")
    line.spark.sql(f"ALTER TABLE {name} CREATE BRANCH `audit` AS OF VERSION {branched}")
    line.spark.table(name).limit(1).writeTo(f"{name}.branch_audit").append()
    on_branch = snapshots(line)[-1]
    line.produce(row(3), row(5))
    line.enforce(snapshot_expiry=False)
    table = table_of(line)
    table.stage([])
    *_, claim, batch, staged = snapshots(line)
    before, found = snapshots(line), table.maintain()
    assert found is not None
    # The parent of a tag's snapshot stays too; the first snapshot has none.
    assert set(snapshots(line)) == {tagged, branched, foreign, on_branch, claim, batch, staged}
    assert (found.size.snapshots, found.snapshots) == (7, len(before) - 7)
    line.enforce()
    assert sorted(each["id"] for each in line.spark.table(name).select("id").collect()) == [
        "by hand", "r0", "r1", "r2", "r3", "r5",
    ]  # fmt: skip


def test_files_of_expired_snapshots_are_deleted_and_no_others(line: Line) -> None:
    fill(line, 4)
    folder = line.settings.warehouse / Path(*line.contract_id.split("."))
    before = {path.name for path in (folder / "data").iterdir()}
    table_of(line).maintain()
    left = snapshots(line)
    assert len(left) == 2
    lists = {path.name for path in (folder / "metadata").glob("snap-*.avro")}
    assert len(lists) == 2
    assert {path.name for path in (folder / "data").iterdir()} == before
    assert len(line.rows()) == 4
    line.produce(row(4))
    line.enforce()
    assert line.reconcile().holds


@pytest.mark.full
def test_files_that_merges_have_replaced_are_deleted(line: Line) -> None:
    """An upsert copies the file of a changed row: what no snapshot can reach takes room for ever otherwise."""
    line.contracts.plan = line.plan(primary_key=["id"])
    upserting = {"write_mode": "upsert", "snapshot_expiry": False}
    for amount in (1, 2, 3):
        line.produce(row(0, amount))
        line.enforce(**upserting)
    folder = line.settings.warehouse / Path(*line.contract_id.split(".")) / "data"
    table = IcebergTable(
        line.spark,
        table_name(line.contract_id),
        "copy-on-write",
        rules=MaintenanceRules(retention=SnapshotRetention(most=1, protected_seconds=0)),
    )
    table.maintain()
    assert [each["amount"] for each in line.rows()] == [3]
    # The head, and its parent: the claim before it, which still has the row of the batch before.
    assert len(snapshots(line)) == 2
    assert len(list(folder.glob("*.parquet"))) == 2


@pytest.mark.full
def test_young_snapshots_and_those_below_the_limits_stay(line: Line) -> None:
    fill(line, 3)
    found = snapshots(line)
    for retention in (
        SnapshotRetention(most=1, protected_seconds=3600),
        SnapshotRetention(most=6, protected_seconds=0),
        SnapshotRetention(is_on=False, most=1, protected_seconds=0),
    ):
        table_of(line, retention).maintain()
        assert snapshots(line) == found
    table_of(line, SnapshotRetention(most=6, age_seconds=1e-3, protected_seconds=0)).maintain()
    assert snapshots(line) == found[-2:]


@pytest.mark.full
def test_nothing_of_a_rolled_back_table_is_expired(line: Line) -> None:
    """What was rolled back may be wanted again."""
    fill(line, 4)
    found = snapshots(line)
    roll_back(line, found[1])
    table_of(line).maintain()
    assert snapshots(line) == found


@pytest.mark.full
def test_an_expiry_that_comes_between_costs_no_second_staging(line: Line, spark: SparkSession) -> None:
    """It changes the metadata that the publication has compared, and moves nothing."""
    fill(line, 3)
    expired: list[int] = []

    class Overtaken(IcebergTable):
        def _commit(self, *arguments: Any) -> bool:
            if not expired:
                before = len(snapshots(line))
                table_of(line).maintain()
                expired.append(before - len(snapshots(line)))
            return super()._commit(*arguments)

    table = Overtaken(spark, table_name(line.contract_id))
    held: Ledger = line.ledger()
    claimed = held.claim(1, "overtaken")
    assert table.publish(table.stage([], claimed), held, claimed) == claimed
    assert expired[0] > 0
    assert line.ledger() == claimed


def test_a_branch_that_somebody_drops_is_staged_again(line: Line) -> None:
    fill(line, 1)
    held = line.ledger()
    table = table_of(line)
    mark = table.stage([])
    line.spark.sql(f"ALTER TABLE {table_name(line.contract_id)} DROP BRANCH `{BRANCH}`")
    assert table.publish(mark, held, held.claim(1)) is None
    assert table.publish(table.stage([]), held, held.claim(1)) == held.claim(1)


@pytest.mark.full
def test_a_stream_maintains_its_table_and_reports_its_size(line: Line) -> None:
    """A backlog of one attempt is expired in the background of the next."""
    fill(line, 5)
    before = len(snapshots(line))
    line.produce(*(row(n) for n in range(10, 30)))
    line.reports.clear()
    line.enforce(max_offsets=4, snapshots_kept=2, snapshot_protected_seconds=0.0, maintenance_seconds=0.01)
    assert before == 10
    assert len(snapshots(line)) < before
    sizes = [each.table for each in line.reports if each.table is not None]
    assert sizes
    assert all(each.metadata_bytes and each.data_files and each.snapshots for each in sizes)
    assert len(line.rows()) == 25
    assert line.reconcile().holds


@pytest.mark.full
def test_full_batches_do_not_wait_for_the_trigger(line: Line) -> None:
    """With a trigger of an hour a backlog is written at once, and two records wait for two more."""
    line.produce(*(row(n) for n in range(12)))
    stopping = Event()

    def count(_stream: str, step: Step) -> None:
        if step is Step.COMMITTED and line.ledger().n == 3:
            line.produce(row(12), row(13))
            line.produce(row(14), row(15))
        if step is Step.COMMITTED and line.ledger().n == 4:
            stopping.set()

    line.attempt(count, available_now=False, trigger_seconds=3600.0, max_offsets=4).run(stopping, Event())
    assert [each.records for each in line.reports] == [4, 4, 4, 4]
    assert len(line.rows()) == 16


@pytest.mark.full
def test_a_backlog_of_a_day_is_expired_and_does_not_come_back(tmp_path: Path) -> None:
    """130,000 snapshots, and then 2,000 commits beside the maintenance, in a driver of the default size."""
    out = tmp_path / "figures.json"
    command = [sys.executable, "-m", "benchmarks.table_growth", "--out", str(out)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr[-2000:]
    figures = {each["name"]: each for each in json.loads(out.read_text())}
    assert figures["snapshots_after_expiry"]["baseline"] == 130_000
    # Those that are kept, and what branches and tags need beside them.
    assert figures["snapshots_after_expiry"]["figure"] <= KEPT + 4
    assert figures["metadata_after_expiry"]["baseline"] > 100
    assert figures["metadata_after_expiry"]["figure"] < 0.5
    assert figures["heap_after_expiry"]["figure"] < 250  # MB of 2,048, measured 80: the backlog is let go of
    # Of processor time, and of one run: what else the machine does counts for neither the first nor the last.
    assert figures["commit_after_backlog_last_over_first_processor"]["ratio"] <= 1.5
