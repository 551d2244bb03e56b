"""The used part of a stream's error budget, computed from its stored reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

import orjson

from tidegate.contracts.document.model import ErrorBudget
from tidegate.contracts.stream.decide import Counted, is_spent
from tidegate.contracts.stream.report import BatchReport
from tidegate.gateway.storage.sql import Stores

_MOST_KNOWN: Final = 10_000
_MOST_BATCHES: Final = 1_000
_WINDOW: Final = timedelta(days=1)
_known: dict[str, ErrorBudget | None] = {}
"""Budgets by fingerprint, cached: a version never changes, and its document may have 100 kB."""


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """The error budget of the contract version that judged the last batch, and how much of it is used.

    `records` and `refused` count the last batch, or the newest batches that have `window_records` together. `used` is
    the refused share divided by `ratio`, so 1 and more is spent. It is None without records, and for a ratio of 0.
    """

    ratio: float
    min_records: int
    window_records: int | None
    action: Literal["fail", "pause", "quarantine"]
    records: int
    refused: int
    is_spent: bool

    @property
    def used(self) -> float | None:
        """Return the used part of the budget: 0 is nothing, 1 is all of it."""
        allowed = self.ratio * self.records
        return self.refused / allowed if allowed else None


def budget_uses(stores: Stores, last: Mapping[str, BatchReport]) -> dict[str, BudgetUse]:
    """Return how much of its budget each stream has used, by the last reports; without streams that have no budget."""
    budgets = _budgets(stores, {report.fingerprint for report in last.values()})
    found = {stream: budgets.get(report.fingerprint) for stream, report in last.items()}
    return {stream: _use(stores, last[stream], each) for stream, each in found.items() if each is not None}


def _use(stores: Stores, last: BatchReport, budget: ErrorBudget) -> BudgetUse:
    counted = Counted(last.records, last.quarantined + last.dropped)
    if budget.window_records is not None and counted.records < budget.window_records:
        counted = _windowed(stores, last, budget.window_records)
    return BudgetUse(
        ratio=budget.ratio,
        min_records=budget.min_records,
        window_records=budget.window_records,
        action=budget.action,
        records=counted.records,
        refused=counted.refused,
        is_spent=is_spent(budget, counted),
    )


def _windowed(stores: Stores, last: BatchReport, window_records: int) -> Counted:
    """Count batches, newest first, until their records fill the window; at most a day, as the desk shows it."""
    since, until = last.committed_at - _WINDOW, last.committed_at + timedelta(microseconds=1)
    counted = Counted(0, 0)
    for records, refused in stores.reports.counts(last.stream, since, until, _MOST_BATCHES):
        counted += Counted(records, refused)
        if counted.records >= window_records:
            break
    return counted


def _budgets(stores: Stores, fingerprints: set[str]) -> dict[str, ErrorBudget | None]:
    """Return the budgets of versions, of those that exist: a report may name another one."""
    known = dict(_known)  # another thread may clear it meanwhile
    found = {each: known[each] for each in fingerprints if each in known}
    if missing := fingerprints - found.keys():
        new = {
            version.fingerprint: _budget_in(version.document)
            for version in stores.contracts.with_fingerprints(missing)
            if version.document
        }
        found |= new
        if len(_known) + len(new) > _MOST_KNOWN:
            _known.clear()
        _known.update(new)
    return found


def _budget_in(document: bytes) -> ErrorBudget | None:
    written = orjson.loads(document).get("error_budget")
    return None if written is None else ErrorBudget.model_validate(written)
