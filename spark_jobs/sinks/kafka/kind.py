"""The Kafka sink as the job, `tidegate adopt` and a reconciliation open it."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from tidegate.contracts.errors import Unavailable
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.adoption import Ahead
from tidegate.contracts.stream.ledger import Ledger
from tidegate.contracts.stream.output_topics import accepted_topic
from tidegate.contracts.stream.positions import Sightings
from tidegate.spark_jobs.kafka.kafka_ledger import (
    ensure_ledger_topic,
    ledger_name,
    ledger_record,
    read_ledger,
    transactional_id,
)
from tidegate.spark_jobs.kafka.outputs import TransactionalProducer
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.sinks.kafka.sink import KafkaSink
from tidegate.spark_jobs.sinks.kind import SinkContext, SinkKind
from tidegate.spark_jobs.sinks.outputs import FindPlan, Outputs, output_positions, unclaimed
from tidegate.spark_jobs.sinks.recovery_scan import names_ledger

if TYPE_CHECKING:
    from tidegate.spark_jobs.settings import JobSettings, SinkSettings


def _open(context: SinkContext) -> KafkaSink:
    quarantine = context.quarantine()
    accepted = context.output(accepted_topic(context.source.name))
    return KafkaSink(context.settings, context.contract_id, accepted, quarantine, context.dropped())


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
        return Sightings(output_positions(self._kafka, self._accepted, self.own_ledger, self._topic))

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


def _read_outputs(settings: SinkSettings, contract_id: str, _: FindPlan, __: ExitStack) -> Outputs:
    kafka = settings.kafka
    name = ledger_name(contract_id)
    ledger = read_ledger(kafka, name)
    if ledger is None:
        raise unclaimed(f"contract {contract_id} in Kafka")
    accepted = accepted_topic(ledger.topic)
    written = Sightings(output_positions(kafka, accepted, name, ledger.topic))
    later = read_ledger(kafka, name)
    is_whole = not any(Topics(kafka).earliest(accepted).values())
    return Outputs(ledger, written, later, max(ledger.slots, later.slots if later else 1) > 1, is_whole)


KIND: Final = SinkKind(_open, AdoptableTopic, _read_outputs)
