"""Expiry of the snapshots that a stream has written to its Iceberg table, and the size of the table.

Each batch adds a snapshot, and every commit writes the complete metadata. Without expiry, commits become slower,
until the metadata no longer fits into the driver's memory. Iceberg does not expire snapshots by itself.
"""

from __future__ import annotations

import gzip
import time
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog
from pyiceberg.io import load_file_io

from tidegate.contracts.errors import Unavailable
from tidegate.contracts.stream.report import TableSize
from tidegate.spark_jobs.sinks.iceberg.history import (
    COMPACTED,
    RETRACTED,
    STAGED,
    contains,
    published_snapshot,
)
from tidegate.spark_jobs.sinks.java import JAVA_ERRORS, first_line, strings_of
from tidegate.spark_jobs.sinks.maintenance import Expired, SnapshotRetention
from tidegate.spark_jobs.sinks.store import MANY_SNAPSHOTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = structlog.get_logger()

_MUCH_METADATA_BYTES: Final = 16 * 1024 * 1024
_MANY_FILES: Final = 100_000
_GZIP: Final = b"\x1f\x8b"
_MOST_STEPS: Final = 1_000
"""Maximum snapshots of a branch, from its head, that are searched for the snapshot that it was created from."""
_ONE_AT_A_TIME: Final = Lock()
"""Streams of a job expire one after another, because each holds the metadata of its table in memory twice."""


class _Summary(msgspec.Struct, gc=False):
    """The marks of the job in the summary of a snapshot; other keys are skipped."""

    staged: str | None = msgspec.field(name=STAGED, default=None)
    compacted: str | None = msgspec.field(name=COMPACTED, default=None)
    retracted: str | None = msgspec.field(name=RETRACTED, default=None)


class _Snapshot(msgspec.Struct, gc=False):
    id: int = msgspec.field(name="snapshot-id")
    at_ms: int = msgspec.field(name="timestamp-ms")
    summary: _Summary | None = None

    @property
    def is_ours(self) -> bool:
        """Return whether the job has written the snapshot."""
        marks = self.summary or _Summary()
        return marks.staged is not None or marks.compacted is not None


class _Metadata(msgspec.Struct):
    """The part of a metadata file that is read. Source: Iceberg table specification, appendix C, "Table Metadata"."""

    snapshots: list[_Snapshot] = []


_METADATA_DECODER: Final = msgspec.json.Decoder(_Metadata)


class SnapshotExpiry:
    """Expiry of the snapshots of one table that the job has written, by id, through Iceberg's `expireSnapshots`.

    It keeps snapshots of other writers, those that a branch or a tag points to, their parents, and those that a
    branch was created from. Iceberg deletes a file only if no remaining snapshot references it.
    """

    def __init__(self, spark: SparkSession, name: str, retention: SnapshotRetention) -> None:
        self._spark = spark
        self._name = name
        self._retention = retention

    def run(self, table: Any, beyond: int = 0) -> Expired:
        """Expire snapshots if the table has more than `beyond`; return what is left. Raises Unavailable."""
        expired: list[int] = []
        try:
            metadata = table.operations().refresh()
            if metadata.snapshots().size() > beyond and self._may_expire(metadata):
                with _ONE_AT_A_TIME:
                    expired = self._expired(table, metadata)
                    self._expire(table, expired)
                metadata = table.operations().refresh()
            size = _size(table, metadata)
        except (*JAVA_ERRORS, OSError) as error:
            raise Unavailable(
                f"{self._name}: its snapshots could not be expired: {first_line(error)}"
            ) from error
        self._warn(size)
        return Expired(size, len(expired))

    def _may_expire(self, metadata: Any) -> bool:
        """Return whether snapshots are due and may be expired; a rolled-back table may need them for repair."""
        snapshots = metadata.snapshots()
        if (
            not self._retention.is_on
            or snapshots.isEmpty()
            or metadata.property("gc.enabled", "true") == "false"
        ):
            return False
        oldest = snapshots.get(0).timestampMillis()
        if (
            snapshots.size() <= self._retention.most
            and oldest > _now_ms() - self._retention.age_seconds * 1000
        ):
            return False
        published = published_snapshot(metadata)
        return published is not None and contains(metadata, published) is not False

    def _expired(self, table: Any, metadata: Any) -> list[int]:
        """Return the ids of the snapshots to expire. Raises OSError."""
        found = _snapshots(self._spark, table, metadata)
        deletions = {each.summary.retracted for each in found if each.summary is not None}
        ours = [each for each in found if each.is_ours or str(each.id) in deletions]
        ours.sort(key=lambda each: each.at_ms, reverse=True)
        now, retention = _now_ms(), self._retention
        oldest, protected = (
            now - 1000 * seconds for seconds in (retention.age_seconds, retention.protected_seconds)
        )
        needed = _needed(metadata)
        return [
            each.id
            for index, each in enumerate(ours)
            if (index >= retention.most or each.at_ms < oldest)
            and each.at_ms <= protected
            and each.id not in needed
        ]

    def _expire(self, table: Any, ids: list[int]) -> None:
        if not ids:
            return
        begun = time.perf_counter()
        # By default Iceberg would also expire snapshots of other writers that are older than five days.
        expiry = table.expireSnapshots().expireOlderThan(0)
        for each in ids:
            expiry.expireSnapshotId(each)
        expiry.commit()
        seconds = round(time.perf_counter() - begun, 1)
        log.info("snapshots_expired", table=self._name, snapshots=len(ids), seconds=seconds)

    def _warn(self, size: TableSize) -> None:
        is_large = size.metadata_bytes is not None and size.metadata_bytes > _MUCH_METADATA_BYTES
        if size.snapshots > MANY_SNAPSHOTS or is_large:
            log.warning(
                "table_metadata_large",
                table=self._name,
                snapshots=size.snapshots,
                metadata_bytes=size.metadata_bytes,
                hint="each commit writes all of it; expire snapshots of other writers, and see TIDEGATE_SNAPSHOT_EXPIRY",
            )
        if size.data_files is not None and size.data_files > _MANY_FILES:
            log.warning(
                "table_has_many_files",
                table=self._name,
                data_files=size.data_files,
                hint="see TIDEGATE_COMPACTION, or run tidegate maintain; the job may run meanwhile",
            )


def _snapshots(spark: SparkSession, table: Any, metadata: Any) -> list[_Snapshot]:
    """Read the snapshots of a table from its metadata file. Raises OSError.

    Each call to Java returns one value, so 100,000 snapshots take a minute there. A query of Iceberg's table of
    snapshots sends all of them to a task: with 130,000 it needed more memory than the driver has by default.
    """
    location = str(metadata.metadataFileLocation())
    properties = strings_of(spark, table.io().properties())
    with load_file_io(properties, location).new_input(location).open() as file:
        content = file.read()
    return _METADATA_DECODER.decode(gzip.decompress(content) if content[:2] == _GZIP else content).snapshots


def _needed(metadata: Any) -> set[int]:
    """Return the ids of heads of branches and tags, of their parents, and of snapshots that branches start from."""
    needed: set[int] = set()
    for reference in metadata.refs().values():
        head = metadata.snapshot(reference.snapshotId())
        needed.add(head.snapshotId())
        if head.parentId() is not None:
            needed.add(head.parentId())
        steps = 0
        while reference.isBranch() and head is not None and steps < _MOST_STEPS:
            if head.summary().containsKey(STAGED):
                needed.add(head.snapshotId())
                break
            head = metadata.snapshot(head.parentId()) if head.parentId() is not None else None
            steps += 1
    return needed


def _size(table: Any, metadata: Any) -> TableSize:
    head = metadata.currentSnapshot()
    files = head.summary().get("total-data-files") if head is not None else "0"
    location = metadata.metadataFileLocation()
    return TableSize(
        snapshots=metadata.snapshots().size(),
        metadata_bytes=table.io().newInputFile(location).getLength() if location is not None else None,
        data_files=int(files) if files is not None else None,
    )


def _now_ms() -> int:
    return int(time.time() * 1000)
