"""An Avro schema as a JSON Schema of its decoded records, wide enough for all of them.

Bytes have no form in JSON and stand as anything. Times are the integers that they are, decimals numbers.
"""

from __future__ import annotations

from typing import Any, Final

from tidegate.contracts.document.fields import join
from tidegate.contracts.formats.avro_types import Array, AvroType, Enum, Fixed, Map, Primitive, Record, Union

_PRIMITIVES: Final[dict[str, dict[str, Any]]] = {
    "null": {"type": "null"},
    "boolean": {"type": "boolean"},
    "int": {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
    "long": {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
    "float": {},  # infinities and NaN are no JSON
    "double": {},
    "bytes": {},
    "string": {"type": "string"},
}


def json_schema_of(root: AvroType) -> dict[str, Any]:
    """Write the JSON Schema (2020-12); every record is under `$defs`, so that recursion is a reference."""
    definitions: dict[str, Any] = {}
    pending: list[Record] = []
    written = _write(root, definitions, pending)
    while pending:
        record = pending.pop()
        definitions[record.name] = {
            "type": "object",
            "properties": {each.name: _write(each.type, definitions, pending) for each in record.fields},
            "required": [each.name for each in record.fields],
        }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **written, "$defs": definitions}


def _write(  # noqa: PLR0911 - one for each type
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
            return {"type": "array", "items": _write(node.items, definitions, pending)}
        case Map():
            return {"type": "object", "additionalProperties": _write(node.values, definitions, pending)}
        case Union():
            return {"anyOf": [_write(branch, definitions, pending) for branch in node.branches]}
        case Record():
            if node.name not in definitions:
                definitions[node.name] = True
                pending.append(node)
            return {"$ref": "#" + join(("$defs", node.name))}
