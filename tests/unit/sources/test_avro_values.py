"""Avro values of a topic, converted to payloads of one schema."""

from __future__ import annotations

import io
import json
from typing import Any
from uuid import UUID

import fastavro
import pytest

from tests.hostile_avro import HOSTILE
from tidegate.contracts.formats.writers import WriterSchema, WriterSchemas
from tidegate.gateway.sources.avro_values import FramedAvroValues

SCHEMA: dict[str, Any] = {"type": "record", "name": "Order", "fields": [{"name": "amount", "type": "int"}]}
WRITER = WriterSchema(7, UUID(int=7), "avro", json.dumps(SCHEMA))


def payload_of(amount: int) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(SCHEMA), {"amount": amount})
    return written.getvalue()


def test_a_topic_may_hold_values_with_prefixes_beside_values_with_headers() -> None:
    values = FramedAvroValues.of_registry(WriterSchemas((WRITER,), is_current=True))
    assert values is not None
    prefixed = b"\0" + (7).to_bytes(4, "big") + payload_of(3)
    assert values.payload(prefixed, None) == payload_of(3)
    assert values.payload(payload_of(4), WRITER.header) == payload_of(4)
    assert values.payload(prefixed, None) == payload_of(3)
    assert values.framing == "confluent-header"


def test_values_in_unknown_frames_count_as_unreadable() -> None:
    values = FramedAvroValues.of_registry(WriterSchemas((WRITER,), is_current=True))
    assert values is not None
    for value, header in [
        (b"", None),
        (b"\0\0\0\0\x08" + payload_of(3), None),
        (b"\x01\0\0\0\x07" + payload_of(3), None),
        (payload_of(3), b"\x01" + UUID(int=8).bytes),
    ]:
        assert values.payload(value, header) == b""


def test_values_are_converted_to_the_latest_version_even_if_its_id_is_lower() -> None:
    wide = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "note", "type": "string", "default": ""}]}
    first = WriterSchema(9, UUID(int=9), "avro", json.dumps(wide))
    values = FramedAvroValues.of_registry(WriterSchemas((first, WRITER), is_current=True))
    assert values is not None
    assert values.schema == SCHEMA


@pytest.mark.parametrize(("schema", "payload"), HOSTILE)
def test_hostile_values_count_as_unreadable(schema: dict[str, Any], payload: bytes) -> None:
    more = {**schema, "fields": [*schema["fields"], {"name": "note", "type": "string", "default": ""}]}
    writers = (
        WriterSchema(6, UUID(int=6), "avro", json.dumps(schema)),
        WriterSchema(7, UUID(int=7), "avro", json.dumps(more)),
    )
    values = FramedAvroValues.of_registry(WriterSchemas(writers, is_current=True))
    assert values is not None
    assert values.payload(b"\0\0\0\0\x06" + payload, None) == b""
