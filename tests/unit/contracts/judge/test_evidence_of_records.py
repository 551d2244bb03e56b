"""What `explain` says about records: stage, code, pointer, sentence, and never a value."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.contracts.formats.json_schema import MAX_VIOLATIONS
from tidegate.contracts.verdict import Disposition, Severity, Stage, Violation


@pytest.mark.parametrize(
    ("schema", "value", "code", "pointer", "message"),
    [
        ({"type": "object"}, b"1", "type", "", "must be of type object"),
        ({"type": ["string", "null"]}, b"1", "type", "", "must be of type null or string"),
        ({"required": ["id"]}, b"{}", "required", "", "required property `id` is missing"),
        ({"minimum": 0}, b"-1", "minimum", "", "must be at least 0"),
        ({"maximum": 130}, b"999", "maximum", "", "must be at most 130"),
        ({"maximum": 0.5}, b"0.75", "maximum", "", "must be at most 0.5"),
        ({"exclusiveMinimum": 0}, b"0", "exclusiveMinimum", "", "must be above 0"),
        ({"exclusiveMaximum": 9}, b"9", "exclusiveMaximum", "", "must be below 9"),
        ({"multipleOf": 0.01}, b"0.001", "multipleOf", "", "must be a multiple of 0.01"),
        ({"minLength": 2}, b'"a"', "minLength", "", "must have at least 2 characters"),
        ({"maxLength": 2}, b'"abc"', "maxLength", "", "must have at most 2 characters"),
        ({"pattern": "^P[0-9]+$"}, b'"x"', "pattern", "", "must match the pattern ^P[0-9]+$"),
        ({"format": "date"}, b'"x"', "format", "", "must have the format date"),
        ({"enum": ["a", "b"]}, b'"c"', "enum", "", "must be one of the values that the schema lists"),
        ({"const": 1}, b"2", "const", "", "must be the value that the schema gives"),
        ({"minItems": 1}, b"[]", "minItems", "", "must have at least 1 items"),
        ({"maxItems": 1}, b"[1,2]", "maxItems", "", "must have at most 1 items"),
        ({"uniqueItems": True}, b"[1,1.0]", "uniqueItems", "", "must have no item twice"),
        ({"minProperties": 1}, b"{}", "minProperties", "", "must have at least 1 properties"),
        ({"maxProperties": 0}, b'{"a":1}', "maxProperties", "", "must have at most 0 properties"),
        ({"contains": {"const": 1}}, b"[2]", "contains", "", "must contain an item of the kind that the schema asks for"),
        ({"additionalProperties": False}, b'{"a":1}', "additionalProperties", "", "has properties that the schema does not allow"),
        ({"unevaluatedProperties": False}, b'{"a":1}', "unevaluatedProperties", "", "has properties that the schema does not allow"),
        ({"prefixItems": [True], "unevaluatedItems": False}, b"[1,2]", "unevaluatedItems", "", "has items that the schema does not allow"),
        ({"propertyNames": {"maxLength": 1}}, b'{"ab":1}', "propertyNames", "", "has a property whose name the schema does not allow"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, b"1", "anyOf", "", "fits none of the alternatives of the schema"),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, b"1", "oneOf", "", "fits none of the alternatives of the schema"),
        ({"oneOf": [True, True]}, b"1", "oneOf", "", "fits more than one alternative of the schema, and must fit exactly one"),
        ({"not": {"type": "null"}}, b"null", "not", "", "must not fit the schema that is given under `not`"),
        ({"properties": {"a": False}}, b'{"a":1}', "falseSchema", "/a", "is not allowed here"),
        ({"properties": {"a": {"items": {"type": "string"}}}}, b'{"a":["x",1]}', "type", "/a/1", "must be of type string"),
        ({"properties": {"a/b": {"type": "string"}}}, b'{"a/b":1}', "type", "/a~1b", "must be of type string"),
        ({"additionalProperties": {"type": "string"}}, b'{"secret":1}', "type", "/*", "must be of type string"),
        ({"dependentRequired": {"a": ["b"]}}, b'{"a":1}', "required", "", "required property `b` is missing"),
        ({"allOf": [{"maximum": 1.5}]}, b"2", "maximum", "", "must be at most 1.5"),
    ],
)  # fmt: skip
def test_schema(make_plan: Any, schema: Any, value: bytes, code: str, pointer: str, message: str) -> None:
    columns = [{"name": "id", "from": "/id", "type": "string"}]
    verdict = make_plan({"allOf": [{"properties": {"id": True}}, schema]}, columns=columns).explain(value)
    assert verdict.disposition is Disposition.QUARANTINED
    assert verdict.violations == (Violation(Stage.SCHEMA, code, pointer, Severity.ERROR, message),)


def test_all_mistakes_are_reported_at_once(make_plan: Any) -> None:
    plan = make_plan(
        {
            "properties": {"age": {"type": "integer", "maximum": 130}, "name": {"type": "string"}},
            "required": ["name"],
        },
        {"kind": "forbidden", "field": "/age", "values": [999], "id": "age-is-known"},
        {
            "kind": "cel",
            "expr": "this.age < 200 || this.name == 'x'",
            "id": "in-words",
            "severity": "warning",
        },
    )
    verdict = plan.explain(b'{"age":999}')
    assert [(each.stage, each.code, each.pointer, each.severity) for each in verdict.violations] == [
        (Stage.SCHEMA, "required", "", Severity.ERROR),
        (Stage.SCHEMA, "maximum", "/age", Severity.ERROR),
        (Stage.RULE, "age-is-known", "/age", Severity.ERROR),
    ]


@pytest.mark.parametrize(
    ("rule", "value", "pointer", "message"),
    [
        ({"kind": "forbidden", "field": "/n", "values": [1]}, b'{"n":1}', "/n", "n holds a value that the contract forbids"),
        ({"kind": "one_of", "field": "/n", "values": [2]}, b'{"n":1}', "/n", "n holds none of the values that the contract allows"),
        ({"kind": "range", "field": "/n", "minimum": 2, "maximum": 9}, b'{"n":1}', "/n", "n is outside its range (minimum 2 and maximum 9)"),
        ({"kind": "range", "field": "/a", "not_before": "2000-01-01"}, b'{"a":"1900-01-01"}', "/a", "a is outside its range (not before 2000-01-01)"),
        ({"kind": "matches", "field": "/o/s", "pattern": "x"}, b'{"o":{"s":"y"}}', "/o/s", "o/s does not match the pattern of the contract"),
        ({"kind": "ordered", "fields": ["/a", "/b"]}, b'{"a":"2000-01-02","b":"2000-01-01"}', "/b", "b is before a"),
        ({"kind": "ordered", "fields": ["/n", "/m"]}, b'{"n":2,"m":1}', "/m", "m is below n"),
        ({"kind": "ordered", "fields": ["/n", "/m"], "strict": True}, b'{"n":2,"m":2}', "/m", "m is not above n"),
        ({"kind": "ordered", "fields": ["/a", "/b"], "strict": True}, b'{"a":"2000-01-01","b":"2000-01-01"}', "/b", "b is not after a"),
        ({"kind": "ordered", "fields": ["/n", "/m", "/k"]}, b'{"n":2,"k":1}', "/k", "n, m, k do not stand in order"),
        ({"kind": "required_when", "field": "/n", "when": {"field": "/m", "present": True}}, b'{"m":1}', "/n", "n is missing although m calls for it"),
        ({"kind": "one_of", "field": "/n", "values": [2], "nulls": "violate"}, b"{}", "/n", "n is missing or null"),
        ({"kind": "ordered", "fields": ["/n", "/m"], "nulls": "violate"}, b'{"n":1}', "/m", "m is missing or null"),
        ({"kind": "cel", "expr": "this.n < 1", "nulls": "violate"}, b"{}", "", "lacks a value that the expression of the rule needs"),
        ({"kind": "cel", "expr": "this.n < 1"}, b'{"n":1}', "", "breaks the expression of the rule"),
        ({"kind": "cel", "expr": "this.n / 0 < 1"}, b'{"n":1}', "", "breaks the expression of the rule: evaluation error"),
    ],
)  # fmt: skip
def test_rules(make_plan: Any, rule: dict[str, Any], value: bytes, pointer: str, message: str) -> None:
    date = {"type": "string", "format": "date"}
    number = {"type": "number"}
    fields = {"n": number, "m": number, "k": number, "a": date, "b": date}
    schema = {"properties": {**fields, "o": {"properties": {"s": {"type": "string"}}}}}
    assert make_plan(schema, rule).explain(value).violations == (
        Violation(Stage.RULE, "rule-0", pointer, Severity.ERROR, message),
    )


def test_the_violations_of_a_record_are_bounded(make_plan: Any) -> None:
    verdict = make_plan({"items": {"type": "string"}}).explain(b"[" + b"1," * 500 + b"1]")
    assert len(verdict.violations) == MAX_VIOLATIONS
    assert verdict.violations[-1].pointer == f"/{MAX_VIOLATIONS - 1}"


@pytest.mark.parametrize(
    ("expression", "value", "breaks"),
    [
        ("this.o.s == 'x'", b'{"o":null}', False),
        ("this.o.s == 'x'", b'{"o":5}', True),
        ("this.l[3] == 1", b'{"l":[1]}', False),
        ("this.l.exists(i, i > 1)", b'{"l":[null]}', False),
        (
            "this.l.all(i, this.l.all(j, this.l.all(k, i + j + k < 0)))",
            b'{"l":[' + b"-1," * 100 + b"-1]}",
            True,
        ),
        ("this.n > 0.5", b'{"n":0.50000000000000000001}', True),
        ("this.n > 18446744073709551615.0", b'{"n":1e20}', False),
        ("this.n == 9007199254740993", b'{"n":9007199254740993}', False),
        (
            "this.o == this.p",
            b'{"o":' + b"[" * 200 + b"]" * 200 + b',"p":' + b"[" * 200 + b"]" * 200 + b"}",
            False,
        ),
        ("this.o == null || this.n > 5", b'{"o":null}', False),
        ("this.s.matches('^(a+)+$')", b'{"s":"' + b"a" * 5000 + b'!"}', True),
        ("this.s == '\\u00e9'", '{"s":"é"}'.encode(), False),
        ("this.n > 5", b"null", False),
        ("this.n > 5", b"[1]", True),
    ],
)
def test_cel(make_plan: Any, expression: str, value: bytes, breaks: bool) -> None:
    members = dict.fromkeys(["p", "n", "s"], True) | {
        "l": {"type": "array"},
        "o": {"properties": {"s": True}},
    }
    plan = make_plan({"properties": members}, {"kind": "cel", "expr": expression})
    assert plan.explain(value).disposition == (Disposition.QUARANTINED if breaks else Disposition.ACCEPTED)


def test_cel_says_nothing_about_what_the_schema_refuses(make_plan: Any) -> None:
    plan = make_plan({"properties": {"n": {"type": "integer"}}}, {"kind": "cel", "expr": "this.n > 1"})
    assert [each.code for each in plan.explain(b'{"n":"x"}').violations] == ["type"]


def test_several_expressions_are_distinguished(make_plan: Any) -> None:
    plan = make_plan(
        {"properties": {"n": {"type": "integer"}, "m": {"type": "integer"}}},
        {"kind": "cel", "expr": "this.n > 1 // at least two"},
        {"kind": "cel", "expr": "this.m > 1", "nulls": "violate"},
        {"kind": "cel", "expr": "10 / this.n > 0"},
    )
    codes = [
        [each.code for each in plan.explain(value).violations]
        for value in (b'{"n":2,"m":2}', b'{"n":1,"m":1}', b'{"n":2}', b'{"n":0,"m":2}', b"{}")
    ]
    assert codes == [[], ["rule-0", "rule-1"], ["rule-1"], ["rule-0", "rule-2"], ["rule-1"]]
