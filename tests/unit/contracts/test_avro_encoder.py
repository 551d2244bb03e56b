"""JSON records in Avro's binary encoding: every type as people write it, and a place for each mistake."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pytest

from tidegate.contracts.formats.avro_encoder import AvroEncoder, place_of
from tidegate.contracts.formats.avro_leaves import NotEncodableError
from tidegate.contracts.formats.json_records import decode_exactly

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
FIXED_DECIMAL = {
    "type": "fixed",
    "name": "D",
    "size": 3,
    "logicalType": "decimal",
    "precision": 6,
    "scale": 2,
}
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def logical(kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, "logicalType": name}


def record_of(*fields: tuple[str, Any] | dict[str, Any]) -> dict[str, Any]:
    listed = [each if isinstance(each, dict) else {"name": each[0], "type": each[1]} for each in fields]
    return {"type": "record", "name": "shop.Order", "fields": listed}


def encode(schema: Any, text: str, *, is_avro_json: bool = False) -> Any:
    """Return what fastavro reads of a record that was encoded."""
    payload = AvroEncoder(schema, is_avro_json=is_avro_json).encode(decode_exactly(text.encode()))
    return fastavro.schemaless_reader(io.BytesIO(payload), fastavro.parse_schema(schema), None)


def value_of(kind: Any, text: str, *, is_avro_json: bool = False) -> Any:
    return encode(record_of(("v", kind)), f'{{"v": {text}}}', is_avro_json=is_avro_json)["v"]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "-2147483648", -(2**31)),
        ("long", "9223372036854775807", 2**63 - 1),
        ("long", "5.0", 5),
        ("double", "0.1", 0.1),
        ("double", "3", 3.0),
        ("float", '"Infinity"', float("inf")),
        ("string", '"é"', "é"),
        ("bytes", '"AP8="', b"\x00\xff"),
        ({"type": "fixed", "name": "F", "size": 2}, '"AP8="', b"\x00\xff"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, '"B"', "B"),
        ({"type": "array", "items": "int"}, "[]", []),
        ({"type": "map", "values": ["null", "int"]}, '{"a": 1, "b": null}', {"a": 1, "b": None}),
        (logical("int", "date"), '"2026-01-31"', date(2026, 1, 31)),
        (logical("int", "date"), "-1", date(1969, 12, 31)),
        (logical("int", "time-millis"), '"23:59:59.125"', time(23, 59, 59, 125_000)),
        (logical("long", "time-micros"), '"00:00"', time(0)),
        (logical("long", "timestamp-millis"), '"2026-01-31T14:00:00+02:00"', NOON),
        (logical("long", "timestamp-micros"), "1769860800000000", NOON),
        (logical("long", "local-timestamp-millis"), '"2026-01-31T12:00:00"', NOON.replace(tzinfo=None)),
        (logical("string", "uuid"), '"00000000-0000-0000-0000-000000000001"', UUID(int=1)),
        (DECIMAL, "12.5", Decimal("12.50")),
        (DECIMAL, '"-9999.99"', Decimal("-9999.99")),
        (DECIMAL, "1e3", Decimal("1000.00")),
        (FIXED_DECIMAL, "-0.01", Decimal("-0.01")),
        (DECIMAL, "1.280", Decimal("1.28")),
    ],
)  # fmt: skip
def test_a_value_is_what_was_written(kind: Any, text: str, value: Any) -> None:
    assert value_of(kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("bytes", r'"\u0000\u00ff"', b"\x00\xff"),
        (DECIMAL, r'"\u0004\u00e2"', Decimal("12.50")),
        (DECIMAL, '"12"', Decimal("125.94")),
        (DECIMAL, "12", Decimal("12.00")),
    ],
)
def test_bytes_in_avros_own_json_encoding_are_characters(kind: Any, text: str, value: Any) -> None:
    assert value_of(kind, text, is_avro_json=True) == value


INNER = {"type": "record", "name": "shop.Inner", "fields": [{"name": "a", "type": "int"}]}
OTHER = {"type": "record", "name": "shop.Other", "fields": [{"name": "string", "type": "string"}]}


@pytest.mark.parametrize(
    ("union", "text", "value"),
    [
        (["null", "string"], "null", None),
        (["null", "string"], '"a"', "a"),
        (["null", "string"], '{"string": "a"}', "a"),
        (["null", INNER], '{"a": 1}', {"a": 1}),
        (["null", INNER], '{"shop.Inner": {"a": 1}}', {"a": 1}),
        (["null", OTHER], '{"string": "x"}', {"string": "x"}),
        (["null", "string", OTHER], '{"string": "x"}', "x"),
        (["null", {"type": "map", "values": "int"}], '{"map": {"a": 1}}', {"a": 1}),
        (["null", {"type": "map", "values": "int"}], '{"map": 1}', {"map": 1}),
        ([INNER, {"type": "map", "values": "string"}], '{"a": 1, "b": 2}', None),
        (["bytes", "string"], '"AAAA"', "AAAA"),
        (["int", "long"], "3000000000", 3_000_000_000),
        (["long", "double"], "5.0", 5.0),
        (["null", logical("int", "date"), "string"], '"2026-01-31"', date(2026, 1, 31)),
        (["null", logical("int", "date"), "string"], '"never"', "never"),
    ],
)  # fmt: skip
def test_a_union_takes_the_branch_that_is_named_or_else_the_first_that_fits(
    union: Any, text: str, value: Any
) -> None:
    if value is None and text != "null":
        with pytest.raises(NotEncodableError, match="is a number, and the schema has string"):
            value_of(union, text)
        return
    found = value_of(union, text)
    assert (found, type(found)) == (value, type(value))


def test_missing_fields_take_their_default_or_null() -> None:
    schema = record_of(
        ("a", ["null", "int"]),
        {"name": "b", "type": "bytes", "default": "\u00ff"},
        {"name": "c", "type": ["int", "null"], "default": 7},
        {"name": "d", "type": INNER, "default": {"a": 3}},
    )
    assert encode(schema, "{}") == {"a": None, "b": b"\xff", "c": 7, "d": {"a": 3}}


@pytest.mark.parametrize(
    ("schema", "text", "place", "reason"),
    [
        (record_of(("a", "int")), "{}", "/a", "is missing, and has no default"),
        (record_of(("a", "int")), '{"a": "1"}', "/a", "is text, and the schema has int here"),
        (record_of(("a", "int")), '{"a": 1.5}', "/a", "is a number that is not whole or too large"),
        (record_of(("a", "int")), '{"a": 1e999999999}', "/a", "not whole or too large"),
        (record_of(("a", "int")), '{"a": 2147483648}', "/a", "outside the range of the type int"),
        (record_of(("a", "float")), '{"a": 1e39}', "/a", "outside the range of the type float"),
        (record_of(("a", "double")), '{"a": 1e400}', "/a", "outside the range of the type double"),
        (record_of(("a", "boolean")), '{"a": 1}', "/a", "is a number, and the schema has boolean"),
        (record_of(("a", "bytes")), r'{"a": "\u0000"}', "/a", "is text that is not Base64"),
        (record_of(("a", {"type": "array", "items": INNER})), '{"a": [{"a": 1}, {"a": null}]}', "/a/1/a", "is null"),
        (record_of(("a", {"type": "map", "values": "int"})), '{"a": {"x": ""}}', "/a/*", "is text"),
        (record_of(("a", ["null", INNER])), '{"a": {"a": "x"}}', "/a/a", "is text, and the schema has int"),
        (record_of(("a", ["null", INNER])), '{"a": {"b": 1}}', "/a/a", "is missing"),
        (record_of(("a", ["null", "int", INNER])), '{"a": true}', "/a", "the schema has union of null, int"),
        (record_of(("age", "int")), '{"age": 1, "aeg": 2}', "", "has a field `aeg`, .* did you mean `age`"),
        (record_of(("a", logical("int", "date"))), '{"a": "31.01.2026"}', "/a", "is text that is not a date such as"),
        (record_of(("a", logical("int", "date"))), '{"a": "2026-02-30"}', "/a", "is text that is not a date such as"),
        (record_of(("a", logical("int", "time-millis"))), '{"a": "23:59:59.1234"}', "/a", "a fraction of a second"),
        (record_of(("a", logical("int", "time-millis"))), '{"a": "24:00:00"}', "/a", "is text that is not a time of day"),
        (record_of(("a", logical("long", "timestamp-millis"))), '{"a": "2026-01-31T12:00:00"}', "/a", "with its offset"),
        (record_of(("a", logical("long", "local-timestamp-millis"))), '{"a": "2026-01-31T12:00:00Z"}', "/a", "is text that is not a local date-time"),
        (record_of(("a", logical("string", "uuid"))), '{"a": "x"}', "/a", "no UUID"),
        (record_of(("a", DECIMAL)), '{"a": 0.125}', "/a", "more decimal places than decimal"),
        (record_of(("a", DECIMAL)), '{"a": 10000}', "/a", "more digits than decimal"),
        (record_of(("a", DECIMAL)), '{"a": 1e999999999}', "/a", "more digits than decimal"),
        (record_of(("a", DECIMAL)), '{"a": 1e-999999999}', "/a", "more decimal places"),
        (record_of(("a", DECIMAL)), r'{"a": "\u0004\u00e2"}', "/a", "is text that is no number"),
        (record_of(("a", FIXED_DECIMAL)), '{"a": true}', "/a", "is true or false"),
        (record_of(("a", {"type": "fixed", "name": "F", "size": 2})), '{"a": "AAAA"}', "/a", "has 3 bytes"),
        (record_of(("a", {"type": "enum", "name": "E", "symbols": ["A"]})), '{"a": "a"}', "/a", "is not a symbol of the enum"),
        (record_of(("a", "int")), "[]", "", "is an array, and the schema has record `shop.Order`"),
    ],
)  # fmt: skip
def test_a_mistake_has_its_place_and_its_reason(schema: Any, text: str, place: str, reason: str) -> None:
    with pytest.raises(NotEncodableError, match=reason) as error:
        encode(schema, text)
    assert place_of(error.value) == place


def test_nested_unions_take_no_more_work_than_there_is_record() -> None:
    """A reader that tried every branch would take 2 ** 200 steps."""
    part = {"name": "next", "type": ["null", "shop.Order", "B"]}
    schema = record_of(
        ("next", ["null", "shop.Order", {"type": "record", "name": "B", "fields": [part, {"name": "x", "type": "int"}]}]),
        ("x", "string"),
    )  # fmt: skip
    record: Any = {"x": 1.5}
    for _ in range(60):
        record = {"next": record, "x": 1}
    with pytest.raises(NotEncodableError):
        encode(schema, json.dumps(record))
