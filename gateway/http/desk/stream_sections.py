"""The whole page of a stream, with its sections about expectations, the shadow version and reconciliations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.stream.adoption import KeptAdoption
from tidegate.contracts.stream.reconciliation import (
    Findings,
    NamedRecords,
    ReconciliationAnswer,
    ReconciliationRequest,
    StreamReconciliation,
)
from tidegate.contracts.stream.report import ExpectationOutcome, ExpectationResult
from tidegate.contracts.stream.shadow import ShadowFindings
from tidegate.gateway.access.principal import Principal, Role
from tidegate.gateway.clock import now
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.desk.action_views import ActionLink, action_links
from tidegate.gateway.http.desk.problems_views import ProblemRow, waiting_problems
from tidegate.gateway.http.desk.stream_views import StreamFilter, StreamView, stream_view
from tidegate.gateway.streams.reconciliations import SeenReconciliations
from tidegate.gateway.streams.reports import ExpectationHistory

_OUTCOMES = {
    ExpectationOutcome.MET: ("met", "as expected"),
    ExpectationOutcome.WARNED: ("warned", "warned"),
    ExpectationOutcome.ALERTED: ("warned", "alerted"),
    ExpectationOutcome.QUARANTINED: ("refused", "quarantined"),
    ExpectationOutcome.FAILED: ("refused", "failed"),
    ExpectationOutcome.SKIPPED: ("muted", "too few records"),
}


@dataclass(frozen=True, slots=True)
class ExpectationCountLine:
    """One expectation in the time range of the page.

    `style` (a CSS class), `label` and `observed` are of the newest batch; `observed` is None if no figure is stored.
    `judged` is the number of batches with a result, `unmet` of those that did not meet it. `by_library`: Great
    Expectations evaluates it. `disagreements` is the number of batches in which the two evaluations differ.
    """

    expectation: str
    about: str
    style: str
    label: str
    observed: str | None
    judged: int
    unmet: int
    by_library: bool
    disagreements: int
    last_seen: datetime


def expectation_rows(history: Iterable[ExpectationHistory]) -> tuple[ExpectationCountLine, ...]:
    """Return a row for each expectation; those that need attention are first."""
    rows = [_expectation_row(each) for each in history]
    return tuple(sorted(rows, key=lambda row: (not row.disagreements, not row.unmet, row.expectation)))


def _expectation_row(history: ExpectationHistory) -> ExpectationCountLine:
    result = history.last.result
    style, label = _OUTCOMES[result.outcome]
    return ExpectationCountLine(
        expectation=history.expectation,
        about=about_expectation(result),
        style=style,
        label=label,
        observed=expectation_figure(result),
        judged=history.judged,
        unmet=history.unmet,
        by_library=result.judged_by == "great_expectations",
        disagreements=history.disagreements,
        last_seen=history.last.committed_at,
    )


def about_expectation(result: ExpectationResult) -> str:
    """Return the type and columns of an expectation in words, such as `column mean to be between: age`."""
    words = result.type.removeprefix("expect_").replace("_", " ")
    return f"{words}: {', '.join(result.columns)}" if result.columns else words


def expectation_figure(result: ExpectationResult) -> str | None:
    """Return the observed figure in words; None if none is stored."""
    if result.observed is not None:
        return f"{result.observed:,.6g}"
    if result.unexpected is not None:
        return f"{result.unexpected:,} of {result.considered:,} not so"
    return None


@dataclass(frozen=True, slots=True)
class ShadowView:
    """The shadow version of a stream: the declared one, or the last one that was declared.

    `findings` is None before its first batch.
    """

    version: str
    is_declared: bool
    findings: ShadowFindings | None

    @classmethod
    def of(cls, declared: str | None, findings: ShadowFindings | None) -> Self | None:
        """Build the view; None for a stream that never had a shadow. Findings of another version are ignored."""
        if findings is None or (declared is not None and findings.result.version != declared):
            return None if declared is None else cls(declared, is_declared=True, findings=None)
        return cls(findings.result.version, is_declared=declared is not None, findings=findings)


_FAULTS = {
    "in_no_output": "In no output",
    "written_twice": "Written twice",
    "quarantined_twice": "Quarantined twice",
    "written_and_quarantined": "Written and quarantined",
    "written_but_not_covered": "Written, but no batch of the ledger has them",
    "not_in_quarantine_table": "Quarantined, but not in the quarantine table",
    "twice_in_quarantine_table": "Twice in the quarantine table",
}
_STATES = {
    ReconciliationAnswer.HOLDS: "clear",
    ReconciliationAnswer.UNPROVEN: "silent",
    ReconciliationAnswer.LOST: "stopped",
}
MOST_PLACES = 20
MOST_EARLIER = 8


@dataclass(frozen=True, slots=True)
class Fault:
    """Records without an outcome or with two: the kind of fault, their number, and the first positions."""

    kind: str
    records: int
    places: tuple[str, ...]

    @property
    def left_out(self) -> int:
        """Return the number of records whose positions are not listed."""
        return self.records - len(self.places)


@dataclass(frozen=True, slots=True)
class LookedAt:
    """The offsets of one partition that were examined: [first, end)."""

    partition: int
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class ReconciliationOutcome:
    """The outcome of a finished reconciliation. `state` is a CSS class, `sentence` the result in words.

    `findings` is None if it failed.
    """

    asked: ReconciliationRequest
    at: datetime
    state: str
    sentence: str
    findings: Findings | None
    faults: tuple[Fault, ...] = ()
    looked_at: tuple[LookedAt, ...] = ()

    @property
    def batch(self) -> str:
        """Return the last batch in the ledger as `epoch/n`; "" without findings."""
        return f"{self.findings.epoch}/{self.findings.n}" if self.findings else ""


@dataclass(frozen=True, slots=True)
class ReconciliationView:
    """The reconciliations of a stream: the open one, the last finished one, and earlier ones.

    `may_ask`: the principal may request one. `is_taken`: a job has taken the open one.
    """

    may_ask: bool
    open: ReconciliationRequest | None
    is_taken: bool
    last: ReconciliationOutcome | None
    earlier: tuple[ReconciliationOutcome, ...]

    @classmethod
    def of(cls, seen: SeenReconciliations | None, *, may_ask: bool) -> Self | None:
        """Build the view; None for a stream without a contract."""
        if seen is None:
            return None
        over = [found for each in seen.found if (found := _outcome(each)) is not None]
        return cls(
            may_ask=may_ask,
            open=seen.open,
            is_taken=seen.is_taken,
            last=over[0] if over else None,
            earlier=tuple(over[1 : MOST_EARLIER + 1]),
        )


def _outcome(one: StreamReconciliation) -> ReconciliationOutcome | None:
    result = one.result
    if result is None:
        return None
    found = result.findings
    if found is None:
        return ReconciliationOutcome(
            one.asked, result.at, "silent", f"It could not be told: {result.failure}", None
        )
    return ReconciliationOutcome(
        one.asked,
        result.at,
        _STATES[found.answer],
        _sentence(found),
        found,
        tuple(_fault(kind, records) for kind, records in found.records if records is not None),
        tuple(LookedAt(p, first, found.end[p]) for p, first in sorted(found.begin.items()) if p in found.end),
    )


def _sentence(found: Findings) -> str:
    if found.answer is ReconciliationAnswer.HOLDS:
        return found.verdict.capitalize()
    if found.answer is ReconciliationAnswer.UNPROVEN:
        return "It cannot be proven that every offset has one fate"
    faults = []
    if found.lost:
        faults.append(f"{_records(found.lost)} lost")
    if found.twice:
        faults.append(f"{_records(found.twice)} there twice")
    return " and ".join(faults).capitalize() if faults else "Outputs and ledger do not agree"


def _records(count: int) -> str:
    return "1 record is" if count == 1 else f"{count:,} records are".replace(",", "\u2009")


def _fault(kind: str, records: NamedRecords) -> Fault:
    return Fault(_FAULTS[kind], records.count, records.first[:MOST_PLACES])


MOST_ADOPTIONS = 20


@dataclass(frozen=True, slots=True)
class StreamPage:
    """The whole page of a stream."""

    view: StreamView
    expectations: tuple[ExpectationCountLine, ...]
    shadow: ShadowView | None
    reconciliation: ReconciliationView | None
    adoptions: tuple[KeptAdoption, ...]
    actions: tuple[ActionLink, ...]
    problems: tuple[ProblemRow, ...]


def stream_page(factory: Factory, principal: Principal, stream: str, wanted: StreamFilter) -> StreamPage:
    """Return the whole page of a stream. Raises NotFoundError."""
    view = stream_view(factory, stream, wanted, now())
    history = factory.expectations().history(stream, view.span.since, view.span.until)
    declared, findings = factory.shadows().seen(stream)
    may_act = principal.may(Role.APPROVER, subject_of(view.row.summary.topic))
    return StreamPage(
        view,
        expectation_rows(history),
        ShadowView.of(declared, findings),
        ReconciliationView.of(factory.reconciliations().seen(stream), may_ask=may_act),
        factory.adoptions().seen(stream)[:MOST_ADOPTIONS],
        action_links(factory, stream),
        waiting_problems(factory, principal, stream),
    )
