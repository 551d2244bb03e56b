"""Rules that are CEL expressions, in a comparison: proven looser, refuted by a record, or undetermined."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import documents
from tidegate.contracts.compatibility import expressions
from tidegate.contracts.compatibility.compare import compare
from tidegate.contracts.compatibility.expressions import MAX_STEPS, refuses_as_much
from tidegate.contracts.compatibility.finding import Direction, FindingSeverity
from tidegate.contracts.document.model import Compatibility
from tidegate.contracts.document.rule_model import Cel
from tidegate.contracts.inclusion.answer import Outcome
from tidegate.contracts.inclusion.json_schema.prover import Budget

from .conftest import CEL, QUOTIENT, Rule, compared, separates

TIGHTER_EXPRESSIONS = [
    ("this.age < 100", "this.age < 90"),
    ("this.age < 100", 'this.age < 100 && this.ward != "icu"'),
    ("this.weight + 1.0 < 10.0", "this.weight + 2.0 < 10.0"),
    ("this.ward in ['icu', 'surgery']", "this.ward in ['icu']"),
    ("size(this.code) < 5", "size(this.code) < 4"),
    ("this.weight != 1.5", "this.weight > 1.5"),
]


@pytest.mark.parametrize(("loose", "tight"), TIGHTER_EXPRESSIONS)
def test_expressions_are_distinguished_by_their_constants(make_contract: Any, loose: str, tight: str) -> None:
    old, new = make_contract({"kind": "cel", "expr": loose}), make_contract({"kind": "cel", "expr": tight})
    for base, candidate, direction in ((old, new, Direction.BACKWARD), (new, old, Direction.FORWARD)):
        findings = {
            each.direction: each for each in compare(base, candidate, level=Compatibility.FULL).findings
        }
        assert findings[direction].outcome is Outcome.REFUTED
        assert separates(base, candidate, findings[direction])


LOOSER_EXPRESSIONS = [
    ("a lower bound", "this.age > 5", "this.age > 3"),
    ("a bound of fractions", "this.weight >= 1.5", "this.weight >= 1"),
    ("a bound within", "this.age > 5", "this.age > 5 - 2 || this.age > 4"),
    ("a conjunct less", "this.age > 5 && size(this.code) < 4", "this.age > 5"),
    ("the other conjunct less", "this.age > 5 && size(this.code) < 4", "size(this.code) < 4"),
    ("an alternative more", "this.age > 5", "this.age > 5 || this.ward == 'icu'"),
    ("a longer list", "this.ward in ['icu']", "this.ward in ['icu', 'surgery']"),
    ("a list for a value", "this.ward == 'icu'", "this.ward in ['icu', 'surgery']"),
    ("a sentinel less", "this.age != 999 && this.age != 998", "!(this.age in [999])"),
    ("a longer text", "size(this.code) <= 4", "size(this.code) < 6"),
    ("a later text", "this.code < 'm'", "this.code < 'n'"),
    ("a moment", "timestamp(this.at) > timestamp('2020-01-01T00:00:00Z')", "timestamp(this.at) >= timestamp('2019-01-01T00:00:00Z')"),
    ("a span", "timestamp(this.at) - timestamp(this.at2) < duration('24h')", "timestamp(this.at) - timestamp(this.at2) < duration('48h')"),
    ("a sum", "this.age + 1 > 5", "this.age + 1 > 3"),
    ("a condition", "this.ward == 'icu' ? this.age > 5 : this.age > 8", "this.age > 5"),
    ("presence not asked", "has(this.consultant) && this.age > 5", "this.age > 5"),
    ("a macro less", "this.tags.all(t, t.size() < 3) && this.age > 5", "this.age > 5"),
    ("what cannot be looked into", "this.code.matches('^a') && this.age > 5", "this.code.matches('^a') && this.age > 4"),
]  # fmt: skip
TYPED = {
    "type": "object",
    "properties": {
        "age": {"type": "integer"},
        "weight": {"type": "number"},
        "ward": {"type": "string"},
        "code": {"type": "string"},
        "consultant": {"type": "string"},
        "at": {"type": "string", "format": "date-time"},
        "at2": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["age", "weight", "code", "at", "at2", "ward", "tags"],
}


@pytest.mark.parametrize(
    ("tight", "loose"),
    [case[1:] for case in LOOSER_EXPRESSIONS],
    ids=[case[0] for case in LOOSER_EXPRESSIONS],
)
def test_a_looser_expression_is_proven_and_breaks_no_old_record(
    make_contract: Any, tight: str, loose: str
) -> None:
    base, candidate = (
        make_contract({"kind": "cel", "expr": expression}, schema=TYPED) for expression in (tight, loose)
    )
    assert compare(base, candidate, level=Compatibility.BACKWARD).is_compatible
    assert not compare(candidate, base, level=Compatibility.BACKWARD).is_compatible


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("this.weight * 7.0 != 123.0", "!(this.weight * 7.0 == 123.0)"),
        ("this.age > 5 && this.ward == 'icu'", "'icu' == this.ward && 5 < this.age // at last"),
        ("this.age > 5", "this.age >= 6"),
        ("this.tags.exists(t, t == 'a')", "  this.tags.exists(t, t == 'a')"),
        ("!(this.age > 5 || this.weight < 1.0)", "this.age <= 5 && this.weight >= 1.0"),
    ],
)
def test_an_expression_written_in_another_way_is_proven(make_contract: Any, one: str, other: str) -> None:
    base, candidate = (
        make_contract({"kind": "cel", "expr": expression}, schema=TYPED) for expression in (one, other)
    )
    assert compare(base, candidate, level=Compatibility.FULL).is_compatible


@pytest.mark.parametrize("expression", ["this.code.matches('^a')", "this.age > 5", CEL["expr"]])
def test_an_expression_that_stays_or_goes_is_never_undetermined_backward(
    make_contract: Any, expression: str
) -> None:
    rule = {"kind": "cel", "expr": expression}
    bounded = {"type": "integer", "maximum": 150}
    narrow = {**TYPED, "properties": {**TYPED["properties"], "age": bounded}}
    wider = {**TYPED, "required": []}
    base = make_contract(rule, schema=narrow)
    stays = compare(base, make_contract(rule, schema=wider), level=Compatibility.BACKWARD)
    goes = compare(base, make_contract(schema=narrow), level=Compatibility.BACKWARD)
    assert [each.is_compatible for each in (stays, goes)] == [True, True]
    assert not [each for each in stays.findings if each.code.startswith("rule.")]
    (gone,) = goes.findings
    assert (gone.code, gone.direction) == ("rule.removed", Direction.FORWARD)


def test_a_missing_value_that_one_expression_absorbs_and_another_does_not_is_no_proof(
    make_contract: Any,
) -> None:
    """Where `code` is missing, the old rule says nothing of an age that the new one refuses."""
    base = make_contract(
        {"kind": "cel", "expr": "this.age > 5 && size(this.code) < 4"}, schema={**TYPED, "required": []}
    )
    candidate = make_contract(
        {"kind": "cel", "expr": "size(this.code) < 4 && !has(this.age)"}, schema={**TYPED, "required": []}
    )
    assert not compare(base, candidate, level=Compatibility.BACKWARD).is_compatible


def test_expressions_that_cannot_be_told_apart_are_undetermined_and_block(make_contract: Any) -> None:
    one = {"kind": "cel", "expr": "this.weight * 7.0 != 123.0"}
    other = {"kind": "cel", "expr": "7.0 * this.weight != 123.0"}
    comparison = compared(make_contract, [one], [other])
    assert [(each.outcome, each.severity) for each in comparison.findings] == [
        (Outcome.UNDETERMINED, FindingSeverity.BREAKING)
    ] * 2
    assert not comparison.is_compatible
    harmless = compared(make_contract, [one | {"severity": "warning"}], [other | {"severity": "warning"}])
    assert harmless.is_compatible


def test_an_expression_is_distinguished_from_another_kind_of_rule(make_contract: Any) -> None:
    old = make_contract({"kind": "cel", "expr": "this.age <= 120"})
    new = make_contract({"kind": "range", "field": "/age", "maximum": 119})
    (backward, *_) = [each for each in compare(old, new).findings if each.direction is Direction.BACKWARD]
    assert separates(old, new, backward)
    assert json.loads(backward.counterexample.text)["age"] == 120  # type: ignore[union-attr] # it is there


SMALLER: Rule = {**QUOTIENT, "expr": "1 / this.a > -6"}


def test_a_looser_expression_is_proven_though_the_contract_only_alerts() -> None:
    base, candidate = (
        documents.contract_with(
            {"properties": {"a": {"type": "integer"}}}, rules=[{"id": "r", **rule}], on_violation="alert"
        )
        for rule in (QUOTIENT, SMALLER)
    )
    findings = compare(base, candidate, level=Compatibility.BACKWARD).findings
    assert FindingSeverity.BREAKING not in {each.severity for each in findings}


def avro(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    """A schema of Avro with these fields."""
    return {"type": "record", "name": name, "fields": list(fields)}


N = {"name": "n", "type": "int"}
ADDED = {"name": "m", "type": "int", "default": 1}
MEMBER = {"name": "r", "type": avro(N, name="Inner")}
WIDER = {"name": "r", "type": avro(N, ADDED, name="Inner")}


@pytest.mark.parametrize(
    ("expression", "before", "after", "is_same"),
    [
        ("this.n + 1 > 0", [N], [{**N, "type": "double"}], False),
        ("this.n + 1 > 0", [N], [{**N, "type": ["null", "double"]}], False),
        ("this.n + 1 > 0", [N], [{**N, "type": "long"}], True),
        ("this.n + 1.0 > 0.0", [{**N, "type": "float"}], [{**N, "type": "double"}], True),
        (
            "this.n.all(x, x + 1 > 0)",
            [{**N, "type": {"type": "array", "items": "int"}}],
            [{**N, "type": {"type": "array", "items": "double"}}],
            False,
        ),
        ("size(this) < 2", [N], [N, ADDED], False),
        ("!('m' in this)", [N], [N, ADDED], False),
        ("this.n > 0", [N], [N, ADDED], True),
        ("size(this.r) < 2", [MEMBER], [WIDER], False),
        ("this.r.n > 0", [MEMBER], [WIDER], True),
        ("this.n > 0", [N], [{**N, "type": ["null", "int"]}], True),
        (
            "this.e != 'X'",
            [{"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "X"]}}],
            [{"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "X", "B"]}}],
            True,
        ),
    ],
)
def test_an_expression_that_reads_other_values_of_avro_is_not_the_same(
    expression: str, before: list[Any], after: list[Any], is_same: bool
) -> None:
    """CEL adds no whole number to a fraction, and `size(this)` counts a field that the writer did not know."""
    rule = {"id": "r", "kind": "cel", "expr": expression}
    old, new = (
        documents.contract_with(avro(*fields), kind="avro", rules=[rule]) for fields in (before, after)
    )
    found = [
        each
        for each in compare(old, new, level=Compatibility.BACKWARD).findings
        if each.code == "rule.tightened"
    ]
    assert [each.outcome is not Outcome.PROVEN for each in found] == ([] if is_same else [True])


def test_each_expression_of_many_rules_is_parsed_once() -> None:
    def rules(more: int) -> list[Cel]:
        exprs = [f"this.n{n} * this.m{n} + {n + more} > this.k{n}" for n in range(300)]
        return [Cel(id=f"r{n}", kind="cel", expr=expr) for n, expr in enumerate(exprs)]

    others, parsed = rules(1_000), expressions._read.cache_info().misses
    budget = Budget(MAX_STEPS)
    assert not any(refuses_as_much(rule, others, lambda _: None, budget) for rule in rules(2_000))
    assert budget.left > 0
    assert expressions._read.cache_info().misses - parsed <= 600
