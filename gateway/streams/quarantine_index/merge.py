"""Changes of the index: adding refused records of a partition, and removing those below the topic's low watermark.

Both change the rows of one partition in the caller's transaction, together with the partition's position, so a crash
neither loses nor duplicates records. Partitions share the counts by day, so no other write transaction may run at the
same time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from pyroaring import BitMap

from tidegate.gateway.storage.quarantine_index import Facet, StoredBitmap
from tidegate.gateway.storage.sql import Stores
from tidegate.gateway.streams.problem_states import ProblemDecision, ProblemState
from tidegate.gateway.streams.quarantine_index.columns import (
    CHUNK_BITS,
    DAY_MINUTES,
    PAGE_BITS,
    IndexColumns,
    Integers,
    as_array,
    day_minutes,
    pack_bitmap,
    pack_day,
    unpack_bitmap,
)
from tidegate.gateway.streams.quarantine_index.facets import (
    MOST,
    OTHER,
    OTHER_PROBLEMS,
    FacetKind,
    described,
    producer_facet,
    version_facet,
)
from tidegate.gateway.streams.quarantine_index.similarity import joined_problems


@dataclass(slots=True)
class RefusalBatch:
    """Refused records of one partition, in order of offset: rows for `IndexColumns.of`, and offsets by facet."""

    rows: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    facets: dict[bytes, Facet] = field(default_factory=dict)
    offsets: dict[bytes, list[int]] = field(default_factory=lambda: defaultdict(list))

    def add(self, row: tuple[int, int, int, int, int], facets: Iterable[Facet]) -> None:
        """Add a record with its facets, each of them once."""
        self.rows.append(row)
        for facet in facets:
            known = self.facets.get(facet.facet)
            if known is None or facet.description < known.description:
                self.facets[facet.facet] = facet
            self.offsets[facet.facet].append(row[0])


def add_batch(stores: Stores, stream: str, partition: int, batch: RefusalBatch) -> None:
    """Add refused records of one partition; their offsets must be above all that are indexed."""
    if not batch.rows:
        return
    add_columns(stores, stream, partition, IndexColumns.of(batch.rows), _within_bounds(stores, stream, batch))


def add_columns(
    stores: Stores, stream: str, partition: int, positions: IndexColumns, offsets: Mapping[bytes, Integers]
) -> None:
    """Add records as columns, and the offsets of each facet; the facets must be stored already."""
    _add_pages(stores, stream, partition, positions)
    _add_bitmaps(stores, stream, partition, offsets)
    _change_days(stores, stream, {facet: positions.minutes_at(found) for facet, found in offsets.items()}, 1)


def trim(stores: Stores, stream: str, partition: int, low: int) -> int:
    """Remove records of one partition below `low`, at most one chunk; return the offset up to which none is left."""
    first = stores.quarantine.first_page(stream, partition)
    if first is None or first << PAGE_BITS >= low:
        return low
    chunk = first << PAGE_BITS >> CHUNK_BITS
    until = min(low, (chunk + 1) << CHUNK_BITS)  # the records of one chunk in a transaction
    numbers = range(first, -(-until >> PAGE_BITS))
    pages = stores.quarantine.pages(stream, partition, numbers)
    gone = IndexColumns.joined([IndexColumns.unpack(page) for page in pages])
    kept = gone.from_offset(until)
    removed: dict[bytes, Integers] = {}
    bitmaps: list[StoredBitmap] = []
    for stored in stores.quarantine.bitmaps_of_chunks(stream, partition, [chunk]):
        offsets = unpack_bitmap(stored)
        below = BitMap(range(until - (chunk << CHUNK_BITS))) & offsets
        if below:
            removed[stored.facet] = gone.minutes_at(as_array(below, chunk))
            bitmaps.append(pack_bitmap(stored.facet, partition, chunk, offsets - below))
    stores.quarantine.put_bitmaps(stream, bitmaps)
    _change_days(stores, stream, removed, -1)
    _count_expired(stores, stream, {facet: len(minutes) for facet, minutes in removed.items()})
    stores.quarantine.drop_pages(stream, partition, until >> PAGE_BITS if len(kept) else numbers.stop)
    if len(kept):
        stores.quarantine.put_pages(stream, kept.pack(partition))
    for reported in (stores.closures, stores.reasons):
        reported.drop_before(stream, partition, until >> CHUNK_BITS)
    left = stores.quarantine.counts(stream, list(removed))
    stores.quarantine.drop_facets(stream, [facet for facet in removed if facet not in left])
    return until


def _count_expired(stores: Stores, stream: str, removed: Mapping[bytes, int]) -> None:
    """Take removed records off those that muted problems had before, so that the difference counts all that came since."""
    muted = [each for each in stores.problems.states(stream).values() if each.state == ProblemState.MUTED]
    if not muted:
        return
    heads = joined_problems(stores.quarantine.facets(stream, FacetKind.PROBLEM))
    expired = Counter[bytes | None]()
    for facet, records in removed.items():
        if facet in heads:
            expired[heads[facet]] += records
    for each in muted:
        decision = ProblemDecision.model_validate_json(each.document)
        if records := expired[heads.get(bytes.fromhex(each.problem))]:
            after = decision.model_copy(update={"records_then": decision.records_then - records})
            stores.problems.put(replace(each, document=after.model_dump_json()))


def _within_bounds(stores: Stores, stream: str, batch: RefusalBatch) -> dict[bytes, Integers]:
    """Store new facets; return the offsets by facet, those of facets beyond the limits under an `OTHER` facet."""
    known = {each.facet: each for each in stores.quarantine.facets(stream)}
    room = {kind: most - sum(each.kind == kind for each in known.values()) for kind, most in MOST.items()}
    offsets: dict[bytes, set[int]] = defaultdict(set)
    new: dict[bytes, Facet] = {}
    for digest in batch.offsets:
        facet = batch.facets[digest]
        kind = FacetKind(facet.kind)
        if digest not in known and kind in room:
            if room[kind] <= 0:
                facet = _stand_in(stream, facet)
            else:
                room[kind] -= 1
        if facet.facet not in known or facet.description < known[facet.facet].description:
            new[facet.facet] = facet
        offsets[facet.facet].update(batch.offsets[digest])
    stores.quarantine.put_facets(stream, new.values())
    return {facet: np.array(sorted(found), dtype=np.int64) for facet, found in offsets.items()}


def _stand_in(stream: str, facet: Facet) -> Facet:
    if facet.kind == FacetKind.PROBLEM:
        return OTHER_PROBLEMS.facet(stream, "")
    if facet.kind == FacetKind.VERSION:
        return version_facet(stream, OTHER)
    return producer_facet(stream, described(facet)["header"], OTHER, OTHER)


def _add_pages(stores: Stores, stream: str, partition: int, positions: IndexColumns) -> None:
    first = int(positions.offsets[0]) >> PAGE_BITS
    before = [IndexColumns.unpack(page) for page in stores.quarantine.pages(stream, partition, [first])]
    positions = IndexColumns.joined([*before, positions])
    stores.quarantine.put_pages(stream, positions.pack(partition))


def _add_bitmaps(stores: Stores, stream: str, partition: int, offsets: Mapping[bytes, Integers]) -> None:
    parts: dict[tuple[bytes, int], BitMap] = {}
    for facet, found in offsets.items():
        chunks = found >> CHUNK_BITS
        for chunk in range(int(chunks[0]), int(chunks[-1]) + 1):
            low = found[slice(*np.searchsorted(chunks, (chunk, chunk + 1)))]
            if len(low):
                parts[facet, chunk] = BitMap((low - (chunk << CHUNK_BITS)).astype(np.uint32))
    wanted = {chunk for _, chunk in parts}
    for chunk in wanted:
        facets = [facet for facet, of_chunk in parts if of_chunk == chunk]
        for stored in stores.quarantine.bitmaps(stream, facets, partition, [(partition, chunk)]):
            parts[stored.facet, chunk] |= unpack_bitmap(stored)
    stores.quarantine.put_bitmaps(
        stream, (pack_bitmap(facet, partition, chunk, found) for (facet, chunk), found in parts.items())
    )


def _change_days(stores: Stores, stream: str, minutes: Mapping[bytes, Integers], sign: int) -> None:
    """Add `sign` (1 or -1) to a facet's counts for each of its minutes."""
    if not minutes:
        return
    changes: dict[tuple[bytes, int], Integers] = {}
    for facet, found in minutes.items():
        days = found // DAY_MINUTES
        for day in np.unique(days).tolist():
            of_day = found[days == day] - day * DAY_MINUTES
            changes[facet, day] = sign * np.bincount(of_day, minlength=DAY_MINUTES).astype(np.int64)
    span = min(day for _, day in changes), max(day for _, day in changes)
    for stored in stores.quarantine.days(stream, {facet for facet, _ in changes}, span):
        if (stored.facet, stored.day) in changes:
            changes[stored.facet, stored.day] += day_minutes(stored)
    stores.quarantine.put_days(
        stream, (pack_day(facet, day, counts) for (facet, day), counts in changes.items())
    )
