"""Read records of files and tables as values of records in a contract's topic."""

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
from tidegate.contracts.compiled import schema_fields
from tidegate.contracts.document.fields import refuses_null, types_of
from tidegate.contracts.document.model import AvroSchema, DataContract
from tidegate.contracts.errors import SettingsError
from tidegate.contracts.formats.avro_encoder import AvroEncoder, place_of
from tidegate.contracts.formats.avro_leaves import NotEncodableError
from tidegate.contracts.formats.framing import PREFIX_BYTES
from tidegate.contracts.formats.json_records import decode_exactly
from tidegate.contracts.formats.writers import WriterSchema, WriterSchemas
from tidegate.contracts.infer.infer import VALUES
from tidegate.contracts.verdict import Violation
from tidegate.gateway.sources.record_files import RecordBlock
from tidegate.gateway.sources.source import Chunk, Source, Unreadable

_NO_GUID: Final = UUID(int=0)


def contract_of_files(contract: DataContract) -> DataContract:
    """Return the contract with the framing of the records that RecordReader returns."""
    framing = "confluent-prefix" if isinstance(contract.schema_, AvroSchema) else "none"
    return contract.model_copy(update={"framing": framing})


class RecordReader:
    """A reader of a source as records of `contract`.

    For a JSON contract, JSON is kept byte for byte. Rows of a table and records of an Avro container are converted to JSON
    (`tidegate.contracts.columns.json_rows`). For an Avro contract, each record gets the frame of its schema, and `writers`
    has these schemas. JSON and rows are encoded with the contract's schema (`tidegate.contracts.formats.avro_encoder`);
    records that cannot be encoded are `unreadable`.
    """

    def __init__(self, source: Source, contract: DataContract, *, is_avro_json: bool = False) -> None:
        """Prepare to read. With `is_avro_json`, JSON is Avro's JSON encoding. Raises SettingsError, ContractError."""
        self._source = source
        is_avro = isinstance(contract.schema_, AvroSchema)
        if is_avro_json and not is_avro:
            raise SettingsError(
                f"{contract.id} describes JSON records, so `avro-json` does not apply to them"
            )
        self._encoder = (
            AvroEncoder(contract.schema_.definition, is_avro_json=is_avro_json) if is_avro else None
        )
        self.contract = contract_of_files(contract)
        self.writers: WriterSchemas | None = WriterSchemas((), is_current=True) if is_avro else None
        fields = schema_fields(contract)
        self._may_be_absent = partial(refuses_null, fields)
        self._types_of = partial(types_of, fields)

    def blocks(self) -> Iterator[RecordBlock]:
        """Yield the records. Raises the errors of the source and of `json_rows`."""
        for chunk in self._source.chunks():
            yield self.read(chunk)

    def read(self, chunk: Chunk) -> RecordBlock:
        """Return the records of a chunk of the source."""
        schema = self._source.avro_schema
        positions = chunk.positions.tolist()
        if schema is None:
            values = self._json_values(chunk.batch)
            if self._encoder is not None:
                return self._encoded(self._encoder, values, positions, chunk.unreadable)
        elif self._encoder is not None:
            values = self._framed(schema, chunk.batch.column(0).to_pylist())
        else:
            values = [
                json_record(fastavro.schemaless_reader(io.BytesIO(value), schema, None), self._may_be_absent)
                for value in chunk.batch.column(0).to_pylist()
            ]
        return RecordBlock(values, [None] * len(values), positions, chunk.unreadable)

    def _json_values(self, batch: pa.RecordBatch) -> list[bytes | None]:
        if batch.schema == VALUES:
            found = batch.column(0)
        elif self._source.is_untyped:
            found = json_cells(batch, self._types_of, self._may_be_absent)
        else:
            found = json_rows(batch, self._may_be_absent)
        values: list[bytes | None] = found.to_pylist()
        return values

    def _encoded(
        self,
        encoder: AvroEncoder,
        values: list[bytes | None],
        positions: list[int],
        unreadable: tuple[Unreadable, ...],
    ) -> RecordBlock:
        payloads: list[bytes] = []
        kept: list[int] = []
        refused = [*unreadable]
        for value, position in zip(values, positions, strict=True):
            record = decode_exactly(value or b"")
            if isinstance(record, Violation):
                refused.append(Unreadable(position, record.message))
                continue
            try:
                payloads.append(encoder.encode(record))
                kept.append(position)
            except NotEncodableError as error:
                refused.append(Unreadable(position, error.reason, place_of(error)))
        refused.sort(key=lambda each: each.position)
        framed = self._framed(self.contract.schema_.definition, payloads)
        return RecordBlock(framed, [None] * len(framed), kept, tuple(refused))

    def _framed(self, schema: Any, payloads: list[bytes]) -> list[bytes | None]:
        """Return the payloads with the frame of the schema."""
        prefix = b"\0" + self._id_of(schema).to_bytes(PREFIX_BYTES - 1, "big")
        return [prefix + payload for payload in payloads]

    def _id_of(self, schema: Any) -> int:
        """Return the id of a schema in `writers`; add it if it is new."""
        assert self.writers is not None  # noqa: S101 - tells mypy what the caller knows
        text = orjson.dumps(schema).decode()
        known = self.writers.schemas
        found = next((each.id for each in known if each.text == text), None)
        if found is not None:
            return found
        added = WriterSchema(len(known) + 1, _NO_GUID, "avro", text)
        self.writers = WriterSchemas((*known, added), is_current=True)
        return added.id
