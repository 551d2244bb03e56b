"""Shows an Avro record as JSON text, for eyes only: no verdict is made from it."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro

from contracts.model import DataContract

_PREFIX_BYTES = 5
_MOST_BYTES = 1_000_000
"""Larger payloads are shown in hexadecimal only."""


def decoded_json(payload: bytes, contract: DataContract) -> bytes | None:
    """Decode `payload` with the contract's schema and write it as JSON; None when it cannot be decoded."""
    definition = contract.schema_.definition
    if len(payload) > _MOST_BYTES or definition is None or isinstance(definition, bool):
        return None
    if contract.framing in {"confluent-prefix", "auto"} and payload[:1] == b"\0":
        payload = payload[_PREFIX_BYTES:]
    try:
        schema = fastavro.parse_schema(definition)
        value = fastavro.schemaless_reader(io.BytesIO(payload), schema, None)
        return json.dumps(value, default=_text, ensure_ascii=False).encode("utf-8", "surrogatepass")
    except (MemoryError, RecursionError, Exception):  # noqa: BLE001 - fastavro raises all kinds on refused bytes
        return None


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
