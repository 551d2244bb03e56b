"""Field ids of an Iceberg table in its data files: readers identify columns by id, not by name."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def field_ids(node: dict[str, Any], prefix: str = "") -> dict[str, int]:
    """Return the ids of all fields of a struct in the table's schema, nested ones included, by dotted name."""
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
    """Return a nullable field of a data file with its field id, and with the ids of nested fields from `ids`."""
    name = prefix + field.name
    if pa.types.is_struct(field.type):
        members = [with_ids(member, ids[f"{name}.{member.name}"], ids, f"{name}.") for member in field.type]
        field = pa.field(field.name, pa.struct(members))
    elif pa.types.is_list(field.type):
        element = field.type.value_field.with_name("element")
        field = pa.field(field.name, pa.list_(with_ids(element, ids[f"{name}.element"], ids, f"{name}.")))
    return field.with_nullable(True).with_metadata({"PARQUET:field_id": str(identity)})
