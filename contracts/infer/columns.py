"""Records as columns: for each field and kind of value, an Arrow array aligned with the records."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, Protocol
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.contracts.columns.json_rows import TICKS, json_column

Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]


class ValueKind(StrEnum):
    """Kinds of values that a profile distinguishes."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    NUMBER = "number"
    STRING = "string"
    DATE = "date"
    TIMESTAMP = "timestamp"
    LOCAL_TIMESTAMP = "local timestamp"
    BYTES = "bytes"
    OBJECT = "object"
    ARRAY = "array"


class ObjectRows(Protocol):
    """The objects at one path of a batch, one for each record; some records may have none."""

    def fields(self, most: int) -> Iterator[tuple[str, FieldColumn]]:
        """Yield the columns of at most `most` fields, in the order of their first occurrence."""

    @property
    def names_left_out(self) -> int:
        """Return the number of fields that the last call of `fields` did not yield."""


@dataclass(slots=True)
class Elements:
    """The elements of all arrays in a column; `parents` has the row of each element."""

    values: FieldColumn
    parents: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    """Number of elements of each array; rows without an array have none."""


@dataclass(slots=True)
class FieldColumn:
    """The values of one field in a batch of `length` records.

    `scalars` maps each kind to an array that is null where the record has no value of that kind. `null` and `absent` are
    None if no record has a null, or if no record lacks the field. `untyped` marks texts from a file without types (CSV);
    a text that is a number is in the arrays of both kinds. `has_nanoseconds` means that a timestamp has a fraction of a
    microsecond.
    """

    length: int
    scalars: dict[ValueKind, pa.Array] = field(default_factory=dict)
    objects: ObjectRows | None = None
    is_object: Mask | None = None
    elements: Elements | None = None
    is_array: Mask | None = None
    null: Mask | None = None
    absent: Mask | None = None
    untyped: bool = False
    has_nanoseconds: bool = False


class _Absent:
    __slots__ = ()


ABSENT: Final = _Absent()

_ARROW_TYPES: Final[Mapping[type, tuple[ValueKind, pa.DataType]]] = {
    bool: (ValueKind.BOOLEAN, pa.bool_()),
    int: (ValueKind.INTEGER, pa.int64()),
    float: (ValueKind.NUMBER, pa.float64()),
    str: (ValueKind.STRING, pa.string()),
    date: (ValueKind.DATE, pa.date32()),
    bytes: (ValueKind.BYTES, pa.binary()),
}


class PythonRows:
    """Rows of decoded objects: a dictionary for each record, or None for a record without one."""

    def __init__(self, rows: Sequence[dict[str, Any] | None]) -> None:
        self._rows = rows
        self.names_left_out = 0

    def fields(self, most: int) -> Iterator[tuple[str, FieldColumn]]:
        """Yield the columns of at most `most` fields."""
        shapes = dict.fromkeys(tuple(row) for row in self._rows if row is not None)
        names = list(dict.fromkeys(name for shape in shapes for name in shape))
        self.names_left_out = max(0, len(names) - most)
        is_whole = all(row is not None for row in self._rows)
        for name in names[:most]:
            if is_whole:
                yield name, column_of([row.get(name, ABSENT) for row in self._rows if row is not None])
            else:
                yield (
                    name,
                    column_of([ABSENT if row is None else row.get(name, ABSENT) for row in self._rows]),
                )


class ArrowRows:
    """Rows of the columns of a table, one array for each name."""

    def __init__(self, names: Sequence[str], arrays: Sequence[pa.Array], *, untyped: bool = False) -> None:
        self._names = names
        self._arrays = arrays
        self._untyped = untyped
        self.names_left_out = 0

    def fields(self, most: int) -> Iterator[tuple[str, FieldColumn]]:
        """Yield the columns of at most `most` fields."""
        self.names_left_out = max(0, len(self._names) - most)
        for name, array in zip(self._names[:most], self._arrays[:most], strict=True):
            yield name, untyped_column(array) if self._untyped else arrow_column(array)


def column_of(values: list[Any]) -> FieldColumn:
    """Return the column for values that were decoded from JSON or Avro; ABSENT marks a missing field."""
    column = FieldColumn(len(values))
    types = set(map(type, values))
    if type(None) in types:
        column.null = np.fromiter((value is None for value in values), bool, len(values))
    if _Absent in types:
        column.absent = np.fromiter((value is ABSENT for value in values), bool, len(values))
    types -= {type(None), _Absent}
    if len(types) == 1 and column.absent is None:
        _add(column, next(iter(types)), values)
        return column
    for kind in sorted(types, key=lambda each: each.__name__):
        _add(column, kind, [value if type(value) is kind else None for value in values])
    return column


def _add(column: FieldColumn, kind: type, values: list[Any]) -> None:
    """Add the values of one Python type to a column; `values` has None in place of all others."""
    if kind is dict:
        column.is_object = np.fromiter((value is not None for value in values), bool, len(values))
        column.objects = PythonRows(values)
    elif kind is list:
        column.is_array = np.fromiter((value is not None for value in values), bool, len(values))
        lengths = np.fromiter((len(value or ()) for value in values), np.int64, len(values))
        inner = column_of([each for value in values if value for each in value])
        column.elements = Elements(
            inner, np.repeat(np.arange(len(values)), lengths), lengths[column.is_array]
        )
    elif kind is datetime:
        local = [value if value is not None and value.tzinfo is None else None for value in values]
        zoned = [value if value is not None and value.tzinfo is not None else None for value in values]
        for name, some, zone in (
            (ValueKind.LOCAL_TIMESTAMP, local, None),
            (ValueKind.TIMESTAMP, zoned, "UTC"),
        ):
            if any(value is not None for value in some):
                column.scalars[name] = pa.array(some, pa.timestamp("us", zone))
    elif kind is Decimal:
        numbers = [None if value is None else float(value) for value in values]
        column.scalars[ValueKind.NUMBER] = pa.array(numbers, pa.float64())
    elif kind in (time, UUID):
        column.scalars[ValueKind.STRING] = pa.array(
            [None if value is None else str(value) for value in values], pa.string()
        )
    else:
        name, arrow = _ARROW_TYPES[kind]
        try:
            column.scalars[name] = pa.array(values, arrow)
        except (OverflowError, pa.ArrowInvalid):  # integers beyond 64 bits
            column.scalars[name] = pa.array(
                [None if value is None else _as_float(value) for value in values], pa.float64()
            )


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def arrow_column(array: pa.Array) -> FieldColumn:
    """Return the column for an Arrow array; its nulls are nulls of the records."""
    if isinstance(array, pa.ExtensionArray) and not isinstance(array.type, pa.UuidType):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    column = FieldColumn(len(array))
    if array.null_count:
        column.null = _mask(pc.is_null(array))
    kind = array.type
    if pa.types.is_struct(kind):
        names = [kind.field(index).name for index in range(kind.num_fields)]
        children = [pc.struct_field(array, [index]) for index in range(kind.num_fields)]
        column.objects = ArrowRows(names, children)
        column.is_object = _mask(pc.is_valid(array))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        column.is_array = _mask(pc.is_valid(array))
        lengths = pc.list_value_length(array).drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
        parents = np.repeat(
            np.flatnonzero(column.is_array), lengths
        )  # not by `list_parent_indices`: a null list of a fixed size has elements, too
        column.elements = Elements(arrow_column(pc.list_flatten(array)), parents, lengths)
    elif pa.types.is_map(kind):
        column.objects = ArrowRows([], [])
        column.is_object = _mask(pc.is_valid(array))
    elif not pa.types.is_null(kind):
        name, values = _scalar(array)
        column.scalars[name] = values
        if pa.types.is_timestamp(kind) and kind.unit == "ns":
            ticks = array.drop_null().cast(pa.int64()).to_numpy(zero_copy_only=False)
            column.has_nanoseconds = bool((ticks % 1000).any())
    return column


def _scalar(array: pa.Array) -> tuple[ValueKind, pa.Array]:
    """Return the kind of a scalar array, and its values in the type for profiles, converted as by `json_rows`."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        name = ValueKind.LOCAL_TIMESTAMP if kind.tz is None else ValueKind.TIMESTAMP
        return name, array.cast(pa.timestamp("us", kind.tz), safe=False)
    if pa.types.is_duration(kind):
        seconds = array.cast(pa.int64()).cast(pa.float64(), safe=False)
        return ValueKind.NUMBER, pc.divide(seconds, float(TICKS[kind.unit]))
    for is_type, name, read_as in _READ_AS:
        if is_type(kind):
            return name, array.cast(read_as, safe=False)
    if pa.types.is_time(kind) or isinstance(kind, pa.UuidType):
        texts = [None if each is None else str(each) for each in json_column(array)]
        return ValueKind.STRING, pa.array(texts, pa.string())
    return ValueKind.STRING, valid_text(array.cast(pa.string()))


def valid_text(array: pa.Array) -> pa.Array:
    """Return an array of strings with U+FFFD in place of bytes that are not UTF-8."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        values = array.cast(pa.binary()).to_pylist()
        texts = [None if each is None else each.decode("utf-8", "replace") for each in values]
        return pa.array(texts, pa.string())
    return array


_READ_AS: Final[tuple[tuple[Callable[[pa.DataType], bool], ValueKind, pa.DataType], ...]] = (
    (pa.types.is_boolean, ValueKind.BOOLEAN, pa.bool_()),
    (pa.types.is_uint64, ValueKind.INTEGER, pa.float64()),
    (pa.types.is_integer, ValueKind.INTEGER, pa.int64()),
    (pa.types.is_floating, ValueKind.NUMBER, pa.float64()),
    (pa.types.is_decimal, ValueKind.NUMBER, pa.float64()),
    (pa.types.is_date, ValueKind.DATE, pa.date32()),
    (pa.types.is_binary, ValueKind.BYTES, pa.binary()),
    (pa.types.is_large_binary, ValueKind.BYTES, pa.binary()),
    (pa.types.is_fixed_size_binary, ValueKind.BYTES, pa.binary()),
    (pa.types.is_binary_view, ValueKind.BYTES, pa.binary()),
)


_INTEGER: Final = r"^-?(0|[1-9][0-9]{0,17})$"
_NUMBER: Final = r"^-?(0|[1-9][0-9]{0,17})(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?$"
"""A number in the syntax of JSON. `007` and `+1` are not numbers, but text."""


def untyped_column(array: pa.Array) -> FieldColumn:
    """Return the column for the cells of a file without types; a null is an empty cell."""
    column = FieldColumn(len(array), untyped=True)
    if array.null_count:
        column.null = _mask(pc.is_null(array))
    column.scalars[ValueKind.STRING] = array
    integer = pc.match_substring_regex(array, _INTEGER)
    number = pc.match_substring_regex(array, _NUMBER)
    if pc.any(number).as_py():
        whole = pc.if_else(integer, array, pa.scalar(None, pa.string()))
        broken = pc.if_else(pc.and_not(number, integer), array, pa.scalar(None, pa.string()))
        if whole.null_count < len(array):
            column.scalars[ValueKind.INTEGER] = whole.cast(pa.int64())
        if broken.null_count < len(array):
            column.scalars[ValueKind.NUMBER] = broken.cast(pa.float64())
    truth = pc.is_in(array, value_set=pa.array(["true", "false"]))
    if pc.any(truth).as_py():
        column.scalars[ValueKind.BOOLEAN] = pc.if_else(
            truth, pc.equal(array, "true"), pa.scalar(None, pa.bool_())
        )
    return column


def _mask(array: pa.Array) -> Mask:
    found: Mask = array.to_numpy(zero_copy_only=False).astype(bool)
    return found
