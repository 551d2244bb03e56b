"""The interface of a sink for `tidegate adopt` and similar commands: read its positions, and write a ledger."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from tidegate.contracts.errors import ConflictError, StreamStopped, Unavailable
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.adoption import Ahead
from tidegate.contracts.stream.ledger import Ledger, Vector
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.contracts.stream.positions import Positions, Sightings
from tidegate.spark_jobs.kafka.kafka_ledger import transactional_id
from tidegate.spark_jobs.kafka.outputs import TransactionalProducer
from tidegate.spark_jobs.kafka.replayed import fenced_sender
from tidegate.spark_jobs.progress import doing
from tidegate.spark_jobs.sinks.quarantine_table import SUFFIX, QuarantineTable
from tidegate.spark_jobs.sinks.staged import own_ledger_name
from tidegate.spark_jobs.sinks.store import STAGE_ATTEMPTS, LedgerStore, move_ledger

if TYPE_CHECKING:
    from tidegate.spark_jobs.settings import JobSettings
    from tidegate.spark_jobs.sinks.store import LedgerStore


class AdoptableSink(Protocol):
    """One sink of a stream, with or without a ledger."""

    name: str
    kind: str
    ahead: Ahead | None
    scanned: str | None
    """The output topic that a start scans for records ahead of the ledger; None if there is none."""
    slots: int
    is_appended: bool
    """Whether each accepted record is one row, which can be deleted again."""
    is_renamed: bool
    """Whether `archive` renames the output, so that its readers do not see later records."""

    @property
    def own_ledger(self) -> str:
        """Return the name of the ledger that the sink would create now."""
        ...

    def has_written(self) -> bool:
        """Return whether the sink itself holds a record of the stream; a quick check."""
        ...

    def ledger_if_there(self) -> Ledger | None:
        """Read the ledger without creating anything; None if there is no ledger, or nothing that could hold one."""
        ...

    def archive(self, name: str) -> str | None:
        """Rename the output to `name`, or keep it where its records name their ledger; return its location.

        Return None if there is no output. Raises ConflictError if the name is taken, Unavailable if the store does not
        rename.
        """
        ...

    def new_ledger(self, mark: str) -> str:
        """Return the name of the first ledger of an output after `archive` and `prepare`."""
        ...

    def prepare(self) -> None:
        """Prepare the sink for a ledger, as every start does."""
        ...

    def read(self) -> Ledger | None:
        """Read the ledger; None if there is none."""
        ...

    def written(self) -> Sightings:
        """Return the source positions of all written records."""
        ...

    def last_epoch(self, ledger: str) -> int:
        """Return a number above which the next epoch of this ledger name must be, by the history; 0 if unknown."""
        ...

    def fence(self, ledger: str, slots: int) -> None:
        """Fence a ledger's first `slots` transactional producers, and the one that sends records back to the source.

        Their open transactions are aborted.
        """
        ...

    def write(self, held: Ledger | None, new: Ledger, *, is_rebuilt: bool = False) -> None:
        """Update the ledger to `new` if it is still `held`; call it after `fence`. Raises Fenced if it is not.

        `is_rebuilt`: `new` was computed from the existing rows, so the table need not contain the snapshot of `held`.
        """
        ...

    def require_rewindable(self) -> None:
        """Raise ConflictError, with what to do, unless written records can be deleted again."""
        ...

    def position_at(self, snapshot: int, held: Ledger) -> Vector:
        """Return the end vector of the ledger at a snapshot. Raises ConflictError if it is not known."""
        ...

    def written_with(self, column: str, values: Sequence[str]) -> Positions:
        """Return the source positions of written records whose column has one of these values, compared as text."""
        ...

    def require_replayable(self, *, has_keys: bool, append_late: bool) -> None:
        """Raise ConflictError, with what to do, unless the job would write refused records after newer ones."""
        ...

    def retract(self, taken: Vector | Positions, held: Ledger, new: Ledger) -> None:
        """Delete written records, in one commit with the ledger. Raises Fenced, Unavailable.

        `taken` are source positions, or the first offset of each partition to delete from.
        """
        ...

    def refused_rows(self, ledger: Ledger) -> Positions:
        """Return the source positions of the rows in the quarantine table of this ledger; empty if there is none."""
        ...

    def follow_quarantine(self, ledger: Ledger) -> None:
        """Update the quarantine table to the ledger, if there is one; call it after `fence`.

        Raises StreamStopped, Unavailable.
        """
        ...


def readable(read: Callable[[], Ledger | None]) -> Ledger | None:
    """Return the result of reading a ledger; None also for a ledger that this version cannot read."""
    try:
        return read()
    except StreamStopped:
        return None


class AdoptableTable:
    """The adoptable sink of a table with its ledger."""

    ahead: Ahead | None = "quarantined"
    is_renamed = True

    def __init__(
        self, settings: JobSettings, store: LedgerStore, plan: EnforcementPlan, beside: LedgerStore
    ) -> None:
        """Open the outputs. `beside` is the quarantine table, which need not exist."""
        self._kafka = settings.kafka
        self._store = store
        self._beside = beside
        self._plan = plan
        self.name = f"{store.kind}:{store.name}"
        self.kind = store.kind
        self.scanned: str | None = quarantine_topic(plan.contract.topic)
        self.slots = settings.quarantine_slots
        self.is_appended = settings.write_mode != "upsert"

    @property
    def own_ledger(self) -> str:
        """Return the name of the ledger that the sink would create now."""
        return own_ledger_name(self._store, self._plan.contract.id)

    def has_written(self) -> bool:
        """Return whether the table holds a row of the topic."""
        return self._store.has_rows_of(self._plan.contract.topic)

    def ledger_if_there(self) -> Ledger | None:
        """Read the ledger; None if there is no ledger or no table."""
        return self._store.read() if self._store.exists() else None

    def archive(self, name: str) -> str | None:
        """Rename the table, regardless of its contents, and its quarantine table."""
        archived = self._store.archive(name)  # first: if its name is taken, nothing is renamed
        if self._has_refusals():
            self._beside.archive(name + SUFFIX)
        return archived

    def new_ledger(self, mark: str) -> str:  # noqa: ARG002 - the new table has its own UUID
        """Return the name of the new table's first ledger."""
        return self.own_ledger

    def prepare(self) -> None:
        """Create the table or add its new columns."""
        self._store.ensure(self._plan)

    def read(self) -> Ledger | None:
        """Read the ledger; None if there is none."""
        return self._store.read()

    def written(self) -> Sightings:
        """Return the source positions of the table's rows."""
        return self._store.positions_of(self._plan.contract.topic)

    def last_epoch(self, ledger: str) -> int:
        """Return a number above which the next epoch of this ledger name must be, by the table's history."""
        return self._store.last_epoch(ledger)

    def fence(self, ledger: str, slots: int) -> None:
        """Fence the producers of the quarantine topic, and the one that sends records back."""
        for slot in range(slots):
            TransactionalProducer(self._kafka, transactional_id(ledger, slot)).fence()
        fenced_sender(self._kafka, ledger)

    def write(self, held: Ledger | None, new: Ledger, *, is_rebuilt: bool = False) -> None:
        """Publish an empty batch that updates the ledger, as a claim does."""
        move_ledger(self._store, held, new, "adoption", is_rebuilt=is_rebuilt)

    def require_rewindable(self) -> None:
        """Raise ConflictError unless rows are appended: a merged row has replaced earlier ones, which are gone."""
        if not self.is_appended:
            raise ConflictError(
                f"{self.name} is upserted into: its rows have replaced others, which no rewind brings back; nothing was "
                f"changed. Begin again with a new table: tidegate archive {self._plan.contract.id}"
            )

    def position_at(self, snapshot: int, held: Ledger) -> Vector:
        """Return the end vector of the ledger at a snapshot, from the table's history."""
        return self._store.position_at(snapshot, held)

    def written_with(self, column: str, values: Sequence[str]) -> Positions:
        """Return the source positions of the rows whose column has one of these values."""
        return self._store.positions_with(self._plan.contract.topic, column, values).seen

    def require_replayable(self, *, has_keys: bool, append_late: bool) -> None:
        """Require nothing: a table keeps the newest row of a key."""

    def retract(self, taken: Vector | Positions, held: Ledger, new: Ledger) -> None:
        """Delete the rows and update the ledger, with retries while other writers commit."""
        doing("deleting rows")
        for _ in range(STAGE_ATTEMPTS):
            if self._store.retract(taken, held, new):
                return
        raise Unavailable(f"{self.name}: other commits kept moving the table meanwhile; try again")

    def refused_rows(self, ledger: Ledger) -> Positions:
        """Return the source positions of the rows in the quarantine table of this ledger."""
        held = self._beside.read() if self._has_refusals() else None
        if held is None or (held.name, held.topic_id) != (ledger.name, ledger.topic_id):
            return Positions()
        return self._beside.positions_of(ledger.topic).seen

    def follow_quarantine(self, ledger: Ledger) -> None:
        """Delete the quarantine table's rows that no longer count, and add missing ones."""
        if self._has_refusals():
            contract = self._plan.contract
            table = QuarantineTable(self._kafka, self._beside, quarantine_topic(contract.topic))
            doing("bringing the quarantine table up to date")
            table.start(ledger, contract)

    def _has_refusals(self) -> bool:
        """Return whether this stream's quarantine table exists, regardless of the settings."""
        if not self._beside.exists():
            return False
        held = self._beside.read()
        return held is not None and held.stream == self._plan.contract.id
