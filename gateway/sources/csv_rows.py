"""Rows of CSV files as texts, with those that have another number of cells than the header.

Source: RFC 4180; the separator is the one of `,`, `;`, tab and `|` that the header has most of.
"""

from __future__ import annotations

import csv as csv_text
import io
import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
from pyarrow import csv

from tidegate.contracts.errors import SettingsError
from tidegate.contracts.infer.columns import valid_text
from tidegate.gateway.sources.bytes_of_files import beginning, first_line
from tidegate.gateway.sources.source import BATCH_RECORDS, Chunk, Unreadable

_CSV_BLOCK: Final = 8 << 20
_MOST_SKIPPED: Final = 100_000
"""Rows with a wrong number of cells that are kept at once: of one block, as long as none of it has been returned."""


def csv_chunks(stream: BinaryIO, name: str, nulls: Sequence[str]) -> Iterator[Chunk]:
    """Yield the rows as texts; an empty cell is null, and so is each text of `nulls`. The first row names the columns.

    Row 1 is the one after the header. A row with another number of cells is `unreadable`.

    Raises SettingsError for what is no CSV, and for rows that nearly all have a wrong number of cells.
    """
    start = beginning(stream) if isinstance(stream, io.BufferedReader) else b""
    header = start.split(b"\n", 1)[0].decode("utf-8", "replace").lstrip("\ufeff")
    delimiter = max(",;\t|", key=re.sub('"[^"]*"', "", header).count)
    rows = _Rows()
    try:
        names: list[str] = next(csv_text.reader([header.rstrip("\r")], delimiter=delimiter), [])
        with csv.open_csv(
            stream,
            read_options=csv.ReadOptions(block_size=_CSV_BLOCK, use_threads=False),
            parse_options=csv.ParseOptions(
                delimiter=delimiter, newlines_in_values=True, invalid_row_handler=rows.skip
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
                texts = pa.record_batch(
                    [valid_text(each.cast(pa.string())) for each in batch.columns], names=batch.schema.names
                )
                for first in range(0, texts.num_rows, BATCH_RECORDS):
                    yield rows.chunk(texts.slice(first, BATCH_RECORDS))
            rest = rows.chunk(pa.record_batch([pa.array([], pa.string()) for _ in names], names=names))
            if rest.unreadable:
                yield rest
    except pa.ArrowInvalid as error:
        if rows.is_hopeless:
            raise SettingsError(
                f"{name} has more than {_MOST_SKIPPED:,} rows with another number of cells than its header, which has "
                f"{len(names)} separated by {delimiter!r}"
            ) from None
        raise SettingsError(f"{name} cannot be read as CSV: {first_line(error)}") from None
    except (UnicodeDecodeError, csv_text.Error):
        raise SettingsError(
            f"{name} cannot be read as CSV: its header is not UTF-8 with line ends of Unix or Windows. Convert the file, for "
            f"example with iconv -f latin1 -t utf-8"
        ) from None


class _Rows:
    """Numbers the rows: those that Arrow returns, and those that it skips."""

    def __init__(self) -> None:
        self.is_hopeless = False
        self._next = 1
        self._skipped: deque[Unreadable] = deque()

    def skip(self, row: Any) -> str:
        """Keep the place of a row. Arrow calls it for the rows of a block before it returns the block."""
        if len(self._skipped) >= _MOST_SKIPPED:
            self.is_hopeless = True
            return "error"
        reason = f"has {row.actual_columns:,} cells, and the header has {row.expected_columns:,}"
        # Arrow counts the header.
        self._skipped.append(Unreadable(row.number - 1, reason))
        return "skip"

    def chunk(self, batch: pa.RecordBatch) -> Chunk:
        """Return the next rows with their numbers, and the rows that were skipped between and behind them."""
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
