"""Rows of an Iceberg table deleted on a branch of a rewind's own, where no reader looks and no instance stages.

DELETE takes no properties for its snapshot. So an empty snapshot with a mark stands on it, and a publication moves `main` there.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from tidegate.contracts.errors import Unavailable
from tidegate.spark_jobs.sinks.java_errors import JAVA_ERRORS, first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BRANCHES: Final = "tidegate_rewind_"


class Retraction:
    """One deletion. `table` is Iceberg's own, and `quoted` its name as Spark SQL takes it."""

    def __init__(self, spark: SparkSession, quoted: str, table: Any) -> None:
        self._spark = spark
        self._quoted = quoted
        self._table = table
        self._branch = f"{_BRANCHES}{uuid4().hex[:8]}"
        self._head: int | None = None
        self._staged: int | None = None

    def stage(self, condition: str, summary: Mapping[str, str]) -> None:
        """Delete the rows of a condition on top of what `main` holds now; `summary` is of the snapshot on top.

        Raises Unavailable.
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
        """Return the staged snapshot if `main` is still where it was staged; None otherwise."""
        head = metadata.currentSnapshot()
        if head is None or self._staged is None or int(head.snapshotId()) != self._head:
            return None
        return metadata.snapshot(self._staged)

    def clean(self) -> None:
        """Remove the branches of rewinds, those that crashes have left too: what is published needs none."""
        with suppress(*JAVA_ERRORS):
            self._table.refresh()
            for name in list(self._table.refs()):
                if name.startswith(_BRANCHES):
                    self._table.manageSnapshots().removeBranch(name).commit()
