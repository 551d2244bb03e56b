"""Whom a change touches, and who must still agree."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tidegate.contracts.compatibility.compare import compare, compare_for
from tidegate.contracts.compatibility.consumers import unacknowledged
from tidegate.contracts.compatibility.finding import FindingSeverity, overlap
from tidegate.contracts.document.model import Compatibility, Consumer
from tidegate.contracts.inclusion.answer import Outcome

AGES = {"id": "ages", "reads": ["/age"]}
STAYS = {"id": "stays", "reads": ["/admitted", "/discharged"]}
ADDRESSES = {"id": "addresses", "reads": ["/address"]}
POSTCODES = {"id": "postcodes", "reads": ["/address/postcode"]}
ANYTHING = {"id": "anything"}
RANGE = {"id": "r", "kind": "range", "field": "/age", "maximum": 120}
STAY = {"id": "s", "kind": "ordered", "fields": ["/admitted", "/discharged"]}


@pytest.mark.parametrize(
    ("rule", "affected"),
    [
        (RANGE, ("ages", "anything")),
        (STAY, ("anything", "stays")),
        (
            {"id": "p", "kind": "matches", "field": "/address/postcode", "pattern": "^[0-9]"},
            ("addresses", "anything", "postcodes"),
        ),
        (
            {"id": "c", "kind": "cel", "expr": "this.age < 5 || this.discharged != ''"},
            ("ages", "anything", "stays"),
        ),
        (
            {"id": "w", "kind": "cel", "expr": "size(this) < 3"},
            ("addresses", "ages", "anything", "postcodes", "stays"),
        ),
    ],
)
def test_a_finding_touches_who_reads_its_fields(
    make_contract: Any, rule: dict[str, Any], affected: tuple[str, ...]
) -> None:
    consumers = [AGES, STAYS, ADDRESSES, POSTCODES, ANYTHING]
    comparison = compare(make_contract(consumers=consumers), make_contract(rule, consumers=consumers))
    assert comparison.affected == affected
    assert set(comparison.unaffected) == {each["id"] for each in consumers} - set(affected)
    assert comparison.findings[0].consumers == affected


def test_a_break_without_affected_consumers_says_so(make_contract: Any) -> None:
    comparison = compare(make_contract(consumers=[STAYS]), make_contract(RANGE, consumers=[STAYS]))
    (finding,) = comparison.findings
    assert finding.severity is FindingSeverity.BREAKING
    assert finding.sentence.endswith("; it touches no registered consumer")
    assert (comparison.affected, comparison.unaffected) == ((), ("stays",))


def test_what_the_level_allows_warns_where_somebody_is_touched(make_contract: Any) -> None:
    base, candidate = make_contract(RANGE, consumers=[AGES, STAYS]), make_contract(consumers=[AGES, STAYS])
    (finding,) = compare(base, candidate, level=Compatibility.BACKWARD).findings
    assert (finding.code, finding.severity, finding.consumers) == (
        "rule.removed",
        FindingSeverity.WARNING,
        ("ages",),
    )


def test_a_consumer_cannot_be_left_out_of_its_own_change(make_contract: Any) -> None:
    comparison = compare(make_contract(consumers=[AGES]), make_contract(RANGE))
    assert comparison.affected == ("ages",)
    narrowed = make_contract(RANGE, consumers=[{"id": "ages", "reads": ["/id"]}])
    assert compare(make_contract(consumers=[AGES]), narrowed).affected == ("ages",)


def test_a_removed_avro_field_touches_who_reads_it(make_contract: Any) -> None:
    fields = [{"name": "a", "type": "int", "default": 0}, {"name": "b", "type": "int", "default": 0}]
    schemas = [{"type": "record", "name": "R", "fields": each} for each in (fields, fields[1:])]
    consumers = [{"id": "one", "reads": ["/a"]}, {"id": "other", "reads": ["/b"]}]
    base, candidate = (make_contract(schema=each, kind="avro", consumers=consumers) for each in schemas)
    comparison = compare(base, candidate, level=Compatibility.FULL)
    assert comparison.affected == ("one",)


def test_assumptions_that_were_sure_and_are_not_any_more_break_forward(make_contract: Any) -> None:
    consumer = {"id": "ages", "reads": ["/id"], "assumes": {"properties": {"age": {"maximum": 150}}}}
    base = make_contract(RANGE, consumers=[consumer])
    wider = make_contract({**RANGE, "maximum": 200}, consumers=[consumer])
    (finding,) = [
        each
        for each in compare(base, wider, level=Compatibility.FULL).findings
        if each.code == "consumer.assumption-broken"
    ]
    assert (finding.severity, finding.outcome, finding.consumers) == (
        FindingSeverity.BREAKING,
        Outcome.REFUTED,
        ("ages",),
    )
    assert finding.counterexample is not None
    still = make_contract({**RANGE, "maximum": 140}, consumers=[consumer])
    assert compare(base, still, level=Compatibility.FULL).affected == ()


def test_assumptions_about_avro_records_are_proven_too(make_contract: Any) -> None:
    consumer = {"id": "c", "reads": ["/x"], "assumes": {"properties": {"a": {"type": "integer"}}}}

    def contract(kind: Any) -> Any:
        schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}
        return make_contract(schema=schema, kind="avro", consumers=[consumer])

    assert compare(contract("int"), contract("long")).affected == ()
    broken = compare(contract("int"), contract(["null", "int"]))
    assert "consumer.assumption-broken" in {each.code for each in broken.findings}


def test_who_must_still_agree_are_those_whom_a_break_touches(make_contract: Any) -> None:
    consumers = [AGES, STAYS, ANYTHING]
    comparison = compare(make_contract(consumers=consumers), make_contract(RANGE, consumers=consumers))
    assert unacknowledged(comparison, (), version="1.1.0") == ("ages", "anything")
    assert unacknowledged(comparison, ["ages"], version="1.1.0") == ("anything",)
    assert unacknowledged(comparison, ["ages", "anything"], version="1.1.0") == ()
    assert unacknowledged(comparison, (), version="2.0.0") == ()


def test_registering_is_no_break(make_contract: Any) -> None:
    base, candidate = make_contract(consumers=[AGES]), make_contract(consumers=[STAYS])
    comparison = compare(base, candidate, level=Compatibility.FULL)
    assert [each.code for each in comparison.findings] == ["consumer.removed", "consumer.added"]
    assert comparison.suggested_version == "1.0.1"


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("/a", "/a", True),
        ("/a", "/a/b", True),
        ("/a/b", "/a", True),
        ("", "/a", True),
        ("/a", "/b", False),
        ("/a", "/ab", False),
        ("/items/*/price", "/items/0/price", True),
        ("/items/*/price", "/items/0/name", False),
        ("/*", "/undeclared", True),
        ("/*", "/declared", False),
        ("/*", "/declared/inner", False),
    ],
)
def test_places_overlap_when_one_holds_the_other(one: str, other: str, *, expected: bool) -> None:
    declared = {"/declared", "/items"}
    assert overlap(one, other, declared) is expected
    assert overlap(other, one, declared) is expected


def test_an_assumption_that_is_no_schema_warns(make_contract: Any) -> None:
    consumer = {"id": "ages", "reads": ["/age"], "assumes": {"type": "nonsense"}}
    base, candidate = (
        make_contract(consumers=[consumer]),
        make_contract(RANGE, consumers=[copy.deepcopy(consumer)]),
    )
    codes = {each.code: each for each in compare(base, candidate).findings}
    assert codes["consumer.assumption-unproven"].severity is FindingSeverity.WARNING


SURE = {"id": "ages", "reads": ["/id"], "assumes": {"properties": {"age": {"maximum": 150}}}}
UNSURE = {"id": "ages", "reads": ["/id"], "assumes": {"properties": {"weight": {"maximum": 5}}}}


def test_an_added_assumption_is_checked_with_the_one_before(make_contract: Any) -> None:
    base = make_contract(RANGE, consumers=[SURE])
    wider = make_contract({**RANGE, "maximum": 200}, consumers=[UNSURE])
    findings = compare(base, wider, level=Compatibility.FULL).findings
    found = {each.field: each for each in findings if each.code.startswith("consumer.assumption")}
    assert (found["/age"].code, found["/age"].severity) == (
        "consumer.assumption-broken",
        FindingSeverity.BREAKING,
    )
    assert (found["/weight"].code, found["/weight"].severity) == (
        "consumer.assumption-unproven",
        FindingSeverity.WARNING,
    )


@pytest.mark.parametrize(("inside", "apart"), [(SURE, UNSURE), (UNSURE, SURE)])
def test_an_unsure_assumption_hides_no_broken_one(
    make_contract: Any, inside: dict[str, Any], apart: dict[str, Any]
) -> None:
    """One says in the document what it assumes, and other things in the registry."""
    readers = (Consumer.model_validate(apart),)
    base = make_contract(RANGE, consumers=[inside])
    wider = make_contract({**RANGE, "maximum": 200}, consumers=[inside])
    findings = compare_for(readers, base, wider, Compatibility.FULL).findings
    codes = {each.code: each for each in findings}
    assert codes["consumer.assumption-broken"].severity is FindingSeverity.BREAKING
    assert codes["consumer.assumption-broken"].pointer == "/consumers/0"
    assert codes["consumer.assumption-unproven"].field == "/weight"


def test_each_of_two_assumptions_keeps_its_own_definitions(make_contract: Any) -> None:
    """A reference leads into the assumption that it stands in."""
    limits = {"properties": {"age": {"$ref": "#/$defs/age"}}, "$defs": {"age": {"maximum": 150}}}
    consumer = {"id": "ages", "reads": ["/id"], "assumes": {"properties": {"id": {"type": "string"}}}}
    readers = (Consumer.model_validate({"id": "ages", "assumes": limits}),)
    base = make_contract(RANGE, consumers=[consumer])
    wider = make_contract({**RANGE, "maximum": 200}, consumers=[consumer])
    (broken,) = [
        each
        for each in compare_for(readers, base, wider, Compatibility.FULL).findings
        if each.code.startswith("consumer.assumption")
    ]
    assert (broken.code, broken.field) == ("consumer.assumption-broken", "/age")
