"""An immutable set of positions in a quarantine topic, with a digest that identifies it."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from pyroaring import BitMap64

from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import digest_of_refusals

_HEAD = struct.Struct("<II")


@dataclass(frozen=True)
class FrozenPositions:
    """Offsets in a quarantine topic by partition. Records that arrive later are not in it. No partition is empty."""

    topic: str
    offsets: Mapping[int, BitMap64]

    @classmethod
    def of(cls, topic: str, offsets: Mapping[int, Iterable[int]]) -> Self:
        """Build the set from offsets by partition."""
        bitmaps = {partition: BitMap64(offsets[partition]) for partition in sorted(offsets)}
        return cls(topic, {partition: each for partition, each in bitmaps.items() if each})

    @property
    def records(self) -> int:
        """Return the number of positions."""
        return sum(len(each) for each in self.offsets.values())

    @cached_property
    def digest(self) -> str:
        """Return the digest of these positions, as in a replay request."""
        return digest_of_refusals(self.topic, Positions.of(self.offsets))

    def places(self) -> Iterator[tuple[int, int]]:
        """Yield (partition, offset) of each position, in order."""
        return (
            (partition, offset) for partition in sorted(self.offsets) for offset in self.offsets[partition]
        )

    def runs(self, partition: int) -> list[tuple[int, int]]:
        """Return the offsets of a partition as runs (first, last), ascending."""
        offsets = np.array(self.offsets.get(partition, BitMap64()).to_array(), dtype=np.int64)
        if not len(offsets):
            return []
        ends = np.flatnonzero(np.diff(offsets) != 1)
        firsts, lasts = offsets[np.append(0, ends + 1)], offsets[np.append(ends, len(offsets) - 1)]
        return list(zip(firsts.tolist(), lasts.tolist(), strict=True))

    def encode(self) -> bytes:
        """Return the offsets as bytes for `decode`, without the topic."""
        parts = []
        for partition, offsets in sorted(self.offsets.items()):
            serialised = offsets.serialize()
            parts += [_HEAD.pack(partition, len(serialised)), serialised]
        return b"".join(parts)

    @classmethod
    def decode(cls, topic: str, encoded: bytes) -> Self:
        """Parse the result of `encode`. Raises ValueError for anything else."""
        offsets: dict[int, BitMap64] = {}
        place = 0
        while place < len(encoded):
            if len(encoded) < place + _HEAD.size:
                raise ValueError("not positions as Tidegate writes them")
            partition, size = _HEAD.unpack_from(encoded, place)
            place += _HEAD.size
            offsets[partition] = BitMap64.deserialize(encoded[place : place + size])
            place += size
        return cls(topic, offsets)
