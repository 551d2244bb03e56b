"""Fixes of Avro records: each record is decoded and encoded with the schema that it was written with.

A record that cannot be decoded, or whose schema cannot hold the change, is returned unchanged. The contract then reports
what is wrong.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import fastavro
import pyarrow as pa

from tidegate.contracts.document.model import AvroSchema
from tidegate.contracts.errors import ContractError
from tidegate.contracts.fix.apply import CompiledFix, Number
from tidegate.contracts.fix.model import Fix
from tidegate.contracts.formats.avro import AvroFormat
from tidegate.contracts.formats.framing import PREFIX_BYTES, Framed
from tidegate.contracts.verdict import Violation

_MOST_SCHEMAS: Final = 100
_MAGIC: Final = b"\0"


class AvroFix:
    """A fix compiled for Avro records.

    `writers` maps schema ids to writer schemas, for records with the five-byte Confluent prefix. It is None for records
    without an id, which were written with the schema `own`. Fields have the names of the writer's schema.
    """

    def __init__(self, fix: Fix, own: str, writers: Mapping[int, str] | None) -> None:
        self._fix = fix
        self._compiled = CompiledFix(fix)
        self._own = own
        self._writers = writers

    def __reduce__(self) -> tuple[Callable[..., AvroFix], tuple[Any, ...]]:
        """Pickle the text of the fix, because the compiled steps are functions."""
        return _recompiled, (self._fix.text, self._own, self._writers)

    def apply(self, value: bytes | None) -> bytes | None:
        """Return a record after all steps; the same object if nothing changes or the schema cannot hold it."""
        if not value:
            return value
        prefix, text = b"", self._own
        if self._writers is not None:
            prefix = value[:PREFIX_BYTES]
            found = self._writers.get(int.from_bytes(prefix[1:], "big"))
            if prefix[:1] != _MAGIC or len(prefix) < PREFIX_BYTES or found is None:
                return value
            text = found
        codec = _codec(text)
        record = None if codec is None else codec.decode(value[len(prefix) :])
        if codec is None or record is None:
            return value
        changed = _with_numbers(record)
        if not self._compiled.change(changed):
            return value
        encoded = codec.encode(_without_numbers(changed))
        return value if encoded is None else prefix + encoded


class _Codec:
    """A reader and writer of records of one schema."""

    def __init__(self, text: str) -> None:
        definition = json.loads(text)
        self._format = AvroFormat(AvroSchema(type="avro", definition=definition))
        self._parsed = fastavro.parse_schema(definition)

    def decode(self, payload: bytes) -> Any:
        """Return the record; None for bytes that cannot be decoded."""
        (record,) = self._format.decode(Framed(pa.array([payload], pa.binary())))
        return None if isinstance(record, Violation) else record

    def encode(self, record: Any) -> bytes | None:
        """Return the bytes of a record; None unless they decode to an equal record, with NaN equal to NaN."""
        out = io.BytesIO()
        try:
            fastavro.schemaless_writer(out, self._parsed, record, strict=True)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, IndexError):
            return None
        encoded = out.getvalue()
        return encoded if _is_equal(self.decode(encoded), record) else None


def _is_equal(one: Any, other: Any) -> bool:
    """Return whether two decoded values are equal. Unlike with `==`, a NaN equals a NaN."""
    match one, other:
        case dict(), dict():
            return one.keys() == other.keys() and all(_is_equal(one[name], other[name]) for name in one)
        case list(), list():
            return len(one) == len(other) and all(map(_is_equal, one, other))
        case float(), float():
            return one == other or (math.isnan(one) and math.isnan(other))
    return bool(one == other)


@lru_cache(maxsize=_MOST_SCHEMAS)
def _codec(text: str) -> _Codec | None:
    try:
        return _Codec(text)
    except (ContractError, ValueError):  # a registry may hold schemas that this project's checks reject
        return None


def _recompiled(text: str, own: str, writers: Mapping[int, str] | None) -> AvroFix:
    return AvroFix(Fix.model_validate_json(text, strict=True), own, writers)


def _with_numbers(value: Any) -> Any:
    """Return a copy of a record with integers and floats as JSON numbers; other values are unchanged."""
    match value:
        case dict():
            return {name: _with_numbers(each) for name, each in value.items()}
        case list():
            return [_with_numbers(each) for each in value]
        case bool():
            return value
        case int() | float():
            return Number(repr(value))
    return value


def _without_numbers(value: Any) -> Any:
    match value:
        case dict():
            return {name: _without_numbers(each) for name, each in value.items()}
        case list():
            return [_without_numbers(each) for each in value]
        case Number(text):
            try:
                return int(text)
            except ValueError:
                return float(text)
    return value
