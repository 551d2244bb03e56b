"""Data that one Avro schema wrote, read as records of a contract: strictly, and quickly where that is known to agree."""

from __future__ import annotations

from typing import Any, Final

from tidegate.contracts.document.fields import join
from tidegate.contracts.formats.avro_decoder import MALFORMED, MalformedError, compile_reader, malformed
from tidegate.contracts.formats.avro_nodes import Node
from tidegate.contracts.formats.avro_quick import (
    QuickReader,
    QuickTest,
    compile_quick_reader,
    compile_quick_test,
)
from tidegate.contracts.rules.compiled import RuleSet
from tidegate.contracts.verdict import Severity, Stage, Violation

MAX_POINTER_TOKENS: Final = 16
"""Most names in a violation's pointer: a place that lies deeper is named by the beginning of its way."""
_FEW: Final = 20
"""So many records are read strictly before a quick reader is written, which takes as long as a hundred do."""


class Written:
    """Reads what was written with one schema."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._read = compile_reader(node)
        self._records = 0
        self._quick: QuickReader | None = None
        self._test: QuickTest | None = None

    def record(self, payload: bytes) -> Any:
        """Decode a payload: the record, or the Violation of stage decode that it is."""
        try:
            return self._strictly(payload)
        except MALFORMED as error:
            return _violation(malformed(error))

    def quick(self, records: int) -> QuickReader:
        """Return the reader that is quick for `records` more of them.

        What it raises for a payload, one of `avro_quick.DOUBTS`, says nothing: ask for the `record` then.
        """
        self._records += records
        if self._quick is None:
            if self._records < _FEW:
                return self._strictly
            self._quick = compile_quick_reader(self._node)
        return self._quick

    def test(self, rules: RuleSet, records: int) -> QuickTest:
        """Return what says yes of a payload of which the record is known to break no rule, quick for `records` more of them.

        Anything else that it says, and what it raises, one of DOUBTS, says nothing. The rules are the same at each call.
        """
        self._records += records
        if self._test is None:
            hold, read = rules.hold, self._strictly
            if self._records < _FEW:
                return lambda payload: hold(read(payload))
            self._test = compile_quick_test(self._node, rules)
        return self._test

    def _strictly(self, payload: bytes) -> Any:
        record, end = self._read(payload, 0, 0)
        if end < len(payload):
            raise MalformedError("avro.trailing-bytes", "goes on after its last field")
        return record


def _violation(error: MalformedError) -> Violation:
    path = tuple(reversed(error.path[-MAX_POINTER_TOKENS:]))
    return Violation(Stage.DECODE, error.code, join(path), Severity.ERROR, error.message)
