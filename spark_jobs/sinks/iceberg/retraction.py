"""Deletion of rows of an Iceberg table on a separate branch, which readers and other instances do not use.

DELETE cannot set properties of its snapshot. So an empty snapshot with a mark is appended to it, and the publication
moves `main` to that one. The mark names the snapshot of DELETE, so that the expiry knows whose it is. That snapshot
may refer to files with rows that a later deletion removes.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from tidegate.contracts.errors import Unavailable
from tidegate.spark_jobs.sinks.iceberg.history import RETRACTED, STAGED
from tidegate.spark_jobs.sinks.java import JAVA_ERRORS, first_line, java_class
from tidegate.spark_jobs.sinks.store import STAGE_ATTEMPTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BRANCHES: Final = "tidegate_rewind_"


class Retraction:
    """One deletion. `table` is Iceberg's Java object, `quoted` the table's name for Spark SQL."""

    def __init__(self, spark: SparkSession, quoted: str, table: Any) -> None:
        self._spark = spark
        self._quoted = quoted
        self._table = table
        self._branch = ""
        self._head: int | None = None
        self._staged: int | None = None

    def stage(self, condition: str, summary: Mapping[str, str]) -> None:
        """Delete the rows that meet a condition, on a branch from the head of `main`.

        `summary` are the properties of the last snapshot. Raises Unavailable.
        """
        try:
            self._create_branch()
            rows = f"{self._quoted}.`branch_{self._branch}` WHERE {condition}"
            self._spark.sql(f"DELETE FROM {rows}").collect()  # noqa: S608 - our own words
            deletion = self._head_of(self._branch)
            marks = {**summary, RETRACTED: str(deletion)} if deletion != self._head else summary
            append = self._table.newFastAppend()
            for key, value in marks.items():
                append.set(key, value)
            append.toBranch(self._branch).commit()
            self._staged = self._head_of(self._branch)
        except JAVA_ERRORS as error:
            raise Unavailable(f"{self._quoted}: rows could not be deleted: {first_line(error)}") from error

    def _create_branch(self) -> None:
        """Create the branch; Iceberg does not retry a change of branches after a conflict, so this does."""
        for attempt in range(STAGE_ATTEMPTS):
            self._table.refresh()
            self._head = int(self._table.currentSnapshot().snapshotId())
            self._branch = f"{_BRANCHES}{self._head}_{uuid4().hex[:8]}"
            try:
                self._table.manageSnapshots().createBranch(self._branch, self._head).commit()
            except JAVA_ERRORS as error:
                if attempt + 1 == STAGE_ATTEMPTS or not java_class(error).endswith(".CommitFailedException"):
                    raise
            else:
                return

    def on_head(self, metadata: Any) -> Any | None:
        """Return the staged snapshot if the head of `main` is still the one it is based on; None otherwise."""
        head = metadata.currentSnapshot()
        if head is None or self._staged is None or int(head.snapshotId()) != self._head:
            return None
        return metadata.snapshot(self._staged)

    def clean(self) -> None:
        """Remove all branches of rewinds, also those that crashes have left: published snapshots need none."""
        with suppress(*JAVA_ERRORS):
            self._table.refresh()
            for name in [each for each in self._table.refs() if each.startswith(_BRANCHES)]:
                head = self._head_of(name)
                self._table.manageSnapshots().removeBranch(name).commit()
                base = name.removeprefix(_BRANCHES).partition("_")[0]
                if str(head) != base and not self._table.snapshot(head).summary().containsKey(STAGED):
                    # A deletion that a crash has left without the mark: nothing else would ever expire it.
                    self._table.expireSnapshots().expireOlderThan(0).expireSnapshotId(head).commit()

    def _head_of(self, branch: str) -> int:
        self._table.refresh()
        return int(self._table.refs().get(branch).snapshotId())
