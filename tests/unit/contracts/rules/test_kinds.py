"""Rule kinds: one registry, and a kind from outside of it that every part of the system can handle."""
# ruff: noqa: ARG002 - a toy kind ignores arguments that every kind is given

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal, get_args

import pyarrow as pa
import pytest
from pydantic import Field

from tests import documents
from tidegate.contracts.compatibility.compare import compare
from tidegate.contracts.compatibility.weakening import weakenings
from tidegate.contracts.document.fields import SchemaFields
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.document.rule_model import BaseRule, Rule
from tidegate.contracts.document.terms import Pointer
from tidegate.contracts.explain.account import Explainer
from tidegate.contracts.fastpath.code_writer import CodeWriter
from tidegate.contracts.fastpath.rules import FastRules
from tidegate.contracts.formats.json_fields import JsonFields
from tidegate.contracts.inclusion.answer import Outcome
from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.rules.compile import compile_rules
from tidegate.contracts.rules.compiled import FieldCheck
from tidegate.contracts.rules.kinds.registry import KINDS
from tidegate.contracts.rules.rule_kind import FieldRuleKind, Listed, RuleKind, Scope, Values, check_of_field
from tidegate.contracts.verdict import Disposition
from tidegate.gateway.http.desk.clauses import clause_of, pointers_of

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "s": {"type": "string"},
        "d": {"type": "string", "format": "date"},
        "e": {"type": "string", "format": "date"},
    },
}


class Even(BaseRule):
    """The number in the field must be even."""

    kind: Literal["even"] = "even"
    field: Pointer


class EvenKind(FieldRuleKind[Even]):
    def compile(self, rule: Even, scope: Scope) -> FieldCheck | None:
        if scope.field_type(rule.field, "/field") is None:
            return None
        return check_of_field(rule, lambda value: type(value) is int and value % 2 == 1, "is odd")

    def refused(self, rule: Even) -> Listed | None:
        return None

    def sentence_of_value(self, rule: Even, values: Values) -> str:
        return f"{values.name(rule.field)} {values[rule.field]} is odd"

    def remedy(self, rule: Even, fields: SchemaFields) -> str:
        return f"an even number in {rule.field}"


class Crowded(BaseRule):
    """The record must have fewer than two members."""

    kind: Literal["crowded"] = "crowded"


class CrowdedKind(RuleKind[Crowded]):
    def compile(self, rule: Crowded, scope: Scope) -> FieldCheck:
        return FieldCheck((), lambda record, fits: fits and len(record) > 1, "", "is crowded")

    def fields(self, rule: Crowded) -> tuple[str, ...]:
        return ()

    def place(self, rule: Crowded) -> str:
        return ""

    def refused(self, rule: Crowded) -> None:
        return None

    def sentence(self, rule: Crowded, values: Values) -> None:
        return None

    def remedy(self, rule: Crowded, fields: SchemaFields) -> str:
        return "one member"


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setitem(KINDS, Even, EvenKind())
        patch.setitem(KINDS, Crowded, CrowdedKind())
        yield


_MODELS = get_args(get_args(Rule)[0])
AnyRule = Annotated[reduce(or_, (*_MODELS, Even, Crowded)), Field(discriminator="kind")]


class Contract(DataContract):
    """A contract whose document may have rules of the toy kinds."""

    rules: tuple[AnyRule, ...] = ()


def contract_of(*rules: dict[str, Any]) -> Contract:
    return Contract.model_validate(
        {
            "apiVersion": "tidegate/v1",
            "kind": "DataContract",
            "id": "a.b",
            "version": "1.0.0",
            "topic": "a.b",
            "schema": {"type": "json-schema", "definition": SCHEMA},
            "columns": [],
            "rules": [{"id": f"rule-{index}", **rule} for index, rule in enumerate(rules)],
        }
    )


def refused(contract: DataContract, *records: dict[str, Any]) -> list[bool]:
    values = [json.dumps(record).encode() for record in records]
    verdicts = compile_plan(contract).judge(pa.array(values, pa.binary()))
    return [not Disposition(code).is_written for code in verdicts.field("disposition").to_pylist()]


EVEN = {"id": "n-is-even", "kind": "even", "field": "/n"}


def test_every_model_of_the_document_has_a_kind() -> None:
    assert set(_MODELS) == set(KINDS) - {Even, Crowded}


def test_a_new_kind_is_judged() -> None:
    assert refused(contract_of(EVEN), {"n": 2}, {"n": 3}, {"n": 4}, {}) == [False, True, False, False]


def test_a_new_kind_of_whole_records_is_judged_where_all_expressions_hold() -> None:
    # Both expressions are left to the library, which is asked about them at once.
    contract = contract_of(
        {"kind": "cel", "expr": 'this.s.matches("a")'},
        {"kind": "cel", "expr": 'this.s.matches("b")'},
        {"kind": "crowded"},
    )
    assert refused(contract, {"s": "ab"}, {"s": "ab", "n": 1}) == [False, True]


def test_a_new_kind_is_explained() -> None:
    contract, value = contract_of(EVEN), b'{"n": 3}'
    plan = compile_plan(contract)
    violations = plan.explain(value).violations
    (told,) = Explainer.of(plan).explain(value, violations)
    assert (told.sentence, told.passes) == ("n 3 is odd", "an even number in /n")
    assert pointers_of(contract, violations[0]) == ("/n",)
    clause = clause_of(contract, violations[0])
    assert clause is not None
    assert clause.lines == (("id", "n-is-even"), ("kind", "even"), ("field", "/n"))


def test_a_new_kind_is_compared_by_records() -> None:
    without, contract = contract_of(), contract_of(EVEN)
    (finding,) = compare(without, contract).findings
    assert (finding.code, finding.outcome, finding.field) == ("rule.added", Outcome.REFUTED, "/n")
    assert finding.counterexample is not None
    assert json.loads(finding.counterexample.text)["n"] % 2 == 1
    assert compare(contract, contract).findings == ()
    assert [each.code for each in weakenings(contract, without)] == ["rule.removed"]


def test_what_no_record_shows_of_a_new_kind_is_undetermined() -> None:
    rule = {"kind": "range", "field": "/n", "minimum": 1_000_000, "maximum": 1_000_000}
    (finding,) = compare(contract_of(rule), contract_of(rule, EVEN)).findings
    assert (finding.code, finding.outcome) == ("rule.added", Outcome.UNDETERMINED)


def test_a_kind_that_is_not_registered_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(KINDS, Even)
    with pytest.raises(KeyError):
        compile_plan(contract_of(EVEN))


SAMPLES: dict[str, dict[str, Any]] = {
    "forbidden": {"field": "/s", "values": ["x"]},
    "one_of": {"field": "/s", "values": ["x"]},
    "range": {"field": "/n", "minimum": 0},
    "freshness": {"field": "/d", "max_age": "P1D"},
    "ordered": {"fields": ["/d", "/e"]},
    "matches": {"field": "/s", "pattern": "x"},
    "required_when": {"field": "/s", "when": {"field": "/n", "present": True}},
    "cel": {"expr": "this.n > 0"},
}


def test_the_kinds_with_a_test_of_their_own_on_the_fast_path() -> None:
    fast = set()
    for kind, sample in SAMPLES.items():
        fields = JsonFields(SCHEMA)
        rules = FastRules(compile_rules(contract_of({"kind": kind, **sample}), fields), fields)
        tests = rules.write_tests(CodeWriter())
        if rules.lowered or not tests["rule-0"].startswith("not "):
            fast.add(kind)
    names = {get_args(model.model_fields["kind"].annotation)[0] for model in KINDS}
    assert set(SAMPLES) == names - {"even", "crowded"}
    assert fast == {"forbidden", "one_of", "range", "ordered", "cel"}


def test_a_pattern_too_large_for_a_set_is_searched() -> None:
    rule = {"id": "r", "kind": "matches", "field": "/s", "pattern": r"^\pL{1,200}$"}
    plan = documents.plan_with({"properties": {"s": {"type": "string"}}}, rules=[rule])
    texts = {"é" * 200: True, "é" * 201: False, "": False, "a1": False, "a\n": False}
    values = [json.dumps({"s": text}).encode() for text in texts]
    for each in (plan, documents.strict(plan)):
        judged = each.judge(pa.array(values)).field("disposition").to_pylist()
        assert [disposition == 0 for disposition in judged] == list(texts.values())
