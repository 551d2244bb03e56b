"""Removal of old versions from the log of a Delta table, in addition to Delta's own cleanup.

Delta lists the whole folder of the log several times for each commit, and keeps versions for 30 days. At one batch every
five seconds that is 500,000 files, with which a commit takes ten seconds. The state of the table is not changed: only
versions before a checkpoint are removed.
Source: Delta transaction log protocol, "Metadata Cleanup".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import structlog
from pyiceberg.io import load_file_io

from tidegate.contracts.errors import Unavailable
from tidegate.contracts.stream.report import TableSize
from tidegate.spark_jobs.sinks.attempt_files import files_in
from tidegate.spark_jobs.sinks.delta.history import is_restore
from tidegate.spark_jobs.sinks.delta.merge import ledger_in_commit
from tidegate.spark_jobs.sinks.java import JAVA_ERRORS, first_line
from tidegate.spark_jobs.sinks.maintenance import Expired, SnapshotRetention
from tidegate.spark_jobs.sinks.store import MANY_SNAPSHOTS

log = structlog.get_logger()

_NAME: Final = re.compile(r"\.?(\d{20})\..+")
"""A file of one version; the local file system has a hidden checksum for each."""
_COMMIT: Final = re.compile(r"\d{20}\.json")
_CHECKPOINT: Final = re.compile(r"\d{20}\.checkpoint\.parquet")
_KEPT_BY_OWNER: Final = {
    "delta.logRetentionDuration": None,
    "delta.enableExpiredLogCleanup": "false",
    "delta.enableChangeDataFeed": "true",
}
"""Properties by which the owner of a table asks for its log; None: with any value."""
_PROTECTED_FEATURES: Final = {"checkpointProtection", "catalogManaged"}
_MOST_COMMITS: Final = 1_000
"""Maximum commits that are searched for the newest ledger; other writers may have committed since."""


class _LogFile(NamedTuple):
    version: int
    name: str
    path: str
    modified: datetime


class DeltaLogCleanup:
    """The cleanup of the log of the table at a location."""

    def __init__(self, location: str, retention: SnapshotRetention) -> None:
        self._log = f"{location}/_delta_log"
        self._name = location.removeprefix("file://")
        self._retention = retention

    def run(self, snapshot: Any, beyond: int = 0) -> Expired:
        """Remove old versions if the log has more than `beyond`; return what is left. Raises Unavailable.

        The versions since the newest commit with a ledger stay, and all if the table was restored after that commit:
        they prove what the table contains. All stay if the table's properties ask for the log.
        """
        try:
            files = list(self._files())
            versions = sorted(each.version for each in files if _COMMIT.fullmatch(each.name))
            removed = 0
            if len(versions) > max(beyond, self._retention.most) and self._may_remove(snapshot):
                first = self._first_kept(files, versions[0], versions[-1])
                removed = self._remove(files, first)
            left = len(versions) - removed
        except (*JAVA_ERRORS, OSError) as error:
            raise Unavailable(
                f"{self._name}: its log could not be cleaned up: {first_line(error)}"
            ) from error
        if left > MANY_SNAPSHOTS:
            log.warning(
                "table_metadata_large",
                table=self._name,
                snapshots=left,
                metadata_bytes=None,
                hint="each commit lists the whole log of the table; see Maintenance of Delta tables in the guide to sinks",
            )
        return Expired(TableSize(snapshots=left), removed)

    def _may_remove(self, snapshot: Any) -> bool:
        if not self._retention.is_on:
            return False
        properties = json.loads(snapshot.metadata().json())["metaData"].get("configuration", {})
        if any(
            name in properties and value in {None, properties[name].lower()}
            for name, value in _KEPT_BY_OWNER.items()
        ):
            return False
        protocol = json.loads(snapshot.protocol().json())["protocol"]
        return _PROTECTED_FEATURES.isdisjoint(protocol.get("writerFeatures", ()))

    def _first_kept(self, files: Iterable[_LogFile], oldest: int, newest: int) -> int:
        """Return the version from which on the log stays: that of a checkpoint; 0 to keep all."""
        ledger = self._ledger_version(max(oldest, newest - _MOST_COMMITS), newest)
        if ledger is None:
            return 0
        last = min(ledger, newest - self._retention.most)
        before = datetime.now(UTC) - timedelta(seconds=self._retention.protected_seconds)
        checkpoints = (
            each.version
            for each in files
            if each.version <= last and each.modified <= before and _CHECKPOINT.fullmatch(each.name)
        )
        return max(checkpoints, default=0)

    def _ledger_version(self, oldest: int, newest: int) -> int | None:
        """Return the newest of these versions with a ledger; None without one, or if a RESTORE came after it."""
        io = load_file_io({}, self._log)
        for version in range(newest, oldest - 1, -1):
            with io.new_input(f"{self._log}/{version:020d}.json").open() as file:
                actions = [json.loads(line) for line in file.read().splitlines()]
            if ledger_in_commit(actions) is not None:
                return version
            if is_restore(actions):
                return None
        return None

    def _remove(self, files: Iterable[_LogFile], first: int) -> int:
        """Remove the files of versions before `first`, oldest first, so that the rest has no gap after a crash.

        Return the number of versions.
        """
        io = load_file_io({}, self._log)
        old = sorted(each for each in files if each.version < first)
        for each in old:
            io.delete(each.path)
        removed = sum(_COMMIT.fullmatch(each.name) is not None for each in old)
        if removed:
            log.info("delta_log_cleaned", table=self._name, versions=removed, first=first)
        return removed

    def _files(self) -> Iterator[_LogFile]:
        """Yield the files of versions in the folder of the log."""
        listed = files_in(self._log, {}, recursive=False)
        columns = (listed[name].to_pylist() for name in ("file_path", "last_modified"))
        for path, modified in zip(*columns, strict=True):
            name = path.rpartition("/")[2]
            if (found := _NAME.fullmatch(name)) is not None:
                yield _LogFile(int(found[1]), name, path, modified)
