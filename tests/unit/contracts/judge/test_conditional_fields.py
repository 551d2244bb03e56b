"""Fields that a schema declares under a condition: what rules, columns and tables may conclude from that."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.documents import contract_with, plan_with
from tidegate import Contract
from tidegate.contracts.compatibility.compare import compare
from tidegate.contracts.compiled import schema_fields
from tidegate.contracts.document.model import Compatibility, DataContract
from tidegate.contracts.formats.json_fields import JsonFields
from tidegate.contracts.inclusion.answer import Outcome
from tidegate.contracts.verdict import Disposition

INTEGER = {"properties": {"x": {"type": "integer"}}}
STRING = {"properties": {"x": {"type": "string"}}}
IF_N = {"properties": {"k": {"const": "n"}}, "required": ["k"]}
BOUNDS = ({"exclusive_minimum": 0}, {"minimum": 1})
PARTS = [
    {"if": IF_N, "then": INTEGER},
    {"if": IF_N, "else": INTEGER},
    {"if": IF_N, "then": INTEGER, "else": {}},
    {"dependentSchemas": {"other": INTEGER}},
    {"anyOf": [INTEGER, IF_N]},
    {"oneOf": [INTEGER, {"properties": {"x": {"not": {"type": "integer"}}}}]},
    {"allOf": [{"if": IF_N, "then": {"allOf": [INTEGER]}}]},
]
"""Parts of a schema by which `x` is an integer in some records."""


def schema_of(part: dict[str, Any], x: Any) -> dict[str, Any]:
    declared = {"properties": {"k": {"type": "string"}, "x": x}}
    return {"type": "object", **part, "allOf": [declared, *part.get("allOf", [])]}


def ids(part: Any) -> str | None:
    return next(iter(part)) if isinstance(part, dict) else None


def bounded(schema: Any) -> tuple[DataContract, DataContract]:
    """Return two contracts: one with `x` above 0, and one with `x` from 1 on."""
    above, least = (
        contract_with(schema, rules=[{"id": "r", "kind": "range", "field": "/x", **bound}])
        for bound in ({"exclusive_minimum": 0}, {"minimum": 1})
    )
    return above, least


@pytest.mark.parametrize("part", PARTS, ids=ids)
@pytest.mark.parametrize("x", [{"type": "number"}, True])
def test_a_condition_does_not_prove_that_a_number_is_whole(part: dict[str, Any], x: Any) -> None:
    old, new = bounded(schema_of(part, x))
    (finding,) = compare(old, new, level=Compatibility.BACKWARD).findings
    assert finding.outcome is not Outcome.PROVEN


@pytest.mark.parametrize(
    "other", [INTEGER, {"additionalProperties": False}, {"type": "null"}, False, {"$ref": "#/$defs/closed"}]
)
def test_an_alternative_that_excludes_the_field_says_nothing_about_it(other: Any) -> None:
    schema = {"anyOf": [INTEGER, other], "$defs": {"closed": {"additionalProperties": False}}}
    assert compare(*bounded(schema), level=Compatibility.FULL).is_compatible


RECORDS = pa.array([b'{"k":"n","x":1,"other":1}', b'{"k":"s","x":"abc"}'])


@pytest.mark.parametrize("part", PARTS, ids=ids)
def test_a_condition_does_not_narrow_a_column(part: dict[str, Any]) -> None:
    plan = plan_with(schema_of(part, {"type": ["integer", "string"]}))
    assert plan.columns.field("x").type == pa.string()
    written = plan.judge_typed(RECORDS).field("disposition").to_pylist()
    assert written == plan.judge(RECORDS).field("disposition").to_pylist()


def test_a_column_takes_the_types_of_all_branches() -> None:
    """A field that only one branch declares has the column of that type, which may refuse other records."""
    both = plan_with({"if": IF_N, "then": INTEGER, "else": STRING})
    assert both.columns.field("x").type == pa.string()
    one = plan_with({"if": IF_N, "then": INTEGER})
    assert one.columns.field("x").type == pa.int64()
    assert one.judge_typed(RECORDS).field("disposition").to_pylist() == [
        Disposition.ACCEPTED,
        Disposition.QUARANTINED,
    ]


@pytest.mark.parametrize(
    "part",
    [
        {"if": IF_N, "then": {"properties": {"x": {"format": "date"}}}},
        {"allOf": [{"properties": {"x": {"anyOf": [{"format": "date"}, {"const": "abc"}]}}}]},
    ],
)
def test_a_text_that_need_not_be_a_date_has_a_column_of_text(part: dict[str, Any]) -> None:
    rule = {"id": "r", "kind": "range", "field": "/x", "not_before": "2000-01-01"}
    plan = plan_with(schema_of(part, {"type": "string"}), rules=[rule])
    assert plan.columns.field("x").type == pa.string()
    records = pa.array([b'{"k":"s","x":"abc"}', b'{"k":"n","x":"1999-01-01"}'])
    assert plan.judge_typed(records).field("disposition").to_pylist() == [
        Disposition.ACCEPTED,
        Disposition.QUARANTINED,
    ]


@pytest.mark.parametrize(
    "schema",
    [
        schema_of({"if": IF_N, "then": INTEGER}, {"type": ["integer", "string"]}),
        {"if": IF_N, "then": INTEGER, "else": STRING},
        {"allOf": [{"if": IF_N, "then": INTEGER}, {"if": IF_N, "else": STRING}]},
    ],
)
@pytest.mark.parametrize("value", ["abc", 1])
def test_a_rule_may_name_a_value_of_any_branch(schema: Any, value: Any) -> None:
    plan_with(schema, rules=[{"id": "r", "kind": "one_of", "field": "/x", "values": [value]}])


def test_a_null_that_only_a_condition_refuses_stays_in_the_record() -> None:
    schema = schema_of({"if": IF_N, "then": INTEGER, "required": ["k", "x"]}, {"type": ["integer", "null"]})
    contract = Contract.parse(contract_with(schema).model_dump_json(by_alias=True, exclude_defaults=True))
    records = [{"k": "s", "x": None}, {"k": "n", "x": None}, {"k": "n", "x": 1}]
    verdicts = contract.judge_table(pa.Table.from_pylist(records)).column("verdict").to_pylist()
    assert [each["accepted"] for each in verdicts] == [True, False, True]
    assert [contract.judge(each).is_accepted for each in records] == [True, False, True]


@pytest.mark.parametrize(
    ("pointer", "schema", "record"),
    [
        ("/x/*", {"prefixItems": [{"type": "integer"}]}, b'{"x":[1,0.5]}'),
        ("/x/*", {"additionalProperties": {"type": "integer"}, "items": {"type": "number"}}, b'{"x":[0.5]}'),
        ("/x/0", {"items": {"type": "integer"}}, b'{"x":{"0":0.5}}'),
    ],
)
def test_an_element_that_nothing_declares_may_be_of_any_type(
    pointer: str, schema: Any, record: bytes
) -> None:
    plan = plan_with({"properties": {"x": schema}})
    assert plan.judge(pa.array([record])).field("disposition").to_pylist() == [Disposition.ACCEPTED]
    found = schema_fields(plan.contract).find(pointer)
    assert found is not None
    assert "number" in found.possible


@pytest.mark.parametrize(
    ("draft", "x"),
    [
        ("http://json-schema.org/draft-07/schema#", {"$ref": "#/definitions/any", "type": "integer"}),
        ("http://json-schema.org/draft-06/schema#", {"if": {}, "then": {"type": "integer"}, "else": False}),
        ("http://json-schema.org/draft-04/schema#", {"const": 1}),
        ("https://json-schema.org/draft/2019-09/schema", {"prefixItems": [False]}),
    ],
)
def test_a_keyword_that_the_draft_ignores_narrows_nothing(draft: str, x: Any) -> None:
    plan = plan_with({"$schema": draft, "definitions": {"any": {}}, "properties": {"x": x}})
    assert plan.columns.field("x").type == pa.string()
    judged = plan.judge_typed(pa.array([b'{"x":"abc"}', b'{"x":[1]}']))
    assert judged.field("disposition").to_pylist() == [Disposition.ACCEPTED, Disposition.ACCEPTED]


def test_a_dynamic_reference_may_lead_elsewhere() -> None:
    """Here, to the schema of the whole record, in which `x` is free."""
    members = {**INTEGER["properties"], "child": {"$recursiveRef": "#"}}
    plan = plan_with(
        {
            "$schema": "https://json-schema.org/draft/2019-09/schema",
            "$id": "urn:whole",
            "$recursiveAnchor": True,
            "properties": {"p": {"$ref": "urn:node"}},
            "$defs": {"node": {"$id": "urn:node", "$recursiveAnchor": True, "properties": members}},
        }
    )
    records = pa.array([b'{"p":{"x":1,"child":{"x":"abc"}}}'])
    assert plan.judge(records).field("disposition").to_pylist() == [Disposition.ACCEPTED]
    found = schema_fields(plan.contract).find("/p/child/x")
    assert found is not None
    assert "string" in found.possible


def test_a_field_of_any_depth_is_declared_if_one_of_its_places_declares_it() -> None:
    start = {"properties": {"start": {"type": "integer"}}}
    for periods in ([start, True], [True, start], [start, False]):
        parts = {f"p{index}": {"properties": {"period": each}} for index, each in enumerate(periods)}
        assert JsonFields({"properties": parts}).find("/**/period/start") is not None


@pytest.mark.parametrize("time", ["date", "date-time", "date-time-local", "duration"])
@pytest.mark.parametrize("part", [{}, {"allOf": [{"type": ["integer", "null"]}]}])
def test_a_format_says_nothing_of_an_integer(time: str, part: dict[str, Any]) -> None:
    x = {"type": ["integer", "null"], "format": time} if not part else {"format": time, **part}
    plan = plan_with(
        {"properties": {"x": x}}, rules=[{"id": "r", "kind": "range", "field": "/x", "minimum": 5}]
    )
    judged = plan.judge_typed(pa.array([b'{"x":5}', b'{"x":4}', b'{"x":null}'])).field("disposition")
    assert judged.to_pylist() == [Disposition.ACCEPTED, Disposition.QUARANTINED, Disposition.ACCEPTED]
    assert plan.columns.field("x").type == pa.int64()
