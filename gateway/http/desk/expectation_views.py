"""What the page of a stream shows of its expectations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from tidegate.contracts.stream.report import ExpectationOutcome, ExpectationResult
from tidegate.gateway.streams.reports import ExpectationHistory

_LABELS = {
    ExpectationOutcome.MET: ("met", "as expected"),
    ExpectationOutcome.WARNED: ("warned", "warned"),
    ExpectationOutcome.ALERTED: ("warned", "alerted"),
    ExpectationOutcome.QUARANTINED: ("refused", "quarantined"),
    ExpectationOutcome.FAILED: ("refused", "failed"),
    ExpectationOutcome.SKIPPED: ("muted", "too few records"),
}


@dataclass(frozen=True, slots=True)
class ExpectationRow:
    """One expectation in the range of the page.

    `style` and `label` tell of the newest batch. `observed` is a figure, None where none is kept.
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


def expectation_rows(history: Iterable[ExpectationHistory]) -> tuple[ExpectationRow, ...]:
    """Return every expectation, those that somebody must look at first."""
    rows = [_row(each) for each in history]
    return tuple(sorted(rows, key=lambda row: (not row.disagreements, not row.unmet, row.expectation)))


def _row(history: ExpectationHistory) -> ExpectationRow:
    result = history.last.result
    style, label = _LABELS[result.outcome]
    return ExpectationRow(
        expectation=history.expectation,
        about=_about(result),
        style=style,
        label=label,
        observed=_figure(result),
        judged=history.judged,
        unmet=history.unmet,
        by_library=result.judged_by == "great_expectations",
        disagreements=history.disagreements,
        last_seen=history.last.committed_at,
    )


def _about(result: ExpectationResult) -> str:
    words = result.type.removeprefix("expect_").replace("_", " ")
    return f"{words}: {', '.join(result.columns)}" if result.columns else words


def _figure(result: ExpectationResult) -> str | None:
    if result.observed is not None:
        return f"{result.observed:,.6g}"
    if result.unexpected is not None:
        return f"{result.unexpected:,} of {result.considered:,} not so"
    return None
