"""What an expectation does to a batch, and what is kept of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tidegate.contracts.document.load import parse_contract
from tidegate.contracts.expectations.checks import CheckedExpectation
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.stream.decide import Judged, refusals, results_of
from tidegate.contracts.stream.report import ExpectationOutcome, ExpectationResult
from tidegate.contracts.verdict import Severity, Stage, Violation

MEAN = {
    "id": "plausible-mean",
    "type": "expect_column_mean_to_be_between",
    "kwargs": {"column": "stay", "max_value": 30},
}


def plan_of(expectation: dict[str, Any], **changes: Any) -> EnforcementPlan:
    document = {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": "s",
        "version": "1.0.0",
        "topic": "t",
        "schema": {
            "type": "json-schema",
            "definition": {"properties": {"stay": {"type": "integer"}, "who": {"type": "string"}}},
        },
        "expectations": [MEAN | expectation],
        **changes,
    }
    return compile_plan(parse_contract(json.dumps(document), name="t.json", read_schema=None).contract)


def result(plan: EnforcementPlan, values: list[int | None]) -> ExpectationResult:
    who = [None] * len(values)
    rows = pa.RecordBatch.from_pydict({"stay": values, "who": who}, plan.columns)
    (found,) = plan.expectations.find(plan.expectations.observe(rows))
    (kept,) = results_of(plan, [Judged(plan.expectations.compiled[0], found)])
    return kept


@pytest.mark.parametrize(
    ("expectation", "contract", "expected"),
    [
        ({}, {}, ExpectationOutcome.QUARANTINED),
        ({}, {"on_violation": "alert"}, ExpectationOutcome.ALERTED),
        ({}, {"on_violation": "drop"}, ExpectationOutcome.QUARANTINED),
        ({"on_violation": "fail"}, {}, ExpectationOutcome.FAILED),
        ({"on_violation": "alert"}, {"on_violation": "fail"}, ExpectationOutcome.ALERTED),
        ({"severity": "warning"}, {"on_violation": "fail"}, ExpectationOutcome.WARNED),
    ],
)
def test_the_expectation_decides_or_else_the_contract(
    expectation: dict[str, Any], contract: dict[str, Any], expected: ExpectationOutcome
) -> None:
    plan = plan_of(expectation, **contract)

    assert result(plan, [31] * 10).outcome is expected
    assert result(plan, [30] * 10).outcome is ExpectationOutcome.MET


def test_a_mean_is_kept_when_it_is_one_of_many_values() -> None:
    plan = plan_of({})

    assert result(plan, [4, 5] * 5).observed == 4.5
    assert result(plan, [4, 5]).observed is None


def test_nothing_observed_is_kept_of_a_classified_column() -> None:
    plan = plan_of({}, classification={"/stay": "pii"})
    kept = result(plan, [4, 5] * 5)

    assert (kept.observed, kept.considered) == (None, 10)


def test_the_highest_value_is_never_kept() -> None:
    plan = plan_of({"type": "expect_column_max_to_be_between"})
    kept = result(plan, [31] * 10)

    assert kept.observed is None
    assert kept.outcome is ExpectationOutcome.QUARANTINED


def test_a_batch_of_too_few_records_is_not_judged() -> None:
    plan = plan_of({"min_records": 100})
    (kept,) = results_of(plan, [Judged(plan.expectations.compiled[0], None)])

    assert kept.outcome is ExpectationOutcome.SKIPPED
    assert (kept.considered, kept.unexpected) == (0, None)


@pytest.mark.parametrize(("is_own", "expected"), [(True, "tidegate"), (False, "great_expectations")])
def test_what_is_kept_says_who_has_judged(is_own: bool, expected: str) -> None:
    plan = plan_of({"type": "expect_column_values_to_be_between"})
    compiled = plan.expectations.compiled[0]
    judged = Judged(
        compiled if is_own else replace(compiled, check=None),
        CheckedExpectation(is_met=False, considered=10, unexpected=3),
    )
    (kept,) = results_of(plan, [judged])

    assert (kept.judged_by, kept.considered, kept.unexpected) == (expected, 10, 3)


def test_a_refusal_by_an_expectation_of_no_column_names_none() -> None:
    plan = plan_of({"type": "expect_table_row_count_to_be_between", "kwargs": {"max_value": 30}})
    kept = result(plan, [31] * 40)

    (violation,) = refusals([kept], ExpectationOutcome.QUARANTINED)
    assert violation.message.endswith("not as expected: expect_table_row_count_to_be_between")


def test_a_refused_batch_gives_its_records_a_violation_without_a_value() -> None:
    warned = result(plan_of({"severity": "warning", "id": "another"}), [31] * 10)
    results = [result(plan_of({}), [31] * 10), warned]

    assert refusals(results, ExpectationOutcome.QUARANTINED) == (
        Violation(
            Stage.EXPECTATION,
            "plausible-mean",
            "",
            Severity.ERROR,
            "the batch of the record is not as expected: expect_column_mean_to_be_between of stay",
        ),
    )


def test_a_finding_of_no_value_is_not_met() -> None:
    plan = plan_of({})
    (found,) = plan.expectations.find(plan.expectations.merge([]))

    assert found == CheckedExpectation(is_met=False, considered=0)
