"""Storage of which refused records are closed, and why others failed again, as reported. It outlives the index."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from sqlalchemy import BigInteger, Integer, LargeBinary, delete, select, tuple_
from sqlalchemy.orm import Mapped, Session, mapped_column

from tidegate.gateway.storage.tables import CHUNKS_AT_ONCE, Name, Store, Table, slices


class _OffsetsRow(Table):
    """The low bits of the offsets in one chunk of a quarantine topic's partition that have the same name."""

    __abstract__ = True

    stream: Mapped[str] = mapped_column(Name, primary_key=True)
    partition: Mapped[int] = mapped_column(Integer, primary_key=True)
    chunk: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    name: Mapped[str]
    offsets: Mapped[bytes] = mapped_column(LargeBinary)


class RefusalClosureRow(_OffsetsRow):
    """Records that were closed in one way; its value is the name."""

    __tablename__ = "refusal_closures"

    name: Mapped[str] = mapped_column("closure", Name, primary_key=True)


class RefusalReasonRow(_OffsetsRow):
    """Records that failed again in a replay; the code that they violated then is the name."""

    __tablename__ = "refusal_reasons"

    name: Mapped[str] = mapped_column("code", Name, primary_key=True)


@dataclass(frozen=True, slots=True)
class StoredOffsets:
    """The offsets of a chunk that have a name, as a serialised bitmap of low bits; empty bytes for none."""

    partition: int
    chunk: int
    name: str
    offsets: bytes


class RefusalOffsetsStore(Store):
    """Named offsets of quarantine topics: `stores.closures` by closure, `stores.reasons` by code violated again."""

    def __init__(self, session: Session, row: type[_OffsetsRow]) -> None:
        super().__init__(session)
        self._row = row

    def all(self, stream: str) -> tuple[StoredOffsets, ...]:
        """Return all offsets of a stream, ordered by partition, chunk and name."""
        row = self._row
        query = select(row.partition, row.chunk, row.name, row.offsets).where(row.stream == stream)
        rows = self._session.execute(query.order_by(row.partition, row.chunk, row.name))
        return tuple(StoredOffsets(*each) for each in rows)

    def of_chunks(
        self, stream: str, chunks: Collection[tuple[int, int]]
    ) -> dict[tuple[int, int], dict[str, bytes]]:
        """Return the offsets of chunks (partition, chunk number) by name; without any, a chunk has an empty mapping."""
        row, found = self._row, {chunk: dict[str, bytes]() for chunk in chunks}
        for some in slices(chunks, CHUNKS_AT_ONCE):
            query = select(row.partition, row.chunk, row.name, row.offsets).where(
                row.stream == stream, tuple_(row.partition, row.chunk).in_(some)
            )
            for partition, chunk, name, offsets in self._session.execute(query):
                found[partition, chunk][name] = offsets
        return found

    def names(self, stream: str) -> frozenset[str]:
        """Return the names that a stream has."""
        return frozenset(
            self._session.scalars(select(self._row.name).where(self._row.stream == stream).distinct())
        )

    def put(self, stream: str, found: Iterable[StoredOffsets]) -> None:
        """Store offsets, replacing those of the same chunk and name; entries without an offset are deleted."""
        named = self._row.name.expression.name
        rows: list[dict[str, object]] = [
            {
                "stream": stream,
                "partition": each.partition,
                "chunk": each.chunk,
                named: each.name,
                "offsets": each.offsets,
            }
            for each in found
        ]
        self._put(self._row, [row for row in rows if row["offsets"]])
        self._drop(self._row, [row for row in rows if not row["offsets"]])

    def drop_before(self, stream: str, partition: int, chunk: int) -> None:
        """Delete the chunks of a partition with lower numbers."""
        row = self._row
        self._session.execute(
            delete(row).where(row.stream == stream, row.partition == partition, row.chunk < chunk)
        )

    def drop(self, stream: str) -> None:
        """Delete all offsets of a stream, because its quarantine topic was recreated."""
        self._session.execute(delete(self._row).where(self._row.stream == stream))
