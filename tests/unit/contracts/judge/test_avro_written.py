"""What one Avro schema wrote, read as a contract with another has it. Bytes are written out by hand."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tidegate.contracts.document.model import AvroSchema
from tidegate.contracts.errors import ContractError
from tidegate.contracts.fastpath.avro import AvroFastPath
from tidegate.contracts.fastpath.avro_reader import compile_quick_reader
from tidegate.contracts.fastpath.rules import FastRules
from tidegate.contracts.formats.avro import AvroFormat
from tidegate.contracts.formats.framing import Framed
from tidegate.contracts.rules.compiled import CompiledRules
from tidegate.contracts.verdict import Stage, Violation


def read(writer: Any, reader: Any, payload: bytes) -> Any:
    """Read by both ways; they must agree."""
    written = AvroFormat(AvroSchema(type="avro", definition=reader)).written_with(json.dumps(writer))
    strict = written.record(payload)
    quick = compile_quick_reader(written.node)
    try:
        found = quick(payload)
    except Exception:  # noqa: BLE001 - a doubt, which only what is refused or rare may raise
        return strict
    assert (found, type(found)) == (strict, type(strict))
    return found


def long(number: int) -> bytes:
    left, written = 2 * number, bytearray()
    while left > 127:
        written.append(left & 127 | 128)
        left >>= 7
    return bytes([*written, left])


def said(found: Any) -> tuple[str, str]:
    assert type(found) is Violation
    assert found.stage is Stage.DECODE
    return found.code, found.pointer


def record(*fields: Any, name: str = "R", **others: Any) -> dict[str, Any]:
    shown = [
        each if isinstance(each, dict) else {"name": f"f{index}", "type": each}
        for index, each in enumerate(fields)
    ]
    return {"type": "record", "name": name, "fields": shown, **others}


def field(name: str, kind: Any, **others: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **others}


def enum(*symbols: str, name: str = "E", **others: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **others}


def logical(kind: str, name: str, **others: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **others}


def decimals(precision: int, scale: int) -> dict[str, Any]:
    return logical("bytes", "decimal", precision=precision, scale=scale)


DEEP = record(field("f0", record(field("deep", {"type": "array", "items": "boolean"}), name="I")))
TREE = record(field("v", "int"), field("next", ["null", "R"], default=None))
TREE_WITH_MORE = record(
    field("v", "long"), field("next", ["null", "R"], default=None), field("w", "int", default=7)
)


@pytest.mark.parametrize(
    ("writer", "reader", "payload", "expected"),
    [
        ("int", "long", b"\x02", 1),
        ("int", "float", b"\x82\x80\x80\x10", 2.0**24),  # 2^24 + 1 is no float
        ("long", "float", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", 2.0**63),
        ("int", "double", b"\x02", 1.0),
        ("long", "double", b"\x01", -1.0),
        ("float", "double", b"\x00\x00\x00\x3f", 0.5),
        ("string", "bytes", b"\x04\xc3\xa9", "é".encode()),
        ("bytes", "string", b"\x04\xc3\xa9", "é"),
        (["null", "int"], "long", b"\x02\x02", 1),
        ("int", ["null", "long"], b"\x02", 1),
        ("string", ["bytes", "string"], b"\x02a", "a"),  # its own type first
        (["int", "string"], ["string", "long"], b"\x00\x02", 1),
        (enum("A", "B"), enum("B", "C", default="C"), b"\x00", "C"),
        (enum("A", "B"), enum("B", "C", default="C"), b"\x02", "B"),
        (enum("A", name="Old"), enum("A", name="New", aliases=["Old"]), b"\x00", "A"),
        (record("int", name="a.R"), record("int", name="b.R"), b"\x02", {"f0": 1}),
        (record(field("a", "int"), field("b", "int")), record(field("b", "int"), field("a", "int")), b"\x02\x04", {"b": 2, "a": 1}),
        (record(field("a", "int"), field("b", "string")), record(field("a", "int")), b"\x02\x02x", {"a": 1}),
        (record(field("a", "int")), record(field("z", "int", aliases=["a"])), b"\x02", {"z": 1}),
        (record(), record(field("a", "int", default=5)), b"", {"a": 5}),
        (record(), record(field("a", "double", default=5)), b"", {"a": 5.0}),
        (record(), record(field("a", "float", default=99.9)), b"", {"a": 99.9000015258789}),
        (record(), record(field("a", "float", default=-1e39)), b"", {"a": float("-inf")}),
        (record(), record(field("a", "bytes", default="\u00ff")), b"", {"a": b"\xff"}),
        (record(), record(field("a", decimals(4, 2), default="\u0064")), b"", {"a": Decimal("1.00")}),
        (record(), record(field("a", ["int", "null"], default=None)), b"", {"a": None}),
        (record(), record(field("a", {"type": "array", "items": "float"}, default=[1])), b"", {"a": [1.0]}),
        (record(), record(field("a", {"type": "map", "values": "long"}, default={"x": 1})), b"", {"a": {"x": 1}}),
        (record(), record(field("a", record(field("b", "int"), field("c", "int", default=2), name="I"), default={"b": 1})), b"", {"a": {"b": 1, "c": 2}}),
        (TREE, TREE_WITH_MORE, b"\x02\x02\x04\x00", {"v": 1, "next": {"v": 2, "next": None, "w": 7}, "w": 7}),
        ({"type": "array", "items": "int"}, {"type": "array", "items": ["null", "double"]}, b"\x04\x02\x04\x00", [1.0, 2.0]),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "long"}, b"\x02\x02a\x02\x00", {"a": 1}),
        # Logical types: the meaning is the contract's, where the writer said nothing or the same.
        ("int", logical("int", "date"), b"\x01", -1),
        (logical("int", "date"), logical("int", "date"), b"\xff\xff\xff\xff\x0f", -(2**31)),
        (logical("long", "timestamp-nanos"), logical("long", "timestamp-nanos"), b"\xff" * 9 + b"\x01", -(2**63)),
        (logical("long", "local-timestamp-micros"), "long", b"\x01", -1),
        (decimals(4, 2), decimals(6, 2), b"\x04\xff\x9c", Decimal("-1.00")),
        (decimals(4, 2), decimals(4, 2), b"\x00", Decimal("0.00")),
        ({"type": "fixed", "name": "F", "size": 3, "logicalType": "decimal", "precision": 6, "scale": 1}, {"type": "fixed", "name": "F", "size": 3, "logicalType": "decimal", "precision": 6, "scale": 1}, b"\xff\xff\xff", Decimal("-0.1")),
        (logical("int", "time-millis"), logical("int", "time-millis"), long(86_399_999), 86_399_999),
        (logical("string", "uuid"), logical("string", "uuid"), b"\x48" + b"123e4567-e89b-12d3-A456-426614174000", "123e4567-e89b-12d3-A456-426614174000"),
        ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, bytes(16), bytes(16)),
        (logical("string", "uuid", size=1), "string", b"\x02x", "x"),
    ],
)  # fmt: skip
def test_is_read(writer: Any, reader: Any, payload: bytes, expected: Any) -> None:
    found = read(writer, reader, payload)
    assert (found, type(found)) == (expected, type(expected))
    if isinstance(found, dict):
        assert list(found) == list(expected)


@pytest.mark.parametrize(
    ("writer", "reader", "payload", "code", "pointer"),
    [
        ("long", "int", b"\x02", "avro.unreadable", ""),
        ("double", "float", bytes(8), "avro.unreadable", ""),
        ("string", "int", b"\x02", "avro.unreadable", ""),
        (["null", "string"], "string", b"\x00", "avro.unreadable", ""),
        ("string", ["null", "int"], b"\x02a", "avro.unreadable", ""),
        ("bytes", "string", b"\x02\xff", "avro.invalid-utf8", ""),
        ("string", "bytes", b"\x02\xff", "avro.invalid-utf8", ""),
        (enum("A", "B"), enum("B"), b"\x00", "avro.unreadable", ""),
        (enum("A", name="Old"), enum("A", name="New"), b"\x00", "avro.unreadable", ""),
        (record(name="Old"), record(name="New"), b"", "avro.unreadable", ""),
        ({"type": "array", "items": "string"}, {"type": "array", "items": "int"}, b"\x00", "avro.unreadable", ""),
        (record(), record(field("a", "int")), b"", "avro.unreadable", "/*"),
        ({"type": "fixed", "name": "F", "size": 1}, {"type": "fixed", "name": "F", "size": 2}, b"\0", "avro.unreadable", ""),
        (record(field("a", "int"), field("b", "string")), record(field("a", "int")), b"\x02\x02\xff", "avro.invalid-utf8", "/*"),
        (record(field("a", "int")), record(field("z", "int", aliases=["a"])), b"", "avro.truncated", "/z"),
        (DEEP, DEEP, b"\x04\x01\x07\x00", "avro.invalid", "/f0/deep/1"),
        ({"type": "map", "values": "boolean"}, {"type": "map", "values": "boolean"}, b"\x02\x02k\x07\x00", "avro.invalid", "/*"),
        (logical("long", "timestamp-millis"), logical("long", "timestamp-micros"), b"\x02", "avro.unreadable", ""),
        (logical("int", "date"), logical("long", "timestamp-micros"), b"\x02", "avro.unreadable", ""),
        (decimals(4, 2), decimals(6, 3), b"\x02\x01", "avro.unreadable", ""),
        (decimals(2, 0), decimals(2, 0), b"\x02\x64", "avro.decimal-precision", ""),
        (decimals(2, 0), decimals(2, 0), b"\x02\x9c", "avro.decimal-precision", ""),
        (decimals(9, 0), decimals(2, 0), b"\x02\x64", "avro.decimal-precision", ""),
        (decimals(2, 0), decimals(2, 0), b"\xa0\x9c\x01" + b"\x7f" * 10_000, "avro.decimal-precision", ""),
        (logical("int", "time-millis"), logical("int", "time-millis"), long(86_400_000), "avro.invalid-time", ""),
        (logical("long", "time-micros"), logical("long", "time-micros"), b"\x01", "avro.invalid-time", ""),
        (logical("string", "uuid"), logical("string", "uuid"), b"\x02x", "avro.invalid-uuid", ""),
        ("string", logical("string", "uuid"), b"\x48" + b"123e4567-e89b-12d3-a456-42661417400g", "avro.invalid-uuid", ""),
    ],
)  # fmt: skip
def test_is_refused(writer: Any, reader: Any, payload: bytes, code: str, pointer: str) -> None:
    assert said(read(writer, reader, payload)) == (code, pointer)


def test_a_place_that_lies_deep_is_named_by_the_beginning_of_its_way() -> None:
    chain = record(field("next", ["null", "R"]))
    found = read(chain, chain, b"\x02" * 40)
    assert said(found) == ("avro.truncated", "/next" * 16)


@pytest.mark.parametrize("text", ["", "{", '"nosuch"', '{"type":"record","name":"R"}', "[" * 10_000])
def test_what_is_no_schema_reads_nothing(text: str) -> None:
    written = AvroFormat(AvroSchema(type="avro", definition="int")).written_with(text)
    assert said(written.record(b"\x02")) == ("avro.unreadable", "")


def test_the_contracts_own_schema_is_resolved_with_nothing() -> None:
    union = ["float", "int"]
    assert read(union, union, b"\x02\x02") == 1
    assert type(read(union, union, b"\x02\x02")) is int


def test_a_default_is_not_shared_with_rules_that_look_at_it() -> None:
    reader = record(field("a", {"type": "array", "items": "int"}, default=[1]))
    assert read(record(), reader, b"") == read(record(), reader, b"") == {"a": [1]}


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        (decimals(1001, 0), "a decimal of more than 1000 digits is not judged"),
        (["null", "null"], "a union must not have two branches of one type"),
        (
            record({"name": "a", "type": "int"}, {"name": "a", "type": "int"}),
            "the record has two fields named a",
        ),
        ({"type": "fixed", "name": "F", "size": -1}, "the size of F must be a number from 0 on"),
        ({"type": "fixed", "name": "F", "size": True}, "the size of F must be a number from 0 on"),
    ],
)
def test_schemas_that_fastavro_lets_pass_are_refused(definition: Any, message: str) -> None:
    with pytest.raises(ContractError, match=message):
        AvroFormat(AvroSchema(type="avro", definition=definition))


def test_a_schema_that_is_nested_too_deep_is_refused() -> None:
    definition: Any = "int"
    for _ in range(2_000):
        definition = {"type": "array", "items": definition}
    with pytest.raises(ContractError, match="nested at most 150 levels deep"):
        AvroFormat(AvroSchema(type="avro", definition=definition))


MOST_BYTES = 64 * 1024


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        ("bytes", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01abc"),
        ("string", b"\xfe\xff\xff\xff\x0fabc"),
        ({"type": "array", "items": "long"}, b"\x80\xb4\x89\x13\x00"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"),
        ({"type": "array", "items": "null"}, b"\xd0\x0f" * 100),
        ({"type": "map", "values": "null"}, b"\x80\xb4\x89\x13\x00"),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, b"\x80\xb4\x89\x13\x00"),
        (decimals(1000, 0), b"\xfe\xff\xff\xff\x0fabc"),
        ({"type": "array", "items": "null"}, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x02\x00"),
    ],
)
def test_a_hostile_length_allocates_nothing(fits: Any, schema: Any, payload: bytes) -> None:
    payload_format = AvroFormat(AvroSchema(type="avro", definition=schema))
    values = pa.array([payload] * 100)
    fast = AvroFastPath(payload_format, FastRules(CompiledRules(()), payload_format.fields), ())
    for decode in (payload_format.decode, fast.decode):

        def refuse_all(decode: Any = decode) -> None:
            assert all(type(each) is Violation for each in decode(Framed(values)))

        refuse_all()  # what is made once is made
        assert fits(refuse_all, MOST_BYTES)


def test_names_that_are_none_are_refused() -> None:
    with pytest.raises(ContractError, match="the names of the fields of R must be strings"):
        AvroFormat(AvroSchema(type="avro", definition=record({"name": 7, "type": "int"})))


def test_a_logical_type_that_is_no_name_is_ignored(make_plan: Any) -> None:
    plan = make_plan(record(field("a", {"type": "int", "logicalType": {}})), kind="avro")
    assert plan.columns.names == ["a"]
