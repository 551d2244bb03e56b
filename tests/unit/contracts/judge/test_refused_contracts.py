"""Contracts that do not compile: the places and the messages."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.contracts.errors import ContractError

SCHEMA = {
    "type": "object",
    "properties": {
        "age": {"type": "integer"},
        "charge": {"type": "number"},
        "ward": {"type": "string"},
        "is_urgent": {"type": "boolean"},
        "admission_date": {"type": "string", "format": "date"},
        "discharge_date": {"type": "string", "format": "date"},
        "discharged_at": {"type": "string", "format": "date-time"},
        "address": {"$ref": "#/$defs/address"},
        "codes": {"type": "array", "items": {"type": "string"}},
        "extras": {"type": "object"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "$defs": {"address": {"type": "object", "properties": {"postcode": {"type": "string"}}}},
}
DATE = "a date, such as 1900-01-01"
INSTANT = "a date-time with its offset, such as 1900-01-01T00:00:00Z"


def problems(make_plan: Any, schema: Any, *rules: Any, **others: Any) -> list[tuple[str, str]]:
    with pytest.raises(ContractError) as caught:
        make_plan(schema, *rules, **others)
    return [(problem.pointer, problem.message) for problem in caught.value.problems]


def no_field(pointer: str, near: str | None) -> str:
    return f"the schema declares no field `{pointer}`" + (f"; did you mean `{near}`?" if near else "")


@pytest.mark.parametrize(
    ("rule", "place", "message"),
    [
        ({"kind": "forbidden", "field": "/agee", "values": [1]}, "/field", no_field("/agee", "/age")),
        (
            {"kind": "range", "field": "/dischargedate", "after": "1900-01-01"},
            "/field",
            no_field("/dischargedate", "/discharge_date"),
        ),
        ({"kind": "matches", "field": "/postcode", "pattern": "x"}, "/field", no_field("/postcode", "/address/postcode")),
        ({"kind": "matches", "field": "/extras/x", "pattern": "x"}, "/field", no_field("/extras/x", "/extras")),
        ({"kind": "ordered", "fields": ["/age", "/zzz"]}, "/fields/1", no_field("/zzz", None)),
        (
            {"kind": "required_when", "field": "/ward", "when": {"field": "/urgent", "equals": True}},
            "/when/field",
            no_field("/urgent", "/is_urgent"),
        ),
        ({"kind": "cel", "expr": "this.wart == 'icu'"}, "/expr", no_field("/wart", "/ward")),
        ({"kind": "cel", "expr": "this.address.postcod.size() > 1"}, "/expr", no_field("/address/postcod", "/address/postcode")),
        (
            {"kind": "forbidden", "field": "/age", "values": [999, "999"]},
            "/values/1",
            "the field never holds a string: its type in the schema is integer",
        ),
        (
            {"kind": "one_of", "field": "/age", "values": [1.5]},
            "/values/0",
            "the field never holds this number: its type in the schema is integer",
        ),
        (
            {"kind": "one_of", "field": "/ward", "values": [True]},
            "/values/0",
            "the field never holds a boolean: its type in the schema is string",
        ),
        (
            {"kind": "forbidden", "field": "/ward", "values": [None]},
            "/values/0",
            "null is no value; say `nulls: violate` or `nulls: pass` instead",
        ),
        (
            {"kind": "forbidden", "field": "/discharge_date", "values": ["1900"]},
            "/values/0",
            f"the field holds dates; write {DATE}",
        ),
        (
            {"kind": "forbidden", "field": "/discharged_at", "values": ["1900-01-01"]},
            "/values/0",
            f"the field holds date-times; write {INSTANT}",
        ),
        (
            {"kind": "required_when", "field": "/ward", "when": {"field": "/age", "one_of": [1, "2"]}},
            "/when/one_of/1",
            "the field never holds a string: its type in the schema is integer",
        ),
        (
            {"kind": "required_when", "field": "/ward", "when": {"field": "/age", "equals": "2"}},
            "/when/equals",
            "the field never holds a string: its type in the schema is integer",
        ),
        (
            {"kind": "range", "field": "/ward", "minimum": 1},
            "/field",
            "the field never holds a number: its type in the schema is string",
        ),
        (
            {"kind": "range", "field": "/discharge_date", "minimum": 1},
            "/field",
            "the field never holds a number (dates take after, before, not_after and not_before): its type in the schema is string",
        ),
        (
            {"kind": "range", "field": "/ward", "after": "1900-01-01"},
            "/field",
            "the field holds no dates or date-times: give it the format date or date-time in the schema",
        ),
        (
            {"kind": "range", "field": "/discharge_date", "after": "1900-01-01T00:00:00Z"},
            "/after",
            f"the field holds dates; write {DATE}",
        ),
        (
            {"kind": "ordered", "fields": ["/discharge_date", "/discharged_at"]},
            "/fields/1",
            "`/discharged_at` holds date-times and `/discharge_date` dates: they do not compare; say how with `compare_as: date` or `compare_as: timestamp`",
        ),
        (
            {"kind": "ordered", "fields": ["/age", "/discharge_date"]},
            "/fields/1",
            "`/discharge_date` holds dates and `/age` numbers: they do not compare",
        ),
        (
            {"kind": "ordered", "fields": ["/ward", "/age"]},
            "/fields/0",
            "the field has no order: it should hold numbers, durations, dates or timestamps (strings of format date or date-time); its type in the schema is string",
        ),
        (
            {"kind": "matches", "field": "/age", "pattern": "x"},
            "/field",
            "the field never holds a string: its type in the schema is integer",
        ),
        (
            {"kind": "matches", "field": "/ward", "pattern": "(?=x)"},
            "/pattern",
            "not a pattern in RE2 syntax: invalid perl operator: (?=",
        ),
        ({"kind": "cel", "expr": "this.ward"}, "/expr", "must give true or false, and gives dyn; compare it with something"),
        ({"kind": "cel", "expr": "'x'"}, "/expr", "must give true or false, and gives string; compare it with something"),
        ({"kind": "cel", "expr": "that.age > 1"}, "/expr", "not a CEL expression: at 1:5: undeclared reference to 'that.age' (in container '')"),
        ({"kind": "range", "field": "/age"}, "", "a range needs a bound: `minimum`, `exclusive_minimum`, `maximum`, `exclusive_maximum`, `not_before`, `after`, `not_after`, `before`"),
        ({"kind": "range", "field": "/age", "minimum": 3, "maximum": 2}, "/maximum", "no value lies between `minimum` and `maximum`"),
    ],
)  # fmt: skip
def test_rule(make_plan: Any, rule: dict[str, Any], place: str, message: str) -> None:
    assert problems(make_plan, SCHEMA, rule) == [(f"/rules/0{place}", message)]


def test_every_rule_is_looked_at(make_plan: Any) -> None:
    wrong = {"kind": "range", "field": "/x", "minimum": 1}
    fine = {"kind": "range", "field": "/age", "minimum": 1}
    found = problems(make_plan, SCHEMA, wrong, fine, wrong)
    assert [pointer for pointer, _ in found] == ["/rules/0/field", "/rules/2/field"]


@pytest.mark.parametrize(
    "rule",
    [
        {"kind": "matches", "field": "/address/postcode", "pattern": "x"},
        {"kind": "matches", "field": "/codes/0", "pattern": "x"},
        {"kind": "matches", "field": "/labels/anything", "pattern": "x"},
        {"kind": "matches", "field": "/ward", "pattern": r"^\pL{1,200}$"},
        {"kind": "one_of", "field": "/age", "values": [1.0]},
        {"kind": "forbidden", "field": "/charge", "values": [0.5, 1]},
        {"kind": "required_when", "field": "/extras", "when": {"field": "/codes", "present": True}},
        {"kind": "cel", "expr": "this.codes.exists(code, code.startsWith('A')) && 'this.nowhere' != ''"},
        {"kind": "cel", "expr": "has(this.address.postcode) && size(this.codes) > 0 // this.comment\n"},
    ],
)
def test_rule_that_compiles(make_plan: Any, rule: dict[str, Any]) -> None:
    assert [slot.code for slot in make_plan(SCHEMA, rule).slots] == [
        "frame",
        "decode",
        "schema",
        "column",
        "rule-0",
    ]


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"properties": {"a": {"type": "integer"}}}]},
        {"anyOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"type": "string"}}}]},
        {"oneOf": [{"properties": {"a": {"type": "integer"}}}, {"type": "null"}]},
        {"if": {"properties": {"b": {"const": 1}}}, "then": {"properties": {"a": {"type": "integer"}}}},
        {"dependentSchemas": {"b": {"properties": {"a": {"type": "integer"}}}}},
        {"$ref": "#/$defs/r", "$defs": {"r": {"properties": {"a": {"type": "integer"}}}}},
        {"$ref": "#r", "$defs": {"r": {"$anchor": "r", "properties": {"a": {"type": "integer"}}}}},
        {"$ref": "r.json", "$defs": {"r": {"$id": "r.json", "properties": {"a": {"type": "integer"}}}}},
        {"properties": {"a": {"allOf": [{"type": ["integer", "string"]}, {"type": ["number", "null"]}]}}},
        {"properties": {"a": {"enum": [1, 2]}}},
        {"properties": {"a": {"const": 2.0}}},
        {"patternProperties": {"^a": {"type": "integer"}}},
        {"additionalProperties": {"type": "integer"}},
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "definitions": {"n": {"type": "integer", "maximum": 1.5, "exclusiveMaximum": True}},
            "properties": {"a": {"$ref": "#/definitions/n"}},
        },
        {"properties": {"a": {"type": "integer"}, "again": {"$ref": "#"}}},
    ],
)
def test_a_field_is_found_wherever_the_schema_declares_it(make_plan: Any, schema: Any) -> None:
    columns = [{"name": "a", "from": "/a", "type": "long"}]
    make_plan(schema, {"kind": "range", "field": "/a", "minimum": 1}, columns=columns)
    found = problems(make_plan, schema, {"kind": "matches", "field": "/a", "pattern": "x"}, columns=columns)
    assert found == [("/rules/0/field", "the field never holds a string: its type in the schema is integer")]


OUTSIDE = "leads out of the document, and none is ever fetched; put what it names under `$defs`"


@pytest.mark.parametrize(
    ("schema", "place", "message"),
    [
        ({"$ref": "http://127.0.0.1:1/x"}, "/$ref", f"the reference `http://127.0.0.1:1/x` {OUTSIDE}"),
        (
            {"items": {"$ref": "file:///etc/passwd"}},
            "/items/$ref",
            f"the reference `file:///etc/passwd` {OUTSIDE}",
        ),
        ({"items": {"$ref": "other.json#/x"}}, "/items/$ref", f"the reference `other.json#/x` {OUTSIDE}"),
        ({"items": {"$ref": "#/$defs/x"}}, "/items/$ref", "the reference `#/$defs/x` leads nowhere"),
        ({"items": {"$ref": "#x"}}, "/items/$ref", "the reference `#x` leads nowhere"),
        (
            {"$schema": "urn:mine"},
            "/$schema",
            "no such draft of JSON Schema is known; write one of the drafts 4 to 2020-12, such as https://json-schema.org/draft/2020-12/schema",
        ),
        (
            {"properties": {"a": {"pattern": "("}}},
            "/properties/a/pattern",
            'not a JSON Schema: "(" is not a "regex"',
        ),
        ({"minimum": "x"}, "/minimum", 'not a JSON Schema: "x" is not of type "number"'),
        (
            {"type": "int"},
            "/type",
            "not a JSON Schema: there is no type `int`; did you mean `integer`?",
        ),
        (
            {"type": ["null", "Float"]},
            "/type",
            "not a JSON Schema: there is no type `Float`; did you mean `number`?",
        ),
        (
            {"type": "date"},
            "/type",
            "not a JSON Schema: there is no type `date`; use one of array, boolean, integer, null, number, object, string",
        ),
        (
            {"type": "objct"},
            "/type",
            "not a JSON Schema: there is no type `objct`; did you mean `object`?",
        ),
        (
            {"type": ["string", "string"]},
            "/type",
            "not a JSON Schema: `type` must list each type once, and at least one",
        ),
        (
            {"type": {"a": 1}},
            "/type",
            "not a JSON Schema: `type` must be one of array, boolean, integer, null, number, object, string, or a list of them",
        ),
    ],
)
def test_json_schema(make_plan: Any, schema: Any, place: str, message: str) -> None:
    assert problems(make_plan, schema) == [(f"/schema/definition{place}", message)]


def avro_record(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "r", "namespace": "org", "fields": list(fields)}


@pytest.mark.parametrize(
    ("schema", "place", "message"),
    [
        ("nope", "", "no type is named nope"),
        ("Integer", "", "no type is named Integer; did you mean `long`?"),
        ({"type": 3}, "/type", "a type is a name, a mapping or a list"),
        ({"type": "map"}, "", "`values` is missing"),
        ({"name": "a"}, "", "`type` is missing"),
        (["null", ["int"]], "", "a union must not stand directly in a union"),
        (["int", "int"], "", "a union must not have two branches of one type, but for named types"),
        ({"type": "fixed", "name": "f", "size": -1}, "", "the size of f must be a number from 0 on"),
        ({"type": "enum", "name": "e", "symbols": ["A", "A"]}, "", "All symbols in an enum must be unique"),
        (
            avro_record({"name": "a", "type": "int"}, {"name": "a", "type": "int"}),
            "/fields/1/name",
            "the record has two fields named a",
        ),
        (avro_record("a"), "/fields/0", "a field is a mapping"),
        (avro_record({"name": "a"}), "/fields/0", "`type` is missing"),
        (
            avro_record({"name": "a", "type": ["null", {"type": "array", "items": "strng"}]}),
            "/fields/0/type/1/items",
            "no type is named strng; did you mean `string`?",
        ),
        (
            avro_record({"name": "a", "type": {"type": "map", "values": {"type": "other.r"}}}),
            "/fields/0/type/values/type",
            "no type is named other.r; did you mean `org.r`?",
        ),
    ],
)
def test_avro_schema(make_plan: Any, schema: Any, place: str, message: str) -> None:
    found = problems(make_plan, schema, kind="avro")
    assert found == [(f"/schema/definition{place}", f"not an Avro schema: {message}")]


def test_every_mistake_of_an_avro_schema_is_reported_at_once(make_plan: Any) -> None:
    code = {"type": "enum", "name": "Code", "symbols": ["A"]}
    fields = [
        {"name": "a", "type": "strng"},
        {"name": "b", "type": code},
        {"name": "c", "type": ["null", "Code", "org.Code", "r"]},
        {"type": "Cod"},
        {"name": "a", "type": {"type": "fixed", "name": "F"}},
    ]
    found = problems(make_plan, avro_record(*fields), kind="avro")
    assert [(place.removeprefix("/schema/definition/fields"), message) for place, message in found] == [
        ("/0/type", "not an Avro schema: no type is named strng; did you mean `string`?"),
        ("/3", "not an Avro schema: `name` is missing"),
        ("/3/type", "not an Avro schema: no type is named Cod; did you mean `Code`?"),
        ("/4/name", "not an Avro schema: the record has two fields named a"),
        ("/4/type", "not an Avro schema: `size` is missing"),
    ]


@pytest.mark.parametrize("kind", ["json-schema", "avro"])
def test_a_contract_without_its_schema(make_plan: Any, kind: str) -> None:
    message = "the schema itself is missing: give `definition` or `file`"
    assert problems(make_plan, None, kind=kind) == [("/schema", message)]
