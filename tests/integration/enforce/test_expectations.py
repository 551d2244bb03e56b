"""Expectations decide about a whole batch before anything of it is written, and Great Expectations agrees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.integration.enforce.line import Line, Sent, row
from tests.marks import full
from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.stream.evidence import EventPointer, quarantine_headers, read_evidence
from tidegate.contracts.stream.ledger import BatchTotals
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.contracts.stream.report import ExpectationOutcome, ExpectationResult
from tidegate.contracts.verdict import Disposition, Severity, Stage, Verdict, Violation
from tidegate.spark_jobs.steps import Step

MEAN = {
    "id": "plausible-mean",
    "type": "expect_column_mean_to_be_between",
    "kwargs": {"column": "amount", "min_value": 1, "max_value": 30},
}
MEDIAN = {
    "id": "plausible-median",
    "type": "expect_column_median_to_be_between",
    "kwargs": {"column": "amount", "min_value": 1, "max_value": 30},
    "severity": "warning",
}
DAYS = {
    "id": "days-are-given",
    "type": "expect_column_values_to_not_be_null",
    "kwargs": {"column": "day", "mostly": 0.9},
    "on_violation": "alert",
}
FEW = {
    "id": "few-rows",
    "type": "expect_table_row_count_to_be_between",
    "kwargs": {"max_value": 3},
    "severity": "warning",
}
REASON = Violation(
    Stage.EXPECTATION,
    "plausible-mean",
    "",
    Severity.ERROR,
    "the batch of the record is not as expected: expect_column_mean_to_be_between of amount",
)


def expect(line: Line, *expectations: dict[str, Any], **changes: Any) -> None:
    line.contracts.plan = line.plan(expectations=expectations, **changes)


def codes(line: Line) -> list[tuple[str, ...]]:
    evidence = [read_evidence(record.headers) for record in line.quarantined()]
    return sorted(each.rules for each in evidence if each is not None)


def outcomes(line: Line) -> list[dict[str, str]]:
    return [{each.id: each.outcome.value for each in report.expectations} for report in line.reports]


@pytest.mark.parametrize("sink", ["iceberg", *full("kafka")])
def test_a_batch_as_expected_is_written_and_both_judges_say_so(
    make_line: Callable[..., Line], sink: str
) -> None:
    line = make_line(sink=sink, expectations_proof_every=1)
    expect(line, MEAN, MEDIAN, DAYS, FEW)
    line.produce(*(row(number, number % 7 + 1) for number in range(20)), row(20, 999))
    line.enforce()

    (report,) = line.reports
    assert (report.written, report.quarantined) == (20, 1)
    mean, median, days, few = report.expectations
    assert mean == ExpectationResult(
        id="plausible-mean",
        type="expect_column_mean_to_be_between",
        columns=("amount",),
        outcome=ExpectationOutcome.MET,
        judged_by="tidegate",
        considered=20,
        observed=3.85,
        agrees=True,
    )
    # A median is a value of the payload, or lies between two.
    assert (median.judged_by, median.outcome, median.observed) == ("great_expectations", "met", None)
    assert (days.outcome, days.considered, days.unexpected, days.agrees) == ("alerted", 20, 20, True)
    assert (few.outcome, few.judged_by, few.agrees) == ("warned", "tidegate", True)


@pytest.mark.parametrize("sink", ["iceberg", *full("kafka")])
def test_a_batch_that_is_not_as_expected_is_quarantined_byte_for_byte(
    make_line: Callable[..., Line], sink: str
) -> None:
    line = make_line(sink=sink)
    expect(line, MEAN)
    sent = [
        Sent(b'{"id": "a", "amount": 100}', b"key", 0, (("trace", b"\x00\xff"), ("trace", None)), 1),
        Sent(b' {"amount":200,"id":"b"} ', None, 1, (), 1_700_000_000_123),
        row(3, 999),
    ]
    line.produce(*sent)
    line.enforce()

    assert line.reconcile().holds
    assert (line.accepted() if sink == "kafka" else line.rows()) == []
    found = line.quarantined()
    assert sorted((r.value, r.key, r.timestamp_ms) for r in found if r.key != b"3") == sorted(
        (r.value, r.key, r.timestamp_ms) for r in sent if r.key != b"3"
    )
    (first,) = [record for record in found if record.key == b"key"]
    assert first.headers[:2] == sent[0].headers
    evidence = read_evidence(first.headers)
    assert evidence is not None
    assert evidence.violations == (REASON,)
    assert codes(line) == [("amount-is-known",), ("plausible-mean",), ("plausible-mean",)]
    assert line.ledger().totals == BatchTotals(quarantined=3)
    assert outcomes(line) == [{"plausible-mean": "quarantined"}]
    assert {(rule.stage, rule.code, rule.records) for rule in line.reports[0].rules} == {
        (Stage.RULE, "amount-is-known", 1),
        (Stage.EXPECTATION, "plausible-mean", 2),
    }

    line.produce(row(4, 7), row(5, 8))
    line.enforce()

    assert len(line.accepted() if sink == "kafka" else line.rows()) == 2
    assert line.reconcile().holds


def test_a_failing_expectation_stops_the_stream_before_anything_is_written(line: Line) -> None:
    expect(line, MEAN | {"on_violation": "fail"})
    line.produce(row(0, 100), row(1, 999))

    with pytest.raises(StreamStopped, match="plausible-mean; nothing of it is written"):
        line.enforce()

    assert (line.rows(), line.quarantined(), list(line.reports)) == ([], [], [])

    expect(line, MEAN | {"severity": "warning"})
    line.enforce()
    assert (len(line.rows()), len(line.quarantined())) == (1, 1)
    assert line.reconcile().holds


def test_few_records_are_not_judged_when_the_expectation_says_so(line: Line) -> None:
    expect(line, MEAN | {"min_records": 3})
    line.produce(row(0, 100), row(1, 100))
    line.enforce()

    assert outcomes(line) == [{"plausible-mean": "skipped"}]
    assert len(line.rows()) == 2


class KilledError(Exception):
    """The end of an attempt, where a test wants it."""


@pytest.mark.full
@pytest.mark.parametrize(
    "budget",
    [
        None,
        {"ratio": 0.5},
        {"ratio": 0.5, "action": "pause"},
        {"ratio": 0.01, "action": "quarantine", "window_records": 100},
    ],
)
def test_a_batch_that_was_refused_before_a_crash_stays_refused(
    line: Line, budget: dict[str, Any] | None
) -> None:
    """Its records spend no error budget: not that of the batch, and not that of the valid records after it."""
    expect(line, MEAN, error_budget=budget)
    line.produce(row(0, 100), row(1, 100))

    def kill(_stream: str, finished: Step) -> None:
        if finished is Step.QUARANTINE:
            raise KilledError

    with pytest.raises(KilledError):
        line.enforce(kill)
    line.produce(*(row(number, 1) for number in range(2, 40)))
    line.enforce()

    assert line.reconcile().holds
    assert codes(line) == [("plausible-mean",)] * 2
    assert len(line.rows()) == 38


def test_what_a_crash_left_of_a_refused_batch_follows_the_rest(line: Line) -> None:
    expect(line, MEAN)
    line.enforce()  # claims the ledger
    line.produce(row(0, 100), row(1, 100), row(2, 999), row(3, 1))
    refuse_one(line, EventPointer(line.topic, 0, 0), line.read(line.topic)[0], {0: 2, 1: 1})
    line.produce(row(5, 1))
    line.enforce()

    assert line.reconcile().holds
    # With the batch: 0/0, which was written before the crash, and 1/0. Those after them were in no batch yet.
    assert codes(line) == [("amount-is-known",), ("plausible-mean",), ("plausible-mean",)]
    assert [each["amount"] for each in line.rows()] == [1, 1]


def refuse_one(line: Line, source: EventPointer, record: Sent, end: dict[int, int]) -> None:
    """Write what a transaction of an attempt that died then had committed."""
    ledger = line.ledger()
    verdict = Verdict(Disposition.QUARANTINED, (REASON,))
    headers = quarantine_headers(source, ledger.name, f"{line.contract_id}@1.0.0", verdict, end)
    producer = Producer({"bootstrap.servers": line.settings.bootstrap_servers})
    producer.produce(
        quarantine_topic(line.topic),
        record.value,
        record.key,
        source.partition,
        timestamp=record.timestamp_ms,
        headers=headers,
    )
    assert producer.flush() == 0
