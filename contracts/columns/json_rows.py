"""Convert typed rows to JSON records, to judge, profile and copy tables.

| Arrow type | JSON |
|---|---|
| null, a missing value | null; omitted if `may_be_absent` allows it |
| boolean, integers, decimals | the exact value |
| floats | the exact value; `NaN` and `Infinity` are written as such, and refused as invalid JSON |
| string, dictionary, UUID | text |
| binary | text in Base64 (RFC 4648) |
| date, time | `2026-01-31`, `23:59:59` (RFC 3339; a time has no offset) |
| timestamp with a time zone | `2026-01-31T12:00:00Z`, in UTC (RFC 3339) |
| timestamp without a time zone | `2026-01-31T12:00:00`: format `date-time-local` |
| duration | its seconds, as an exact number: `90.5` |
| struct, map | object; a key that is not text is written as its JSON text: `7`, `2026-01-31` |
| list | array |

A fraction of a second has six digits, or nine if it has nanoseconds. A year beyond 9999 has more than four digits, so the
text is not a date of RFC 3339. If a key occurs twice in a map, the last value counts, as in Parquet.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.contracts.document.source import escape
from tidegate.contracts.errors import SettingsError

Convert = Callable[[Any], Any]
_OPTIONS: Final = orjson.OPT_UTC_Z | orjson.OPT_PASSTHROUGH_SUBCLASS
TICKS: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""Ticks in a second, by Arrow's unit of time."""
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
    lambda kind: isinstance(kind, pa.UuidType),
)
"""Tests for the types whose Python values `orjson` writes itself or through `_written`."""
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
"""A JSON number (RFC 8259 section 6). `007` and `+1` are not numbers, but text."""
_NUMBERS: Final = {math.inf: b"Infinity", -math.inf: b"-Infinity"}


def json_rows(table: pa.Table | pa.RecordBatch, may_be_absent: Callable[[str], bool]) -> pa.Array:
    """Return each row as a JSON text: an array of large_binary of the table's length, never null.

    `may_be_absent` returns for a JSON Pointer whether the field is omitted from the record if it is null.

    Raises SettingsError like `require_json`.
    """
    require_json(table.schema)
    names = table.schema.names
    absent = [may_be_absent(f"/{escape(name)}") for name in names]
    columns = [json_column(table.column(name), f"/{escape(name)}", may_be_absent) for name in names]
    rows = (
        orjson.dumps(dict(_members(names, absent, row)), default=_written, option=_OPTIONS)
        for row in (zip(*columns, strict=True) if columns else ((),) * table.num_rows)
    )
    return pa.array(rows, pa.large_binary())


def require_json(schema: pa.Schema) -> None:
    """Raise SettingsError for types that JSON cannot express (unions, nested map keys) and for duplicate names."""
    if (repeated := _repeated(schema.names)) is not None:
        raise SettingsError(
            f"two columns are named `{repeated}`, and a record cannot hold both; rename one of them or leave it out"
        )
    for field in schema:
        _converter(field.type, f"/{escape(field.name)}", lambda _pointer: False, by_ticks=False)


def json_column(
    column: pa.Array | pa.ChunkedArray,
    place: str = "",
    may_be_absent: Callable[[str], bool] = lambda _: False,
) -> list[Any]:
    """Return the values of a column as Python values that `json_rows` can write; `place` is its JSON Pointer.

    Raises SettingsError for a type that JSON cannot express.
    """
    for by_ticks in (False, True):
        kind = _readable(column.type, by_ticks=by_ticks)
        convert = _converter(column.type, place, may_be_absent, by_ticks=by_ticks)
        try:
            values: list[Any] = (column if kind == column.type else pc.cast(column, kind)).to_pylist()
            break
        except (
            ValueError,
            OverflowError,
        ):  # nanoseconds, a year that Python cannot represent, or text that is not UTF-8
            if by_ticks:
                raise
    return values if convert is None else [None if value is None else convert(value) for value in values]


def json_cells(
    table: pa.RecordBatch, types_of: Callable[[str], frozenset[str]], may_be_absent: Callable[[str], bool]
) -> pa.Array:
    """Return each row of an untyped file, such as CSV, as a JSON text: an array of large_binary, never null.

    All columns are strings. `types_of` maps the JSON Pointer of a field to its JSON types. If `string` is not among them,
    a cell with the JSON text of a number, `true` or `false` becomes that value. Other cells stay text, which the schema
    then refuses. Nulls are treated as in `json_rows`.
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
    """Return a record of Python values, as read by `fastavro` or `psycopg`, as a JSON text (see `json_rows`).

    Raises SettingsError for a value that JSON cannot express.
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
        case datetime(tzinfo=zone) if zone not in (None, UTC):
            return _in_utc(value)
        case time(tzinfo=zone) if zone is not None:  # orjson rejects a time with a zone
            return value.isoformat()
        case _:
            return value


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:  # within a day of the year 1 or 9999
        return moment


def _members(names: list[str], absent: list[bool], row: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for name, is_left_out, value in zip(names, absent, row, strict=True):
        if value is not None or not is_left_out:
            yield name, value


def _readable(kind: pa.DataType, *, by_ticks: bool) -> pa.DataType:
    """Return the type to which a column is cast for Python; `by_ticks` casts times to integers."""
    match _stored(kind):
        case pa.StructType() as found:
            return pa.struct([_with_type(field, by_ticks=by_ticks) for field in found])
        case pa.MapType() as found:
            key, item = (_with_type(each, by_ticks=by_ticks) for each in (found.key_field, found.item_field))
            return pa.map_(key.type, item)
        case pa.LargeListType(value_field=field):
            return pa.large_list(_with_type(field, by_ticks=by_ticks))
        case pa.ListType(value_field=field):
            return pa.list_(_with_type(field, by_ticks=by_ticks))
        case pa.FixedSizeListType(value_field=field, list_size=size):
            return pa.list_(_with_type(field, by_ticks=by_ticks), size)
        case found:
            return _readable_scalar(found, by_ticks=by_ticks)


def _with_type(field: pa.Field, *, by_ticks: bool) -> pa.Field:
    return field.with_type(_readable(field.type, by_ticks=by_ticks))


def _stored(kind: pa.DataType) -> pa.DataType:
    """Return the value type of a dictionary or extension type; UUIDs are kept, because pyarrow converts them."""
    if isinstance(kind, pa.DictionaryType):
        return _stored(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType) and not isinstance(kind, pa.UuidType):
        return _stored(kind.storage_type)
    return kind


def _readable_scalar(kind: pa.DataType, *, by_ticks: bool) -> pa.DataType:
    # PyArrow 26 loses the length of fixed-size lists of nulls when it casts them to themselves.
    if pa.types.is_null(kind):
        return pa.bool_()
    if pa.types.is_duration(kind) or (by_ticks and pa.types.is_timestamp(kind)):
        return pa.int64()
    if by_ticks:
        return _TICKS_AS.get(kind, kind)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us" if kind.unit == "ns" else kind.unit, None if kind.tz is None else "UTC")
    return pa.time64("us") if kind == pa.time64("ns") else kind


_TICKS_AS: Final = {
    pa.date32(): pa.int32(),
    pa.date64(): pa.int64(),
    pa.time32("s"): pa.int32(),
    pa.time32("ms"): pa.int32(),
    pa.time64("us"): pa.int64(),
    pa.time64("ns"): pa.int64(),
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
}
"""Types as which columns are read if Python cannot represent all of their values."""


def _converter(
    kind: pa.DataType, place: str, may_be_absent: Callable[[str], bool], *, by_ticks: bool
) -> Convert | None:
    """Return the function that prepares a Python value of a type for `orjson`; None if none is needed.

    The values are of the type that `_readable` returns. Raises SettingsError for a type that JSON cannot express.
    """
    kind = _stored(kind)
    if not pa.types.is_nested(kind):
        return _of_scalar(kind, place, by_ticks=by_ticks)
    if pa.types.is_struct(kind):
        return _of_struct(kind, place, may_be_absent, by_ticks=by_ticks)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        each = _converter(kind.value_type, f"{place}/*", may_be_absent, by_ticks=by_ticks)
        return None if each is None else _of_list(each)
    if pa.types.is_map(kind) and not pa.types.is_nested(kind.key_type):
        key = _converter(kind.key_type, place, may_be_absent, by_ticks=by_ticks)
        item = _converter(kind.item_type, f"{place}/*", may_be_absent, by_ticks=by_ticks)
        return _of_map(key or _same, item or _same)
    raise _no_value(kind, place)


def _repeated(names: list[str]) -> str | None:
    return max(names, key=names.count) if len(set(names)) < len(names) else None


def _no_value(kind: pa.DataType, place: str) -> SettingsError:
    return SettingsError(
        f"the column {place} is of type {kind}, which JSON has no value for; convert it or leave it out"
    )


def _of_scalar(kind: pa.DataType, place: str, *, by_ticks: bool) -> Convert | None:
    if pa.types.is_floating(kind):
        return _float
    if pa.types.is_duration(kind):
        return _seconds_of(kind.unit)
    if not any(is_one(kind) for is_one in _PLAIN):
        raise _no_value(kind, place)
    return _of_ticks(kind) if by_ticks else None


def _of_struct(
    kind: pa.StructType, place: str, may_be_absent: Callable[[str], bool], *, by_ticks: bool
) -> Convert:
    if (repeated := _repeated([field.name for field in kind])) is not None:
        raise SettingsError(
            f"two members of the column {place} are named `{repeated}`, and a record cannot hold both; rename one of them "
            "or leave it out"
        )
    parts = []
    for field in kind:
        child = f"{place}/{escape(field.name)}"
        convert = _converter(field.type, child, may_be_absent, by_ticks=by_ticks) or _same
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


def _of_map(key: Convert, item: Convert) -> Convert:
    return lambda pairs: {
        _key_text(key(name)): None if value is None else item(value) for name, value in pairs
    }


def _key_text(key: Any) -> str:
    if isinstance(key, str):
        return key
    return orjson.dumps(key, default=_written, option=_OPTIONS).decode().strip('"')


def _same(value: Any) -> Any:
    return value


def _float(value: float) -> Any:
    if math.isfinite(value):
        return value
    return orjson.Fragment(_NUMBERS.get(value, b"NaN"))


def _seconds_of(unit: str) -> Convert:
    exponent = -len(str(TICKS[unit])) + 1
    return lambda ticks: _decimal(Decimal(ticks).scaleb(exponent).normalize())


def _of_ticks(kind: pa.DataType) -> Convert | None:
    """Return the function that converts ticks of a time type, or bytes of a text, to JSON; None if none is needed."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _text
    if pa.types.is_date(kind):
        ticks = 1 if pa.types.is_date32(kind) else 86_400_000
        return lambda value: str(np.datetime64(value // ticks, "D"))
    if pa.types.is_time(kind):
        return lambda value: _moment(value, TICKS[kind.unit])[len("1970-01-01T") :]
    if pa.types.is_timestamp(kind):
        zone = "" if kind.tz is None else "Z"
        return lambda value: _moment(value, TICKS[kind.unit]) + zone
    return None


def _moment(value: int, ticks: int) -> str:
    """Return `ticks` since 1970 as text. Python's `datetime` has no nanoseconds, and no years beyond 9999."""
    seconds, rest = divmod(value, ticks)
    nanoseconds = rest * (10**9 // ticks)
    fraction = f".{nanoseconds:09}" if nanoseconds % 1000 else f".{nanoseconds // 1000:06}"
    return f"{np.datetime64(seconds, 's')}{fraction if nanoseconds else ''}"


def _text(value: bytes) -> Any:
    """Return the text of a cell. Bytes that are not UTF-8 are written unchanged, so the judge refuses them."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return orjson.Fragment(b'"' + value + b'"')


def _decimal(value: Decimal) -> Any:
    return orjson.Fragment(format(value, "f").encode())


def _written(value: Any) -> Any:
    """Return a value that `orjson` can write in place of one of a type that it does not support."""
    match value:
        case Decimal():
            return _decimal(value)
        case bytes():
            return base64.b64encode(value).decode()
        case timedelta():
            return _seconds_of("us")(value // timedelta(microseconds=1))
        case IPv4Address() | IPv4Network() | IPv6Address() | IPv6Network():  # includes the interface classes
            return str(value)
    raise TypeError(type(value).__name__)
