"""The fast path of JSON: typed rows where the schema has them, and orjson with a rewritten schema elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tidegate.contracts.columns.rows import JudgedRows, Suspect
from tidegate.contracts.columns.typed import TypedColumn
from tidegate.contracts.fastpath.accept import Acceptance
from tidegate.contracts.fastpath.json_bounds import with_quick_bounds
from tidegate.contracts.fastpath.json_values import decode_values, suspects
from tidegate.contracts.fastpath.path import FastPath
from tidegate.contracts.fastpath.row_program import compile_acceptance
from tidegate.contracts.fastpath.rules import FastRules
from tidegate.contracts.fastpath.table import AcceptedRows, TypedAcceptance
from tidegate.contracts.formats.framing import Framed
from tidegate.contracts.formats.json_schema import JsonSchemaFormat
from tidegate.contracts.rules.clock import SetClock


class JsonFastPath(FastPath):
    """The fast path for JSON; `acceptance` and `typed_acceptance` are None if rows cannot express the schema."""

    def __init__(
        self, payload_format: JsonSchemaFormat, rules: FastRules, columns: Sequence[TypedColumn]
    ) -> None:
        super().__init__(rules, columns)
        quick = with_quick_bounds(payload_format.definition)
        is_same = quick == payload_format.definition
        self.fits = payload_format.is_valid if is_same else payload_format.rewritten_test(quick)
        self.acceptance: Acceptance | None = None
        self.typed_acceptance: TypedAcceptance | None = None
        if (found := compile_acceptance(payload_format, rules, self._columns)) is not None:
            self.acceptance, self.typed_acceptance = found

    def decode(self, framed: Framed) -> Iterator[Any]:
        """Yield the record of each payload, or its Violation."""
        return decode_values(framed.payloads)

    def _doubtful(self, framed: Framed) -> Iterator[tuple[int, Any]]:
        return suspects(framed.payloads, self.fits, self._rules.hold)

    def suspects(self, framed: Framed, at: SetClock | None) -> Iterator[Suspect]:
        """Yield all records except those that are known to be good, with the clock set to each."""
        if self.acceptance is None:
            yield from super().suspects(framed, at)
            return
        for block in self.acceptance.blocks(framed.payloads, at):
            yield from block.suspects(at)

    def rows(self, framed: Framed, at: SetClock | None) -> JudgedRows:
        """Judge records as `suspects` does, and collect the rows of a table."""
        if self.typed_acceptance is None:
            return super().rows(framed, at)
        return AcceptedRows(self.typed_acceptance, framed.payloads, at)
