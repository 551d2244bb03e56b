"""Marks of primary keys: the positions of deletes in a table with upserts, and the keys of replayed records.

A deleted row leaves no source position, so a replay of an older record would restore it. Therefore each delete has a
mark with the digest of its key. Marks are stored as a chain of records, like dropped positions, and the ledger names the
newest one. Pure values and arithmetic; no I/O.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, Literal, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tidegate.contracts.stream.ledger import Ledger, Vector
from tidegate.contracts.stream.positions import Positions, digest_of
from tidegate.contracts.stream.reconcile import RECORDS, key_bytes

MOST_MARKS: Final = 5_000_000
"""Maximum number of marks in memory, of 37 bytes each. Records older than the oldest mark are not replayed."""

_MOST_PARTS: Final = 256
_ENTRY: Final = np.dtype(
    [
        ("key", "V16"),
        ("partition", ">i4"),
        ("offset", ">i8"),
        ("timestamp_ms", ">i8"),
        ("deletes", "?"),
    ]
)


def key_digests(columns: list[pa.Array]) -> pa.Array:
    """Return the digest of each primary key, 16 bytes of SHA-256; null where a column of the key is null.

    A digest identifies a key, so a mark needs no key values. It does not protect a key that can be guessed.
    """
    found = key_bytes([_text(each) for each in columns]).to_pylist()
    return pa.array([None if each is None else sha256(each).digest()[:16] for each in found], pa.binary())


def _text(column: pa.Array) -> pa.Array:
    """Return the column, with binary values in hexadecimal because they need not be UTF-8."""
    if not pa.types.is_binary(column.type):
        return column
    return pa.array([None if each is None else each.hex() for each in column.to_pylist()], pa.string())


@dataclass(frozen=True, slots=True)
class KeyMarks:
    """Marks: an array of `_ENTRY`, with the digest of a key, source position and time, and whether it is a delete."""

    entries: npt.NDArray[np.void] = field(default_factory=lambda: np.empty(0, _ENTRY))

    @classmethod
    def of(cls, columns: list[pa.Array], rows: pa.RecordBatch) -> Self:
        """Return the marks of rows; `columns` are those of the primary key, without nulls.

        `rows` has the columns partition, offset, timestamp and value of the source; a null value is a delete.
        """
        entries = np.empty(rows.num_rows, _ENTRY)
        entries["key"] = np.frombuffer(b"".join(key_digests(columns).to_pylist()), "V16")
        entries["partition"], entries["offset"] = rows.column("partition"), rows.column("offset")
        moments = rows.column("timestamp").cast(pa.timestamp("ms", "UTC"), safe=False)
        entries["timestamp_ms"] = moments.cast(pa.int64())
        entries["deletes"] = np.asarray(rows.column("value").is_null())
        return cls(entries)

    @classmethod
    def unpacked(cls, packed: bytes) -> Self:
        """Return the marks from the bytes of `packed`; the bytes of several calls may be concatenated."""
        return cls(np.frombuffer(packed, _ENTRY))

    def packed(self) -> bytes:
        """Return the marks as bytes, 37 for each."""
        return self.entries.tobytes()

    def __len__(self) -> int:
        return len(self.entries)

    def of_keys(self, others: KeyMarks) -> KeyMarks:
        """Return the marks whose key has a mark in `others`."""
        # Comparing half of each digest vectorises, and leaves few candidates for the exact comparison.
        found = self.entries[np.isin(_half(self.entries), _half(others.entries))]
        wanted = {*others.entries["key"].tolist()}
        return KeyMarks(found[np.array([each in wanted for each in found["key"].tolist()], bool)])

    def records(self, positions: Positions) -> pa.Table:
        """Return the marks at these positions as a table with the schema RECORDS, with digests as keys."""
        at = zip(self.entries["partition"].tolist(), self.entries["offset"].tolist(), strict=True)
        chosen = self.entries[np.array([each in positions for each in at], bool)]
        columns = [pa.array(chosen[each.name].tolist(), each.type) for each in RECORDS]
        return pa.Table.from_arrays(columns, schema=RECORDS)


def _half(entries: npt.NDArray[np.void]) -> npt.NDArray[np.uint64]:
    return np.ascontiguousarray(entries["key"]).view(np.uint64)[::2]


class MarksRecord(BaseModel):
    """Marks as written to the topic of marks.

    The first record of a batch has the batch's start as `begin`, the following ones its end. As with dropped positions,
    the records form a chain: each names the digest of the one before it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    ledger: str = Field(description="Name of the ledger that counts them.")
    after: str = Field(description="Digest of the record before it; empty for the first.")
    begin: Vector = Field(description="All deletes from these offsets on are in this record or a later one.")
    marks: str = Field(description="Entries of 37 bytes, in base64.")

    @property
    def text(self) -> bytes:
        """Return the canonical JSON text, whose digest identifies the record."""
        return self.model_dump_json().encode()

    def unpacked(self) -> KeyMarks:
        """Return the marks. Raises ValueError for text that is not valid base64 of whole entries."""
        return KeyMarks.unpacked(b64decode(self.marks))


def chained_marks(held: Ledger, end: Vector, marks: KeyMarks, most_bytes: int) -> Iterator[MarksRecord]:
    """Yield the records that append `marks` to the chain of a ledger, which ends at `end` after this batch."""
    after, begin = "" if held.marks is None else held.marks.digest, held.end
    limit = max(1, most_bytes * 3 // 4 // _ENTRY.itemsize)
    for first in range(0, len(marks), limit):
        part = KeyMarks(marks.entries[first : first + limit])
        text = b64encode(part.packed()).decode()
        record = MarksRecord(ledger=held.name, after=after, begin=begin, marks=text)
        yield record
        # Retention deletes the first record first. Without it, some deletes of the batch are unknown.
        after, begin = digest_of(record.text), end


@dataclass(slots=True)
class KnownMarks:
    """The marks of a ledger that are still known: all deletes from the offsets `since` on, which default to 0."""

    since: Vector
    marks: list[KeyMarks] = field(default_factory=list)

    @classmethod
    def read(cls, ledger: Ledger, texts: Iterable[bytes], most: int = MOST_MARKS) -> Self:
        """Return the chain that a ledger names, as far back as its records are in `texts`, and about `most` marks."""
        if ledger.marks is None:
            return cls({} if not ledger.totals.deleted else ledger.end)
        found: dict[str, tuple[MarksRecord, KeyMarks]] = {}
        count = 0
        for text in texts:
            try:
                record = MarksRecord.model_validate_json(text)
                marks = record.unpacked()
            except (ValidationError, ValueError):
                continue
            if record.ledger != ledger.name:
                continue
            found[digest_of(text)] = record.model_copy(update={"marks": ""}), marks
            count += len(marks)
            while count > most and len(found) > 1:
                count -= len(found.pop(next(iter(found)))[1])
        known = cls(ledger.marks.until)
        digest = ledger.marks.digest
        while digest in found:
            record, marks = found.pop(digest)
            known.marks.append(marks)
            known.since, digest = record.begin, record.after
        if not digest:
            known.since = ledger.marks.since
        known._join()
        return known

    def add(self, marks: KeyMarks) -> bool:
        """Add the marks of a batch; return False if there are now more than 2 * MOST_MARKS."""
        if len(marks):
            self.marks.append(marks)
        if len(self.marks) > _MOST_PARTS:
            self._join()
        return sum(map(len, self.marks)) <= 2 * MOST_MARKS

    def _join(self) -> None:
        """Concatenate the arrays, because each search reads all of them."""
        self.marks = [KeyMarks(np.concatenate([each.entries for each in self.marks]))] if self.marks else []

    def records(self, positions: Positions) -> pa.Table:
        """Return the marks at these positions as a table with the schema RECORDS, with digests as keys."""
        return pa.concat_tables([RECORDS.empty_table(), *(each.records(positions) for each in self.marks)])

    def deleted_since(self, records: KeyMarks) -> Positions:
        """Return the positions of those `records` whose key was deleted by a newer record, by event order."""
        newer: dict[bytes, list[tuple[int, int, int]]] = {}
        for each in self.marks:
            for key, *place, deletes in each.of_keys(records).entries.tolist():
                if deletes:
                    newer.setdefault(key, []).append((place[0], place[1], place[2]))
        found = Positions()
        for key, partition, offset, timestamp_ms, _ in records.entries.tolist():
            place = partition, offset, timestamp_ms
            if any(_is_newer(each, place) for each in newer.get(key, ())):
                found.add(partition, offset)
        return found


def _is_newer(one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    """Return whether one (partition, offset, time) is newer (docs/explanation/exactly-once.md, Upserts)."""
    if one[0] == other[0]:
        return one[1] > other[1]
    return (one[2], one[0]) > (other[2], other[0])
