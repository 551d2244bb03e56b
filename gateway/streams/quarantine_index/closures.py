"""Refused records that are closed, and codes by which others failed again, as jobs report them; counts by problem."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
from pyroaring import BitMap

from tidegate.contracts.stream.closure import Closure
from tidegate.contracts.stream.positions import Positions
from tidegate.gateway.storage.refusal_closures import StoredOffsets
from tidegate.gateway.storage.sql import Stores
from tidegate.gateway.streams.quarantine_index.columns import CHUNK, CHUNK_BITS
from tidegate.gateway.streams.quarantine_index.facets import MOST_CODES_AGAIN, OTHER
from tidegate.gateway.streams.quarantine_index.filters import Chunk, Offsets, StreamIndex

ClosureCounts = dict[Closure, int]

_FIRST_WINS: Final = tuple(Closure)
"""Precedence of closures: a record that was closed in two ways, as by a replay before a rewind, counts once."""


def add_closures(stores: Stores, stream: str, closures: Mapping[Closure, Positions]) -> None:
    """Add closed positions of a stream's quarantine topic to the known ones."""
    closed = {closure: _chunks(positions) for closure, positions in closures.items()}
    known = stores.closures.of_chunks(stream, {chunk for chunks in closed.values() for chunk in chunks})
    stores.closures.put(
        stream,
        [
            StoredOffsets(*chunk, closure, (low_bits | _unpacked(known[chunk].get(closure))).serialize())
            for closure, chunks in closed.items()
            for chunk, low_bits in chunks.items()
        ],
    )


def keep_reasons(
    stores: Stores, stream: str, again: Mapping[str, Positions], closed: Iterable[Positions]
) -> None:
    """Store the codes by which a replay refused records again.

    The newest replay of a record counts, and closed records have no code. A stream has at most MOST_CODES_AGAIN codes;
    records of further codes are stored under `OTHER`.
    """
    changed: Offsets = {}
    for positions in (*again.values(), *closed):
        _unite(changed, _chunks(positions))
    known = stores.reasons.names(stream) if again else frozenset()
    new = sorted(again.keys() - known)[: max(0, MOST_CODES_AGAIN - len(known))]
    fresh: dict[str, Offsets] = {}
    for code, positions in again.items():
        _unite(fresh.setdefault(code if code in known or code in new else OTHER, {}), _chunks(positions))
    kept = {
        (chunk, code): _unpacked(offsets) - changed[chunk]
        for chunk, by_code in stores.reasons.of_chunks(stream, changed).items()
        for code, offsets in by_code.items()
    }
    for code, chunks in fresh.items():
        for chunk, low_bits in chunks.items():
            kept[chunk, code] = kept.get((chunk, code), BitMap()) | low_bits
    stores.reasons.put(
        stream,
        [
            StoredOffsets(*chunk, code, offsets.serialize() if offsets else b"")
            for (chunk, code), offsets in kept.items()
        ],
    )


def closed_offsets(stores: Stores, stream: str) -> dict[Closure, Offsets]:
    """Return a stream's closed offsets by closure and chunk; one closed in two ways counts for the first only."""
    found: dict[Closure, Offsets] = defaultdict(dict)
    for stored in stores.closures.all(stream):
        found[Closure(stored.name)][stored.partition, stored.chunk] = _unpacked(stored.offsets)
    seen: Offsets = {}
    counted: dict[Closure, Offsets] = {}
    for closure in _FIRST_WINS:
        counted[closure] = {}
        for chunk, offsets in found.get(closure, {}).items():
            if fresh := offsets - seen.get(chunk, BitMap()):
                counted[closure][chunk] = fresh
            seen[chunk] = seen.get(chunk, BitMap()) | offsets
    return {closure: offsets for closure, offsets in counted.items() if offsets}


def closure_counts(index: StreamIndex, facets: Iterable[bytes]) -> dict[bytes, ClosureCounts]:
    """Return the number of closed records by facet and closure; facets without any are left out."""
    closed = closed_offsets(index.stores, index.stream)
    if not closed:
        return {}
    chunks: set[Chunk] = {chunk for offsets in closed.values() for chunk in offsets}
    found: dict[bytes, ClosureCounts] = {}
    for facet, bitmaps in index.bitmaps(facets, chunks=sorted(chunks)).items():
        counts = {
            closure: sum(
                len(bitmap & offsets[chunk]) for chunk, bitmap in bitmaps.items() if chunk in offsets
            )
            for closure, offsets in closed.items()
        }
        if any(counts.values()):
            found[facet] = {closure: count for closure, count in counts.items() if count}
    return found


def problems_at(index: StreamIndex, positions: Positions, most: int) -> tuple[bytes, ...]:
    """Return at most `most` heads of the problems that have records at some positions, most records first."""
    wanted = _chunks(positions)
    counts: dict[bytes, int] = defaultdict(int)
    for facet, bitmaps in index.bitmaps(index.keys, chunks=sorted(wanted)).items():
        counts[index.heads[facet]] += sum(len(bitmap & wanted[chunk]) for chunk, bitmap in bitmaps.items())
    heads = [head for head, count in counts.items() if count]
    return tuple(sorted(heads, key=lambda head: (-counts[head], head))[:most])


def _chunks(positions: Positions) -> Offsets:
    found: Offsets = {}
    for partition, bitmap in positions.bitmaps().items():
        offsets = np.asarray(bitmap.to_array(), dtype=np.uint64)
        chunks = offsets >> CHUNK_BITS
        begins = np.r_[0, np.flatnonzero(np.diff(chunks)) + 1]
        low_bits = np.split((offsets % CHUNK).astype(np.uint32), begins[1:])
        for chunk, low in zip(chunks[begins].tolist(), low_bits, strict=True):
            found[partition, chunk] = BitMap(low)
    return found


def _unite(known: Offsets, others: Offsets) -> None:
    for chunk, low_bits in others.items():
        known[chunk] = known.get(chunk, BitMap()) | low_bits


def _unpacked(offsets: bytes | None) -> BitMap:
    return BitMap() if offsets is None else BitMap.deserialize(offsets)
