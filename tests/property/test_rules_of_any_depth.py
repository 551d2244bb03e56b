"""A rule at any depth is broken where a plain recursive walk says so, in every way of judging."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeGuard

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import documents
from tests.marks import examples
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan

NODE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": "number"},
        "s": {"type": "string"},
        "from": {"type": "integer"},
        "to": {"type": "integer"},
        "inner": {"$ref": "#"},
        "list": {"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"type": "integer"}]}},
    },
}
Walk = Callable[[dict[str, Any]], Iterator[tuple[str, bool]]]
"""Of one object: the places of a rule in it, and whether each is broken."""


def is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def of_n(holder: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    if "n" in holder:
        yield "/n", is_number(holder["n"]) and holder["n"] < 0


def of_s(holder: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    if "s" in holder:
        yield "/s", holder["s"] is None or (isinstance(holder["s"], str) and holder["s"] != "a")


def of_order(holder: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    low, high = holder.get("from"), holder.get("to")
    if "from" in holder or "to" in holder:
        yield "/to", is_number(low) and is_number(high) and low > high


def of_inner(holder: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    inner = holder.get("inner")
    if "inner" in holder:
        n = inner.get("n") if isinstance(inner, dict) else None
        yield "/inner/n", is_number(n) and n < 0


def of_elements(holder: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    elements = holder.get("list")
    for index, each in enumerate(elements if isinstance(elements, list) else ()):
        n = each.get("n") if isinstance(each, dict) else None
        yield f"/list/{index}/n", is_number(n) and n < 0


def of_condition(holder: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    if "s" in holder or "n" in holder:
        yield "/s", holder.get("s") is None and holder.get("n") is not None


RULES: dict[str, tuple[dict[str, Any], Walk]] = {
    "n": ({"kind": "range", "field": "/**/n", "minimum": 0}, of_n),
    "s": ({"kind": "one_of", "field": "/**/s", "values": ["a"], "nulls": "violate"}, of_s),
    "order": ({"kind": "ordered", "fields": ["/**/from", "/**/to"]}, of_order),
    "inner": ({"kind": "range", "field": "/**/inner/n", "minimum": 0}, of_inner),
    "elements": ({"kind": "range", "field": "/**/list/*/n", "minimum": 0}, of_elements),
    "condition": ({"kind": "required_when", "field": "/**/s", "when": {"field": "/**/n", "present": True}}, of_condition),
}  # fmt: skip
PLAN = compile_plan(
    DataContract.model_validate(
        {
            "apiVersion": "tidegate/v1",
            "kind": "DataContract",
            "id": "a.b",
            "version": "1.0.0",
            "topic": "a.b",
            "schema": {"type": "json-schema", "definition": NODE},
            "columns": [{"name": "n", "from": "/n", "type": "double"}],
            "rules": [{"id": name} | rule for name, (rule, _) in RULES.items()],
        }
    )
)
STRICT = documents.strict(PLAN)
scalars = st.sampled_from([None, -1, 0, 1, -0.5, "a", "b", True])


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    members = dict.fromkeys(("n", "s", "from", "to"), scalars) | {
        "inner": inner,
        "list": st.lists(inner, max_size=3) | inner,
        "n/~": inner,
    }
    return st.fixed_dictionaries({}, optional=members)


records = objects(
    st.recursive(scalars, lambda inner: objects(inner) | st.lists(inner, max_size=3), max_leaves=12)
)


def walked(value: Any, at: str, walk: Walk) -> Iterator[str]:
    """Yield the broken places in the order of the record. A name that no schema declares is written as `*`."""
    if isinstance(value, dict):
        yield from (at + place for place, is_broken in walk(value) if is_broken)
        for name, each in value.items():
            yield from walked(each, f"{at}/{name if name in NODE['properties'] else '*'}", walk)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from walked(each, f"{at}/{index}", walk)


def found(plan: EnforcementPlan, value: bytes) -> dict[str, list[str]]:
    """Judge in every way; give the places of each broken rule."""
    places: dict[str, list[str]] = {}
    for violation in plan.explain(value).violations:
        if violation.stage == "rule":
            places.setdefault(violation.code, []).append(violation.pointer)
    for judged in (plan.judge(pa.array([value])), plan.judge_typed(pa.array([value]))):
        (one,) = judged.to_pylist()
        codes = {slot.code for slot in plan.failed_slots(one["failed"]) if slot.stage == "rule"}
        assert codes == set(places)
    return places


@settings(max_examples=examples(500), deadline=None)
@given(records)
def test_the_places_are_those_of_a_recursive_walk(record: Any) -> None:
    value = json.dumps(record).encode()
    expected = {
        name: broken[:10] for name, (_, walk) in RULES.items() if (broken := list(walked(record, "", walk)))
    }
    assert found(PLAN, value) == expected
    assert found(STRICT, value) == expected
