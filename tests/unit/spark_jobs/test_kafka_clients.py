"""A client of Kafka that is dropped is freed at once: it has threads and connections, and a process holds about a thousand."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.spark_jobs.kafka.consumer_group import PublishedOffsets
from tidegate.spark_jobs.kafka.outputs import TransactionalProducer, _read_until
from tidegate.spark_jobs.kafka.topics import Topics

NOBODY = KafkaConnection("127.0.0.1:9")
MAKERS: dict[str, Callable[[], object]] = {
    "topics": lambda: Topics(NOBODY),
    "producer": lambda: TransactionalProducer(NOBODY, "tidegate/test/0"),
    "offsets": lambda: PublishedOffsets(NOBODY, "test.rows"),
}


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Only reference counts free anything."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("name", MAKERS)
def test_a_dropped_client_is_freed_without_the_garbage_collector(name: str) -> None:
    made = MAKERS[name]()
    dropped = weakref.ref(made)
    del made
    assert dropped() is None


class OneRecordAtATime:
    """A consumer of partition 0, whose records come one with each call."""

    def __init__(self) -> None:
        self._next = 0

    def consume(self, _number: int, _seconds: float) -> list[Any]:
        offset, self._next = self._next, self._next + 1
        return [
            SimpleNamespace(error=lambda: None, partition=lambda: 0, offset=lambda: offset, topic=lambda: "t")
        ]


def test_a_reader_that_takes_its_time_with_a_record_is_no_stalled_broker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A replay with a rate waits between records."""
    now = [0.0]
    monkeypatch.setattr("tidegate.spark_jobs.kafka.outputs.time.monotonic", lambda: now[0])
    consumer: Any = OneRecordAtATime()
    read = []
    for message in _read_until(consumer, {0: 0}, "t", {0: 3}):
        read.append(message.offset())
        now[0] += 1_000.0
    assert read == [0, 1, 2]
