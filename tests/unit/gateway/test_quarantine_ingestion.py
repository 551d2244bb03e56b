"""An error of one partition stops the index of no other; an error of the whole client begins again."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from structlog.testing import capture_logs

from tests.unit.gateway.conftest import only_sqlite
from tests.unit.gateway.quarantine_records import NOW, refused
from tidegate.contracts.stream.closure import Closure
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.positions import Positions
from tidegate.gateway.factory import Factory
from tidegate.gateway.streams.quarantine_index import ingestion
from tidegate.gateway.streams.quarantine_index.closures import add_closures
from tidegate.gateway.streams.quarantine_index.ingestion import Place, QuarantineIngestion
from tidegate.gateway.streams.quarantine_index.refusals import RawRefusal, RefusalReader

pytestmark = [only_sqlite, pytest.mark.usefixtures("cluster")]

A, B = ("a.quarantine", 0), ("b.quarantine", 0)


class Cluster:
    """A consumer and an admin client at once: topics of one partition, each with as many records as the test says."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ends = {A: 1, B: 1}
        self.unreadable: dict[Place, int] = {}
        self.without_edges: dict[Place, int] = {}
        self.is_away = False
        self.forged: dict[str, bytes] = {}
        self.assigned: dict[Place, int] = {}

    def list_topics(self, **_: Any) -> Any:
        if self.is_away:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        topics = {topic: SimpleNamespace(error=None, partitions={0: None}) for topic, _ in self.ends}
        return SimpleNamespace(topics=topics)

    def list_offsets(self, asked: dict[TopicPartition, Any], **_: Any) -> dict[TopicPartition, Future[Any]]:
        answers: dict[TopicPartition, Future[Any]] = {each: Future() for each in asked}
        for each, answer in answers.items():
            place = (each.topic, each.partition)
            if place in self.without_edges:
                answer.set_exception(KafkaException(KafkaError(self.without_edges[place])))
            else:
                is_latest = asked[each]._value == ingestion.OffsetSpec.latest()._value
                answer.set_result(SimpleNamespace(offset=self.ends[place] if is_latest else 0))
        return answers

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned |= {(each.topic, each.partition): each.offset for each in partitions}

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            del self.assigned[each.topic, each.partition]

    def poll(self, _: float) -> Message | None:
        return next(iter(self.consume(1)), None)

    def consume(self, most: int, **_: Any) -> list[Message]:
        found: list[Message] = []
        for place, offset in self.assigned.items():
            if len(found) == most:
                break
            if place in self.unreadable and offset == 0:
                error = KafkaError(self.unreadable[place])
                found.append(Message(topic=place[0], partition=0, offset=0, error=error))
                self.assigned[place] = -1
            elif 0 <= offset < self.ends[place]:
                stream = place[0].removesuffix(".quarantine")
                record = refused(offset, contract=stream, topic=stream)
                if place == A and offset == 0:
                    headers = [(name, self.forged.get(name, value)) for name, value in record.headers]
                    record = replace(record, headers=headers)
                found.append(_message(place[0], record))
                self.assigned[place] += 1
        return found

    def close(self) -> None:
        self.assigned.clear()


def _message(topic: str, record: Any) -> Message:
    return Message(
        topic=topic, partition=0, offset=record.offset, key=record.key, value=record.value,
        headers=record.headers, timestamp=(1, record.timestamp_ms),
    )  # fmt: skip


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(ingestion, "Consumer", lambda _: made)
    monkeypatch.setattr(ingestion, "AdminClient", lambda _: made)
    monkeypatch.setattr(ingestion, "time", SimpleNamespace(monotonic=lambda: made.now))
    return made


@pytest.fixture
def index(factory: Factory) -> QuarantineIngestion:
    for stream in ("a", "b"):
        factory.database.write(
            lambda stores, stream=stream: stores.contracts.add_contract(stream, stream, NOW)
        )
    made = QuarantineIngestion(factory.database, KafkaConnection("kafka:9092"), lambda: NOW)
    made._stopping.set()  # a step with nothing to read does not wait
    return made


def indexed(factory: Factory) -> dict[str, int]:
    with factory.database.reading() as stores:
        return {each.stream: each.next_offset for each in stores.quarantine.partitions()}


def set_aside(logs: list[Any]) -> list[tuple[str, int, str]]:
    events = [each for each in logs if each["event"] == "quarantine_partition_set_aside"]
    return [(each["topic"], each["partition"], each["error"]) for each in events]


@pytest.mark.parametrize("code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.NOT_LEADER_FOR_PARTITION])
def test_a_partition_that_cannot_be_read_is_set_aside_for_a_minute(
    index: QuarantineIngestion, cluster: Cluster, factory: Factory, code: int
) -> None:
    cluster.unreadable[A] = code
    reason = KafkaError(code).str()
    with capture_logs() as logs:
        for _ in range(5):
            index.step()
            cluster.now += 11  # so that every step looks for partitions
        assert indexed(factory) == {"a": 0, "b": 1}
        assert set_aside(logs) == [(*A, reason)]
        cluster.ends[B] = 2
        cluster.now += 11
        index.step()  # it is tried again
        index.step()
        assert set_aside(logs) == [(*A, reason)]
        assert indexed(factory) == {"a": 0, "b": 2}
        cluster.now += 3601
        index.step()
        index.step()
    assert set_aside(logs) == [(*A, reason)] * 2  # it is logged again after an hour
    cluster.unreadable.clear()
    cluster.now += 61
    index.step()
    assert indexed(factory) == {"a": 1, "b": 2}


def test_a_partition_whose_ends_are_unknown_is_set_aside_for_a_minute(
    index: QuarantineIngestion, cluster: Cluster, factory: Factory
) -> None:
    cluster.without_edges[A] = KafkaError.LEADER_NOT_AVAILABLE
    reason = KafkaError(KafkaError.LEADER_NOT_AVAILABLE).str()
    with capture_logs() as logs:
        index.step()
        cluster.now += 11
        index.step()
    assert set_aside(logs) == [(*A, reason)]
    assert indexed(factory) == {"b": 1}
    cluster.without_edges = {B: KafkaError.LEADER_NOT_AVAILABLE}
    cluster.now += 61  # what is read is looked up each minute
    with capture_logs() as logs:
        index.step()
    assert set_aside(logs) == [(*B, reason)]
    assert indexed(factory) == {"a": 1, "b": 1}
    cluster.without_edges.clear()
    cluster.ends[B] = 2
    cluster.now += 61
    index.step()
    assert indexed(factory) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    "forged",
    [
        {"tidegate.source": b"a/0/99999999999999999999"},
        {"tidegate.source": b"a/9999999999/1"},
        {"tidegate.contract": b"a@1.0.0\0"},
        {"tidegate.contract": b"a@1.0.0\n"},
        {"tidegate.violations": b'{"violations":[],"left_out":1e400}'},
        {
            "tidegate.violations": rb'{"violations":[{"stage":"rule","code":"\ud800","pointer":"","severity":"error","message":""}]}'
        },
    ],
)
def test_a_forged_record_does_not_stop_the_index(
    index: QuarantineIngestion, cluster: Cluster, factory: Factory, forged: dict[str, bytes]
) -> None:
    """Any producer that may write to the topic can send these headers."""
    cluster.forged = forged
    cluster.ends[A] = 2
    index.step()
    assert indexed(factory) == {"a": 2, "b": 1}


def test_a_record_that_cannot_be_read_is_skipped_and_logged_once_an_hour(
    index: QuarantineIngestion, cluster: Cluster, factory: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_reader: RefusalReader, record: RawRefusal) -> None:
        raise ZeroDivisionError(f"a defect with the value {record.value!r}")

    cluster.ends[A] = 3
    with monkeypatch.context() as patch, capture_logs() as logs:
        patch.setattr(RefusalReader, "read", failing)
        index.step()
    assert indexed(factory) == {"a": 3, "b": 1}
    skipped = [each for each in logs if each["event"] == "quarantined_record_skipped"]
    assert [(each["topic"], each["offset"]) for each in skipped] == [("a.quarantine", 0), ("b.quarantine", 0)]
    assert "ZeroDivisionError" in skipped[0]["error"]
    assert "999" not in str(skipped)


def test_an_error_of_the_client_begins_again_with_every_partition(
    index: QuarantineIngestion, cluster: Cluster, factory: Factory
) -> None:
    cluster.unreadable[A] = KafkaError.TOPIC_AUTHORIZATION_FAILED
    index.step()
    cluster.now += 11
    cluster.is_away = True
    with pytest.raises(KafkaException):
        index.step()
    cluster.is_away = False
    cluster.unreadable.clear()
    index._disconnect()  # as the thread does after an error
    index.step()
    assert indexed(factory) == {"a": 1, "b": 1}


def test_a_broker_that_does_not_answer_sets_no_partition_aside(
    index: QuarantineIngestion, cluster: Cluster, factory: Factory
) -> None:
    cluster.without_edges[A] = KafkaError._TRANSPORT
    with pytest.raises(KafkaException), capture_logs() as logs:
        index.step()
    assert set_aside(logs) == []
    cluster.without_edges.clear()
    index._disconnect()  # as the thread does after an error
    index.step()
    assert indexed(factory) == {"a": 1, "b": 1}


def test_an_index_that_another_process_has_advanced_since_the_ends_were_read_is_kept(
    index: QuarantineIngestion, cluster: Cluster, factory: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks like a topic that was made anew, but what was closed cannot be read again from any topic."""
    other = QuarantineIngestion(factory.database, KafkaConnection("kafka:9092"), lambda: NOW)
    other._stopping.set()
    read_ends = index._edges

    def advanced_afterwards(places: list[Place]) -> dict[Place, tuple[int, int]]:
        found = read_ends(places)
        cluster.ends[A] = 5
        other.step()
        other._partitions.release()
        other._disconnect()
        return found

    monkeypatch.setattr(index, "_edges", advanced_afterwards)
    closed = {Closure.REPLAYED: Positions([(0, 0)])}
    factory.database.write(lambda stores: add_closures(stores, "a", closed))
    index.step()
    assert indexed(factory)["a"] == 5
    assert len(factory.database.read(lambda stores: stores.closures.all("a"))) == 1
    monkeypatch.setattr(index, "_edges", read_ends)
    cluster.now += 61
    cluster.ends[A] = 6
    index.step()
    assert indexed(factory)["a"] == 6
