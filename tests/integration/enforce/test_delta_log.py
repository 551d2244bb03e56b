"""Cleanup of the log of a Delta table: which versions go, which stay, and that the stream goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.enforce.checker import require_exactly_once
from tests.integration.enforce.line import Line, row
from tests.integration.enforce.test_maintenance import QUIET, fill
from tidegate.spark_jobs.sinks.delta.table import DeltaTable
from tidegate.spark_jobs.sinks.maintenance import MaintenanceRules, SnapshotRetention

AT_ONCE = SnapshotRetention(most=1, protected_seconds=0)

pytestmark = pytest.mark.full


@pytest.fixture
def line(make_line: Callable[..., Line]) -> Line:
    """A line into Delta whose table has a few versions, and a checkpoint in the middle."""
    made = make_line(sink="delta")
    fill(made, 4)
    make_checkpoint(made)
    fill(made, 2)
    return made


def make_checkpoint(line: Line) -> int:
    """Write a checkpoint of the newest version; return the version."""
    table = line.delta()
    version = int(table._snapshot().version())
    table._log().checkpoint()
    return version


def table_of(line: Line, retention: SnapshotRetention = AT_ONCE) -> DeltaTable:
    rules = MaintenanceRules(min_files=4, orphan_age_seconds=0, retention=retention)
    return DeltaTable(line.spark, f"file://{line.delta().name}", line.settings.merging, rules)


def log_files(line: Line) -> set[str]:
    return {path.name for path in Path(line.delta().name, "_delta_log").iterdir() if path.is_file()}


def versions(line: Line) -> list[int]:
    return sorted(int(name[:20]) for name in log_files(line) if name[0] != "." and name.endswith(".json"))


def set_property(line: Line, name: str, value: str) -> None:
    line.spark.sql(f"ALTER TABLE delta.`{line.delta().name}` SET TBLPROPERTIES ('{name}' = '{value}')")


def insert_by_hand(line: Line, name: str) -> None:
    rows = line.spark.createDataFrame([(name,)], "id string")
    rows.write.format("delta").mode("append").save(line.delta().name)


def test_versions_before_a_checkpoint_are_removed_and_the_stream_goes_on(line: Line) -> None:
    before, rows = versions(line), line.rows()
    (checkpoint,) = (
        int(name[:20]) for name in log_files(line) if name.endswith(".checkpoint.parquet") and name[0] != "."
    )
    found = table_of(line).maintain()
    assert found is not None
    assert found.snapshots == checkpoint - before[0] > 0
    assert versions(line) == [each for each in before if each >= checkpoint]
    assert found.size.snapshots == len(versions(line))
    assert not {
        name
        for name in log_files(line)
        if name.lstrip(".")[:20].isdigit() and int(name.lstrip(".")[:20]) < checkpoint
    }
    line.delta()._delta.DeltaLog.clearCache()
    assert line.rows() == rows
    again = table_of(line).maintain()
    assert again is not None
    assert again.snapshots == 0
    line.produce(row(100))
    line.enforce(**QUIET)
    require_exactly_once(line)
    assert line.reconcile().holds


@pytest.mark.parametrize(
    "retention",
    [
        SnapshotRetention(is_on=False, most=1, protected_seconds=0),
        SnapshotRetention(most=1, protected_seconds=3600),
        SnapshotRetention(most=6, protected_seconds=0),
    ],
    ids=["off", "protected", "few"],
)
def test_the_settings_keep_versions(line: Line, retention: SnapshotRetention) -> None:
    before = versions(line)
    found = table_of(line, retention).maintain()
    assert found is not None
    assert found.snapshots == 0
    assert versions(line) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("delta.logRetentionDuration", "interval 7 days"),
        ("delta.enableExpiredLogCleanup", "false"),
        ("delta.enableChangeDataFeed", "true"),
    ],
)
def test_the_owner_of_the_table_can_keep_its_log(line: Line, name: str, value: str) -> None:
    set_property(line, name, value)
    before = versions(line)
    found = table_of(line).maintain()
    assert found is not None
    assert found.snapshots == 0
    assert versions(line) == before
    fill(line, 1)
    line.spark.sql(f"ALTER TABLE delta.`{line.delta().name}` UNSET TBLPROPERTIES ('{name}')")
    fill(line, 1)
    found = table_of(line).maintain()
    assert found is not None
    assert found.snapshots > 0


def test_the_commit_of_the_ledger_stays_whatever_others_commit(line: Line) -> None:
    newest = versions(line)[-1]
    insert_by_hand(line, "one")
    insert_by_hand(line, "two")
    make_checkpoint(line)
    insert_by_hand(line, "three")
    found = table_of(line).maintain()
    assert found is not None
    assert newest in versions(line)
    line.delta()._delta.DeltaLog.clearCache()
    line.produce(row(100))
    line.enforce(**QUIET)
    assert line.reconcile().holds


def test_a_log_that_no_longer_has_the_ledgers_commit_is_left_to_delta(line: Line) -> None:
    insert_by_hand(line, "one")
    checkpoint = make_checkpoint(line)
    insert_by_hand(line, "two")
    for path in Path(line.delta().name, "_delta_log").iterdir():
        if path.is_file() and (number := path.name.lstrip(".")[:20]).isdigit() and int(number) < checkpoint:
            path.unlink()
    before = versions(line)
    found = table_of(line).maintain()
    assert found is not None
    assert (found.snapshots, versions(line)) == (0, before)


def test_a_restored_table_keeps_the_versions_that_repair_it(line: Line) -> None:
    before = versions(line)
    line.spark.sql(f"RESTORE TABLE delta.`{line.delta().name}` TO VERSION AS OF {before[-3]}")
    make_checkpoint(line)
    found = table_of(line).maintain()
    assert found is not None
    assert found.snapshots == 0
    assert versions(line) == [*before, before[-1] + 1]


def test_replaced_files_are_deleted_though_the_log_no_longer_names_them(line: Line) -> None:
    table_of(line).compact()
    fill(line, 1)
    make_checkpoint(line)
    fill(line, 2)
    found = table_of(line).maintain()
    assert found is not None
    assert found.snapshots > 0
    rows = line.rows()
    set_property(line, "delta.deletedFileRetentionDuration", "interval 0 seconds")
    removed = table_of(line).remove_orphans()
    assert removed is not None
    assert removed.replaced_files > 0
    named = len(line.spark.read.format("delta").load(line.delta().name).inputFiles())
    assert len(list(Path(line.delta().name).glob("*.parquet"))) == named
    assert line.rows() == rows
    assert line.reconcile().holds
