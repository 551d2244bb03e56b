"""The comparison of a cluster with the declared topics: pure functions, so a plan can be shown and tested."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tidegate.gateway.topics.document import WantedTopic


@dataclass(frozen=True, slots=True)
class ActualTopic:
    """The state of a topic in the cluster; `config` has all of its settings, defaults included."""

    name: str
    partitions: int
    replication: int
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """The creation of a topic that does not exist."""

    topic: WantedTopic


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """An increase of a topic's partitions. From then on, records of a key may go to another partition than before."""

    topic: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class ChangeSetting:
    """A change of a topic setting; `before` is None if the cluster does not have the setting."""

    topic: str
    key: str
    before: str | None
    after: str


@dataclass(frozen=True, slots=True)
class Impossible:
    """A difference that Tidegate cannot apply; `reason` says why, and what to do instead."""

    topic: str
    reason: str


Change = CreateTopic | AddPartitions | ChangeSetting


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes that bring a cluster to the declared state, in the file's order, and the impossible ones.

    Topics and settings that the file does not name stay as they are: nothing is ever deleted.
    """

    changes: tuple[Change, ...]
    impossible: tuple[Impossible, ...]


def plan_topics(wanted: Iterable[WantedTopic], actual: Mapping[str, ActualTopic]) -> Plan:
    """Return the plan that brings the actual topics (by name) to the wanted state."""
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
    """Return whether two values of a setting are equal; the order of a comma-separated list does not matter."""
    return actual is not None and sorted(actual.split(",")) == sorted(wanted.split(","))
