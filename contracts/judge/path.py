"""Decode and check records: the interface of a path, and the strict path, which uses no generated code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from tidegate.contracts.columns.rows import JudgedRows, Suspect, TableRows
from tidegate.contracts.columns.typed import TypedColumn
from tidegate.contracts.formats.framing import Framed
from tidegate.contracts.formats.payload import PayloadFormat
from tidegate.contracts.rules.clock import SetClock
from tidegate.contracts.rules.compiled import CompiledRules


class RecordPath(Protocol):
    """Decodes records and checks them by schema and rules. The strict path and the fast path have the same results.

    `at` is a function that takes the index of a record and sets the clock of the rules to its time. It is None if no
    rule reads the time.
    """

    @property
    def fits(self) -> Callable[[Any], bool]:
        """Return the test whether a decoded record fits the schema. It never raises."""
        ...

    @property
    def broken(self) -> Callable[[Any, bool], int]:
        """Return the function from a record, and whether it fits the schema, to the bit set of broken rules."""
        ...

    def decode(self, framed: Framed) -> Iterator[Any]:
        """Yield the record of each payload, or its Violation."""
        ...

    def suspects(self, framed: Framed, at: SetClock | None) -> Iterator[Suspect]:
        """Yield a `Suspect` for each record that may be invalid, with the clock set to the record."""
        ...

    def rows(self, framed: Framed, at: SetClock | None) -> JudgedRows:
        """Judge records as `suspects` does, and collect the rows of a table."""
        ...


class StrictPath:
    """Decodes each record exactly, checks one rule after another, and converts each value separately."""

    def __init__(
        self, payload_format: PayloadFormat, rules: CompiledRules, columns: tuple[TypedColumn, ...]
    ) -> None:
        self.decode = payload_format.decode
        self.fits = payload_format.is_valid
        self.broken = rules.broken
        self._columns = columns

    def suspects(self, framed: Framed, at: SetClock | None) -> Iterator[Suspect]:
        """Yield every record as a `Suspect`, with the clock set to it; no rules are checked yet."""
        for index, record in enumerate(self.decode(framed)):
            if at is not None:
                at(index)
            yield index, record, None

    def rows(self, framed: Framed, at: SetClock | None) -> JudgedRows:
        """Collect the rows of a table."""
        judged = ((index, record, False) for index, record, _ in self.suspects(framed, at))
        return TableRows(self._columns, judged)
