"""The error budget: how much of the batches of a window may be refused, and what one batch has spent of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

from tidegate.contracts.document.model import DataContract, ErrorBudget
from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.stream.control import Trip
from tidegate.contracts.stream.counts import RuleCount
from tidegate.contracts.stream.ledger import Vector
from tidegate.contracts.verdict import Severity, Stage, Violation

REFUSED_WITH_BATCH = Violation(
    Stage.EXPECTATION,
    "error-budget",
    "",
    Severity.ERROR,
    "the batch of the record has spent the error budget, which refuses it as a whole",
)
"""What every accepted record violates when a budget with the action `quarantine` is spent."""


@dataclass(frozen=True, slots=True)
class Counted:
    """How many records a batch had, and how many of them were refused."""

    records: int
    refused: int

    def __add__(self, other: Counted) -> Counted:
        return Counted(self.records + other.records, self.refused + other.refused)


@dataclass(frozen=True, slots=True)
class Spent:
    """A budget that is spent: `counted` over its window, `rules` what the batch alone violated, most frequent first."""

    budget: ErrorBudget
    counted: Counted
    rules: tuple[RuleCount, ...]

    def trip(self, contract: DataContract, start: Vector, end: Vector, epoch: int) -> Trip:
        """Return what the gateway is told about a batch with these offsets; each call makes another trip."""
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
    """The error budget is spent, and nothing of the batch may be written."""

    def __init__(self, message: str, spent: Spent) -> None:
        super().__init__(message, spent)
        self.spent = spent

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, slots=True)
class BudgetContext:
    """What is to be known beside a batch: those before it, newest first, and whether a person has accepted it."""

    earlier: tuple[Counted, ...] = ()
    is_accepted: bool = False

    def window(self, budget: ErrorBudget, batch: Counted) -> Counted:
        """Count the batch, and those before it for as long as the budget's window reaches."""
        total = batch
        for counted in self.earlier:
            if budget.window_records is None or total.records >= budget.window_records:
                break
            total += counted
        return total


class BudgetWindow:
    """The batches that one stream has published, for as long as a window may reach. Not for two threads at a time."""

    def __init__(self) -> None:
        self._batches: deque[Counted] = deque(maxlen=10_000)

    def fill(self, newest_first: Iterable[Counted]) -> None:
        """Put the batches of an earlier process behind those that are here."""
        for counted in newest_first:
            if len(self._batches) == self._batches.maxlen:
                return
            self._batches.append(counted)

    def published(self, counted: Counted, *, begins_anew: bool) -> None:
        """Take note of a batch. One that a person has accepted, or that was refused as a whole, begins the window again.

        Else what was refused because of it would be held against the batches after it, which are refused then too.
        """
        if begins_anew:
            self._batches.clear()
        else:
            self._batches.appendleft(counted)

    def context(self, *, is_accepted: bool) -> BudgetContext:
        """Return what is to be known beside the next batch."""
        return BudgetContext(tuple(self._batches), is_accepted)


def is_spent(budget: ErrorBudget, counted: Counted) -> bool:
    """Return whether more is refused than the budget allows, of records enough to say so."""
    return counted.records >= budget.min_records and counted.refused > budget.ratio * counted.records
