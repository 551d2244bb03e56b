"""The ledger of a stream with the Kafka sink: the newest record of its key in a compacted topic."""

from __future__ import annotations

import time
from zlib import crc32

from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.ledger import Ledger
from tidegate.contracts.stream.output_topics import LEDGER_PARTITIONS, LEDGER_TOPIC
from tidegate.spark_jobs.kafka.outputs import OutputRecord, read_committed
from tidegate.spark_jobs.kafka.topics import Topics

_NEWEST_OFFSETS = 2_000
"""Offsets at the end of a partition that are read first."""
_GROWTH = 8
"""Each earlier range is so many times as long as the one after it."""


def ledger_name(contract_id: str) -> str:
    """Return the key of a stream's ledgers in Kafka. It is the name of the first one; later names have a suffix."""
    return f"{contract_id}@kafka"


def transactional_id(ledger: str, slot: int) -> str:
    """Return the transactional.id of the producer of a ledger's slot."""
    return f"tidegate/{ledger}/{slot}"


def ensure_ledger_topic(topics: Topics) -> None:
    """Create the ledger topic, or require that its settings are correct. Raises StreamStopped or Unavailable."""
    topics.ensure_compacted(LEDGER_TOPIC, LEDGER_PARTITIONS)


def read_ledger(kafka: KafkaConnection, name: str) -> Ledger | None:
    """Read a stream's ledger; None if no instance has claimed it yet.

    The topic is read backwards, a range at a time: until Kafka compacts it, it has a record of every commit of all
    streams. Call it after the stream's transactional.id was initialised: only then is no transaction of it pending.
    """
    partition = _partition(name)
    end, size = Topics(kafka).latest(LEDGER_TOPIC)[partition], _NEWEST_OFFSETS
    while end > 0:
        begin = max(0, end - size)
        values = [
            message.value()
            for message in read_committed(kafka, LEDGER_TOPIC, {partition: begin}, {partition: end})
            if message.key() == name.encode()
        ]
        if values:
            return Ledger.parse(values[-1]) if values[-1] is not None else None
        end, size = begin, size * _GROWTH
    return None


def ledger_record(ledger: Ledger) -> OutputRecord:
    """Return the record that updates the ledger."""
    key = ledger_name(ledger.stream)
    return LEDGER_TOPIC, ledger.text.encode(), key.encode(), _partition(key), int(time.time() * 1000), []


def _partition(name: str) -> int:
    return crc32(name.encode()) % LEDGER_PARTITIONS
