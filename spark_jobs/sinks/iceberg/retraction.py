"""Deletion of rows of an Iceberg table on a separate branch, which readers and other instances do not use.

DELETE cannot set properties of its snapshot. So an empty snapshot with a mark is appended to it, and the publication
moves `main` to that one.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from tidegate.contracts.errors import Unavailable
from tidegate.spark_jobs.sinks.java import JAVA_ERRORS, first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BRANCHES: Final = "tidegate_rewind_"


class Retraction:
    """One deletion. `table` is Iceberg's Java object, `quoted` the table's name for Spark SQL."""

    def __init__(self, spark: SparkSession, quoted: str, table: Any) -> None:
        self._spark = spark
        self._quoted = quoted
        self._table = table
        self._branch = f"{_BRANCHES}{uuid4().hex[:8]}"
        self._head: int | None = None
        self._staged: int | None = None

    def stage(self, condition: str, summary: Mapping[str, str]) -> None:
        """Delete the rows that meet a condition, on a branch from the head of `main`.

        `summary` are the properties of the last snapshot. Raises Unavailable.
        """
        try:
            self._table.refresh()
            self._head = int(self._table.currentSnapshot().snapshotId())
            self._table.manageSnapshots().createBranch(self._branch, self._head).commit()
            rows = f"{self._quoted}.`branch_{self._branch}` WHERE {condition}"
            self._spark.sql(f"DELETE FROM {rows}").collect()  # noqa: S608 - our own words
            self._table.refresh()
            append = self._table.newFastAppend()
            for key, value in summary.items():
                append.set(key, value)
            append.toBranch(self._branch).commit()
            self._table.refresh()
            self._staged = int(self._table.refs().get(self._branch).snapshotId())
        except JAVA_ERRORS as error:
            raise Unavailable(f"{self._quoted}: rows could not be deleted: {first_line(error)}") from error

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
            for name in list(self._table.refs()):
                if name.startswith(_BRANCHES):
                    self._table.manageSnapshots().removeBranch(name).commit()
