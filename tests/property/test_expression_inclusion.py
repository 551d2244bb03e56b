"""What is proven of two expressions in CEL, no random record contradicts."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import documents
from tests.property.test_cel import EXAMPLES as CEL_EXAMPLES
from tests.property.test_cel import (
    FIELDS,
    SCHEMA,
    constants,
    expressions,
    orders,
    plan_with,
    records,
    scalars,
    value_expressions,
)
from tidegate.contracts.compatibility.expressions import constant_of, refuses_as_much, values_between
from tidegate.contracts.compatibility.rule_schemas import member_of
from tidegate.contracts.document.rule_model import Cel
from tidegate.contracts.formats.json_fields import JsonFields
from tidegate.contracts.formats.json_records import decode_exactly
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.rules.cel import ExpressionResult, outcome_of, tree_of
from tidegate.contracts.rules.cel_syntax import FunctionCall
from tidegate.contracts.verdict import Stage

EXAMPLES = CEL_EXAMPLES // 4
_CONTRACT = documents.contract_with(SCHEMA, formats="annotate")
known = partial(member_of, _CONTRACT, JsonFields(SCHEMA))
_NUMBER = re.compile(r"(?<![\w.'-])-?\d+(?:\.\d+)?(?![\w.'-])")


@st.composite
def pairs(draw: st.DrawFn, some: st.SearchStrategy[str]) -> tuple[str, str]:  # noqa: PLR0911 - one for each change
    """Return two expressions that are near each other."""
    one = draw(some)
    match draw(st.integers(0, 6)):
        case 0:
            return one, draw(some)
        case 1:
            return f"({one}) && ({draw(some)})", one
        case 2:
            return one, f"({draw(some)}) || ({one})"
        case 3:
            other = draw(some)
            return f"!(({one}) || ({other}))", f"!({other}) && !({one})"
        case 4:
            return f"({one}) ? ({draw(some)}) : false", one
    numbers = _NUMBER.findall(one)
    operators = re.findall(r" (?:<=?|>=?|==|!=) ", one)
    if numbers and draw(st.booleans()):
        return one, one.replace(
            draw(st.sampled_from(numbers)), draw(st.sampled_from(["0", "1", "2.0", "5"])), 1
        )
    if operators:
        return one, one.replace(draw(st.sampled_from(operators)), f" {draw(orders)} ", 1)
    return one, f"!!({one})"


def compiled(rule: dict[str, Any]) -> EnforcementPlan | None:
    try:
        return plan_with(rule)
    except Exception:  # noqa: BLE001 - of what compares that does not compare
        return None


def breaks(plan: EnforcementPlan, value: bytes) -> bool | None:
    """Return whether a record breaks the rule; None when the schema refuses it."""
    stages = {violation.stage for violation in plan.explain(value).violations}
    return None if stages - {Stage.RULE} else bool(stages)


def check(rules: tuple[dict[str, Any], dict[str, Any]], some: list[Any]) -> bool:
    old, new = (Cel.model_validate(each) for each in rules)
    if not refuses_as_much(new, [old], known):
        return False
    plans = [compiled(each) for each in rules]
    if plans[0] is None or plans[1] is None:
        return False
    for record in some:
        value = json.dumps(record).encode()
        assert not breaks(plans[1], value) or breaks(plans[0], value), (rules, record)
    return True


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    pairs(expressions),
    st.lists(records, min_size=8, max_size=16),
    st.tuples(*[st.sampled_from(["pass", "violate"])] * 2),
)
def test_no_record_contradicts_that_a_rule_refuses_as_much(
    pair: tuple[str, str], some: list[Any], nulls: tuple[str, str]
) -> None:
    old, new = (
        {"id": "r", "kind": "cel", "expr": expression, "nulls": each}
        for expression, each in zip(pair, nulls, strict=True)
    )
    check((old, new), some)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    pairs(value_expressions),
    st.sampled_from(FIELDS),
    st.lists(records, min_size=8, max_size=16),
    st.tuples(*[st.sampled_from(["pass", "violate"])] * 2),
    st.tuples(*[st.booleans()] * 2),
)
def test_no_record_contradicts_it_for_rules_about_a_field(
    pair: tuple[str, str], field: str, some: list[Any], nulls: tuple[str, str], strict: tuple[bool, bool]
) -> None:
    old, new = (
        {"id": "r", "kind": "cel", "field": field, "expr": expression, "nulls": each, "strict": is_strict}
        for expression, each, is_strict in zip(pair, nulls, strict, strict=True)
    )
    check((old, new), some)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("this.n > 1", "this.n > 0"),
        ("this.i > 1", "this.i >= 2"),
        ("this.z == null || this.z == 'a'", "this.z in ['a', 'b', null] || this.i > 3"),
        ("has(this.o) && this.i > 0", "has(this.o)"),
        ("size(this.s) > 1 && this.i != 3", "size(this.s) > 0"),
        ("this.p.n >= 0.5", "this.p.n > -1"),
    ],
)
@settings(max_examples=10, deadline=None)
@given(some=st.lists(records, min_size=20, max_size=40))
def test_what_is_plainly_looser_is_proven(old: str, new: str, some: list[Any]) -> None:
    rules = tuple({"id": "r", "kind": "cel", "expr": expression} for expression in (old, new))
    assert check((rules[0], rules[1]), some)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(constants, min_size=1, max_size=3), st.lists(orders, min_size=3, max_size=3), scalars)
def test_every_value_answers_as_one_that_stands_for_it(
    texts: list[str], some_orders: list[str], scalar: Any
) -> None:
    trees = [tree_of(Cel(id="r", kind="cel", expr=f"this.n == {text}")) for text in texts]
    read = [constant_of(tree.args[1]) for tree in trees if isinstance(tree, FunctionCall)]
    if None in read:
        return
    value = decode_exactly(json.dumps(scalar).encode())
    found = [
        answers({"x": each.value}, each.text, texts, some_orders)
        for each in values_between(each for each in read if each is not None)
    ]
    assert answers({"x": value}, "{}", texts, some_orders) in found


def answers(
    variables: dict[str, Any], text: str, texts: list[str], some_orders: list[str]
) -> list[ExpressionResult | None]:
    return [
        outcome_of(f"{text.format('dyn(x)')} {order} dyn({constant})", {**variables, "this": {}})
        for constant, order in zip(texts, some_orders, strict=False)
    ]
