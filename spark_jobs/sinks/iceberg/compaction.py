"""Compaction of the small data files, the delete files and the manifests of an Iceberg table, by Iceberg's actions.

An action plans on one snapshot, writes the new files, and then makes one commit to `main`. That commit fails if a batch
has replaced a file of the plan meanwhile, or has deleted rows of it. Then smaller plans are tried, and finally none.
The commit of an action moves the head of `main`, so a batch that is staged at that moment is staged again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import structlog

from tidegate.contracts.errors import Unavailable
from tidegate.spark_jobs.sinks.iceberg.history import COMPACTED
from tidegate.spark_jobs.sinks.java import JAVA_ERRORS, first_line, java_of
from tidegate.spark_jobs.sinks.maintenance import Compacted, Level, MaintenanceRules, own_pool

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = structlog.get_logger()

_SMALLER: Final = 4
"""Factor by which a plan shrinks after a conflict."""
_WORTH_REWRITING: Final = 5
"""Number of delete files of a data file from which it is rewritten without the deleted rows."""
_CONFLICTS: Final = ("conflict", "ValidationException", "CommitFailedException")
_MANIFEST_BYTES: Final = 8 * 1024 * 1024


class Compaction:
    """The compaction of one table."""

    def __init__(self, spark: SparkSession, name: str, quoted: str, rules: MaintenanceRules) -> None:
        self._spark = spark
        self._name = name
        self._quoted = quoted
        self._rules = rules
        actions = java_of(spark).org.apache.iceberg.spark.actions.SparkActions
        self._actions = actions.get(spark._jsparkSession)  # noqa: SLF001 - no Python API

    def run(self, load: Callable[[], Any]) -> Compacted:
        """Rewrite a bounded number of small files, and delete files and manifests if there are many.

        `load` returns the current state of the table. Raises Unavailable.
        """
        begun = time.perf_counter()
        try:
            with own_pool(self._spark):
                self._activate_session()
                files, size = self._compact_files(load)
                manifests = self._rewrite_manifests(load())
        except JAVA_ERRORS as error:
            raise Unavailable(
                f"{self._name}: its files could not be compacted: {first_line(error)}"
            ) from error
        if files or manifests:
            seconds = round(time.perf_counter() - begun, 1)
            log.info(
                "table_compacted",
                table=self._name,
                files=files,
                bytes=size,
                manifests=manifests,
                seconds=seconds,
            )
        return Compacted(files, size, manifests)

    def _activate_session(self) -> None:
        """Make the session active in the Java thread of this Python thread, and in threads that Iceberg starts.

        They look up `default_rewrite_catalog` in the active session. Without an active session every compaction of a
        job fails.
        """
        sessions = java_of(self._spark).org.apache.spark.sql.classic.SparkSession
        sessions.setActiveSession(self._spark._jsparkSession)  # noqa: SLF001 - no Python API

    def _compact_files(self, load: Callable[[], Any]) -> tuple[int, int]:
        summary = load().currentSnapshot().summary()
        deletes = int(summary.get("total-delete-files") or 0)
        with_deletes = deletes >= self._rules.min_files
        level = self._level(int(summary.get("total-data-files") or 0), with_deletes=with_deletes)
        if level is None:
            return 0, 0
        found = self._retried(level.most_files, lambda most: self._rewrite_data(load(), level, most))
        files, size = (found.rewrittenDataFilesCount(), found.rewrittenBytesCount()) if found else (0, 0)
        if with_deletes:
            rewritten = self._retried(_SMALLER, lambda _: self._rewrite_deletes(load()))
            files += rewritten.rewrittenDeleteFilesCount() if rewritten else 0
            size += rewritten.rewrittenBytesCount() if rewritten else 0
        return files, size

    def _level(self, files: int, *, with_deletes: bool) -> Level | None:
        """Return the smallest target size with enough smaller files; None if a round is not worth it."""
        levels, last = self._rules.levels, self._rules.levels[-1]
        if files >= self._rules.min_files:
            counts = [f"count_if(file_size_in_bytes < {level.full})" for level in levels]
            found = (
                self._spark.table(f"{self._quoted}.files")
                .where("content = 0")
                .selectExpr(*counts)
                .collect()[0]
            )
            for level, count in zip(levels, found, strict=True):
                if count >= self._rules.min_files:
                    return level
        return last if with_deletes else None

    def _retried(self, most: int, rewrite: Callable[[int], Any]) -> Any | None:
        """Rewrite up to `most` files; fewer after conflicts with other writers, and None if these do not end."""
        while most >= 2:
            try:
                return rewrite(most)
            except JAVA_ERRORS as error:
                if not any(each in str(error) for each in _CONFLICTS):
                    raise
                log.info("compaction_conflicted", table=self._name, files=most)
                most //= _SMALLER
        return None

    def _rewrite_data(self, table: Any, level: Level, most: int) -> Any:
        is_last = level == self._rules.levels[-1]
        options = {
            "target-file-size-bytes": level.target,
            "min-file-size-bytes": level.full,
            # Large files are left unchanged.
            "max-file-size-bytes": 2**62,
            # A group makes one file in one task, so a round uses one core at a time.
            "max-file-group-size-bytes": level.target,
            "max-concurrent-file-group-rewrites": 1,
            "min-input-files": 2,
            "max-files-to-rewrite": most,
            # At a smaller level, a large file with deleted rows would be split into pieces of that level.
            "delete-file-threshold": _WORTH_REWRITING if is_last else 2**31 - 1,
            "delete-ratio-threshold": 0.3 if is_last else 1.0,
        }
        return self._executed(self._actions.rewriteDataFiles(table), options)

    def _rewrite_deletes(self, table: Any) -> Any:
        options = {"max-concurrent-file-group-rewrites": 1, "min-input-files": 2}
        return self._executed(self._actions.rewritePositionDeletes(table), options)

    def _executed(self, action: Any, options: Mapping[str, float]) -> Any:
        for key, value in options.items():
            action = action.option(key, str(value))
        # The mark by which the expiry recognizes the job's own snapshots.
        return action.snapshotProperty(COMPACTED, "true").execute()

    def _rewrite_manifests(self, table: Any) -> int:
        """Merge manifests if they are many and small; return how many were rewritten. Appends merge theirs anyway."""
        head, limit = table.currentSnapshot(), self._rules.manifest_limit
        manifests = head.dataManifests(table.io())
        if not limit or manifests.size() <= limit:
            return 0
        target = int(
            table.properties().getOrDefault("commit.manifest.target-size-bytes", str(_MANIFEST_BYTES))
        )
        if sum(each.length() for each in manifests) > manifests.size() * target / 2:
            return 0
        action = self._actions.rewriteManifests(table)
        found = self._retried(_SMALLER, lambda _: self._executed(action, {}))
        return len(list(found.rewrittenManifests())) if found else 0
