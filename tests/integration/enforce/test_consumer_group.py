"""Where a stream stands, as ordinary tools see it: an admin client, and a consumer of the stream's group."""

from __future__ import annotations

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from structlog.testing import capture_logs

from tests.integration.enforce.line import Line, row
from tidegate.spark_jobs.kafka.consumer_group import group_of
from tidegate.spark_jobs.kafka.outputs import read_committed
from tidegate.spark_jobs.kafka.topics import Topics


def offsets_of(line: Line) -> dict[int, int]:
    """The group's offsets by partition, asked of the broker."""
    admin = AdminClient({"bootstrap.servers": line.settings.bootstrap_servers})
    group = group_of(line.contract_id)
    answer = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(30)
    return {each.partition: each.offset for each in answer.topic_partitions or () if each.topic == line.topic}


def committed(line: Line) -> dict[int, int]:
    """The same, as a consumer of the group finds it."""
    consumer = Consumer(
        {"bootstrap.servers": line.settings.bootstrap_servers, "group.id": group_of(line.contract_id)}
    )
    try:
        found = consumer.committed([TopicPartition(line.topic, partition) for partition in (0, 1)], 30)
        return {each.partition: each.offset for each in found}
    finally:
        consumer.close()


def test_the_group_stands_where_the_ledger_stands_and_nothing_reads_it_back(line: Line) -> None:
    line.produce(*(row(number) for number in range(5)), row(5, 999))
    line.enforce()
    assert line.ledger().end == {0: 3, 1: 3}
    assert offsets_of(line) == committed(line) == {0: 3, 1: 3}
    admin = AdminClient({"bootstrap.servers": line.settings.bootstrap_servers})
    wrong = [TopicPartition(line.topic, 0, 0), TopicPartition(line.topic, 1, 3)]
    group = group_of(line.contract_id)
    admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wrong)])[group].result(30)
    assert offsets_of(line) == {0: 0, 1: 3}
    line.produce(row(6))
    line.enforce()
    assert offsets_of(line) == {0: 4, 1: 3}
    assert line.reconcile().holds
    assert len(line.rows()) == 6


def test_a_group_that_somebody_consumes_with_hinders_nothing(line: Line) -> None:
    line.produce(*(row(number) for number in range(4)))
    consumer = Consumer(
        {
            "bootstrap.servers": line.settings.bootstrap_servers,
            "group.id": group_of(line.contract_id),
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe([line.topic])
        assert consumer.poll(60) is not None  # it is a member now
        with capture_logs() as logs:
            line.enforce()
    finally:
        consumer.close()
    (told,) = (each for each in logs if each["event"] == "offsets_not_told")
    assert (told["group"], "UNKNOWN_MEMBER_ID" in told["error"]) == (group_of(line.contract_id), True)
    assert line.reconcile().holds
    kafka = line.settings.kafka
    assert len(list(read_committed(kafka, line.topic, {}, Topics(kafka).latest(line.topic)))) == 4
    assert len(line.rows()) == 4
