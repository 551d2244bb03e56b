"""Deciding about a judged batch."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import Any

import pytest

from tidegate.contracts.document.load import parse_contract
from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.stream.counts import LONGEST_CODE, RuleCount, rule_counts
from tidegate.contracts.stream.decide import (
    BudgetContext,
    BudgetSpent,
    BudgetWindow,
    Counted,
    FailedRecord,
    Spent,
    Tally,
    count_evidence,
    decide,
)
from tidegate.contracts.stream.ledger import Settlement
from tidegate.contracts.stream.segments import FateCounts
from tidegate.contracts.verdict import Disposition, Severity, Stage, Verdict, Violation

RULES = [
    {"id": "known", "kind": "forbidden", "field": "/a", "values": [999]},
    {"id": "small", "kind": "range", "field": "/a", "maximum": 5, "severity": "warning"},
]


def plan_of(**changes: object) -> EnforcementPlan:
    document = {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": "s",
        "version": "1.0.0",
        "topic": "t",
        "schema": {"type": "json-schema", "definition": {"properties": {"a": {"type": "integer"}}}},
        "columns": [{"name": "a", "from": "/a", "type": "long"}],
        "rules": RULES,
        **changes,
    }
    return compile_plan(
        parse_contract(str(document).replace("'", '"'), name="t.json", read_schema=None).contract
    )


def bits(plan: EnforcementPlan, *codes: str) -> bytes:
    """The bit set of these slots."""
    failed = bytearray((len(plan.slots) + 7) // 8)
    for position, slot in enumerate(plan.slots):
        if slot.code in codes:
            failed[position // 8] |= 1 << position % 8
    return bytes(failed)


def none_failed() -> FailedRecord:
    raise AssertionError("asked for, although every record may pass")


def test_every_record_counts_once_and_each_rule_by_its_records() -> None:
    plan = plan_of()
    decision = decide(
        plan,
        [
            Tally(Disposition.ACCEPTED, None, 90),
            Tally(Disposition.WARNED, bits(plan, "small"), 4),
            Tally(Disposition.ALERTED, bits(plan, "known", "small"), 3),
            Tally(Disposition.DROPPED, bits(plan, "known"), 2),
            Tally(Disposition.QUARANTINED, bits(plan, "known"), 1),
        ],
        none_failed,
    )
    assert (decision.records, decision.written, decision.warned, decision.alerted) == (100, 97, 4, 3)
    assert (decision.dropped, decision.quarantined) == (2, 1)
    # The quarantined ones are counted from their evidence.
    assert decision.rules == Counter(
        {(Stage.RULE, "small", Severity.WARNING): 7, (Stage.RULE, "known", Severity.ERROR): 5}
    )
    assert decision.alerts == Counter({(Stage.RULE, "known", Severity.ERROR): 3})


def test_settled_records_count_as_quarantined_with_their_first_reasons() -> None:
    rule = RuleCount(stage=Stage.SCHEMA, code="type", severity=Severity.ERROR, records=1)
    settled = {(0, 7): Settlement("q", 0, 1, (rule,)), (1, 9): Settlement("q", 0, 2, (rule,))}
    decision = decide(plan_of(), [Tally(Disposition.ACCEPTED, None, 3)], none_failed, settled)
    assert (decision.records, decision.quarantined) == (5, 2)
    assert decision.rules == Counter({(Stage.SCHEMA, "type", Severity.ERROR): 2})


def test_a_record_that_must_not_pass_stops_the_stream() -> None:
    plan = plan_of()
    tallies = [
        Tally(Disposition.ALERTED, bits(plan, "small"), 1),
        Tally(Disposition.FAILED, bits(plan, "known", "small"), 2),
    ]
    with pytest.raises(StreamStopped) as stopped:
        decide(plan, tallies, lambda: FailedRecord(3, 17, bits(plan, "known", "small")))
    assert str(stopped.value) == (
        "2 records violate what s@1.0.0 must not let pass (on_violation fail); the first is at topic t, partition 3, "
        "offset 17 and violates known; nothing of the batch is written. Publish a contract version that quarantines "
        "or drops such records, and start again"
    )


BUDGET = {"ratio": 0.2, "min_records": 10}


@pytest.mark.parametrize(
    ("accepted", "dropped", "quarantined", "stops"),
    [(8, 1, 1, False), (7, 1, 2, True), (5, 2, 2, False), (0, 0, 10, True), (0, 0, 9, False)],
)
def test_the_error_budget(accepted: int, dropped: int, quarantined: int, stops: bool) -> None:
    tallies = [
        Tally(Disposition.ACCEPTED, None, accepted),
        Tally(Disposition.DROPPED, None, dropped),
        Tally(Disposition.QUARANTINED, None, quarantined),
    ]
    for action in ("fail", "pause"):
        plan = plan_of(error_budget={**BUDGET, "action": action})
        if stops:
            with pytest.raises(StreamStopped, match="error budget spent"):
                decide(plan, tallies, none_failed)
        else:
            assert not decide(plan, tallies, none_failed).over_budget
    lenient = plan_of(error_budget={**BUDGET, "action": "quarantine"})
    assert decide(lenient, tallies, none_failed).over_budget is stops


def spent_by(plan: EnforcementPlan, refused: int, *earlier: Counted, is_accepted: bool = False) -> bool:
    """Return whether a batch of 10 records spends the budget after these, newest first."""
    tallies = [
        Tally(Disposition.ACCEPTED, None, 10 - refused),
        Tally(Disposition.QUARANTINED, bits(plan, "known"), refused),
    ]
    try:
        decide(plan, tallies, none_failed, {}, BudgetContext(earlier, is_accepted))
    except BudgetSpent as error:
        spent = error.spent
        assert [(rule.code, rule.records) for rule in spent.rules] == [("known", refused)] * (refused > 0)
        return True
    return False


def test_the_ratio_of_a_window_is_of_whole_batches_back_to_as_many_records() -> None:
    plan = plan_of(error_budget={"ratio": 0.2, "min_records": 30, "window_records": 30})
    good, bad = Counted(10, 0), Counted(10, 6)
    assert not spent_by(plan, 10)  # 10 records say nothing yet
    assert not spent_by(plan, 3, bad)
    assert spent_by(plan, 1, bad, good)
    assert not spent_by(plan, 0, bad, good)
    assert not spent_by(plan, 3, good, good, bad)  # the bad one is past the window
    assert spent_by(plan, 1, Counted(15, 5), Counted(1000, 250))  # a batch counts whole
    alone = plan_of(error_budget={"ratio": 0.2})
    assert not spent_by(alone, 2, bad)


@pytest.mark.parametrize("action", ["fail", "pause", "quarantine"])
def test_a_batch_that_an_earlier_attempt_refused_as_a_whole_spends_no_budget(action: str) -> None:
    plan = plan_of(error_budget={"ratio": 0.2, "action": action, "window_records": 100})
    tallies = [Tally(Disposition.QUARANTINED, None, 10)]
    window = BudgetWindow()
    window.published(Counted(20, 1), begins_anew=False)
    context = window.context(is_accepted=False, is_refused=True)
    decision = decide(plan, tallies, none_failed, {}, context)
    assert (decision.over_budget, decision.quarantined, decision.begins_anew) == (False, 10, True)
    window.published(decision.counted, begins_anew=decision.begins_anew)
    valid = decide(
        plan, [Tally(Disposition.ACCEPTED, None, 9)], none_failed, {}, window.context(is_accepted=False)
    )
    assert (valid.over_budget, valid.begins_anew) == (False, False)


def test_an_accepted_batch_passes_and_what_must_not_pass_still_does_not() -> None:
    plan = plan_of(error_budget={"ratio": 0.2, "action": "pause"})
    tallies = [Tally(Disposition.ACCEPTED, None, 1), Tally(Disposition.QUARANTINED, bits(plan, "known"), 9)]
    accepted = BudgetContext(is_accepted=True)
    decision = decide(plan, tallies, none_failed, {}, accepted)
    assert (decision.is_accepted, decision.written, decision.quarantined) == (True, 1, 9)
    assert not decide(plan, tallies[:1], none_failed, {}, accepted).is_accepted
    failed = Tally(Disposition.FAILED, bits(plan, "known"), 1)
    with pytest.raises(StreamStopped, match="on_violation fail"):
        decide(plan, [failed], lambda: FailedRecord(0, 0, bits(plan, "known")), {}, accepted)


def test_a_trip_tells_the_gateway_what_and_where() -> None:
    plan = plan_of(error_budget={"ratio": 0.2, "action": "pause"})
    tallies = [Tally(Disposition.ACCEPTED, None, 1), Tally(Disposition.DROPPED, bits(plan, "known"), 9)]
    with pytest.raises(BudgetSpent) as error:
        decide(plan, tallies, none_failed)
    trip = error.value.spent.trip(plan.contract, {0: 5}, {0: 15, 1: 2}, 3)
    assert (trip.stream, trip.topic, trip.contract, trip.epoch, trip.action) == (
        "s",
        "t",
        "s@1.0.0",
        3,
        "pause",
    )
    assert (trip.start, trip.end) == ({0: 5, 1: 0}, {0: 15, 1: 2})
    assert (trip.records, trip.refused, trip.allowed) == (10, 9, 0.2)
    assert [(rule.code, rule.records) for rule in trip.rules] == [("known", 9)]
    assert pickle.loads(pickle.dumps(error.value)).spent == error.value.spent  # noqa: S301 - our own


def test_a_record_counts_once_under_each_code_of_its_evidence() -> None:
    def violation(**changes: Any) -> Violation:
        fields = {
            "stage": Stage.SCHEMA,
            "code": "type",
            "pointer": "/a",
            "severity": Severity.ERROR,
            "message": "m",
        }
        return Violation(**{**fields, **changes})

    verdicts = [
        Verdict(Disposition.QUARANTINED, (violation(), violation(pointer="/b"), violation(code="required"))),
        Verdict(Disposition.QUARANTINED, (violation(),)),
    ]
    assert rule_counts(count_evidence(verdicts)) == (
        RuleCount(stage=Stage.SCHEMA, code="type", severity=Severity.ERROR, records=2),
        RuleCount(stage=Stage.SCHEMA, code="required", severity=Severity.ERROR, records=1),
    )


def test_codes_that_are_too_long_for_a_report_are_cut_and_counted_together() -> None:
    """A column may have any name, and the report of its batch is built after the commit."""
    key = (Stage.COLUMN, "c" * LONGEST_CODE, Severity.ERROR)
    counts = Counter({(key[0], key[1] + "a", key[2]): 2, (key[0], key[1] + "b", key[2]): 3})
    assert rule_counts(counts) == (RuleCount(stage=key[0], code=key[1], severity=key[2], records=5),)


def test_an_accepted_batch_resets_the_window() -> None:
    window = BudgetWindow()
    for refused in (1, 2):
        window.published(Counted(10, refused), begins_anew=False)
    assert window.context(is_accepted=True).earlier == (Counted(10, 2), Counted(10, 1))
    window.published(Counted(10, 9), begins_anew=True)
    assert window.context(is_accepted=False).earlier == ()


def test_every_partition_counts_what_became_of_its_records() -> None:
    """The settled ones too: those that tasks have written, and those that are quarantined."""
    plan = plan_of()
    tallies = [
        Tally(Disposition.ACCEPTED, None, 90, partition=0),
        Tally(Disposition.WARNED, bits(plan, "small"), 4, partition=1),
        Tally(Disposition.DROPPED, bits(plan, "known"), 2, partition=1),
        Tally(Disposition.QUARANTINED, bits(plan, "known"), 1, partition=0),
    ]
    settled = {
        (0, 7): Settlement("q", 0, 1),
        (1, 8): Settlement("a", 0, 2, is_accepted=True),
        (1, 9): Settlement("a", 0, 3, is_accepted=True),
    }
    decision = decide(plan, tallies, none_failed, settled)
    assert (decision.written, decision.quarantined, decision.dropped) == (96, 2, 2)
    assert decision.by_partition == {0: FateCounts(90, 2, 0), 1: FateCounts(6, 0, 2)}


def test_a_trip_of_a_budget_that_fails_says_so() -> None:
    plan = plan_of(error_budget={"ratio": 0.2})
    budget = plan.contract.error_budget
    assert budget is not None
    assert budget.action == "fail"
    assert Spent(budget, Counted(10, 9), ()).trip(plan.contract, {}, {0: 1}, 3).action == "fail"


def test_batches_of_an_earlier_process_stand_behind_those_of_this_one_as_far_as_there_is_room() -> None:
    window = BudgetWindow()
    window.published(Counted(1, 1), begins_anew=False)
    window.fill(Counted(10, n) for n in range(20_000))
    earlier = window.context(is_accepted=False).earlier
    assert earlier[:3] == (Counted(1, 1), Counted(10, 0), Counted(10, 1))
    assert len(earlier) == 10_000
    assert earlier[-1] == Counted(10, 9_998)
