"""Rules in a comparison: tightened, loosened, both or neither, each shown by a record that both plans judge."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import documents
from tidegate.contracts.compatibility.compare import compare
from tidegate.contracts.compatibility.finding import Direction, FindingSeverity
from tidegate.contracts.compatibility.predicates import MAX_MOVES_TOGETHER, bounded_searches, first_text
from tidegate.contracts.compatibility.rules import CODES
from tidegate.contracts.document.model import Compatibility, DataContract
from tidegate.contracts.inclusion.answer import Outcome
from tidegate.contracts.inclusion.json_schema.regular import MAX_MOVES, Question, searched
from tidegate.contracts.judge.plan import compile_plan

from .conftest import CEL, QUOTIENT, Rule, compared, separates

FORBIDDEN: Rule = {"kind": "forbidden", "field": "/age", "values": [999]}
RANGE: Rule = {"kind": "range", "field": "/age", "minimum": 0, "maximum": 120}
WARD: Rule = {"kind": "one_of", "field": "/ward", "values": ["icu", "surgery"]}
CODE: Rule = {"kind": "matches", "field": "/code", "pattern": "^[a-z]+$"}
STAY: Rule = {"kind": "ordered", "fields": ["/admitted", "/discharged"]}
NEEDED: Rule = {"kind": "required_when", "field": "/consultant", "when": {"field": "/ward", "equals": "icu"}}
EPOCH: Rule = {"kind": "range", "field": "/discharged", "after": "1900-01-01"}
AT: Rule = {"kind": "range", "field": "/at", "not_before": "2020-01-01T00:00:00Z"}


TIGHTER = [
    ("a sentinel more", FORBIDDEN, {"values": [999, 998]}),
    ("a lower maximum", RANGE, {"maximum": 100}),
    ("a higher minimum", RANGE, {"minimum": 1}),
    ("an open end", RANGE, {"maximum": None, "exclusive_maximum": 120}),
    ("a value less", WARD, {"values": ["icu"]}),
    ("a narrower pattern", CODE, {"pattern": "^[a-f]+$"}),
    ("a strict order", STAY, {"strict": True}),
    ("a condition more", NEEDED, {"when": {"field": "/ward", "one_of": ["icu", "surgery"]}}),
    ("any ward", NEEDED, {"when": {"field": "/ward", "present": True}}),
    ("a later date", EPOCH, {"after": "1950-06-01"}),
    ("a later instant", AT, {"not_before": "2020-01-01T00:00:00.5Z"}),
    ("nulls", FORBIDDEN, {"nulls": "violate"}),
    ("nulls of an expression", CEL, {"nulls": "violate"}),
]


def changed(rule: Rule, change: Rule) -> Rule:
    return {name: value for name, value in {**rule, **change}.items() if value is not None}


@pytest.mark.parametrize(
    ("rule", "change"), [case[1:] for case in TIGHTER], ids=[case[0] for case in TIGHTER]
)
def test_a_tighter_rule_breaks_backward_and_a_looser_one_forward(
    make_contract: Any, rule: Rule, change: Rule
) -> None:
    loose, tight = make_contract(rule), make_contract(changed(rule, change))
    (finding,) = compare(loose, tight, level=Compatibility.FULL).findings
    assert (finding.code, finding.severity, finding.outcome, finding.direction) == (
        "rule.tightened",
        FindingSeverity.BREAKING,
        Outcome.REFUTED,
        Direction.BACKWARD,
    )
    assert separates(loose, tight, finding)
    (finding,) = compare(tight, loose, level=Compatibility.FULL).findings
    assert (finding.code, finding.outcome, finding.direction) == (
        "rule.loosened",
        Outcome.REFUTED,
        Direction.FORWARD,
    )
    assert separates(tight, loose, finding)


@pytest.mark.parametrize("rule", [FORBIDDEN, RANGE, WARD, CODE, STAY, NEEDED, EPOCH, AT, CEL])
def test_adding_a_rule_tightens_and_deleting_it_loosens(make_contract: Any, rule: Rule) -> None:
    without, with_rule = make_contract(), make_contract(rule)
    (finding,) = compare(without, with_rule, level=Compatibility.FULL).findings
    assert (finding.code, finding.direction, finding.pointer) == (
        "rule.added",
        Direction.BACKWARD,
        "/rules/0",
    )
    assert separates(without, with_rule, finding)
    (finding,) = compare(with_rule, without, level=Compatibility.FULL).findings
    assert (finding.code, finding.direction, finding.base_pointer) == (
        "rule.removed",
        Direction.FORWARD,
        "/rules/0",
    )
    assert separates(with_rule, without, finding)


def test_a_range_that_moves_breaks_both(make_contract: Any) -> None:
    comparison = compared(make_contract, [RANGE], [{**RANGE, "minimum": 10, "maximum": 130}])
    assert [(each.code, each.direction) for each in comparison.findings] == [
        ("rule.loosened", Direction.FORWARD),
        ("rule.tightened", Direction.BACKWARD),
    ]


SAME = [
    ("values in another order", [FORBIDDEN | {"values": [998, 999]}], [FORBIDDEN | {"values": [999, 998.0]}]),
    ("an open end on integers", [RANGE], [{"kind": "range", "field": "/age", "exclusive_minimum": -1, "maximum": 120}]),
    ("two rules for one", [RANGE], [{"kind": "range", "field": "/age", "minimum": 0}, {"kind": "range", "field": "/age", "maximum": 120}]),
    ("one rule for two", [FORBIDDEN, RANGE | {"maximum": None}], [FORBIDDEN, RANGE | {"maximum": None}, FORBIDDEN]),
    ("another kind", [{"kind": "forbidden", "field": "/age", "values": [1, 2]}], [{"kind": "forbidden", "field": "/age", "values": [1]}, {"kind": "forbidden", "field": "/age", "values": [2]}]),
    ("a pattern written otherwise", [CODE], [CODE | {"pattern": "^[a-z][a-z]*$"}]),
    ("a list as a pattern", [CODE | {"pattern": "^(a|b)$"}], [{"kind": "one_of", "field": "/code", "values": ["a", "b"]}]),
    ("spaces in an expression", [CEL], [{"kind": "cel", "expr": "this.age  <\n 100"}]),
    ("a condition listed", [NEEDED], [NEEDED | {"when": {"field": "/ward", "one_of": ["icu"]}}]),
    ("what the schema says anyway", [], [{"kind": "range", "field": "/age", "minimum": -5}]),
    ("a required field", [FORBIDDEN], [FORBIDDEN, {"kind": "forbidden", "field": "/id", "values": ["x"], "nulls": "violate"}]),
    ("a part of an order", [{"kind": "ordered", "fields": ["/admitted", "/discharged"], "strict": True}], [{"kind": "ordered", "fields": ["/admitted", "/discharged"], "strict": True}, STAY]),
    ("a date before or at the day before", [EPOCH], [{"kind": "range", "field": "/discharged", "not_before": "1900-01-02"}]),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), [case[1:] for case in SAME], ids=[case[0] for case in SAME])
def test_rules_that_refuse_the_same_records_break_nothing(
    make_contract: Any, before: list[Rule], after: list[Rule]
) -> None:
    before, after = ([changed(rule, {}) for rule in rules] for rules in (before, after))
    for one, other in ((before, after), (after, before)):
        comparison = compared(make_contract, one, other)
        assert comparison.is_compatible
        assert {each.outcome for each in comparison.findings} <= {Outcome.PROVEN}


def test_a_rule_under_another_id_is_reported_and_breaks_nothing(make_contract: Any) -> None:
    comparison = compared(make_contract, [RANGE | {"id": "old"}], [RANGE | {"id": "new"}])
    assert [(each.code, each.severity.value) for each in comparison.findings] == [
        ("rule.removed", "info"),
        ("rule.added", "info"),
    ]


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        ({"severity": "warning"}, {}, "rule.consequence-raised"),
        ({"on_violation": "alert"}, {"on_violation": "drop"}, "rule.consequence-raised"),
        ({}, {"severity": "warning"}, "rule.consequence-lowered"),
        ({}, {"on_violation": "alert"}, "rule.consequence-lowered"),
    ],
)
def test_a_consequence_that_decides_about_records_takes_part(
    make_contract: Any, before: Rule, after: Rule, code: str
) -> None:
    old, new = make_contract(RANGE | before), make_contract(RANGE | after)
    (finding,) = compare(old, new, level=Compatibility.FULL).findings
    assert (finding.code, finding.severity) == (code, FindingSeverity.BREAKING)
    assert separates(old, new, finding)


@pytest.mark.parametrize(
    ("before", "after", "severity"),
    [
        ({}, {"on_violation": "drop"}, "warning"),
        ({}, {"on_violation": "fail"}, "warning"),
        ({"severity": "warning"}, {"on_violation": "alert"}, "info"),
    ],
)
def test_another_consequence_of_the_same_kind_is_no_break(
    make_contract: Any, before: Rule, after: Rule, severity: str
) -> None:
    (finding,) = compared(make_contract, [RANGE | before], [RANGE | after]).findings
    assert (finding.code, finding.severity.value) == ("rule.on-violation-changed", severity)


def test_a_rule_that_only_warns_breaks_nothing(make_contract: Any) -> None:
    comparison = compared(
        make_contract, [RANGE | {"severity": "warning"}], [RANGE | {"severity": "warning", "maximum": 5}]
    )
    assert [(each.code, each.severity.value) for each in comparison.findings] == [
        ("rule.warning-changed", "info")
    ]


def test_a_record_keeps_the_other_rules(make_contract: Any) -> None:
    late = {"kind": "range", "field": "/discharged", "after": "1950-01-01"}
    old, new = make_contract(STAY, EPOCH), make_contract(STAY, EPOCH | {"after": late["after"]})
    (finding,) = compare(old, new).findings
    assert separates(old, new, finding)


def test_a_rule_about_a_nested_field_gets_a_record_with_its_object(make_contract: Any) -> None:
    old = make_contract()
    new = make_contract({"kind": "matches", "field": "/address/postcode", "pattern": "^[0-9]+$"})
    (finding,) = compare(old, new).findings
    assert separates(old, new, finding)
    assert finding.field == "/address/postcode"


def test_the_place_of_a_change_is_the_key_that_changed(make_contract: Any) -> None:
    (finding,) = compared(make_contract, [CODE, RANGE], [CODE, RANGE | {"maximum": 90}]).findings
    assert (finding.pointer, finding.base_pointer) == ("/rules/1/maximum", "/rules/1/maximum")
    assert finding.sentence.startswith(
        "the rule `rule-1` refuses records that it let pass: maximum was 120 and is 90"
    )


def test_rules_of_avro_records_are_shown_by_encoded_data(make_contract: Any) -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "on", "type": {"type": "int", "logicalType": "date"}},
            {"name": "age", "type": ["null", "long"]},
        ],
    }
    old = make_contract({"kind": "range", "field": "/on", "after": "1900-01-01"}, schema=schema, kind="avro")
    new = make_contract({"kind": "range", "field": "/on", "after": "2000-01-01"}, schema=schema, kind="avro")
    (finding,) = compare(old, new).findings
    shown = finding.counterexample
    assert shown is not None
    assert shown.text == '{"on": 10957, "age": null}'
    plans = compile_plan(old), compile_plan(new)
    assert [plan.explain(shown.encoded).disposition.is_written for plan in plans] == [True, False]


def test_a_default_that_a_new_rule_forbids_is_found(make_contract: Any) -> None:
    def schema(*more: Any) -> Any:
        return {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, *more]}

    old = make_contract(schema=schema(), kind="avro")
    new = make_contract(
        {"kind": "forbidden", "field": "/age", "values": [999]},
        schema=schema({"name": "age", "type": "int", "default": 999}),
        kind="avro",
    )
    findings = {each.code: each for each in compare(old, new).findings}
    assert findings["rule.added"].counterexample is not None
    assert findings["rule.added"].counterexample.text == '{"a": 0}'
    assert findings["rule.added"].severity is FindingSeverity.BREAKING


def test_a_symbol_read_as_a_default_that_a_rule_forbids_is_found(make_contract: Any) -> None:
    def schema(*symbols: str) -> Any:
        enum = {"type": "enum", "name": "E", "symbols": list(symbols), "default": "A"}
        return {"type": "record", "name": "R", "fields": [{"name": "e", "type": enum}]}

    rule = {"kind": "forbidden", "field": "/e", "values": ["A"]}
    old = make_contract(rule, schema=schema("A", "B", "C"), kind="avro")
    new = make_contract(rule, schema=schema("A", "B"), kind="avro")
    (finding,) = [each for each in compare(old, new).findings if each.severity is FindingSeverity.BREAKING]
    assert finding.code == "rule.tightened"
    assert finding.counterexample is not None
    assert finding.counterexample.text == '{"e": "C"}'


def test_every_code_of_the_table_is_given_by_some_case(make_contract: Any) -> None:
    pairs = [
        ([], [RANGE]),
        ([RANGE], []),
        ([RANGE], [RANGE | {"maximum": 1}]),
        ([RANGE | {"maximum": 1}], [RANGE]),
        ([RANGE | {"severity": "warning"}], [RANGE]),
        ([RANGE], [RANGE | {"severity": "warning"}]),
        ([RANGE], [RANGE | {"on_violation": "drop"}]),
        ([WARD], [WARD | {"values": ["surgery", "icu"]}]),
        ([CEL | {"severity": "warning"}], [{"kind": "cel", "expr": "true", "severity": "warning"}]),
    ]
    given = {each.code for pair in pairs for each in compared(make_contract, *pair).findings}
    assert given == set(CODES)


def test_many_hard_patterns_end_with_the_same_answer_twice(make_contract: Any) -> None:
    def contract(letter: str) -> DataContract:
        patterns = [f"(a|b)*{letter}(a|b){{{index % 12}}}" for index in range(40)]
        rules = [{"kind": "matches", "field": "/code", "pattern": pattern} for pattern in patterns]
        return make_contract(*rules)  # type: ignore[no-any-return] # a fixture

    first = compare(contract("a"), contract("b"))
    assert first == compare(contract("a"), contract("b"))
    assert not first.is_compatible


@pytest.mark.full
def test_searches_of_one_comparison_share_a_budget_of_transitions() -> None:
    pairs = [(f"(a|b)*a(a|b){{8}}{n}", f"(a|b)*b(a|b){{8}}{n}") for n in range(1, 31)]
    moves = searched(Question(pairs[0][:1], pairs[0][1:])).moves
    for _ in range(2):  # also with all answers cached
        with bounded_searches():
            found = [one for one, other in pairs if first_text((one,), (other,)) is not None]
        assert found
        assert len(found) * moves < MAX_MOVES_TOGETHER + MAX_MOVES


def test_a_change_at_the_end_of_a_long_list_is_named(make_contract: Any) -> None:
    """The begin of both lists is the same, and a sentence has no room for more."""
    codes = [f"code{number}" for number in range(300)]
    rule: Rule = {"kind": "one_of", "field": "/code", "values": codes}
    (finding,) = compared(make_contract, [rule], [{**rule, "values": [*codes[:-1], "new"]}]).findings[:1]
    assert 'values were 300 and are 300: removed ["code299"], added ["new"]' in finding.sentence


@pytest.mark.parametrize(
    ("before", "after", "code", "witness", "words"),
    [
        (["icu", "er"], ["icu", "er", "new"], "rule.loosened", '"new"', 'values was ["icu", "er"] and is ["icu", "er", "new"]'),
        (["icu", "er"], ["icu"], "rule.tightened", '"er"', 'values was ["icu", "er"] and is ["icu"]'),
        (["icu", "er"], ["er", "icu"], "rule.rewritten", None, "it refuses no other records"),
    ],
)  # fmt: skip
def test_changed_reference_sets_are_distinguished(
    make_contract: Any, before: list[str], after: list[str], code: str, witness: str | None, words: str
) -> None:
    rule: Rule = {"kind": "one_of", "field": "/code", "set": "codes"}
    old, new = (
        make_contract(rule, reference_sets={"codes": {"values": values}}) for values in (before, after)
    )
    (finding,) = compare(old, new, level=Compatibility.FULL).findings
    assert finding.code == code
    assert words in finding.sentence
    if witness is None:
        assert finding.counterexample is None
    else:
        assert finding.counterexample is not None
        assert witness in finding.counterexample.text
        assert separates(old, new, finding)


@pytest.mark.parametrize("when", [{"one_of": ["w7", "w70"]}, {"present": True}])
def test_a_widened_condition_among_eleven_rules_has_a_witness(
    make_contract: Any, when: dict[str, Any]
) -> None:
    names = [f"f{index}" for index in range(11)]
    schema = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in ("kind", *names)},
    }
    rules: list[Rule] = [
        {"kind": "required_when", "field": f"/{name}", "when": {"field": "/kind", "equals": f"w{index}"}}
        for index, name in enumerate(names)
    ]
    wider = [*rules[:7], {**rules[7], "when": {"field": "/kind", **when}}, *rules[8:]]
    old, new = (make_contract(*each, schema=schema) for each in (rules, wider))
    (finding,) = compare(old, new, level=Compatibility.FULL).findings
    assert (finding.code, finding.outcome) == ("rule.tightened", Outcome.REFUTED)
    assert separates(old, new, finding)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"present": True}, {"not_equals": "icu"}),
        ({"not_equals": "icu"}, {"present": True}),
        ({"not_equals": "icu"}, {"equals": "surgery"}),
        ({"equals": "surgery"}, {"not_equals": "icu"}),
        ({"not_equals": "icu"}, {"not_equals": "surgery"}),
    ],
)
def test_a_condition_with_not_equals_is_never_proven_and_may_have_a_witness(
    make_contract: Any, before: dict[str, Any], after: dict[str, Any]
) -> None:
    """Of this condition nothing is proven: docs/reference/rule-kinds.md says so."""
    old, new = (make_contract({**NEEDED, "when": {"field": "/ward", **when}}) for when in (before, after))
    comparison = compare(old, new, level=Compatibility.FULL)
    assert not comparison.is_compatible
    assert {each.outcome for each in comparison.findings} <= {Outcome.REFUTED, Outcome.UNDETERMINED}
    shown = [each for each in comparison.findings if each.outcome is Outcome.REFUTED]
    assert all(separates(old, new, each) for each in shown)


DAY = {"format": "date"}
MOMENT = {"format": "date-time"}
ORDER: Rule = {"kind": "ordered", "fields": ["/a", "/b"]}
ANY_LINE: Rule = {"kind": "matches", "field": "/a", "pattern": "^.{2}$"}
ONE_LINE = "^[^\n\r\u2028\u2029]{2}$"
ABOVE: Rule = {"kind": "range", "field": "/a", "exclusive_minimum": 0, "on_violation": "quarantine"}
FROM_ONE: Rule = {"kind": "range", "field": "/a", "minimum": 1, "on_violation": "quarantine"}


@pytest.mark.parametrize(
    ("before", "after", "rules", "others", "record"),
    [
        # Numbers are in no order while the field is one of dates.
        ({"type": ["string", "number"], **DAY}, {"type": ["string", "number"]}, (ORDER, ORDER), {}, {"a": 2, "b": 1}),
        (
            {"type": "string", **DAY},
            {"type": "string", **MOMENT},
            (ORDER, ORDER),
            {"formats": "annotate"},
            {"a": "2020-01-02T00:00:00Z", "b": "2020-01-01T00:00:00Z"},
        ),
        # For RE2, which judges rules, `.` is a carriage return too.
        ({"type": "string"}, {"type": "string"}, (ANY_LINE, {**ANY_LINE, "pattern": ONE_LINE}), {}, {"a": "x\r"}),
        ({"type": "string"}, {"type": "string", "pattern": "^.{2}$"}, (ANY_LINE, ANY_LINE), {}, {"a": "x\r"}),
        # Records that break the schema are written.
        ({"type": "integer"}, {"type": "integer"}, (ABOVE, FROM_ONE), {"on_violation": "alert"}, {"a": 0.5}),
        ({"type": "integer"}, {"type": "number"}, (QUOTIENT, QUOTIENT), {"on_violation": "alert"}, {"a": 0.5}),
    ],
)  # fmt: skip
def test_a_change_that_refuses_a_record_is_no_proven_one(
    before: Any, after: Any, rules: tuple[Rule, Rule], others: dict[str, Any], record: dict[str, Any]
) -> None:
    columns = [{"name": "c", "from": "/a", "type": "json"}]
    base, candidate = (
        documents.contract_with(
            {"type": "object", "properties": {"a": each, "b": each}},
            rules=[{"id": "r", **rule}],
            columns=columns,
            **others,
        )
        for each, rule in zip((before, after), rules, strict=True)
    )
    dispositions = [
        compile_plan(each).explain(json.dumps(record).encode()).disposition for each in (base, candidate)
    ]
    assert [each.is_written for each in dispositions] == [True, False]
    findings = compare(base, candidate, level=Compatibility.BACKWARD).findings
    assert FindingSeverity.BREAKING in {each.severity for each in findings}
