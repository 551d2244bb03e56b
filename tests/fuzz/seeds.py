"""Seeds of the fuzzer: contracts and records of every format, framing and rule kind, and inputs that once failed."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import fastavro

from tidegate.contracts.document.load import load_contract
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.formats.writers import WriterSchema, WriterSchemas

_EXAMPLES: Final = Path(__file__).parents[2] / "schemas" / "examples"


def _contract(kind: str, definition: Any, **others: Any) -> DataContract:
    return DataContract.model_validate(
        {
            "apiVersion": "tidegate/v1",
            "kind": "DataContract",
            "id": "fuzz",
            "version": "1.0.0",
            "topic": "fuzz",
            "schema": {"type": kind, "definition": definition},
            **others,
        }
    )


_LOOSE: Final = {
    "type": ["object", "array", "string", "number", "null"],
    "properties": {
        "n": {"type": "number", "multipleOf": 0.01, "maximum": 1e300},
        "s": {"type": "string", "pattern": "^(a+)+$", "maxLength": 1_000},
        "look": {"type": "string", "pattern": "^(?=a)(a|aa)+$"},
        "d": {"type": "string", "format": "date"},
        "t": {"type": "string", "format": "date-time"},
        "u": {"uniqueItems": True},
        "any": True,
        "again": {"$ref": "#"},
    },
    "patternProperties": {"^x": {"enum": [1, "é", None, [1, 2], {"a": 1}]}},
    "items": {"anyOf": [{"$ref": "#"}, {"const": 1.0}]},
    "dependentRequired": {"n": ["s"]},
    "propertyNames": {"maxLength": 50},
}
_RULES: Final = [
    {"id": "a", "kind": "forbidden", "field": "/n", "values": [999, 0.1]},
    {"id": "b", "kind": "range", "field": "/d", "after": "1900-01-01"},
    {"id": "c", "kind": "matches", "field": "/s", "pattern": "^(a|a)*b$"},
    {"id": "d", "kind": "required_when", "field": "/s", "when": {"field": "/n", "present": True}},
    {"id": "e", "kind": "cel", "expr": "size(this.any) < 10 || this.n > 1.5"},
]

_TREE: Final = {
    "type": "record",
    "name": "Tree",
    "fields": [
        {"name": "size", "type": "long"},
        {"name": "label", "type": ["null", "string", {"type": "enum", "name": "E", "symbols": ["A", "B"]}]},
        {"name": "children", "type": {"type": "array", "items": "Tree"}, "default": []},
        {"name": "more", "type": {"type": "map", "values": ["null", "double", "bytes"]}, "default": {}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "key", "type": {"type": "fixed", "name": "F", "size": 3}},
        {"name": "nothing", "type": {"type": "array", "items": "null"}, "default": []},
        {"name": "ratio", "type": "float"},
        {"name": "is", "type": "boolean"},
    ],
}
_DATUM: Final = {
    "size": 300,
    "label": "x",
    "children": [],
    "more": {"k": 1.5, "n": None, "b": b"\xff"},
    "day": date(2024, 1, 1),
    "at": datetime(2024, 1, 1, tzinfo=UTC),
    "clock": datetime(2024, 1, 1, 12, tzinfo=UTC).time(),
    "price": Decimal("12.34"),
    "key": b"abc",
    "nothing": [None, None],
    "ratio": 0.5,
    "is": True,
}
_OLD: Final = {**_TREE, "fields": [field for field in _TREE["fields"] if field["name"] != "nothing"][::-1]}  # type: ignore[union-attr, index] # of this table


def _encoded(schema: Any, datum: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema), datum)
    return file.getvalue()


WRITERS: Final = WriterSchemas(
    (
        WriterSchema(1, UUID(int=1), "avro", json.dumps(_TREE)),
        WriterSchema(2, UUID(int=2), "avro", json.dumps(_OLD)),
        WriterSchema(3, UUID(int=3), "json-schema", "true"),
    ),
    is_current=True,
)
_NESTED: Final = _encoded(_TREE, {**_DATUM, "children": [_DATUM, {**_DATUM, "children": [_DATUM]}]})
_AVRO_RULES: Final = [
    {"id": "a", "kind": "range", "field": "/day", "after": "1900-01-01"},
    {"id": "b", "kind": "forbidden", "field": "/size", "values": [999]},
]

CONTRACTS: Final[dict[str, DataContract]] = {
    "admissions": load_contract(_EXAMPLES / "admissions" / "contract.yaml").contract,
    "loose": _contract("json-schema", _LOOSE, rules=_RULES, columns=[{"name": "any", "from": "/any", "type": "json"}]),
    "auto": _contract("json-schema", True, framing="auto"),
    "avro": _contract("avro", _TREE, rules=_AVRO_RULES),
    "written": _contract("avro", _TREE, rules=_AVRO_RULES, framing="confluent-prefix"),
    "chain": _contract("avro", {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}),
}  # fmt: skip

RECORDS: Final[dict[str, list[bytes]]] = {
    "admissions": [file.read_bytes() for file in sorted((_EXAMPLES / "admissions").glob("*.json")) if "schema" not in file.name],
    "loose": [
        b'{"n":1.25,"s":"aaaa","d":"2024-02-29","t":"2024-01-01T00:00:00Z","any":[{"a":1e5}],"x":null,"again":{"n":1}}',
        b'{"s":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!","look":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"}',
        b'{"n":1e400,"u":[1,1.0,"1",[1],{"a":1},{"a":1.0}]}',
        b'[18446744073709551616,0.30000000000000001,-0,1e-999999999,"\\ud83d\\ude00","\\ud800"]',
        b'{"n":0.30000000000000001,"any":1e999999999}',
        b'{"n":' + b"7" * 5_000 + b',"u":[' + b"7" * 5_000 + b',1],"xa":' + b"7" * 5_000 + b',"s":1}',
        b"[" * 300 + b"]" * 300,
    ],
    "auto": [b"\0\0\0\0\x03{}", b"{}", b"\0\0\0\0\x01true", b'"text"'],
    "avro": [_encoded(_TREE, _DATUM), _NESTED],
    "written": [b"\0\0\0\0\x01" + _NESTED, b"\0\0\0\0\x02" + _encoded(_OLD, _DATUM), b"\0\0\0\0\x03{}", b"\0"],
    "chain": [b"\x02" * 100 + b"\x00", b"\x02" * 100_000],
}  # fmt: skip

DOCUMENTS: Final = [
    (_EXAMPLES / "admissions" / "contract.yaml").read_bytes(),
    *(contract.model_dump_json(by_alias=True, exclude_defaults=True).encode() for contract in CONTRACTS.values()),
]  # fmt: skip
