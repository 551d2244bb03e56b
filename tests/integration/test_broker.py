"""The embedded broker is a real one: it keeps records, knows transactions, and survives a restart."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Consumer, Producer, TopicPartition

from tidegate.gateway.embedded.broker import Broker


def read(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    """Return the first `count` committed values of partition 0."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "test", "isolation.level": "read_committed"}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(count, timeout=30)
    consumer.close()
    return [message.value() for message in messages]


def test_round_trip_keeps_every_byte(broker: Broker, make_topic: Callable[..., str]) -> None:
    topic = make_topic("round-trip")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, b"\x00\xff", key=b"k")
    producer.produce(topic, None)
    assert producer.flush(30) == 0
    assert read(broker.bootstrap, topic, 2) == [b"\x00\xff", None]


def test_read_committed_skips_an_aborted_transaction(broker: Broker, make_topic: Callable[..., str]) -> None:
    topic = make_topic("transactions")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"aborted")
    producer.flush(30)
    producer.abort_transaction(30)
    producer.begin_transaction()
    producer.produce(topic, b"committed")
    producer.commit_transaction(30)
    assert read(broker.bootstrap, topic, 1) == [b"committed"]
