"""What an adoption needs of a sink: the positions that it holds, and a way to write a ledger that was not there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.adoption import Ahead
from tidegate.contracts.stream.ledger import Ledger
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.contracts.stream.positions import Sightings
from tidegate.spark_jobs.kafka.kafka_ledger import transactional_id
from tidegate.spark_jobs.kafka.outputs import TransactionalProducer
from tidegate.spark_jobs.sinks.staged import own_ledger_name
from tidegate.spark_jobs.sinks.store import LedgerStore, move_ledger

if TYPE_CHECKING:
    from tidegate.spark_jobs.settings import JobSettings
    from tidegate.spark_jobs.sinks.store import LedgerStore

MOST_SLOTS: Final = 64
"""No setting allows more transactional producers. A lost ledger does not say how many there were."""


class AdoptableSink(Protocol):
    """One sink of a stream, with or without a ledger."""

    name: str
    kind: str
    ahead: Ahead | None
    scanned: str | None
    """The output topic that a start scans for records ahead of the ledger; None when it scans none."""
    slots: int

    @property
    def own_ledger(self) -> str:
        """Name of the ledger that the sink would begin with now."""
        ...

    def has_written(self) -> bool:
        """Return whether the sink itself holds anything of the stream; a quick look."""
        ...

    def prepare(self) -> None:
        """Make ready to hold a ledger, as every start does."""
        ...

    def read(self) -> Ledger | None:
        """Read the ledger; None when there is none."""
        ...

    def written(self) -> Sightings:
        """Return the source positions of all that was written."""
        ...

    def last_epoch(self, ledger: str) -> int:
        """Return an epoch that the sink has seen under this ledger's name; 0 when it tells none."""
        ...

    def fence(self, ledger: str, slots: int) -> None:
        """Fence the transactional producers of a ledger, of so many slots: what they left open is aborted."""
        ...

    def write(self, held: Ledger | None, new: Ledger, *, is_rebuilt: bool = False) -> None:
        """Move the ledger to `new` if it is still `held`; after `fence`. Raises Fenced when it is no longer.

        `is_rebuilt`: `new` was made from what is there, so the table need not hold what `held` was published with.
        """
        ...


class AdoptableTable:
    """A table with its ledger."""

    ahead: Ahead | None = "quarantined"

    def __init__(self, settings: JobSettings, store: LedgerStore, plan: EnforcementPlan) -> None:
        self._kafka = settings.kafka
        self._store = store
        self._plan = plan
        self.name = f"{store.kind}:{store.name}"
        self.kind = store.kind
        self.scanned: str | None = quarantine_topic(plan.contract.topic)
        self.slots = settings.quarantine_slots

    @property
    def own_ledger(self) -> str:
        """Name of the ledger that the sink would begin with now."""
        return own_ledger_name(self._store, self._plan.contract.id)

    def has_written(self) -> bool:
        """Return whether the table holds a row of the topic."""
        return self._store.has_rows_of(self._plan.contract.topic)

    def prepare(self) -> None:
        """Create the table or add its new columns."""
        self._store.ensure(self._plan)

    def read(self) -> Ledger | None:
        """Read the ledger."""
        return self._store.read()

    def written(self) -> Sightings:
        """Return the source positions of the table's rows."""
        return self._store.positions_of(self._plan.contract.topic)

    def last_epoch(self, ledger: str) -> int:
        """Return an epoch that the table's own history has seen."""
        return self._store.last_epoch(ledger)

    def fence(self, ledger: str, slots: int) -> None:
        """Fence the producers of the quarantine topic."""
        for slot in range(slots):
            TransactionalProducer(self._kafka, transactional_id(ledger, slot)).fence()

    def write(self, held: Ledger | None, new: Ledger, *, is_rebuilt: bool = False) -> None:
        """Publish an empty batch, as a claim does."""
        move_ledger(self._store, held, new, "adoption", is_rebuilt=is_rebuilt)
