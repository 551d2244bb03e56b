"""Compare a cluster with the declared topics: pure, so that a plan can be shown and tested."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tidegate.gateway.topics.document import WantedTopic


@dataclass(frozen=True, slots=True)
class ActualTopic:
    """A topic as the cluster has it, with all of its settings."""

    name: str
    partitions: int
    replication: int
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """A topic that is not there."""

    topic: WantedTopic


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """A topic that has too few partitions. Records of one key may go to another partition from then on."""

    topic: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class ChangeSetting:
    """A setting that has another value; `before` is None if the cluster knows no such setting of a topic."""

    topic: str
    key: str
    before: str | None
    after: str


@dataclass(frozen=True, slots=True)
class Impossible:
    """A declared change that is not possible here, with what to do instead."""

    topic: str
    reason: str


Change = CreateTopic | AddPartitions | ChangeSetting


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes that bring a cluster to the state of a file, in the file's order, and the differences without one.

    Topics and settings that the file does not name are left as they are: nothing is ever deleted.
    """

    changes: tuple[Change, ...]
    impossible: tuple[Impossible, ...]


def plan_topics(wanted: Iterable[WantedTopic], actual: Mapping[str, ActualTopic]) -> Plan:
    """Compare what is wanted with what is there."""
    changes: list[Change] = []
    impossible: list[Impossible] = []
    for topic in wanted:
        found = actual.get(topic.name)
        if found is None:
            changes.append(CreateTopic(topic))
            continue
        if topic.partitions > found.partitions:
            changes.append(AddPartitions(topic.name, found.partitions, topic.partitions))
        impossible += _impossible(topic, found)
        changes += (
            ChangeSetting(topic.name, key, found.config.get(key), value)
            for key, value in sorted(topic.config.items())
            if not _is_same(found.config.get(key), value)
        )
    return Plan(tuple(changes), tuple(impossible))


def _impossible(topic: WantedTopic, found: ActualTopic) -> Iterator[Impossible]:
    if topic.partitions < found.partitions:
        yield Impossible(
            topic.name,
            f"it has {found.partitions} partitions, and {topic.partitions} are wanted: partitions cannot be taken away; write "
            f"{found.partitions}, or make a topic of another name",
        )
    if topic.replication is not None and topic.replication != found.replication:
        yield Impossible(
            topic.name,
            f"it is replicated {found.replication} times, and {topic.replication} are wanted: move its replicas with "
            "kafka-reassign-partitions.sh, then plan again",
        )


def _is_same(actual: str | None, wanted: str) -> bool:
    """Compare as Kafka means it: a list of policies has no order."""
    return actual is not None and sorted(actual.split(",")) == sorted(wanted.split(","))
