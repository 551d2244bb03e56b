"""Batches of a source as the values that a contract judges: bytes as they are, rows of tables as JSON."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import orjson
import pyarrow as pa

from tidegate.contracts.columns.json_rows import json_rows
from tidegate.contracts.document.fields import SchemaFields, join, refuses_null
from tidegate.contracts.document.model import AvroSchema, DataContract
from tidegate.contracts.errors import SettingsError
from tidegate.contracts.infer.columns import Kind
from tidegate.contracts.infer.infer import VALUES
from tidegate.contracts.infer.table_rows import cells
from tidegate.contracts.judge.plan import schema_fields
from tidegate.gateway.sources.source import Source

ToValues = Callable[[pa.RecordBatch], pa.Array]
"""Returns the records of a batch as an array of large_binary of the same length."""


def value_reader(source: Source, contract: DataContract) -> ToValues:
    """Return what converts batches of a source to values of records of a contract.

    A row becomes the JSON record that it stands for. The cells of CSV are numbers and truth values where the schema
    has these and no text.

    Raises SettingsError if records of the source cannot be records of the contract.
    """
    if source.avro_schema is not None:
        raise SettingsError(
            f"{source.title} has Avro records; only JSON records and rows of tables are read here"
        )
    if isinstance(contract.schema_, AvroSchema):
        raise SettingsError(f"{contract.id} describes Avro records; {source.title} has none")
    fields = schema_fields(contract)
    may_be_absent = partial(refuses_null, fields)

    def values(batch: pa.RecordBatch) -> pa.Array:
        if batch.schema.equals(VALUES):
            return batch.column(0).cast(pa.large_binary())
        if source.is_untyped:
            return _untyped_rows(batch, fields, may_be_absent)
        return json_rows(batch, may_be_absent)

    return values


def _untyped_rows(
    batch: pa.RecordBatch, fields: SchemaFields, may_be_absent: Callable[[str], bool]
) -> pa.Array:
    names = batch.schema.names
    pointers = [join((name,)) for name in names]
    columns = [
        cells(array, _kinds(fields, pointer)) for array, pointer in zip(batch.columns, pointers, strict=True)
    ]
    absent = [may_be_absent(pointer) for pointer in pointers]
    rows = (
        {
            name: value
            for name, value, is_left_out in zip(names, row, absent, strict=True)
            if value is not None or not is_left_out
        }
        for row in zip(*columns, strict=True)
    )
    return pa.array(map(orjson.dumps, rows), pa.large_binary())


def _kinds(fields: SchemaFields, pointer: str) -> tuple[Kind, ...]:
    found = fields.find(pointer)
    if found is None or "string" in found.types:
        return ()
    names = {"boolean": Kind.BOOLEAN, "integer": Kind.INTEGER, "number": Kind.NUMBER}
    return tuple(kind for name, kind in names.items() if name in found.types)
