"""The decision about a judged batch before any of it is written: totals, counts by rule, error budget."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from uuid import uuid4

from tidegate.contracts.document.model import DataContract, ErrorBudget, Expectation
from tidegate.contracts.document.terms import OnViolation
from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.expectations.checks import CheckedExpectation
from tidegate.contracts.expectations.compile import CompiledExpectation
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.privacy.classes import classes_of
from tidegate.contracts.stream.bounds import MOST_COLUMNS
from tidegate.contracts.stream.control import Trip
from tidegate.contracts.stream.counts import RuleCount, RuleKey, rule_counts
from tidegate.contracts.stream.ledger import Position, Settlement, Vector
from tidegate.contracts.stream.report import ExpectationOutcome, ExpectationResult
from tidegate.contracts.stream.segments import FateCounts
from tidegate.contracts.verdict import Disposition, Severity, Stage, Verdict, Violation

REFUSED_WITH_BATCH = Violation(
    Stage.EXPECTATION,
    "error-budget",
    "",
    Severity.ERROR,
    "the batch of the record has spent the error budget, which refuses it as a whole",
)
"""The violation of every accepted record when a budget with the action `quarantine` is spent."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The number of records of a batch, and how many of them were refused."""

    records: int
    refused: int

    def __add__(self, other: Counted) -> Counted:
        return Counted(self.records + other.records, self.refused + other.refused)


@dataclass(frozen=True, slots=True)
class Spent:
    """A spent budget: `counted` covers its window, `rules` only the batch's violations, most frequent first."""

    budget: ErrorBudget
    counted: Counted
    rules: tuple[RuleCount, ...]

    def trip(self, contract: DataContract, start: Vector, end: Vector, epoch: int) -> Trip:
        """Return the trip to report for a batch with these offsets; each call creates a new id."""
        return Trip(
            id=uuid4(),
            stream=contract.id,
            topic=contract.topic,
            contract=f"{contract.id}@{contract.version}",
            epoch=epoch,
            at=datetime.now(UTC),
            start={partition: start.get(partition, 0) for partition in end},
            end=end,
            records=self.counted.records,
            refused=self.counted.refused,
            allowed=self.budget.ratio,
            action="pause" if self.budget.action == "pause" else "fail",
            rules=self.rules,
        )


class BudgetSpent(StreamStopped):
    """The error budget is spent, so no record of the batch may be written."""

    def __init__(self, message: str, spent: Spent) -> None:
        super().__init__(message, spent)
        self.spent = spent


@dataclass(frozen=True, slots=True)
class BudgetContext:
    """The context of a batch: earlier batches, newest first, and whether a person has accepted it.

    `is_refused` means that an earlier attempt has refused the batch as a whole, after a check of the budget.
    """

    earlier: tuple[Counted, ...] = ()
    is_accepted: bool = False
    is_refused: bool = False

    def window(self, budget: ErrorBudget, batch: Counted) -> Counted:
        """Return the counts of `batch` and of earlier batches until the budget's window is filled."""
        total = batch
        for counted in self.earlier:
            if budget.window_records is None or total.records >= budget.window_records:
                break
            total += counted
        return total


class BudgetWindow:
    """The counts of the last published batches of one stream, at most 10,000. Not thread-safe."""

    def __init__(self) -> None:
        self._batches: deque[Counted] = deque(maxlen=10_000)

    def fill(self, newest_first: Iterable[Counted]) -> None:
        """Add the batches of an earlier process as older ones."""
        for counted in newest_first:
            if len(self._batches) == self._batches.maxlen:
                return
            self._batches.append(counted)

    def published(self, counted: Counted, *, begins_anew: bool) -> None:
        """Record a published batch; `begins_anew` restarts the window and leaves the batch out.

        It is set for a batch that a person accepted, or that was refused as a whole. Otherwise its refused records would
        count against the next batches, which would be refused too.
        """
        if begins_anew:
            self._batches.clear()
        else:
            self._batches.appendleft(counted)

    def context(self, *, is_accepted: bool, is_refused: bool = False) -> BudgetContext:
        """Return the context of the next batch."""
        return BudgetContext(tuple(self._batches), is_accepted, is_refused)


def is_spent(budget: ErrorBudget, counted: Counted) -> bool:
    """Return whether the budget is exceeded; it does not apply below `min_records` records."""
    return counted.records >= budget.min_records and counted.refused > budget.ratio * counted.records


_ALONE = BudgetContext()
_NONE_SETTLED: Mapping[Position, Settlement] = MappingProxyType({})
_TOLD_RULES = 20
_MOST_REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class Tally:
    """The number of records of a batch with the same source partition, disposition and failed slots."""

    disposition: Disposition
    failed: bytes | None
    records: int
    partition: int = 0


@dataclass(frozen=True, slots=True)
class FailedRecord:
    """A record with the disposition `failed`: its source position, and the slots that it failed."""

    partition: int
    offset: int
    failed: bytes | None


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about a batch.

    `written` and `quarantined` include settled records; `written` includes warned and alerted ones. `rules` counts the
    records that failed each slot, without those that are quarantined now: these are counted from their evidence, which
    also has the keyword. `alerts` counts only the errors of alerted records. `refusal` are the violations of every
    accepted record of a batch that was refused as a whole; then no record is written. `is_accepted` means that the error
    budget is spent, but a person has accepted the batch.
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
    was_refused: bool = False
    """Whether an earlier attempt has refused the batch as a whole, and its records count as refused here."""
    by_partition: Mapping[int, FateCounts] = field(default_factory=dict)
    """Counts by source partition; they add up to those of the batch."""

    @property
    def records(self) -> int:
        """Return the number of records of the batch."""
        return self.written + self.quarantined + self.dropped

    @property
    def begins_anew(self) -> bool:
        """Return whether the window of the error budget starts again after the batch, and without it."""
        return self.is_accepted or self.was_refused or bool(self.refusal)

    @property
    def counted(self) -> Counted:
        """Return the counts for the error budget: all records, and the quarantined and dropped ones as refused."""
        return Counted(self.records, self.quarantined + self.dropped)


def decide(
    plan: EnforcementPlan,
    tallies: Iterable[Tally],
    first_failed: Callable[[], FailedRecord],
    settled: Mapping[Position, Settlement] = _NONE_SETTLED,
    context: BudgetContext = _ALONE,
) -> Decision:
    """Add up a judged batch and decide about it as a whole.

    `settled` are records of the batch that an earlier attempt has permanently written; they are not in `tallies`.
    `first_failed` finds the first record with the disposition `failed`, and is called only if there is one. Raises
    StreamStopped if a rule with on_violation `fail` is violated. Raises BudgetSpent if the error budget is spent,
    unless a person has accepted the batch or the budget quarantines it.
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
    """Return the fate of a tally's records: accepted, dropped or quarantined."""
    if tally.disposition.is_written:
        return FateCounts(accepted=tally.records)
    if tally.disposition is Disposition.DROPPED:
        return FateCounts(dropped=tally.records)
    return FateCounts(quarantined=tally.records)


def _count(partitions: dict[int, FateCounts], partition: int, fate: FateCounts) -> None:
    partitions[partition] = partitions.get(partition, FateCounts()) + fate


def count_evidence(verdicts: Iterable[Verdict]) -> Counter[RuleKey]:
    """Return the number of records that violated each rule, keyword or column; a record counts once under each."""
    counts: Counter[RuleKey] = Counter()
    for verdict in verdicts:
        for key in rule_keys(verdict.violations):
            counts[key] += 1
    return counts


@lru_cache(maxsize=_MOST_REMEMBERED)  # many records have the same violations
def rule_keys(violations: tuple[Violation, ...]) -> frozenset[RuleKey]:
    """Return the keys under which a record with these violations counts, each once."""
    return frozenset((each.stage, each.code, each.severity) for each in violations)


def _within_budget(
    budget: ErrorBudget | None, decision: Decision, refused: Counter[RuleKey], context: BudgetContext
) -> Decision:
    """Return the decision after a check of the error budget. Raises BudgetSpent if it stops the batch."""
    if budget is None:
        return decision
    if context.is_refused:
        return replace(decision, was_refused=True)
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


_OUTCOMES = {
    OnViolation.FAIL: ExpectationOutcome.FAILED,
    OnViolation.ALERT: ExpectationOutcome.ALERTED,
    OnViolation.QUARANTINE: ExpectationOutcome.QUARANTINED,
    OnViolation.DROP: ExpectationOutcome.QUARANTINED,
}


@dataclass(frozen=True, slots=True)
class Judged:
    """An expectation with its finding, and whether Great Expectations agrees; `agrees` is None if it was not asked.

    `finding` is None for a batch with too few records.
    """

    compiled: CompiledExpectation
    finding: CheckedExpectation | None
    agrees: bool | None = None


def results_of(plan: EnforcementPlan, judged: Iterable[Judged]) -> tuple[ExpectationResult, ...]:
    """Return the results for the report, without figures of classified columns."""
    classes = classes_of(plan.contract)
    classified = {column.name for column in plan.typed_columns if classes.touches(column.path)}
    return tuple(_result(plan.contract, each, classified) for each in judged)


def refusals(results: Iterable[ExpectationResult], outcome: ExpectationOutcome) -> tuple[Violation, ...]:
    """Return the violations that expectations with this outcome give to every accepted record of the batch."""
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


def _outcome(
    contract: DataContract, expectation: Expectation, finding: CheckedExpectation | None
) -> ExpectationOutcome:
    if finding is None:
        return ExpectationOutcome.SKIPPED
    if finding.is_met:
        return ExpectationOutcome.MET
    if expectation.severity is Severity.WARNING:
        return ExpectationOutcome.WARNED
    return _OUTCOMES[OnViolation(expectation.on_violation or contract.on_violation)]
