"""Records that break rules and nothing else are judged from their typed rows, with the same verdicts and columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tests import documents
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.verdict import Disposition

SCHEMA = {
    "type": "object",
    "required": ["n"],
    "properties": {
        "n": {"type": "integer"},
        "s": {"type": "string", "pattern": "^[a-z]*$"},
        "o": {"type": "number"},
    },
}
VALUES = [
    b'{"n": 1, "s": "a"}',
    b'{"n": -1, "s": "b"}',
    b'{"n": 999, "s": "c"}',
    b'{"n": -1, "s": "C"}',
    b'{"n": 999, "o": 2.5}',
    b'{"n": 5, "o": 1}',
    b'{"n": "x"}',
    b'{"n": -1, "o": 12345678901234567890}',
]


def plan_of(*rules: dict[str, Any]) -> EnforcementPlan:
    return documents.plan_with(SCHEMA, rules=[{"id": f"r{index}"} | rule for index, rule in enumerate(rules)])


RULES = [
    {"kind": "range", "field": "/n", "minimum": 0, "severity": "warning"},
    {"kind": "forbidden", "field": "/n", "values": [999]},
    {"kind": "cel", "expr": "!has(this.o) || this.o > 1.5"},
]


def judged_rows(plan: EnforcementPlan) -> list[int]:
    assert documents.fast_path(plan).acceptance is not None
    (block,) = documents.fast_path(plan).acceptance.blocks(pa.array(VALUES))
    return [position for position, _ in block.broken]


def test_the_verdict_is_known_without_decoding_again() -> None:
    assert judged_rows(plan_of(*RULES)) == [1, 2, 4, 5]


def test_verdicts_and_columns_are_those_of_the_exact_way() -> None:
    plan = plan_of(*RULES)
    judged = plan.judge_typed(pa.array(VALUES)).to_pylist()
    assert [each["disposition"] for each in judged] == [
        plan.explain(value, typed=True).disposition for value in VALUES
    ]
    assert [each["disposition"] for each in plan.judge(pa.array(VALUES)).to_pylist()] == [
        plan.explain(value).disposition for value in VALUES
    ]
    assert judged[1]["disposition"] == Disposition.WARNED
    assert judged[1]["columns"] == {"n": -1, "s": "b", "o": None}
    assert judged[2]["columns"] is None
    codes = [{slot.code for slot in plan.failed_slots(each["failed"])} for each in judged]
    assert codes[:6] == [set(), {"r0"}, {"r1"}, {"r0", "schema"}, {"r1"}, {"r2"}]


def test_a_rule_for_the_library_alone_leaves_the_record_to_it() -> None:
    library = {"kind": "cel", "expr": "[1].all(x, x == 1)"}
    assert judged_rows(plan_of(*RULES, library)) == []
    assert judged_rows(plan_of({"kind": "cel", "expr": "this.n >= 0", "nulls": "violate"})) == [1]
