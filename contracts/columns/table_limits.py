"""Limits of a table on its rows beyond the column types: a primary key, and which texts it can hold."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.contracts.columns.typed import TypedColumn
from tidegate.contracts.document.fields import join
from tidegate.contracts.formats.column_values import json_text
from tidegate.contracts.rules.places import read
from tidegate.contracts.verdict import Severity, Stage, Violation


class Unfit(NamedTuple):
    """Rows that a table cannot hold for one reason; `is_row` marks them among the rows of a batch.

    `column` is the index of the column at fault. A column that is not part of the key may be written as null instead.
    """

    column: int
    is_row: npt.NDArray[np.bool_]
    violation: Violation
    is_of_key: bool


@dataclass(frozen=True, slots=True)
class TableLimits:
    """Limits of a table on its rows.

    `key` names the columns of the primary key by which rows are merged. They must not be null, and their text has at
    most `max_key_bytes`. With `deletes` a null value deletes the row of its key, which is read from the record's
    Kafka key. `holds_nul` says whether text may hold the character U+0000.
    """

    key: tuple[str, ...] = ()
    deletes: bool = False
    holds_nul: bool = True
    max_key_bytes: int | None = None

    def unfit(self, columns: Sequence[TypedColumn], arrays: Sequence[pa.Array]) -> Iterator[Unfit]:
        """Yield rows that the table cannot hold; `arrays` are the columns, null where a row is not written."""
        for index, (column, array) in enumerate(zip(columns, arrays, strict=True)):
            is_of_key = column.name in self.key
            if is_of_key and array.null_count:
                why = f"column {column.name} is null, and it tells the table's rows apart (primary_key)"
                yield Unfit(index, _flags(array.is_null()), _violation(column, why), is_of_key)
            if not self.holds_nul and pa.types.is_string(array.type):
                has_nul = _flags(pc.match_substring(array, "\0"))
                if has_nul.any():
                    why = f"column {column.name} cannot hold the character U+0000 (NUL)"
                    yield Unfit(index, has_nul, _violation(column, why), is_of_key)
        if self.max_key_bytes is not None:
            yield from self._long_keys(columns, arrays, self.max_key_bytes)

    def _long_keys(
        self, columns: Sequence[TypedColumn], arrays: Sequence[pa.Array], limit: int
    ) -> Iterator[Unfit]:
        sized = [
            index
            for index, column in enumerate(columns)
            if column.name in self.key
            and (pa.types.is_string(column.kind.arrow_type) or pa.types.is_binary(column.kind.arrow_type))
        ]
        if not sized:
            return
        lengths = (pc.fill_null(pc.binary_length(arrays[index]), 0).to_numpy() for index in sized)
        is_long = sum(lengths) > limit
        if is_long.any():
            why = f"the primary key has more than the {limit} bytes that the table's index can hold"
            yield Unfit(sized[0], is_long, _violation(columns[sized[0]], why), is_of_key=True)


NO_LIMITS: Final = TableLimits()


def with_keys(
    limits: TableLimits,
    columns: Sequence[TypedColumn],
    arrays: Sequence[pa.Array],
    values: pa.Array,
    keys: pa.Array,
) -> list[pa.Array]:
    """Return the arrays with the primary keys of tombstones filled in from their Kafka keys; null if unreadable."""
    filled = list(arrays)
    if not limits.deletes or not values.null_count:
        return filled
    is_deleted = values.is_null()
    positions = np.flatnonzero(_flags(is_deleted))
    wanted = [column for column in columns if column.name in limits.key]
    read = [read_key(keys[position].as_py(), wanted) for position in positions.tolist()]
    for index, column in enumerate(columns):
        if column.name in limits.key:
            found = pa.array([each.get(column.name) for each in read], column.kind.arrow_type)
            filled[index] = pc.replace_with_mask(filled[index], is_deleted, found)
    return filled


def read_key(key: bytes | None, columns: Sequence[TypedColumn]) -> dict[str, Any]:
    """Read the primary key from a Kafka key: a JSON object with a member for each column, or the single value itself.

    In a column that holds a number and a text differently, such as one of tokens, the type of the field decides. Return
    the values by column, as Arrow takes them; a column that the key does not hold is left out.
    """
    try:
        text = (key or b"").decode()
    except UnicodeDecodeError:
        return {}
    try:
        found = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        found = text
    if not isinstance(found, dict):
        if len(columns) != 1 or not text:
            return {}
        found = {columns[0].name: found if isinstance(found, str) else text}
    values = {column.name: _held(column, found.get(column.name)) for column in columns}
    return {name: value for name, value in values.items() if value is not None}


def write_key(record: Any, columns: Sequence[TypedColumn]) -> bytes | None:
    """Return the Kafka key from which `read_key` reads the primary key of a record; None if a part of it is null, or no JSON.

    A key of one column is its value as text, one of several columns a JSON object.
    """
    values = {column.name: read(record, column.path) for column in columns}
    if not values or any(value is None or isinstance(value, (list, dict)) for value in values.values()):
        return None
    values = {
        name: base64.b64encode(value).decode() if isinstance(value, bytes) else value
        for name, value in values.items()
    }
    written = json_text(values)
    if written is None:
        return None
    whole = written.encode()
    if len(columns) > 1:
        return whole
    (value,) = values.values()
    text = value.encode() if isinstance(value, str) else (json_text(value) or "").encode()
    # The text may read as something else, for example if it looks like an object. Then write an object.
    return text if read_key(text, columns) == read_key(whole, columns) else whole


def _held(column: TypedColumn, value: Any) -> Any:
    """Return the value that a column holds for a value of a key, converted directly or from its text; else None."""
    if value is None or isinstance(value, (list, dict)):
        return None
    text = value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    if column.kind.tells_types:
        typed = _typed(text, column.value_type) if column.value_type else value
        return None if typed is None else column.kind.convert(typed)
    held = column.kind.convert(value)
    if held is not None:
        return held
    try:
        return pa.scalar(text, pa.string()).cast(column.kind.arrow_type).as_py()
    except pa.ArrowException:
        return None


def _typed(text: str, value_type: str) -> Any:
    """Return the value of one of VALUE_TYPES that a text stands for; None if it stands for none."""
    match value_type:
        case "string":
            return text
        case "bytes":
            return text.encode()
        case "boolean":
            return {"true": True, "false": False}.get(text)
    try:
        found = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, int | Decimal) and not isinstance(found, bool) else None


def _flags(array: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(pc.fill_null(array, fill_value=False), bool)


def _violation(column: TypedColumn, message: str) -> Violation:
    return Violation(Stage.COLUMN, column.name, join(column.path), Severity.ERROR, message)
