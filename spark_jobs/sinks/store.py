"""What a store must be able to do for the staged protocol: hold rows unseen, and move rows and ledger in one commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from tidegate.contracts.columns.table_limits import TableLimits
from tidegate.contracts.errors import Unavailable
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.ledger import Ledger
from tidegate.contracts.stream.positions import Sightings
from tidegate.contracts.stream.report import TableSize
from tidegate.spark_jobs.worker.part_writer import RowTarget

STAGE_ATTEMPTS: Final = 5
"""How often a batch is staged again when others commit to the table meanwhile."""
MANY_SNAPSHOTS: Final = 5_000
"""With so many a commit takes seconds: worth a warning, and at a start worth to be expired before the claim."""


class LedgerStore(Protocol):
    """One table with its ledger. The names that it gives and takes are those of parts that workers have written.

    A part that nothing was published from is invisible; it may stay behind after a crash, and does no harm.
    """

    kind: str
    name: str

    @property
    def uuid(self) -> str:
        """Identity of the table: another one after it was dropped and recreated."""
        ...

    def ensure(self, plan: EnforcementPlan) -> None:
        """Create the table, or give it the contract's columns and types. Raises StreamStopped when it does not fit."""
        ...

    def read(self) -> Ledger | None:
        """Read the ledger as it is now; None when no one has claimed the table yet."""
        ...

    def has_rows_of(self, topic: str) -> bool:
        """Return whether the table holds a row that came from this topic; False when there is no table."""
        ...

    def positions_of(self, topic: str) -> Sightings:
        """Return the source positions of the rows that came from this topic."""
        ...

    def last_epoch(self, ledger: str) -> int:
        """Return an epoch that the table's own history has seen under this ledger's name; 0 when it tells none."""
        ...

    def target(self, plan: EnforcementPlan, contract: str, name: str) -> RowTarget:
        """Return where and how workers write the accepted rows of a batch; the parts' names begin with `name`."""
        ...

    def limits(self, plan: EnforcementPlan) -> TableLimits:
        """Return what the table asks of its rows, besides the types of their columns."""
        ...

    def stage(self, files: Sequence[str], at: Ledger | None = None) -> str:
        """Put parts together where no reader looks; return the mark to publish them by.

        `at` is the ledger that they will be published with, as far as it is known: without totals and `scan_from`.
        """
        ...

    def publish(
        self, mark: str, held: Ledger | None, new: Ledger, *, is_rebuilt: bool = False
    ) -> Ledger | None:
        """Let readers see what is staged and move the ledger to `new` if, and only if, it is still `held`.

        `is_rebuilt` says that `new` was made from the rows that are there: then the table need not have those that `held`
        counts. Returns the ledger as it is then, with totals that the store may know better; None to have it staged again. Raises
        Fenced when the ledger is no longer `held`, Unavailable when the commit failed and nothing moved, StreamStopped when
        the table was taken back to before `held`, or that cannot be excluded.
        """
        ...

    def maintain(self, *, beyond: int = 0) -> TableSize | None:
        """Expire what the stream has left behind in a table with more than `beyond` snapshots; return the table's size.

        None when the store keeps no such figures, or has no table yet. Raises Unavailable.
        """
        ...

    def tidy(self, files: Sequence[str]) -> None:
        """Delete what publishing has left over."""
        ...

    def delete_files(self, files: Sequence[str]) -> None:
        """Delete parts that will not be published."""
        ...


def move_ledger(
    table: LedgerStore, held: Ledger | None, new: Ledger, during: str, *, is_rebuilt: bool = False
) -> None:
    """Publish an empty batch that moves the ledger to `new`. Raise what `publish` raises."""
    for _ in range(STAGE_ATTEMPTS):
        if table.publish(table.stage([], new), held, new, is_rebuilt=is_rebuilt):
            return
    raise Unavailable(f"{table.name}: other commits kept moving the table during the {during}; try again")
