"""Enforcement into a topic: accepted, refused and ledger in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.integration.enforce.checker import require_exactly_once
from tests.integration.enforce.job import Publish
from tests.integration.enforce.line import KNOWN, Line, Sent, row
from tests.integration.enforce.registry import Registry
from tests.integration.enforce.replaying import MENDED, request
from tests.integration.enforce.test_archive import Archiving
from tests.integration.enforce.test_quarantine_table import cut
from tests.integration.enforce.test_source_changes import PowerCutError, make_anew
from tests.ledgers import LEDGER
from tests.marks import full
from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.stream.evidence import (
    REPLAY_HEADER,
    EventPointer,
    Provenance,
    provenance_headers,
    read_provenance,
)
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.ledger import BatchTotals
from tidegate.contracts.stream.output_topics import LEDGER_TOPIC, accepted_topic
from tidegate.contracts.stream.reconciliation import ReconciliationAnswer
from tidegate.gateway.embedded.broker import Broker
from tidegate.spark_jobs.kafka import kafka_ledger
from tidegate.spark_jobs.kafka.kafka_ledger import ledger_name, ledger_record, read_ledger
from tidegate.spark_jobs.kafka.outputs import TransactionalProducer, read_committed
from tidegate.spark_jobs.sinks import recovery_scan
from tidegate.spark_jobs.sinks.recovery_scan import require_not_ahead
from tidegate.spark_jobs.steps import Step


@pytest.fixture
def topic_line(make_line: Callable[..., Line]) -> Line:
    return make_line(sink="kafka")


def test_accepted_records_keep_every_byte_order_and_say_where_they_came_from(topic_line: Line) -> None:
    records = [
        Sent(b'{"id": "a", "amount": 1}', None, 0, (("trace", b"\x00\xff"), ("trace", None), ("e", b"")), 1),
        Sent(b'{"amount": 2, "id": "b"}', b"", 0, (), 1_700_000_000_000),
        Sent(b'{"id": "c", "amount": 999}', b"k", 1),
        Sent(b'{"id":"d","amount":4}', b"\xff", 1),
    ]
    topic_line.produce(*records)
    topic_line.enforce()
    found = topic_line.accepted()
    kept = [records[0], records[1], records[3]]
    assert [
        Sent(r.value, r.key, r.partition, r.headers[: len(o.headers)], r.timestamp_ms)
        for r, o in zip(found, kept, strict=True)
    ] == kept
    assert [read_provenance(record.headers) for record in found] == [
        Provenance(
            EventPointer(topic_line.topic, p, o), topic_line.ledger().name, f"{topic_line.contract_id}@1.0.0"
        )
        for p, o in ((0, 0), (0, 1), (1, 1))
    ]
    (refused,) = topic_line.quarantined()
    assert (refused.value, refused.key) == (records[2].value, b"k")
    assert topic_line.ledger().totals == BatchTotals(written=3, quarantined=1)
    assert topic_line.reconcile().holds


def test_a_restart_continues_where_the_ledger_stands(topic_line: Line) -> None:
    topic_line.produce(*(row(n) for n in range(10)))
    topic_line.enforce(max_offsets=4)
    topic_line.produce(*(row(n, 999) for n in range(10, 14)))
    topic_line.enforce()
    assert (len(topic_line.accepted()), len(topic_line.quarantined())) == (10, 4)
    assert topic_line.ledger().epoch == 2
    assert topic_line.reconcile().holds


def test_a_batch_that_must_not_pass_leaves_no_trace(topic_line: Line) -> None:
    topic_line.contracts.plan = topic_line.plan(rules=[{**KNOWN, "on_violation": "fail"}])
    topic_line.produce(row(0), row(1), row(3, 999), row(5, 999))
    first = f"the first is at topic {topic_line.topic}, partition 1, offset 1 and violates amount-is-known"
    with pytest.raises(StreamStopped, match=first):
        topic_line.enforce()
    assert (topic_line.accepted(), topic_line.quarantined()) == ([], [])


def test_a_ledger_is_read_from_the_end_of_its_topic(
    topic_line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until Kafka compacts the topic, it has a record of each commit of every stream: 170,000 a day for one."""
    topic_line.produce(row(0))
    topic_line.enforce()
    first, kafka = topic_line.ledger(), topic_line.settings.kafka
    name = ledger_name(topic_line.contract_id)
    partition = ledger_record(first)[3]
    producer = Producer(kafka.for_librdkafka())

    def fill(count: int, key: bytes) -> None:
        for _ in range(count):
            producer.produce(LEDGER_TOPIC, first.text.encode(), key, partition)
        assert producer.flush(30) == 0

    read: list[int] = []

    def count(*places: Any) -> Iterator[Any]:
        for message in read_committed(*places):
            read.append(1)
            yield message

    monkeypatch.setattr(kafka_ledger, "read_committed", count)
    fill(3_000, b"another stream")
    assert read_ledger(kafka, name) == first
    fill(5_000, name.encode())
    read.clear()
    assert read_ledger(kafka, name) == first
    assert len(read) <= 2_000
    assert read_ledger(kafka, "no stream@kafka") is None


@pytest.mark.full
@pytest.mark.parametrize("accepted_slots", [1, 2])
def test_an_accepted_topic_that_is_lost_gets_the_records_that_the_source_still_has(
    make_line: Callable[..., Line], registry: Registry, publish: Publish, accepted_slots: int
) -> None:
    """The stream goes on with a new topic; what tasks wrote there ahead of the ledger is found."""
    line = make_line(sink="kafka", accepted_slots=accepted_slots)
    publish(line.document())
    line.produce(*(row(2 * n) for n in range(5)), row(1, 999))
    line.enforce()
    make_anew(line, accepted_topic(line.topic))
    line.produce(row(10), row(12, 999))
    with pytest.raises(PowerCutError):
        line.enforce(cut(Step.SLOT if accepted_slots > 1 else Step.DECIDE))
    line.enforce()
    assert line.ledger().totals == BatchTotals(written=6, quarantined=2)
    assert [each.key for each in line.accepted()] == [b"10"]
    found = line.reconcile()
    assert (found.answer, found.lost) == (ReconciliationAnswer.LOST, 5)
    archiving = Archiving(registry)
    archiving.archive(line, "away", repeats=True)
    line.enforce()
    assert sorted(each.key or b"" for each in line.accepted()) == [b"0", b"10", b"10", b"2", b"4", b"6", b"8"]
    assert line.ledger().totals == BatchTotals(written=6, quarantined=2)
    assert line.reconcile().holds


@pytest.mark.parametrize("is_restored", [True, *full(False)])
def test_replayed_records_do_not_hide_that_the_ledger_is_older_than_the_topic(
    topic_line: Line, is_restored: bool
) -> None:
    """They are the newest 210 records of each partition, and their sources are covered by the older ledger too."""
    topic_line.produce(*(row(n, 999) for n in range(420)))
    topic_line.enforce()
    older = topic_line.ledger()
    topic_line.produce(row(1000), row(1001))
    topic_line.enforce()
    request(topic_line, fix=MENDED)
    topic_line.enforce()
    if not is_restored:
        topic_line.enforce()
        require_exactly_once(topic_line, {(n % 2, n // 2) for n in range(420)})
        return
    restored = TransactionalProducer(topic_line.settings.kafka, "restored")
    restored.fence()
    restored.write([ledger_record(older)])
    with pytest.raises(StreamStopped, match="restored from an older moment"):
        topic_line.enforce()
    assert len(topic_line.accepted()) == 422


@pytest.mark.parametrize("compared", [2_000, *full(1_000)])
def test_a_ledger_is_compared_with_a_bounded_number_of_records(
    broker: Broker, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch, compared: int
) -> None:
    """A record of a batch that the ledger does not know is behind 1,000 replayed records of a partition."""
    kafka, topic = KafkaConnection(broker.bootstrap), make_topic("accepted", partitions=2)
    unknown, known = (
        provenance_headers(EventPointer(LEDGER.topic, 0, offset), LEDGER.name, "s@1.0.0")
        for offset in (LEDGER.end[0], 0)
    )
    replayed = [*known, (REPLAY_HEADER, b"0" * 32)]
    producer = TransactionalProducer(kafka, topic)
    producer.fence()
    written = ((0, unknown), *[(0, replayed)] * 1_000, (1, known))
    producer.write((topic, b"{}", None, partition, 1, [*headers]) for partition, headers in written)
    monkeypatch.setattr(recovery_scan, "_COMPARED", compared)
    stops = pytest.raises(StreamStopped, match=r"holds offset 10 of partition 0 of t, .* come to 10 only")
    with stops if compared > 1_000 else nullcontext():
        require_not_ahead(kafka, topic, LEDGER)
