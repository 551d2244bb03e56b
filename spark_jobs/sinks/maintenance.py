"""Rules and results of the maintenance of a table: compaction of small files, removal of orphan files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spark_jobs.settings import JobSettings

_STEPS: Final = (64, 8, 1)
"""Divisors of the target size. A row is then written about three times on its way into a file of full size."""
_FULL: Final = 0.75
"""Part of a size from which a file counts as full; Iceberg's own default."""
_POOL: Final = "spark.scheduler.pool"
_ROUND_TARGETS: Final = 8
"""Files of full size that one round reads at most."""


@dataclass(frozen=True, slots=True)
class MaintenanceRules:
    """Settings of compaction and of the removal of orphan files.

    Small files become files of a 64th, then of an 8th of `target_bytes`, then of `target_bytes`. A round takes the
    smallest of these sizes for which there are at least `min_files` smaller files.
    """

    compacts: bool = True
    target_bytes: int = 128 * 1024 * 1024
    min_files: int = 50
    max_files: int = 1_000
    manifest_limit: int = 200
    removes_orphans: bool = True
    orphan_age_seconds: float = 24 * 3600.0

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
        )

    @property
    def levels(self) -> tuple[Level, ...]:
        """Return the sizes that small files grow to, the smallest first."""
        sizes = (max(1, self.target_bytes // step) for step in _STEPS)
        return tuple(Level(size, int(size * _FULL), self._most_files(size)) for size in sizes)

    def _most_files(self, size: int) -> int:
        return max(2, min(self.max_files, int(_ROUND_TARGETS * self.target_bytes / (size * _FULL))))


class Level(NamedTuple):
    """A size of files: files below `full` bytes are merged into files of `target` bytes, `most_files` a round."""

    target: int
    full: int
    most_files: int


class Compacted(NamedTuple):
    """The files that a round of compaction has replaced."""

    files: int = 0
    bytes: int = 0
    manifests: int = 0


class Orphans(NamedTuple):
    """Files of crashed attempts that were removed; and those that a table had replaced, if it keeps them for some time."""

    files: int = 0
    bytes: int = 0
    replaced_files: int = 0
    replaced_bytes: int = 0


DEFAULT_RULES: Final = MaintenanceRules()


@contextmanager
def own_pool(spark: SparkSession) -> Iterator[None]:
    """Run the Spark jobs of this thread in a pool that shares the cores evenly with batches."""
    context = spark.sparkContext
    before = context.getLocalProperty(_POOL)
    context.setLocalProperty(_POOL, "tidegate-maintenance")
    try:
        yield
    finally:
        context.setLocalProperty(_POOL, before)  # type: ignore[arg-type] # None removes it
