"""The interface of sources of records: batches in bounded memory, with the position of each record."""

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
"""A batch ends at this number of records or bytes, whichever comes first."""
LONGEST_RECORD: Final = 64 << 20
"""Maximum bytes of a record. A longer line is not kept in memory, and is unreadable."""
_TOO_LONG: Final = f"is longer than {LONGEST_RECORD:,} bytes"

RAW_RECORDS: Final = pa.schema(
    [("value", pa.large_binary()), ("header", pa.binary()), ("timestamp", pa.timestamp("ms"))]
)
"""Unchanged records of a topic: the value with its frame, the header with the schema id, and the timestamp."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that cannot be read or encoded: its position, the reason, and the field as a JSON Pointer."""

    position: int
    reason: str
    pointer: str = ""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive records of a source.

    `batch` has the schema VALUES (the bytes of records), RAW_RECORDS, or the columns of a table. `positions` identify the
    records in their source; `Source.places` names them. `unreadable` are the unreadable records between and after them.
    """

    batch: pa.RecordBatch
    positions: npt.NDArray[np.int64]
    unreadable: tuple[Unreadable, ...] = ()

    @property
    def last(self) -> int:
        """Return the last position, also of unreadable records; 0 without a record."""
        ends = [int(self.positions[-1])] if len(self.positions) else []
        return max([*ends, *(each.position for each in self.unreadable[-1:])], default=0)

    def moved(self, by: int) -> Chunk:
        """Return the chunk with all positions increased by `by`."""
        unreadable = tuple(replace(each, position=each.position + by) for each in self.unreadable)
        return Chunk(self.batch, self.positions + by, unreadable)


@dataclass(frozen=True, slots=True)
class TopicPart:
    """The part of a topic to read, as RAW_RECORDS.

    `start` is an offset in each partition, or a time in milliseconds since 1970 if `is_time`. Of the records from
    there on, about `sample` are read, in evenly spread runs; None means all.
    """

    start: int = 0
    is_time: bool = False
    sample: int | None = None


class Source(AbstractContextManager["Source"], Protocol):
    """A file, topic or table that is read once, from its beginning."""

    title: str
    """Name for messages, such as that of a file."""
    stem: str
    """The base of an id for a contract about its records."""
    avro_schema: Any
    """The Avro schema of the records; None if they are JSON or rows."""
    framing: str
    """The framing that a contract about the records needs."""
    is_untyped: bool
    """Whether all columns are text, as in CSV."""
    size: int | None
    """The total that `progress` counts up to, in bytes or records; None if it is not known."""

    is_whole: bool
    """False if a time limit ended `chunks` before the last record."""

    def chunks(self) -> Iterator[Chunk]:
        """Yield the records. Raises SettingsError for data of another format, Unavailable if the source does not answer."""

    def progress(self) -> int:
        """Return the part of `size` that has been read."""

    def places(self, positions: Sequence[int]) -> str:
        """Name positions, such as `lines 12, 40`."""


def named(noun: str, positions: Sequence[int]) -> str:
    """Name numeric positions, such as `line 12` or `lines 12, 40, 41`."""
    numbers = ", ".join(f"{each:,}" for each in positions)
    return f"{noun}{'' if len(positions) == 1 else 's'} {numbers}" if positions else "no position is known"


def value_chunks(batches: Iterator[Sequence[bytes | None]], *, at_once: bool = False) -> Iterator[Chunk]:
    """Yield records in chunks of BATCH_RECORDS or BATCH_BYTES, numbered from 1. With `at_once`, batches are not merged.

    None is a record that was too long to keep, and the first of its batch; it becomes unreadable.
    """
    waiting: list[bytes] = []
    size, first = 0, 1
    for values in batches:
        kept = [value for value in values if value is not None]
        if len(kept) < len(values):
            if waiting:
                yield _chunk(waiting, first)
                first += len(waiting)
                waiting, size = [], 0
            yield replace(_chunk([], first), unreadable=(Unreadable(first, _TOO_LONG),))
            first += 1
        for value in kept:
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
    """Yield the rows of a table in chunks of at most BATCH_RECORDS, numbered from 1."""
    first = 1
    for batch in batches:
        for start in range(0, batch.num_rows, BATCH_RECORDS):
            part = batch.slice(start, BATCH_RECORDS)
            yield Chunk(part, np.arange(first, first + part.num_rows))
            first += part.num_rows
