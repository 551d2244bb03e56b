"""The packed form of the index: pages of positions, bitmaps of chunks, counts of days. No I/O.

A page covers 4,096 offsets of a partition and holds, for each indexed record in order of offset, its minute of arrival, its
source position, and a hash of its key. A chunk covers 65,536 offsets; the offsets of a facet within it are one Roaring
container. Minutes are whole minutes since 1970 UTC.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from tidegate.gateway.storage.quarantine_index import StoredBitmap, StoredDay, StoredPage

PAGE_BITS: Final = 12
CHUNK_BITS: Final = 16
CHUNK: Final = 1 << CHUNK_BITS
DAY_MINUTES: Final = 24 * 60
_LEVEL = 1  # zlib's fastest level suffices: the columns are differences, and mostly zeros
_HOUR_MINUTES = 60

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class IndexColumns:
    """Columns of the same length about some indexed records of one partition, ascending by `offsets`.

    `minutes` are times of arrival; `source_partitions` and `source_offsets` are positions in the source topic; `keys`
    are hashes of the records' keys.
    """

    offsets: Integers
    minutes: Integers
    source_partitions: Integers
    source_offsets: Integers
    keys: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.offsets)

    @classmethod
    def of(cls, rows: Sequence[tuple[int, int, int, int, int]]) -> Self:
        """Build columns from rows of (offset, minute, source partition, source offset, key hash)."""
        table = np.array(rows, dtype=np.int64).reshape(-1, 5)
        return cls(table[:, 0], table[:, 1], table[:, 2], table[:, 3], table[:, 4].astype(np.uint32))

    @classmethod
    def unpack(cls, page: StoredPage) -> Self:
        """Return the columns of a stored page."""
        raw = np.frombuffer(zlib.decompress(page.positions), dtype="<i8").reshape(4, -1)
        columns = np.cumsum(raw, axis=1)
        keys = np.frombuffer(page.keys, dtype="<u4")
        return cls(columns[0] + (page.page << PAGE_BITS), columns[1], columns[2], columns[3], keys)

    def pack(self, partition: int) -> tuple[StoredPage, ...]:
        """Return the columns as pages to be stored, ordered by number."""
        pages = self.offsets >> PAGE_BITS
        borders = [0, *(np.flatnonzero(np.diff(pages)) + 1).tolist(), len(pages)]
        return tuple(
            self._rows(slice(start, end))._page(partition, int(pages[start]))  # noqa: SLF001 - of this class
            for start, end in pairwise(borders)
            if end > start
        )

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Concatenate columns; those with lower offsets must come first."""
        if not parts:
            return cls.of(())
        return cls(
            np.concatenate([each.offsets for each in parts]),
            np.concatenate([each.minutes for each in parts]),
            np.concatenate([each.source_partitions for each in parts]),
            np.concatenate([each.source_offsets for each in parts]),
            np.concatenate([each.keys for each in parts]),
        )

    def from_offset(self, low: int) -> Self:
        """Return the columns of the records from an offset on."""
        return self._rows(slice(int(np.searchsorted(self.offsets, low)), None))

    def minutes_at(self, offsets: Integers) -> Integers:
        """Return the minutes of some of the offsets."""
        found: Integers = self.minutes[np.searchsorted(self.offsets, offsets)]
        return found

    def _rows(self, rows: slice) -> Self:
        return type(self)(
            self.offsets[rows],
            self.minutes[rows],
            self.source_partitions[rows],
            self.source_offsets[rows],
            self.keys[rows],
        )

    def _page(self, partition: int, page: int) -> StoredPage:
        columns = np.stack(
            (self.offsets - (page << PAGE_BITS), self.minutes, self.source_partitions, self.source_offsets)
        )
        differences = np.diff(columns, axis=1, prepend=0).astype("<i8")
        return StoredPage(
            partition,
            page,
            int(self.minutes.min()),
            int(self.minutes.max()),
            int(self.source_offsets.min()),
            int(self.source_offsets.max()),
            zlib.compress(differences.tobytes(), _LEVEL),
            self.keys.astype("<u4").tobytes(),
        )


def pack_bitmap(facet: bytes, partition: int, chunk: int, offsets: BitMap) -> StoredBitmap:
    """Return the low bits of a facet's offsets in a chunk as a bitmap to be stored."""
    offsets.run_optimize()
    offsets.shrink_to_fit()
    return StoredBitmap(facet, partition, chunk, len(offsets), offsets.serialize())


def unpack_bitmap(stored: StoredBitmap) -> BitMap:
    """Return the low bits of a facet's offsets from a stored bitmap."""
    return BitMap.deserialize(stored.offsets)


def as_array(offsets: BitMap, chunk: int) -> Integers:
    """Return the offsets, ascending, for their low bits in a chunk."""
    low: Integers = np.array(offsets.to_array(), dtype=np.int64)
    return low + (chunk << CHUNK_BITS)


def pack_day(facet: bytes, day: int, minutes: Integers) -> StoredDay:
    """Return a day's counts by minute in the form that is stored; a day without records has empty bytes."""
    if not minutes.any():
        return StoredDay(facet, day, b"", b"")
    hours = minutes.reshape(-1, _HOUR_MINUTES).sum(axis=1).astype("<u4")
    return StoredDay(facet, day, hours.tobytes(), zlib.compress(minutes.astype("<u4").tobytes(), _LEVEL))


def day_minutes(stored: StoredDay) -> Integers:
    """Return a stored day's counts by minute."""
    return np.frombuffer(zlib.decompress(stored.minutes), dtype="<u4").astype(np.int64)


def day_hours(stored: StoredDay) -> Integers:
    """Return a stored day's counts by hour."""
    return np.frombuffer(stored.hours, dtype="<u4").astype(np.int64)
