"""Judge a batch as a whole by the expectations of its contract, before anything of it is written.

What was noted while the rows passed decides. Great Expectations judges what cannot be noted, and on every so many
batches also what can: as proof that both say the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

import pyarrow as pa
import structlog

from tidegate.contracts.errors import StreamStopped, Unavailable
from tidegate.contracts.expectations.checks import Finding
from tidegate.contracts.expectations.compile import CompiledExpectation, Partials
from tidegate.contracts.expectations.library import LibraryFinding, agrees
from tidegate.contracts.judge.plan import EnforcementPlan
from tidegate.contracts.stream.counts import RuleKey
from tidegate.contracts.stream.decide import Decision, Judged, Tally, refusals, results_of
from tidegate.contracts.stream.ledger import BatchRefusal, FateCounts
from tidegate.contracts.stream.report import ExpectationOutcome, ExpectationResult
from tidegate.contracts.verdict import Violation
from tidegate.spark_jobs.worker.request import WorkerRequest

log = structlog.get_logger()

_COUNTS = ("_count_to_be_between", "_proportion_of_unique_values_to_be_between")
"""Ends of the names of expectations for which what the library observed is no value of the payload."""


class Oracle(Protocol):
    """Great Expectations, or who stands in for it in a test of disagreement."""

    def ask(self, expectations: Iterable[CompiledExpectation], rows: pa.Table) -> dict[str, LibraryFinding]:
        """Judge expectations by typed columns; returns what was found by the id of each."""
        ...


class Noted(Protocol):
    """What a judged batch knows of its accepted rows."""

    @property
    def tallies(self) -> Iterable[Tally]:
        """Records by disposition and failed slots."""
        ...

    def noted(self) -> Partials:
        """Return what was noted of the accepted rows."""
        ...

    def library_rows(self) -> pa.Table:
        """Return the columns that were asked for."""
        ...


class BatchExpectations:
    """Judges the batches of one stream, one after the other."""

    def __init__(self, stream: str, proof_every: int, oracle: Callable[[], Oracle]) -> None:
        self._stream = stream
        self._proof_every = proof_every
        self._make_oracle = oracle
        self._oracle: Oracle | None = None
        self.published = 0
        """How many batches the ledger had counted before the next one: so every Nth stays so over restarts."""

    def ask(self, plan: EnforcementPlan, known: Iterable[BatchRefusal]) -> WorkerRequest:
        """Return what the workers are to do for the next batch. `known` are refusals of attempts before this one."""
        about = self._of_library(plan)
        columns = dict.fromkeys(column for each in about for column in each.columns)
        # An expectation about the table alone still needs rows to count.
        names = tuple(columns) or (tuple(plan.columns.names[:1]) if about else ())
        return WorkerRequest(names, tuple(known))

    def decide(self, plan: EnforcementPlan, judged: Noted, decision: Decision) -> Decision:
        """Judge a batch and say what becomes of it. Raises StreamStopped, and Unavailable when no one can judge."""
        if not plan.expectations:
            self.published += 1
            return decision
        results = results_of(plan, self._judge(plan, judged))
        self.published += 1
        self._tell(results)
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
            if each.check is None or (each.is_provable and self._is_proof)
        )

    def _judge(self, plan: EnforcementPlan, judged: Noted) -> list[Judged]:
        noted = judged.noted()
        rows = plan.expectations.rows(noted)
        is_enough = {
            each.expectation.id: rows >= each.expectation.min_records for each in plan.expectations.compiled
        }
        asked = [each for each in self._of_library(plan) if is_enough[each.expectation.id]]
        answers: dict[str, LibraryFinding] = {}
        if asked:
            self._oracle = self._oracle or self._make_oracle()
            answers = self._oracle.ask(asked, judged.library_rows())
        found: list[Judged] = []
        for each, ours in zip(plan.expectations.compiled, plan.expectations.find(noted), strict=True):
            theirs = answers.get(each.expectation.id)
            if not is_enough[each.expectation.id]:
                found.append(Judged(each, None))
            elif ours is None:
                found.append(Judged(each, _finding(each, theirs, rows)))
            else:
                is_same = None if each not in asked else theirs is not None and agrees(each, ours, theirs)
                found.append(Judged(each, ours, is_same))
        return found

    def _tell(self, results: Iterable[ExpectationResult]) -> None:
        for each in results:
            about = {"stream": self._stream, "expectation": each.id, "type": each.type}
            if each.outcome not in {ExpectationOutcome.MET, ExpectationOutcome.SKIPPED}:
                log.warning("expectation_not_met", outcome=each.outcome.value, **about)
            if each.agrees is False:
                log.error("expectation_disagreement", outcome=each.outcome.value, **about)


def refused(
    plan: EnforcementPlan, tallies: Iterable[Tally], decision: Decision, refusal: tuple[Violation, ...]
) -> Decision:
    """Refuse a batch as a whole: what would be written is quarantined, and counted from its evidence.

    What an earlier attempt has written for good stays.
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


def _finding(compiled: CompiledExpectation, found: LibraryFinding | None, rows: int) -> Finding:
    if found is None:
        raise Unavailable(
            f"Great Expectations cannot judge {compiled.expectation.id}, and an expectation that is not judged lets "
            "nothing pass; try it by itself, or leave it out of the contract"
        )
    observed = found.observed if compiled.expectation.type.endswith(_COUNTS) else None
    considered = rows if found.considered is None else found.considered
    return Finding(found.is_met, considered, found.unexpected, observed)


def _failure(plan: EnforcementPlan, codes: list[str]) -> str:
    contract = plan.contract
    return (
        f"the batch is not as {contract.id}@{contract.version} expects (on_violation fail): {', '.join(codes)}; nothing of "
        "it is written. Mend the producer, or publish a contract version that expects something else, and start again"
    )
