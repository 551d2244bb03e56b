"""The common base class of the fast paths for JSON and Avro."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tidegate.contracts.columns.rows import JudgedRows, Suspect, TableRows
from tidegate.contracts.columns.typed import TypedColumn
from tidegate.contracts.fastpath.columns import fast_column
from tidegate.contracts.fastpath.rules import FastRules
from tidegate.contracts.formats.framing import Framed
from tidegate.contracts.rules.clock import SetClock
from tidegate.contracts.verdict import Violation


class FastPath(ABC):
    """A path that judges records like `judge.path.StrictPath`, in a fraction of the time."""

    fits: Callable[[Any], bool]
    """Whether a decoded record fits the schema. Never raises."""

    def __init__(self, rules: FastRules, columns: Sequence[TypedColumn]) -> None:
        self._rules = rules
        self.broken = rules.broken
        self._columns = tuple(map(fast_column, columns))

    @abstractmethod
    def decode(self, framed: Framed) -> Iterator[Any]:
        """Yield the record of each payload, or its Violation."""

    @abstractmethod
    def _doubtful(self, framed: Framed) -> Iterator[tuple[int, Any]]:
        """Yield the index and the record (or Violation) of each payload, except records that are known to be good."""

    def suspects(self, framed: Framed, at: SetClock | None) -> Iterator[Suspect]:
        """Yield all records except those that are known to be good, with the clock set to each."""
        if at is None:
            yield from ((index, record, None) for index, record in self._doubtful(framed))
            return
        for index, record, is_good in self._judged(framed, at):
            if not is_good:
                yield index, record, None

    def rows(self, framed: Framed, at: SetClock | None) -> JudgedRows:
        """Judge records as `suspects` does, and collect the rows of a table."""
        return TableRows(self._columns, self._judged(framed, at))

    def _judged(self, framed: Framed, at: SetClock | None) -> Iterator[tuple[int, Any, bool]]:
        fits, hold = self.fits, self._rules.hold
        for index, record in enumerate(self.decode(framed)):
            if at is not None:
                at(index)
            yield index, record, type(record) is not Violation and fits(record) and hold(record)
