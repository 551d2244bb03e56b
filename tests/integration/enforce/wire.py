"""Produces what no client lets one produce: a record of time 0, header names that are not UTF-8, batches of an exact size.

Source: Kafka protocol guide, Produce request version 3 and record batch version 2.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence

from tests.integration.enforce.line import Sent
from tidegate.contracts.formats.avro_leaves import encoded_long

BATCH_OVERHEAD_BYTES = 61
"""Size of a record batch without its records."""

_CASTAGNOLI = 0x82F63B78
_PRODUCE, _VERSION, _ALL_REPLICAS = 0, 3, -1
_TIMEOUT_MS = 10_000
_DEADLINE_SECONDS = 30
_UNKNOWN_TOPIC, _NOT_LEADER = 3, 6

RawHeaders = Sequence[tuple[bytes, bytes | None]]


def send_batch(bootstrap: str, topic: str, records: Sequence[tuple[Sent, RawHeaders]]) -> None:
    """Append one record batch to the partition of its first record; the headers of `Sent` itself are not used.

    The broker must be alone, so that it leads every partition.
    """
    batch = _batch(records)
    name = topic.encode()
    body = b"".join(
        (
            struct.pack(">hhih", _PRODUCE, _VERSION, 1, -1),
            struct.pack(">hhii", -1, _ALL_REPLICAS, _TIMEOUT_MS, 1),
            struct.pack(">h", len(name)) + name,
            struct.pack(">iii", 1, records[0][0].partition, len(batch)),
            batch,
        )
    )
    deadline = time.monotonic() + _DEADLINE_SECONDS
    host, port = bootstrap.split(":")
    with socket.create_connection((host, int(port)), _DEADLINE_SECONDS) as connection:
        error = _NOT_LEADER
        while error in (_UNKNOWN_TOPIC, _NOT_LEADER) and time.monotonic() < deadline:  # it is as new as that
            connection.sendall(struct.pack(">i", len(body)) + body)
            (length,) = struct.unpack(">i", _receive(connection, 4))
            answer = _receive(connection, length)
            # correlation id, one topic, its name, one partition, its number, its error
            (error,) = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(name) + 4 + 4)
    assert error == 0, f"the broker answered error {error}"


def record_size_bytes(sent: Sent, headers: RawHeaders) -> int:
    """Size of a record as the first one of a batch."""
    return len(_record(sent, headers, 0, sent.timestamp_ms))


def _batch(records: Sequence[tuple[Sent, RawHeaders]]) -> bytes:
    times = [sent.timestamp_ms for sent, _ in records]
    rest = struct.pack(">hiqqqhii", 0, len(records) - 1, times[0], max(times), -1, -1, -1, len(records))
    rest += b"".join(_record(sent, raw, offset, times[0]) for offset, (sent, raw) in enumerate(records))
    sealed = struct.pack(">ibI", -1, 2, _crc32c(rest)) + rest
    return struct.pack(">qi", 0, len(sealed)) + sealed


def _record(sent: Sent, headers: RawHeaders, offset: int, base_ms: int) -> bytes:
    parts = [
        b"\0",
        encoded_long(sent.timestamp_ms - base_ms),
        encoded_long(offset),
        _bytes(sent.key),
        _bytes(sent.value),
    ]
    parts.append(encoded_long(len(headers)))
    for name, value in headers:
        parts += (_bytes(name), _bytes(value))
    body = b"".join(parts)
    return encoded_long(len(body)) + body


def _bytes(value: bytes | None) -> bytes:
    return encoded_long(-1) if value is None else encoded_long(len(value)) + value


def _crc32c(data: bytes) -> int:
    table = list(range(256))
    for _ in range(8):
        table = [each >> 1 ^ (_CASTAGNOLI if each & 1 else 0) for each in table]
    crc = 0xFFFFFFFF
    for each in data:
        crc = crc >> 8 ^ table[(crc ^ each) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _receive(connection: socket.socket, length: int) -> bytes:
    received = b""
    while len(received) < length:
        more = connection.recv(length - len(received))
        assert more, "the broker closed the connection: it could not read the request"
        received += more
    return received
