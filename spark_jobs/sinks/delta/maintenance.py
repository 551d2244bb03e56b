"""Maintenance of a Delta table: small files by OPTIMIZE, replaced files by VACUUM, orphan files by their names.

OPTIMIZE plans on one version. Its commit is retried as long as no other commit has removed a file of the plan. It
changes no data in Delta's sense, so appends and merges conflict with it only if both replace the same file. VACUUM LITE
deletes the files that the log lists as removed, after `delta.deletedFileRetentionDuration`. Where the log no longer
begins at the last VACUUM, a full VACUUM compares the folder with the table instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import structlog
from pyiceberg.io import load_file_io
from pyspark.sql import DataFrame

from tidegate.contracts.errors import Unavailable
from tidegate.spark_jobs.sinks.attempt_files import files_in, of_earlier_epochs, older_than
from tidegate.spark_jobs.sinks.java import JAVA_ERRORS, first_line, java_class, java_of
from tidegate.spark_jobs.sinks.maintenance import Compacted, Level, MaintenanceRules, Orphans, own_pool

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = structlog.get_logger()

_OPTIMIZE: Final = "spark.databricks.delta.optimize"
_NO_LITE: Final = "DELTA_CANNOT_VACUUM_LITE"
"""The error of VACUUM LITE if the log no longer begins at the last VACUUM."""
_DELETED_RATIO: Final = 0.3
_BATCH_TARGETS: Final = (8, 1)
"""Size of one commit of OPTIMIZE, in files of full size; after a conflict the smaller size is tried."""


class DeltaMaintenance:
    """The maintenance of the table at a location. `snapshot` returns its newest version."""

    def __init__(
        self, spark: SparkSession, location: str, rules: MaintenanceRules, snapshot: Callable[[], Any]
    ) -> None:
        self._spark = spark
        self._location = location
        self._name = location.removeprefix("file://")
        self._rules = rules
        self._snapshot = snapshot

    def compact(self) -> Compacted:
        """Merge small files if there are enough of them. Raises Unavailable."""
        begun = time.perf_counter()
        try:
            with own_pool(self._spark):
                level = self._level(self._snapshot())
                found = self._optimize(level) if level is not None else Compacted()
        except JAVA_ERRORS as error:
            raise Unavailable(
                f"{self._name}: its files could not be compacted: {first_line(error)}"
            ) from error
        if found.files:
            seconds = round(time.perf_counter() - begun, 1)
            log.info(
                "table_compacted",
                table=self._name,
                files=found.files,
                bytes=found.bytes,
                manifests=0,
                seconds=seconds,
            )
        return found

    def remove_orphans(self, identity: str, epoch: int) -> Orphans:
        """Delete unreferenced files of attempts before `epoch`, and replaced files that are past their retention.

        The table's state references removed files for `delta.deletedFileRetentionDuration`. Raises Unavailable.
        """
        try:
            with own_pool(self._spark):
                replaced = self._vacuum()
            old = older_than(self._files(), self._rules.orphan_age_seconds)
            found = of_earlier_epochs(old, identity, epoch)
            orphans = self._unnamed(found) if found.num_rows else found
        except (*JAVA_ERRORS, OSError) as error:
            raise Unavailable(
                f"{self._name}: its orphan files could not be removed: {first_line(error)}"
            ) from error
        removed = Orphans(*self._delete(orphans), *replaced)
        if removed.files:
            log.info("orphans_removed", table=self._name, files=removed.files, bytes=removed.bytes)
        return removed

    def _level(self, snapshot: Any) -> Level | None:
        if snapshot.version() < 0 or snapshot.numOfFiles() < self._rules.min_files:
            return None
        files = DataFrame(snapshot.allFiles().toDF(), self._spark)
        levels = self._rules.levels
        counts = [f"count_if(size < {level.full})" for level in levels]
        *small, changed = files.selectExpr(*counts, "count(deletionVector)").collect()[0]
        for level, count in zip(levels, small, strict=True):
            if count >= self._rules.min_files:
                return level
        return levels[-1] if changed >= self._rules.min_files else None

    def _optimize(self, level: Level) -> Compacted:
        """Run OPTIMIZE; after a conflict with other writers in smaller commits, and after a second one not at all."""
        session = self._spark.newSession()  # OPTIMIZE takes its limits from the session
        is_last = level == self._rules.levels[-1]
        settings = {
            "minFileSize": level.full,
            "maxFileSize": level.target,
            "maxDeletedRowsRatio": _DELETED_RATIO if is_last else 1.0,
            # One task writes one file, so it uses one core at a time.
            "maxThreads": 1,
        }
        for key, value in settings.items():
            session.conf.set(f"{_OPTIMIZE}.{key}", str(value))
        for targets in _BATCH_TARGETS:
            session.conf.set(f"{_OPTIMIZE}.batchSize", str(targets * level.target))
            try:
                (row,) = session.sql(f"OPTIMIZE delta.`{self._location}`").collect()
            except JAVA_ERRORS as error:
                if "Concurrent" not in java_class(error) and "Concurrent" not in str(error):
                    raise
                log.info("compaction_conflicted", table=self._name, files=targets)
            else:
                metrics = row["metrics"]
                return Compacted(metrics["numFilesRemoved"], metrics["filesRemoved"]["totalSize"] or 0)
        return Compacted()

    def _vacuum(self) -> tuple[int, int]:
        """Delete the files that compactions and merges have replaced, when the table's retention has passed.

        Return their number and bytes. VACUUM itself returns neither, and writes them to the log only for some stores.
        """
        metadata = self._snapshot().metadata()
        logs = java_of(self._spark).org.apache.spark.sql.delta.DeltaLog
        created, retention = metadata.createdTime(), logs.tombstoneRetentionMillis(metadata)
        if created.isDefined() and created.get() + retention > time.time() * 1000:
            return 0, 0  # no file is old enough, and VACUUM would run Spark jobs to find that out
        # Only old files: running attempts delete their own unpublished files meanwhile, which are younger.
        before = older_than(self._files(), retention / 1000)
        try:
            self._spark.sql(f"VACUUM delta.`{self._location}` LITE").collect()
        except JAVA_ERRORS as error:
            if _NO_LITE not in str(error):
                raise
            self._spark.sql(f"VACUUM delta.`{self._location}`").collect()
        gone = before.filter(pc.invert(pc.is_in(before["file_path"], self._files()["file_path"])))
        return gone.num_rows, pc.sum(gone["size"]).as_py() or 0

    def _files(self) -> pa.Table:
        return files_in(self._location, {}, recursive=False)

    def _unnamed(self, found: pa.Table) -> pa.Table:
        """Return the files that neither the newest version nor a removal within the retention period references."""
        snapshot = self._snapshot()
        named = DataFrame(snapshot.allFiles().toDF(), self._spark).select("path")
        removed = DataFrame(snapshot.tombstones().toDF(), self._spark).select("path")
        names = named.union(removed).selectExpr("substring_index(path, '/', -1) AS name")
        listed = self._spark.createDataFrame(found.select(["file_path"]))
        listed = listed.selectExpr("file_path", "substring_index(file_path, '/', -1) AS name")
        left = listed.join(names, "name", "left_anti").select("file_path").toArrow()
        return found.filter(pc.is_in(found["file_path"], left["file_path"].combine_chunks()))

    def _delete(self, orphans: pa.Table) -> tuple[int, int]:
        io = load_file_io({}, self._location)
        files = size = 0
        for each in orphans.to_pylist():
            try:
                io.delete(each["file_path"])
            except OSError as error:
                log.warning("data_file_left", file=each["file_path"], error=str(error))
            else:
                files, size = files + 1, size + each["size"]
        return files, size
