"""Types of the graph written as schema documents that stand by themselves, for a library to read data with."""

from __future__ import annotations

from typing import Any

from tidegate.contracts.formats.avro_defaults import fits
from tidegate.contracts.formats.avro_types import (
    MAX_NESTING,
    Array,
    AvroType,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    RecordField,
    TooDeepError,
    Union,
)


def schema_of(node: AvroType) -> Any:
    """Write a type as a schema, without logical types, documentation and defaults that are none.

    A named type is defined where it is met first and referred to afterwards. Raises TooDeepError.
    """
    return _write(node, set(), 0)


def _write(node: AvroType, defined: set[int], depth: int) -> Any:  # noqa: PLR0911 - one for each type
    if depth > MAX_NESTING:
        raise TooDeepError
    depth += 1
    match node:
        case Primitive():
            return node.kind
        case Array():
            return {"type": "array", "items": _write(node.items, defined, depth)}
        case Map():
            return {"type": "map", "values": _write(node.values, defined, depth)}
        case Union():
            return [_write(branch, defined, depth) for branch in node.branches]
    if id(node) in defined:
        return node.name
    defined.add(id(node))
    aliases = {"aliases": sorted(node.aliases)} if node.aliases else {}
    match node:
        case Fixed():
            return {"type": "fixed", "name": node.name, "size": node.size, **aliases}
        case Enum():
            default = {} if node.default is None else {"default": node.default}
            symbols = list(node.symbols)
            return {"type": "enum", "name": node.name, "symbols": symbols, **default, **aliases}
        case Record():
            fields = [_write_field(each, defined, depth) for each in node.fields]
            return {"type": "record", "name": node.name, "fields": fields, **aliases}


def _write_field(each: RecordField, defined: set[int], depth: int) -> dict[str, Any]:
    written: dict[str, Any] = {"name": each.name, "type": _write(each.type, defined, depth)}
    if each.aliases:
        written["aliases"] = list(each.aliases)
    if each.has_default and fits(each.default, each.type):
        written["default"] = each.default
    return written
