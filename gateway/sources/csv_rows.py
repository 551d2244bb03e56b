"""Read rows of CSV files as texts, and report unreadable ones: a wrong number of cells, or text that is not UTF-8.

Source: RFC 4180. The separator is the most frequent of `,`, `;`, tab and `|` in the header. A first line such as
`sep=;`, as Excel writes it, overrides this.
"""

from __future__ import annotations

import csv as csv_text
import io
import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv

from tidegate.contracts.document.source import escape
from tidegate.contracts.errors import SettingsError
from tidegate.gateway.sources.bytes_of_files import first_line
from tidegate.gateway.sources.source import BATCH_RECORDS, Chunk, Unreadable

_CSV_BLOCK: Final = 8 << 20
_LONGEST_HEADER: Final = 1 << 20
_MOST_SKIPPED: Final = 100_000
"""Maximum rows with a wrong number of cells that are kept until Arrow returns their block."""
_QUOTED: Final = re.compile(rb'"[^"]*"')
_NAMED_SEPARATOR: Final = re.compile(rb'(?:\xef\xbb\xbf)?"?sep=([,;\t|])"?\r?\n')
_END_OF_CELL: Final = re.compile(rb'(?:[^"]++|"")*+"')


def csv_chunks(stream: BinaryIO, name: str, nulls: Sequence[str]) -> Iterator[Chunk]:
    """Yield the rows as texts. Empty cells and the texts of `nulls` are null. The first row names the columns.

    Row 1 follows the header. Rows with a wrong number of cells, or with text that is not UTF-8, are `unreadable`.

    Raises SettingsError for text that is not CSV, repeated column names, a quote that extends over lines beyond its
    cell, or too many rows with a wrong number of cells.
    """
    text = _Text(stream, name)
    if not text.header:
        return
    rows = _Rows()
    try:
        names: list[str] = next(csv_text.reader(text.header_lines(), delimiter=text.delimiter), [])
        _require_different(names, name)
        with csv.open_csv(
            text,
            read_options=csv.ReadOptions(block_size=_CSV_BLOCK, use_threads=False),
            parse_options=csv.ParseOptions(
                delimiter=text.delimiter, newlines_in_values=True, invalid_row_handler=rows.skip
            ),
            convert_options=csv.ConvertOptions(
                column_types={each: pa.string() for each in names},
                null_values=["", *nulls],
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
                check_utf8=False,
            ),
        ) as reader:
            for batch in reader:
                text.require_closed_quotes()
                for first in range(0, batch.num_rows, BATCH_RECORDS):
                    yield _without_other_encodings(rows.chunk(batch.slice(first, BATCH_RECORDS)))
            text.require_closed_quotes()
            rest = rows.chunk(pa.record_batch([pa.array([], pa.string()) for _ in names], names=names))
            if rest.unreadable:
                yield rest
    except pa.ArrowInvalid as error:
        text.read(1)  # at the end of the file, this detects a quote that is not closed
        text.require_closed_quotes()
        if rows.is_hopeless:
            raise SettingsError(
                f"{name} has more than {_MOST_SKIPPED:,} rows with another number of cells than its header, which has "
                f"{len(names)} separated by {text.delimiter!r}"
            ) from None
        raise SettingsError(f"{name} cannot be read as CSV: {first_line(error)}") from None
    except (UnicodeDecodeError, csv_text.Error):
        raise SettingsError(f"{name} cannot be read as CSV: {_why_no_header(text.header)}") from None


def _why_no_header(header: bytes) -> str:
    """Return the reason for an unreadable header, with advice."""
    if header.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "it is UTF-16. Convert the file with iconv -f utf-16 -t utf-8"
    if b"\r" in header.rstrip(b"\r\n"):
        return "its lines end with CR alone. Convert the file with tr '\\r' '\\n'"
    return "its header is not UTF-8. Convert the file, for example with iconv -f latin1 -t utf-8"


def _require_different(names: Sequence[str], file: str) -> None:
    """Raise SettingsError if two columns have the same name, because a record cannot have both."""
    for index, name in enumerate(names):
        if name in names[:index]:
            first = names.index(name) + 1
            what = f"are both named `{name}`" if name else "have no name"
            raise SettingsError(
                f"{file}: columns {first} and {index + 1} of the header {what}; give each column its own name"
            )


class _Text(io.RawIOBase):
    """The bytes of a file, with its header, and the first quote that extends beyond its cell.

    A cell is quoted if it begins with a quote. A separator or a line end must follow its closing quote.
    """

    def __init__(self, stream: BinaryIO, name: str) -> None:
        super().__init__()
        self._stream = stream
        self._name = name
        self.header = self._read_header()
        named = _NAMED_SEPARATOR.fullmatch(self.header)
        if named:
            self.header = self._read_header()
        plain = _QUOTED.sub(b"", self.header).decode("utf-8", "replace")
        self.delimiter: str = named[1].decode() if named else max(",;\t|", key=plain.count)
        ends = re.escape(self.delimiter.encode()) + rb"\r\n"
        self._ends = frozenset(self.delimiter.encode() + b"\r\n")
        self._well_formed = re.compile(
            rb'(?:[^"]++|(?<=[%s])"(?:[^"]++|"")*+"(?=[%s])|(?<![%s])")*+' % (ends, ends, ends)
        )
        self._waiting = self.header
        """Bytes that are read from the file, and not yet returned."""
        self._line = 2 if named else 1
        self._quote: int | None = None
        """The line of the open quote; None outside of quotes."""
        self._rest = b"\n"
        """The end of the scanned text: one character, and quotes whose meaning depends on the next bytes."""
        self._flaw: str | None = None

    def readable(self) -> bool:
        return True

    def header_lines(self) -> Iterator[str]:
        """Return the lines of the header. Raises UnicodeDecodeError."""
        return io.StringIO(self.header.decode().removeprefix("\ufeff").strip("\r\n"), newline="\n")

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, and scan them."""
        data = self._waiting or self._stream.read(size)
        self._waiting = b""
        if self._flaw is None:
            self._scan(data or b"\n")
            if not data and self._quote is not None:
                self._flaw = "is never closed, and takes in the rest of the file"
        return data

    def require_closed_quotes(self) -> None:
        """Raise SettingsError if a quote extends beyond its cell."""
        if self._flaw is not None:
            raise SettingsError(
                f"{self._name} line {self._quote:,}: a quote at the beginning of a cell {self._flaw}; close it, or double "
                "each quote within the cell"
            )

    def _read_header(self) -> bytes:
        """Return the first row that is not blank; its quoted cells may contain line ends."""
        header = b""
        while len(header) < _LONGEST_HEADER and (line := self._stream.readline(_LONGEST_HEADER)):
            header += line
            if header.count(b'"') % 2 == 0 and header.strip():
                break
        return header if header.strip() else b""

    def _scan(self, data: bytes) -> None:
        """Track the quotes in the next bytes, and record the first flaw."""
        data = self._rest + data
        end = len(data.rstrip(b'"'))
        data, self._rest = data[:end], data[max(end - 1, 0) :]
        at = 1  # the first byte was scanned already
        while at < end:
            if self._quote is None:
                found = self._well_formed.match(data, at)
                stop = end if found is None else found.end()
                self._line += data.count(b"\n", at, stop)
                at = stop + 1
                if stop < end:
                    self._quote = self._line
                continue
            closed = _END_OF_CELL.match(data, at)
            stop = end if closed is None else closed.end()
            self._line += data.count(b"\n", at, stop)
            at = stop
            if stop == end:
                continue
            if data[stop] not in self._ends and self._line > self._quote:
                self._flaw = f"ends on line {self._line:,}, within another cell"
                return
            self._quote = None


class _Rows:
    """The numbering of rows: those that Arrow returns, and those that it skips."""

    def __init__(self) -> None:
        self.is_hopeless = False
        self._next = 1
        self._skipped: deque[Unreadable] = deque()

    def skip(self, row: Any) -> str:
        """Record a row with a wrong number of cells. Arrow calls this for the rows of a block before it returns the block."""
        if len(self._skipped) >= _MOST_SKIPPED:
            self.is_hopeless = True
            return "error"
        reason = f"has {row.actual_columns:,} cells, and the header has {row.expected_columns:,}"
        # Arrow counts the header as a row.
        self._skipped.append(Unreadable(row.number - 1, reason))
        return "skip"

    def chunk(self, batch: pa.RecordBatch) -> Chunk:
        """Return the next rows with their numbers, and the skipped rows between and after them."""
        positions = [np.empty(0, np.int64)]
        unreadable = []
        rest = batch.num_rows
        while True:
            if self._skipped and self._skipped[0].position == self._next:
                unreadable.append(self._skipped.popleft())
                self._next += 1
                continue
            if not rest:
                break
            count = min(rest, self._skipped[0].position - self._next) if self._skipped else rest
            positions.append(np.arange(self._next, self._next + count))
            self._next += count
            rest -= count
        return Chunk(batch, np.concatenate(positions), tuple(unreadable))


def _without_other_encodings(chunk: Chunk) -> Chunk:
    """Return the chunk with rows that are not UTF-8 moved to `unreadable`."""
    broken = {
        index: Unreadable(int(chunk.positions[index]), "is not UTF-8", f"/{escape(name)}")
        for name, array in zip(chunk.batch.schema.names, chunk.batch.columns, strict=True)
        for index in _not_utf_8(array)
    }
    if not broken:
        return chunk
    is_read: npt.NDArray[np.bool_] = np.ones(len(chunk.positions), bool)
    is_read[list(broken)] = False
    unreadable = sorted([*chunk.unreadable, *broken.values()], key=lambda each: each.position)
    return Chunk(chunk.batch.filter(pa.array(is_read)), chunk.positions[is_read], tuple(unreadable))


def _not_utf_8(array: pa.Array) -> Iterator[int]:
    """Yield the indices of the cells that are not UTF-8."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        for index, each in enumerate(array.cast(pa.binary()).to_pylist()):
            try:
                (each or b"").decode()
            except UnicodeDecodeError:
                yield index
