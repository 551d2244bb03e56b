"""A producer in a process of its own that kills itself (SIGKILL) when its records are with the broker and not committed.

Reads from stdin, pickled: how to reach Kafka, the transactional.id, the records.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Iterator

from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.spark_jobs.kafka.outputs import OutputRecord, TransactionalProducer
from tidegate.spark_jobs.kafka.topics import Topics


def main() -> None:
    kafka, transactional_id, records = pickle.load(sys.stdin.buffer)  # noqa: S301 - the test wrote it
    producer = TransactionalProducer(kafka, transactional_id)
    producer.fence()
    producer.write(until_dead(kafka, records))


def until_dead(kafka: KafkaConnection, records: list[OutputRecord]) -> Iterator[OutputRecord]:
    topics = Topics(kafka)
    before = {topic: topics.latest(topic) for topic, *_ in records}
    yield from records
    while any(topics.latest(topic) == end for topic, end in before.items()):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
