"""Storage of the index of quarantine topics: positions, bitmaps of offsets, counts by minute; no record values.

A chunk is 65,536 offsets of a partition, a page 4,096. `tidegate.gateway.streams.quarantine_index.columns` writes and
reads the bytes of bitmaps, pages and days.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import product

from sqlalchemy import (
    BigInteger,
    Index,
    Integer,
    LargeBinary,
    Text,
    delete,
    func,
    literal,
    select,
    tuple_,
    update,
)
from sqlalchemy.orm import Mapped, mapped_column

from tidegate.gateway.storage.tables import CHUNKS_AT_ONCE, Instant, Name, Store, Table, fields_of, slices

_KEYS_AT_ONCE = 300
"""Maximum keys of one statement; SQLite's limit of parameters is far above three times this number."""


class IndexedPartitionRow(Table):
    """The progress of the index in one partition of a stream's quarantine topic, and the process that builds it.

    `low` is the first indexed offset, `next_offset` the first one that is not indexed, `high` the partition's end as of
    the last look. `revision` counts changes. A process owns the partition until `lease_until`.
    """

    __tablename__ = "quarantine_partitions"

    stream: Mapped[str] = mapped_column(Name, primary_key=True)
    partition: Mapped[int] = mapped_column(Integer, primary_key=True)
    low: Mapped[int] = mapped_column(BigInteger)
    next_offset: Mapped[int] = mapped_column(BigInteger)
    high: Mapped[int] = mapped_column(BigInteger)
    revision: Mapped[int] = mapped_column(BigInteger)
    owner: Mapped[str | None] = mapped_column(Text)
    lease_until: Mapped[datetime | None] = mapped_column(Instant)
    indexed_at: Mapped[datetime | None] = mapped_column(Instant)


class FacetRow(Table):
    """A property that refused records have in common. `facet` is its digest, `description` is JSON."""

    __tablename__ = "quarantine_facets"

    stream: Mapped[str] = mapped_column(Name, primary_key=True)
    facet: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    kind: Mapped[str] = mapped_column(Text)
    description: Mapped[str] = mapped_column(Text)


class BitmapRow(Table):
    """The offsets of one facet within one chunk of a partition, as a serialised Roaring bitmap of their low bits."""

    __tablename__ = "quarantine_bitmaps"
    __table_args__ = (Index("ix_quarantine_bitmaps_partition", "stream", "partition", "chunk"),)

    stream: Mapped[str] = mapped_column(Name, primary_key=True)
    facet: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    partition: Mapped[int] = mapped_column(Integer, primary_key=True)
    chunk: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    records: Mapped[int] = mapped_column(Integer)
    offsets: Mapped[bytes] = mapped_column(LargeBinary)


_BITMAP = (BitmapRow.facet, BitmapRow.partition, BitmapRow.chunk, BitmapRow.records, BitmapRow.offsets)
"""The columns of a StoredBitmap, in its order."""


class PageRow(Table):
    """One page of a partition: arrival times, source positions and key hashes of its refused records.

    `source_low` and `source_high` bound the source offsets, `first_minute` and `last_minute` the arrival times.
    """

    __tablename__ = "quarantine_pages"

    stream: Mapped[str] = mapped_column(Name, primary_key=True)
    partition: Mapped[int] = mapped_column(Integer, primary_key=True)
    page: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    first_minute: Mapped[int] = mapped_column(Integer)
    last_minute: Mapped[int] = mapped_column(Integer)
    source_low: Mapped[int] = mapped_column(BigInteger)
    source_high: Mapped[int] = mapped_column(BigInteger)
    positions: Mapped[bytes] = mapped_column(LargeBinary)
    keys: Mapped[bytes] = mapped_column(LargeBinary)


class DayRow(Table):
    """The number of records of one facet that arrived on one day (UTC, days since 1970), by hour and by minute."""

    __tablename__ = "quarantine_days"

    stream: Mapped[str] = mapped_column(Name, primary_key=True)
    facet: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    day: Mapped[int] = mapped_column(Integer, primary_key=True)
    hours: Mapped[bytes] = mapped_column(LargeBinary)
    minutes: Mapped[bytes] = mapped_column(LargeBinary)


class IndexSecretRow(Table):
    """The secret for hashing producer headers and keys; one row."""

    __tablename__ = "quarantine_secret"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    secret: Mapped[bytes] = mapped_column(LargeBinary)


@dataclass(frozen=True, slots=True)
class IndexedPartition:
    """The indexed range of a partition, and its lease; the fields are those of IndexedPartitionRow."""

    stream: str
    partition: int
    low: int
    next_offset: int
    high: int
    revision: int
    owner: str | None
    lease_until: datetime | None
    indexed_at: datetime | None


@dataclass(frozen=True, slots=True)
class Facet:
    """A property that refused records have in common; the fields are those of FacetRow."""

    facet: bytes
    kind: str
    description: str


@dataclass(frozen=True, slots=True)
class StoredBitmap:
    """The offsets of a facet within a chunk of a partition, as a serialised bitmap; `records` is their number."""

    facet: bytes
    partition: int
    chunk: int
    records: int
    offsets: bytes


@dataclass(frozen=True, slots=True)
class StoredPage:
    """The arrival times, source positions and key hashes of a page; the fields are those of PageRow."""

    partition: int
    page: int
    first_minute: int
    last_minute: int
    source_low: int
    source_high: int
    positions: bytes
    keys: bytes


@dataclass(frozen=True, slots=True)
class StoredDay:
    """The counts of a facet on a day, by hour and by minute; empty bytes stand for no records."""

    facet: bytes
    day: int
    hours: bytes
    minutes: bytes


_INDEX = (IndexedPartitionRow, FacetRow, BitmapRow, PageRow, DayRow)


class QuarantineIndexStore(Store):
    """The index of the quarantine topics, as `stores.quarantine`."""

    def secret(self) -> bytes:
        """Return the secret for hashes."""
        return self._session.scalars(select(IndexSecretRow.secret)).one()

    def partitions(self, stream: str | None = None) -> tuple[IndexedPartition, ...]:
        """List the partitions of a stream (None: of all streams), ordered by stream and partition."""
        query = select(IndexedPartitionRow)
        if stream is not None:
            query = query.where(IndexedPartitionRow.stream == stream)
        rows = self._session.scalars(
            query.order_by(IndexedPartitionRow.stream, IndexedPartitionRow.partition)
        )
        return tuple(IndexedPartition(**fields_of(row, IndexedPartition)) for row in rows)

    def partition(self, stream: str, partition: int) -> IndexedPartition | None:
        """Return one partition; None if it has never been indexed."""
        row = self._session.get(IndexedPartitionRow, (stream, partition), populate_existing=True)
        return None if row is None else IndexedPartition(**fields_of(row, IndexedPartition))

    def lags(self) -> dict[str, int]:
        """Return the number of offsets not yet indexed by stream, as of the last look at the topics' ends."""
        behind = func.sum(IndexedPartitionRow.high - IndexedPartitionRow.next_offset)
        query = select(IndexedPartitionRow.stream, behind).group_by(IndexedPartitionRow.stream)
        return {row[0]: int(row[1]) for row in self._session.execute(query)}

    def put_partition(self, partition: IndexedPartition) -> None:
        """Store the indexed range and the lease of a partition."""
        self._put(IndexedPartitionRow, [fields_of(partition, IndexedPartition)])

    def renew(self, owner: str, until: datetime) -> None:
        """Extend the leases of a process."""
        rows = update(IndexedPartitionRow).where(IndexedPartitionRow.owner == owner)
        self._session.execute(rows.values(lease_until=until))

    def release(self, owner: str) -> None:
        """End the leases of a process."""
        rows = update(IndexedPartitionRow).where(IndexedPartitionRow.owner == owner)
        self._session.execute(rows.values(owner=None, lease_until=None))

    def facets(self, stream: str, kind: str | None = None) -> tuple[Facet, ...]:
        """List the facets of a stream (of one kind, if given), ordered by digest."""
        query = select(FacetRow.facet, FacetRow.kind, FacetRow.description).where(FacetRow.stream == stream)
        if kind is not None:
            query = query.where(FacetRow.kind == kind)
        return tuple(Facet(*row) for row in self._session.execute(query.order_by(FacetRow.facet)))

    def put_facets(self, stream: str, facets: Iterable[Facet]) -> None:
        """Store facets, replacing those with the same digests."""
        self._put(FacetRow, [{"stream": stream, **fields_of(each, Facet)} for each in facets])

    def bitmaps(
        self,
        stream: str,
        facets: Collection[bytes],
        partition: int | None = None,
        chunks: Collection[tuple[int, int]] | None = None,
    ) -> tuple[StoredBitmap, ...]:
        """Return the bitmaps of facets; only of `partition` and of `chunks` (partition, chunk number), if given."""
        found: list[StoredBitmap] = []
        several = [None] if chunks is None else list(slices(chunks, CHUNKS_AT_ONCE))
        for keys, some in product(slices(facets, _KEYS_AT_ONCE), several):
            query = select(*_BITMAP).where(BitmapRow.stream == stream, BitmapRow.facet.in_(keys))
            if partition is not None:
                query = query.where(BitmapRow.partition == partition)
            if some is not None:
                query = query.where(tuple_(BitmapRow.partition, BitmapRow.chunk).in_(some))
            found += [StoredBitmap(*row) for row in self._session.execute(query)]
        return tuple(found)

    def bitmaps_of_chunks(
        self, stream: str, partition: int, chunks: Collection[int]
    ) -> tuple[StoredBitmap, ...]:
        """Return the bitmaps of all facets in some chunks of a partition."""
        query = select(*_BITMAP).where(
            BitmapRow.stream == stream, BitmapRow.partition == partition, BitmapRow.chunk.in_(chunks)
        )
        return tuple(StoredBitmap(*row) for row in self._session.execute(query))

    def counts(self, stream: str, facets: Collection[bytes] | None = None) -> dict[bytes, int]:
        """Return the number of records by facet, for all or for the given facets."""
        query = select(BitmapRow.facet, func.sum(BitmapRow.records)).where(BitmapRow.stream == stream)
        if facets is not None:
            query = query.where(BitmapRow.facet.in_(facets))
        return {row[0]: int(row[1]) for row in self._session.execute(query.group_by(BitmapRow.facet))}

    def put_bitmaps(self, stream: str, bitmaps: Iterable[StoredBitmap]) -> None:
        """Store bitmaps, replacing earlier ones; those without records are deleted."""
        rows = [{"stream": stream, **fields_of(each, StoredBitmap)} for each in bitmaps]
        self._put(BitmapRow, [row for row in rows if row["records"]])
        self._drop(BitmapRow, [row for row in rows if not row["records"]])

    def pages(
        self,
        stream: str,
        partition: int | None = None,
        pages: Collection[int] | None = None,
        minutes: tuple[int, int] | None = None,
    ) -> tuple[StoredPage, ...]:
        """Return pages ordered by partition and number; only those that match every given argument.

        `pages` are numbers, `minutes` is a range [first, last] of arrival times.
        """
        query = select(*(getattr(PageRow, name) for name in StoredPage.__slots__)).where(
            PageRow.stream == stream
        )
        if partition is not None:
            query = query.where(PageRow.partition == partition)
        if pages is not None:
            query = query.where(PageRow.page.in_(pages))
        if minutes is not None:
            query = query.where(PageRow.last_minute >= minutes[0], PageRow.first_minute <= minutes[1])
        rows = self._session.execute(query.order_by(PageRow.partition, PageRow.page))
        return tuple(StoredPage(*row) for row in rows)

    def page_keys(self, stream: str) -> Iterable[tuple[int, int, bytes]]:
        """Yield (partition, page, key hashes) of every page of a stream, in order."""
        query = select(PageRow.partition, PageRow.page, PageRow.keys).where(PageRow.stream == stream)
        for row in self._session.execute(query.order_by(PageRow.partition, PageRow.page)):
            yield row.partition, row.page, row.keys

    def pages_of_source(self, stream: str, source_offset: int) -> tuple[StoredPage, ...]:
        """Return the pages that may contain a record with this source offset."""
        query = select(*(getattr(PageRow, name) for name in StoredPage.__slots__)).where(
            PageRow.stream == stream,
            PageRow.source_low <= source_offset,
            PageRow.source_high >= source_offset,
        )
        return tuple(StoredPage(*row) for row in self._session.execute(query))

    def page_spans(self, stream: str) -> tuple[tuple[int, int, int, int], ...]:
        """Return (partition, page, first minute, last minute) of every page of a stream, in order."""
        query = select(PageRow.partition, PageRow.page, PageRow.first_minute, PageRow.last_minute).where(
            PageRow.stream == stream
        )
        rows = self._session.execute(query.order_by(PageRow.partition, PageRow.page))
        return tuple((row[0], row[1], row[2], row[3]) for row in rows)

    def first_page(self, stream: str, partition: int) -> int | None:
        """Return the lowest page number of a partition; None without pages."""
        query = select(func.min(PageRow.page)).where(PageRow.stream == stream, PageRow.partition == partition)
        return self._session.scalar(query)

    def last_changes(self) -> dict[str, datetime]:
        """Return the time of the last change of the index, by stream."""
        changed = func.max(IndexedPartitionRow.indexed_at)
        query = select(IndexedPartitionRow.stream, changed).group_by(IndexedPartitionRow.stream)
        return {row[0]: row[1] for row in self._session.execute(query) if row[1] is not None}

    def put_pages(self, stream: str, pages: Iterable[StoredPage]) -> None:
        """Store pages, replacing those with the same numbers."""
        self._put(PageRow, [{"stream": stream, **fields_of(each, StoredPage)} for each in pages])

    def drop_pages(self, stream: str, partition: int, before: int) -> None:
        """Delete the pages of a partition with lower numbers."""
        rows = delete(PageRow).where(
            PageRow.stream == stream, PageRow.partition == partition, PageRow.page < before
        )
        self._session.execute(rows)

    def days(
        self,
        stream: str,
        facets: Collection[bytes] | None = None,
        days: tuple[int, int] | None = None,
        *,
        with_minutes: bool = True,
    ) -> tuple[StoredDay, ...]:
        """Return the counts of facets (None: all) on the days [first, last] (None: all), ordered by facet and day.

        Without `with_minutes`, only the counts by hour are read.
        """
        minutes = DayRow.minutes if with_minutes else literal(b"", LargeBinary)
        found: list[StoredDay] = []
        for keys in [None] if facets is None else slices(facets, _KEYS_AT_ONCE):
            query = select(DayRow.facet, DayRow.day, DayRow.hours, minutes).where(DayRow.stream == stream)
            if keys is not None:
                query = query.where(DayRow.facet.in_(keys))
            if days is not None:
                query = query.where(DayRow.day >= days[0], DayRow.day <= days[1])
            rows = self._session.execute(query.order_by(DayRow.facet, DayRow.day))
            found += [StoredDay(*row) for row in rows]
        return tuple(found)

    def first_and_last_days(
        self, stream: str, facets: Collection[bytes]
    ) -> tuple[tuple[bytes, StoredDay, StoredDay], ...]:
        """Return (facet, its first day, its last day) for each facet that has counts."""
        ends = select(DayRow.facet, func.min(DayRow.day).label("first"), func.max(DayRow.day).label("last"))
        ended = ends.where(DayRow.stream == stream).group_by(DayRow.facet).subquery()
        query = (
            select(DayRow.facet, DayRow.day, DayRow.hours, DayRow.minutes)
            .join(ended, ended.c.facet == DayRow.facet)
            .where(DayRow.stream == stream, DayRow.day.in_([ended.c.first, ended.c.last]))
            .order_by(DayRow.facet, DayRow.day)
        )
        found: dict[bytes, list[StoredDay]] = {}
        for row in self._session.execute(query):
            found.setdefault(row[0], []).append(StoredDay(*row))
        return tuple((facet, found[facet][0], found[facet][-1]) for facet in facets if facet in found)

    def put_days(self, stream: str, days: Iterable[StoredDay]) -> None:
        """Store counts, replacing earlier ones; days without records are deleted."""
        rows = [{"stream": stream, **fields_of(each, StoredDay)} for each in days]
        self._put(DayRow, [row for row in rows if row["minutes"]])
        self._drop(DayRow, [row for row in rows if not row["minutes"]])

    def drop_facets(self, stream: str, facets: Sequence[bytes]) -> None:
        """Delete facets that no longer have records."""
        self._drop(FacetRow, [{"stream": stream, "facet": each} for each in facets])

    def drop(self, stream: str) -> None:
        """Delete the whole index of a stream, with its positions and leases."""
        for table in _INDEX:
            self._session.execute(delete(table).where(table.stream == stream))
