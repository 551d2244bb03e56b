"""The used part of a stream's error budget, computed from its stored reports."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
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
"""Budgets by fingerprint: a version never changes, and its document may have 100 kB."""


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """The error budget of the contract version that judged the last batch, and what its batches have used of it.

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


def budget_use(stores: Stores, last: BatchReport) -> BudgetUse | None:
    """Return how much of its budget a stream has used, by its last report; None without a budget."""
    budget = _budget(stores, last)
    if budget is None:
        return None
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
    for records, refused in islice(stores.reports.counts(last.stream, since, until), _MOST_BATCHES):
        counted += Counted(records, refused)
        if counted.records >= window_records:
            break
    return counted


def _budget(stores: Stores, last: BatchReport) -> ErrorBudget | None:
    if last.fingerprint in _known:
        return _known[last.fingerprint]
    contract_id, _, version = last.contract.rpartition("@")
    found = stores.contracts.version(contract_id, version)
    if found is None or found.fingerprint != last.fingerprint or not found.document:
        return None  # a report may name a version that does not exist
    document = orjson.loads(found.document).get("error_budget")
    budget = None if document is None else ErrorBudget.model_validate(document)
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    _known[last.fingerprint] = budget
    return budget
