"""Rules about moments say the same in every way of judging, and what exact arithmetic on the moments says."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pyarrow as pa
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests import documents
from tests.marks import examples
from tidegate.contracts.document.times import instant_key, instant_text
from tidegate.contracts.errors import ContractError
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.rules.clock import Moments, offset_of_now
from tidegate.contracts.verdict import Stage

NOW = 1_704_067_200 * 10**9
texts = st.one_of(
    st.sampled_from(
        [
            "2024-01-01T00:00:00Z",
            "2024-01-01T00:00:01Z",
            "2023-12-31T23:59:60Z",
            "2023-12-31T23:59:59Z",
            "2024-01-01t00:00:00z",
            "2024-01-01T00:00:00.5Z",
            "2024-01-01T01:00:00+01:00",
            "2023-12-31T23:00:00-01:00",
            "2024-13-01T00:00:00Z",
            "2024-01-01T00:00:0xZ",
            "0000-01-01T00:00:00Z",
            "9999-12-31T23:59:59Z",
            "2024-01-01 00:00:00Z",
            "2024-01-01T00:00:00",
        ]
    ),
    st.datetimes().map(lambda moment: moment.replace(microsecond=0).isoformat() + "Z"),
)
relative = st.sampled_from(["now", "now + 1 second", "now - 1 second", "now - P1D"])
bounds = st.one_of(texts.filter(lambda text: instant_key(text) is not None), relative)
rules = st.fixed_dictionaries(
    {"kind": st.just("range"), "field": st.sampled_from(["/at", "/**/at"])},
    optional={
        "not_before": bounds,
        "before": bounds,
        "nulls": st.sampled_from(["pass", "violate"]),
        "now": st.sampled_from(["record", "batch"]),
    },
).filter(lambda rule: {"not_before", "before"} & rule.keys())


def plan_of(rule: dict[str, Any]) -> EnforcementPlan:
    definition = {
        "type": "object",
        "properties": {"at": {"type": ["string", "null"], "format": "date-time"}, "n": {}},
    }
    columns = [{"name": "n", "from": "/n", "type": "json"}]
    return documents.plan_with(definition, formats="annotate", columns=columns, rules=[{"id": "r", **rule}])


def bound_of(text: str, now: int) -> Any:
    offset = offset_of_now(text)
    return instant_key(text) if offset is None else now + offset


@settings(max_examples=examples(300), deadline=None)
@given(rules, st.lists(st.one_of(texts, st.none(), st.just(5)), min_size=1, max_size=5), st.booleans())
def test_a_range_of_moments_is_what_their_order_says(rule: Any, found: list[Any], is_stamped: bool) -> None:
    try:
        plan = plan_of(rule)
    except ContractError:  # nothing lies between the bounds
        assume(condition=False)
    stamps = [NOW // 10**6 + index if is_stamped else None for index in range(len(found))]
    moments = Moments(NOW, pa.array(stamps, pa.timestamp("ms")))
    values = pa.array([json.dumps({"at": each}).encode() for each in found])
    plans = (plan, documents.strict(plan))
    judged = [judge(values, moments) for each in plans for judge in (each.judge, each.judge_typed)]
    together = list(plan.explain_each(values, moments))
    by_slots = list(plan.explain_each(values, moments, failed=judged[0].field("failed")))
    for index, text in enumerate(found):
        is_of_batch = rule.get("now") == "batch" or not is_stamped
        now = NOW if is_of_batch else stamps[index] * 10**6
        moment = instant_key(text) if isinstance(text, str) else None
        is_broken = text is None and rule.get("nulls") == "violate"
        if moment is not None:
            low, high = (
                bound_of(rule[name], now) if name in rule else None for name in ("not_before", "before")
            )
            is_broken = (low is not None and moment < low) or (high is not None and moment >= high)
        for each in judged:
            slots = plan.failed_slots(each.field(1)[index].as_py())
            assert is_broken == any(slot.stage is Stage.RULE for slot in slots), (rule, text)
        alone = Moments(NOW, moments.records.slice(index, 1))
        explained = plan.explain(values[index].as_py(), moments=alone).violations
        assert is_broken == any(violation.stage is Stage.RULE for violation in explained)
        assert together[index].violations == by_slots[index].violations == explained


@settings(max_examples=examples(300), deadline=None)
@given(texts)
def test_a_moment_is_written_as_the_same_moment(text: str) -> None:
    moment, written = instant_key(text), instant_text(text)
    if written is not None:
        assert len(written) == 20
        assert instant_key(written) == moment
    else:
        assert moment is None or Fraction(moment) % 10**9 or moment < -62_135_596_800 * 10**9
