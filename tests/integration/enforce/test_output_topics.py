"""Topics that take what the job writes, on a real broker: made as they must be, or refused with what to change."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from threading import Event

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import NewPartitions
from structlog.testing import capture_logs

from tests.integration.enforce.line import Line, row
from tidegate.contracts.errors import Fenced, StreamStopped
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.output_topics import (
    accepted_topic,
    marks_topic,
    quarantine_topic,
    replayed_topic,
)
from tidegate.gateway.embedded.broker import Broker
from tidegate.spark_jobs.kafka.outputs import OutputRecord, TransactionalProducer, read_committed
from tidegate.spark_jobs.kafka.topics import TopicDescription, Topics

MakeTopic = Callable[..., str]
NO_LIMIT = str(2**63 - 1)
GOOD = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "max.message.bytes": str(1_048_588 + 64 * 1024),
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": NO_LIMIT,
    "message.timestamp.after.max.ms": NO_LIMIT,
}


def as_arguments(settings: dict[str, str]) -> dict[str, str]:
    return {key.replace(".", "_"): value for key, value in settings.items()}


def settings_of(broker: Broker, topic: str) -> dict[str, str]:
    """Read a topic's settings as any other tool would."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    entries = client.describe_configs([resource])[resource].result(30)
    return {key: str(entry.value) for key, entry in entries.items()}


def obey(broker: Broker, message: str) -> None:
    """Do what the message says: alter the settings of the topic that it names."""
    found = re.search(r"--entity-name (\S+) --add-config (\S+)", message)
    assert found is not None
    alter(broker, found[1], dict(change.split("=", 1) for change in found[2].split(",")))


def alter(broker: Broker, topic: str, settings: dict[str, str]) -> None:
    """Alter settings of a topic, and wait until the broker itself has heard of it from its controller."""
    changes = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in settings.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=changes)
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    client.incremental_alter_configs([resource])[resource].result(30)
    while not settings_of(broker, topic).items() >= settings.items():
        pass


@pytest.fixture
def source(broker: Broker, make_topic: MakeTopic) -> TopicDescription:
    found = Topics(KafkaConnection(broker.bootstrap)).describe(make_topic("rows", partitions=3))
    assert found is not None
    return found


def test_an_output_topic_is_made_as_it_must_be(broker: Broker, source: TopicDescription) -> None:
    name = f"{source.name}.quarantine"
    topics = Topics(KafkaConnection(broker.bootstrap))
    topics.ensure_quarantine(name, source, None)
    made = topics.describe(name)
    assert made is not None
    assert made.partitions == 3
    assert settings_of(broker, name).items() >= GOOD.items()
    with capture_logs() as events:
        topics.ensure_quarantine(name, source, None)
    assert events == []


def test_a_source_of_large_records_gets_outputs_for_larger_ones(
    broker: Broker, make_topic: MakeTopic
) -> None:
    topics = Topics(KafkaConnection(broker.bootstrap))
    source = topics.describe(make_topic("rows", max_message_bytes="5000000"))
    assert source is not None
    topics.ensure_quarantine(f"{source.name}.quarantine", source, None)
    assert settings_of(broker, f"{source.name}.quarantine")["max.message.bytes"] == str(5_000_000 + 64 * 1024)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cleanup.policy", "compact"),
        ("cleanup.policy", "compact,delete"),
        ("retention.ms", "3600000"),
        ("retention.bytes", "268435456"),
        ("max.message.bytes", "1048588"),
        ("message.timestamp.type", "LogAppendTime"),
        ("message.timestamp.before.max.ms", "86400000"),
        ("message.timestamp.after.max.ms", "3600000"),
    ],
)
def test_settings_that_would_lose_records_are_refused_with_the_command_that_mends_them(
    broker: Broker, make_topic: MakeTopic, source: TopicDescription, key: str, value: str
) -> None:
    name = make_topic("rows.quarantine", **as_arguments(GOOD | {key: value}))
    topics = Topics(KafkaConnection(broker.bootstrap))
    with pytest.raises(StreamStopped) as stopped:
        topics.ensure_quarantine(name, source, None)
    assert str(stopped.value) == (
        f"topic {name} would not keep what is written to it ({key} is {value}); kafka-configs.sh --alter --entity-type "
        f"topics --entity-name {name} --add-config {key}={GOOD[key]}"
    )
    obey(broker, str(stopped.value))
    topics.ensure_quarantine(name, source, None)


def test_all_wrong_settings_are_named_at_once(
    broker: Broker, make_topic: MakeTopic, source: TopicDescription
) -> None:
    name = make_topic("rows.quarantine")
    topics = Topics(KafkaConnection(broker.bootstrap))
    with pytest.raises(StreamStopped) as stopped:
        topics.ensure_quarantine(name, source, None)
    obey(broker, str(stopped.value))
    topics.ensure_quarantine(name, source, None)


@pytest.mark.parametrize(("key", "value"), [("retention.ms", "86400000"), ("retention.bytes", "1000000000")])
def test_the_operator_chooses_the_retention_and_the_log_shows_it(
    broker: Broker, make_topic: MakeTopic, source: TopicDescription, key: str, value: str
) -> None:
    name = make_topic("rows.quarantine", **as_arguments(GOOD | {key: value}))
    topics = Topics(KafkaConnection(broker.bootstrap))
    with capture_logs() as events:
        topics.ensure_quarantine(name, source, None)
    (event,) = events
    assert (event["event"], event["topic"], event["settings"]) == (
        "output_topic_forgets",
        name,
        f"{key} is {value}",
    )
    obey(broker, event["command"])
    with capture_logs() as events:
        topics.ensure_quarantine(name, source, None)
    assert events == []


def test_a_ledger_topic_must_be_compacted_and_have_its_partitions(
    broker: Broker, make_topic: MakeTopic
) -> None:
    topics = Topics(KafkaConnection(broker.bootstrap))
    name = make_topic("ledger", partitions=2)
    with pytest.raises(StreamStopped, match=r"cleanup\.policy is delete"):
        topics.ensure_compacted(name, 4)
    few = make_topic("ledger", partitions=2, cleanup_policy="compact")
    with pytest.raises(StreamStopped, match=f"topic {few} has 2 partitions and needs 4"):
        topics.ensure_compacted(few, 4)
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_partitions([NewPartitions(few, 4)])[few].result(30)
    while len(topics.latest(few)) < 4:  # until the broker knows of it
        pass
    topics.ensure_compacted(few, 4)
    topics.ensure_compacted(make_topic("ledger", partitions=4, cleanup_policy="compact"), 4)


@pytest.mark.parametrize("sink", ["iceberg", pytest.param("kafka", marks=pytest.mark.full)])
def test_a_job_does_not_begin_on_a_topic_that_would_lose_its_records(
    make_line: Callable[..., Line], broker: Broker, sink: str
) -> None:
    """And goes on when the person has done what it says."""
    line = make_line(sink=sink)
    line.produce(row(0, 999), row(1))
    output = quarantine_topic(line.topic) if sink == "iceberg" else accepted_topic(line.topic)
    topics = Topics(KafkaConnection(broker.bootstrap))
    source = topics.describe(line.topic)
    assert source is not None
    topics.ensure_quarantine(output, source, None)
    alter(broker, output, {"cleanup.policy": "compact"})
    with pytest.raises(
        StreamStopped, match=f"topic {output} would not keep .*cleanup.policy is compact"
    ) as stopped:
        line.enforce()
    assert line.reports == []
    obey(broker, str(stopped.value))
    line.enforce()
    assert line.reconcile().holds
    assert len(line.quarantined()) == 1


@pytest.mark.parametrize("more", [0, 10_000])
def test_a_record_that_an_output_does_not_take_stops_the_stream_and_says_which_limit(
    broker: Broker, make_topic: MakeTopic, more: int
) -> None:
    """Nothing of its transaction is there; a person has to raise the limit."""
    name = make_topic("small", max_message_bytes="100000")
    producer = TransactionalProducer(KafkaConnection(broker.bootstrap), name)
    producer.fence()

    def records() -> Iterator[OutputRecord]:
        for size in (10, 200_000):
            yield name, os.urandom(size), None, 0, 1, []
        for _ in range(more):  # slow enough that the broker's answer comes while they are sent
            Event().wait(0.001)
            yield name, b"", None, 0, 1, []

    with pytest.raises(StreamStopped, match=f"{name}.*a larger max.message.bytes"):
        producer.write(records())
    producer = TransactionalProducer(KafkaConnection(broker.bootstrap), name)
    producer.fence()

    def found() -> int:
        connection = KafkaConnection(broker.bootstrap)
        return len(list(read_committed(connection, name, {}, Topics(connection).latest(name))))

    assert found() == 0
    if not more:
        alter(broker, name, {"max.message.bytes": "1000000"})
        producer.write(records())
        assert found() == 2


def test_the_end_of_a_topic_after_a_commit_is_past_its_markers(broker: Broker, make_topic: MakeTopic) -> None:
    """The broker acknowledges a commit before it writes the markers."""
    name, connection = make_topic("outputs", partitions=20), KafkaConnection(broker.bootstrap)
    topics, producer = Topics(connection), TransactionalProducer(connection, name)
    producer.fence()
    found = []
    for _ in range(30):
        producer.write((name, b"", None, partition, 1, []) for partition in range(20))
        found.append(topics.end_after_commit(name))
    assert found == [dict.fromkeys(range(20), 2 * n) for n in range(1, 31)]


def test_an_open_transaction_of_another_producer_is_not_waited_for(
    broker: Broker, make_topic: MakeTopic
) -> None:
    name, connection = make_topic("outputs"), KafkaConnection(broker.bootstrap)
    topics, producer = Topics(connection), TransactionalProducer(connection, name)
    producer.fence()
    with producer.transaction() as send:
        send([(name, b"", None, 0, 1, [])])
        while topics.latest(name) == {0: 0}:
            pass
        assert topics.end_after_commit(name) == {0: 1}
    assert topics.end_after_commit(name) == {0: 2}


def test_a_fenced_producer_raises_fenced_whenever_its_client_notices(
    broker: Broker, make_topic: MakeTopic
) -> None:
    """The client may raise its KafkaError itself, which no handler of `Exception` or `BaseException` catches."""
    name, connection = make_topic("outputs"), KafkaConnection(broker.bootstrap)
    for records in [100] * 5 + [1, 5_000]:
        older = TransactionalProducer(connection, name)
        older.fence()

        def overtaken(records: int = records) -> Iterator[OutputRecord]:
            TransactionalProducer(connection, name).fence()
            yield from [(name, b"", None, 0, 1, [])] * records

        with pytest.raises(Fenced):
            older.write(overtaken())


DAY_MS = 24 * 60 * 60 * 1000


@pytest.mark.parametrize(
    ("retention", "days", "times"),
    [({}, 90, "LogAppendTime"), ({"quarantine_days": 30}, 30, "LogAppendTime"), ({"quarantine_days": None}, None, "CreateTime")],
)  # fmt: skip
def test_a_contract_says_how_long_refused_records_are_kept(
    broker: Broker, make_line: Callable[..., Line], retention: dict[str, int | None], days: int | None, times: str
) -> None:  # fmt: skip
    """From their refusal on: a record of 2001 would be deleted at once if its own time counted."""
    line = make_line()
    line.contracts.plan = line.plan(retention=retention)
    old = 1_000_000_000_000
    line.produce(replace(row(1, 999), timestamp_ms=old))
    before = time.time() * 1000
    line.enforce()
    settings = settings_of(broker, quarantine_topic(line.topic))
    assert settings["retention.ms"] == (str(days * DAY_MS) if days else "-1")
    assert settings["message.timestamp.type"] == times
    kafka = line.settings.kafka
    name = quarantine_topic(line.topic)
    (kept,) = read_committed(kafka, name, {}, Topics(kafka).latest(name))
    assert kept.timestamp()[1] == old if days is None else kept.timestamp()[1] >= before
    (found,) = line.quarantined()
    assert found.timestamp_ms == old


@pytest.mark.parametrize(
    ("of_source", "days", "kept"),
    [("-1", None, "-1"), (str(3 * DAY_MS), None, str(10 * DAY_MS)), ("60000", None, str(8 * DAY_MS)), ("-1", 5, str(5 * DAY_MS))],
)  # fmt: skip
def test_accepted_records_are_kept_longer_than_the_source_keeps_them_or_as_the_contract_says(
    broker: Broker, make_topic: MakeTopic, of_source: str, days: int | None, kept: str
) -> None:  # fmt: skip
    topics = Topics(KafkaConnection(broker.bootstrap))
    source = topics.describe(make_topic("rows", retention_ms=of_source))
    assert source is not None
    topics.ensure_accepted(f"{source.name}.accepted", source, days)
    settings = settings_of(broker, f"{source.name}.accepted")
    assert (settings["retention.ms"], settings["message.timestamp.type"]) == (kept, "CreateTime")


@pytest.mark.parametrize(
    ("of_source", "days", "kept"),
    [
        (str(3 * DAY_MS), 30, str(30 * DAY_MS)),
        (str(60 * DAY_MS), 30, str(60 * DAY_MS)),
        ("-1", 30, "-1"),
        (str(3 * DAY_MS), None, "-1"),
    ],
)
def test_marks_of_deleted_keys_are_kept_as_long_as_refused_records_and_the_source(
    broker: Broker, make_topic: MakeTopic, of_source: str, days: int | None, kept: str
) -> None:
    topics = Topics(KafkaConnection(broker.bootstrap))
    source = topics.describe(make_topic("rows", retention_ms=of_source))
    assert source is not None
    topics.ensure_marks(marks_topic(source.name), source, days)
    assert settings_of(broker, marks_topic(source.name))["retention.ms"] == kept


def test_positions_of_replayed_records_are_kept_for_ever_unless_the_operator_decides_otherwise(
    broker: Broker, source: TopicDescription
) -> None:
    topics, name = Topics(KafkaConnection(broker.bootstrap)), replayed_topic(source.name)
    topics.ensure_replayed(name, source)
    assert settings_of(broker, name)["retention.ms"] == "-1"
    alter(broker, name, {"retention.ms": str(DAY_MS)})
    with capture_logs() as events:
        topics.ensure_replayed(name, source)
    (event,) = events
    assert (event["event"], event["settings"]) == ("output_topic_forgets", f"retention.ms is {DAY_MS}")
    obey(broker, event["command"])
    with capture_logs() as events:
        topics.ensure_replayed(name, source)
    assert events == []


def test_an_existing_topic_keeps_its_settings_and_a_short_retention_is_logged(
    broker: Broker, make_topic: MakeTopic, source: TopicDescription
) -> None:
    topics = Topics(KafkaConnection(broker.bootstrap))
    for_ever = make_topic("rows.quarantine", **as_arguments(GOOD))
    with capture_logs() as events:
        topics.ensure_quarantine(for_ever, source, 30)
    assert events == []
    shorter = make_topic("rows.quarantine", **as_arguments(GOOD | {"retention.ms": str(2 * DAY_MS)}))
    with capture_logs() as events:
        topics.ensure_quarantine(shorter, source, 30)
    (event,) = events
    assert event["settings"] == f"message.timestamp.type is CreateTime, retention.ms is {2 * DAY_MS}"
    obey(broker, event["command"])
    with capture_logs() as events:
        topics.ensure_quarantine(shorter, source, 30)
    assert events == []
