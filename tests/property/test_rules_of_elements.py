"""A rule about every element says what the same rule says about each element by its index, in every way of judging."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import documents
from tests.marks import examples
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.verdict import Disposition

LINE = {
    "type": ["object", "null"],
    "properties": {
        "n": {"type": ["number", "null"]},
        "m": {"type": "integer"},
        "s": {"type": "string"},
        "d": {"type": "string", "format": "date"},
    },
}
PROPERTIES: dict[str, Any] = {
    "n": {"type": "number"},
    "d": {"type": ["string", "null"], "format": "date"},
    "o": {"type": "object", "properties": {"lines": {"type": ["array", "null"], "items": LINE}}},
    "list": {"type": "array", "items": {"type": "integer"}},
}
NUMBERS = [0, 1, 1.0, 2.5, -1, 2**53 + 1, 10**20]
DAYS = ["2024-01-01", "2024-01-02", "2024-02-30"]
RULES: list[dict[str, Any]] = [
    {"kind": "range", "field": "/o/lines/*/n", "minimum": 0.5},
    {"kind": "range", "field": "/o/lines/*/m", "maximum": 1, "nulls": "violate"},
    {"kind": "range", "field": "/list/*", "exclusive_minimum": 0},
    {"kind": "range", "field": "/o/lines/*/d", "after": "2024-01-01"},
    {"kind": "forbidden", "field": "/list/*", "values": [1]},
    {"kind": "one_of", "field": "/o/lines/*/s", "values": ["a", "b"], "nulls": "violate"},
    {"kind": "matches", "field": "/o/lines/*/s", "pattern": "^a"},
    {"kind": "ordered", "fields": ["/n", "/o/lines/*/n"]},
    {"kind": "ordered", "fields": ["/d", "/o/lines/*/d"], "nulls": "violate"},
    {"kind": "ordered", "fields": ["/n", "/o/lines/*/m", "/o/lines/*/n"], "strict": True},
    {"kind": "required_when", "field": "/o/lines/*/s", "when": {"field": "/n", "equals": 1}},
    {"kind": "required_when", "field": "/o/lines/*/s", "when": {"field": "/o/lines/*/m", "present": True}},
    {"kind": "required_when", "field": "/d", "when": {"field": "/list/*", "equals": 1}},
]


def plan_of(*rules: dict[str, Any]) -> EnforcementPlan:
    return compile_plan(
        DataContract.model_validate(
            {
                "apiVersion": "tidegate/v1",
                "kind": "DataContract",
                "id": "a.b",
                "version": "1.0.0",
                "topic": "a.b",
                "schema": {"type": "json-schema", "definition": {"type": "object", "properties": PROPERTIES}},
                "columns": [{"name": "n", "from": "/n", "type": "double"}],
                "rules": [{"id": f"r{index}"} | rule for index, rule in enumerate(rules)],
            }
        )
    )


def through(rule: dict[str, Any]) -> str:
    """Return the array that a rule goes through."""
    return "list" if "/list/*" in json.dumps(rule) else "lines"


@cache
def plan_at(number: int, index: int) -> EnforcementPlan:
    """Compile a rule about one element by its index."""
    return plan_of(json.loads(json.dumps(RULES[number]).replace("/*", f"/{index}")))


EACH = plan_of(*RULES)
STRICT_EACH = documents.strict(EACH)
members = {
    "n": st.one_of(st.none(), st.sampled_from([*NUMBERS, "x"])),
    "m": st.sampled_from([*NUMBERS, None]),
    "s": st.sampled_from(["a", "b", "c", None, 1]),
    "d": st.sampled_from([*DAYS, 5]),
}
lines = st.one_of(st.none(), st.just("x"), st.fixed_dictionaries({}, optional=members))
records = st.fixed_dictionaries(
    {},
    optional={
        "n": st.sampled_from([*NUMBERS, None]),
        "d": st.sampled_from([*DAYS, None]),
        "o": st.one_of(
            st.none(),
            st.fixed_dictionaries(
                {}, optional={"lines": st.one_of(st.none(), st.just("x"), st.lists(lines, max_size=3))}
            ),
        ),
        "list": st.one_of(st.none(), st.lists(st.sampled_from([0, 1, 2, "x", None]), max_size=3)),
    },
)


def broken(plan: EnforcementPlan, value: bytes) -> set[str]:
    verdict = plan.explain(value)
    (judged,) = plan.judge(pa.array([value])).to_pylist()
    (typed,) = plan.judge_typed(pa.array([value])).to_pylist()
    codes = {violation.code for violation in verdict.violations if violation.stage == "rule"}
    assert {slot.code for slot in plan.failed_slots(judged["failed"]) if slot.stage == "rule"} == codes
    assert judged["disposition"] == verdict.disposition
    assert Disposition(typed["disposition"]) >= verdict.disposition
    return codes


@settings(max_examples=examples(300), deadline=None)
@given(records)
def test_a_rule_about_each_element_is_broken_where_one_about_an_element_is(record: Any) -> None:
    value = json.dumps(record).encode()
    found = broken(EACH, value)
    assert found == broken(STRICT_EACH, value)
    places = {violation.pointer for violation in EACH.explain(value).violations}
    for number, rule in enumerate(RULES):
        holder = record if through(rule) == "list" else record.get("o")
        array = holder.get(through(rule)) if isinstance(holder, dict) else None
        count = len(array) if isinstance(array, list) else 1
        wrong = [index for index in range(count) if broken(plan_at(number, index), value)]
        assert (f"r{number}" in found) == bool(wrong), (rule, wrong)
        if isinstance(array, list):
            field = rule.get("field") or rule["fields"][-1]
            assert {field.replace("/*", f"/{index}") for index in wrong} <= places


def test_the_quick_way_takes_good_elements() -> None:
    good = {
        "n": 0,
        "d": "2024-01-01",
        "o": {"lines": [{"n": 2, "m": 1, "s": "a", "d": "2024-01-02"}]},
        "list": [2],
    }
    acceptance = documents.fast_path(EACH).acceptance
    assert acceptance is not None
    values = [json.dumps(record).encode() for record in (good, good | {"list": [2, 1]})]
    (block,) = acceptance.blocks(pa.array(values, pa.binary()))
    assert [position for position, _, _ in block.others] == [1]
