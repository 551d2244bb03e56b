"""Typed columns of accepted records, made of whole columns: no value of a string column is an object again.

The strings of a record are written one after the other to be matched, so that all texts of a batch are already one
column of strings, from which each column takes its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.contracts.columns.rows import Suspect
from tidegate.contracts.fastpath.accept import Acceptance, Block, Reading
from tidegate.contracts.fastpath.columns import FastColumn
from tidegate.contracts.fastpath.patterns import ABSENT, END, LAST
from tidegate.contracts.rules.compiled import read

_END: Final = ord(END)
_ABSENT: Final = ord(ABSENT)
_LAST: Final = ord(LAST)
_NEEDS_ESCAPE: Final = np.array([(byte < ord(" ") and byte != _END) or byte in b'"\\' for byte in range(256)])
"""Bytes that JSON writes otherwise in a string; END is what stands between strings."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where the values of a column are found: its index among the strings, the lists, or the other values that are kept.

    Without any, all are null.
    """

    string: int | None = None
    list: int | None = None
    also: int | None = None


@dataclass(frozen=True, slots=True)
class TypedAcceptance:
    """The quick way that keeps what the columns hold: `sources` has where for each of `columns`."""

    acceptance: Acceptance
    columns: tuple[FastColumn, ...]
    sources: tuple[Source, ...]


class AcceptedRows:
    """Turns blocks of accepted records into columns, and puts the records that were not accepted in their places."""

    def __init__(self, quick: TypedAcceptance, values: pa.Array, at: Callable[[int], None] | None) -> None:
        """Take the way that accepts, and the values of a batch; `at` is as for `Acceptance.blocks`."""
        self._blocks = quick.acceptance.blocks(values, at)
        self._at = at
        self._length = len(values)
        self._reading = quick.acceptance.reading
        self._columns = quick.columns
        self._sources = quick.sources
        self._texts: list[bytes] = []
        self._without_text: list[int] = []
        self._kept: dict[int, Any] = {}
        self._records: dict[int, Any] = {}
        self._chunks: list[list[pa.Array]] = [[] for _ in quick.columns]
        self._refused: list[int] = []

    def suspects(self) -> Iterator[Suspect]:
        """Yield the records that are not accepted, each a `Suspect`."""
        for block in self._blocks:
            self._kept = {}
            yield from block.suspects(self._at)
            self._add(block, self._kept)

    def keep(self, index: int, record: Any) -> None:
        """Have the row of a suspect made of its record, before the next suspect is asked for."""
        self._kept[index] = record

    def _add(self, block: Block, records: dict[int, Any]) -> None:
        """Add a block; `records` are those that were not accepted and are kept, by their index."""
        self._texts.append(block.text)
        self._without_text += (block.start + position for position, _, _ in block.others)
        self._records.update(records)
        for column, source, chunks in zip(self._columns, self._sources, self._chunks, strict=True):
            if source.also is None:
                continue
            values = block.also[source.also]
            for index, record in records.items():
                values[index - block.start] = read(record, column.path)
            array, refused = column.convert_values(values)
            self._refused += (block.start + position for position in refused)
            chunks.append(array)

    def finish(self) -> tuple[list[pa.Array], list[int]]:
        """Return the columns of all records, and the positions of those that some column cannot hold."""
        texts = _Texts(b"".join(self._texts), self._reading, self._length, self._without_text)
        arrays = []
        for column, source, chunks in zip(self._columns, self._sources, self._chunks, strict=True):
            arrow_type = column.kind.arrow_type
            if source.also is not None:
                arrays.append(pa.concat_arrays([pa.array([], arrow_type), *chunks]))
                continue
            if source.string is not None:
                array = self._of_strings(column, texts.strings(source.string))
            elif source.list is not None:
                array = self._of_lists(column, *texts.lists(source.list))
            else:
                array = pa.nulls(self._length, arrow_type)
            arrays.append(self._with_records(column, array))
        return arrays, self._refused

    def _of_strings(self, column: FastColumn, strings: pa.Array) -> pa.Array:
        assert column.of_texts is not None  # noqa: S101 - that is why it is among the strings
        try:
            array = column.of_texts(strings, column.kind.arrow_type)
        except pa.ArrowException:
            array = None
        if array is not None:
            return array
        array, refused = column.convert_values(strings.to_pylist())
        self._refused += refused
        return array

    def _of_lists(self, column: FastColumn, joined: pa.Array, is_empty: npt.NDArray[np.bool_]) -> pa.Array:
        """Write lists of strings as JSON."""
        characters = np.frombuffer(joined.buffers()[2] or b"", np.uint8)
        if (_NEEDS_ESCAPE[characters]).any():
            pairs = zip(joined.to_pylist(), is_empty.tolist(), strict=True)
            lists = [None if text is None else [] if empty else text.split(END) for text, empty in pairs]
            array, refused = column.convert_values(lists)
            self._refused += refused
            return array
        array = pc.binary_join_element_wise('["', pc.replace_substring(joined, END, '","'), '"]', "")
        if is_empty.any():
            array = pc.if_else(pc.and_(pa.array(is_empty), joined.is_valid()), "[]", array)
        return array

    def _with_records(self, column: FastColumn, array: pa.Array) -> pa.Array:
        """Put what the records have that were not accepted in its places."""
        if not self._records:
            return array
        places = list(self._records)
        values, refused = column.convert_values(
            [read(record, column.path) for record in self._records.values()]
        )
        self._refused += (places[index] for index in refused)
        order = np.arange(len(array))
        order[places] = len(array) + np.arange(len(places))
        return pa.concat_arrays([array, values]).take(pa.array(order))


class _Texts:
    """The strings of the texts of a batch, as `patterns` has them written one after the other."""

    def __init__(self, text: bytes, reading: Reading, records: int, without_text: list[int]) -> None:
        """Take the texts of all records but those at some positions."""
        self._text = text
        self._data = np.frombuffer(text, np.uint8)
        self._ends = np.flatnonzero(self._data == _END)
        self._starts = np.zeros_like(self._ends)
        self._starts[1:] = self._ends[:-1] + 1
        has_text = np.ones(records, np.bool_)
        has_text[without_text] = False
        self._is_missing = ~has_text
        # The text of each record; of one without, that of another, which is left out in the end.
        self._record = np.maximum(np.cumsum(has_text) - 1, 0)
        # Where the lists of each text end, and its strings begin: indexes of pieces.
        self._lasts = np.flatnonzero(self._data[self._starts] == _LAST).reshape(-1, reading.lists or 1)
        texts = records - len(without_text)
        self._firsts = np.arange(texts) * reading.strings
        if reading.lists:
            self._firsts = np.zeros(texts, np.int64)
            self._firsts[1:] = self._lasts[:-1, -1] + 1
        self._strings = reading.strings

    def strings(self, index: int) -> pa.Array:
        """Return the string at an index of each text as an array of string, null where there is none."""
        pieces = self._firsts + index
        return self._taken(self._starts[pieces], self._ends[pieces])

    def lists(self, index: int) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
        """Return the list at an index of each text, an array of string, END between its strings; and which are empty."""
        last = self._lasts[:, index]
        before = self._lasts[:, index - 1] + 1 if index else self._firsts + self._strings
        starts, ends = self._starts[before], self._starts[last]
        is_empty = before == last
        joined = self._taken(starts, ends - ~is_empty)
        return joined, is_empty[self._record] if len(is_empty) else self._is_missing

    def _taken(self, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> pa.Array:
        """Return the pieces of the text, one of each record, null where it is absent."""
        if not len(starts):
            return pa.nulls(len(self._record), pa.string())
        # The pieces and what is between them are one array; each second of its values is a piece.
        offsets = np.empty(2 * len(starts) + 1, np.int64)
        offsets[:-1:2], offsets[1::2], offsets[-1] = starts, ends, len(self._text)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self._text)]
        pieces = pa.Array.from_buffers(pa.large_string(), 2 * len(starts), buffers)
        is_null = self._is_missing | (self._data[starts] == _ABSENT)[self._record]
        return pieces.take(pa.array(2 * self._record, mask=is_null)).cast(pa.string())
