"""From findings to what becomes of a batch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.contracts.document.model import DataContract, Expectation
from tidegate.contracts.document.terms import OnViolation
from tidegate.contracts.expectations.compile import CompiledExpectation
from tidegate.contracts.expectations.result import Finding
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.privacy.classes import classes_of
from tidegate.contracts.stream.bounds import MOST_COLUMNS
from tidegate.contracts.stream.report import ExpectationOutcome, ExpectationResult
from tidegate.contracts.verdict import Severity, Stage, Violation

_OUTCOMES = {
    OnViolation.FAIL: ExpectationOutcome.FAILED,
    OnViolation.ALERT: ExpectationOutcome.ALERTED,
    OnViolation.QUARANTINE: ExpectationOutcome.QUARANTINED,
    OnViolation.DROP: ExpectationOutcome.QUARANTINED,
}


@dataclass(frozen=True, slots=True)
class Judged:
    """What was found of an expectation, by whom, and whether the other one agrees, if it was asked too.

    `finding` is None for a batch of too few records.
    """

    compiled: CompiledExpectation
    finding: Finding | None
    agrees: bool | None = None


def results_of(plan: EnforcementPlan, judged: Iterable[Judged]) -> tuple[ExpectationResult, ...]:
    """Return the results as they are kept."""
    classes = classes_of(plan.contract)
    classified = {column.name for column in plan.typed_columns if classes.touches(column.path)}
    return tuple(_result(plan.contract, each, classified) for each in judged)


def refusals(results: Iterable[ExpectationResult], outcome: ExpectationOutcome) -> tuple[Violation, ...]:
    """Return the violations of the expectations with this outcome: what every accepted record of the batch then has."""
    return tuple(
        Violation(Stage.EXPECTATION, result.id, "", Severity.ERROR, _message(result))
        for result in results
        if result.outcome is outcome
    )


def _message(result: ExpectationResult) -> str:
    about = f" of {', '.join(result.columns)}" if result.columns else ""
    return f"the batch of the record is not as expected: {result.type}{about}"


def _result(contract: DataContract, judged: Judged, classified: set[str]) -> ExpectationResult:
    compiled, finding = judged.compiled, judged.finding
    expectation = compiled.expectation
    return ExpectationResult(
        id=expectation.id,
        type=expectation.type,
        columns=compiled.columns[:MOST_COLUMNS],
        outcome=_outcome(contract, expectation, finding),
        judged_by="great_expectations" if compiled.check is None else "tidegate",
        considered=finding.considered if finding else 0,
        unexpected=finding.unexpected if finding else None,
        observed=finding.observed if finding and not classified.intersection(compiled.columns) else None,
        agrees=judged.agrees,
    )


def _outcome(contract: DataContract, expectation: Expectation, finding: Finding | None) -> ExpectationOutcome:
    if finding is None:
        return ExpectationOutcome.SKIPPED
    if finding.is_met:
        return ExpectationOutcome.MET
    if expectation.severity is Severity.WARNING:
        return ExpectationOutcome.WARNED
    return _OUTCOMES[OnViolation(expectation.on_violation or contract.on_violation)]
