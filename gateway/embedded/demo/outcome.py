"""The outcome of the demo, read from topics and tables, not from the job's own reports."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from pyiceberg.catalog.sql import SqlCatalog

from tidegate.contracts.errors import Unavailable
from tidegate.contracts.stream.evidence import Evidence, headers_of, read_evidence
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.ledger import Ledger

_TIMEOUT_SECONDS = 30
_NO_LEADER_YET = {KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION}


@dataclass(frozen=True, slots=True)
class DemoRefusal:
    """One record of the quarantine topic."""

    key: bytes | None
    value: bytes | None
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class StreamOutcome:
    """The outcome of one stream: where its records are.

    `received` counts the records of the source topic. `table` has one row for each accepted record, with the
    requested columns and `_source`. `refused` has the quarantined records, in no order. `ledger` is that of the table.
    """

    received: int
    table: pa.Table
    refused: tuple[DemoRefusal, ...]
    ledger: Ledger


def read_outcome(bootstrap: str, warehouse: Path, stream: str, columns: Sequence[str] = ()) -> StreamOutcome:
    """Return the outcome of `stream`, whose topic has the same name. Raises Unavailable."""
    namespace, _, name = stream.rpartition(".")
    catalog = SqlCatalog("lake", uri=f"sqlite:///{warehouse / 'catalog.db'}", warehouse=str(warehouse))
    table = catalog.load_table((namespace, name))
    return StreamOutcome(
        received=count_records(bootstrap, stream),
        table=table.scan(selected_fields=(*columns, "_source")).to_arrow(),
        refused=tuple(read_quarantine(bootstrap, f"{stream}.quarantine")),
        ledger=Ledger.model_validate_json(table.properties["tidegate.ledger"]),
    )


def count_records(bootstrap: str, topic: str) -> int:
    """Count the records of a topic by its offsets. It must not be compacted or written in transactions."""
    consumer = _consumer(bootstrap)
    try:
        bounds = [offsets_of(consumer, place) for place in _places(consumer, topic)]
        return sum(high - low for low, high in bounds)
    except KafkaException as error:
        raise Unavailable(f"the topic {topic} cannot be read: {error}") from error
    finally:
        consumer.close()


def offsets_of(consumer: Consumer, place: TopicPartition) -> tuple[int, int]:
    """Return the first offset and the end of a partition; wait for the leader of a new one. Raises KafkaException."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while True:
        try:
            found: tuple[int, int] = consumer.get_watermark_offsets(place, timeout=_TIMEOUT_SECONDS)
        except KafkaException as error:
            if error.args[0].code() not in _NO_LEADER_YET or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return found


def read_quarantine(bootstrap: str, topic: str) -> Iterator[DemoRefusal]:
    """Yield all committed records of a quarantine topic. Raises Unavailable."""
    consumer = _consumer(bootstrap)
    try:
        places = _places(consumer, topic)
        consumer.assign(places)
        unfinished = {place.partition for place in places}
        while unfinished:
            message = consumer.poll(_TIMEOUT_SECONDS)
            if message is None:
                raise Unavailable(f"the topic {topic} returned no records for {_TIMEOUT_SECONDS} s")
            error = message.error()
            if error is None:
                yield _refused(message)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's public name of it
                unfinished.discard(message.partition())
            else:
                raise Unavailable(f"the topic {topic} cannot be read: {error}")
    except KafkaException as error:
        raise Unavailable(f"the topic {topic} cannot be read: {error}") from error
    finally:
        consumer.close()


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {**KafkaConnection(bootstrap).for_reader("tidegate.demo"), "auto.offset.reset": "earliest"}
    )


def _places(consumer: Consumer, topic: str) -> list[TopicPartition]:
    partitions = consumer.list_topics(topic, timeout=_TIMEOUT_SECONDS).topics[topic].partitions
    return [TopicPartition(topic, partition, 0) for partition in sorted(partitions)]


def _refused(message: Message) -> DemoRefusal:
    evidence = read_evidence(headers_of(message))
    if evidence is None:
        place = f"{message.topic()}/{message.partition()}/{message.offset()}"
        raise Unavailable(f"{place} was not written by Tidegate: it has no evidence")
    return DemoRefusal(key=message.key(), value=message.value(), evidence=evidence)
