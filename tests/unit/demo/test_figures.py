"""The sums of the demo: right figures give no problem, and each way in which they can be wrong gives its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import orjson
import pyarrow as pa
import pytest

from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.lint.lint import lint
from tidegate.contracts.stream.counts import RuleCount
from tidegate.contracts.stream.evidence import Evidence
from tidegate.contracts.stream.ledger import BatchTotals, Ledger
from tidegate.contracts.stream.report import BatchReport
from tidegate.contracts.verdict import Disposition, Severity
from tidegate.gateway.embedded.demo.admissions import CONTRACT_FILE, admissions_stream
from tidegate.gateway.embedded.demo.figures import DemoReport, settle
from tidegate.gateway.embedded.demo.outcome import DemoRefusal, StreamOutcome
from tidegate.gateway.embedded.demo.stream import DemoStream

START = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
SOURCE = pa.struct(
    [pa.field("topic", pa.string()), pa.field("partition", pa.int32()), pa.field("offset", pa.int64())]
)


@pytest.fixture(scope="module")
def stream() -> DemoStream:
    return admissions_stream(2_000)


@pytest.fixture(scope="module")
def outcome(stream: DemoStream) -> StreamOutcome:
    """Return what a job without fault makes of the stream."""
    plan = compile_plan(lint(CONTRACT_FILE).contract)
    accepted, refused = [], []
    for index, record in enumerate(stream.records.to_pylist()):
        verdict = plan.explain(record["value"])
        pointer = stream.pointer(index)
        if verdict.disposition is Disposition.QUARANTINED:
            codes = tuple(violation.code for violation in verdict.violations)
            evidence = Evidence(pointer, "ledger", "hospital.admissions@1.0.0", codes, verdict.violations)
            refused.append(DemoRefusal(record["key"], record["value"], evidence))
        else:
            accepted.append(
                {"topic": pointer.topic, "partition": pointer.partition, "offset": pointer.offset}
            )
    return StreamOutcome(
        received=stream.records.num_rows,
        table=pa.table({"_source": pa.chunked_array([pa.array(accepted, SOURCE)])}),
        refused=tuple(refused),
        ledger=_ledger(BatchTotals(written=len(accepted), quarantined=len(refused))),
    )


@pytest.fixture(scope="module")
def batches(stream: DemoStream, outcome: StreamOutcome) -> tuple[BatchReport, ...]:
    counts = Counter(
        (violation.stage, violation.code)
        for record in outcome.refused
        for violation in record.evidence.violations
        if violation.severity is Severity.ERROR
    )
    rules = [
        RuleCount(stage=stage, code=code, severity=Severity.ERROR, records=n)
        for (stage, code), n in counts.items()
    ]
    return (_batch(stream, outcome, tuple(rules)),)


def test_right_figures_hold(
    stream: DemoStream, outcome: StreamOutcome, batches: tuple[BatchReport, ...]
) -> None:
    result = settle(stream, outcome, batches)
    assert result.problems == ()
    assert orjson.loads(result.figures.model_dump_json()) == {
        "in": 2_000,
        "accepted": 1_940,
        "quarantined": 60,
        "dropped": 0,
        "refused_by_rule": {
            "stay-not-negative": 15,
            "type": 15,
            "required": 12,
            "age-is-known": 10,
            "json.invalid": 8,
        }
        | {"not-the-epoch": 1},
        "corruptions": {
            "age 999": {"planted": 10, "caught": 10},
            "discharge 1900-01-01": {"planted": 1, "caught": 1},
            "discharge before admission": {"planted": 14, "caught": 14},
            '"42" for 42': {"planted": 15, "caught": 15},
            "missing id": {"planted": 12, "caught": 12},
            "truncated JSON": {"planted": 8, "caught": 8},
        },
        "wrongly_refused": 0,
        "records_per_second": 1_000,
    }
    assert result.reasons["json.invalid"] == "is not JSON"


def test_a_stream_of_real_data_has_findings_and_no_corruptions(
    stream: DemoStream, outcome: StreamOutcome, batches: tuple[BatchReport, ...]
) -> None:
    result = settle(replace(stream, is_corrupted=False), outcome, batches)
    assert (result.figures.corruptions, result.problems) == ({}, ())


def _lost(outcome: StreamOutcome) -> StreamOutcome:
    return replace(outcome, table=outcome.table.slice(1))


def _twice(outcome: StreamOutcome) -> StreamOutcome:
    return replace(outcome, table=pa.concat_tables([outcome.table, outcome.table.slice(5, 1)]))


def _quarantined_twice(outcome: StreamOutcome) -> StreamOutcome:
    return replace(outcome, refused=(*outcome.refused, outcome.refused[0]))


def _altered(outcome: StreamOutcome) -> StreamOutcome:
    first, *others = outcome.refused
    return replace(outcome, refused=(replace(first, value=first.value + b" "), *others))


def _misattributed(outcome: StreamOutcome) -> StreamOutcome:
    """Refuse the first record for a reason that is not its own."""
    first, *others = outcome.refused
    other = next(record for record in others if record.evidence.rules != first.evidence.rules)
    evidence = replace(first.evidence, violations=other.evidence.violations)
    return replace(outcome, refused=(replace(first, evidence=evidence), *others))


def _topic_short(outcome: StreamOutcome) -> StreamOutcome:
    return replace(outcome, received=outcome.received - 1)


def _dropped(outcome: StreamOutcome) -> StreamOutcome:
    """Drop a record that was accepted: no sum minds, but the ledger and the reports must agree."""
    totals = outcome.ledger.totals.model_copy(update={"written": 1_939, "dropped": 1})
    return replace(_lost(outcome), ledger=_ledger(totals))


@pytest.mark.parametrize(
    ("spoil", "problems"),
    [
        (
            _lost,
            (
                "2,000 records in, but 1,999 accepted, quarantined or dropped",
                "1 records are in no output, and 0 were dropped",
                "the job reported 1,940 accepted, and there are 1,939",
            ),
        ),
        (
            _twice,
            (
                "2,000 records in, but 2,001 accepted, quarantined or dropped",
                "1 records are in the outputs more than once",
                "the job reported 1,940 accepted, and there are 1,941",
            ),
        ),
        (
            _quarantined_twice,
            (
                "2,000 records in, but 2,001 accepted, quarantined or dropped",
                "1 records are in the outputs more than once",
                "the job reported 60 quarantined, and there are 61",
                "the job's counts by rule are not those of the quarantine topic",
            ),
        ),
        (_altered, ("1 quarantined records are not byte for byte what was sent",)),
        (
            _topic_short,
            (
                "2,000 records were sent, the topic holds 1,999",
                "1,999 records in, but 2,000 accepted, quarantined or dropped",
                "the job reported 2,000 records, and there are 1,999",
            ),
        ),
        (
            _dropped,
            (
                "the job reported 1,940 accepted, and there are 1,939",
                "the job reported 0 dropped, and there are 1",
            ),
        ),
    ],
)
def test_wrong_figures_do_not(
    stream: DemoStream,
    outcome: StreamOutcome,
    batches: tuple[BatchReport, ...],
    spoil: Callable[[StreamOutcome], StreamOutcome],
    problems: tuple[str, ...],
) -> None:
    assert settle(stream, spoil(outcome), batches).problems == problems


def test_a_record_refused_for_another_reason_is_not_caught(
    stream: DemoStream, outcome: StreamOutcome, batches: tuple[BatchReport, ...]
) -> None:
    kind = stream.marks[stream.index(outcome.refused[0].evidence.source)].kind
    planted = Counter(mark.kind for mark in stream.marks.values())[kind]
    problems = settle(stream, _misattributed(outcome), batches).problems
    assert f"{kind}: {planted} records must be refused for it, {planted - 1} were" in problems


def test_a_right_record_that_is_refused_is_counted(
    stream: DemoStream, outcome: StreamOutcome, batches: tuple[BatchReport, ...]
) -> None:
    marks = dict(stream.marks)
    marks.popitem()
    result = settle(replace(stream, marks=marks), outcome, batches)
    assert result.figures.wrongly_refused == 1
    assert result.problems == ("1 records were refused that are right",)


def test_the_report_has_the_documented_shape(
    stream: DemoStream, outcome: StreamOutcome, batches: tuple[BatchReport, ...]
) -> None:
    figures = settle(stream, outcome, batches).figures
    report = DemoReport(streams={stream.name: figures}, seconds_to_first_verdict=14.2, seconds=38.1)
    written = orjson.loads(report.model_dump_json())
    assert list(written) == ["streams", "seconds_to_first_verdict", "seconds"]
    assert list(written["streams"]["hospital.admissions"]) == [
        *("in", "accepted", "quarantined", "dropped", "refused_by_rule", "corruptions", "wrongly_refused"),
        "records_per_second",
    ]


def _ledger(totals: BatchTotals) -> Ledger:
    return Ledger(
        name="ledger",
        stream="hospital.admissions",
        topic="hospital.admissions",
        topic_id="id",
        epoch=1,
        n=1,
        begin={},
        end={},
        scan_from={},
        slots=1,
        totals=totals,
    )


def _batch(stream: DemoStream, outcome: StreamOutcome, rules: tuple[RuleCount, ...]) -> BatchReport:
    return BatchReport(
        stream=stream.name,
        topic=stream.name,
        quarantine_topic=f"{stream.name}.quarantine",
        sink="iceberg:lake.hospital.admissions",
        epoch=1,
        n=1,
        contract="hospital.admissions@1.0.0",
        fingerprint="0" * 64,
        started_at=START,
        committed_at=START + timedelta(seconds=2),
        records=outcome.received,
        written=outcome.table.num_rows,
        warned=0,
        alerted=0,
        quarantined=len(outcome.refused),
        dropped=0,
        rules=rules,
        start={},
        end={},
    )
