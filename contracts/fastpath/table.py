"""Build the typed columns of accepted records with array operations, without a Python object for each string.

To match a record, the fast path writes its strings into one text, each followed by END (see `patterns`). The joined
texts of a batch thus serve as the data buffer of one string array, and each column takes its pieces from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
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

_END_BYTE: Final = ord(END)
_ABSENT_BYTE: Final = ord(ABSENT)
_LAST_BYTE: Final = ord(LAST)
_NEEDS_ESCAPE: Final = np.array(
    [(byte < ord(" ") and byte != _END_BYTE) or byte in b'"\\' for byte in range(256)]
)
"""For each byte, whether it must be escaped in a JSON string. END is not, because it separates strings here."""


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """The source of a column: its index among the strings, the lists, or the other kept values (`also`).

    At most one is set. Without any, all values are null.
    """

    string: int | None = None
    list: int | None = None
    also: int | None = None


@dataclass(frozen=True, slots=True)
class TypedAcceptance:
    """A bulk check that also stores the values of typed columns; `sources` has one entry for each column."""

    acceptance: Acceptance
    columns: tuple[FastColumn, ...]
    sources: tuple[ColumnSource, ...]


class AcceptedRows:
    """Builds columns from blocks of accepted records, and inserts the records that the strict path accepted."""

    def __init__(self, quick: TypedAcceptance, values: pa.Array, at: Callable[[int], None] | None) -> None:
        """Initialise from the fast path and the values of a batch; `at` is called with the index of each value."""
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
        """Yield the records that the fast path did not accept; those given to `keep` get a row too."""
        for block in self._blocks:
            self._kept = {}
            yield from block.suspects(self._at)
            self._add(block, self._kept)

    def keep(self, index: int, record: Any) -> None:
        """Build a row for the suspect at an index of the batch. Call it before the next suspect is requested."""
        self._kept[index] = record

    def _add(self, block: Block, records: dict[int, Any]) -> None:
        """Add a block; `records` are its suspects that were kept, by their index in the batch."""
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
        """Return the columns, with a row for each record, and the indexes of records that do not fit a column."""
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
        assert column.of_texts is not None  # noqa: S101 - only such columns are stored as strings
        with suppress(pa.ArrowException):
            if (converted := column.of_texts(strings, column.kind.arrow_type)) is not None:
                return converted
        # Some value does not fit: convert one by one to find it.
        array, refused = column.convert_values(strings.to_pylist())
        self._refused += refused
        return array

    def _of_lists(self, column: FastColumn, joined: pa.Array, is_empty: npt.NDArray[np.bool_]) -> pa.Array:
        """Return lists of strings as JSON texts; `joined` has the strings of each list with END between them."""
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
        """Return the array with the values of kept suspects in their rows."""
        if not self._records:
            return array
        places = list(self._records)
        values, refused = column.convert_values(
            [read(record, column.path) for record in self._records.values()]
        )
        self._refused += (places[index] for index in refused)
        order = np.arange(len(array))  # index into array + values, for each row
        order[places] = len(array) + np.arange(len(places))
        return pa.concat_arrays([array, values]).take(pa.array(order))


class _Texts:
    """The strings in the joined texts of a batch. Each piece of the text ends with END.

    The text of a record has its strings first, then its lists: the strings of each list, and a piece LAST that ends it.
    """

    def __init__(self, text: bytes, reading: Reading, records: int, without_text: list[int]) -> None:
        """Initialise from the joined texts; the records at the indexes `without_text` have none."""
        self._text = text
        self._data = np.frombuffer(text, np.uint8)
        self._ends = np.flatnonzero(self._data == _END_BYTE)
        self._starts = np.zeros_like(self._ends)
        self._starts[1:] = self._ends[:-1] + 1
        has_text = np.ones(records, np.bool_)
        has_text[without_text] = False
        self._is_missing = ~has_text
        # The index of the text of each record. It is arbitrary for a record without one, which `_pieces` makes null.
        self._text_of_record = np.maximum(np.cumsum(has_text) - 1, 0)
        # Indexes of pieces: those that end the lists of each text, and, below, the first piece of each text.
        self._list_ends = np.flatnonzero(self._data[self._starts] == _LAST_BYTE).reshape(
            -1, reading.lists or 1
        )
        texts = records - len(without_text)
        self._first_pieces = np.arange(texts) * reading.strings
        if reading.lists:
            self._first_pieces = np.zeros(texts, np.int64)
            self._first_pieces[1:] = self._list_ends[:-1, -1] + 1
        self._strings = reading.strings

    def strings(self, index: int) -> pa.Array:
        """Return string number `index` of each record as an array of string; null if it is absent."""
        pieces = self._first_pieces + index
        return self._pieces(self._starts[pieces], self._ends[pieces])

    def lists(self, index: int) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
        """Return list number `index` of each record, joined by END as an array of string; and which are empty."""
        last = self._list_ends[:, index]
        first = self._list_ends[:, index - 1] + 1 if index else self._first_pieces + self._strings
        starts, ends = self._starts[first], self._starts[last]
        is_empty = first == last
        joined = self._pieces(starts, ends - ~is_empty)
        return joined, is_empty[self._text_of_record] if len(is_empty) else self._is_missing

    def _pieces(self, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> pa.Array:
        """Return one piece of the text for each record as an array of string; null where it is absent."""
        if not len(starts):
            return pa.nulls(len(self._text_of_record), pa.string())
        # One array over the buffer without a copy: its even values are the pieces, its odd ones the text between them.
        offsets = np.empty(2 * len(starts) + 1, np.int64)
        offsets[:-1:2], offsets[1::2], offsets[-1] = starts, ends, len(self._text)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self._text)]
        pieces = pa.Array.from_buffers(pa.large_string(), 2 * len(starts), buffers)
        is_null = self._is_missing | (self._data[starts] == _ABSENT_BYTE)[self._text_of_record]
        return pieces.take(pa.array(2 * self._text_of_record, mask=is_null)).cast(pa.string())
