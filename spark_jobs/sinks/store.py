"""The interface of a store for the staged protocol: hold rows unseen, and commit rows and ledger together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import pyarrow as pa

from tidegate.contracts.columns.table_limits import TableLimits
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.errors import Unavailable
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.ledger import Ledger, Vector
from tidegate.contracts.stream.positions import Positions, Sightings
from tidegate.contracts.stream.report import TableSize
from tidegate.spark_jobs.sinks.maintenance import Compacted, Orphans
from tidegate.spark_jobs.sinks.quarantine_rows import Outdated
from tidegate.spark_jobs.worker.part_writer import RowTarget

STAGE_ATTEMPTS: Final = 5
"""How often a batch is staged again if other writers commit to the table meanwhile."""
MANY_SNAPSHOTS: Final = 5_000
"""With so many snapshots a commit takes seconds: the job warns, and expires them before the claim."""

RECORDS_OF_KEY: Final = "records"

Taken = Vector | Positions | Outdated
"""Rows to delete: from the first offset of each partition on, at some positions, or those that no longer count."""


class TableRows(Protocol):
    """The contents of a table: typed columns, and the contract that names its topic and primary key (`EnforcementPlan`)."""

    @property
    def columns(self) -> pa.Schema:
        """Return the typed columns, without those of the source."""
        ...

    @property
    def contract(self) -> DataContract:
        """Return the contract of the stream."""
        ...


class LedgerStore(Protocol):
    """One table with its ledger. `files` are names of parts that workers have written.

    An unpublished part is invisible; it may remain after a crash, and does no harm.
    """

    kind: str
    name: str

    @property
    def uuid(self) -> str:
        """Return the identity of the table, which changes when it is dropped and recreated."""
        ...

    def exists(self) -> bool:
        """Return whether there is a table of this name that a ledger can be read of, whatever its columns."""
        ...

    def ensure(self, rows: TableRows) -> None:
        """Create the table, or add the contract's columns and widen types. Raises StreamStopped if it does not fit."""
        ...

    def read(self) -> Ledger | None:
        """Read the current ledger; None if no instance has claimed the table yet."""
        ...

    def has_rows_of(self, topic: str) -> bool:
        """Return whether the table holds a row of this topic; False if there is no table."""
        ...

    def positions_of(self, topic: str) -> Sightings:
        """Return the source positions of the rows of this topic."""
        ...

    def last_epoch(self, ledger: str) -> int:
        """Return an epoch of this ledger's name in the table's history; 0 if unknown."""
        ...

    def target(self, rows: TableRows, contract: str, name: str) -> RowTarget:
        """Return where and how workers write the accepted rows of a batch; names of parts begin with `name`."""
        ...

    def limits(self, plan: EnforcementPlan) -> TableLimits:
        """Return the limits of the table on its rows, besides the types of their columns."""
        ...

    def stage(self, files: Sequence[str], at: Ledger | None = None) -> str:
        """Combine parts where readers do not see them; return the mark to publish them by.

        `at` is the ledger that they will be published with, as far as it is known: without totals and `scan_from`.
        """
        ...

    def publish(
        self, mark: str, held: Ledger | None, new: Ledger, *, is_rebuilt: bool = False
    ) -> Ledger | None:
        """Publish the staged rows and update the ledger to `new` if, and only if, it is still `held`.

        `is_rebuilt` means that `new` was computed from the existing rows: then the table need not contain the rows
        that `held` counts. Returns the published ledger, whose totals the store may have corrected; None to stage
        again. Raises Fenced if the ledger is no longer `held`, and Unavailable if the commit failed and changed
        nothing. Raises StreamStopped if the table was rolled back to before `held`, or if that cannot be excluded.
        """
        ...

    def positions_with(self, topic: str, column: str, values: Sequence[str]) -> Sightings:
        """Return the source positions of the rows of a topic whose column has one of these values, compared as text."""
        ...

    def records_present(self, keys: pa.Table) -> int:
        """Return how many records have a primary key that a row of the table has, whoever wrote it; 0 without its columns.

        `keys` has the columns of the key, without nulls and each key once; then `RECORDS_OF_KEY`, the number of its records.
        """
        ...

    def retract(self, taken: Taken, held: Ledger, new: Ledger) -> Ledger | None:
        """Delete rows of the ledger's topic and move the ledger to `new`, in one commit.

        Only for rows that are appended. Returns and raises what `publish` does.
        """
        ...

    def position_at(self, snapshot: int, held: Ledger) -> Vector:
        """Return where the ledger stood at a snapshot or version of the table. Raises ConflictError when it does not say."""
        ...

    def maintain(self, *, beyond: int = 0) -> TableSize | None:
        """Expire old state of the stream in a table with more than `beyond` snapshots; return the table's size.

        None if the store has no such figures, or has no table yet. Raises Unavailable.
        """
        ...

    def archive(self, name: str) -> str | None:
        """Rename the table to `name`, in the same namespace, whatever it holds; return its full new name.

        None when there is no table. Raises ConflictError when the name is taken, Unavailable when the store does not rename.
        """
        ...

    def compact(self) -> Compacted | None:
        """Merge a bounded number of small files; None when that is off, or the store needs none. Raises Unavailable."""
        ...

    def remove_orphans(self) -> Orphans | None:
        """Remove what crashed attempts of earlier epochs have left; None when that is off. Raises Unavailable."""
        ...

    def tidy(self, files: Sequence[str]) -> None:
        """Delete files that are not needed after publishing."""
        ...

    def delete_files(self, files: Sequence[str]) -> None:
        """Delete parts that will not be published."""
        ...


def move_ledger(
    table: LedgerStore, held: Ledger | None, new: Ledger, during: str, *, is_rebuilt: bool = False
) -> None:
    """Publish an empty batch that updates the ledger to `new`. Raises what `publish` raises."""
    for _ in range(STAGE_ATTEMPTS):
        if table.publish(table.stage([], new), held, new, is_rebuilt=is_rebuilt):
            return
    raise Unavailable(f"{table.name}: other commits kept moving the table during the {during}; try again")
