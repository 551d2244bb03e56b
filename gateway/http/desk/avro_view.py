"""Shows an Avro record as JSON text, for eyes only: no verdict is made from it."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.formats.framing import PREFIX_BYTES
from tidegate.contracts.judge.plan import EnforcementPlan

_MOST_BYTES = 1_000_000
"""Larger payloads are shown in hexadecimal only."""


def decoded_json(
    payload: bytes, contract: DataContract, plan: EnforcementPlan | None, header: bytes | None
) -> bytes | None:
    """Decode `payload` as the job did, and write it as JSON; None when it cannot be decoded.

    With the schema that the record names, if the plan knows the schemas of its subject; else with the contract's.
    `header` is the record's schema header.
    """
    reader = contract.schema_.definition
    if len(payload) > _MOST_BYTES or reader is None or isinstance(reader, bool):
        return None
    writer: Any = reader
    number = None
    if contract.framing in {"confluent-prefix", "auto"} and payload[:1] == b"\0":
        number, payload = int.from_bytes(payload[1:PREFIX_BYTES], "big"), payload[PREFIX_BYTES:]
    if plan is not None and plan.writers is not None:
        by_header = plan.writers.by_header.get(header) if header is not None else None
        named = by_header if number is None else plan.writers.by_id.get(number)
        if named is None:
            return None
        writer = json.loads(named.text)
    try:
        schemas = fastavro.parse_schema(writer), fastavro.parse_schema(reader)
        stream = io.BytesIO(payload)
        value = fastavro.schemaless_reader(stream, *schemas)
        # What goes on was written with another schema, or is no Avro: the layout is unknown.
        if stream.read(1):
            return None
        return json.dumps(value, default=_text, ensure_ascii=False).encode("utf-8", "surrogatepass")
    except (MemoryError, RecursionError, Exception):  # noqa: BLE001 - fastavro raises all kinds on refused bytes
        return None


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
