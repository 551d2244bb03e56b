"""Decide about a whole judged batch before anything of it is written: totals, counts by rule, error budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType

from tidegate.contracts.document.model import ErrorBudget
from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.budget import BudgetContext, BudgetSpent, Counted, Spent, is_spent
from tidegate.contracts.stream.counts import RuleKey, rule_counts
from tidegate.contracts.stream.ledger import Position, Settlement
from tidegate.contracts.stream.report import ExpectationResult
from tidegate.contracts.stream.segments import FateCounts
from tidegate.contracts.verdict import Disposition, Severity, Verdict, Violation

_ALONE = BudgetContext()
_NONE_SETTLED: Mapping[Position, Settlement] = MappingProxyType({})
_TOLD_RULES = 20
_MOST_REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class Tally:
    """How many records of a batch and a source partition got the same disposition with the same set of failed slots."""

    disposition: Disposition
    failed: bytes | None
    records: int
    partition: int = 0


@dataclass(frozen=True, slots=True)
class FailedRecord:
    """A record that must not pass: where it is, and the slots that it failed."""

    partition: int
    offset: int
    failed: bytes | None


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a batch. `written` and `quarantined` count the settled records too; `written` includes warned and alerted.

    `rules` counts, for the records that are not quarantined now, how many failed each slot; those that are get
    counted from their evidence, which also knows the keyword. `alerts` counts the errors of alerted records only.
    `refusal` is what every accepted record violates when the batch was refused as a whole: none of it is written then.
    `is_accepted`: the error budget is spent, and a person lets the batch through.
    """

    written: int
    warned: int
    alerted: int
    dropped: int
    quarantined: int
    rules: Counter[RuleKey] = field(default_factory=Counter)
    alerts: Counter[RuleKey] = field(default_factory=Counter)
    over_budget: bool = False
    expectations: tuple[ExpectationResult, ...] = ()
    refusal: tuple[Violation, ...] = ()
    is_accepted: bool = False
    by_partition: Mapping[int, FateCounts] = field(default_factory=dict)
    """Counts of the source partitions; they add up to those of the batch."""

    @property
    def records(self) -> int:
        """All records of the batch."""
        return self.written + self.quarantined + self.dropped

    @property
    def counted(self) -> Counted:
        """What the error budget counts."""
        return Counted(self.records, self.quarantined + self.dropped)


def decide(
    plan: EnforcementPlan,
    tallies: Iterable[Tally],
    first_failed: Callable[[], FailedRecord],
    settled: Mapping[Position, Settlement] = _NONE_SETTLED,
    context: BudgetContext = _ALONE,
) -> Decision:
    """Sum up a judged batch and judge it as a whole.

    `settled` are records of the batch that an earlier attempt has written for good: they are not in `tallies`.
    `first_failed` looks for the first record that must not pass, and is asked only when there is one.
    Raises StreamStopped when a rule with on_violation `fail` is violated, and BudgetSpent when the error budget is
    spent, unless a person has accepted the batch.
    """
    records: Counter[Disposition] = Counter()
    rules: Counter[RuleKey] = Counter()
    alerts: Counter[RuleKey] = Counter()
    refused: Counter[RuleKey] = Counter()
    partitions: dict[int, FateCounts] = {}
    for tally in tallies:
        records[tally.disposition] += tally.records
        _count(partitions, tally.partition, fate_of(tally))
        if not tally.disposition.is_written:
            for slot in plan.failed_slots(tally.failed):
                refused[slot.stage, slot.code, slot.severity] += tally.records
        if tally.disposition is Disposition.QUARANTINED:
            continue
        for slot in plan.failed_slots(tally.failed):
            key = slot.stage, slot.code, slot.severity
            rules[key] += tally.records
            if tally.disposition is Disposition.ALERTED and slot.severity is Severity.ERROR:
                alerts[key] += tally.records
    earlier: Counter[bool] = Counter()
    for (partition, _), settlement in settled.items():
        earlier[settlement.is_accepted] += 1
        fate = FateCounts(accepted=1) if settlement.is_accepted else FateCounts(quarantined=1)
        _count(partitions, partition, fate)
        rules.update({(rule.stage, rule.code, rule.severity): rule.records for rule in settlement.rules})
    if records[Disposition.FAILED]:
        raise StreamStopped(_failure(plan, records[Disposition.FAILED], first_failed()))
    decision = Decision(
        written=sum(count for disposition, count in records.items() if disposition.is_written)
        + earlier[True],
        warned=records[Disposition.WARNED],
        alerted=records[Disposition.ALERTED],
        dropped=records[Disposition.DROPPED],
        quarantined=records[Disposition.QUARANTINED] + earlier[False],
        rules=rules,
        alerts=alerts,
        by_partition=partitions,
    )
    return _within_budget(plan.contract.error_budget, decision, refused, context)


def fate_of(tally: Tally) -> FateCounts:
    """Return what becomes of the records of a tally."""
    if tally.disposition.is_written:
        return FateCounts(accepted=tally.records)
    if tally.disposition is Disposition.DROPPED:
        return FateCounts(dropped=tally.records)
    return FateCounts(quarantined=tally.records)


def _count(partitions: dict[int, FateCounts], partition: int, fate: FateCounts) -> None:
    partitions[partition] = partitions.get(partition, FateCounts()) + fate


def count_evidence(verdicts: Iterable[Verdict]) -> Counter[RuleKey]:
    """Count the records that violated each rule, keyword or column; a record counts once under each."""
    counts: Counter[RuleKey] = Counter()
    for verdict in verdicts:
        for key in rule_keys(verdict.violations):
            counts[key] += 1
    return counts


@lru_cache(maxsize=_MOST_REMEMBERED)  # those of many records are the same
def rule_keys(violations: tuple[Violation, ...]) -> frozenset[RuleKey]:
    """Name what a record with these violations counts under, once each."""
    return frozenset((each.stage, each.code, each.severity) for each in violations)


def _within_budget(
    budget: ErrorBudget | None, decision: Decision, refused: Counter[RuleKey], context: BudgetContext
) -> Decision:
    """Hold a batch to the error budget. Raises BudgetSpent."""
    if budget is None:
        return decision
    counted = context.window(budget, decision.counted)
    if not is_spent(budget, counted):
        return decision
    if budget.action == "quarantine":
        return replace(decision, over_budget=True)
    if context.is_accepted:
        return replace(decision, is_accepted=True)
    spent = Spent(budget, counted, rule_counts(refused)[:_TOLD_RULES])
    raise BudgetSpent(_overspent(spent), spent)


def _overspent(spent: Spent) -> str:
    counted = spent.counted
    return (
        f"error budget spent: {counted.refused} of {counted.records} records refused, {spent.budget.ratio:.1%} allowed; "
        "nothing of the batch is written. Mend the producer, publish a contract version with another budget, or accept "
        "the batch (tidegate resume STREAM --accept-batch), and start again"
    )


def _failure(plan: EnforcementPlan, failed: int, first: FailedRecord) -> str:
    contract = plan.contract
    rules = ", ".join(
        slot.code for slot in plan.failed_slots(first.failed) if slot.severity is Severity.ERROR
    )
    return (
        f"{failed} records violate what {contract.id}@{contract.version} must not let pass (on_violation fail); the first "
        f"is at topic {contract.topic}, partition {first.partition}, offset {first.offset} and violates {rules}; nothing "
        "of the batch is written. Publish a contract version that quarantines or drops such records, and start again"
    )
