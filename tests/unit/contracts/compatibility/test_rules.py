"""Rules in a comparison: tightened, loosened, both or neither, each shown by a record that both plans judge."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import documents
from tidegate.contracts.compatibility.compare import compare
from tidegate.contracts.compatibility.finding import Comparison, Direction, Finding, FindingSeverity
from tidegate.contracts.compatibility.rules import CODES
from tidegate.contracts.document.model import Compatibility, DataContract
from tidegate.contracts.inclusion.answer import Outcome
from tidegate.contracts.judge.plan import compile_plan

Rule = dict[str, Any]

FORBIDDEN: Rule = {"kind": "forbidden", "field": "/age", "values": [999]}
RANGE: Rule = {"kind": "range", "field": "/age", "minimum": 0, "maximum": 120}
WARD: Rule = {"kind": "one_of", "field": "/ward", "values": ["icu", "surgery"]}
CODE: Rule = {"kind": "matches", "field": "/code", "pattern": "^[a-z]+$"}
STAY: Rule = {"kind": "ordered", "fields": ["/admitted", "/discharged"]}
NEEDED: Rule = {"kind": "required_when", "field": "/consultant", "when": {"field": "/ward", "equals": "icu"}}
EPOCH: Rule = {"kind": "range", "field": "/discharged", "after": "1900-01-01"}
AT: Rule = {"kind": "range", "field": "/at", "not_before": "2020-01-01T00:00:00Z"}
CEL: Rule = {"kind": "cel", "expr": "this.age < 100"}


def compared(make_contract: Any, before: list[Rule], after: list[Rule], **others: Any) -> Comparison:
    return compare(
        make_contract(*before, **others), make_contract(*after, **others), level=Compatibility.FULL
    )


def separates(old: DataContract, new: DataContract, finding: Finding) -> bool:
    """Return whether the counterexample is written by one contract and refused by the other, by their plans."""
    assert finding.counterexample is not None
    if finding.direction is Direction.FORWARD:
        old, new = new, old
    value = finding.counterexample.text.encode()
    accepted, refused = (compile_plan(each).explain(value).disposition for each in (old, new))
    return accepted.is_written and not refused.is_written


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
QUOTIENT: Rule = {"kind": "cel", "expr": "1 / this.a > -5", "on_violation": "quarantine"}
SMALLER: Rule = {**QUOTIENT, "expr": "1 / this.a > -6"}


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
