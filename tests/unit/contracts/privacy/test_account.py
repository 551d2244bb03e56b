"""Explanations of refused records: every kind of rule, every keyword, every stage."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.explain.account import Explainer
from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.verdict import Severity, Stage, Violation
from tidegate.contracts.words import plain_sentence

from .conftest import contract, plan, told

DATE = {"type": ["string", "null"], "format": "date"}
FIELDS: dict[str, Any] = {
    "n": {"type": ["number", "null"]},
    "m": {"type": "number"},
    "s": {"type": ["string", "null"]},
    "a": DATE,
    "b": DATE,
    "c": DATE,
    "t": {"type": "string", "format": "date-time"},
    "u": {"type": "string", "format": "date-time"},
    "d": {"type": "string", "format": "duration"},
    "e": {"type": "string", "format": "duration"},
    "in": {"type": "object", "properties": {"x": {"type": "number"}}},
}
SETS: dict[str, Any] = {"reference_sets": {"wards": {"values": ["icu", "er"]}}}
RULES: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
    ({"kind": "forbidden", "field": "/n", "values": [999, -1]}, {"n": 999}, "n is 999, a placeholder value", "any value but 999, -1"),
    ({"kind": "forbidden", "field": "/n", "values": [999], "nulls": "violate"}, {}, "n is missing or null", "any value but 999"),
    ({"kind": "forbidden", "field": "/a", "values": ["1900-01-01"]}, {"a": "1900-01-01"}, 'a is "1900-01-01", a placeholder value', 'any value but "1900-01-01"'),
    ({"kind": "one_of", "field": "/s", "values": ["icu", "er"]}, {"s": "moon"}, 's is "moon", none of the values allowed', 'one of: "icu", "er"'),
    ({"kind": "matches", "field": "/s", "pattern": "^[A-Z]+$"}, {"s": "abc"}, 's is "abc", not of the form ^[A-Z]+$', "text of the form ^[A-Z]+$"),
    ({"kind": "range", "field": "/n", "minimum": 0, "maximum": 130}, {"n": 999}, "n 999 is above 130", "a value from 0 to 130"),
    ({"kind": "range", "field": "/n", "minimum": 0}, {"n": -0.5}, "n -0.5 is below 0", "a value from 0"),
    ({"kind": "range", "field": "/n", "exclusive_minimum": 0, "exclusive_maximum": 1}, {"n": 1}, "n 1 is not below 1", "a value above 0 and below 1"),
    ({"kind": "range", "field": "/in/x", "maximum": 1}, {"in": {"x": 2}}, "in/x 2 is above 1", "a value up to 1"),
    ({"kind": "range", "field": "/a", "after": "1900-01-01"}, {"a": "1900-01-01"}, "a 1900-01-01 is not after 1900-01-01", "a value after 1900-01-01"),
    ({"kind": "range", "field": "/a", "not_before": "2020-01-01", "not_after": "2020-12-31"}, {"a": "2021-01-01"}, "a 2021-01-01 is after 2020-12-31", "a value from 2020-01-01 to 2020-12-31"),
    ({"kind": "range", "field": "/t", "before": "2020-01-01T00:00:00Z"}, {"t": "2020-01-01T01:00:00+01:00"}, "t 2020-01-01T01:00:00+01:00 is not before 2020-01-01T00:00:00Z", "a value before 2020-01-01T00:00:00Z"),
    ({"kind": "range", "field": "/n", "maximum": "0.3"}, {"n": 0.4}, "n 0.4 is above 0.3", "a value up to 0.3"),
    ({"kind": "range", "field": "/t", "not_after": "now + 5 minutes"}, {"t": "2999-01-01T00:00:00Z"}, "t 2999-01-01T00:00:00Z is after now + 5 minutes", "a value up to now + 5 minutes"),
    ({"kind": "range", "field": "/t", "after": "1900-01-01T00:00:00Z", "before": "now"}, {"t": "1800-01-01T00:00:00Z"}, "t 1800-01-01T00:00:00Z is not after 1900-01-01T00:00:00Z", "a value after 1900-01-01T00:00:00Z and before now"),
    ({"kind": "range", "field": "/d", "maximum": "PT2H"}, {"d": "PT3H"}, "d PT3H is above PT2H", "a value up to PT2H"),
    ({"kind": "freshness", "field": "/t", "max_age": "P1D"}, {"t": "2020-01-01T00:00:00Z"}, "t 2020-01-01T00:00:00Z was more than P1D old", "a moment at most P1D old"),
    ({"kind": "freshness", "field": "/t", "max_age": "1 day", "max_ahead": "5 minutes"}, {"t": "2999-01-01T00:00:00Z"}, "t 2999-01-01T00:00:00Z was more than 1 day old, or more than 5 minutes ahead", "a moment at most 1 day old and at most 5 minutes ahead"),
    ({"kind": "one_of", "field": "/s", "set": "wards"}, {"s": "moon"}, 's is "moon", not in the set wards', "a value of the set wards"),
    ({"kind": "cel", "field": "/n", "expr": "value > 1.0"}, {"n": 0.5}, "the expression of the rule does not hold with n 0.5", "values for which this is true: value > 1.0"),
    ({"kind": "ordered", "fields": ["/a", "/t"], "compare_as": "date"}, {"a": "2026-10-13", "t": "2026-10-01T00:00:00Z"}, "t is before a", "t not before a"),
    ({"kind": "ordered", "fields": ["/a", "/b"]}, {"a": "2026-10-13", "b": "2026-10-01"}, "b 2026-10-01 is 12 days before a 2026-10-13", "b not before a"),
    ({"kind": "ordered", "fields": ["/a", "/b"], "strict": True}, {"a": "2026-10-13", "b": "2026-10-13"}, "b 2026-10-13 is the same as a", "b after a"),
    ({"kind": "ordered", "fields": ["/a", "/b"]}, {"a": "0001-01-01", "b": "0000-01-01"}, "b 0000-01-01 is before a 0001-01-01", "b not before a"),
    ({"kind": "ordered", "fields": ["/a", "/b", "/c"]}, {"a": "2026-10-01", "b": "2026-10-03", "c": "2026-10-02"}, "c 2026-10-02 is 1 day before b 2026-10-03", "a, b, c in this order"),
    ({"kind": "ordered", "fields": ["/t", "/u"]}, {"t": "2026-10-01T12:00:00Z", "u": "2026-10-01T11:58:30Z"}, "u 2026-10-01T11:58:30Z is 1 minute 30 seconds before t 2026-10-01T12:00:00Z", "u not before t"),
    ({"kind": "ordered", "fields": ["/n", "/m"]}, {"n": 5, "m": 4.5}, "m 4.5 is below n 5", "m not below n"),
    ({"kind": "ordered", "fields": ["/d", "/e"]}, {"d": "PT3H", "e": "PT2H"}, "e PT2H is below d PT3H", "e not below d"),
    ({"kind": "ordered", "fields": ["/d", "/e"]}, {"d": "P1M", "e": "P30D"}, "e P30D is in no order with d P1M", "e not below d"),
    ({"kind": "required_when", "field": "/s", "when": {"field": "/n", "equals": 1}}, {"n": 1}, "s is missing although n is 1", "a value in s, or n other than 1"),
    ({"kind": "required_when", "field": "/s", "when": {"field": "/n", "one_of": [1, 2]}}, {"n": 2}, "s is missing although n is 2", "a value in s, or n other than 1, 2"),
    ({"kind": "required_when", "field": "/s", "when": {"field": "/n", "present": True}}, {"n": 3}, "s is missing although n is 3", "a value in s, or no n"),
    ({"kind": "cel", "expr": "this.n > 1.0 || has(this.s)"}, {"n": 0.5}, "the expression of the rule does not hold with n 0.5, no s", "values for which this is true: this.n > 1.0 || has(this.s)"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "record", "sentence", "passes"), RULES)
def test_a_broken_rule_is_reported_with_its_values(
    rule: dict[str, Any], record: dict[str, Any], sentence: str, passes: str
) -> None:
    compiled = plan({"properties": FIELDS}, rules=[{"id": "r", "description": "Why.", **rule}], **SETS)
    (found,) = told(compiled, record)
    assert (found.sentence, found.passes, found.description) == (sentence, passes, "Why.")
    assert not found.is_guarded


@pytest.mark.parametrize(("rule", "record", "sentence", "passes"), RULES)
def test_a_broken_rule_is_reported_without_the_values_of_classified_fields(
    rule: dict[str, Any], record: dict[str, Any], sentence: str, passes: str
) -> None:
    classification = {f"/{name}": "pii" for name in FIELDS}
    compiled = plan(
        {"properties": FIELDS}, rules=[{"id": "r", **rule}], classification=classification, **SETS
    )
    (found,) = told(compiled, record)
    (violation,) = compiled.explain(json.dumps(record).encode()).violations
    assert (found.sentence, found.passes, found.is_guarded) == (plain_sentence(violation), passes, True)
    assert told(compiled, record, *classification)[0].sentence == sentence


def test_each_element_that_breaks_a_rule_is_reported() -> None:
    line = {"properties": {"net": {"type": "number"}, "gross": {"type": "number"}}}
    schema = {"properties": {"lines": {"type": "array", "items": line}}}
    rules = [{"id": "r", "kind": "ordered", "fields": ["/lines/*/net", "/lines/*/gross"]}]
    record = {"lines": [{"net": 5, "gross": 4}, {"net": 1, "gross": 2}, {"net": 9, "gross": 8}]}
    assert [each.sentence for each in told(plan(schema, rules=rules), record)] == [
        "lines/0/gross 4 is below lines/0/net 5",
        "lines/2/gross 8 is below lines/2/net 9",
    ]
    compiled = plan(schema, rules=rules, classification={"/lines/*/net": "pii"})
    assert all("5" not in each.sentence and each.is_guarded for each in told(compiled, record))


@pytest.mark.parametrize("call", ["this.s.startsWith('a')", "this.s.startsWith ('a')"])
def test_the_name_of_a_method_is_no_field(call: str) -> None:
    compiled = plan({"properties": FIELDS}, rules=[{"id": "r", "kind": "cel", "expr": call}])
    (found,) = told(compiled, {"s": "b"})
    assert found.sentence == "the record breaks the expression of the rule"


def test_one_classified_field_of_two_is_enough_to_say_less() -> None:
    rules = [{"id": "r", "kind": "ordered", "fields": ["/a", "/b"]}]
    compiled = plan({"properties": FIELDS}, rules=rules, classification={"/a": "pii"})
    (found,) = told(compiled, {"a": "2026-10-13", "b": "2026-10-01"})
    assert found.sentence == "b is before a"


JSON = [{"name": "x", "from": "/x", "type": "json"}]
KEYWORDS: list[tuple[dict[str, Any], Any, str, str]] = [
    ({"type": "integer"}, "forty", 'x is the text "forty", not a whole number', "a whole number"),
    ({"type": ["integer", "null"]}, True, "x is true, not a whole number or null", "a whole number or null"),
    ({"type": "string"}, 42, "x is the number 42, not text", "text"),
    ({"type": "string"}, [1, 2], "x is a list of 2 items, not text", "text"),
    ({"type": "string"}, {"a": 1}, "x is an object, not text", "text"),
    ({"type": "string"}, None, "x is null, not text", "text"),
    ({"minimum": 3}, 2, "x 2 is below 3", "a value from 3"),
    ({"exclusiveMinimum": 3}, 3, "x 3 is not above 3", "a value above 3"),
    ({"maximum": 130}, 999, "x 999 is above 130", "a value up to 130"),
    ({"exclusiveMaximum": 1.5}, 1.5, "x 1.5 is not below 1.5", "a value below 1.5"),
    ({"multipleOf": 0.5}, 0.7, "x 0.7 is not a multiple of 0.5", "a multiple of 0.5"),
    ({"minLength": 3}, "ab", 'x "ab" has 2 characters, fewer than 3', "at least 3 characters"),
    ({"maxLength": 1}, "ab", 'x "ab" has 2 characters, more than 1', "at most 1 character"),
    ({"pattern": "^A"}, "b", 'x is "b", not of the form ^A', "text of the form ^A"),
    ({"format": "date"}, "2024-02-30", 'x is "2024-02-30", not a date', "a date, such as 2026-03-01"),
    ({"format": "ipv4"}, "no", 'x is "no", not an IPv4 address', "an IPv4 address"),
    ({"enum": ["icu", 1, None]}, "moon", 'x is "moon", none of the values that the schema lists', 'one of: "icu", 1, null'),
    ({"const": 7}, 8, "x is 8, not the value that the schema gives", "7"),
    ({"minItems": 2}, [1], "x has 1 item, fewer than 2", "at least 2 items"),
    ({"maxItems": 1}, [1, 2], "x has 2 items, more than 1", "at most 1 item"),
    ({"uniqueItems": True}, [1, 2, 1], "x has the same item twice: number 1 and number 3", "items that differ from each other"),
    ({"contains": {"type": "string"}}, [1], "x must contain an item of the kind that the schema asks for", "as many items of the kind that the schema asks for as it wants"),
    ({"prefixItems": [{}], "items": False}, [1, 2], "x has items that the schema does not allow", "nothing there"),
    ({"prefixItems": [{}], "unevaluatedItems": False}, [1, 2], "x has items that the schema does not allow", "nothing there"),
    ({"minProperties": 2}, {"a": 1}, "x has 1 property, fewer than 2", "at least 2 properties"),
    ({"maxProperties": 1}, {"a": 1, "b": 2}, "x has 2 properties, more than 1", "at most 1 property"),
    ({"required": ["q"]}, {"a": 1}, "q is missing in x", "a value in q"),
    ({"dependentRequired": {"a": ["q"]}}, {"a": 1}, "q is missing in x, which another property asks for", "a value in q"),
    ({"properties": {"a": {}}, "additionalProperties": False}, {"zz": 1}, 'x has the property "zz", which the schema does not allow', "nothing there"),
    ({"unevaluatedProperties": False}, {"y": 1, "z": 2}, 'x has the properties "y", "z", which the schema does not allow', "nothing there"),
    ({"propertyNames": {"maxLength": 2}}, {"abc": 1}, "x has a property whose name the schema does not allow", "names that the schema allows"),
    ({"anyOf": [{"type": "string"}, {"minimum": 5}]}, 3, "x is 3, which fits none of the alternatives of the schema", "text or a value from 5"),
    ({"anyOf": [{"type": "string"}, {"required": ["q"]}]}, {}, "x fits none of the alternatives of the schema", "text or a value in q"),
    ({"oneOf": [{"type": "string"}, {"enum": [1]}]}, 2, "x is 2, which fits none of the alternatives of the schema", "text or one of: 1"),
    ({"oneOf": [{"minimum": 1}, {"minimum": 2}]}, 3, "x is 3, which fits more than one alternative of the schema", "a value that fits exactly one alternative"),
    ({"not": {"type": "string"}}, "no", 'x is "no", which the schema excludes', "a value that does not fit what stands under `not`"),
    ({"if": {"type": "string"}, "then": {"minLength": 3}}, "no", 'x "no" has 2 characters, fewer than 3', "at least 3 characters"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value", "sentence", "passes"), KEYWORDS)
def test_a_broken_keyword_is_reported_with_its_values(
    schema: dict[str, Any], value: Any, sentence: str, passes: str
) -> None:
    (found,) = told(plan({"properties": {"x": schema}}, columns=JSON), {"x": value})
    assert (found.sentence, found.passes) == (sentence, passes)


@pytest.mark.parametrize(("schema", "value", "sentence", "passes"), KEYWORDS)
def test_a_broken_keyword_is_reported_without_the_values_of_classified_fields(
    schema: dict[str, Any], value: Any, sentence: str, passes: str
) -> None:
    compiled = plan({"properties": {"x": schema}}, classification={"/x": "pii"}, columns=JSON)
    (found,) = told(compiled, {"x": value})
    assert found.passes == passes
    for secret in ("forty", "moon", '"', "999", "2024-02", "zz", "0.7", "number 42", "item twice:"):
        assert secret not in found.sentence
    assert told(compiled, {"x": value}, "body")[0].sentence == sentence


def test_a_property_that_must_not_be_there() -> None:
    (found,) = told(plan({"properties": {"x": False}}), {"x": 1})
    assert (found.sentence, found.passes) == ("x is not allowed here", "nothing there")


def test_undeclared_names_are_reported_only_where_nothing_is_classified() -> None:
    schema = {"properties": {"known": {}}, "additionalProperties": {"type": "integer"}}
    assert told(plan(schema), {"SECRET": "x"})[0].sentence == 'SECRET is the text "x", not a whole number'
    (found,) = told(plan(schema, classification={"/known": "pii"}), {"SECRET": "x"})
    assert found.sentence == "an undeclared property must be of type integer"


def test_each_of_several_places_is_reported() -> None:
    schema = {"properties": {"x": {"items": {"type": "integer"}}}}
    assert [each.sentence for each in told(plan(schema), {"x": ["a", 1, "b"]})] == [
        'x/0 is the text "a", not a whole number',
        'x/2 is the text "b", not a whole number',
    ]


@pytest.mark.parametrize(
    ("value", "sentence", "passes"),
    [
        (b"", "the value is empty", "one complete JSON value"),
        (b'{"a": 1', "the record is not JSON: it ends before the value is complete", "one complete JSON value"),
        (b'{"a": SECRET}', "the record is not JSON: it stops being JSON at line 1, column 7", "one complete JSON value"),
        (b'{"a":\n "x" SECRET}', "the record is not JSON: it stops being JSON at line 2, column 6", "one complete JSON value"),
        (b'{"a": "\xff"}', "the record is not UTF-8", "JSON in UTF-8"),
        (b"[NaN]", "the record holds NaN or Infinity, which JSON does not have", "a finite number, or null where the schema allows it"),
        (b'"\\ud800"', "the record holds half of a surrogate pair (\\ud800 to \\udfff), which is no character", "whole characters: both halves of a pair, or none"),
        (b"[" * 300 + b"]" * 300, "the record is nested deeper than 254 levels", "at most 254 levels"),
        (b"1e9999999999999999999", "the record holds a number whose exponent has more than 18 digits", "an exponent of at most 18 digits"),
    ],
)  # fmt: skip
def test_what_is_no_json_is_reported_with_its_place(value: bytes, sentence: str, passes: str) -> None:
    (found,) = told(plan(True), value)
    assert (found.sentence, found.passes) == (sentence, passes)


def test_a_tombstone_and_a_missing_frame() -> None:
    compiled = plan(True, framing="confluent-prefix")
    for value, sentence in (
        (b"{}", "the record does not begin with the zero byte of a schema id"),
        (b"\0\0", "the record ends within its schema id (5 bytes are needed)"),
    ):
        (found,) = told(compiled, value)
        assert found.sentence == sentence
        assert found.passes is not None
        assert found.passes.startswith("a value that begins with the zero byte")


AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "n", "type": "int"},
        {"name": "d", "type": {"type": "int", "logicalType": "date"}},
        {"name": "e", "type": {"type": "int", "logicalType": "date"}},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "s", "type": "string"},
    ],
}


def avro(*rules: dict[str, Any], **more: Any) -> Any:
    document = contract(True).model_dump(by_alias=True, exclude_defaults=True)
    schema = {"type": "avro", "definition": AVRO}
    rules = tuple({"id": f"r{index}", **rule} for index, rule in enumerate(rules))
    return compile_plan(DataContract.model_validate({**document, "schema": schema, "rules": rules, **more}))


def encoded(**changes: Any) -> bytes:
    out = io.BytesIO()
    record = {"n": 999, "d": 20_000, "e": 19_990, "t": 1_700_000_000_000, "s": "SECRET", **changes}
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), record)
    return out.getvalue()


def test_avro_records_are_described_with_dates_and_times() -> None:
    compiled = avro(
        {"kind": "forbidden", "field": "/n", "values": [999]},
        {"kind": "ordered", "fields": ["/d", "/e"]},
        {"kind": "range", "field": "/d", "before": "2000-01-01"},
        {"kind": "range", "field": "/t", "before": "2000-01-01T00:00:00Z"},
    )
    assert [each.sentence for each in told(compiled, encoded())] == [
        "n is 999, a placeholder value",
        "e 2024-09-24 is 10 days before d 2024-10-04",
        "d 2024-10-04 is not before 2000-01-01",
        "t 2023-11-14T22:13:20.000Z is not before 2000-01-01T00:00:00Z",
    ]


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (encoded()[:-1], "s ends before a string or bytes of the length that it says"),
        (encoded()[:3], "d ends before its last field"),
        (encoded() + b"\0", "the record goes on after its last field"),
        (b"\xff" * 20, "n holds an integer of more than 64 bits"),
    ],
)
def test_avro_that_cannot_be_read_is_reported_without_its_bytes(value: bytes, sentence: str) -> None:
    (found,) = told(avro(), value)
    assert found.sentence == sentence
    assert found.passes == "bytes that were written with the schema of the contract"


def test_what_a_column_cannot_hold_is_reported() -> None:
    columns = [{"name": "money", "from": "/x", "type": "decimal(5,2)"}]
    definition = {"properties": {"x": {"type": "number"}}}
    (found,) = told(plan(definition, columns=columns), {"x": 12.345})
    assert found.sentence == "x is 12.345, which a column of type decimal(5,2) cannot hold"
    assert found.passes == "a number of at most 3 digits before the point and 2 after it"
    (found,) = told(plan(definition, columns=columns, classification={"/x": "pii"}), {"x": 12.345})
    assert found.sentence == "column money of type decimal(5,2) cannot hold this value"


def test_violations_of_another_contract_keep_their_own_words() -> None:
    """As a page shows them whose record was judged by a version that has changed since."""
    violations = [
        Violation(Stage.RULE, "gone", "/x", Severity.ERROR, "x holds a value that the contract forbids"),
        Violation(Stage.SCHEMA, "minimum", "/x", Severity.ERROR, "must be at least 3"),
        Violation(
            Stage.COLUMN, "gone", "/x", Severity.ERROR, "column gone of type int cannot hold this value"
        ),
        Violation(Stage.DECODE, "new.code", "", Severity.ERROR, "is something new"),
    ]
    for value in (b'{"x": 5}', b"not json", None):
        assert [each.sentence for each in Explainer.of(plan(True)).explain(value, violations)] == [
            "x holds a value that the contract forbids",
            "x must be at least 3",
            "column gone of type int cannot hold this value",
            "the record is something new",
        ]


def test_long_and_odd_values_are_cut_and_made_visible() -> None:
    compiled = plan({"properties": {"x": {"type": "integer"}}})
    (found,) = told(compiled, {"x": "a" * 61})
    assert found.sentence == f'x is the text "{"a" * 60}"…, not a whole number'
    (found,) = told(compiled, {"x": "\x1b[2J\u202e\u200b"})
    assert found.sentence == 'x is the text "\\u001b[2J\\u202e\\u200b", not a whole number'
    (found,) = told(plan({"properties": {"x": {"maximum": 1}}}), b'{"x": ' + b"9" * 100 + b"}")
    assert found.sentence == "x 99999999999999999999… (100 digits) is above 1"


def test_numbers_that_python_cannot_write_are_reported_by_keyword_and_place() -> None:
    fields = {"n": {"maximum": 10}, "s": {"type": "string"}, "l": {"items": {"type": "string"}}}
    compiled = plan({"properties": fields})
    value = b'{"n":@,"s":@,"l":["a",@]}'.replace(b"@", b"7" * 5_000)
    found = told(compiled, value)
    assert [(each.violation.code, each.violation.pointer, each.sentence) for each in found] == [
        ("maximum", "/n", "n does not fit the keyword `maximum` of the schema"),
        ("type", "/s", "s does not fit the keyword `type` of the schema"),
        ("type", "/l/1", "l/1 does not fit the keyword `type` of the schema"),
    ]
