"""The Kafka sink as a `SinkKind`: how the job, `tidegate adopt` and a reconciliation open it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, NoReturn

from tidegate.contracts.errors import ConflictError, Unavailable
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.adoption import Ahead
from tidegate.contracts.stream.ledger import Ledger, Vector
from tidegate.contracts.stream.output_topics import LEDGER_TOPIC, accepted_topic
from tidegate.contracts.stream.positions import Positions, Sightings
from tidegate.spark_jobs.kafka.kafka_ledger import (
    ensure_ledger_topic,
    ledger_name,
    ledger_record,
    read_ledger,
    transactional_id,
)
from tidegate.spark_jobs.kafka.outputs import TransactionalProducer
from tidegate.spark_jobs.kafka.replayed import fenced_sender
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.sinks.adoption import readable
from tidegate.spark_jobs.sinks.kafka.sink import KafkaSink, require_order
from tidegate.spark_jobs.sinks.kind import SinkContext, SinkKind
from tidegate.spark_jobs.sinks.outputs import FindPlan, Outputs, output_positions, provenances, unclaimed
from tidegate.spark_jobs.sinks.recovery_scan import names_ledger

if TYPE_CHECKING:
    from tidegate.spark_jobs.settings import JobSettings, SinkSettings


def _open(context: SinkContext) -> KafkaSink:
    quarantine = context.quarantine()
    accepted = context.accepted()
    return KafkaSink(
        context.settings, context.contract_id, accepted, quarantine, context.dropped(), context.replayed()
    )


class AdoptableTopic:
    """The accepted topic and its ledger in the ledger topic, as `tidegate adopt` and similar commands use them."""

    kind = "kafka"
    is_appended = False
    is_renamed = False

    def __init__(self, settings: JobSettings, plan: EnforcementPlan) -> None:
        self._kafka = settings.kafka
        self._topic = plan.contract.topic
        self._stream = plan.contract.id
        self._accepted = accepted_topic(plan.contract.topic)
        self._producer: TransactionalProducer | None = None
        self._key = ledger_name(plan.contract.id)
        self.name = f"kafka:{self._accepted}"
        has_tasks = settings.accepted_slots > 1
        self.ahead: Ahead | None = "written" if has_tasks else None
        self.scanned = self._accepted if has_tasks else None
        self.slots = 1 + settings.accepted_slots if has_tasks else 1

    @property
    def own_ledger(self) -> str:
        """Return the name of the ledger that wrote the accepted records, or that the sink would create now.

        After `tidegate archive` it has a suffix, which a lost ledger leaves in the records only. Raises ConflictError if
        records name several.
        """
        is_there = Topics(self._kafka).identity(self._accepted) is not None
        return self._only_ledger() if is_there else self._key

    def has_written(self) -> bool:
        """Return whether the accepted topic holds a record of the stream."""
        topics = Topics(self._kafka)
        return topics.identity(self._accepted) is not None and names_ledger(
            self._kafka, self._accepted, self._key, self._topic
        )

    def ledger_if_there(self) -> Ledger | None:
        """Read the ledger; None if it or the ledger topic does not exist."""
        return self.read() if Topics(self._kafka).identity(LEDGER_TOPIC) is not None else None

    def archive(self, name: str) -> str | None:  # noqa: ARG002 - required by the protocol
        """Return the topic, or None if it does not exist. Its records stay; their headers name the old ledger."""
        topics = Topics(self._kafka)
        return self._accepted if topics.identity(self._accepted) is not None else None

    def new_ledger(self, mark: str) -> str:
        """Return a ledger name that contains `mark`, so that no record of the topic has it yet."""
        return f"{ledger_name(self._stream)}:{mark}"

    def prepare(self) -> None:
        """Create the ledger topic."""
        ensure_ledger_topic(Topics(self._kafka))

    def read(self) -> Ledger | None:
        """Read the ledger; None if there is none."""
        return read_ledger(self._kafka, self._key)

    def written(self) -> Sightings:
        """Return the source positions of the ledger's accepted records.

        If the ledger is lost, its name is taken from the records' headers. Raises ConflictError if they name several.
        """
        held = self.read()
        name = held.name if held else self._only_ledger()
        return Sightings(output_positions(self._kafka, self._accepted, name, self._topic))

    def _only_ledger(self) -> str:
        found = {each.ledger for each, _ in provenances(self._kafka, self._accepted, self._topic)}
        ours = sorted(each for each in found if each.partition(":")[0] == self._key)
        if len(ours) > 1:
            raise ConflictError(
                f"{self.name} holds records of several ledgers of this stream ({', '.join(ours)}), and the topic of ledgers has "
                "lost the newest: restore tidegate.ledger, or delete the accepted topic and start again"
            )
        return ours[0] if ours else self._key

    def last_epoch(self, ledger: str) -> int:  # noqa: ARG002 - the fence of slot 0 decides, not the epoch
        """Return 0: records do not name their epoch."""
        return 0

    def fence(self, ledger: str, slots: int) -> None:
        """Fence all slots, and the producer that sends records back; slot 0's producer stays open for `write`."""
        # All ledgers of a stream share slot 0, because they have the same key in the ledger topic.
        self._producer = TransactionalProducer(self._kafka, transactional_id(ledger_name(self._stream), 0))
        self._producer.fence()
        for slot in range(1, slots):
            TransactionalProducer(self._kafka, transactional_id(ledger, slot)).fence()
        fenced_sender(self._kafka, ledger)

    def write(
        self,
        held: Ledger | None,
        new: Ledger,
        *,
        is_rebuilt: bool = False,
    ) -> None:
        """Write the ledger with the producer of slot 0; the broker rejects it if another instance has started since.

        With `is_rebuilt`, an unreadable ledger counts as missing. Raises Unavailable if the ledger is no longer `held`.
        """
        assert self._producer is not None, "fence comes first"  # noqa: S101 - a programming error
        if (readable(self.read) if is_rebuilt else self.read()) != held:
            raise Unavailable(f"{self.name}: the ledger has changed during the adoption; run it again")
        self._producer.write([ledger_record(new)])

    def require_rewindable(self) -> NoReturn:
        """Raise ConflictError: records of a topic cannot be removed, and consumers may have read them."""
        raise ConflictError(
            f"{self.name}: records of a topic cannot be taken back, and consumers have read them; nothing was changed. "
            f"Publish the mended contract: it judges what comes from now on. For what is there, judge the topic again into "
            f"a table: tidegate enforce {self._stream} --sink iceberg; or give its readers all records again: tidegate archive "
            f"{self._stream} --repeat-records"
        )

    def position_at(self, snapshot: int, held: Ledger) -> Vector:  # noqa: ARG002 - required by the protocol
        """Raise ConflictError: a topic has no snapshots."""
        raise ConflictError(f"{self.name}: a topic has no snapshots; nothing was changed")

    def written_with(self, column: str, values: Sequence[str]) -> Positions:  # noqa: ARG002 - required by the protocol
        """Raise ConflictError, as `require_rewindable` does."""
        self.require_rewindable()

    def require_replayable(self, *, has_keys: bool, append_late: bool) -> None:
        """Require that no record has a key, or that the request appends it after newer ones of its key."""
        require_order(self._accepted, has_keys=has_keys, append_late=append_late)

    def retract(self, taken: Vector | Positions, held: Ledger, new: Ledger) -> None:  # noqa: ARG002 - the protocol's
        """Raise ConflictError, as `require_rewindable` does."""
        self.require_rewindable()

    def refused_rows(self, ledger: Ledger) -> Positions:  # noqa: ARG002 - required by the protocol
        """Return no positions: a Kafka sink has no quarantine table."""
        return Positions()

    def follow_quarantine(self, ledger: Ledger) -> None:
        """Do nothing: a Kafka sink has no quarantine table."""


def _read_outputs(settings: SinkSettings, contract_id: str, _: FindPlan, __: ExitStack) -> Outputs:
    kafka = settings.kafka
    name = ledger_name(contract_id)
    ledger = read_ledger(kafka, name)
    if ledger is None:
        raise unclaimed(f"contract {contract_id} in Kafka")
    accepted = accepted_topic(ledger.topic)
    written = Sightings(output_positions(kafka, accepted, ledger.name, ledger.topic))
    later = read_ledger(kafka, name)
    is_whole = not any(Topics(kafka).earliest(accepted).values())
    return Outputs(ledger, written, later, max(ledger.slots, later.slots if later else 1) > 1, is_whole)


KIND: Final = SinkKind(_open, AdoptableTopic, _read_outputs)
