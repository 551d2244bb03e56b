"""The ledger of a stream with the Kafka sink: the newest record of its key in a compacted topic."""

from __future__ import annotations

import time
from zlib import crc32

from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.ledger import Ledger
from tidegate.contracts.stream.output_topics import LEDGER_PARTITIONS, LEDGER_TOPIC
from tidegate.spark_jobs.kafka.outputs import OutputRecord, read_committed
from tidegate.spark_jobs.kafka.topics import Topics


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

    Call it after the stream's transactional.id was initialized: only then is no transaction of that id pending.
    """
    end = Topics(kafka).latest(LEDGER_TOPIC)
    partition = _partition(name)
    found: bytes | None = None
    for message in read_committed(kafka, LEDGER_TOPIC, {}, {partition: end[partition]}):
        if message.key() == name.encode():
            found = message.value()
    return Ledger.parse(found) if found is not None else None


def ledger_record(ledger: Ledger) -> OutputRecord:
    """Return the record that updates the ledger."""
    key = ledger_name(ledger.stream)
    return LEDGER_TOPIC, ledger.text.encode(), key.encode(), _partition(key), int(time.time() * 1000), []


def _partition(name: str) -> int:
    return crc32(name.encode()) % LEDGER_PARTITIONS
