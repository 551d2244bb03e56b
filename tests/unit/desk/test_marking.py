from __future__ import annotations

from typing import Any

import pytest

from tests.browser.traffic import ADMISSIONS, admission, written
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.privacy.classes import BODY, Visibility, visibility_of
from tidegate.gateway.http.desk.clauses import clause_of, pointers_of
from tidegate.gateway.http.desk.marking import mark_record
from tidegate.gateway.streams.masking import declared_names

OPEN: dict[str, Any] = {**ADMISSIONS, "classification": {"/ward": "public"}}


def contract_of(document: dict[str, Any]) -> DataContract:
    return DataContract.model_validate(document)


def visibility(contract: DataContract, *revealed: str) -> Visibility:
    return visibility_of(contract, declared_names(contract), revealed)


def marks_of(data: bytes, document: dict[str, Any] = OPEN) -> list[tuple[bytes, tuple[int, ...], str]]:
    """Judge a record and give its marked bytes: what the judge says is what is marked."""
    contract = contract_of(document)
    marking = mark_record(
        data, compile_plan(contract).explain(data).violations, contract, visibility(contract)
    )
    return [(data[mark.start : mark.end], mark.violations, mark.note) for mark in marking.marks]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (written(admission(1, age=999)), [(b"999", (1,), "")]),
        (written(admission(1, age="42")), [(b'"42"', (1,), "")]),
        (written(admission(1, address={"city": 3})), [(b"3", (1,), "")]),
        (written(admission(1, address=[])), [(b"[", (1,), "")]),
        (
            written(admission(1, discharge_date="1900-01-01")),
            [(b'"2026-10-04"', (2,), ""), (b'"1900-01-01"', (1, 2), "")],
        ),
        (
            b'{"admission_date":"2026-01-01","discharge_date":"2026-01-02"}',
            [(b"{", (1,), "admission_id is missing")],
        ),
        (written(admission(4, consultant=None)), [(b'"icu"', (1,), ""), (b"null", (1,), "")]),
        (b'{"age":NaN}', [(b"NaN", (1,), "JSON has no value for not-a-number or infinity")]),
        (b'{"ward":"\xff"}', [(b"\xff", (1,), "these bytes are not UTF-8")]),
        (b'{"ward":"ic', [(b'"ic', (1,), "the record ends inside this string")]),
        (b"", [(b"", (1,), "the record ends before its value is complete")]),
    ],
)
def test_the_judges_reasons_are_marked_in_the_bytes(
    data: bytes, expected: list[tuple[bytes, tuple[int, ...], str]]
) -> None:
    assert marks_of(data) == expected


LINES: dict[str, Any] = {
    **OPEN,
    "classification": {},
    "columns": [],
    "schema": {
        "type": "json-schema",
        "definition": {
            "properties": {"lines": {"type": "array", "items": {"properties": {"n": {}, "why": {}}}}}
        },
    },
}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"kind": "range", "field": "/lines/*/n", "minimum": 5}, [(b"1", (1,), "")]),
        ({"kind": "cel", "field": "/lines/*/n", "expr": "value >= 5"}, [(b"1", (1,), "")]),
        (
            {"kind": "required_when", "field": "/lines/*/why", "when": {"field": "/lines/*/n", "equals": 1}},
            [(b"{", (1,), "why is missing"), (b"1", (1,), "")],
        ),
    ],
)
def test_only_the_element_that_breaks_a_rule_is_marked(
    rule: dict[str, Any], expected: list[tuple[bytes, tuple[int, ...], str]]
) -> None:
    assert marks_of(b'{"lines":[{"n":9},{"n":1}]}', {**LINES, "rules": [{"id": "r", **rule}]}) == expected


def masks_of(data: bytes, document: dict[str, Any] = ADMISSIONS, *revealed: str) -> list[bytes]:
    contract = contract_of(document)
    return [
        data[mask.start : mask.end]
        for mask in mark_record(data, (), contract, visibility(contract, *revealed)).masks
    ]


@pytest.mark.parametrize(
    ("data", "hidden"),
    [
        (b'{"patient_id":"P","age":1}', [b'"P"']),
        (b'{"patient_id":{"deep":["P"]},"age":1}', [b'{"deep":["P"]}']),
        (b'{"patient_id":"P","patient_id":"Q"}', [b'"P"', b'"Q"']),
        (rb'{"patient\u005fid":"P"}', [b'"P"']),
        (b'{"patientid":"P","age":1}', [b'"P"']),
        (b'{"address":{"city":"L","postcode":"P"}}', [b'"P"']),
        (b'{"address":"L, P"}', [b'"L, P"']),
        (b'"{\\"patient_id\\":\\"P\\"}"', [b'"{\\"patient_id\\":\\"P\\"}"']),
        (b'[{"patient_id":"P"}]', [b'[{"patient_id":"P"}]']),
        (b'{"age":1,"patient_id":"P', [b'{"age":1,"patient_id":"P']),
        (b'{"age":1 "patient_id":"P"}', [b'{"age":1 "patient_id":"P"}']),
        (b'{"age":1}{"patient_id":"P"}', [b'{"age":1}{"patient_id":"P"}']),
        (b'{"age":NaN,"note":"P"}', [b'{"age":NaN,"note":"P"}']),
        (b"not json", [b"not json"]),
        (b'{"age":1}', []),
    ],
)
def test_what_is_classified_is_masked_wherever_it_may_stand(data: bytes, hidden: list[bytes]) -> None:
    assert masks_of(data) == hidden


NESTED: dict[str, Any] = {
    **OPEN,
    "rules": [],
    "classification": {"/lines/*/name": "pii", "/who": "pii", "/by_ward/*": "pii"},
    "schema": {
        "type": "json-schema",
        "definition": {
            "properties": {
                "lines": {"type": "array", "items": {"properties": {"name": {}, "n": {}}}},
                "who": {"properties": {"name": {}}},
                "by_ward": {"additionalProperties": {"type": "string"}},
                "n": {},
            }
        },
    },
}


@pytest.mark.parametrize(
    ("data", "hidden"),
    [
        (b'{"lines":[{"name":"P","n":1},{"n":2},{"name":"Q"}]}', [b'"P"', b'"Q"']),
        (b'{"lines":[{"name":"P"},"Q",["R"]]}', [b'"P"', b'"Q"', b'["R"]']),
        (b'{"lines":{"x":{"name":"P"}}}', [b'"x":{"name":"P"}']),
        (b'{"lines":"P"}', [b'"P"']),
        (b'{"lines":[]}', []),
        (b'{"who":{"name":"P"},"n":1}', [b'{"name":"P"}']),
        (b'{"by_ward":{"n":"P","name":"Q"}}', [b'"P"', b'"Q"']),
        (b'{"Jane Doe":1,"linse":2}', [b'"Jane Doe":1', b"2"]),
    ],
)
def test_elements_subtrees_and_names_are_masked(data: bytes, hidden: list[bytes]) -> None:
    assert masks_of(data, NESTED) == hidden


def test_what_is_revealed_is_not_masked() -> None:
    data = b'{"lines":[{"name":"P"}],"who":"Q","odd":1}'
    assert masks_of(data, NESTED, "/who") == [b'"P"', b'"odd":1']
    assert masks_of(data, NESTED, "/lines/*/name", "/who") == [b'"odd":1']
    assert masks_of(data, NESTED, BODY) == []
    contract = contract_of(NESTED)
    assert mark_record(data, (), contract, visibility(contract)).hidden == {"/lines/*/name", "/who", BODY}
    assert mark_record(data, (), contract, visibility(contract, "/who")).hidden == {"/lines/*/name", BODY}


def test_without_the_contract_everything_is_masked() -> None:
    assert [(mask.start, mask.end) for mask in mark_record(b'{"a":1}', (), None, Visibility(None)).masks] == [
        (0, 7)
    ]


def test_a_contract_that_classifies_nothing_masks_nothing() -> None:
    assert masks_of(b'{"anything":1', OPEN) == []


def test_clauses_and_sentences() -> None:
    contract = contract_of(OPEN)
    value = written(admission(1, age=999, discharge_date="1900-01-01", ward="attic"))
    violations = compile_plan(contract).explain(value).violations
    by_code = {violation.code: violation for violation in violations}
    clause = clause_of(contract, by_code["enum"])
    assert clause is not None
    assert (clause.heading, clause.lines[0]) == (
        "schema of /ward",
        ("enum", '["icu", "surgery", "maternity", "general"]'),
    )
    broken_age = compile_plan(contract).explain(written(admission(1, age=999))).violations[0]
    age = clause_of(contract, broken_age)
    assert age is not None
    assert age.lines == (
        ("id", "age-is-known"),
        ("kind", "forbidden"),
        ("field", "/age"),
        ("values", "[999]"),
    )
    assert (
        age.description
        == "999 stands for an unknown age in older systems and lifts every mean that it enters."
    )
    (not_json,) = compile_plan(contract).explain(b"{").violations
    assert pointers_of(contract, not_json) == ()


def test_references_in_schemas_are_followed_and_circles_end() -> None:
    definition = {
        "properties": {"a": {"$ref": "#/$defs/a"}, "loop": {"$ref": "#/properties/loop"}},
        "$defs": {"a": {"type": "object", "properties": {"b": {"type": "integer", "minimum": 3}}}},
    }
    bare = {**OPEN, "rules": [], "classification": {}}
    contract = contract_of({**bare, "schema": {"type": "json-schema", "definition": definition}})
    assert declared_names(contract) == {"a", "b", "loop"}
    (violation,) = (
        compile_plan(
            contract_of(
                {
                    **bare,
                    "schema": {
                        "type": "json-schema",
                        "definition": {"properties": {"a": {"properties": {"b": {"minimum": 3}}}}},
                    },
                }
            )
        )
        .explain(b'{"a":{"b":1}}')
        .violations
    )
    clause = clause_of(contract, violation)
    assert clause is not None
    assert clause.lines[0] == ("minimum", "3")
