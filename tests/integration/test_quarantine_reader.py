"""The desk's reader against a real broker: committed records only, newest first, bounded, never hanging."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from confluent_kafka import Producer

from contracts.errors import NotFoundError, Unavailable
from contracts.evidence import EventPointer, quarantine_headers
from contracts.kafka_connection import KafkaConnection
from contracts.verdict import Disposition, Severity, Stage, Verdict, Violation
from gateway.desk.quarantine import QuarantineReader
from gateway.embedded.broker import Broker

MakeTopic = Callable[..., str]
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def reader(broker: Broker) -> Iterator[QuarantineReader]:
    reader = QuarantineReader(KafkaConnection(broker.bootstrap))
    yield reader
    reader.close()


def produce(
    broker: Broker, topic: str, numbers: range, *, commits: bool = True, rule: str = "a-rule"
) -> None:
    """Write one transaction of records whose value and source offset are their number."""
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": f"reader/{topic}"}
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    verdict = Verdict(
        Disposition.QUARANTINED, (Violation(Stage.RULE, rule, "/age", Severity.ERROR, "is refused"),)
    )
    for number in numbers:
        producer.produce(
            topic,
            value=str(number).encode(),
            partition=number % 2,
            headers=quarantine_headers(EventPointer("in", number % 2, number), "in", "in@1.0.0", verdict),
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
    broker: Broker, make_topic: MakeTopic, reader: QuarantineReader
) -> None:
    topic = make_topic("dlq", partitions=2)
    for start in range(0, 40, 4):  # many small transactions: every other offset is a marker
        produce(broker, topic, range(start, start + 4))
    produce(broker, topic, range(100, 104), commits=False)
    latest = reader.latest(topic, limit=5)
    assert [record.value for record in latest.records] == [b"39", b"38", b"37", b"36", b"35"]
    assert latest.records[0].timestamp == START + timedelta(seconds=39)
    assert latest.records[0].evidence is not None
    assert latest.records[0].evidence.source == EventPointer("in", 1, 39)
    everything = reader.latest(topic, limit=1000)
    assert (len(everything.records), everything.looked_at, everything.is_complete) == (40, 40, True)


def test_rule_is_looked_for_further_back(
    broker: Broker, make_topic: MakeTopic, reader: QuarantineReader
) -> None:
    topic = make_topic("dlq", partitions=2)
    produce(broker, topic, range(3), rule="rare")
    produce(broker, topic, range(3, 503))
    latest = reader.latest(topic, limit=10, rule="rare")
    assert [record.value for record in latest.records] == [b"2", b"1", b"0"]
    assert (latest.looked_at, latest.is_complete) == (503, True)


def test_one_record_by_its_place(broker: Broker, make_topic: MakeTopic, reader: QuarantineReader) -> None:
    topic = make_topic("dlq", partitions=2)
    produce(broker, topic, range(4))
    assert reader.record(EventPointer(topic, 1, 1)).value == b"3"
    for missing in (EventPointer(topic, 1, 2), EventPointer(topic, 1, 99), EventPointer(topic, 5, 0)):
        with pytest.raises(NotFoundError):  # a transaction marker, past the end, no such partition
            reader.record(missing)


def test_a_topic_that_is_not_there_is_empty(reader: QuarantineReader) -> None:
    assert reader.latest("never-made.quarantine", limit=5).records == ()
    with pytest.raises(NotFoundError):
        reader.record(EventPointer("never-made.quarantine", 0, 0))


def test_a_broker_that_does_not_answer_is_an_outage_and_is_not_asked_again_at_once() -> None:
    reader = QuarantineReader(KafkaConnection("127.0.0.1:9"))
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9 does not answer"):
        reader.latest("any", limit=5)
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9 did not answer a moment ago"):
        reader.latest("any", limit=5)
    reader.close()
