"""Filters of refused records: each condition is a set of offsets, and the filter is their intersection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Final

import numpy as np
from pyroaring import BitMap

from tidegate.contracts.errors import NotFoundError
from tidegate.gateway.storage.quarantine_index import Facet
from tidegate.gateway.storage.sql import Stores
from tidegate.gateway.streams.quarantine_index.columns import (
    CHUNK_BITS,
    PAGE_BITS,
    IndexColumns,
    Integers,
    as_array,
    unpack_bitmap,
)
from tidegate.gateway.streams.quarantine_index.facets import (
    FacetKind,
    ProblemKey,
    all_records,
    described,
    problem_id,
)

Chunk = tuple[int, int]
"""Partition and number of a chunk."""
Offsets = dict[Chunk, BitMap]
"""Low bits of offsets by chunk; no chunk is empty."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class QuarantineFilter:
    """A filter of a stream's refused records; None matches all.

    `problem` and `producer` are ids (32 hexadecimal digits). `field` is a JSON Pointer with `*` for indices.
    `partition` is one of the quarantine topic. [since, until) is the time of arrival, by whole minutes. `again` is a
    code that a record violated when a replay refused it again.
    """

    problem: str | None = None
    stage: str | None = None
    rule: str | None = None
    field: str | None = None
    version: str | None = None
    partition: int | None = None
    producer: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    again: str | None = None

    @property
    def minutes(self) -> tuple[int, int] | None:
        """Return the first and the last minute (since 1970 UTC) of the span; None without a span."""
        if self.since is None and self.until is None:
            return None
        first = 0 if self.since is None else to_minute(self.since)
        last = 2**31 - 1 if self.until is None else to_minute(self.until - timedelta(microseconds=1))
        return first, last

    @property
    def is_of_problems(self) -> bool:
        """Return whether the filter selects by problem, stage, rule or field."""
        return any(each is not None for each in (self.problem, self.stage, self.rule, self.field))


def to_minute(at: datetime) -> int:
    """Return the whole minute of an aware instant, counted since 1970 UTC."""
    return (at - _EPOCH) // timedelta(minutes=1)


def from_minute(minute: int) -> datetime:
    """Return the UTC instant at which a minute begins."""
    return datetime.fromtimestamp(minute * 60, tz=UTC)


class StreamIndex:
    """The index of one stream in one transaction. `groups` maps each problem's facet to the head of its group."""

    def __init__(
        self, stores: Stores, stream: str, groups: Callable[[Iterable[Facet]], Mapping[bytes, bytes]]
    ) -> None:
        self.stores = stores
        self.stream = stream
        self.facets = {each.facet: each for each in stores.quarantine.facets(stream)}
        self.keys = {
            facet: ProblemKey.read(each)
            for facet, each in self.facets.items()
            if each.kind == FacetKind.PROBLEM
        }
        self.heads = groups(self.facets[facet] for facet in self.keys)

    @property
    def all(self) -> bytes:
        """Return the facet of all records."""
        return all_records(self.stream).facet

    def of_kind(self, kind: FacetKind) -> list[Facet]:
        """Return the facets of a kind."""
        return [each for each in self.facets.values() if each.kind == kind]

    def members(self, head: bytes) -> list[bytes]:
        """Return the facets of the problems in the group of a head, the head included."""
        return [facet for facet, its_head in self.heads.items() if its_head == head]

    def head_of(self, problem: str) -> bytes:
        """Return the head of a problem's group, by the problem's id. Raises NotFoundError."""
        try:
            return self.heads[bytes.fromhex(problem)]
        except (KeyError, ValueError):
            raise NotFoundError(
                f"no refused record that is kept belongs to a problem {problem[:64]} of {self.stream}"
            ) from None

    def problems(self, wanted: QuarantineFilter) -> list[bytes]:
        """Return the facets of the problems that match a filter."""
        members = None if wanted.problem is None else set(self.members(self.head_of(wanted.problem)))
        return [
            facet
            for facet, key in self.keys.items()
            if (members is None or facet in members)
            and wanted.stage in {None, key.stage}
            and wanted.rule in {None, key.code}
            and wanted.field in {None, key.field}
        ]

    def bitmaps(
        self, facets: Iterable[bytes], partition: int | None = None, chunks: Iterable[Chunk] | None = None
    ) -> dict[bytes, Offsets]:
        """Return the offsets of facets by facet and chunk; only of `partition` and of `chunks`, if given."""
        found: dict[bytes, Offsets] = {}
        wanted = None if chunks is None else list(chunks)
        for stored in self.stores.quarantine.bitmaps(self.stream, list(facets), partition, wanted):
            found.setdefault(stored.facet, {})[stored.partition, stored.chunk] = unpack_bitmap(stored)
        return found

    def offsets(self, wanted: QuarantineFilter) -> Offsets:
        """Return the offsets that match a filter, by chunk."""
        chunks = self._chunks(wanted.minutes)
        sets = [self.problems(wanted)] if wanted.is_of_problems else []
        if wanted.version is not None:
            sets.append(self._described(FacetKind.VERSION, "version", wanted.version))
        if wanted.producer is not None:
            sets.append([facet for facet in self.facets if problem_id(facet) == wanted.producer])
        found: Offsets | None = None
        for facets in sets or [[self.all]]:
            united: Offsets = {}
            for of_facet in self.bitmaps(facets, wanted.partition, chunks).values():
                for chunk, offsets in of_facet.items():
                    united[chunk] = united[chunk] | offsets if chunk in united else offsets
            found = united if found is None else _intersected(found, united)
        if wanted.again is not None:
            found = _intersected(found or {}, self.again.get(wanted.again, {}))
        return self.within(found or {}, wanted.minutes)

    @cached_property
    def again(self) -> dict[str, Offsets]:
        """Return the offsets of records that a replay refused again, by code; some may not be indexed."""
        found: dict[str, Offsets] = {}
        for stored in self.stores.reasons.all(self.stream):
            offsets = BitMap.deserialize(stored.offsets)
            found.setdefault(stored.name, {})[stored.partition, stored.chunk] = offsets
        return found

    def within(self, offsets: Offsets, minutes: tuple[int, int] | None) -> Offsets:
        """Return the offsets of records that arrived in the minutes [first, last]; None: all."""
        if minutes is None:
            return offsets
        spans = self._spans()
        found: Offsets = {}
        for (partition, chunk), low_bits in offsets.items():
            first, last = spans.get((partition, chunk), (0, -1))
            if first >= minutes[0] and last <= minutes[1]:
                found[partition, chunk] = low_bits
            elif first <= minutes[1] and last >= minutes[0]:
                array = as_array(low_bits, chunk)
                at = self.minutes_at(partition, array)
                kept = array[(at >= minutes[0]) & (at <= minutes[1])]
                if len(kept):
                    found[partition, chunk] = BitMap((kept - (chunk << CHUNK_BITS)).astype(np.uint32))
        return found

    def minutes_at(self, partition: int, offsets: Integers) -> Integers:
        """Return the minutes in which the records at ascending offsets of a partition arrived."""
        return self._positions(partition, offsets).minutes_at(offsets)

    def sources_at(self, partition: int, offsets: Integers) -> tuple[Integers, Integers]:
        """Return the source partitions and source offsets of the records at ascending offsets of a partition."""
        found = self._positions(partition, offsets)
        places = np.searchsorted(found.offsets, offsets)
        return found.source_partitions[places], found.source_offsets[places]

    def _positions(self, partition: int, offsets: Integers) -> IndexColumns:
        numbers = np.unique(offsets >> PAGE_BITS).tolist()
        pages = self.stores.quarantine.pages(self.stream, partition, numbers)
        return IndexColumns.joined([IndexColumns.unpack(page) for page in pages])

    def chunk_spans(self) -> Mapping[Chunk, tuple[int, int]]:
        """Return the first and the last minute of arrival in each chunk."""
        return self._spans()

    def _spans(self) -> dict[Chunk, tuple[int, int]]:
        found: dict[Chunk, tuple[int, int]] = {}
        for partition, page, first, last in self.stores.quarantine.page_spans(self.stream):
            chunk = partition, page << PAGE_BITS >> CHUNK_BITS
            before = found.get(chunk, (first, last))
            found[chunk] = min(before[0], first), max(before[1], last)
        return found

    def _chunks(self, minutes: tuple[int, int] | None) -> list[Chunk] | None:
        if minutes is None:
            return None
        return [
            chunk
            for chunk, (first, last) in self._spans().items()
            if first <= minutes[1] and last >= minutes[0]
        ]

    def _described(self, kind: FacetKind, name: str, value: str) -> list[bytes]:
        return [each.facet for each in self.of_kind(kind) if described(each)[name] == value]


def _intersected(one: Offsets, other: Offsets) -> Offsets:
    found = {chunk: one[chunk] & other[chunk] for chunk in one.keys() & other.keys()}
    return {chunk: offsets for chunk, offsets in found.items() if offsets}


def count(offsets: Offsets) -> int:
    """Return the number of offsets."""
    return sum(len(each) for each in offsets.values())
