"""The interface of a store for the staged protocol: stage invisible rows, and commit rows and ledger together."""

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
from tidegate.spark_jobs.sinks.maintenance import Compacted, Expired, Orphans
from tidegate.spark_jobs.sinks.quarantine_rows import Outdated
from tidegate.spark_jobs.worker.part_writer import RowTarget

STAGE_ATTEMPTS: Final = 5
"""Maximum attempts to stage and publish a batch while other writers commit to the table."""
MANY_SNAPSHOTS: Final = 5_000
"""With this many snapshots a commit takes seconds: the job warns, and expires them before the claim."""

RECORDS_OF_KEY: Final = "records"

Taken = Vector | Positions | Outdated
"""Rows to delete: from an offset of each partition on, at some positions, or those that no longer count."""


class TableContents(Protocol):
    """The contents of a table: typed columns, and the contract that names its topic and primary key.

    `EnforcementPlan` implements it.
    """

    @property
    def columns(self) -> pa.Schema:
        """Return the typed columns, without the provenance columns."""
        ...

    @property
    def contract(self) -> DataContract:
        """Return the contract of the stream."""
        ...


class LedgerStore(Protocol):
    """One table with its ledger. `files` are names of parts that workers have written.

    Unpublished parts are invisible to readers. They may remain after a crash, and do no harm.
    """

    kind: str
    name: str

    @property
    def uuid(self) -> str:
        """Return the identity of the table, which changes when it is dropped and recreated."""
        ...

    def exists(self) -> bool:
        """Return whether a table of this name exists from which a ledger can be read, regardless of its columns."""
        ...

    def ensure(self, rows: TableContents) -> None:
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
        """Return a number above which the next epoch of this ledger name must be, by the history; 0 if unknown."""
        ...

    def target(self, rows: TableContents, contract: str, name: str) -> RowTarget:
        """Return where and how workers write the accepted rows of a batch; names of parts begin with `name`."""
        ...

    def limits(self, plan: EnforcementPlan) -> TableLimits:
        """Return the limits that the table sets on its rows, besides the column types."""
        ...

    def stage(self, files: Sequence[str], at: Ledger | None = None) -> str:
        """Combine parts invisibly to readers; return the mark by which `publish` identifies them.

        `at` is the ledger that they will be published with, as far as it is known: without totals and `scan_from`.
        """
        ...

    def publish(
        self, mark: str, held: Ledger | None, new: Ledger, *, is_rebuilt: bool = False
    ) -> Ledger | None:
        """Publish the staged rows and update the ledger to `new` if, and only if, it is still `held`.

        `is_rebuilt` means that `new` was computed from the existing rows: then the table need not contain the rows
        that `held` counts. Returns the published ledger, whose totals the store may have corrected; None if the rows
        must be staged again. Raises Fenced if the ledger is no longer `held`, Unavailable if the commit failed and
        changed nothing. Raises StreamStopped if the table was rolled back to before `held`, or if that cannot be
        excluded.
        """
        ...

    def positions_with(self, topic: str, column: str, values: Sequence[str]) -> Sightings:
        """Return the source positions of the rows of a topic whose column has one of these values, compared as text."""
        ...

    def records_present(self, keys: pa.Table) -> int:
        """Return the number of records whose primary key is in the table, in a row of any writer.

        `keys` has the key columns, with distinct keys without nulls, and then `RECORDS_OF_KEY`, the number of records
        of the key. Returns 0 if the table lacks a key column.
        """
        ...

    def retract(self, taken: Taken, held: Ledger, new: Ledger) -> Ledger | None:
        """Delete rows of the ledger's topic and update the ledger to `new`, in one commit.

        Only for tables with appended rows. Returns and raises the same as `publish`.
        """
        ...

    def position_at(self, snapshot: int, held: Ledger) -> Vector:
        """Return the end vector of the ledger at a snapshot or version of the table.

        Raises ConflictError if the snapshot does not tell it.
        """
        ...

    def maintain(self, *, beyond: int = 0) -> Expired | None:
        """Expire old state of the stream in a table with more than `beyond` snapshots; return what is left.

        Return None if the store has no such figures, or no table yet. Raises Unavailable.
        """
        ...

    def archive(self, name: str) -> str | None:
        """Rename the table to `name`, in the same namespace, regardless of its contents; return its full new name.

        Return None if there is no table. Raises ConflictError if the name is taken, Unavailable if the store does not
        rename.
        """
        ...

    def compact(self) -> Compacted | None:
        """Merge a bounded number of small files; None if this is disabled or not needed. Raises Unavailable."""
        ...

    def remove_orphans(self) -> Orphans | None:
        """Remove the files of crashed attempts of earlier epochs; None if this is disabled. Raises Unavailable."""
        ...

    def tidy(self, files: Sequence[str]) -> None:
        """Delete files that are no longer needed after publishing."""
        ...

    def delete_files(self, files: Sequence[str]) -> None:
        """Delete parts that will not be published."""
        ...


def move_ledger(
    table: LedgerStore, held: Ledger | None, new: Ledger, during: str, *, is_rebuilt: bool = False
) -> None:
    """Publish an empty batch that updates the ledger to `new`. Raises the errors of `publish`."""
    for _ in range(STAGE_ATTEMPTS):
        if table.publish(table.stage([], new), held, new, is_rebuilt=is_rebuilt):
            return
    raise Unavailable(f"{table.name}: other commits kept moving the table during the {during}; try again")
