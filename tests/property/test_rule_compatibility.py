"""What a comparison says of rules, random records never contradict; what it shows, both plans judge so."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pyarrow as pa
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.marks import examples
from tidegate.contracts.compatibility.compare import compare
from tidegate.contracts.compatibility.finding import Comparison, Direction, FindingSeverity
from tidegate.contracts.compatibility.rule_schemas import schema_of_rule
from tidegate.contracts.document.model import Compatibility, DataContract
from tidegate.contracts.errors import ContractError
from tidegate.contracts.formats.json_fields import JsonFields
from tidegate.contracts.inclusion.answer import Outcome
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.verdict import Disposition, Stage

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "i": {"type": ["integer", "null"]},
        "n": {"type": "number", "maximum": 50},
        "s": {"type": "string"},
        "b": {"type": "boolean"},
        "d": {"type": "string", "format": "date"},
        "e": {"type": ["string", "null"], "format": "date"},
        "m": {"type": ["integer", "string"]},
    },
    "required": ["n"],
}

whole = st.integers(-3, 3)
decimal = st.sampled_from([-1.5, -1, 0, 0.5, 1, 1.5, 2])
text = st.sampled_from(["", "a", "b", "ab", "ba"])
day = st.sampled_from(["1999-12-31", "2000-01-01", "2000-01-02", "2000-01-03"])
VALUES = {
    "i": whole,
    "n": decimal,
    "s": text,
    "d": day,
    "e": day,
    "b": st.booleans(),
    "m": st.one_of(whole, text),
}
PATTERNS = ["^a", "^ab?$", "b$", "^[ab]*$", "a|b", "^$"]
EXPRESSIONS = [
    "this.n < 1.5",
    "this.n <= 1.5",
    "this.i > 0",
    "this.s == 'a' || this.n > 0.0",
    "size(this.s) < 2",
    "has(this.i)",
]


def listed(field: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["forbidden", "one_of"]),
            "field": st.just(f"/{field}"),
            "values": st.lists(VALUES[field], min_size=1, max_size=3),
        }
    )


def bounded(
    field: str, names: tuple[str, ...], values: st.SearchStrategy[Any]
) -> st.SearchStrategy[dict[str, Any]]:
    lower, upper = names[:2], names[2:]
    bounds = st.tuples(
        st.one_of(st.none(), st.tuples(st.sampled_from(lower), values)),
        st.one_of(st.none(), st.tuples(st.sampled_from(upper), values)),
    )
    return bounds.map(
        lambda pair: {"kind": "range", "field": f"/{field}"} | dict(each for each in pair if each is not None)
    )


NUMBERS = ("minimum", "exclusive_minimum", "maximum", "exclusive_maximum")
TIMES = ("not_before", "after", "not_after", "before")
conditions = st.one_of(
    whole.map(lambda value: {"equals": value}),
    st.lists(whole, min_size=1, max_size=2).map(lambda values: {"one_of": values}),
    st.just({"present": True}),
)
kinds = st.one_of(
    st.sampled_from("insdebm").flatmap(listed),
    st.sampled_from("in").flatmap(lambda field: bounded(field, NUMBERS, whole if field == "i" else decimal)),
    st.sampled_from("de").flatmap(lambda field: bounded(field, TIMES, day)),
    st.sampled_from(PATTERNS).map(lambda pattern: {"kind": "matches", "field": "/s", "pattern": pattern}),
    st.booleans().map(lambda strict: {"kind": "ordered", "fields": ["/d", "/e"], "strict": strict}),
    conditions.map(lambda when: {"kind": "required_when", "field": "/s", "when": {"field": "/i", **when}}),
    st.sampled_from(EXPRESSIONS).map(lambda expression: {"kind": "cel", "expr": expression}),
)
rules = st.builds(
    lambda rule, nulls, severity: {**rule, "nulls": nulls, "severity": severity},
    kinds,
    st.sampled_from(["pass", "pass", "violate"]),
    st.sampled_from(["error", "error", "error", "warning"]),
)
records = st.fixed_dictionaries(
    {"n": decimal},
    optional={
        name: st.one_of(values, st.none()) if name in "ie" else values
        for name, values in VALUES.items()
        if name != "n"
    },
)


def contract_of(*parts: dict[str, Any], **others: Any) -> DataContract:
    return DataContract.model_validate(
        {
            "apiVersion": "tidegate/v1",
            "kind": "DataContract",
            "id": "a.b",
            "version": "1.0.0",
            "topic": "a.b",
            "schema": {"type": "json-schema", "definition": SCHEMA},
            "columns": [{"name": "n", "from": "/n", "type": "double"}],
            "rules": [{"id": f"r{index}"} | rule for index, rule in enumerate(parts)],
            **others,
        }
    )


def compiled(contract: DataContract) -> EnforcementPlan:
    try:
        return compile_plan(contract)
    except ContractError:
        assume(condition=False)
        raise


def written(plan: EnforcementPlan, values: list[bytes]) -> list[bool]:
    verdicts = plan.judge(pa.array(values, pa.binary()))
    return [Disposition(code).is_written for code in verdicts.field("disposition").to_pylist()]


def breaks(comparison: Comparison, direction: Direction) -> bool:
    return any(
        each.direction is direction
        for each in comparison.findings
        if each.severity is FindingSeverity.BREAKING
    )


near = st.lists(rules, max_size=3).flatmap(
    lambda before: st.tuples(
        st.just(before),
        st.lists(st.one_of(*[st.just(rule) for rule in before], rules) if before else rules, max_size=3),
    )
)


@settings(max_examples=examples(80), deadline=None)
@given(near, st.lists(records, min_size=30, max_size=60))
def test_no_record_contradicts_a_comparison(
    pair: tuple[list[dict[str, Any]], list[dict[str, Any]]], batch: list[dict[str, Any]]
) -> None:
    base, candidate = (contract_of(*side) for side in pair)
    plans = compiled(base), compiled(candidate)
    comparison = compare(base, candidate, level=Compatibility.FULL)
    before, after = (written(plan, [json.dumps(record).encode() for record in batch]) for plan in plans)
    for record, was_written, is_written in zip(batch, before, after, strict=True):
        if was_written and not is_written:
            assert breaks(comparison, Direction.BACKWARD), record
        if is_written and not was_written:
            assert breaks(comparison, Direction.FORWARD), record


@settings(max_examples=examples(100), deadline=None)
@given(near)
def test_every_counterexample_is_judged_so_by_both_plans(
    pair: tuple[list[dict[str, Any]], list[dict[str, Any]]],
) -> None:
    base, candidate = (contract_of(*side) for side in pair)
    plans = {Direction.BACKWARD: (compiled(base), compiled(candidate))}
    plans[Direction.FORWARD] = plans[Direction.BACKWARD][::-1]
    for finding in compare(base, candidate, level=Compatibility.FULL).findings:
        if finding.severity is FindingSeverity.BREAKING:
            assert (finding.counterexample is not None) == (finding.outcome is Outcome.REFUTED)
        if finding.counterexample is not None:
            assert finding.direction is not None
            judged = [
                written(plan, [finding.counterexample.text.encode()]) for plan in plans[finding.direction]
            ]
            assert judged == [[True], [False]]


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(rules, max_size=4))
def test_the_same_rules_give_no_finding(parts: list[dict[str, Any]]) -> None:
    contract = contract_of(*parts)
    compiled(contract)
    assert compare(contract, contract_of(*parts), level=Compatibility.FULL).findings == ()


@settings(max_examples=examples(300), deadline=None)
@given(rules.filter(lambda rule: rule["kind"] not in {"ordered", "required_when", "cel"}), records)
def test_a_rule_written_as_a_schema_is_kept_by_the_same_records(
    rule: dict[str, Any], record: dict[str, Any]
) -> None:
    contract = contract_of({**rule, "severity": "error"})
    plan = compiled(contract)
    schema = schema_of_rule(contract.rules[0], JsonFields(SCHEMA))
    if schema is not None:
        value = json.dumps(record).encode()
        broken = any(violation.stage is Stage.RULE for violation in plan.explain(value).violations)
        assert jsonschema_rs.is_valid(schema, record) == (not broken)
