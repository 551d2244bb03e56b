"""The fast path of Avro: generated readers, and generated tests of what they read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from tidegate.contracts.columns.typed import TypedColumn
from tidegate.contracts.fastpath.avro_reader import (
    DOUBTS,
    QuickReader,
    QuickTest,
    compile_quick_reader,
    compile_quick_test,
)
from tidegate.contracts.fastpath.path import FastPath
from tidegate.contracts.fastpath.rules import FastRules
from tidegate.contracts.formats.avro import MAX_WRITERS, AvroFormat
from tidegate.contracts.formats.avro_reader import ResolvedReader
from tidegate.contracts.formats.framing import Framed
from tidegate.contracts.formats.payload import NO_PAYLOAD

_FEW: Final = 20
"""Records of a writer that are read strictly first: to generate a reader takes as long as reading a hundred records."""


class AvroFastPath(FastPath):
    """Judges Avro records with generated functions; one for each writer."""

    def __init__(self, payload_format: AvroFormat, rules: FastRules, columns: Sequence[TypedColumn]) -> None:
        super().__init__(rules, columns)
        self._format = payload_format
        self.fits = payload_format.is_valid
        self._of = lru_cache(maxsize=MAX_WRITERS)(_Generated)

    def decode(self, framed: Framed) -> Iterator[Any]:
        """Decode each payload: the record, or the Violation that it is."""
        return self._format.decode(framed, self._records)

    def _doubtful(self, framed: Framed) -> Iterator[tuple[int, Any]]:
        # The loop that nearly all records pass: nothing is called here that need not be.
        for reader, rows, payloads in self._format.by_writer(framed):
            is_good = self._of(reader).test(self._rules, len(rows))
            for row, payload in zip(rows, payloads, strict=True):
                try:
                    if is_good(payload):
                        continue
                except DOUBTS:
                    pass
                yield row, NO_PAYLOAD if payload is None else reader.record(payload)

    def _records(self, reader: ResolvedReader, payloads: Sequence[bytes | None]) -> Iterator[Any]:
        read = self._of(reader).reader(len(payloads))
        for payload in payloads:
            try:
                yield read(payload)
            except DOUBTS:
                yield NO_PAYLOAD if payload is None else reader.record(payload)


class _Generated:
    """The generated functions of one writer, made when it has written a few records."""

    def __init__(self, reader: ResolvedReader) -> None:
        self._strict = reader
        self._records = 0
        self._reader: QuickReader | None = None
        self._test: QuickTest | None = None

    def reader(self, records: int) -> QuickReader:
        """Return what reads `records` more of them, or raises one of DOUBTS, which says nothing."""
        self._records += records
        if self._reader is None:
            if self._records < _FEW:
                return self._strict.read
            self._reader = compile_quick_reader(self._strict.node)
        return self._reader

    def test(self, rules: FastRules, records: int) -> QuickTest:
        """Return what says yes of a payload, of `records` more, whose record is known to break no rule.

        Any other answer, and one of DOUBTS that it raises, says nothing. The rules are the same at each call.
        """
        self._records += records
        if self._test is None:
            hold, read = rules.hold, self._strict.read
            if self._records < _FEW:
                return lambda payload: hold(read(payload))
            self._test = compile_quick_test(self._strict.node, rules)
        return self._test
