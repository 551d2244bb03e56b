"""Deciding about a batch by its expectations: who judges, what follows, and what happens when two judges disagree."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from tidegate.contracts.document.load import parse_contract
from tidegate.contracts.errors import StreamStopped, Unavailable
from tidegate.contracts.expectations.compile import CompiledExpectation, Partials
from tidegate.contracts.expectations.library import LibraryFinding
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.stream.decide import Decision, Tally
from tidegate.contracts.stream.ledger import BatchRefusal
from tidegate.contracts.stream.report import ExpectationOutcome
from tidegate.contracts.verdict import Disposition, Severity, Stage, Violation
from tidegate.spark_jobs.job.expectations import BatchExpectations, refused
from tidegate.spark_jobs.worker.request import (
    PartialsCollector,
    WorkerRequest,
    as_stream,
    read_partials,
    read_rows,
)

MEAN = {
    "id": "mean",
    "type": "expect_column_mean_to_be_between",
    "kwargs": {"column": "stay", "max_value": 30},
}
MEDIAN = {
    "id": "median",
    "type": "expect_column_median_to_be_between",
    "kwargs": {"column": "stay", "max_value": 30},
}
WARDS = {
    "id": "wards",
    "type": "expect_column_values_to_match_regex",
    "kwargs": {"column": "ward", "regex": "^[a-z]+$"},
}


def plan_of(*expectations: dict[str, Any], **changes: Any) -> EnforcementPlan:
    document = {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": "s",
        "version": "1.0.0",
        "topic": "t",
        "schema": {
            "type": "json-schema",
            "definition": {"properties": {"stay": {"type": "integer"}, "ward": {"type": "string"}}},
        },
        "expectations": list(expectations),
        **changes,
    }
    return compile_plan(parse_contract(json.dumps(document), name="t.json", read_schema=None).contract)


@dataclass
class Batch:
    """A judged batch of accepted rows."""

    plan: EnforcementPlan
    stays: list[int | None]

    @property
    def tallies(self) -> tuple[Tally, ...]:
        return (Tally(Disposition.ACCEPTED, None, len(self.stays)),)

    @property
    def decision(self) -> Decision:
        return Decision(len(self.stays), 0, 0, 0, 0)

    def rows(self) -> pa.Table:
        return pa.table({"stay": self.stays, "ward": ["icu"] * len(self.stays)}, self.plan.columns)

    def partials(self) -> Partials:
        expectations = self.plan.expectations
        return expectations.merge(expectations.observe(each) for each in self.rows().to_batches())

    def library_rows(self) -> pa.Table:
        return self.rows().select(["stay"])


@dataclass
class Says:
    """An oracle with fixed answers, which records the questions."""

    answers: dict[str, LibraryFinding]
    asked: list[str] = field(default_factory=list)

    def ask(self, expectations: Iterable[CompiledExpectation], rows: pa.Table) -> dict[str, LibraryFinding]:
        assert rows.num_rows
        names = [each.expectation.id for each in expectations]
        self.asked += names
        return {name: self.answers[name] for name in names if name in self.answers}


def judges(oracle: Says, proof_every: int = 1) -> BatchExpectations:
    return BatchExpectations("s", proof_every, lambda: oracle)


def test_both_judge_on_every_second_batch_and_never_about_patterns() -> None:
    plan = plan_of(MEAN, WARDS)
    oracle = Says({"mean": LibraryFinding(is_met=True, observed=5.0)})
    batches = judges(oracle, 2)
    agreed = []
    for _ in range(4):
        asked = batches.ask(plan, ())
        decision = batches.decide(plan, Batch(plan, [5] * 10), Batch(plan, [5] * 10).decision)
        agreed.append((asked.library_columns, [each.agrees for each in decision.expectations]))

    assert agreed == [((), [None, None]), (("stay",), [True, None])] * 2
    assert oracle.asked == ["mean", "mean"]


def test_a_disagreement_is_loud_and_recorded_and_the_noted_figure_decides() -> None:
    plan = plan_of(MEAN)
    batch = Batch(plan, [5] * 10)
    oracle = Says({"mean": LibraryFinding(is_met=False, observed=50.0)})
    with capture_logs() as logs:
        decision = judges(oracle).decide(plan, batch, batch.decision)

    (result,) = decision.expectations
    assert (result.outcome, result.agrees) == (ExpectationOutcome.MET, False)
    assert decision.written == 10
    assert [(each["event"], each["log_level"], each["expectation"]) for each in logs] == [
        ("expectation_disagreement", "error", "mean")
    ]


def test_an_oracle_that_cannot_judge_what_was_noted_disagrees() -> None:
    plan = plan_of(MEAN)
    batch = Batch(plan, [5] * 10)
    (result,) = judges(Says({})).decide(plan, batch, batch.decision).expectations

    assert result.agrees is False


def test_what_only_the_library_can_judge_is_an_outage_without_it() -> None:
    plan = plan_of(MEDIAN)
    batch = Batch(plan, [5] * 10)

    with pytest.raises(Unavailable, match="cannot judge median"):
        judges(Says({})).decide(plan, batch, batch.decision)


@pytest.mark.parametrize("proof_every", [0, 5])
def test_the_library_judges_in_every_batch_what_cannot_be_noted(proof_every: int) -> None:
    plan = plan_of(MEDIAN | {"on_violation": "alert"})
    batch = Batch(plan, [50] * 10)
    batches = judges(Says({"median": LibraryFinding(is_met=False, observed=50.0)}), proof_every)
    for _ in range(3):
        assert batches.ask(plan, ()).library_columns == ("stay",)
        (result,) = batches.decide(plan, batch, batch.decision).expectations
        # What was observed is a value of the payload.
        assert (result.outcome, result.observed, result.considered) == ("alerted", None, 10)


def test_a_batch_that_fails_is_reported_with_what_to_do() -> None:
    plan = plan_of(MEAN | {"on_violation": "fail"})
    batch = Batch(plan, [31])

    with pytest.raises(StreamStopped, match=r"not as s@1.0.0 expects \(on_violation fail\): mean; nothing"):
        judges(Says({}), 0).decide(plan, batch, batch.decision)


def test_a_batch_without_accepted_records_is_not_judged() -> None:
    plan = plan_of(MEAN)
    batch = Batch(plan, [])
    decision = judges(Says({})).decide(plan, batch, batch.decision)

    assert [each.outcome for each in decision.expectations] == ["skipped"]


def test_a_contract_without_expectations_asks_for_nothing() -> None:
    plan = plan_of()
    decision = Decision(1, 0, 0, 0, 0)

    assert judges(Says({})).ask(plan, ()) == WorkerRequest()
    assert judges(Says({})).decide(plan, Batch(plan, [1]), decision) is decision
    noting = PartialsCollector(plan, ())
    assert list(noting.add(pa.nulls(3, pa.struct(list(plan.columns))), None)) == []
    assert noting.finish() is None


def test_a_refused_batch_counts_its_warnings_from_the_evidence_only() -> None:
    rule = {"id": "short", "kind": "range", "field": "/stay", "maximum": 5, "severity": "warning"}
    plan = plan_of(MEAN, rules=[rule], on_violation="drop")
    warned = (1 << [slot.code for slot in plan.slots].index("short")).to_bytes(1, "little")
    tallies = [Tally(Disposition.ACCEPTED, None, 3), Tally(Disposition.WARNED, warned, 2)]
    key = (Stage.RULE, "short", Severity.WARNING)
    decision = Decision(5, 2, 0, 1, 4, rules=Counter({key: 2, (Stage.SCHEMA, "schema", Severity.ERROR): 1}))
    reason = Violation(Stage.EXPECTATION, "mean", "", Severity.ERROR, "no")

    found = refused(plan, tallies, decision, (reason,))

    assert (found.written, found.warned, found.dropped, found.quarantined) == (0, 0, 1, 9)
    assert found.records == decision.records
    assert found.rules == {(Stage.SCHEMA, "schema", Severity.ERROR): 1}
    assert found.refusal == (reason,)


def test_workers_quarantine_what_was_accepted_below_the_end_of_a_refused_batch() -> None:
    positions = pa.record_batch(
        {"partition": pa.array([0, 0, 0, 1, 1], pa.int32()), "offset": pa.array([1, 2, 3, 0, 1], pa.int64())}
    )
    dispositions = np.array([0, 3, 0, 1, 0], np.int8)
    asked = WorkerRequest(refusals=(BatchRefusal({0: 3}, ()), BatchRefusal({1: 1}, ())))

    assert asked.refuse(dispositions, positions).tolist() == [4, 3, 0, 4, 0]
    assert WorkerRequest().refuse(dispositions, positions) is dispositions


def test_what_tasks_note_of_written_rows_adds_up() -> None:
    plan = plan_of(MEAN)
    columns = pa.StructArray.from_arrays(
        [pa.array([4, 1000, 6]), pa.array(["a", "b", None])], fields=list(plan.columns)
    )
    tasks = []
    for is_written in (pa.array([True, False, True]), None):
        noting = PartialsCollector(plan, ("ward",))
        streams = list(noting.add(columns, is_written))
        noted = noting.finish()
        assert noted is not None
        tasks.append((noted, streams))

    (finding,) = plan.expectations.find(read_partials(plan, [noted for noted, _ in tasks]))
    assert finding is not None
    assert (finding.considered, finding.is_met) == (5, False)
    rows = read_rows(
        pa.schema([plan.columns.field("ward")]), [each for _, streams in tasks for each in streams]
    )
    assert rows.to_pydict() == {"ward": ["a", None, "a", "b", None]}


def test_no_rows_are_rows_too() -> None:
    schema = pa.schema([("a", pa.int32())])

    assert read_rows(schema, []).num_rows == 0
    assert read_rows(schema, [as_stream(pa.RecordBatch.from_pylist([], schema))]).num_rows == 0
