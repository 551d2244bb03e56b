"""The columns of a table that several versions of a contract write together, one for each compatibility group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidegate.contracts.columns.typed import TypedColumn
from tidegate.contracts.document.fields import join
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.privacy.masks import Masks, masks_of


@dataclass(frozen=True, slots=True)
class GroupColumns:
    """The columns that one version writes."""

    contract: DataContract
    columns: tuple[TypedColumn, ...]


def united(parts: Sequence[GroupColumns]) -> tuple[TypedColumn, ...]:
    """Return the union of columns: those of the first part in their order, then those that later parts add.

    A column of several parts has the widest of its types. Names are compared without case.
    """
    found: dict[str, TypedColumn] = {}
    for part in parts:
        for column in part.columns:
            held = found.get(column.name.lower())
            if held is None or _is_wider(column.kind.arrow_type, held.kind.arrow_type):
                found[column.name.lower()] = column
    return tuple(found.values())


def widened(columns: pa.StructArray, union: pa.Schema) -> pa.StructArray:
    """Return the columns of one part cast to the schema of the union; columns that the part lacks are null."""
    if columns.type == pa.struct(list(union)):
        return columns
    arrays = dict(zip((field.name for field in columns.type), columns.flatten(), strict=True))
    wanted = [
        arrays[field.name].cast(field.type) if field.name in arrays else pa.nulls(len(columns), field.type)
        for field in union
    ]
    return pa.StructArray.from_arrays(wanted, fields=list(union), mask=columns.is_null())


def conflicts(parts: Sequence[GroupColumns]) -> Iterator[str]:
    """Yield one sentence for each reason why versions cannot write one table, naming both versions.

    Primary key, tombstones and the mask of the record key must be equal. Unframed versions cannot be mixed with framed
    ones. A column of two versions needs the same mask, so that no version shows values that another hides. Its type in
    one version must hold all values of the type in the other.
    """
    newest, *others = parts
    for other in others:
        yield from _settings(newest.contract, other.contract)
    seen: dict[str, tuple[TypedColumn, GroupColumns]] = {}
    for part in parts:
        for column in part.columns:
            held, first = seen.setdefault(column.name.lower(), (column, part))
            if held is column:
                continue
            yield from _types((held, first), (column, part))
            if _is_wider(column.kind.arrow_type, held.kind.arrow_type):
                seen[column.name.lower()] = column, part


def unfollowed(after: GroupColumns, *before: GroupColumns) -> Iterator[str]:
    """Yield one sentence for each column that the table of earlier versions cannot change to its type in `after`.

    `before` is the newest version first. A column that they dropped is still in the table, with its last type.
    """
    held: dict[str, tuple[TypedColumn, GroupColumns]] = {}
    for part in before:
        for column in part.columns:
            held.setdefault(column.name.lower(), (column, part))
    for column in after.columns:
        if column.name.lower() not in held:
            continue
        found, part = held[column.name.lower()]
        types = column.kind.arrow_type, found.kind.arrow_type
        if types[0] != types[1] and not _is_wider(*types):
            yield (
                f"column {column.name} was {found.type} in {part.contract.version} and is {column.type}, which does not "
                f"hold every {found.type}: a stream that writes it to a table stops at this version; give the field "
                "another name, or begin a new table with `tidegate archive STREAM`"
            )


def _types(one: tuple[TypedColumn, GroupColumns], other: tuple[TypedColumn, GroupColumns]) -> Iterator[str]:
    (held, first), (column, part) = one, other
    fields = [f"{at.contract.version} (field {join(each.path) or '/'})" for each, at in (one, other)]
    if held.name != column.name:
        yield (
            f"the columns {held.name} of {fields[0]} and {column.name} of {fields[1]} differ only in case, and would "
            "be one column of the table; write the name alike"
        )
        return
    types = held.kind.arrow_type, column.kind.arrow_type
    if types[0] != types[1] and not _is_wider(*types) and not _is_wider(types[1], types[0]):
        yield (
            f"column {column.name} is {held.type} in {fields[0]} and {column.type} in {fields[1]}, and both are written to "
            "one table; give the column another name in one of them, or a type that both hold"
        )
    kinds = held.value_type or "of several types", column.value_type or "of several types"
    if first.contract.tombstones == "delete" and column.name in part.contract.primary_key:
        is_told = held.kind.tells_types and column.kind.tells_types
        if is_told and kinds[0] != kinds[1]:
            yield (
                f"the key {column.name} is {kinds[0]} in {fields[0]} and {kinds[1]} in {fields[1]}, and a Kafka key that "
                "deletes a row does not say which; give the field one type in both"
            )
    masks = _mask(first.contract, held), _mask(part.contract, column)
    if masks[0] != masks[1]:
        yield (
            f"column {column.name} is {masks[0]} in {fields[0]} and {masks[1]} in {fields[1]}, and both are written to one "
            "table; give it the same mask in both"
        )


def _settings(one: DataContract, other: DataContract) -> Iterator[str]:
    listed: tuple[tuple[str, Any, Any], ...] = (
        ("primary_key", one.primary_key, other.primary_key),
        ("tombstones", one.tombstones, other.tombstones),
        ("key_mask", one.key_mask, other.key_mask),
        # An unframed value may begin with the same bytes as a framed one.
        *([("framing", one.framing, other.framing)] if "none" in {one.framing, other.framing} else ()),
    )
    for name, ours, theirs in listed:
        if ours != theirs:
            yield (
                f"{name} is {_shown(ours)} in {one.version} and {_shown(theirs)} in {other.version}, and both write one "
                "table; make it the same"
            )


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(value) or "empty"
    return "not set" if value is None else str(value)


def _mask(contract: DataContract, column: TypedColumn) -> str:
    masks: Masks = masks_of(contract)
    over = masks.over(column.path)
    if over is not None:
        return f"masked ({over[0].value})"
    return "masked within" if masks.is_below(column.path) else "not masked"


def _is_wider(wide: pa.DataType, narrow: pa.DataType) -> bool:
    """Return whether a type holds every value of another exactly, and tables can widen a column in place to it."""
    if pa.types.is_decimal(wide) and pa.types.is_decimal(narrow):
        return bool(wide.scale == narrow.scale and wide.precision > narrow.precision)
    return (wide, narrow) in {(pa.int64(), pa.int32()), (pa.float64(), pa.float32())}
