"""Expectations in a comparison: what bounds and sets decide, and what they do not."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.contracts.compatibility.compare import compare
from tidegate.contracts.compatibility.expectations import CODES
from tidegate.contracts.compatibility.finding import FindingSeverity
from tidegate.contracts.document.model import Compatibility
from tidegate.contracts.inclusion.answer import Outcome

MEAN = {
    "id": "e",
    "type": "expect_column_mean_to_be_between",
    "kwargs": {"column": "age", "min_value": 0, "max_value": 50},
}
SET = {
    "id": "e",
    "type": "expect_column_values_to_be_in_set",
    "kwargs": {"column": "ward", "value_set": ["a", "b"]},
}
COUNT = {"id": "e", "type": "expect_table_row_count_to_equal", "kwargs": {"value": 5}}


def with_kwargs(expectation: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    return {**expectation, "kwargs": {**expectation["kwargs"], **kwargs}}


CASES = [
    (None, MEAN, "expectation.added", {"BACKWARD"}),
    (MEAN, None, "expectation.removed", {"FORWARD"}),
    (MEAN, with_kwargs(MEAN, max_value=40), "expectation.tightened", {"BACKWARD"}),
    (MEAN, with_kwargs(MEAN, max_value=60), "expectation.loosened", {"FORWARD"}),
    (MEAN, with_kwargs(MEAN, min_value=1, max_value=60), "expectation.tightened", {"BACKWARD", "FORWARD"}),
    (MEAN, with_kwargs(MEAN, strict_max=True), "expectation.tightened", {"BACKWARD"}),
    (MEAN, with_kwargs(MEAN, mostly=0.9), "expectation.loosened", {"FORWARD"}),
    (SET, with_kwargs(SET, value_set=["a"]), "expectation.tightened", {"BACKWARD"}),
    (SET, with_kwargs(SET, value_set=["b", "a"]), "expectation.rewritten", set()),
    (
        with_kwargs(SET, value_set=[1, 2.5]),
        with_kwargs(SET, value_set=[2.5, 1.0]),
        "expectation.rewritten",
        set(),
    ),
    (
        with_kwargs(SET, value_set=[1, 2]),
        with_kwargs(SET, value_set=[2, True]),
        "expectation.tightened",
        {"BACKWARD", "FORWARD"},
    ),
    (MEAN, {**MEAN, "severity": "warning"}, "expectation.removed", {"FORWARD"}),
    ({**MEAN, "severity": "warning"}, MEAN, "expectation.added", {"BACKWARD"}),
    (MEAN, {**MEAN, "on_violation": "alert"}, "expectation.removed", {"FORWARD"}),
    ({**MEAN, "on_violation": "alert"}, MEAN, "expectation.added", {"BACKWARD"}),
    ({**MEAN, "on_violation": "alert"}, None, "expectation.warning-changed", set()),
    (MEAN, {**MEAN, "on_violation": "fail"}, "expectation.on-violation-changed", set()),
    (MEAN, {**MEAN, "min_records": 100}, "expectation.loosened", {"FORWARD"}),
    ({**MEAN, "min_records": 100}, {**MEAN, "min_records": 10}, "expectation.tightened", {"BACKWARD"}),
    (
        MEAN,
        with_kwargs({**MEAN, "min_records": 9}, max_value=40),
        "expectation.tightened",
        {"BACKWARD", "FORWARD"},
    ),
    (MEAN, {**MEAN, "description": "why"}, "expectation.rewritten", set()),
    (COUNT, with_kwargs(COUNT, value=6), "expectation.changed", set()),
    (MEAN, with_kwargs(MEAN, column="weight"), "expectation.changed", set()),
    (MEAN, SET, "expectation.changed", set()),
    ({**MEAN, "severity": "warning"}, None, "expectation.warning-changed", set()),
]


@pytest.mark.parametrize(("before", "after", "code", "broken"), CASES)
def test_expectations_take_part(
    make_contract: Any,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
    code: str,
    broken: set[str],
) -> None:
    base, candidate = (make_contract(expectations=[each] if each else []) for each in (before, after))
    found = set()
    for level in (Compatibility.BACKWARD, Compatibility.FORWARD):
        (finding,) = compare(base, candidate, level=level).findings
        assert finding.code == code
        if finding.severity is FindingSeverity.BREAKING:
            found.add(level.value)
    assert found == broken


def test_every_code_of_the_table_is_given_by_some_case() -> None:
    assert {code for _, _, code, _ in CASES} == set(CODES)


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [("alert", "quarantine", "expectation.added"), ("quarantine", "alert", "expectation.removed")],
)
def test_what_a_contract_does_with_batches_counts_for_its_expectations(
    make_contract: Any, before: str, after: str, code: str
) -> None:
    base, candidate = (make_contract(expectations=[MEAN], on_violation=each) for each in (before, after))
    findings = {each.code: each for each in compare(base, candidate, level=Compatibility.FULL).findings}
    assert findings.keys() == {code, "contract.on-violation-changed"}
    assert findings[code].sentence.startswith(
        f"the expectation `e` was {before} and is {after} for a batch that does not meet it"
    )


def test_dropping_and_quarantining_a_batch_are_the_same(make_contract: Any) -> None:
    base = make_contract(expectations=[MEAN], on_violation="drop")
    candidate = make_contract(expectations=[MEAN], on_violation="quarantine")
    assert [each.code for each in compare(base, candidate).findings] == ["contract.on-violation-changed"]


def test_other_bounds_and_another_consequence_are_distinguished(make_contract: Any) -> None:
    changed = with_kwargs({**MEAN, "on_violation": "fail"}, max_value=40)
    base, candidate = (make_contract(expectations=[each]) for each in (MEAN, changed))
    assert [(each.code, each.severity.value) for each in compare(base, candidate).findings] == [
        ("expectation.tightened", "breaking"),
        ("expectation.on-violation-changed", "warning"),
    ]


def test_what_cannot_be_decided_warns(make_contract: Any) -> None:
    base, candidate = (make_contract(expectations=[each]) for each in (COUNT, with_kwargs(COUNT, value=6)))
    (finding,) = compare(base, candidate).findings
    assert (finding.severity, finding.outcome) == (FindingSeverity.WARNING, Outcome.UNDETERMINED)
    assert finding.sentence == "the expectation `e`: value was 5 and is 6"


def test_an_expectation_is_about_the_field_of_its_column(make_contract: Any) -> None:
    columns = [{"name": "years", "from": "/age", "type": "int"}]
    expectation = with_kwargs(MEAN, column="years")
    base = make_contract(columns=columns)
    candidate = make_contract(columns=columns, expectations=[expectation])
    (finding,) = compare(base, candidate).findings
    assert (finding.field, finding.pointer, finding.base_pointer) == ("/age", "/expectations/0", "")
