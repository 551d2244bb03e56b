"""Convert the values of an Avro topic to payloads of one schema, whatever their writer schemas."""

from __future__ import annotations

import io
import json
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import fastavro
import orjson

from tidegate.contracts.document.load import read_source
from tidegate.contracts.document.model import AvroSchema
from tidegate.contracts.errors import SettingsError
from tidegate.contracts.formats.avro_reader import EncodedSize
from tidegate.contracts.formats.framing import PREFIX_BYTES
from tidegate.contracts.formats.writers import WriterSchema, WriterSchemas
from tidegate.contracts.lint.lint import lint

_UNREADABLE: Final = b""
"""An empty payload, which counts as an unreadable record."""
_PARSED: Final = 256


class FramedAvroValues:
    """A converter of framed values. `schema` is the schema of the payloads, `framing` the framing of the values.

    With `writers`, a value is decoded with the schema that it names, and encoded again with `schema`.
    """

    def __init__(self, schema: Any, framing: str, writers: WriterSchemas | None = None) -> None:
        self.schema = schema
        self.framing = framing
        self._is_prefixed = framing == "confluent-prefix"
        self._writers = writers
        self._text = orjson.dumps(schema).decode()

    @classmethod
    def of_registry(cls, writers: WriterSchemas) -> FramedAvroValues | None:
        """Return a converter to the subject's latest version; None if that is not an Avro schema."""
        latest = writers.schemas[-1] if writers.schemas else None
        if latest is None or latest.type != "avro":
            return None
        return cls(json.loads(latest.text), "confluent-prefix", writers)

    @classmethod
    def of_file(cls, path: Path) -> FramedAvroValues:
        """Return a converter for the schema in a file: a contract, with its framing, or an Avro schema without frames.

        Raises SettingsError for a file without an Avro schema, ContractError for an invalid document.
        """
        try:
            found = read_source(str(path), path.read_bytes()).value
        except OSError as error:
            raise SettingsError(f"cannot read {path}: {error.strerror}") from None
        if isinstance(found, dict) and found.get("kind") == "DataContract":
            contract = lint(path).contract
            if not isinstance(contract.schema_, AvroSchema):
                raise SettingsError(f"{path} describes JSON records, which need no --schema")
            return cls(contract.schema_.definition, contract.framing)
        try:
            fastavro.parse_schema(found)
        except (fastavro.schema.SchemaParseException, KeyError, TypeError, ValueError) as error:
            raise SettingsError(f"{path} is neither a contract nor an Avro schema: {error}") from None
        return cls(found, "none")

    def payload(self, value: bytes, header: bytes | None) -> bytes:
        """Return the payload of a value; empty if its frame names no known schema, or it cannot be decoded."""
        if header is not None:
            self.framing = "confluent-header"
        # Producers may change to headers one after another, so that earlier values of the topic have prefixes.
        prefix = PREFIX_BYTES if self._is_prefixed and header is None else 0
        if prefix and (len(value) < prefix or value[0]):
            return _UNREADABLE
        if self._writers is None:
            return value[prefix:]
        writer = self._writer(value, header)
        return _UNREADABLE if writer is None else self._rewritten(writer.text, value[prefix:])

    def _writer(self, value: bytes, header: bytes | None) -> WriterSchema | None:
        assert self._writers is not None  # noqa: S101 - tells mypy what the caller knows
        if header is not None:
            return self._writers.by_header.get(header)
        return self._writers.by_id.get(int.from_bytes(value[1:PREFIX_BYTES], "big"))

    def _rewritten(self, text: str, payload: bytes) -> bytes:
        reader, writer = _parsed(self._text), _parsed(text)
        if reader == writer:
            return payload
        written = io.BytesIO()
        try:
            _size(text).end(payload)
            record = fastavro.schemaless_reader(io.BytesIO(payload), writer, reader)
            fastavro.schemaless_writer(written, reader, record)
        except (ValueError, EOFError, IndexError, KeyError, OverflowError, RecursionError, TypeError):
            return _UNREADABLE
        return written.getvalue()


@lru_cache(maxsize=_PARSED)
def _size(text: str) -> EncodedSize:
    return EncodedSize(json.loads(text))


@lru_cache(maxsize=_PARSED)
def _parsed(text: str) -> Any:
    return fastavro.parse_schema(json.loads(text))
