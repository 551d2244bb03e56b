"""Values of a topic of Avro as payloads of one schema, whatever schema each was written with."""

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
from tidegate.contracts.formats.framing import PREFIX_BYTES
from tidegate.contracts.formats.writers import WriterSchema, WriterSchemas
from tidegate.contracts.lint.lint import lint

_UNREADABLE: Final = b""
"""No record: what has no payload, so that it counts as one that cannot be read."""
_PARSED: Final = 256


class AvroValues:
    """Takes the frames off values. `schema` is the schema of the payloads, `framing` the framing that the values have.

    With `writers`, a value is read with the schema that it names, and written again with `schema`.
    """

    def __init__(self, schema: Any, framing: str, writers: WriterSchemas | None = None) -> None:
        self.schema = schema
        self.framing = framing
        self._writers = writers
        self._text = orjson.dumps(schema).decode()

    @classmethod
    def of_registry(cls, writers: WriterSchemas) -> AvroValues | None:
        """Return what reads the values of a subject as those of its newest version; None if it is not of Avro."""
        newest = max(writers.schemas, key=lambda each: each.id, default=None)
        if newest is None or newest.type != "avro":
            return None
        return cls(json.loads(newest.text), "confluent-prefix", writers)

    @classmethod
    def of_file(cls, path: Path) -> AvroValues:
        """Return what reads values of the schema in a file: of a contract, framed as it says, or an Avro schema, bare.

        Raises SettingsError for a file that has no Avro schema, ContractError for one with mistakes.
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
        """Return the payload of a value; an empty one if its frame names no schema, or it cannot be read with it."""
        if header is not None:
            self.framing = "confluent-header"
        prefix = PREFIX_BYTES if self.framing == "confluent-prefix" else 0
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
            record = fastavro.schemaless_reader(io.BytesIO(payload), writer, reader)
            fastavro.schemaless_writer(written, reader, record)
        except (ValueError, EOFError, IndexError, KeyError, OverflowError, RecursionError, TypeError):
            return _UNREADABLE
        return written.getvalue()


@lru_cache(maxsize=_PARSED)
def _parsed(text: str) -> Any:
    return fastavro.parse_schema(json.loads(text))
