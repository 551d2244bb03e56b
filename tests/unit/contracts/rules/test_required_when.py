"""Fields that another field requires: conditions on its value, and on its having another value than one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.contracts.rules.test_times import contract_of, holds, plan_of
from tidegate.contracts.compatibility.compare import compare
from tidegate.contracts.document.model import Compatibility
from tidegate.contracts.errors import ContractError

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "status": {"type": ["string", "null"]},
        "reason": {"type": ["string", "null"]},
        "born": {"type": "string", "format": "date"},
    },
}
UNLESS_DONE = {
    "kind": "required_when",
    "field": "/reason",
    "when": {"field": "/status", "not_equals": "done"},
}


@pytest.mark.parametrize(
    ("record", "is_valid"),
    [
        ({"status": "done"}, True),
        ({"status": "failed"}, False),
        ({"status": "failed", "reason": "disk full"}, True),
        ({"status": "failed", "reason": None}, False),
        ({"status": None}, True),
        ({}, True),
    ],
)
def test_another_value_than_one_requires_the_field(record: dict[str, Any], is_valid: bool) -> None:
    assert holds(plan_of(UNLESS_DONE, schema=SCHEMA), record) is is_valid


def test_a_moment_is_the_same_in_every_text() -> None:
    schema = {
        **SCHEMA,
        "properties": {**SCHEMA["properties"], "at": {"type": "string", "format": "date-time"}},
    }
    when = {"field": "/at", "not_equals": "2024-01-01T00:00:00Z"}
    plan = plan_of({"kind": "required_when", "field": "/reason", "when": when}, schema=schema)
    assert holds(plan, {"at": "2024-01-01T01:00:00+01:00"})
    assert not holds(plan, {"at": "2024-01-01T01:00:00Z"})


@pytest.mark.parametrize(
    ("when", "problem"),
    [
        ({"not_equals": None}, "/rules/0/when/not_equals: null is no value"),
        ({"not_equals": True}, "the field never holds a boolean"),
    ],
)
def test_a_value_that_the_field_never_has_is_a_mistake(when: dict[str, Any], problem: str) -> None:
    rule = {**UNLESS_DONE, "when": {"field": "/status", **when}}
    with pytest.raises(ContractError) as caught:
        plan_of(rule, schema=SCHEMA)
    assert problem in "; ".join(f"{each.pointer}: {each.message}" for each in caught.value.problems)


def test_versions_compare() -> None:
    old = contract_of(UNLESS_DONE, schema=SCHEMA)
    other = contract_of({**UNLESS_DONE, "when": {"field": "/status", "not_equals": "closed"}}, schema=SCHEMA)
    assert compare(old, old, level=Compatibility.FULL).is_compatible
    assert not compare(old, other, level=Compatibility.BACKWARD).is_compatible
    assert compare(old, contract_of(schema=SCHEMA), level=Compatibility.BACKWARD).is_compatible


def test_a_refusal_names_the_value_and_both_ways_out() -> None:
    plan = plan_of(UNLESS_DONE, schema=SCHEMA)
    explained = plan.explain(b'{"status": "failed"}', typed=True)
    (violation,) = explained.violations
    assert violation.message == "reason is missing although status calls for it"
