"""What a cluster lacks, without a cluster."""

from __future__ import annotations

from tidegate.gateway.topics.document import WantedTopic
from tidegate.gateway.topics.plan import (
    ActualTopic,
    AddPartitions,
    ChangeSetting,
    CreateTopic,
    Plan,
    plan_topics,
)

CONFIG = {"cleanup.policy": "compact,delete", "retention.ms": "5"}


def actual(partitions: int = 3, replication: int = 1, **config: str) -> dict[str, ActualTopic]:
    settings = {
        **CONFIG,
        "segment.ms": "9",
        **{key.replace("_", "."): value for key, value in config.items()},
    }
    return {"t": ActualTopic("t", partitions, replication, settings)}


def wanted(partitions: int = 3, replication: int | None = 1) -> list[WantedTopic]:
    return [WantedTopic("t", partitions, replication, CONFIG)]


def test_what_is_so_already_needs_nothing_and_what_is_not_named_is_left() -> None:
    assert plan_topics(wanted(), actual(cleanup_policy="delete,compact")) == Plan((), ())
    assert plan_topics([], actual()) == Plan((), ())
    assert plan_topics(wanted(replication=None), actual(replication=3)) == Plan((), ())


def test_topics_partitions_and_settings_are_added() -> None:
    assert plan_topics(wanted(), {}).changes == (CreateTopic(wanted()[0]),)
    assert plan_topics(wanted(partitions=5), actual(retention_ms="7")) == Plan(
        (AddPartitions("t", 3, 5), ChangeSetting("t", "retention.ms", "7", "5")), ()
    )


def test_partitions_are_not_taken_away_and_replicas_not_moved() -> None:
    (fewer,) = plan_topics(wanted(partitions=2), actual()).impossible
    assert "it has 3 partitions, and 2 are wanted: partitions cannot be taken away" in fewer.reason
    (moved,) = plan_topics(wanted(replication=3), actual()).impossible
    assert "kafka-reassign-partitions.sh" in moved.reason
