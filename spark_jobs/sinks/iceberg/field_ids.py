"""Ids of the fields of an Iceberg table, as its data files have them: readers find a column by its id, not by its name."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def field_ids(node: dict[str, Any], prefix: str = "") -> dict[str, int]:
    """Return the id of each field of a struct of the table's schema, by its dotted name."""
    ids: dict[str, int] = {}
    for field in node["fields"]:
        name = prefix + field["name"]
        ids[name] = field["id"]
        kind = field["type"]
        if isinstance(kind, dict) and kind["type"] == "list":
            ids[name := f"{name}.element"] = kind["element-id"]
            kind = kind["element"]
        if isinstance(kind, dict) and kind["type"] == "struct":
            ids |= field_ids(kind, f"{name}.")
    return ids


def with_ids(field: pa.Field, identity: int, ids: dict[str, int], prefix: str = "") -> pa.Field:
    """Set the id in the table on a field of a data file: readers identify columns by id only."""
    name = prefix + field.name
    if pa.types.is_struct(field.type):
        members = [with_ids(member, ids[f"{name}.{member.name}"], ids, f"{name}.") for member in field.type]
        field = pa.field(field.name, pa.struct(members))
    elif pa.types.is_list(field.type):
        element = field.type.value_field.with_name("element")
        field = pa.field(field.name, pa.list_(with_ids(element, ids[f"{name}.element"], ids, f"{name}.")))
    return field.with_nullable(True).with_metadata({"PARQUET:field_id": str(identity)})
