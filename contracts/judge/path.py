"""The path of records to their verdicts: the interface, and the strict path, which uses no generated code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from tidegate.contracts.columns.rows import Rows, Suspect, TableRows
from tidegate.contracts.columns.typed import TypedColumn
from tidegate.contracts.formats.framing import Framed
from tidegate.contracts.formats.payload import PayloadFormat
from tidegate.contracts.rules.clock import SetClock
from tidegate.contracts.rules.compiled import RuleSet


class RecordPath(Protocol):
    """Decodes records and asks schema and rules. The strict path and a fast one say the same of every record.

    `at` sets the clock of the rules to the moment of a record, by its index; None when no rule asks.
    """

    @property
    def fits(self) -> Callable[[Any], bool]:
        """Whether a decoded record fits the schema. Never raises."""
        ...

    @property
    def broken(self) -> Callable[[Any, bool], int]:
        """The bit set of the rules that a record breaks, given whether it fits the schema."""
        ...

    def decode(self, framed: Framed) -> Iterator[Any]:
        """Decode each payload: the record, or the Violation that it is."""
        ...

    def suspects(self, framed: Framed, at: SetClock | None) -> Iterator[Suspect]:
        """Yield all records but those that are known to be good, the clock set to each."""
        ...

    def rows(self, framed: Framed, at: SetClock | None) -> Rows:
        """Judge records as `suspects` does, and collect the rows of a table."""
        ...


class StrictPath:
    """Decodes strictly, asks one rule after the other, and converts each value by itself: no record is known to be good."""

    def __init__(
        self, payload_format: PayloadFormat, rules: RuleSet, columns: tuple[TypedColumn, ...]
    ) -> None:
        self.decode = payload_format.decode
        self.fits = payload_format.is_valid
        self.broken = rules.broken
        self._columns = columns

    def suspects(self, framed: Framed, at: SetClock | None) -> Iterator[Suspect]:
        """Yield all records, the clock set to each."""
        for index, record in enumerate(self.decode(framed)):
            if at is not None:
                at(index)
            yield index, record, None

    def rows(self, framed: Framed, at: SetClock | None) -> Rows:
        """Collect the rows of a table."""
        judged = ((index, record, False) for index, record, _ in self.suspects(framed, at))
        return TableRows(self._columns, judged)
