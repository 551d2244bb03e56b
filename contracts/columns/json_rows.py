"""Typed rows as JSON records, so that a table is judged as the records that it was made from.

| Arrow type | JSON |
|---|---|
| null, a missing value | null; left out where the schema refuses null and does not require the field |
| boolean, integers, decimals | the exact value |
| floats | the exact value; NaN and the infinities are written so, and refused as invalid JSON |
| string, dictionary | text |
| binary | text in Base64 (RFC 4648) |
| date, time | `2026-01-31`, `23:59:59` (RFC 3339; a time has no offset) |
| timestamp with a time zone | `2026-01-31T12:00:00Z`, in UTC (RFC 3339) |
| timestamp without a time zone | `2026-01-31T12:00:00`: format `date-time-local` |
| struct, map with text as key | object |
| list | array |
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.contracts.document.source import escape
from tidegate.contracts.errors import SettingsError

Convert = Callable[[Any], Any]
_OPTIONS: Final = orjson.OPT_UTC_Z | orjson.OPT_PASSTHROUGH_SUBCLASS
_PLAIN: Final = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_null,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_timestamp,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)
"""Types whose Python values `orjson` writes, or `_written` does."""
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
"""A JSON number (RFC 8259 section 6). `007` and `+1` are texts."""
_NUMBERS: Final = {math.inf: b"Infinity", -math.inf: b"-Infinity"}


def json_rows(table: pa.Table | pa.RecordBatch, may_be_absent: Callable[[str], bool]) -> pa.Array:
    """Return each row as a JSON text, an array of large_binary of the table's length, never null.

    `may_be_absent` tells by JSON Pointer which fields are left out of the record when they are null.

    Raises SettingsError for a type without a JSON value (durations, unions), and for a map whose keys are not text.
    It also raises it for timestamps with a fraction of a microsecond.
    """
    names, columns = table.schema.names, []
    if len(set(names)) < len(names):
        raise SettingsError("two columns have one name; a record cannot hold both")
    absent = [may_be_absent(f"/{escape(name)}") for name in names]
    for name in names:
        place = f"/{escape(name)}"
        column = _in_microseconds(table.column(name), place)
        convert = _converter(column.type, place, may_be_absent)
        values = column.to_pylist()
        columns.append(values if convert is None else [None if v is None else convert(v) for v in values])
    rows = (
        orjson.dumps(dict(_members(names, absent, row)), default=_written, option=_OPTIONS)
        for row in (zip(*columns, strict=True) if columns else ((),) * table.num_rows)
    )
    return pa.array(rows, pa.large_binary())


def as_judged(table: pa.Table) -> pa.Table:
    """Return a table as `json_rows` reads it, with timestamps and times in microseconds. Raises what `json_rows` does."""
    json_rows(table.slice(0, 0), lambda _pointer: False)
    columns = [_in_microseconds(table.column(name), f"/{escape(name)}") for name in table.schema.names]
    return pa.table(columns, names=table.schema.names)


def json_cells(
    table: pa.RecordBatch, types_of: Callable[[str], frozenset[str]], may_be_absent: Callable[[str], bool]
) -> pa.Array:
    """Return each row of a file without types, such as CSV, as a JSON text; an array of large_binary, never null.

    The columns are texts. `types_of` maps the JSON Pointer of a field to its JSON types. If text is not among them, a
    cell with the JSON text of a number, `true` or `false` becomes that value. Other cells stay text, and are refused.
    Nulls are those of `json_rows`.
    """
    names = table.schema.names
    absent = [may_be_absent(f"/{escape(name)}") for name in names]
    columns = [
        _cells(column, types_of(f"/{escape(name)}"))
        for name, column in zip(names, table.columns, strict=True)
    ]
    rows = (orjson.dumps(dict(_members(names, absent, row))) for row in zip(*columns, strict=True))
    return pa.array(rows, pa.large_binary())


def _cells(column: pa.Array, types: frozenset[str]) -> list[Any]:
    texts: list[Any] = column.to_pylist()
    if "string" in types:
        return texts
    numbers = bool(types & {"integer", "number"})
    words = {"true": True, "false": False} if "boolean" in types else {}
    return [
        orjson.Fragment(text.encode())
        if numbers and text is not None and _NUMBER.fullmatch(text)
        else words.get(text, text)
        for text in texts
    ]


def json_record(record: Any, may_be_absent: Callable[[str], bool]) -> bytes:
    """Return a record of Python values, as `fastavro` reads it, as a JSON text by the mapping of `json_rows`.

    Raises SettingsError for a value that JSON has nothing for.
    """
    try:
        return orjson.dumps(_plain(record, may_be_absent, ""), default=_written, option=_OPTIONS)
    except TypeError as error:
        raise SettingsError(f"a record has a value that JSON has nothing for: {error}") from None


def _plain(value: Any, may_be_absent: Callable[[str], bool], place: str) -> Any:
    match value:
        case float():
            return _float(value)
        case dict():
            members = ((name, each, f"{place}/{escape(name)}") for name, each in value.items())
            return {
                name: _plain(each, may_be_absent, at)
                for name, each, at in members
                if each is not None or not may_be_absent(at)
            }
        case list():
            return [_plain(each, may_be_absent, f"{place}/*") for each in value]
        case _:
            return value


def _members(names: list[str], absent: list[bool], row: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for name, is_left_out, value in zip(names, absent, row, strict=True):
        if value is not None or not is_left_out:
            yield name, value


def _in_microseconds(column: Any, place: str) -> Any:
    """Return a column whose timestamps and times have no nanoseconds: Python has no value for them."""
    wanted = _without_nanoseconds(column.type)
    try:
        return column if wanted == column.type else pc.cast(column, wanted)
    except pa.ArrowInvalid:
        raise SettingsError(
            f"the column {place} has timestamps with a fraction of a microsecond; round them to microseconds first"
        ) from None


def _without_nanoseconds(kind: pa.DataType) -> pa.DataType:  # noqa: PLR0911 - one for each type that has parts
    match kind:
        case pa.TimestampType(unit="ns"):
            return pa.timestamp("us", kind.tz)
        case pa.Time64Type(unit="ns"):
            return pa.time64("us")
        case pa.DictionaryType():
            return _without_nanoseconds(kind.value_type)
        case pa.StructType():
            return pa.struct([field.with_type(_without_nanoseconds(field.type)) for field in kind])
        case pa.MapType():
            return pa.map_(kind.key_type, kind.item_field.with_type(_without_nanoseconds(kind.item_type)))
        case pa.LargeListType():
            return pa.large_list(kind.value_field.with_type(_without_nanoseconds(kind.value_type)))
        case pa.ListType():
            return pa.list_(kind.value_field.with_type(_without_nanoseconds(kind.value_type)))
        case _:
            return kind


def _converter(kind: pa.DataType, place: str, may_be_absent: Callable[[str], bool]) -> Convert | None:
    """Return the function that prepares a Python value of a type for `orjson`; None where nothing is to be done."""
    if pa.types.is_floating(kind):
        return _float
    if any(is_one(kind) for is_one in _PLAIN):
        return None
    if pa.types.is_struct(kind):
        return _of_struct(kind, place, may_be_absent)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        each = _converter(kind.value_type, f"{place}/*", may_be_absent)
        return None if each is None else _of_list(each)
    if pa.types.is_map(kind) and (
        pa.types.is_string(kind.key_type) or pa.types.is_large_string(kind.key_type)
    ):
        each = _converter(kind.item_type, f"{place}/*", may_be_absent)
        return _of_map(each or _same)
    raise SettingsError(
        f"the column {place} is of type {kind}, which JSON has no value for; convert it or leave it out"
    )


def _of_struct(kind: pa.StructType, place: str, may_be_absent: Callable[[str], bool]) -> Convert:
    parts = []
    for field in kind:
        child = f"{place}/{escape(field.name)}"
        convert = _converter(field.type, child, may_be_absent) or _same
        parts.append((field.name, convert, may_be_absent(child)))

    def convert_struct(value: dict[str, Any]) -> dict[str, Any]:
        return {
            name: None if value[name] is None else convert(value[name])
            for name, convert, is_left_out in parts
            if value[name] is not None or not is_left_out
        }

    return convert_struct


def _of_list(each: Convert) -> Convert:
    return lambda values: [None if value is None else each(value) for value in values]


def _of_map(each: Convert) -> Convert:
    return lambda pairs: {key: None if value is None else each(value) for key, value in pairs}


def _same(value: Any) -> Any:
    return value


def _float(value: float) -> Any:
    if math.isfinite(value):
        return value
    return orjson.Fragment(_NUMBERS.get(value, b"NaN"))


def _written(value: Any) -> Any:
    """Return what `orjson` writes for a value of a type that it does not know."""
    if isinstance(value, Decimal):
        return orjson.Fragment(format(value, "f").encode())
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(type(value).__name__)
