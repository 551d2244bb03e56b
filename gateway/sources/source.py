"""The interface of all sources of records: batches in bounded memory, with the position of each record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.contracts.infer.infer import VALUES

BATCH_RECORDS: Final = 4_096
BATCH_BYTES: Final = 8 << 20
"""A batch ends when it has so many records or bytes, whichever is first."""
LONGEST_RECORD: Final = 64 << 20
"""Bytes of the longest record that is read. A longer one is not kept in memory; it is read as an empty record."""


RAW_RECORDS: Final = pa.schema(
    [("value", pa.large_binary()), ("header", pa.binary()), ("timestamp", pa.timestamp("ms"))]
)
"""Records of a topic as they are: with their frame, the header that names their schema, and when they were written."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that cannot be read or encoded: its position, the reason, and the place in it as a JSON Pointer."""

    position: int
    reason: str
    pointer: str = ""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some records in their order.

    `batch` has the column `value` with the bytes of records (the schema VALUES), those of RAW_RECORDS, or the columns of a table. `positions`
    identify the records in their source; `Source.places` names them. `unreadable` are records between them.
    """

    batch: pa.RecordBatch
    positions: npt.NDArray[np.int64]
    unreadable: tuple[Unreadable, ...] = ()

    @property
    def last(self) -> int:
        """The last position; 0 without a record."""
        ends = [int(self.positions[-1])] if len(self.positions) else []
        return max([*ends, *(each.position for each in self.unreadable[-1:])], default=0)

    def moved(self, by: int) -> Chunk:
        """Return the chunk with positions that count from `by`."""
        unreadable = tuple(replace(each, position=each.position + by) for each in self.unreadable)
        return Chunk(self.batch, self.positions + by, unreadable)


@dataclass(frozen=True, slots=True)
class TopicPart:
    """The part of a topic that is read, as RAW_RECORDS.

    `start` is an offset in each partition, or a time in milliseconds since 1970 if `is_time`. Of the records from
    there on, about `sample` are read, in runs that are spread evenly; None for all of them.
    """

    start: int = 0
    is_time: bool = False
    sample: int | None = None


class Source(AbstractContextManager["Source"], Protocol):
    """A file, topic or table that is read once, from its beginning."""

    title: str
    """Name for people, such as that of a file."""
    stem: str
    """The beginning of a name for a contract about its records."""
    avro_schema: Any
    """The Avro schema of the records, None if they are JSON or rows."""
    framing: str
    """The framing of a contract about the records, as they are in their source."""
    is_untyped: bool
    """Whether its columns are texts of a file without types."""
    size: int | None
    """Number of bytes or records, by which `progress` is measured; None if it is not known."""

    is_whole: bool
    """False if `chunks` ended before the last record, because its time was over."""

    def chunks(self) -> Iterator[Chunk]:
        """Yield the records. Raises SettingsError where they are not of the format, Unavailable without an answer."""

    def progress(self) -> int:
        """Return how much of `size` has been read."""

    def places(self, positions: Sequence[int]) -> str:
        """Name positions, such as `lines 12 and 40`."""


def named(noun: str, positions: Sequence[int]) -> str:
    """Name positions that are numbers: `line 12`, `lines 12, 40, 41`."""
    numbers = ", ".join(f"{each:,}" for each in positions)
    return f"{noun}{'' if len(positions) == 1 else 's'} {numbers}" if positions else "no position is known"


def value_chunks(batches: Iterator[list[bytes]], *, at_once: bool = False) -> Iterator[Chunk]:
    """Yield records as chunks of BATCH_RECORDS or BATCH_BYTES, numbered from 1; `at_once` holds no batch back."""
    waiting: list[bytes] = []
    size, first = 0, 1
    for values in batches:
        for value in values:
            waiting.append(value)
            size += len(value)
            if len(waiting) >= BATCH_RECORDS or size >= BATCH_BYTES:
                yield _chunk(waiting, first)
                first += len(waiting)
                waiting, size = [], 0
        if waiting and at_once:
            yield _chunk(waiting, first)
            first += len(waiting)
            waiting, size = [], 0
    if waiting:
        yield _chunk(waiting, first)


def _chunk(values: list[bytes], first: int) -> Chunk:
    batch = pa.record_batch([pa.array(values, pa.binary())], VALUES)
    return Chunk(batch, np.arange(first, first + len(values)))


def table_chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[Chunk]:
    """Yield the rows of a table as chunks of at most BATCH_RECORDS, numbered from 1."""
    first = 1
    for batch in batches:
        for start in range(0, batch.num_rows, BATCH_RECORDS):
            part = batch.slice(start, BATCH_RECORDS)
            yield Chunk(part, np.arange(first, first + part.num_rows))
            first += part.num_rows
