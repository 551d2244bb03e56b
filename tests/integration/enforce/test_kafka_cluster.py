"""One of three Kafka nodes dies while a stream runs: the others have every record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.integration.enforce.checker import require_exactly_once
from tests.integration.enforce.job import Publish, RunningJob
from tests.integration.enforce.line import Line, row
from tests.integration.enforce.registry import Registry
from tests.integration.scale.brokers import KafkaCluster
from tidegate.contracts.stream.output_topics import accepted_topic, quarantine_topic
from tidegate.gateway.embedded.jars import Jars
from tidegate.gateway.embedded.java import Java

pytestmark = pytest.mark.full

StartRunning = Callable[..., RunningJob]


@pytest.fixture
def three_nodes(tmp_path: Path, jars: Jars, java: Java) -> Iterator[KafkaCluster]:
    running = KafkaCluster(tmp_path, jars, java, 3)
    yield running
    running.stop()


def leader(cluster: KafkaCluster, topic: str) -> int:
    """The node that leads the first partition of a topic."""
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    found = client.describe_topics(TopicCollection([topic]))[topic].result(30)
    return int(found.partitions[0].leader.id)


@pytest.mark.parametrize("sink", ["iceberg", "kafka"])
def test_a_node_that_dies_mid_stream_loses_and_doubles_nothing(
    sink: str,
    three_nodes: KafkaCluster,
    make_line: Callable[..., Line],
    registry: Registry,
    publish: Publish,
    start: StartRunning,
) -> None:
    line = make_line(sink=sink, bootstrap_servers=three_nodes.bootstrap)
    client = AdminClient({"bootstrap.servers": three_nodes.bootstrap})
    client.create_topics([NewTopic(line.topic, 2, 3)])[line.topic].result(30)
    publish(line.document())
    line.produce(*(row(number, 999 if number % 5 == 0 else 1) for number in range(40)))
    job = start(registry.url, [line], "--max-offsets", "10", "--trigger-seconds", "0.1")
    job.await_event("batch_published", stream=line.contract_id)
    # It leads what the stream writes in transactions, and so it is missed.
    three_nodes.kill(leader(three_nodes, quarantine_topic(line.topic)))
    for begin in range(40, 200, 20):
        line.produce(*(row(number, 999 if number % 5 == 0 else 1) for number in range(begin, begin + 20)))
    job.await_event("batch_published", stream=line.contract_id, lag=0)
    # An admin client that looks for another controller every five minutes only makes it ten or more.
    assert sum(event["event"] == "stream_restarting" for event in job.events) < 6
    line.enforce()
    require_exactly_once(line)
    assert line.ledger().totals.offsets == 200
    client = AdminClient(
        {"bootstrap.servers": three_nodes.bootstrap}
    )  # the other one may still ask the dead node
    described = client.describe_topics(TopicCollection([quarantine_topic(line.topic)]))
    partition, *_ = described[quarantine_topic(line.topic)].result(30).partitions
    assert len(partition.replicas) == 3
    if sink == "kafka":
        assert len(line.read(accepted_topic(line.topic))) == 160
