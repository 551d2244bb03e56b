"""A refused batch, as its records tell of it; and when two judges count as agreeing."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidegate.contracts.document.model import Expectation
from tidegate.contracts.expectations.checks import CheckedExpectation
from tidegate.contracts.expectations.compile import compile_expectations
from tidegate.contracts.expectations.library import LibraryFinding, agrees
from tidegate.contracts.stream.evidence import BATCH_HEADER, EventPointer, quarantine_headers, read_evidence
from tidegate.contracts.stream.ledger import BatchRefusal, Settled, Settlement
from tidegate.contracts.verdict import Disposition, Severity, Stage, Verdict, Violation

SOURCE = EventPointer("t", 0, 7)
REASON = Violation(Stage.EXPECTATION, "mean", "", Severity.ERROR, "the batch is not as expected")
BROKEN = Violation(Stage.RULE, "age", "/age", Severity.ERROR, "is a forbidden value")


def test_a_record_of_a_refused_batch_says_where_the_batch_ends() -> None:
    verdict = Verdict(Disposition.QUARANTINED, (REASON, BROKEN))
    evidence = read_evidence(quarantine_headers(SOURCE, "l", "c@1.0.0", verdict, {1: 5, 0: 9}))

    assert evidence is not None
    assert evidence.refusal == BatchRefusal({0: 9, 1: 5}, (REASON,))
    assert [evidence.refusal.covers(*each) for each in ((0, 8), (0, 9), (1, 4), (2, 0))] == [
        True,
        False,
        True,
        False,
    ]


@pytest.mark.parametrize("forged", [b'{"0": 99}', b"nonsense", None])
def test_a_producer_cannot_say_that_a_batch_was_refused(forged: bytes | None) -> None:
    ours = quarantine_headers(SOURCE, "l", "c@1.0.0", Verdict(Disposition.QUARANTINED, (BROKEN,)))
    evidence = read_evidence([(BATCH_HEADER, forged), *ours])

    assert evidence is not None
    assert evidence.refusal is None


def test_refused_batches_are_reported_once_each() -> None:
    refusal = BatchRefusal({0: 9}, (REASON,))
    settled = Settled(
        {
            (0, 7): Settlement("q", 0, 1, refusal=refusal),
            (0, 8): Settlement("q", 0, 2, refusal=refusal),
            (0, 3): Settlement("q", 0, 3),
        }
    )

    assert settled.refusals() == (refusal,)


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        (LibraryFinding(is_met=True, observed=0.3), True),
        # On the bound but for the last digits of a double, it may fall on either side.
        (LibraryFinding(is_met=False, observed=0.30000000000000004), True),
        (LibraryFinding(is_met=False, observed=0.31), False),
        (LibraryFinding(is_met=False), False),
    ],
)
def test_rounding_is_no_disagreement(theirs: LibraryFinding, *, expected: bool) -> None:
    mean = Expectation(
        id="mean", type="expect_column_mean_to_be_between", kwargs={"column": "x", "max_value": 0.3}
    )
    plan, _ = compile_expectations([mean], pa.schema([("x", pa.float64())]))

    assert (
        agrees(plan.compiled[0], CheckedExpectation(is_met=True, considered=3, observed=0.3), theirs)
        is expected
    )


@pytest.mark.parametrize(("unexpected", "expected"), [(2, True), (3, False)])
def test_counts_must_be_the_same(unexpected: int, *, expected: bool) -> None:
    nulls = Expectation(
        id="n", type="expect_column_values_to_not_be_null", kwargs={"column": "x", "mostly": 0.1}
    )
    plan, _ = compile_expectations([nulls], pa.schema([("x", pa.float64())]))
    theirs = LibraryFinding(is_met=True, unexpected=unexpected)

    assert (
        agrees(plan.compiled[0], CheckedExpectation(is_met=True, considered=9, unexpected=2), theirs)
        is expected
    )


@pytest.mark.parametrize(("written", "expected"), [(0.3, True), (0.25, False)])
def test_a_bound_that_the_library_rounds_is_none_to_disagree_about(written: float, *, expected: bool) -> None:
    expectation = Expectation(
        id="low", type="expect_column_values_to_be_between", kwargs={"column": "x", "max_value": written}
    )
    plan, _ = compile_expectations([expectation], pa.schema([("x", pa.decimal128(5, 2))]))
    theirs = LibraryFinding(is_met=False, considered=9, unexpected=3)
    assert (
        agrees(plan.compiled[0], CheckedExpectation(is_met=True, considered=9, unexpected=0), theirs)
        is expected
    )
