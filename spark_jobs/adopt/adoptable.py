"""What an adoption needs of a sink: the positions that it holds, and a way to write a ledger that was not there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Protocol

from tidegate.contracts.errors import Unavailable
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.adoption import Ahead
from tidegate.contracts.stream.evidence import Provenance, headers_of, read_provenance
from tidegate.contracts.stream.ledger import Ledger
from tidegate.contracts.stream.output_topics import accepted_topic, quarantine_topic
from tidegate.contracts.stream.positions import Sightings
from tidegate.spark_jobs.kafka.kafka_ledger import (
    ensure_ledger_topic,
    ledger_name,
    ledger_record,
    read_ledger,
    transactional_id,
)
from tidegate.spark_jobs.kafka.outputs import TransactionalProducer, read_committed
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.sinks.settling import names_ledger
from tidegate.spark_jobs.sinks.staged import own_ledger_name

if TYPE_CHECKING:
    from confluent_kafka import Message

    from tidegate.contracts.stream.kafka_connection import KafkaConnection
    from tidegate.spark_jobs.settings import JobSettings
    from tidegate.spark_jobs.sinks.store import LedgerStore

MOST_SLOTS: Final = 64
"""No setting allows more transactional producers. A lost ledger does not say how many there were."""
_ATTEMPTS: Final = 5


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
        for _ in range(_ATTEMPTS):
            if self._store.publish(self._store.stage([], new), held, new, is_rebuilt=is_rebuilt):
                return
        raise Unavailable(f"{self.name}: other commits kept moving the table during the adoption; try again")


class AdoptableTopic:
    """The accepted topic, and the ledger in the compacted topic beside it."""

    kind = "kafka"

    def __init__(self, settings: JobSettings, plan: EnforcementPlan) -> None:
        self._kafka = settings.kafka
        self._topic = plan.contract.topic
        self._accepted = accepted_topic(plan.contract.topic)
        self._producer: TransactionalProducer | None = None
        self.own_ledger = ledger_name(plan.contract.id)
        self.name = f"kafka:{self._accepted}"
        has_tasks = settings.accepted_slots > 1
        self.ahead: Ahead | None = "written" if has_tasks else None
        self.scanned = self._accepted if has_tasks else None
        self.slots = 1 + settings.accepted_slots if has_tasks else 1

    def has_written(self) -> bool:
        """Return whether the accepted topic holds a record of the stream."""
        topics = Topics(self._kafka)
        return topics.identity(self._accepted) is not None and names_ledger(
            self._kafka, self._accepted, self.own_ledger, self._topic
        )

    def prepare(self) -> None:
        """Create the topic of ledgers."""
        ensure_ledger_topic(Topics(self._kafka))

    def read(self) -> Ledger | None:
        """Read the ledger."""
        return read_ledger(self._kafka, self.own_ledger)

    def written(self) -> Sightings:
        """Return the source positions of the accepted records."""
        return Sightings(
            (found.source.partition, found.source.offset)
            for found, _ in provenances(self._kafka, self._accepted, self._topic)
            if found.ledger == self.own_ledger
        )

    def last_epoch(self, ledger: str) -> int:  # noqa: ARG002 - the instance that initialises slot 0 last is the newest
        """Return 0: records do not name their epoch."""
        return 0

    def fence(self, ledger: str, slots: int) -> None:
        """Fence all slots; that of the ledger stays open for writing it."""
        self._producer = TransactionalProducer(self._kafka, transactional_id(ledger, 0))
        self._producer.fence()
        for slot in range(1, slots):
            TransactionalProducer(self._kafka, transactional_id(ledger, slot)).fence()

    def write(
        self,
        held: Ledger | None,
        new: Ledger,
        *,
        is_rebuilt: bool = False,  # noqa: ARG002 - a topic is never rolled back
    ) -> None:
        """Write the ledger as slot 0: the broker refuses it when another instance has started since."""
        assert self._producer is not None, "fence comes first"  # noqa: S101 - a programming error
        if self.read() != held:
            raise Unavailable(f"{self.name}: the ledger has moved during the adoption; look again")
        self._producer.write([ledger_record(new)])


def provenances(kafka: KafkaConnection, topic: str, source: str) -> Iterator[tuple[Provenance, Message]]:
    """Yield the records of an output topic that came from a source topic, whatever ledger they name."""
    topics = Topics(kafka)
    if topics.identity(topic) is None:
        return
    for message in read_committed(kafka, topic, topics.earliest(topic), topics.latest(topic)):
        found = read_provenance(headers_of(message))
        if found is not None and found.source.topic == source:
            yield found, message
