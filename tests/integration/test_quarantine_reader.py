"""The desk's reader against a real broker: committed records only, newest first, bounded, never hanging."""

from __future__ import annotations

import tracemalloc
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tidegate.contracts.errors import NotFoundError, Unavailable
from tidegate.contracts.stream.evidence import EventPointer, quarantine_headers
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.verdict import Disposition, Severity, Stage, Verdict, Violation
from tidegate.gateway.embedded.broker import Broker
from tidegate.gateway.streams.quarantine import PART_BYTES, Origin, QuarantineReader

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def reader(broker: Broker) -> Iterator[QuarantineReader]:
    reader = QuarantineReader(KafkaConnection(broker.bootstrap))
    yield reader
    reader.close()


@pytest.fixture
def origin(broker: Broker) -> Origin:
    """Make a stream's quarantine topic with two partitions; its source topic need not exist."""
    name = f"in-{uuid.uuid4().hex[:8]}"
    origin = Origin(name, name)
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    topic = origin.quarantine_topic
    made = NewTopic(topic, 2, 1, config={"max.message.bytes": str(2 * PART_BYTES)})
    client.create_topics([made])[topic].result(30)
    while topic not in client.list_topics(timeout=30).topics:  # made is not yet known
        pass
    return origin


def produce(
    broker: Broker,
    origin: Origin,
    numbers: range,
    *,
    commits: bool = True,
    rule: str = "a-rule",
    padding: int = 0,
) -> None:
    """Write one transaction of records whose value and source offset are their number."""
    topic, name = origin.quarantine_topic, origin.contract_id
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "transactional.id": f"reader/{topic}",
        "message.max.bytes": 2 * PART_BYTES,
    }
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    verdict = Verdict(
        Disposition.QUARANTINED, (Violation(Stage.RULE, rule, "/age", Severity.ERROR, "is refused"),)
    )
    for number in numbers:
        producer.produce(
            topic,
            value=str(number).encode() + b" " * padding,
            partition=number % 2,
            headers=quarantine_headers(
                EventPointer(origin.topic, number % 2, number), name, f"{name}@1.0.0", verdict
            ),
            timestamp=int((START + timedelta(seconds=number)).timestamp() * 1000),
        )
    producer.flush(30)
    if commits:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)
    # The answer comes before the markers are in every partition; this one waits for them.
    Producer(settings).init_transactions(30)


def test_latest_are_the_newest_committed_ones(
    broker: Broker, origin: Origin, reader: QuarantineReader
) -> None:
    for start in range(0, 40, 4):  # many small transactions: every other offset is a marker
        produce(broker, origin, range(start, start + 4))
    produce(broker, origin, range(100, 104), commits=False)
    latest = reader.latest(origin, limit=5)
    assert [record.value for record in latest.records] == [b"39", b"38", b"37", b"36", b"35"]
    assert latest.records[0].timestamp == START + timedelta(seconds=39)
    assert latest.records[0].evidence.source == EventPointer(origin.topic, 1, 39)
    everything = reader.latest(origin, limit=1000)
    assert (len(everything.records), everything.looked_at, everything.is_complete) == (40, 40, True)


def test_rule_is_looked_for_further_back(broker: Broker, origin: Origin, reader: QuarantineReader) -> None:
    produce(broker, origin, range(3), rule="rare")
    produce(broker, origin, range(3, 503))
    latest = reader.latest(origin, limit=10, rule="rare")
    assert [record.value for record in latest.records] == [b"2", b"1", b"0"]
    assert (latest.looked_at, latest.is_complete) == (503, True)


def test_one_record_by_its_place(broker: Broker, origin: Origin, reader: QuarantineReader) -> None:
    produce(broker, origin, range(4))
    assert reader.record(origin, 1, 1).value == b"3"
    for partition, offset in ((1, 2), (1, 99), (5, 0)):
        with pytest.raises(NotFoundError):  # a transaction marker, past the end, no such partition
            reader.record(origin, partition, offset)


@pytest.mark.full
def test_large_records_are_read_in_parts(broker: Broker, origin: Origin, reader: QuarantineReader) -> None:
    """A registry with little memory reads any number of records of the size that a topic allows."""
    produce(broker, origin, range(60), padding=900_000)
    places = [(partition, offset) for partition in (0, 1) for offset in range(100)]
    tracemalloc.start()
    read = [len(each.value or b"") for each in reader.records(origin, places, timedelta(seconds=60))]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(read) == 60
    assert peak < 3 * PART_BYTES < sum(read)


def test_a_record_larger_than_a_part_is_a_part(
    broker: Broker, origin: Origin, reader: QuarantineReader
) -> None:
    produce(broker, origin, range(2))
    produce(broker, origin, range(2, 4), padding=PART_BYTES)
    produce(broker, origin, range(4, 6))
    places = [(partition, offset) for partition in (0, 1, 7) for offset in range(9)]
    parts = list(reader.parts(origin, places, timedelta(seconds=60)))
    found = [int(each.value or b"") for part in parts for each in part.records]
    assert sorted(found) == [0, 1, 2, 3, 4, 5]
    assert sum(part.looked_at for part in parts) == len(places)
    assert all(sum(len(each.value or b"") > PART_BYTES for each in part.records) <= 1 for part in parts)


def test_a_topic_that_is_not_there_is_empty(reader: QuarantineReader) -> None:
    origin = Origin("never-made", "never-made")
    assert reader.latest(origin, limit=5).records == ()
    with pytest.raises(NotFoundError):
        reader.record(origin, 0, 0)


def test_a_broker_that_does_not_answer_is_an_outage_and_is_not_asked_again_at_once() -> None:
    reader = QuarantineReader(KafkaConnection("127.0.0.1:9"))
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9 does not answer"):
        reader.latest(Origin("any", "any"), limit=5)
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9 did not answer a moment ago"):
        reader.latest(Origin("any", "any"), limit=5)
    reader.close()
