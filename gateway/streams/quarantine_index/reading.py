"""Queries of the index of a stream's refused records: counts, trends, positions, and pages of positions."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import chain
from typing import Final, Literal, assert_never

import numpy as np
from pyroaring import BitMap

from tidegate.contracts.errors import NotFoundError
from tidegate.gateway.access.principal import ANONYMOUS, Principal, Role, require
from tidegate.gateway.registry.subject_scope import subject_of_contract, topic_of_contract
from tidegate.gateway.storage.audit_chain import AuditedAction
from tidegate.gateway.storage.database import Database
from tidegate.gateway.storage.quarantine_index import IndexedPartition
from tidegate.gateway.storage.sql import Stores
from tidegate.gateway.streams.quarantine import Origin
from tidegate.gateway.streams.quarantine_index.columns import (
    CHUNK,
    CHUNK_BITS,
    PAGE_BITS,
    IndexColumns,
    Integers,
    as_array,
)
from tidegate.gateway.streams.quarantine_index.facets import (
    FacetKind,
    ProblemKey,
    described,
    problem_id,
)
from tidegate.gateway.streams.quarantine_index.filters import (
    Chunk,
    Offsets,
    QuarantineFilter,
    StreamIndex,
    count,
    from_minute,
)
from tidegate.gateway.streams.quarantine_index.positions import FrozenPositions
from tidegate.gateway.streams.quarantine_index.refusals import key_hash
from tidegate.gateway.streams.quarantine_index.similarity import joined_problems
from tidegate.gateway.streams.quarantine_index.trends import Slices, counted

MOST_FOUND: Final = 1_000
"""Maximum positions that a search by key or by source position returns."""


class Dimension(StrEnum):
    """The dimensions by which records can be counted."""

    PROBLEM = "problem"
    STAGE = "stage"
    RULE = "rule"
    FIELD = "field"
    VERSION = "version"
    PARTITION = "partition"
    PRODUCER = "producer"
    AGAIN = "again"
    """The code that a record violated when a replay refused it again."""


_OfRecords = Literal[Dimension.VERSION, Dimension.PRODUCER]
"""Dimensions with one facet for each value."""
_OfProblems = Literal[Dimension.PROBLEM, Dimension.STAGE, Dimension.RULE, Dimension.FIELD]
"""Dimensions whose values are classes of problems."""


@dataclass(frozen=True, slots=True)
class ValueCount:
    """The number of records with one value of a dimension.

    For producers, `name` is the header, and `shown` its value, None if that is hashed.
    """

    value: str
    records: int
    name: str | None = None
    shown: str | None = None


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """How much of a stream's quarantine topic is indexed. `lag` counts offsets, transaction markers among them.

    `oldest` and `newest` are arrivals, by whole minutes; None without a record.
    """

    stream: str
    topic: str
    records: int
    problems: int
    lag: int
    oldest: datetime | None
    newest: datetime | None
    indexed_at: datetime | None
    partitions: tuple[IndexedPartition, ...]

    @property
    def is_complete(self) -> bool:
        """Return whether everything that was in the topic at the last look is indexed."""
        return self.lag == 0 and bool(self.partitions)


@dataclass(frozen=True, slots=True, order=True)
class ArrivalPlace:
    """A position in the order of arrival: minute since 1970 UTC, partition and offset."""

    minute: int
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.minute}-{self.partition}-{self.offset}"

    @classmethod
    def parse(cls, text: str) -> ArrivalPlace:
        """Parse the result of `str`. Raises ValueError."""
        match text.split("-"):
            case [minute, partition, offset] if all(
                each.isdecimal() and len(each) < 20 for each in (minute, partition, offset)
            ):
                return cls(int(minute), int(partition), int(offset))
        raise ValueError("not a place as this list gives it")


@dataclass(frozen=True, slots=True)
class PlacePage:
    """A page of places, newest first. `newer` and `older` continue the list, None at its ends; `total` counts all."""

    places: tuple[ArrivalPlace, ...]
    newer: ArrivalPlace | None
    older: ArrivalPlace | None
    total: int


class QuarantineIndex:
    """A reader of the index; each method reads in one transaction."""

    def __init__(self, database: Database, now: Callable[[], datetime], by: Principal = ANONYMOUS) -> None:
        self._database = database
        self._now = now
        self._by = by

    def status(self, stream: str) -> IndexStatus:
        """Return how much of a stream is indexed. Raises NotFoundError for a stream without a contract."""
        with self._database.reading() as stores:
            return _status(stores, stream)

    def rebuild(self, stream: str) -> IndexStatus:
        """Delete the index of a stream, so that it is rebuilt from the topic. Raises NotFoundError and Forbidden."""
        with self._database.writing() as stores:
            subject = subject_of_contract(stores, stream)
            require(self._by, Role.ADMIN, subject)
            stores.quarantine.drop(stream)
            stores.audit.append(
                AuditedAction(self._now(), self._by.name, "quarantine.index-rebuilt", subject)
            )
            return _status(stores, stream)

    def breakdown(
        self, stream: str, by: Dimension, wanted: QuarantineFilter
    ) -> tuple[tuple[ValueCount, ...], int]:
        """Count the records of a filter by a dimension, most first, and in total. Raises NotFoundError.

        A record with two problems counts for both.
        """
        with self._open(stream) as index:
            offsets = index.offsets(wanted)
            return _groups(index, by, offsets, wanted), count(offsets)

    def trend(self, stream: str, wanted: QuarantineFilter, buckets: int) -> tuple[Slices, tuple[int, ...]]:
        """Count the records of a filter in equal slices of its span, by default the last 24 hours.

        Raises NotFoundError.
        """
        slices = Slices.of(wanted.since, wanted.until, buckets, self._now())
        with self._open(stream) as index:
            return slices, tuple(_trend(index, wanted, slices).tolist())

    def positions(self, stream: str, wanted: QuarantineFilter) -> FrozenPositions:
        """Return the positions that match a filter now. Raises NotFoundError."""
        with self._open(stream) as index:
            topic = Origin(stream, topic_of_contract(index.stores, stream)).quarantine_topic
            return FrozenPositions.of(topic, by_partition(index.offsets(wanted)))

    def sources(self, stream: str, positions: FrozenPositions) -> Iterator[tuple[int, int, int, int]]:
        """Yield (partition, offset, source partition, source offset) of positions, which must be indexed."""
        with self._open(stream) as index:
            for partition, offsets in positions.offsets.items():
                array = np.array(offsets.to_array(), dtype=np.int64)
                for start in range(0, len(array), 1 << CHUNK_BITS):
                    part = array[start : start + (1 << CHUNK_BITS)]
                    sources = index.sources_at(partition, part)
                    rows = zip(part.tolist(), *(each.tolist() for each in sources), strict=True)
                    yield from ((partition, *row) for row in rows)

    def page(
        self,
        stream: str,
        wanted: QuarantineFilter,
        limit: int,
        after: ArrivalPlace | None = None,
        before: ArrivalPlace | None = None,
    ) -> PlacePage:
        """Return at most `limit` places of a filter, newest first.

        These are the newest, or those next to `after` that are older, or those next to `before` that are newer. Raises
        NotFoundError.
        """
        with self._open(stream) as index:
            offsets = index.offsets(wanted)
            is_back = before is not None
            border = before if is_back else after
            found = list(_ordered(index, offsets, border, limit + 1, is_ascending=is_back))
            has_more, found = len(found) > limit, found[:limit]
            if is_back:
                found.reverse()
            is_first = not has_more if is_back else after is None
            is_last = before is None and not has_more
            return PlacePage(
                tuple(found),
                None if is_first or not found else found[0],
                None if is_last or not found else found[-1],
                count(offsets),
            )

    def neighbours(
        self, stream: str, wanted: QuarantineFilter, partition: int, offset: int
    ) -> tuple[ArrivalPlace | None, ArrivalPlace | None]:
        """Return the next newer and the next older place of a filter; None at the ends.

        Raises NotFoundError for a position that is not indexed.
        """
        with self._open(stream) as index:
            place = _place(index, partition, offset)
            offsets = index.offsets(wanted)
            newer = next(iter(_ordered(index, offsets, place, 1, is_ascending=True)), None)
            return newer, next(iter(_ordered(index, offsets, place, 1, is_ascending=False)), None)

    def refused_again_by(self, stream: str, partition: int, offset: int) -> tuple[str, ...]:
        """Return the codes that the record at a position violated when a replay refused it again; () if none did."""
        with self._open(stream) as index:
            chunk, low_bits = (partition, offset >> CHUNK_BITS), offset & (CHUNK - 1)
            return tuple(
                sorted(code for code, found in index.again.items() if low_bits in found.get(chunk, ()))
            )

    def by_key(self, stream: str, key: bytes) -> tuple[tuple[int, int], ...]:
        """Return (partition, offset) of at most MOST_FOUND records that may have a key.

        The index has short hashes of keys, so the caller must compare the keys themselves.
        """
        with self._open(stream) as index:
            wanted = key_hash(key, index.stores.quarantine.secret())
            found: list[tuple[int, int]] = []
            for partition, page, keys in index.stores.quarantine.page_keys(stream):
                places = np.flatnonzero(np.frombuffer(keys, dtype="<u4") == wanted)
                if len(places):
                    (stored,) = index.stores.quarantine.pages(stream, partition, [page])
                    found += (
                        (partition, offset) for offset in IndexColumns.unpack(stored).offsets[places].tolist()
                    )
            return tuple(found[-MOST_FOUND:])

    def by_source(self, stream: str, partition: int, offset: int) -> tuple[tuple[int, int], ...]:
        """Return (partition, offset) of at most MOST_FOUND refused records from one position of the source topic."""
        with self._open(stream) as index:
            found: list[tuple[int, int]] = []
            for page in index.stores.quarantine.pages_of_source(stream, offset):
                columns = IndexColumns.unpack(page)
                is_it = (columns.source_offsets == offset) & (columns.source_partitions == partition)
                found += ((page.partition, each) for each in columns.offsets[is_it].tolist())
            return tuple(found[:MOST_FOUND])

    @contextmanager
    def _open(self, stream: str) -> Iterator[StreamIndex]:
        with self._database.reading() as stores:
            subject_of_contract(stores, stream)
            yield StreamIndex(stores, stream, joined_problems)


def _status(stores: Stores, stream: str) -> IndexStatus:
    topic = Origin(stream, topic_of_contract(stores, stream)).quarantine_topic
    partitions = stores.quarantine.partitions(stream)
    index = StreamIndex(stores, stream, joined_problems)
    spans = stores.quarantine.page_spans(stream)
    return IndexStatus(
        stream=stream,
        topic=topic,
        records=stores.quarantine.counts(stream, [index.all]).get(index.all, 0),
        problems=len(set(index.heads.values())),
        lag=sum(max(0, each.high - each.next_offset) for each in partitions),
        oldest=from_minute(min(span[2] for span in spans)) if spans else None,
        newest=from_minute(max(span[3] for span in spans)) if spans else None,
        indexed_at=max((each.indexed_at for each in partitions if each.indexed_at is not None), default=None),
        partitions=partitions,
    )


def by_partition(offsets: Offsets) -> dict[int, Integers]:
    """Return offsets by partition, ascending."""
    parts: dict[int, list[Integers]] = {}
    for (partition, chunk), low_bits in sorted(offsets.items()):
        parts.setdefault(partition, []).append(as_array(low_bits, chunk))
    return {partition: np.concatenate(found) for partition, found in parts.items()}


def _trend(index: StreamIndex, wanted: QuarantineFilter, slices: Slices) -> Integers:
    """Count the records of a filter by slice: from the counts of days if possible, else from offsets and minutes.

    The counts of days suffice for one problem, or for all records. Counts of several problems cannot be added, because
    a record may have several problems.
    """
    if (wanted.version, wanted.partition, wanted.producer, wanted.again) == (None, None, None, None):
        facets = index.problems(wanted) if wanted.is_of_problems else [index.all]
        if len(facets) == 1 or not wanted.is_of_problems:
            return sum(counted(index.stores, index.stream, facets, slices).values(), slices.none())
    total = slices.none()
    for partition, array in by_partition(index.offsets(wanted)).items():
        total += slices.count(index.minutes_at(partition, array))
    return total


def _groups(
    index: StreamIndex, by: Dimension, offsets: Offsets, wanted: QuarantineFilter
) -> tuple[ValueCount, ...]:
    if by is Dimension.PARTITION:
        sums: dict[int, int] = {}
        for (partition, _), found in offsets.items():
            sums[partition] = sums.get(partition, 0) + len(found)
        return _most_first(ValueCount(str(partition), records) for partition, records in sums.items())
    if by is Dimension.AGAIN:
        return _most_first(ValueCount(code, _common(found, offsets)) for code, found in index.again.items())
    if by is Dimension.VERSION or by is Dimension.PRODUCER:  # `in` would not narrow the type
        return _most_first(_facet_groups(index, by, offsets))
    classes: dict[str, list[bytes]] = {}
    for facet in index.problems(wanted):
        classes.setdefault(_class_of(index, by, facet), []).append(facet)
    groups: list[ValueCount] = []
    if wanted == QuarantineFilter():  # a class of one problem has a stored count
        counts = index.stores.quarantine.counts(index.stream)
        groups = [
            ValueCount(value, counts.get(each[0], 0)) for value, each in classes.items() if len(each) == 1
        ]
        classes = {value: each for value, each in classes.items() if len(each) > 1}
    bitmaps = index.bitmaps(chain.from_iterable(classes.values()), wanted.partition, offsets)
    for value, facets in classes.items():
        united: dict[Chunk, BitMap] = {}
        for facet in facets:
            for chunk, found in bitmaps.get(facet, {}).items():
                united[chunk] = united[chunk] | found if chunk in united else found
        groups.append(ValueCount(value, _common(united, offsets)))
    return _most_first(groups)


def _facet_groups(index: StreamIndex, by: _OfRecords, offsets: Offsets) -> Iterator[ValueCount]:
    facets = index.of_kind(FacetKind.VERSION if by is Dimension.VERSION else FacetKind.PRODUCER)
    bitmaps = index.bitmaps([each.facet for each in facets], None, offsets)
    for facet in facets:
        what = described(facet)
        records = _common(bitmaps.get(facet.facet, {}), offsets)
        if by is Dimension.VERSION:
            yield ValueCount(what["version"], records)
        else:
            yield ValueCount(problem_id(facet.facet), records, what["header"], what["shown"])


def _class_of(index: StreamIndex, by: _OfProblems, facet: bytes) -> str:
    key: ProblemKey = index.keys[facet]
    match by:
        case Dimension.STAGE:
            return key.stage
        case Dimension.RULE:
            return key.code
        case Dimension.FIELD:
            return key.field
        case Dimension.PROBLEM:
            return problem_id(index.heads[facet])
        case _:
            assert_never(by)


def _most_first(groups: Iterable[ValueCount]) -> tuple[ValueCount, ...]:
    return tuple(
        sorted((each for each in groups if each.records), key=lambda each: (-each.records, each.value))
    )


def _common(one: Mapping[Chunk, BitMap], other: Offsets) -> int:
    return sum(found.intersection_cardinality(other[chunk]) for chunk, found in one.items() if chunk in other)


def _place(index: StreamIndex, partition: int, offset: int) -> ArrivalPlace:
    for page in index.stores.quarantine.pages(index.stream, partition, [offset >> PAGE_BITS]):
        columns = IndexColumns.unpack(page)
        at = int(np.searchsorted(columns.offsets, offset))
        if at < len(columns) and columns.offsets[at] == offset:
            return ArrivalPlace(int(columns.minutes[at]), partition, offset)
    raise NotFoundError(
        f"position {partition}/{offset} holds no refused record of {index.stream} that is indexed; retention may have "
        "removed it, or the index has not reached it"
    )


def _ordered(
    index: StreamIndex, offsets: Offsets, border: ArrivalPlace | None, limit: int, *, is_ascending: bool
) -> Iterator[ArrivalPlace]:
    """Yield the `limit` places nearest to a border, in order from it; without a border, in order from the end.

    Chunks are read in order of time, and only while one may contain a place before those already found.
    """
    sign = 1 if is_ascending else -1
    spans = index.chunk_spans()
    queue: list[tuple[int, Chunk]] = []
    for chunk in offsets:
        first, last = spans[chunk]
        is_beyond = border is not None and (last < border.minute if is_ascending else first > border.minute)
        if not is_beyond:
            queue.append((sign * (first if is_ascending else last), chunk))
    heapq.heapify(queue)
    found: list[tuple[int, int, int]] = []
    while queue:
        bound, (partition, number) = heapq.heappop(queue)
        if len(found) >= limit and found[limit - 1][0] < bound:
            break
        array = as_array(offsets[partition, number], number)
        minutes = index.minutes_at(partition, array)
        found += _nearest(array, minutes, partition, border, limit, sign)
        found.sort()
        del found[limit:]
    for place in found:
        yield ArrivalPlace(*(sign * each for each in place))


def _nearest(
    array: Integers, minutes: Integers, partition: int, border: ArrivalPlace | None, limit: int, sign: int
) -> list[tuple[int, int, int]]:
    """Return (minute, partition, offset), each times `sign`, of the `limit` places of a chunk nearest to a border."""
    if border is not None:
        is_beyond = (sign * minutes > sign * border.minute) | (
            (minutes == border.minute)
            & (
                (sign * partition > sign * border.partition)
                | ((partition == border.partition) & (sign * array > sign * border.offset))
            )
        )
        array, minutes = array[is_beyond], minutes[is_beyond]
    order = np.lexsort((sign * array, sign * minutes))[:limit]
    rows = zip(minutes[order].tolist(), array[order].tolist(), strict=True)
    return [(sign * minute, sign * partition, sign * offset) for minute, offset in rows]
