"""Rules and results of the maintenance of a table: expiry, compaction of small files, removal of orphan files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.contracts.stream.report import TableSize
    from tidegate.spark_jobs.settings import JobSettings

_STEPS: Final = (64, 8, 1)
"""Divisors of the target size. With these, a row is rewritten about three times until its file has full size."""
_FULL: Final = 0.75
"""Fraction of a target size from which a file counts as full; Iceberg's default."""
_POOL: Final = "spark.scheduler.pool"
_ROUND_TARGETS: Final = 8
"""Maximum data that one round reads, in files of full size."""


@dataclass(frozen=True, slots=True)
class SnapshotRetention:
    """Which snapshots of the stream are kept: at most `most`, none older than `age_seconds`.

    For Delta, which versions of the log are kept; `age_seconds` does not count there. Snapshots younger than
    `protected_seconds` are always kept, for readers and attempts that still use them.
    """

    is_on: bool = True
    most: int = 500
    age_seconds: float = 5 * 24 * 3600.0
    protected_seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class MaintenanceRules:
    """Settings of expiry, compaction and the removal of orphan files.

    Small files are merged into files of 1/64 of `target_bytes`, then of 1/8, then of `target_bytes`. A round produces
    the smallest of these sizes for which there are at least `min_files` smaller files.
    """

    compacts: bool = True
    target_bytes: int = 128 * 1024 * 1024
    min_files: int = 50
    max_files: int = 1_000
    manifest_limit: int = 200
    removes_orphans: bool = True
    orphan_age_seconds: float = 24 * 3600.0
    retention: SnapshotRetention = SnapshotRetention()

    @classmethod
    def of(cls, settings: JobSettings) -> MaintenanceRules:
        """Read the rules from the job's settings."""
        return cls(
            compacts=settings.compaction,
            target_bytes=settings.compaction_target_bytes,
            min_files=settings.compaction_min_files,
            max_files=settings.compaction_max_files,
            manifest_limit=settings.manifest_limit,
            removes_orphans=settings.orphan_removal,
            orphan_age_seconds=settings.orphan_age_seconds,
            retention=SnapshotRetention(
                settings.snapshot_expiry,
                settings.snapshots_kept,
                settings.snapshot_age_seconds,
                settings.snapshot_protected_seconds,
            ),
        )

    @property
    def levels(self) -> tuple[Level, ...]:
        """Return the sizes that files are merged into, smallest first."""
        sizes = (max(1, self.target_bytes // step) for step in _STEPS)
        return tuple(Level(size, int(size * _FULL), self._most_files(size)) for size in sizes)

    def _most_files(self, size: int) -> int:
        return max(2, min(self.max_files, int(_ROUND_TARGETS * self.target_bytes / (size * _FULL))))


class Level(NamedTuple):
    """A file size: files below `full` bytes are merged into files of `target` bytes, up to `most_files` a round."""

    target: int
    full: int
    most_files: int


class Expired(NamedTuple):
    """The size of a table after a round of expiry, and the number of snapshots that the round removed."""

    size: TableSize
    snapshots: int = 0


class Compacted(NamedTuple):
    """Counts of a round of compaction: data files replaced, their bytes, and manifests rewritten."""

    files: int = 0
    bytes: int = 0
    manifests: int = 0


class Orphans(NamedTuple):
    """Counts of removed files: of crashed attempts, and of replaced files where a table keeps them for some time."""

    files: int = 0
    bytes: int = 0
    replaced_files: int = 0
    replaced_bytes: int = 0


DEFAULT_RULES: Final = MaintenanceRules()


@contextmanager
def own_pool(spark: SparkSession) -> Iterator[None]:
    """Run the Spark jobs of this thread in a scheduler pool that shares the cores evenly with batches."""
    context = spark.sparkContext
    before = context.getLocalProperty(_POOL)
    context.setLocalProperty(_POOL, "tidegate-maintenance")
    try:
        yield
    finally:
        context.setLocalProperty(_POOL, before)  # type: ignore[arg-type] # None removes it
