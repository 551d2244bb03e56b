"""The history of expectations: what became of each in the batches of a stream."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tidegate.contracts.errors import NotFoundError
from tidegate.contracts.stream.report import ExpectationOutcome
from tidegate.gateway.storage.database import Database
from tidegate.gateway.storage.expectations import PastResult
from tidegate.gateway.storage.sql import Stores

_MOST = 10_000
_GOOD = frozenset({ExpectationOutcome.MET, ExpectationOutcome.SKIPPED})


@dataclass(frozen=True, slots=True)
class ExpectationHistory:
    """One expectation in a range of time: its results, newest first, never none.

    `judged` counts the batches that it judged, `unmet` those that were not as expected, `disagreements` those in
    which Great Expectations, asked too, said something else.
    """

    expectation: str
    results: tuple[PastResult, ...]
    judged: int
    unmet: int
    disagreements: int

    @property
    def last(self) -> PastResult:
        """The newest result."""
        return self.results[0]


class ExpectationReader:
    """Reads what became of expectations."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def results(
        self,
        stream: str,
        since: datetime,
        until: datetime,
        limit: int = _MOST,
        expectation: str | None = None,
    ) -> tuple[PastResult, ...]:
        """List the results in batches committed in [since, until), newest first. Raises NotFoundError."""

        def work(stores: Stores) -> tuple[PastResult, ...]:
            if stores.reports.sums_of(stream) is None:
                raise NotFoundError(f"no batch of a stream {stream} was reported")
            return tuple(stores.expectations.between(stream, since, until, limit, expectation))

        return self._database.read(work)

    def history(self, stream: str, since: datetime, until: datetime) -> tuple[ExpectationHistory, ...]:
        """Return each expectation of the newest results in a range, by its id. Raises NotFoundError."""
        by_id: dict[str, list[PastResult]] = {}
        for each in self.results(stream, since, until):
            by_id.setdefault(each.result.id, []).append(each)
        return tuple(_history(name, tuple(found)) for name, found in sorted(by_id.items()))


def _history(name: str, found: tuple[PastResult, ...]) -> ExpectationHistory:
    outcomes = [each.result.outcome for each in found]
    return ExpectationHistory(
        name,
        found,
        judged=sum(outcome is not ExpectationOutcome.SKIPPED for outcome in outcomes),
        unmet=sum(outcome not in _GOOD for outcome in outcomes),
        disagreements=sum(each.result.agrees is False for each in found),
    )
