"""Maintenance of a stream's table: small files, delete files, manifests, and orphans of crashed attempts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.integration.enforce.checker import require_exactly_once
from tests.integration.enforce.faults import Publish, StartJob, kill_after
from tests.integration.enforce.faults import fill as fill_source
from tests.integration.enforce.job import RunningJob
from tests.integration.enforce.line import Line, environment, row
from tests.integration.enforce.registry import Registry
from tests.integration.enforce.running import eventually
from tests.integration.enforce.test_rolled_back import (
    expire_all,
    insert_by_hand,
    roll_back,
    snapshots,
    with_two_batches,
)
from tests.marks import full
from tidegate.contracts.errors import NotFoundError, SettingsError
from tidegate.gateway.embedded.jars import Jars
from tidegate.spark_jobs.sinks.delta.table import DeltaTable
from tidegate.spark_jobs.sinks.iceberg.history import COMPACTED
from tidegate.spark_jobs.sinks.iceberg.table import IcebergTable, table_name
from tidegate.spark_jobs.sinks.maintain import maintain_table, maintained_text
from tidegate.spark_jobs.sinks.maintenance import Compacted, MaintenanceRules, Orphans, SnapshotRetention
from tidegate.spark_jobs.sinks.upkeep import Upkeep
from tidegate.spark_jobs.steps import Step

SMALL = MaintenanceRules(min_files=4, orphan_age_seconds=0)
QUIET: dict[str, Any] = {"compaction": False, "snapshot_expiry": False}
"""Settings of a job whose table is left to the test."""


def open_table(line: Line, rules: MaintenanceRules = SMALL) -> IcebergTable | DeltaTable:
    if line.settings.sink == "delta":
        location = f"file://{line.delta().name}"
        return DeltaTable(line.spark, location, line.settings.merging, rules)
    return IcebergTable(line.spark, table_name(line.contract_id), line.settings.merging, rules=rules)


def fill(line: Line, batches: int, **settings: Any) -> None:
    """Write so many batches of four rows each, one file or more a batch."""
    first = len(line.rows()) if line.reports else 0
    line.produce(*(row(first + n, first + n, day="2024-05-17") for n in range(4 * batches)))
    line.enforce(max_offsets=4, **{**QUIET, **settings})


def data_files(line: Line) -> int:
    """Return how many data files the newest version of the table has."""
    if line.settings.sink == "delta":
        return len(line.spark.read.format("delta").load(line.delta().name).inputFiles())
    return line.spark.table(f"{table_name(line.contract_id)}.data_files").count()


def read_version(line: Line, version: int) -> int:
    """Read all columns of the rows of an older version; return how many there are."""
    if line.settings.sink == "delta":
        found = line.spark.read.format("delta").option("versionAsOf", version).load(line.delta().name)
    else:
        found = line.spark.read.option("versionAsOf", version).table(table_name(line.contract_id))
    return len(found.collect())


def newest_version(line: Line) -> int:
    if line.settings.sink == "delta":
        return int(line.delta()._snapshot().version())
    return snapshots(line)[-1]


@pytest.mark.parametrize("sink", ["iceberg", *full("delta")])
def test_small_files_become_few_and_no_row_changes(make_line: Callable[..., Line], sink: str) -> None:
    """Every value stays as it was, `_source` too; a reader of an older version still finds its files."""
    line = make_line(sink=sink)
    fill(line, 6)
    rows, before, version = line.rows(), data_files(line), newest_version(line)
    assert before >= 6
    compacted = open_table(line).compact()
    assert compacted is not None
    assert compacted.files == before
    assert compacted.bytes > 0
    assert data_files(line) == 1
    assert line.rows() == rows
    assert read_version(line, version) == len(rows)
    assert line.reconcile().holds
    assert open_table(line).compact() == Compacted()
    fill(line, 1)
    assert len(line.rows()) == len(rows) + 4
    assert line.reconcile().holds
    require_exactly_once(line)


@pytest.mark.parametrize("sink", ["iceberg", *full("delta")])
def test_too_few_files_and_switched_off_are_left_alone(make_line: Callable[..., Line], sink: str) -> None:
    line = make_line(sink=sink)
    fill(line, 2)
    before = data_files(line)
    assert open_table(line, MaintenanceRules(min_files=before + 1)).compact() == Compacted()
    assert open_table(line, MaintenanceRules(min_files=2, compacts=False)).compact() is None
    assert data_files(line) == before


@pytest.mark.full
def test_a_round_takes_a_bounded_number_of_files(line: Line) -> None:
    fill(line, 5)
    before = data_files(line)
    compacted = open_table(line, MaintenanceRules(min_files=4, max_files=3)).compact()
    assert compacted is not None
    assert compacted.files == 3
    assert data_files(line) == before - 2


def pairing(folder: Path) -> MaintenanceRules:
    """Return rules by which two of the data files of a folder make one of full size."""
    largest = max(path.stat().st_size for path in folder.glob("*.parquet"))
    return MaintenanceRules(min_files=4, target_bytes=2 * largest)


@pytest.mark.full
def test_a_round_takes_a_bounded_number_of_bytes(line: Line) -> None:
    fill(line, 12)
    before = data_files(line)
    rules = pairing(line.settings.warehouse / Path(*line.contract_id.split(".")) / "data")
    compacted = open_table(line, rules).compact()
    assert compacted is not None
    assert compacted.files == rules.levels[-1].most_files < before
    assert compacted.bytes <= 8 * rules.target_bytes
    assert data_files(line) == before - compacted.files // 2  # each task reads as much as one file holds


@pytest.mark.full
def test_a_commit_of_optimize_takes_a_bounded_number_of_bytes(
    make_line: Callable[..., Line], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = make_line(sink="delta")
    fill(line, 20)
    rules = pairing(Path(line.delta().name))
    sessions: list[SparkSession] = []
    new_session = SparkSession.newSession

    def remembered(spark: SparkSession) -> SparkSession:
        sessions.append(new_session(spark))
        return sessions[-1]

    monkeypatch.setattr(SparkSession, "newSession", remembered)
    compacted = open_table(line, rules).compact()
    history = line.spark.sql(f"DESCRIBE HISTORY delta.`{line.delta().name}`").where("operation = 'OPTIMIZE'")
    taken = [int(each.operationMetrics["numRemovedBytes"]) for each in history.collect()]
    assert len(taken) > 1
    assert max(taken) <= 8 * rules.target_bytes
    assert compacted is not None
    assert sum(taken) == compacted.bytes
    (session,) = sessions
    assert session.conf.get("spark.databricks.delta.optimize.maxThreads") == "1"
    assert len(line.rows()) == 80
    assert line.reconcile().holds


@pytest.mark.full
def test_snapshots_of_a_compaction_are_expired_as_those_of_batches(line: Line) -> None:
    fill(line, 6)
    open_table(line).compact()
    marked = line.spark.table(f"{table_name(line.contract_id)}.snapshots").where(
        f"summary['{COMPACTED}'] = 'true'"
    )
    assert marked.count() == 1
    fill(line, 3)
    retention = SnapshotRetention(most=1, protected_seconds=0)
    IcebergTable(
        line.spark, table_name(line.contract_id), rules=MaintenanceRules(retention=retention)
    ).maintain()
    assert marked.count() == 0
    assert len(line.rows()) == 36
    assert line.reconcile().holds


@pytest.mark.full
def test_compaction_and_expiry_round_after_round_keep_the_proof(line: Line) -> None:
    """Nothing is published meanwhile; another writer appends, so that each round has files to compact."""
    fill(line, 3)
    retention = SnapshotRetention(most=1, protected_seconds=0)
    table = IcebergTable(
        line.spark, table_name(line.contract_id), rules=MaintenanceRules(min_files=2, retention=retention)
    )
    upkeep = Upkeep(table, seconds=1.0)
    for number in range(4):
        insert_by_hand(line, f"by hand {number}")
        assert upkeep.run().failures == 0
    assert upkeep.done is not None
    assert upkeep.done.files_compacted >= 8
    expire_all(line)
    line.produce(row(100))
    line.enforce(**QUIET)
    assert line.spark.table(table_name(line.contract_id)).count() == 12 + 4 + 1


def test_a_table_that_was_rolled_back_is_left_alone(line: Line) -> None:
    roll_back(line, with_two_batches(line))
    found = snapshots(line)
    assert open_table(line, MaintenanceRules(min_files=2)).compact() is None
    assert snapshots(line) == found


@pytest.mark.parametrize("sink", ["iceberg", *full("delta")])
def test_a_compaction_between_staging_and_publication(make_line: Callable[..., Line], sink: str) -> None:
    """The batch is staged again at the most, and published with the ledger that it would have had."""
    line = make_line(sink=sink)
    fill(line, 6)
    line.produce(*(row(n) for n in range(100, 104)))
    staged: list[Step] = []

    def compact(_stream: str, step: Step) -> None:
        if step is Step.STAGE:
            staged.append(step)
            if len(staged) == 1:
                assert open_table(line).compact() != Compacted()

    line.enforce(compact, **QUIET)
    assert len(staged) <= 2
    assert line.ledger().n == 7
    assert len(line.rows()) == 28
    assert line.reconcile().holds
    require_exactly_once(line)


def write_part(line: Line, epoch: int, table: IcebergTable | DeltaTable) -> Path:
    """Write a data file as a worker of an attempt does; return where it is."""
    plan = line.contracts.plan
    values = pa.array([row(7).value], pa.binary())
    batch = pa.RecordBatch.from_pydict(
        {
            "partition": pa.array([0], pa.int32()),
            "offset": pa.array([0], pa.int64()),
            "timestamp": pa.array([0], pa.timestamp("us", "UTC")),
            "value": values,
        }
    )
    with table.target(plan, "c", f"tidegate-{epoch}").open("00000-7") as part:
        part.write(plan.judge_typed(values).field(2), batch, None)
    return Path(part.written[0].removeprefix("file:").replace("//", "/"))


@pytest.mark.parametrize("sink", ["iceberg", *full("delta")])
def test_orphans_of_earlier_epochs_are_removed_and_nothing_else(
    make_line: Callable[..., Line], sink: str
) -> None:
    """Left: files that are published, of the attempt that runs, of another table, of others, and young ones."""
    line = make_line(sink=sink)
    fill(line, 1)
    fill(line, 1)
    table, epoch = open_table(line), line.ledger().epoch
    assert epoch == 2
    folder = write_part(line, 1, table).parent
    before = {path.name for path in folder.iterdir()}
    orphan = write_part(line, 1, table)
    live = write_part(line, epoch, table)
    others = [
        folder / f"{'0' * 8}{orphan.name[8:]}",  # of another table
        folder / orphan.name.replace("-tidegate-1-", "-tidegate-x-"),
        folder / "part-00000.parquet",
    ]
    for other in others:
        other.write_bytes(orphan.read_bytes())
    old = MaintenanceRules(orphan_age_seconds=3600)
    assert open_table(line, old).remove_orphans() == Orphans()
    off = MaintenanceRules(orphan_age_seconds=0, removes_orphans=False)
    assert open_table(line, off).remove_orphans() is None
    removed = table.remove_orphans()
    assert removed is not None
    assert removed.files == 2
    assert removed.bytes > 0
    left = {path.name for path in folder.iterdir()}
    assert not orphan.exists()
    assert {live.name, *(other.name for other in others)} <= left
    assert len(line.rows()) == 8
    assert len(before - left) == len({each for each in before - left if not each.endswith(".crc")}) == 1
    line.produce(row(50))
    line.enforce(**QUIET)
    assert line.reconcile().holds


@pytest.mark.full
def test_files_that_only_a_tag_names_are_no_orphans(line: Line) -> None:
    line.contracts.plan = line.plan()
    fill(line, 1)
    name = table_name(line.contract_id)
    line.spark.sql(f"ALTER TABLE {name} CREATE TAG `kept`")
    line.spark.sql(f"DELETE FROM {name} WHERE true")  # noqa: S608 - a name of the test
    fill(line, 1)
    assert open_table(line).remove_orphans() == Orphans()
    assert line.spark.read.option("versionAsOf", "kept").table(name).count() == 4


@pytest.mark.parametrize(
    ("sink", "times"),
    [("iceberg", 1), *(pytest.param(sink, 2, marks=pytest.mark.full) for sink in ("iceberg", "delta"))],
)
def test_a_stream_compacts_its_table_in_the_background_and_reports_it(
    make_line: Callable[..., Line], sink: str, times: int
) -> None:
    line = make_line(sink=sink)
    records = 40 * times
    line.produce(*(row(n) for n in range(records)))
    counts: list[int] = []

    def wait(_stream: str, step: Step) -> None:
        """Hold the stream at some commits until files were compacted."""
        if step is Step.COMMITTED:
            counts.append(data_files(line))
            if len(counts) in {8, 16}:
                eventually(lambda: data_files(line) < 6)

    line.enforce(wait, max_offsets=4, compaction_min_files=6, maintenance_seconds=0.1)
    told = [each.maintenance for each in line.reports if each.maintenance is not None]
    assert max(each.files_compacted for each in told) >= 6
    assert max(each.bytes_compacted for each in told) > 0
    assert told[-1].failures == 0
    assert len(line.rows()) == records
    assert line.reconcile().holds
    require_exactly_once(line)


@pytest.mark.full
def test_many_manifests_are_merged(line: Line) -> None:
    name = table_name(line.contract_id)
    fill(line, 1)
    line.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('commit.manifest-merge.enabled' = 'false')")
    fill(line, 6)
    before = line.spark.table(f"{name}.manifests").count()
    assert before >= 7
    rules = MaintenanceRules(min_files=1000, manifest_limit=5)
    compacted = open_table(line, rules).compact()
    assert compacted is not None
    assert compacted.manifests == before
    assert line.spark.table(f"{name}.manifests").count() == 1
    assert open_table(line, rules).compact() == Compacted()
    fill(line, 1)
    assert line.reconcile().holds


@pytest.mark.parametrize("sink", ["iceberg", *full("delta", "postgresql")])
def test_the_command_maintains_a_table_without_a_job(make_line: Callable[..., Line], sink: str) -> None:
    line = make_line(sink=sink)
    with pytest.raises(NotFoundError, match="enforce the contract first"):
        maintain_table(line.settings, line.contract_id)
    fill(line, 6)
    settings = line.settings.model_copy(update={"compaction_min_files": 4, "orphan_age_seconds": 0.0})
    found = maintain_table(settings, line.contract_id)
    assert found.error is None
    if sink != "postgresql":
        assert found.done.files_compacted >= 6
        assert data_files(line) == 1
        assert f"files compacted: {found.done.files_compacted}" in maintained_text(found)
    assert maintain_table(settings, line.contract_id).done.files_compacted == 0
    assert len(line.rows()) == 24
    assert line.reconcile().holds


def test_a_topic_has_no_table_to_maintain(make_line: Callable[..., Line]) -> None:
    line = make_line(sink="kafka")
    with pytest.raises(SettingsError, match="sink kafka has no table"):
        maintain_table(line.settings, line.contract_id)


@pytest.mark.full
def test_files_of_a_killed_job_are_removed(line: Line, job: StartJob, publish: Publish) -> None:
    """The workers have written the files of a batch; nothing names them yet."""
    fill_source(line, publish)
    kill_after(job, line, Step.DECIDE, 2)
    folder = line.settings.warehouse / Path(*line.contract_id.split(".")) / "data"
    line.enforce(**QUIET)
    named = {
        Path(each["file_path"]).name
        for each in line.spark.table(f"{table_name(line.contract_id)}.all_files").collect()
    }
    left = {path.name for path in folder.glob("*.parquet")} - named
    assert left
    assert all("-tidegate-1-" in name for name in left)
    removed = open_table(line).remove_orphans()
    assert removed is not None
    assert removed.files == len(left)
    assert {path.name for path in folder.glob("*.parquet")} == named
    require_exactly_once(line)


@pytest.mark.full
def test_files_that_a_delta_table_no_longer_needs_are_deleted_after_its_retention(
    make_line: Callable[..., Line],
) -> None:
    line = make_line(sink="delta")
    fill(line, 6)
    folder, version = Path(line.delta().name), newest_version(line)
    foreign = folder / "part-of-somebody.parquet"
    foreign.write_bytes(next(folder.glob("*.parquet")).read_bytes())
    open_table(line).compact()
    fill(line, 1)  # another epoch, so that the replaced files are of an earlier one
    rows, before = line.rows(), set(folder.glob("*.parquet"))
    table = f"delta.`{folder}`"
    assert open_table(line).remove_orphans() == Orphans()
    assert set(folder.glob("*.parquet")) == before
    assert read_version(line, version) == 24
    retention = "'delta.deletedFileRetentionDuration' = 'interval 0 seconds'"
    line.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({retention})")
    sizes = {path: path.stat().st_size for path in before}
    removed = open_table(line).remove_orphans()
    left = set(folder.glob("*.parquet"))
    assert removed == Orphans(0, 0, len(before - left), sum(sizes[each] for each in before - left))
    assert len(left) == data_files(line) + 1
    assert foreign in left
    assert line.rows() == rows
    line.produce(row(100))
    line.enforce(**QUIET)
    assert line.reconcile().holds


@pytest.mark.full
def test_the_command_in_a_process_of_its_own(line: Line, jars: Jars) -> None:
    settings = {"TIDEGATE_COMPACTION_MIN_FILES": "4", "TIDEGATE_ORPHAN_AGE_SECONDS": "0"}
    variables = {**os.environ, **environment(line, jars, "http://none"), **settings}

    def maintain(*more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tidegate.gateway.cli.main", "maintain", line.contract_id, *more]
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)

    missing = maintain()
    assert missing.returncode == 2
    assert "enforce the contract first" in missing.stderr
    fill(line, 6)
    before = data_files(line)
    done = maintain("--format=json")
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout)["files_compacted"] == before
    again = maintain()
    assert again.returncode == 0
    assert "files compacted: 0" in again.stdout
    assert "data files left: 1" in again.stdout
    assert line.reconcile().holds


@pytest.mark.full
def test_a_job_in_a_process_of_its_own_compacts_beside_its_batches(
    line: Line, jars: Jars, registry: Registry, publish: Publish
) -> None:
    """Nothing else has used the session before, so that what a compaction needs is there or is not."""
    publish(line.document())
    often = {"TIDEGATE_MAINTENANCE_SECONDS": "0.2", "TIDEGATE_COMPACTION_MIN_FILES": "3"}
    job = RunningJob([line.contract_id], {**environment(line, jars, registry.url), **often})
    numbers = iter(range(10**6))

    def ends() -> list[str]:
        line.produce(row(next(numbers)))
        told = {"table_compacted", "table_not_maintained"}
        return [each["event"] for each in list(job.events) if each["event"] in told]

    try:
        eventually(lambda: bool(ends()))
        assert set(ends()) == {"table_compacted"}, [
            each for each in job.events if each["event"] == "table_not_maintained"
        ]
    finally:
        job.end()
    assert line.reconcile().holds
