"""Send the demo's streams to the broker, so that every record is at its `DemoStream.pointer`."""

from __future__ import annotations

from threading import Event

from confluent_kafka import KafkaError, Message, Producer

from tidegate.contracts.errors import Unavailable
from tidegate.gateway.embedded.demo.stream import PARTITIONS, DemoStream

_CHUNK = 2_048 * PARTITIONS  # so that every chunk begins at partition 0
_LOOK_SECONDS = 0.2
_SETTINGS = {
    # Retries keep the order, so that each record gets the expected offset.
    "enable.idempotence": True,
    "compression.type": "lz4",
    "linger.ms": 20,
    "batch.size": 1_000_000,
    # The queue is large enough for a whole stream, so sending waits for the broker only at the end.
    "queue.buffering.max.messages": 10_000_000,
    "queue.buffering.max.kbytes": 2_000_000,
}


def send(stream: DemoStream, bootstrap: str, stopping: Event) -> None:
    """Send the records of a stream to their positions; return when the broker has acknowledged all.

    `stopping` ends it early. Raises Unavailable if the broker rejects a record.
    """
    refused: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            refused.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 2, **_SETTINGS})
    for first in range(0, stream.records.num_rows, _CHUNK):
        if stopping.is_set():
            return
        messages = _messages(stream, first)
        for partition in range(PARTITIONS):
            # The client uses the partition of the batch, and ignores partitions of its messages.
            batch = messages[partition::PARTITIONS]
            producer.produce_batch(stream.name, batch, partition=partition, on_delivery=on_delivery)
        producer.poll(0)
    while producer.flush(_LOOK_SECONDS) and not stopping.is_set():
        pass
    if refused:
        raise Unavailable(f"the broker refused {len(refused):,} records of {stream.name}: {refused[0].str()}")


def _messages(stream: DemoStream, first: int) -> list[dict[str, bytes]]:
    keys, values = (column.to_pylist() for column in stream.records.slice(first, _CHUNK).columns)
    return [{"key": key, "value": value} for key, value in zip(keys, values, strict=True)]
