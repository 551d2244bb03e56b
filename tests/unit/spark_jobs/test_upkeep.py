"""Rounds of maintenance: what fails is counted, and keeps nothing else from being done."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from tidegate.contracts.errors import Unavailable
from tidegate.contracts.stream.report import TableSize
from tidegate.spark_jobs.settings import JobSettings
from tidegate.spark_jobs.sinks.attempt_files import attempt_epoch, attempt_prefix
from tidegate.spark_jobs.sinks.maintenance import (
    Compacted,
    Expired,
    MaintenanceRules,
    Orphans,
    SnapshotRetention,
)
from tidegate.spark_jobs.sinks.upkeep import _ONE_AT_A_TIME, Upkeep, maintenance_of

TABLE = "3f2a9c01-1111-2222-3333-444455556666"


class Store:
    """The part of a store that is maintained, with a list of what was asked of it."""

    name = "lake.test.rows"

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.asked: list[str] = []

    def maintain(self, *, beyond: int = 0) -> Expired:
        self.asked.append(f"expire {beyond}")
        return Expired(TableSize(snapshots=7), 4)

    def compact(self) -> Compacted:
        self.asked.append("compact")
        if self.failures:
            raise self.failures.pop()
        return Compacted(10, 1000, 2)

    def remove_orphans(self) -> Orphans:
        self.asked.append("orphans")
        return Orphans(3, 30, 5, 500)


def upkeep_of(store: Any, **settings: float) -> Upkeep:
    return Upkeep(store, 300.0, **settings)


def test_rounds_are_added_up_and_orphans_looked_for_once_in_their_time() -> None:
    store = Store()
    upkeep = upkeep_of(store)
    assert upkeep.done is None
    upkeep.run()
    done = upkeep.run()
    assert store.asked == ["expire 0", "compact", "orphans", "expire 0", "compact"]
    assert (done.files_compacted, done.bytes_compacted, done.manifests_rewritten) == (20, 2000, 4)
    assert (done.orphans_removed, done.orphan_bytes, done.failures) == (3, 30, 0)
    assert done.snapshots_expired == 8
    assert (done.replaced_removed, done.replaced_bytes) == (5, 500)
    assert upkeep.size == TableSize(snapshots=7)
    often = upkeep_of(store, orphan_seconds=0.0)
    often.run()
    assert often.run().orphans_removed == 6


def test_the_maintenance_of_all_tables_of_a_stream_is_one_sum() -> None:
    """A stream with a quarantine table has two."""
    rows, refusals = upkeep_of(Store()), upkeep_of(Store(Unavailable("the store is away")))
    assert maintenance_of([rows, refusals]) is None
    rows.run()
    assert maintenance_of([rows, refusals]) == rows.done
    refusals.run()
    done = maintenance_of([rows, refusals])
    assert done is not None
    assert (done.files_compacted, done.orphans_removed, done.failures) == (10, 6, 1)
    assert done.snapshots_expired == 8
    assert rows.done is not None
    assert refusals.done is not None
    assert done.seconds == pytest.approx(rows.done.seconds + refusals.done.seconds)


@pytest.mark.parametrize("failure", [Unavailable("the store is away"), ValueError("a value of a record")])
def test_a_part_that_fails_is_counted_and_the_others_are_done(failure: Exception) -> None:
    """The text of an error that is not ours may hold values, and is not told."""
    store = Store(failure)
    upkeep = upkeep_of(store)
    done = upkeep.run()
    assert (done.failures, done.files_compacted, done.orphans_removed) == (1, 0, 3)
    assert upkeep.error is not None
    assert "a value of a record" not in str(upkeep.error)
    assert upkeep.run().failures == 1
    assert upkeep.error is None


def test_an_unexpected_failure_is_logged_with_its_place_unless_the_job_is_ending() -> None:
    with capture_logs() as logs:
        for failure in (AttributeError("session is gone"), Unavailable("rows could not be deleted")):
            ending = upkeep_of(Store(failure))
            ending.close()
            ending.relieve()
            ending._attempt(lambda store=ending._store: {"files": store.compact().files})
            assert ending.error is not None
        assert logs == []
        upkeep_of(Store(AttributeError("a defect"))).run()
    (logged,) = logs
    assert (logged["event"], logged["error"]) == ("table_not_maintained", "AttributeError")
    assert isinstance(logged["exc_info"], AttributeError)


def test_a_stream_whose_turn_does_not_come_expires_all_the_same() -> None:
    """One whose store hangs in a compaction must not keep the others from their expiry."""
    store = Store()
    with _ONE_AT_A_TIME:
        upkeep = Upkeep(store, 0.01)  # type: ignore[arg-type] # the part that is asked
        done = upkeep.run()
    assert store.asked == ["expire 0"]
    assert (done.files_compacted, done.failures) == (0, 0)
    assert upkeep.run().orphans_removed == 3


def test_the_name_of_a_file_tells_its_table_and_its_epoch() -> None:
    name = f"{attempt_prefix(TABLE, 'tidegate-12')}-00003-417.parquet"
    assert attempt_epoch(name, TABLE) == 12
    assert attempt_epoch(name, "0" * 36) is None
    for other in (
        name.replace("12", "x", 1),
        f"x{name}",
        f"{name}.crc",
        "tidegate-12-0a1b2c3d-00003-417.parquet",  # of versions before
        "00000-1-0a1b2c3d-aaaa-bbbb-cccc-000011112222-0-00001.parquet",  # Spark's
    ):
        assert attempt_epoch(other, TABLE) is None


def test_small_files_grow_in_steps_and_a_round_is_bounded_in_files_and_bytes() -> None:
    rules = MaintenanceRules(target_bytes=1 << 27, max_files=500)
    small, middle, large = rules.levels
    assert [each.target for each in (small, middle, large)] == [1 << 21, 1 << 24, 1 << 27]
    assert [each.most_files for each in (small, middle, large)] == [500, 85, 10]
    assert all(each.most_files * each.full <= 8 * rules.target_bytes for each in rules.levels)


def test_each_setting_reaches_the_rules() -> None:
    base = {"bootstrap_servers": "b:1", "registry_url": "http://r", "warehouse": "/w", "checkpoints": "/c"}
    changed = {
        "compaction": False,
        "compaction_target_bytes": 1 << 20,
        "compaction_min_files": 3,
        "compaction_max_files": 7,
        "manifest_limit": 9,
        "orphan_removal": False,
        "orphan_age_seconds": 4000.0,
        "snapshot_expiry": False,
        "snapshots_kept": 11,
        "snapshot_age_seconds": 5000.0,
        "snapshot_protected_seconds": 13.0,
    }
    settings = JobSettings.model_validate({**base, **changed})
    retention = SnapshotRetention(False, 11, 5000.0, 13.0)
    assert MaintenanceRules.of(settings) == MaintenanceRules(
        False, 1 << 20, 3, 7, 9, False, 4000.0, retention
    )
