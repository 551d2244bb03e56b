"""Counterexamples of schemas keep the rules of the contract whose records they stand for."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.contracts.compatibility.compare import compare
from tidegate.contracts.compatibility.finding import FindingSeverity
from tidegate.contracts.compatibility.rule_schemas import kept_rules
from tidegate.contracts.compatibility.schemas import Examples, Guard
from tidegate.contracts.compatibility.witness_search import Judge
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.inclusion.json_schema import SchemaPair
from tidegate.contracts.judge.plan import compile_plan

Schema = dict[str, Any]


def of(properties: Schema, *required: str) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required)}


WARD: Schema = {"enum": ["a", "ward-b", "ward-c"]}
ONE_OF = {"id": "r", "kind": "one_of", "field": "/ward", "values": ["ward-b", "ward-c"]}
AGE: Schema = {"type": "integer", "minimum": 0, "maximum": 150}

MENDED = [
    # The rule is about another field, which has to be there.
    (
        of({"ward": WARD, "age": AGE}, "ward"),
        of({"ward": WARD, "age": {**AGE, "maximum": 120}}, "ward"),
        ONE_OF,
    ),
    (of({"ward": WARD}, "ward"), of({"ward": WARD, "x": {}}, "ward", "x"), ONE_OF),
    # About a nested field.
    (
        of({"at": of({"ward": WARD}, "ward")}, "at"),
        of({"at": of({"ward": WARD}, "ward", "x")}, "at"),
        {**ONE_OF, "field": "/at/ward"},
    ),
    # About the field itself: the smallest value that the new schema refuses is one that the rule refuses, too.
    (
        of({"n": {"type": "integer"}}, "n"),
        of({"n": {"type": "integer", "maximum": 9}}, "n"),
        {"id": "r", "kind": "forbidden", "field": "/n", "values": [10, 11]},
    ),
    # A record without the field keeps the rule.
    (
        of({"n": {"type": "integer"}, "x": {}}),
        of({"n": {"type": "integer"}, "x": {"type": "string"}}),
        {"id": "r", "kind": "range", "field": "/n", "minimum": 5},
    ),
    # A value of any type, and a rule that the smallest record does not need.
    (
        of({"n": {}, "at": of({"ward": WARD}, "ward")}, "n"),
        of({"n": {}, "at": of({"ward": WARD}, "ward")}, "n", "x"),
        {"id": "r", "kind": "forbidden", "field": "/n", "values": [0, 1]},
    ),
    (
        of({"at": {"anyOf": [{"type": "integer"}, of({"ward": WARD}, "ward")]}}, "at"),
        of({"at": {"anyOf": [{"type": "integer"}, of({"ward": WARD}, "ward")]}}, "at", "x"),
        {**ONE_OF, "field": "/at/ward"},
    ),
]
PROVEN_AGAIN = [
    # What stands in the place of the object that the rule wants cannot be mended by a value in it.
    (
        of({"at": {"anyOf": [{"type": "integer"}, of({"ward": WARD}, "ward")]}}, "at"),
        of({"at": {"anyOf": [{"type": "integer"}, of({"ward": WARD}, "ward")]}}, "at", "x"),
        {**ONE_OF, "field": "/at/ward", "nulls": "violate"},
    ),
    # No neighbour of what the rule forbids is a multiple.
    (
        of({"n": {"type": "integer", "multipleOf": 7}}, "n"),
        of({"n": {"type": "integer", "multipleOf": 7, "maximum": 9}}, "n"),
        {"id": "r", "kind": "forbidden", "field": "/n", "values": [14, 21]},
    ),
]


# Nothing but records that the rule refuses tells the schemas apart.
EXCUSED: list[Any] = [
    (
        of({"n": {"type": "integer"}}, "n"),
        of({"n": {"type": "integer", "maximum": 9}}, "n"),
        {"id": "r", "kind": "range", "field": "/n", "maximum": 9},
    ),
    (
        of({"n": {}}, "n"),
        of({"n": {"not": {"const": 5}}}, "n"),
        {"id": "r", "kind": "one_of", "field": "/n", "values": [6]},
    ),
]


def mended(base: DataContract, candidate: DataContract) -> Examples:
    judge, definitions = Judge(base), (base.schema_.definition, candidate.schema_.definition)
    way = SchemaPair(*definitions, formats_asserted=(False, False)).forth  # type: ignore[arg-type] # both are there
    differences = way().differences
    rules = kept_rules(definitions[0], base, judge.fields)
    return Guard(judge, rules, definitions[0]).examples(differences, way.separates)


@pytest.mark.parametrize(
    ("old", "new", "rule", "is_mended"),
    [*((*case, True) for case in MENDED), *((*case, False) for case in PROVEN_AGAIN)],
)
def test_a_counterexample_keeps_the_rules(
    make_contract: Any, old: Schema, new: Schema, rule: Schema, is_mended: bool
) -> None:
    base, candidate = make_contract(rule, schema=old), make_contract(rule, schema=new)
    assert bool(mended(base, candidate)) is is_mended
    findings = [each for each in compare(base, candidate).findings if each.code.startswith("schema.")]
    assert FindingSeverity.BREAKING in {each.severity for each in findings}
    for finding in findings:
        assert finding.counterexample is not None
        record = finding.counterexample.text.encode()
        assert compile_plan(base).explain(record).disposition.is_written
        assert not compile_plan(candidate).explain(record).disposition.is_written


@pytest.mark.parametrize(("old", "new", "rule"), EXCUSED)
def test_what_only_breaks_with_records_that_rules_refuse_is_no_break(
    make_contract: Any, old: Schema, new: Schema, rule: Schema
) -> None:
    base, candidate = make_contract(rule, schema=old), make_contract(rule, schema=new)
    assert mended(base, candidate) == {}
    assert compare(base, candidate).is_compatible


def test_of_very_many_counterexamples_some_are_mended(make_contract: Any) -> None:
    names = [f"f{number}" for number in range(25)]
    old = of({"ward": WARD, **dict.fromkeys(names, AGE)}, "ward")
    new = of({"ward": WARD, **{name: {**AGE, "maximum": 120} for name in names}}, "ward")
    base, candidate = make_contract(ONE_OF, schema=old), make_contract(ONE_OF, schema=new)
    assert len(mended(base, candidate)) == 20
    findings = [each for each in compare(base, candidate).findings if each.code == "schema.maximum-lowered"]
    assert len(findings) == 25
    assert all(each.counterexample for each in findings)


def test_what_is_undetermined_has_nothing_to_mend(make_contract: Any) -> None:
    old = of({"ward": WARD, "x": {"pattern": "^(?=a)b?"}}, "ward")
    new = of({"ward": WARD, "x": {"pattern": "^(?=a)c?"}}, "ward")
    assert mended(make_contract(ONE_OF, schema=old), make_contract(ONE_OF, schema=new)) == {}
