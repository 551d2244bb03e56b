"""Rows of a table as JSON texts, as the judge reads them."""

from __future__ import annotations

import base64
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.contracts.infer.columns import NUMBER_TEXT, Kind
from tidegate.contracts.infer.structure import Structure


def json_values(batch: pa.RecordBatch, structure: Structure | None) -> list[bytes]:
    """Return the rows of a table as JSON.

    Nulls stay null, timestamps are RFC 3339 in UTC, or without zone; binary values are base64. `structure` says how the
    cells of a file without types are read; None for a table with types.
    """
    if structure is None:
        return [json_row(row) for row in batch.to_pylist(maps_as_pydicts="lossy")]
    columns = [
        cells(array, structure.types[(name,)].kinds)
        for name, array in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return [
        orjson.dumps(dict(zip(batch.schema.names, row, strict=True))) for row in zip(*columns, strict=True)
    ]


def json_row(row: dict[str, Any]) -> bytes:
    """Return a row of a table as JSON. A value of a type that JSON has nothing for is written as text."""
    return orjson.dumps(_plain(row), default=str)


def cells(array: pa.Array, kinds: tuple[Kind, ...]) -> list[Any]:
    """Return the cells of a column as values of its type; what is not of the type stays text, to be refused."""
    texts: list[Any] = array.to_pylist()
    if Kind.BOOLEAN in kinds:
        return [text == "true" if text in ("true", "false") else text for text in texts]
    if Kind.INTEGER in kinds or Kind.NUMBER in kinds:
        is_number = pc.match_substring_regex(array, NUMBER_TEXT).to_pylist()
        return [orjson.loads(text) if fits else text for text, fits in zip(texts, is_number, strict=True)]
    return texts


def _plain(value: Any) -> Any:
    """Return a value of a table as JSON has it."""
    found = value
    match value:
        case dict():
            found = {str(name): _plain(each) for name, each in value.items()}
        case list():
            found = [_plain(each) for each in value]
        case datetime() if value.tzinfo is not None:
            found = value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date() | time():  # a date with a time, too
            found = value.isoformat()
        case Decimal():
            found = float(value)
        case bytes():
            found = base64.b64encode(value).decode()
        case float() if not math.isfinite(value):
            found = None
        case int() if not -(2**63) <= value < 2**64:
            found = float(value)
    return found
