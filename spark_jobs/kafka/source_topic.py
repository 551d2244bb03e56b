"""The topic that a stream reads: the one that the ledger counts, and where in it the stream goes on."""

from __future__ import annotations

from tidegate.contracts.errors import StreamStopped, Unavailable
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.ledger import Ledger, Vector
from tidegate.spark_jobs.kafka.topics import Topic, Topics


def find_source(topics: Topics, plan: EnforcementPlan) -> Topic:
    """Describe the topic of a contract. Raises Unavailable when it does not exist."""
    source = topics.describe(plan.contract.topic)
    if source is None:
        raise Unavailable(
            f"topic {plan.contract.topic} of contract {plan.contract.id} does not exist; create it"
        )
    return source


def require_same(topics: Topics, source: Topic, ledger: Ledger) -> None:
    """Raise StreamStopped when the topic is no longer the one that the ledger counts.

    Raises Unavailable when the broker does not know the topic. A broker that has just started, or lags behind the
    controller, says so of topics that exist; of one that was deleted the next attempts say it again.
    """
    identity = topics.identity(source.name)
    if identity is None:
        raise Unavailable(f"the broker does not know topic {source.name} any more; the stream asks again")
    if identity[0] != ledger.topic_id:
        raise StreamStopped(_recreated(source.name))


def resume(ledger: Ledger, source: Topic, earliest: Vector, latest: Vector) -> Vector:
    """Return where reading goes on, for every partition. Raises StreamStopped when that is no longer possible."""
    if ledger.topic_id != source.topic_id:
        raise StreamStopped(_recreated(source.name))
    for partition, end in sorted(ledger.end.items()):
        if earliest.get(partition, 0) > end:
            raise StreamStopped(
                f"{source.name}: partition {partition} begins at {earliest[partition]}, the ledger ends at {end}: records "
                f"were deleted before they were judged. {_without_them(ledger, partition, earliest[partition])}"
            )
        if latest.get(partition, 0) < end:
            raise StreamStopped(
                f"{source.name}: partition {partition} ends at {latest.get(partition, 0)}, before the ledger's {end}: "
                "the broker has lost records that were judged; restore them before going on"
            )
    for partition, first in sorted(earliest.items()):
        # A new ledger knows every partition that its topic has: this one was added since, and began at 0.
        if partition not in ledger.end and first > 0:
            raise StreamStopped(
                f"{source.name}: partition {partition} was added since the ledger was written, and begins at {first}: its "
                f"first records were deleted before they were judged. {_without_them(ledger, partition, first)}"
            )
    return {partition: ledger.end.get(partition, first) for partition, first in earliest.items()}


def _without_them(ledger: Ledger, partition: int, first: int) -> str:
    return (
        f"Lengthen the topic's retention; to go on without them: tidegate adopt {ledger.stream} --partition {partition} "
        f"--from {first} --accept-loss"
    )


def _recreated(topic: str) -> str:
    return (
        f"topic {topic} was deleted and created again: its offsets say nothing about the ledger's. Give the new topic a new "
        "contract id (or a new table) and start again"
    )
