"""Judging of a whole batch by the expectations of its contract, before any of it is written.

Most expectations are decided by aggregates that the workers collect. Great Expectations judges those without
aggregates, and in every Nth batch also the others, to verify that both agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

import pyarrow as pa
import structlog

from tidegate.contracts.errors import StreamStopped, Unavailable
from tidegate.contracts.expectations.checks import CheckedExpectation
from tidegate.contracts.expectations.compile import CompiledExpectation, Partials
from tidegate.contracts.expectations.library import LibraryFinding, agrees
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.counts import RuleKey
from tidegate.contracts.stream.decide import Decision, Judged, Tally, refusals, results_of
from tidegate.contracts.stream.ledger import BatchRefusal
from tidegate.contracts.stream.report import ExpectationOutcome, ExpectationResult
from tidegate.contracts.stream.segments import FateCounts
from tidegate.contracts.verdict import Violation
from tidegate.spark_jobs.worker.request import WorkerRequest

log = structlog.get_logger()

_COUNTS = ("_count_to_be_between", "_proportion_of_unique_values_to_be_between")
"""Suffixes of the expectation types whose observed value in the library is not a payload value."""


class Oracle(Protocol):
    """Great Expectations, or a replacement in tests of disagreement."""

    def ask(self, expectations: Iterable[CompiledExpectation], rows: pa.Table) -> dict[str, LibraryFinding]:
        """Judge expectations on typed columns; return the findings by expectation id."""
        ...


class Aggregates(Protocol):
    """The tasks' aggregates of the accepted rows of a judged batch."""

    @property
    def tallies(self) -> Iterable[Tally]:
        """Return the counts of records, by disposition and failed slots."""
        ...

    def partials(self) -> Partials:
        """Return the aggregates of the accepted rows."""
        ...

    def library_rows(self) -> pa.Table:
        """Return the columns that the request of the batch names."""
        ...


class BatchExpectations:
    """Judge of the batches of one stream, one after another."""

    def __init__(self, stream: str, proof_every: int, oracle: Callable[[], Oracle]) -> None:
        self._stream = stream
        self._proof_every = proof_every
        self._make_oracle = oracle
        self._oracle: Oracle | None = None
        self.published = 0
        """Batches that the ledger counts before the next one, so that every Nth batch is the same after a restart."""

    def ask(self, plan: EnforcementPlan, known: Iterable[BatchRefusal]) -> WorkerRequest:
        """Return the workers' request for the next batch. `known` are the batches that earlier attempts refused."""
        about = self._of_library(plan)
        columns = dict.fromkeys(column for each in about for column in each.columns)
        # An expectation about the table alone still needs rows to count.
        names = tuple(columns) or (tuple(plan.columns.names[:1]) if about else ())
        return WorkerRequest(names, tuple(known))

    def decide(self, plan: EnforcementPlan, judged: Aggregates, decision: Decision) -> Decision:
        """Judge a batch and return its decision, extended by the results.

        Raises StreamStopped if an expectation with on_violation fail is not met. Raises Unavailable if Great
        Expectations cannot judge an expectation that has no aggregates.
        """
        if not plan.expectations:
            self.published += 1
            return decision
        results = results_of(plan, self._judge(plan, judged))
        self.published += 1
        self._log_unmet(results)
        if failing := refusals(results, ExpectationOutcome.FAILED):
            raise StreamStopped(_failure(plan, [each.code for each in failing]))
        decision = replace(decision, expectations=results)
        refusal = refusals(results, ExpectationOutcome.QUARANTINED)
        return refused(plan, judged.tallies, decision, refusal) if refusal else decision

    @property
    def _is_proof(self) -> bool:
        return bool(self._proof_every) and (self.published + 1) % self._proof_every == 0

    def _of_library(self, plan: EnforcementPlan) -> tuple[CompiledExpectation, ...]:
        return tuple(
            each
            for each in plan.expectations.compiled
            if each.check is None or (each.is_cross_checked and self._is_proof)
        )

    def _judge(self, plan: EnforcementPlan, judged: Aggregates) -> list[Judged]:
        partials = judged.partials()
        rows = plan.expectations.rows(partials)
        is_enough = {
            each.expectation.id: rows >= each.expectation.min_records for each in plan.expectations.compiled
        }
        asked = [each for each in self._of_library(plan) if is_enough[each.expectation.id]]
        answers: dict[str, LibraryFinding] = {}
        if asked:
            self._oracle = self._oracle or self._make_oracle()
            answers = self._oracle.ask(asked, judged.library_rows())
        found: list[Judged] = []
        for each, ours in zip(plan.expectations.compiled, plan.expectations.find(partials), strict=True):
            theirs = answers.get(each.expectation.id)
            if not is_enough[each.expectation.id]:
                found.append(Judged(each, None))
            elif ours is None:
                found.append(Judged(each, _finding(each, theirs, rows)))
            else:
                is_same = None if each not in asked else theirs is not None and agrees(each, ours, theirs)
                found.append(Judged(each, ours, is_same))
        return found

    def _log_unmet(self, results: Iterable[ExpectationResult]) -> None:
        for each in results:
            about = {"stream": self._stream, "expectation": each.id, "type": each.type}
            if each.outcome not in {ExpectationOutcome.MET, ExpectationOutcome.SKIPPED}:
                log.warning("expectation_not_met", outcome=each.outcome.value, **about)
            if each.agrees is False:
                log.error("expectation_disagreement", outcome=each.outcome.value, **about)


def refused(
    plan: EnforcementPlan, tallies: Iterable[Tally], decision: Decision, refusal: tuple[Violation, ...]
) -> Decision:
    """Refuse a whole batch: rows that would be written are quarantined, and counted from their evidence.

    Records that an earlier attempt has written permanently stay written.
    """
    rules = Counter(decision.rules)
    written = 0
    partitions = dict(decision.by_partition)
    for tally in tallies:
        if tally.disposition.is_written:
            written += tally.records
            moved = FateCounts(accepted=-tally.records, quarantined=tally.records)
            partitions[tally.partition] = partitions.get(tally.partition, FateCounts()) + moved
            for slot in plan.failed_slots(tally.failed):
                rules[slot.stage, slot.code, slot.severity] -= tally.records
    return replace(
        decision,
        written=decision.written - written,
        warned=0,
        alerted=0,
        quarantined=decision.quarantined + written,
        rules=+rules,
        alerts=Counter[RuleKey](),
        refusal=refusal,
        by_partition=partitions,
    )


def _finding(compiled: CompiledExpectation, found: LibraryFinding | None, rows: int) -> CheckedExpectation:
    if found is None:
        raise Unavailable(
            f"Great Expectations cannot judge {compiled.expectation.id}, and an expectation that is not judged lets "
            "nothing pass; try it by itself, or leave it out of the contract"
        )
    observed = found.observed if compiled.expectation.type.endswith(_COUNTS) else None
    considered = rows if found.considered is None else found.considered
    return CheckedExpectation(found.is_met, considered, found.unexpected, observed)


def _failure(plan: EnforcementPlan, codes: list[str]) -> str:
    contract = plan.contract
    return (
        f"the batch is not as {contract.id}@{contract.version} expects (on_violation fail): {', '.join(codes)}; nothing of "
        "it is written. Mend the producer, or publish a contract version that expects something else, and start again"
    )
