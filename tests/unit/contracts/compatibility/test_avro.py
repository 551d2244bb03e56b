"""Avro schema resolution, and what the specification leaves out of it, case by case."""

from __future__ import annotations

import io
import json
from typing import Any

import avro.io
import avro.schema
import fastavro
import pytest

from tidegate.contracts.errors import ContractError
from tidegate.contracts.inclusion.answer import Inclusion, Outcome
from tidegate.contracts.inclusion.avro import CODES, includes, resolve

Schema = Any


def record(*fields: Any, name: str = "R", **more: Any) -> Schema:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": n, "type": t, **dict(*rest)} for n, t, *rest in fields],
        **more,
    }


def enum(*symbols: str, name: str = "E", **more: Any) -> Schema:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def logical(kind: str, name: str, **more: Any) -> Schema:
    return {"type": kind, "logicalType": name, **more}


def decimal(precision: int, scale: int) -> Schema:
    return logical("bytes", "decimal", precision=precision, scale=scale)


LIST = record(("value", "int"), ("next", ["null", "R"]))

READABLE = [
    ("the same", "int", "int"),
    ("int to long", "int", "long"),
    ("int to double", "int", "double"),
    ("long to float", "long", "float"),
    ("float to double", "float", "double"),
    ("string to bytes", "string", "bytes"),
    ("a plain type written as an object", {"type": "int"}, "int"),
    ("fields in another order", record(("a", "int"), ("b", "int")), record(("b", "int"), ("a", "int"))),
    ("a field that is not read", record(("a", "int"), ("b", "int")), record(("a", "int"))),
    ("a field with a default", record(("a", "int")), record(("a", "int"), ("b", "int", {"default": 7}))),
    ("a field under its alias", record(("a", "int")), record(("b", "int", {"aliases": ["a"]}))),
    ("a symbol more", enum("A"), enum("A", "B")),
    ("symbols in another order", enum("A", "B"), enum("B", "A")),
    ("a symbol read as the default", enum("A", "B"), enum("A", default="A")),
    ("null added", "int", ["null", "int"]),
    ("a branch added", ["null", "int"], ["null", "int", "string"]),
    ("branches in another order", ["null", "int"], ["int", "null"]),
    ("a branch promoted", ["null", "int"], ["null", "long"]),
    ("a union of one", ["int"], "long"),
    ("another namespace", record(("a", "int"), namespace="x"), record(("a", "int"), namespace="y")),
    ("an alias", record(("a", "int")), record(("a", "int"), name="S", aliases=["R"])),
    ("an alias in a namespace", record(("a", "int"), namespace="x"), record(("a", "int"), name="y.S", aliases=["x.R"])),
    ("a recursive record", LIST, record(("value", "long"), ("next", ["null", "R"]))),
    ("documentation", {**LIST, "doc": "old"}, {**LIST, "doc": "new"}),
    ("more digits", decimal(4, 2), decimal(6, 2)),
    ("a uuid as its text", logical("string", "uuid"), "string"),
    ("a logical type that nobody knows", "int", logical("int", "furlongs")),
    ("a logical type where it does not hold", "string", logical("string", "date")),
    ("a map of arrays", {"type": "map", "values": {"type": "array", "items": "int"}}, {"type": "map", "values": {"type": "array", "items": "long"}}),
]  # fmt: skip


@pytest.mark.parametrize(("writer", "reader"), [case[1:] for case in READABLE], ids=[c[0] for c in READABLE])
def test_what_the_specification_resolves_is_proven(writer: Schema, reader: Schema) -> None:
    inclusion = includes(writer, reader)
    assert (inclusion.outcome, inclusion.differences) == (Outcome.PROVEN, ())


REFUSED = [
    ("a type", "long", "int", "avro.type-changed", "0"),
    ("another kind", "string", {"type": "array", "items": "string"}, "avro.type-changed", '""'),
    ("an enum for a string", enum("A"), "string", "avro.type-changed", '"A"'),
    ("a name", record(("a", "int")), record(("a", "int"), name="S"), "avro.name-changed", '{"a": 0}'),
    ("a size", {"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "F", "size": 3}, "avro.fixed-size-changed", '"\x00\x00"'),
    ("a symbol", enum("A", "B"), enum("A"), "avro.enum-symbol-removed", '"B"'),
    ("null", ["null", "int"], "int", "avro.union-branch-removed", "null"),
    ("a branch", ["null", "int", "string"], ["null", "long"], "avro.union-branch-removed", '{"string": ""}'),
    ("a field without default", record(("a", "int")), record(("a", "int"), ("b", "int")), "avro.field-without-default", '{"a": 0}'),
    ("two fields for one", record(("a", "int"), ("b", "int")), record(("a", "int", {"aliases": ["b"]})), "avro.alias-ambiguous", '{"a": 0, "b": 0}'),
    ("bytes as text", "bytes", "string", "avro.bytes-not-text", '"ÿ"'),
    ("bytes as text first", ["null", "bytes"], ["null", "string", "bytes"], "avro.bytes-not-text", '{"bytes": "ÿ"}'),
    ("days as numbers", logical("int", "date"), "int", "avro.logical-type-removed", "1"),
    ("numbers as days", "int", logical("int", "date"), "avro.logical-type-added", "1"),
    ("text as a uuid", "string", logical("string", "uuid"), "avro.logical-type-added", '""'),
    ("a time zone", logical("long", "timestamp-millis"), logical("long", "local-timestamp-millis"), "avro.logical-type-changed", "1"),
    ("a unit", logical("long", "timestamp-millis"), logical("long", "timestamp-micros"), "avro.time-unit-changed", "1"),
    ("a unit, promoted", logical("int", "time-millis"), logical("long", "time-micros"), "avro.time-unit-changed", "1"),
    ("a scale", decimal(6, 2), decimal(6, 3), "avro.scale-changed", '"\x01"'),
    ("digits", decimal(6, 2), decimal(4, 2), "avro.precision-lowered", '"\'\x10"'),
    ("in an array", {"type": "array", "items": enum("A", "B")}, {"type": "array", "items": enum("A")}, "avro.enum-symbol-removed", '["B"]'),
    ("in a map", {"type": "map", "values": "int"}, {"type": "map", "values": "string"}, "avro.type-changed", '{"": 0}'),
    ("behind recursion", LIST, record(("value", "string"), ("next", ["null", "R"])), "avro.type-changed", '{"value": 0, "next": null}'),
]  # fmt: skip


@pytest.mark.parametrize(
    ("writer", "reader", "code", "text"), [case[1:] for case in REFUSED], ids=[c[0] for c in REFUSED]
)
def test_what_is_lost_is_refuted_with_its_smallest_datum(
    writer: Schema, reader: Schema, code: str, text: str
) -> None:
    inclusion = includes(writer, reader)
    assert inclusion.outcome is Outcome.REFUTED
    (difference,) = inclusion.differences
    shown = difference.counterexample
    assert shown is not None
    assert (code, text.replace("\x00", "\\u0000").replace("\x01", "\\u0001").replace("\x10", "\\u0010")) == (
        difference.code,
        shown.text,
    )
    assert shown.encoded is not None
    fastavro.schemaless_reader(io.BytesIO(shown.encoded), writer)  # type: ignore[call-arg] # the reader schema is optional


def test_a_witness_of_failure_cannot_be_read_by_fastavro() -> None:
    for _, writer, reader, code, _ in REFUSED:
        if "logical" in code or code in {
            "avro.time-unit-changed",
            "avro.scale-changed",
            "avro.precision-lowered",
        }:
            continue
        (difference,) = includes(writer, reader).differences
        assert difference.counterexample is not None
        with pytest.raises((ValueError, KeyError, fastavro.read.SchemaResolutionError)):
            fastavro.schemaless_reader(io.BytesIO(difference.counterexample.encoded or b""), writer, reader)


def test_a_changed_unit_says_what_the_value_meant_and_means() -> None:
    writer, reader = logical("long", "timestamp-millis"), logical("long", "timestamp-micros")
    (difference,) = includes(record(("at", writer)), record(("at", reader))).differences
    assert difference.sentence == (
        "`/at`: timestamp-millis is read as timestamp-micros: 1970-01-01T00:00:00.001Z becomes "
        "1970-01-01T00:00:00.000001Z"
    )


def test_differences_have_their_places_in_both_schemas_and_in_the_record() -> None:
    address = record(("zip", "string"), ("kind", enum("A", "B")), name="Address")
    narrower = record(("kind", enum("A")), ("zip", "string"), name="Address")
    writer = record(("id", "long"), ("addresses", {"type": "array", "items": ["null", address]}))
    reader = record(("addresses", {"type": "array", "items": ["null", narrower]}), ("id", "long"))
    (difference,) = includes(writer, reader).differences
    assert difference.field == "/addresses/*/kind"
    assert difference.old_pointer == "/fields/1/type/items/1/fields/1/type/symbols"
    assert difference.new_pointer == "/fields/0/type/items/1/fields/0/type/symbols"
    assert difference.counterexample is not None
    assert difference.counterexample.text == '{"id": 0, "addresses": [{"Address": {"zip": "", "kind": "B"}}]}'


def test_every_difference_of_a_record_is_reported_with_its_own_witness() -> None:
    writer = record(("a", enum("A", "B")), ("b", enum("C", "D", name="F")))
    reader = record(("a", enum("A")), ("b", enum("C", name="F")))
    differences = includes(writer, reader).differences
    texts = [each.counterexample.text for each in differences if each.counterexample]
    assert texts == ['{"a": "B", "b": "C"}', '{"a": "A", "b": "D"}']


def test_harmless_changes_are_remarks() -> None:
    writer = record(
        ("a", "long"), ("b", "int", {"default": 1}), ("gone", "int"), ("e", enum("A", "B", default="B"))
    )
    reader = record(
        ("a", "double"),
        ("b", "int", {"default": 2}),
        ("new", "int", {"default": 3}),
        ("e", enum("A", default="A")),
    )
    resolution = resolve(writer, reader)
    assert resolution.inclusion.outcome is Outcome.PROVEN
    assert {each.outcome for each in resolution.remarks} == {Outcome.PROVEN}
    assert sorted(each.code for each in resolution.remarks) == [
        "avro.default-changed",
        "avro.enum-default-changed",
        "avro.enum-symbol-defaulted",
        "avro.field-added",
        "avro.field-removed",
        "avro.promotion-rounds",
    ]


@pytest.mark.parametrize("kind", ["timestamp", "local-timestamp"])
@pytest.mark.parametrize("unit", ["millis", "micros"])
def test_a_long_can_be_read_as_a_timestamp_on_it(kind: str, unit: str) -> None:
    resolution = resolve(record(("at", "long")), record(("at", logical("long", f"{kind}-{unit}"))))
    assert resolution.inclusion == Inclusion(Outcome.PROVEN)
    (remark,) = resolution.remarks
    assert (remark.code, remark.field) == ("avro.logical-type-added", "/at")
    assert remark.sentence == f"`/at`: a plain value is read as {kind}-{unit}"


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        ("long", logical("long", "time-micros")),  # a day has an end
        ("int", logical("long", "timestamp-millis")),
        ("bytes", decimal(4, 2)),
        (logical("long", "timestamp-millis"), "long"),
    ],
)
def test_other_logical_types_are_not_read_from_plain_values(writer: Schema, reader: Schema) -> None:
    assert includes(writer, reader).outcome is Outcome.REFUTED


def test_what_only_some_readers_take_is_undetermined() -> None:
    one, other = record(("a", "int"), namespace="x"), record(("a", "int"), namespace="y")
    narrowed = record(("a", "string"), namespace="y")
    inclusion = includes([other], [one, narrowed])  # the specification takes x.R, Apache's library y.R
    assert inclusion.outcome is Outcome.UNDETERMINED
    assert [each.code for each in inclusion.differences] == [
        "avro.union-branch-ambiguous",
        "avro.type-changed",
    ]
    assert [each.counterexample for each in inclusion.differences] == [None, None]


AMBIGUOUS = [
    ("text", "string", ["bytes", "string"]),
    ("text of a union", ["null", "string"], ["null", "bytes", "string"]),
    ("text beside bytes", ["bytes", "string"], ["null", "bytes", "string"]),
    ("text of an unchanged union", record(("a", ["bytes", "string"])), record(("a", ["bytes", "string"]), ("b", "int", {"default": 1}))),
    ("text with a logical type", logical("string", "uuid"), ["bytes", logical("string", "uuid")]),
    ("records of two namespaces", record(("a", "int"), name="y.R"), [record(("a", "int"), name="x.R"), record(("a", "int"), name="y.R")]),
    ("enums by an alias", enum("A", name="E"), [enum("A", name="F", aliases=["E"]), enum("A", name="E")]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("writer", "reader"), [case[1:] for case in AMBIGUOUS], ids=[c[0] for c in AMBIGUOUS]
)
def test_what_readers_take_by_different_branches_is_undetermined(writer: Schema, reader: Schema) -> None:
    """The specification takes the first branch that matches, Apache's libraries the one of the same type and name."""
    inclusion = includes(writer, reader)
    assert inclusion.outcome is Outcome.UNDETERMINED
    assert [each.code for each in inclusion.differences] == ["avro.union-branch-ambiguous"]


@pytest.mark.parametrize(("writer", "reader"), [("int", ["long", "int"]), ("float", ["double", "float"])])
def test_a_number_is_the_same_in_whichever_branch_readers_take(writer: Schema, reader: Schema) -> None:
    assert includes(writer, reader) == Inclusion(Outcome.PROVEN)
    assert both_readings(writer, reader, 1) == (1, 1)


def test_fastavro_and_apache_read_other_values_where_the_branch_is_ambiguous() -> None:
    assert both_readings("string", ["bytes", "string"], "a") == (b"a", "a")


def both_readings(writer: Schema, reader: Schema, value: Any) -> tuple[Any, Any]:
    """Read a value by fastavro, and by Apache's library."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, writer, value)
    parsed = [avro.schema.parse(json.dumps(schema)) for schema in (writer, reader)]
    by_apache = avro.io.DatumReader(*parsed).read(avro.io.BinaryDecoder(io.BytesIO(stream.getvalue())))
    return fastavro.schemaless_reader(io.BytesIO(stream.getvalue()), writer, reader), by_apache


def test_a_default_that_is_no_value_of_its_type_is_undetermined() -> None:
    reader = record(("a", "int"), ("e", enum("A"), {"default": "B"}))
    (difference,) = includes(record(("a", "int")), reader).differences
    assert (difference.code, difference.outcome) == ("avro.default-invalid", Outcome.UNDETERMINED)


def logical(kind: Any, name: str, **more: Any) -> dict[str, Any]:
    return {**(kind if isinstance(kind, dict) else {"type": kind}), "logicalType": name, **more}


@pytest.mark.parametrize(
    ("kind", "default", "is_valid"),
    [
        (logical("bytes", "decimal", precision=2, scale=0), "ÿÿ\u0010", False),
        (logical("bytes", "decimal", precision=2, scale=0), "ÿ\u009d", True),  # -99
        (logical("bytes", "decimal", precision=2, scale=0), "\u0064", False),  # 100
        (logical("string", "uuid"), "x", False),
        (logical("string", "uuid"), "00000000-0000-0000-0000-000000000000", True),
        (logical("int", "time-millis"), -5, False),
        (logical("int", "time-millis"), 86_400_000, False),
        (logical("long", "time-micros"), 86_400_000, True),
        (["null", logical("string", "uuid")], "x", False),
    ],
)
def test_a_default_is_a_value_of_its_logical_type(kind: Any, default: Any, is_valid: bool) -> None:
    writer, reader = record(("b", "int")), record(("b", "int"), ("a", kind, {"default": default}))
    assert [each.code for each in includes(writer, reader).differences] == (
        [] if is_valid else ["avro.default-invalid"]
    )


def test_a_record_without_finite_data_has_no_witness() -> None:
    endless = record(("next", "R"), ("a", "int"))
    (difference,) = includes(endless, record(("next", "R"), ("a", "string"))).differences
    assert (difference.outcome, difference.counterexample) == (Outcome.UNDETERMINED, None)


def test_schemas_of_any_depth_end_without_a_recursion_error() -> None:
    deep: Any = "int"
    for _ in range(5_000):
        deep = {"type": "array", "items": deep}
    chain = [record(("a", "int"), name="R0")]
    chain += [record(("a", f"R{index - 1}"), name=f"R{index}") for index in range(1, 1_000)]
    changed = [record(("a", "string"), name="R0"), *chain[1:]]
    assert includes(deep, "int").outcome is Outcome.UNDETERMINED
    assert includes([*chain], [*changed]).outcome is not Outcome.PROVEN


def test_a_type_used_by_many_fields_costs_once() -> None:
    leaf = record(("a", "int"), name="N0")
    schemas = []
    for wanted in ("int", "string"):
        node = {**leaf, "fields": [{"name": "a", "type": wanted}]}
        for index in range(1, 40):  # 2^39 paths
            node = record(("a", node), ("b", f"N{index - 1}"), name=f"N{index}")
        schemas.append(node)
    inclusion = includes(*schemas)
    assert inclusion.outcome is Outcome.UNDETERMINED  # the smallest datum is far too large to be written
    assert [each.code for each in inclusion.differences] == ["avro.type-changed"]


def test_what_is_no_schema_is_an_error_of_its_author() -> None:
    for wrong in ({"type": "record"}, "intt", {"type": "enum", "name": "E"}, 7, {"items": "int"}):
        with pytest.raises(ContractError, match="not an Avro schema"):
            includes(wrong, "int")


def test_every_code_of_the_table_is_given_by_some_case() -> None:
    given = {code for _, _, _, code, _ in REFUSED}
    given |= {"avro.union-branch-ambiguous", "avro.default-invalid", "avro.too-large", "avro.field-renamed"}
    given |= {each.code for case in READABLE for each in resolve(*case[1:]).remarks}
    given |= {
        each.code for each in resolve(record(("a", "int", {"default": 1})), record(("a", "int"))).remarks
    }
    given |= {each.code for each in resolve(enum("A", default="A"), enum("A")).remarks}
    assert given == set(CODES)
