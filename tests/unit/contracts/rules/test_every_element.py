"""Rules about every element of an array: which values they see, and where they say that a record is wrong."""

from __future__ import annotations

import copy
import io
import json
from typing import Any, get_args

import fastavro
import pyarrow as pa
import pytest

from tidegate.contracts.compatibility.compare import compare
from tidegate.contracts.compatibility.finding import Direction
from tidegate.contracts.document.model import Compatibility, DataContract
from tidegate.contracts.document.rule_model import Rule
from tidegate.contracts.errors import ContractError
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.rules.places import go_together, located, places
from tidegate.contracts.verdict import Disposition

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "kind": {"type": "string"},
        "ordered_on": {"type": "string", "format": "date"},
        "codes": {"type": "array", "items": {"type": ["string", "null"]}},
        "matrix": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
        "pair": {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}},
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "price": {"type": ["number", "null"]},
                    "from": {"type": "string", "format": "date"},
                    "to": {"type": "string", "format": "date"},
                    "reason": {"type": "string"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
            },
        },
        "stops": {"type": "array", "items": {"type": "object", "properties": {"at": {"type": "integer"}}}},
        "address": {"type": "object", "properties": {"postcode": {"type": "string"}}},
    },
}


def contract_of(*rules: dict[str, Any], schema: Any = SCHEMA, kind: str = "json-schema") -> DataContract:
    return DataContract.model_validate(
        {
            "apiVersion": "tidegate/v1",
            "kind": "DataContract",
            "id": "shop.orders",
            "version": "1.0.0",
            "topic": "shop.orders",
            "schema": {"type": kind, "definition": schema},
            "columns": [],
            "rules": [{"id": f"rule-{index}"} | rule for index, rule in enumerate(rules)],
        }
    )


def plan_of(*rules: dict[str, Any]) -> EnforcementPlan:
    return compile_plan(contract_of(*rules))


def places_broken(plan: EnforcementPlan, record: Any) -> list[str]:
    """Judge in every way, and give the places that are named."""
    value = json.dumps(record).encode()
    verdict = plan.explain(value)
    (judged,) = plan.judge(pa.array([value])).to_pylist()
    assert judged["disposition"] == verdict.disposition
    (typed,) = plan.judge_typed(pa.array([value])).to_pylist()
    assert typed["disposition"] == verdict.disposition
    return [violation.pointer for violation in verdict.violations]


def low(field: str, **others: Any) -> dict[str, Any]:
    return {"kind": "range", "field": field, "minimum": 0, **others}


@pytest.mark.parametrize(
    ("rule", "record", "expected"),
    [
        (low("/lines/*/price"), {"lines": [{"price": 1}, {"price": -1}, {}, {"price": -0.5}]}, ["/lines/1/price", "/lines/3/price"]),
        (low("/lines/*/price"), {"lines": []}, []),
        (low("/lines/*/price"), {}, []),
        (low("/lines/*/price", nulls="violate"), {}, ["/lines/*/price"]),
        (low("/lines/*/price", nulls="violate"), {"lines": []}, []),
        (low("/lines/*/price", nulls="violate"), {"lines": [{"price": None}, {"price": 2}]}, ["/lines/0/price"]),
        (low("/matrix/*/*"), {"matrix": [[1, 2], [], [3, -1]]}, ["/matrix/2/1"]),
        (low("/pair/*"), {"pair": ["x", -1, 1]}, ["/pair/1"]),
        (low("/lines/0/price"), {"lines": [{"price": -1}, {"price": -2}]}, ["/lines/0/price"]),
        ({"kind": "matches", "field": "/codes/*", "pattern": "^[A-Z]$"}, {"codes": ["A", "b", None]}, ["/codes/1"]),
        ({"kind": "forbidden", "field": "/lines/*/tags/*", "values": ["x"]}, {"lines": [{"tags": ["a"]}, {}, {"tags": ["x"]}]}, ["/lines/2/tags/0"]),
        ({"kind": "one_of", "field": "/address/postcode", "values": ["x"]}, {"address": {"postcode": "y"}}, ["/address/postcode"]),
        (
            {"kind": "ordered", "fields": ["/lines/*/from", "/lines/*/to"]},
            {"lines": [{"from": "2024-01-02", "to": "2024-01-01"}, {"from": "2024-01-01", "to": "2024-01-02"}, {"from": "2024-01-09"}]},
            ["/lines/0/to"],
        ),
        (
            {"kind": "ordered", "fields": ["/ordered_on", "/lines/*/from"]},
            {"ordered_on": "2024-01-02", "lines": [{"from": "2024-01-03"}, {"from": "2024-01-01"}]},
            ["/lines/1/from"],
        ),
        (
            {"kind": "ordered", "fields": ["/ordered_on", "/lines/*/from", "/lines/*/to"]},
            {"ordered_on": "2024-01-02", "lines": [{"to": "2024-01-01"}]},
            ["/lines/0/to"],
        ),
        (
            {"kind": "required_when", "field": "/lines/*/reason", "when": {"field": "/lines/*/price", "equals": 0}},
            {"lines": [{"price": 0}, {"price": 0, "reason": "gift"}, {"price": 1}]},
            ["/lines/0/reason"],
        ),
        (
            {"kind": "required_when", "field": "/lines/*/reason", "when": {"field": "/kind", "equals": "return"}},
            {"kind": "return", "lines": [{"reason": "broken"}, {}]},
            ["/lines/1/reason"],
        ),
        (
            {"kind": "required_when", "field": "/lines/*/reason", "when": {"field": "/kind", "equals": "return"}},
            {"kind": "return"},
            ["/lines/*/reason"],
        ),
    ],
)  # fmt: skip
def test_the_elements_that_break_a_rule_are_named(rule: Any, record: Any, expected: list[str]) -> None:
    assert expected == places_broken(plan_of(rule), record)


KINDS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"kind": "forbidden", "field": "/lines/*/price", "values": [999]}, {"price": 1}, {"price": 999}),
    ({"kind": "forbidden", "field": "/lines/*/reason", "set": "names"}, {"reason": "c"}, {"reason": "b"}),
    ({"kind": "one_of", "field": "/lines/*/reason", "values": ["a"]}, {"reason": "a"}, {"reason": "b"}),
    ({"kind": "one_of", "field": "/lines/*/reason", "set": "names"}, {"reason": "a"}, {"reason": "c"}),
    ({"kind": "matches", "field": "/lines/*/reason", "pattern": "^a"}, {"reason": "ab"}, {"reason": "ba"}),
    ({"kind": "range", "field": "/lines/*/price", "minimum": "0.30000000000000001"}, {"price": 1}, {"price": 0.3}),
    ({"kind": "range", "field": "/lines/*/from", "after": "1900-01-01"}, {"from": "1900-01-02"}, {"from": "1900-01-01"}),
    ({"kind": "range", "field": "/lines/*/took", "maximum": "P1D"}, {"took": "PT24H"}, {"took": "PT25H"}),
    ({"kind": "range", "field": "/lines/*/at", "not_after": "now + 5 minutes"}, {"at": "2001-01-01T00:00:00Z"}, {"at": "2999-01-01T00:00:00Z"}),
    ({"kind": "range", "field": "/lines/*/at", "not_before": "now - P1D", "now": "batch"}, {"at": "2999-01-01T00:00:00Z"}, {"at": "2001-01-01T00:00:00Z"}),
    ({"kind": "freshness", "field": "/lines/*/at", "max_age": "PT15M"}, {"at": "2999-01-01T00:00:00Z"}, {"at": "2001-01-01T00:00:00Z"}),
    ({"kind": "ordered", "fields": ["/lines/*/from", "/lines/*/to"], "strict": True}, {"from": "2024-01-01", "to": "2024-01-02"}, {"from": "2024-01-02", "to": "2024-01-02"}),
    ({"kind": "ordered", "fields": ["/lines/*/from", "/lines/*/at"], "compare_as": "date"}, {"from": "2024-01-01", "at": "2024-01-01T00:00:00Z"}, {"from": "2024-01-02", "at": "2024-01-01T23:00:00Z"}),
    ({"kind": "required_when", "field": "/lines/*/reason", "when": {"field": "/lines/*/price", "one_of": [0, 1]}}, {"price": 1, "reason": "x"}, {"price": 1}),
    ({"kind": "required_when", "field": "/lines/*/reason", "when": {"field": "/lines/*/price", "present": True}}, {"price": None}, {"price": 1}),
    ({"kind": "cel", "field": "/lines/*/price", "expr": "value != null && value > 0.0"}, {"price": 1}, {"price": -1}),
    ({"kind": "cel", "field": "/lines/*/price", "expr": "has(parent.reason) || value > 0.0"}, {"price": -1, "reason": "x"}, {"price": -1}),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "holds", "breaks"), KINDS)
def test_every_kind_of_rule_is_asked_of_every_element(rule: Any, holds: Any, breaks: Any) -> None:
    definition = copy.deepcopy(SCHEMA)
    definition["properties"]["lines"]["items"]["properties"] |= {
        "at": {"type": "string", "format": "date-time"},
        "took": {"type": "string", "format": "duration"},
    }
    document = contract_of(rule, schema=definition).model_dump(by_alias=True, exclude_defaults=True)
    document["reference_sets"] = {"names": {"values": ["a", "b"]}}
    plan = compile_plan(DataContract.model_validate(document))
    field = rule.get("field", rule.get("fields", [""])[-1])
    assert places_broken(plan, {"lines": [holds, holds]}) == []
    assert places_broken(plan, {"lines": [holds, breaks, holds, breaks]}) == [
        field.replace("*", "1"),
        field.replace("*", "3"),
    ]


def test_no_kind_of_rule_is_missing_from_the_table() -> None:
    known = {each.model_fields["kind"].annotation.__args__[0] for each in get_args(get_args(Rule)[0])}
    assert {rule["kind"] for rule, _, _ in KINDS} == known


def test_a_missing_field_is_distinguished_from_a_wrong_one() -> None:
    plan = plan_of(low("/lines/*/price", nulls="violate"))
    verdict = plan.explain(b'{"lines": [{"price": -1}, {}]}')
    assert [violation.message for violation in verdict.violations] == [
        "lines/*/price is outside its range (minimum 0)",
        "lines/*/price is missing or null",
    ]


def test_a_record_gets_a_few_of_its_places_and_never_a_value() -> None:
    record = {"lines": [{"price": -98765.25 - index} for index in range(50)]}
    plan = plan_of(low("/lines/*/price"))
    assert places_broken(plan, record) == [f"/lines/{index}/price" for index in range(10)]
    assert "9876" not in repr(plan.explain(json.dumps(record).encode()))


def test_a_member_may_be_named_star() -> None:
    schema = {"type": "object", "properties": {"*": {"type": "integer"}}}
    plan = compile_plan(contract_of(low("/*"), schema=schema))
    assert places_broken(plan, {"*": -1}) == ["/*"]
    assert places_broken(plan, {"*": 1}) == []


def test_the_elements_of_an_avro_array_are_read() -> None:
    schema = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [{"name": "price", "type": ["null", "double"]}]}}},
        ],
    }  # fmt: skip
    plan = compile_plan(contract_of(low("/lines/*/price"), schema=schema, kind="avro"))
    file = io.BytesIO()
    record = {"lines": [{"price": 1.0}, {"price": None}, {"price": -1.0}]}
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema), record)
    verdict = plan.explain(file.getvalue())
    assert [violation.pointer for violation in verdict.violations] == ["/lines/2/price"]
    (judged,) = plan.judge(pa.array([file.getvalue()])).to_pylist()
    assert judged["disposition"] == Disposition.QUARANTINED


@pytest.mark.parametrize(
    ("rule", "place", "message"),
    [
        (low("/lines/*/prise"), "/field", "the schema declares no field `/lines/*/prise`; did you mean `/lines/*/price`?"),
        (low("/line/*/price"), "/field", "the schema declares no field `/line/*/price`; did you mean `/lines/*/price`?"),
        (low("/address/*"), "/field", "the schema declares no field `/address/*`; `/address` is no array"),
        (low("/codes/*"), "/field", "the field never holds a number: its type in the schema is null or string"),
        (
            {"kind": "ordered", "fields": ["/lines/*/price", "/stops/*/at"]},
            "/fields/1",
            "`/stops/*/at` and `/lines/*/price` go through different arrays; a rule reads fields of one element, and of what holds it",
        ),
        (
            {"kind": "required_when", "field": "/lines/*/reason", "when": {"field": "/stops/*/at", "present": True}},
            "/when/field",
            "`/stops/*/at` and `/lines/*/reason` go through different arrays; a rule reads fields of one element, and of what holds it",
        ),
    ],
)  # fmt: skip
def test_a_path_that_leads_nowhere_is_refused(rule: Any, place: str, message: str) -> None:
    with pytest.raises(ContractError) as caught:
        plan_of(rule)
    assert [(each.pointer, each.message) for each in caught.value.problems] == [(f"/rules/0{place}", message)]


def test_a_column_takes_no_element() -> None:
    columns = {"columns": [{"name": "price", "from": "/lines/*/price", "type": "double"}]}
    document = contract_of().model_dump(by_alias=True, exclude_defaults=True) | columns
    with pytest.raises(ContractError) as caught:
        compile_plan(DataContract.model_validate(document))
    (problem,) = caught.value.problems
    assert problem.pointer == "/columns/0/from"
    assert (
        problem.message == "a column holds one value, and `*` stands for many; take `/lines` whole, as json"
    )


def test_paths_go_together_through_the_same_arrays() -> None:
    assert go_together([("a", "*", "b"), ("a", "*", "c"), ("d",)])
    assert go_together([("a", "*", "b", "*"), ("a", "*", "c")])
    assert not go_together([("a", "*", "b"), ("c", "*", "b")])
    assert not go_together([("a", "*", "b", "*"), ("a", "*", "c", "*")])


def test_places_have_the_values_of_each_element_together() -> None:
    record = {"c": 1, "a": [{"b": 2, "d": [3]}, {"d": [4, 5]}]}
    paths = [("c",), ("a", "*", "b"), ("a", "*", "d", "*")]
    found = list(places(record, paths))
    assert found == [(("0", "0"), (1, 2, 3)), (("1", "0"), (1, None, 4)), (("1", "1"), (1, None, 5))]
    assert located(paths[1], ("1", "0")) == ("a", "1", "b")


def test_a_tightened_rule_about_elements_is_shown_by_a_record() -> None:
    base, candidate = contract_of(low("/lines/*/price")), contract_of(low("/lines/*/price") | {"minimum": 1})
    (finding,) = [
        each
        for each in compare(base, candidate, level=Compatibility.BACKWARD).findings
        if each.direction is Direction.BACKWARD
    ]
    assert finding.code == "rule.tightened"
    assert finding.counterexample is not None
    value = finding.counterexample.text.encode()
    assert compile_plan(base).explain(value).disposition is Disposition.ACCEPTED
    assert compile_plan(candidate).explain(value).disposition is Disposition.QUARANTINED


def test_an_order_of_two_fields_does_not_follow_from_one_through_elements() -> None:
    fields = ["/ordered_on", "/lines/*/from"]
    base = contract_of({"kind": "ordered", "fields": [*fields, "/lines/*/to"]})
    assert compare(
        base, contract_of({"kind": "ordered", "fields": fields}), level=Compatibility.BACKWARD
    ).is_compatible
    outer = contract_of({"kind": "ordered", "fields": ["/ordered_on", "/lines/0/to"]})
    assert not compare(base, outer, level=Compatibility.BACKWARD).is_compatible
