"""A client of Kafka that is dropped is freed at once: it has threads and connections, and a process holds about a thousand."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator

import pytest

from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.spark_jobs.kafka.consumer_group import PublishedOffsets
from tidegate.spark_jobs.kafka.outputs import TransactionalProducer
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
