"""Compact sets of positions: the offsets of each partition are a Roaring bitmap.

The offsets of a stream are mostly contiguous and take a bit or less each; an isolated offset takes a few bytes.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from hashlib import sha256
from itertools import islice
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pyroaring import BitMap64

from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.stream.ledger import Position, Vector

_MOST_OFFSETS = 1 << 63
_SHOWN = 5
_NONE = BitMap64()


class Positions(Collection[Position]):
    """A set of positions, iterated by partition and offset; equal to any set with the same positions.

    Partitions are in [0, 2^31), offsets in [0, 2^63). Not thread-safe.
    """

    __slots__ = ("_offsets",)

    def __init__(self, positions: Iterable[Position] = ()) -> None:
        self._offsets: dict[int, BitMap64] = {}
        for partition, offset in positions:
            self.add(partition, offset)

    @classmethod
    def of(cls, offsets: Mapping[int, BitMap64]) -> Positions:
        """Return positions that share these bitmaps by partition; callers must not change the bitmaps afterwards."""
        made = cls()
        # A partition without an offset is omitted, so that equal sets have equal structures.
        made._offsets = {partition: bitmap for partition, bitmap in offsets.items() if bitmap}
        return made

    def add(self, partition: int, offset: int) -> bool:
        """Add a position; return False if it was present. Raises StreamStopped for one that no topic can have."""
        _require_position(partition, offset)
        bitmap = self._offsets.setdefault(partition, BitMap64())
        if offset in bitmap:
            return False
        bitmap.add(offset)
        return True

    def add_all(self, others: Positions) -> Positions:
        """Add all positions of another set; return those that were already present."""
        again = others & self
        for partition, bitmap in others._offsets.items():
            self._offsets.setdefault(partition, BitMap64()).update(bitmap)
        return again

    def within(self, begin: Vector, end: Vector) -> Positions:
        """Return the positions in [begin, end).

        A partition missing from `begin` starts at 0; one missing from `end` is left out.
        """
        return Positions.of(
            {
                partition: _cut(bitmap, begin.get(partition, 0), end[partition])
                for partition, bitmap in self._offsets.items()
                if partition in end
            }
        )

    def since(self, begin: Vector) -> Positions:
        """Return the positions from `begin` on; a partition missing from `begin` starts at 0."""
        return Positions.of(
            {p: _cut(bitmap, begin.get(p, 0), _MOST_OFFSETS) for p, bitmap in self._offsets.items()}
        )

    def chunk(self, done: int, limit: int) -> Positions:
        """Return at most `limit` positions after the first `done`, all of one partition; empty at the end."""
        for partition, bitmap in sorted(self._offsets.items()):
            if done < len(bitmap):
                return Positions.of({partition: bitmap[done : done + limit]})
            done -= len(bitmap)
        return Positions()

    def first(self, limit: int) -> list[Position]:
        """Return the first positions, at most `limit`."""
        return list(islice(self, limit))

    def bitmaps(self) -> Mapping[int, BitMap64]:
        """Return the bitmap of offsets of each partition. Callers must not change the bitmaps."""
        return self._offsets

    def __len__(self) -> int:
        return sum(map(len, self._offsets.values()))

    def __contains__(self, position: object) -> bool:
        match position:
            case (int() as partition, int() as offset) if 0 <= offset < _MOST_OFFSETS:
                return partition in self._offsets and offset in self._offsets[partition]
        return False

    def __iter__(self) -> Iterator[Position]:
        for partition in sorted(self._offsets):
            for offset in self._offsets[partition]:
                yield partition, offset

    def __eq__(self, other: object) -> bool:
        match other:
            case Positions():
                return self._offsets == other._offsets
            case AbstractSet():
                return len(self) == len(other) and all(position in self for position in other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it can be added to

    def __and__(self, other: Positions) -> Positions:
        return Positions.of({p: bitmap & other._of(p) for p, bitmap in self._offsets.items()})

    def __or__(self, other: Positions) -> Positions:
        partitions = self._offsets.keys() | other._offsets.keys()
        return Positions.of({p: self._of(p) | other._of(p) for p in partitions})

    def __sub__(self, other: Positions) -> Positions:
        return Positions.of({p: bitmap - other._of(p) for p, bitmap in self._offsets.items()})

    def _of(self, partition: int) -> BitMap64:
        return self._offsets.get(partition, _NONE)

    def __repr__(self) -> str:
        more = ", ..." if len(self) > _SHOWN else ""
        return f"<{len(self)} positions: {', '.join(map(str, self.first(_SHOWN)))}{more}>"


class Sightings:
    """The positions that were read, in any order: `seen` has all of them, `again` those that were read repeatedly."""

    __slots__ = ("again", "seen")

    def __init__(self, positions: Iterable[Position] = ()) -> None:
        self.seen = Positions()
        self.again = Positions()
        for partition, offset in positions:
            self.add(partition, offset)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sightings):
            return NotImplemented
        return (self.seen, self.again) == (other.seen, other.again)

    __hash__ = None  # type: ignore[assignment]  # it can be added to

    def add(self, partition: int, offset: int) -> None:
        """Add one position. Raises StreamStopped for a position that no topic can have."""
        if not self.seen.add(partition, offset):
            self.again.add(partition, offset)

    def add_arrays(self, partitions: pa.Array, offsets: pa.Array) -> None:
        """Add the positions of rows: two columns of integers. A row with a null in either has no position.

        Raises StreamStopped for a position that no topic can have.
        """
        has_position = pc.and_(partitions.is_valid(), offsets.is_valid())
        of_row, values = (
            column.filter(has_position).to_numpy(zero_copy_only=False).astype(np.int64)
            for column in (partitions, offsets)
        )
        if not len(values):
            return
        _require_position(int(of_row.min()), int(values.min()))
        for partition in np.unique(of_row).tolist():
            chosen = values[of_row == partition].astype(np.uint64)
            # The buffer is read in one pass; iterating over the array itself is five times slower.
            bitmap = BitMap64(chosen.data)
            if len(bitmap) < len(chosen):
                different, times = np.unique(chosen, return_counts=True)
                self.again.add_all(Positions.of({partition: BitMap64(different[times > 1].data)}))
            self.again.add_all(self.seen.add_all(Positions.of({partition: bitmap})))

    def packed(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield rows of partition, bitmap of seen offsets and bitmap of repeated offsets, for `add_packed`."""
        again = self.again.bitmaps()
        for partition, bitmap in self.seen.bitmaps().items():
            yield partition, bitmap.serialize(), again.get(partition, _NONE).serialize()

    def add_packed(self, partition: int, seen: bytes, again: bytes) -> None:
        """Add a row that another reader's `packed` has yielded."""
        self.again.add_all(Positions.of({partition: BitMap64.deserialize(again)}))
        self.again.add_all(self.seen.add_all(Positions.of({partition: BitMap64.deserialize(seen)})))


def _cut(bitmap: BitMap64, first: int, end: int) -> BitMap64:
    """Return the offsets in [first, end)."""
    # Remove the offsets outside instead of intersecting with a range: the bitmap of a wide range is itself large.
    found = bitmap.copy()
    found.remove_range(0, first)
    found.remove_range(end, _MOST_OFFSETS)
    return found


def _require_position(partition: int, offset: int) -> None:
    if partition < 0 or not 0 <= offset < _MOST_OFFSETS:
        raise StreamStopped(
            f"something was written as if it came from {partition}/{offset}, which no topic has: delete it from the output, and "
            "ask who wrote it"
        )


class DroppedOffsets(BaseModel):
    """Offsets of one source partition whose records a contract dropped, as written to the topic of dropped positions.

    A ledger has counts, but no positions. These records form a chain: each names the digest of the one before it, and
    the ledger names the digest of the newest. Records of unpublished attempts or of other writers are not in the chain.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    ledger: str = Field(description="Name of the ledger that counts them.")
    partition: int = Field(ge=0)
    after: str = Field(description="Digest of the record before it; empty for the first.")
    offsets: str = Field(description="A Roaring bitmap of 64 bits in its portable format, in base64.")

    @property
    def text(self) -> bytes:
        """Return the canonical JSON text, whose digest identifies the record."""
        return self.model_dump_json().encode()

    def bitmap(self) -> BitMap64:
        """Return the offsets. Call it only for trusted records: the bitmap library does not validate its input."""
        return BitMap64.deserialize(b64decode(self.offsets))


def digest_of(text: bytes) -> str:
    """Return the SHA-256 of a record's text in hexadecimal."""
    return sha256(text).hexdigest()


def chained(ledger: str, after: str, dropped: Positions, most_bytes: int) -> Iterator[DroppedOffsets]:
    """Yield the records that append `dropped` to the chain that ends with the digest `after`.

    Each has at most `most_bytes` of encoded offsets, or a single offset.
    """
    for partition, bitmap in sorted(dropped.bitmaps().items()):
        for part in _parts(bitmap, most_bytes):
            record = DroppedOffsets(
                ledger=ledger, partition=partition, after=after, offsets=b64encode(part).decode()
            )
            yield record
            after = digest_of(record.text)


def _parts(bitmap: BitMap64, most_bytes: int) -> Iterator[bytes]:
    written = bitmap.serialize()
    if len(bitmap) == 1 or len(written) * 4 // 3 <= most_bytes:
        yield written
        return
    half = len(bitmap) // 2
    yield from _parts(bitmap[:half], most_bytes)
    yield from _parts(bitmap[half:], most_bytes)


def dropped_by(ledger: str, head: str, parts: Iterable[Iterable[bytes]]) -> Positions:
    """Return the positions in the chain that ends with the digest `head`, as far back as `parts` have its records.

    `parts` are the texts of a topic in parts, the newest first; one part at a time is in memory. Other texts are ignored:
    a topic holds records of other ledgers, and may hold anything else.
    """
    positions = Positions()
    for texts in parts:
        found = dict(_records_of(ledger, texts))
        while head in found:
            record = found.pop(head)
            positions.add_all(Positions.of({record.partition: record.bitmap()}))
            head = record.after
        if not head:  # that was the first record of the chain
            break
    return positions


def following(ledger: str, head: str, texts: Iterable[bytes]) -> Positions:
    """Return the positions of all chains of a ledger that continue after the digest `head`.

    As for `named_by`, only jobs may write to the topic of `texts`.
    """
    after: dict[str, list[tuple[str, DroppedOffsets]]] = {}
    for digest, record in _records_of(ledger, texts):
        after.setdefault(record.after, []).append((digest, record))
    positions, heads = Positions(), [head]
    while heads:
        for digest, record in after.pop(heads.pop(), ()):
            positions.add_all(Positions.of({record.partition: record.bitmap()}))
            heads.append(digest)
    return positions


def named_by(ledger: str, texts: Iterable[bytes]) -> Positions:
    """Return all positions of a ledger among `texts`, in a chain or not.

    Only jobs may write to their topic: the bitmap library does not validate its input.
    """
    positions = Positions()
    for _, record in _records_of(ledger, texts):
        positions.add_all(Positions.of({record.partition: record.bitmap()}))
    return positions


def _records_of(ledger: str, texts: Iterable[bytes]) -> Iterator[tuple[str, DroppedOffsets]]:
    for text in texts:
        try:
            record = DroppedOffsets.model_validate_json(text)
        except ValidationError:
            continue
        if record.ledger == ledger:
            yield digest_of(text), record
