"""Avro bytes that end a process, or take all of its memory, where fastavro reads them unchecked."""

from __future__ import annotations

import io
import json
from typing import Any, Final

import fastavro
import pytest

CHAIN: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Chain",
    "fields": [{"name": "next", "type": ["null", "Chain"]}],
}
NULLS: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Nulls",
    "fields": [{"name": "nulls", "type": {"type": "array", "items": "null"}}],
}
HOSTILE: Final = [
    pytest.param(CHAIN, b"\x02" * 100_000 + b"\x00", id="nested 100,000 levels deep"),
    pytest.param(NULLS, b"\xfe\xff\xff\xff\xff\xff\x7f\x00", id="an array of 2^48 nulls"),
]
"""Schemas, and a payload of each."""


def container(schema: dict[str, Any], payload: bytes, records: int = 1) -> bytes:
    """Return a container file with one block that counts so many records; its bytes are not looked at."""
    marker = b"m" * 16
    meta = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": b"null"}
    header = b"".join(_bytes(name) + _bytes(value) for name, value in meta.items())
    return b"Obj\x01" + _long(len(meta)) + header + b"\0" + marker + _long(records) + _bytes(payload) + marker


def _bytes(value: bytes) -> bytes:
    return _long(len(value)) + value


def _long(number: int) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, "long", number)
    return written.getvalue()
