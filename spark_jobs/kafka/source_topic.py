"""The topic that a stream reads: the one that the ledger counts, and the offset at which reading continues."""

from __future__ import annotations

from tidegate.contracts.errors import StreamStopped, Unavailable
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.history import of_topic
from tidegate.contracts.stream.ledger import Ledger, Vector
from tidegate.spark_jobs.kafka.topics import TopicDescription, Topics


def find_source(topics: Topics, plan: EnforcementPlan) -> TopicDescription:
    """Return the description of a contract's topic. Raises Unavailable if it does not exist."""
    source = topics.describe(plan.contract.topic)
    if source is None:
        raise Unavailable(
            f"topic {plan.contract.topic} of contract {plan.contract.id} does not exist; create it"
        )
    return source


def require_same(topics: Topics, source: TopicDescription, ledger: Ledger) -> None:
    """Raise StreamStopped if the topic is no longer the one that the ledger counts.

    Raises Unavailable if the broker does not know the topic. A broker that has just started, or lags behind the
    controller, does not know existing topics for a moment. For a deleted topic, later attempts raise it again.
    """
    identity = topics.identity(source.name)
    if identity is None:
        raise Unavailable(f"the broker does not know topic {source.name} any more; the stream tries again")
    if identity[0] != ledger.topic_id:
        raise StreamStopped(not_its_topic(source.name, ledger))


def resume(ledger: Ledger, source: TopicDescription, earliest: Vector, latest: Vector) -> Vector:
    """Return the offsets from which reading continues, by partition. Raises StreamStopped if records are missing.

    Raises Unavailable for a partition that the broker does not know: partitions are added, and never removed.
    """
    if ledger.topic_id != source.topic_id:
        raise StreamStopped(not_its_topic(source.name, ledger))
    for partition, end in sorted(of_topic(ledger.end).items()):
        if earliest.get(partition, 0) > end:
            raise StreamStopped(
                f"{source.name}: partition {partition} begins at {earliest[partition]}, the ledger ends at {end}: records "
                f"were deleted before they were judged. {_without_them(ledger, partition, earliest[partition])}"
            )
        if partition not in latest and end > 0:
            raise Unavailable(
                f"{source.name}: the broker does not know partition {partition} yet, of which records were judged; the stream "
                f"tries again. If the partition is lost, begin again with an empty output: tidegate archive {ledger.stream}"
            )
        if latest.get(partition, 0) < end:
            raise StreamStopped(
                f"{source.name}: partition {partition} ends at {latest[partition]}, before the ledger's {end}: "
                "the broker has lost records that were judged. Restore them. If they are lost, archive the output and begin "
                f"again with the records that the topic has: tidegate archive {ledger.stream}"
            )
    for partition, first in sorted(earliest.items()):
        # A new ledger has all partitions of its topic: this one was added since, and began at offset 0.
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


def not_its_topic(topic: str, ledger: Ledger) -> str:
    """Return the message for a topic that a ledger does not count: another topic, or one that was recreated since."""
    if ledger.topic != topic:
        return another_topic(ledger.stream, topic, ledger.topic, ledger.stream)
    return (
        f"topic {topic} was deleted and created again: its offsets are not those of the ledger. To archive the output, and "
        f"begin again with an empty one: tidegate archive {ledger.stream}"
    )


def another_topic(contract: str, topic: str, read: str, stream: str) -> str:
    """Return the message for a contract whose topic is not the one that the stream reads."""
    return (
        f"contract {contract} is about topic {topic}, this stream reads {read}. To archive its output, and begin again "
        f"with the other topic: tidegate archive {stream}"
    )
