"""What people and jobs say to each other about reconciliations."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tidegate.contracts.stream.reconciliation import (
    Findings,
    HeartbeatAnswer,
    NamedRecords,
    ReconciliationAnswer,
    ReconciliationResult,
)

FINDINGS = {
    "stream": "s",
    "holds": True,
    "epoch": 1,
    "n": 1,
    "begin": {0: 0},
    "end": {0: 3},
    "written": 3,
    "quarantined": 0,
    "dropped_superseded_or_deleted": 0,
    "absent": 0,
    "unverifiable": 0,
    "lost": 0,
    "twice": 0,
    "records": {},
}
AT = "2026-07-01T12:00:00Z"


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "every offset has one fate"),
        (
            {"holds": False, "answer": "cannot-be-proven", "unverifiable": 1200},
            "cannot be proven: no fault shows, but the fate of 1,200 offsets cannot be shown; docs/how-to/reconcile.md says why",
        ),
        (
            {"holds": False, "answer": "lost", "lost": 1200, "twice": 1},
            "lost 1,200, twice 1: stop the stream, keep the topics, and ask who wrote",
        ),
        (
            {"holds": False, "answer": "lost", "surplus": 3},
            "3 records more in the outputs than the ledger counts: stop the stream, keep the topics, and ask who wrote",
        ),
    ],
)
def test_the_verdict_says_what_holds(changes: dict[str, object], verdict: str) -> None:
    assert Findings.model_validate({**FINDINGS, **changes}).verdict == verdict


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({}, ReconciliationAnswer.HOLDS),
        ({"unverifiable": 1}, ReconciliationAnswer.UNPROVEN),
        ({"holds": False, "lost": 2}, ReconciliationAnswer.LOST),
        ({"holds": False, "unverifiable": 1}, ReconciliationAnswer.LOST),
    ],
)
def test_findings_of_a_version_without_answers_are_read(
    changes: dict[str, object], answer: ReconciliationAnswer
) -> None:
    """It said that a stream holds also when it could not know."""
    found = Findings.model_validate({**FINDINGS, **changes})
    assert (found.answer, found.holds) == (answer, answer is ReconciliationAnswer.HOLDS)
    assert Findings.model_validate_json(found.model_dump_json()) == found


def test_findings_do_not_contradict_themselves() -> None:
    with pytest.raises(ValidationError, match="contradict"):
        Findings.model_validate({**FINDINGS, "answer": "cannot-be-proven"})


@pytest.mark.parametrize("fields", [{}, {"findings": FINDINGS, "failure": "why"}])
def test_a_result_has_findings_or_a_failure(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="findings or a failure"):
        ReconciliationResult.model_validate({"at": AT, **fields})


@pytest.mark.parametrize("place", ["a value", "0/7 ", "0/7\n", "-1/0", "0", "<b>/1"])
def test_a_position_is_two_numbers_and_nothing_of_a_record(place: str) -> None:
    with pytest.raises(ValidationError):
        NamedRecords(count=1, first=(place,))


def test_a_newer_gateway_may_ask_for_more() -> None:
    assert HeartbeatAnswer.model_validate({"reconciliation": None, "dance": True}).reconciliation is None
