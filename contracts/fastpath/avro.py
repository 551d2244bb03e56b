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
"""Number of records of a writer that are read strictly first: generating a reader takes as long as reading 100."""


class AvroFastPath(FastPath):
    """The fast path for Avro, with generated functions for each writer schema."""

    def __init__(self, payload_format: AvroFormat, rules: FastRules, columns: Sequence[TypedColumn]) -> None:
        super().__init__(rules, columns)
        self._format = payload_format
        self.fits = payload_format.is_valid
        self._of = lru_cache(maxsize=MAX_WRITERS)(_Generated)

    def decode(self, framed: Framed) -> Iterator[Any]:
        """Yield the record of each payload, or its Violation."""
        return self._format.decode(framed, self._records)

    def _doubtful(self, framed: Framed) -> Iterator[tuple[int, Any]]:
        # Nearly all records take this loop, so it makes no unnecessary calls.
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
    """The generated functions of one writer schema, built once it has written a few records."""

    def __init__(self, reader: ResolvedReader) -> None:
        self._strict = reader
        self._records = 0
        self._reader: QuickReader | None = None
        self._test: QuickTest | None = None

    def reader(self, records: int) -> QuickReader:
        """Return the reader for the next `records` payloads; if it raises one of DOUBTS, use the strict reader."""
        self._records += records
        if self._reader is None:
            if self._records < _FEW:
                return self._strict.read
            self._reader = compile_quick_reader(self._strict.node)
        return self._reader

    def test(self, rules: FastRules, records: int) -> QuickTest:
        """Return the test for the next `records` payloads (see `QuickTest`). `rules` must never change."""
        self._records += records
        if self._test is None:
            hold, read = rules.hold, self._strict.read
            if self._records < _FEW:
                return lambda payload: hold(read(payload))
            self._test = compile_quick_test(self._strict.node, rules)
        return self._test
