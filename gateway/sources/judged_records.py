"""The records of files and tables as a contract's judge takes them: the values of records of its topic."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import partial
from typing import Any, Final
from uuid import UUID

import fastavro
import orjson
import pyarrow as pa

from tidegate.contracts.columns.json_rows import json_cells, json_record, json_rows
from tidegate.contracts.document.fields import ANY_TYPE, refuses_null
from tidegate.contracts.document.model import AvroSchema, DataContract
from tidegate.contracts.errors import SettingsError
from tidegate.contracts.formats.writers import WriterSchema, WriterSchemas
from tidegate.contracts.infer.infer import VALUES
from tidegate.contracts.judge.plan import schema_fields
from tidegate.gateway.sources.record_files import RecordBlock
from tidegate.gateway.sources.source import Chunk, Source

_NO_GUID: Final = UUID(int=0)


class JudgedRecords:
    """Records of a source, to be judged by `contract`.

    JSON is taken byte for byte. Rows of a table, and for a contract of JSON also records of an Avro container, become the
    JSON that they stand for, see `tidegate.contracts.columns.json_rows`. A contract of Avro reads containers as it reads
    a topic: each record has the frame of its schema, and `writers` are these schemas.
    """

    def __init__(self, source: Source, contract: DataContract) -> None:
        """Prepare to read a source. Raises SettingsError if its records have no encoding that the contract reads."""
        self._source = source
        self._is_avro = isinstance(contract.schema_, AvroSchema)
        if self._is_avro and source.avro_schema is None:
            raise SettingsError(
                f"{contract.id} describes Avro records, and {source.title} has none; give it an Avro container, or "
                "encoded records with --records sized or base64"
            )
        self.contract = contract.model_copy(
            update={"framing": "confluent-prefix" if self._is_avro else "none"}
        )
        self.writers: WriterSchemas | None = WriterSchemas((), is_current=True) if self._is_avro else None
        self._fields = schema_fields(contract)
        self._may_be_absent = partial(refuses_null, self._fields)

    def blocks(self) -> Iterator[RecordBlock]:
        """Yield the records. Raises what the source raises, and what `json_rows` does."""
        for chunk in self._source.chunks():
            values = self._values(chunk)
            yield RecordBlock(values, [None] * len(values))

    def _values(self, chunk: Chunk) -> list[bytes | None]:
        values: list[bytes | None]
        if self._source.avro_schema is not None:
            return [*self._of_container(chunk.batch.column(0).to_pylist())]
        if chunk.batch.schema == VALUES:
            values = chunk.batch.column(0).to_pylist()
        elif self._source.is_untyped:
            values = json_cells(chunk.batch, self._types_of, self._may_be_absent).to_pylist()
        else:
            values = json_rows(pa.table(chunk.batch), self._may_be_absent).to_pylist()
        return values

    def _of_container(self, values: list[bytes]) -> Iterator[bytes]:
        schema = self._source.avro_schema
        if self._is_avro:
            prefix = b"\0" + self._id_of(schema).to_bytes(4, "big")
            yield from (prefix + value for value in values)
            return
        for value in values:
            yield json_record(
                fastavro.schemaless_reader(io.BytesIO(value), schema, None), self._may_be_absent
            )

    def _id_of(self, schema: Any) -> int:
        """Return the id of a schema of a container in `writers`; add it if it is new."""
        assert self.writers is not None  # noqa: S101 - tells mypy what the caller knows
        text = orjson.dumps(schema).decode()
        known = self.writers.schemas
        found = next((each.id for each in known if each.text == text), None)
        if found is not None:
            return found
        added = WriterSchema(len(known) + 1, _NO_GUID, "avro", text)
        self.writers = WriterSchemas((*known, added), is_current=True)
        return added.id

    def _types_of(self, pointer: str) -> frozenset[str]:
        found = self._fields.find(pointer)
        return ANY_TYPE if found is None else found.types
