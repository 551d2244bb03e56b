"""Schema documents of Avro types: Avro schemas for fastavro, and JSON Schemas of the decoded records."""

from __future__ import annotations

from typing import Any, Final

from tidegate.contracts.document.fields import join
from tidegate.contracts.formats.avro_defaults import fits
from tidegate.contracts.formats.avro_types import (
    MAX_NESTING,
    Array,
    AvroTooDeepError,
    AvroType,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    RecordField,
    Union,
)


def schema_of(node: AvroType) -> Any:
    """Return a type as an Avro schema document, without logical types, documentation and invalid defaults.

    A named type is defined where it first occurs and referred to by name afterwards. Raises TooDeepError.
    """
    return _write(node, set(), 0)


def _write(node: AvroType, defined: set[int], depth: int) -> Any:  # noqa: PLR0911 - one for each type
    if depth > MAX_NESTING:
        raise AvroTooDeepError
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


_PRIMITIVES: Final[dict[str, dict[str, Any]]] = {
    "null": {"type": "null"},
    "boolean": {"type": "boolean"},
    "int": {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
    "long": {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
    "float": {},  # JSON has no infinities and no NaN
    "double": {},
    "bytes": {},
    "string": {"type": "string"},
}


def json_schema_of(root: AvroType) -> dict[str, Any]:
    """Return a JSON Schema (2020-12) that accepts every decoded record of an Avro type.

    Each record type is defined under `$defs`, so that a recursive type becomes a reference. Bytes have no JSON form and
    get a schema that accepts anything. Times are integers, and decimals are numbers.
    """
    definitions: dict[str, Any] = {}
    pending: list[Record] = []
    written = _json_schema(root, definitions, pending)
    while pending:
        record = pending.pop()
        definitions[record.name] = {
            "type": "object",
            "properties": {
                each.name: _json_schema(each.type, definitions, pending) for each in record.fields
            },
            "required": [each.name for each in record.fields],
        }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **written, "$defs": definitions}


def _json_schema(  # noqa: PLR0911 - one for each type
    node: AvroType, definitions: dict[str, Any], pending: list[Record]
) -> dict[str, Any]:
    match node:
        case Primitive():
            is_decimal = node.logical is not None and node.logical.name == "decimal"
            return {"type": "number"} if is_decimal else dict(_PRIMITIVES[node.kind])
        case Fixed():
            return {"type": "number"} if node.logical and node.logical.name == "decimal" else {}
        case Enum():
            return {"enum": list(node.symbols)}
        case Array():
            return {"type": "array", "items": _json_schema(node.items, definitions, pending)}
        case Map():
            return {"type": "object", "additionalProperties": _json_schema(node.values, definitions, pending)}
        case Union():
            return {"anyOf": [_json_schema(branch, definitions, pending) for branch in node.branches]}
        case Record():
            if node.name not in definitions:
                definitions[node.name] = True
                pending.append(node)
            return {"$ref": "#" + join(("$defs", node.name))}
