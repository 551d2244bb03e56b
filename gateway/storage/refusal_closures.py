"""Store what jobs report of refused records: which are closed, and why others failed again. It outlives the index."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Integer, LargeBinary, delete, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from tidegate.gateway.storage.tables import Name, Store, Table, fields_of


class _OffsetsRow(Table):
    """The low bits of offsets of one chunk of a quarantine topic's partition that have a name in common."""

    __abstract__ = True

    stream: Mapped[str] = mapped_column(Name, primary_key=True)
    partition: Mapped[int] = mapped_column(Integer, primary_key=True)
    chunk: Mapped[int] = mapped_column(Integer, primary_key=True)
    name: Mapped[str]
    offsets: Mapped[bytes] = mapped_column(LargeBinary)


class RefusalClosureRow(_OffsetsRow):
    """Records that were closed in one way, which is their name."""

    __tablename__ = "refusal_closures"

    name: Mapped[str] = mapped_column("closure", Name, primary_key=True)


class RefusalReasonRow(_OffsetsRow):
    """Records that failed again in a replay; what they violated then is their name."""

    __tablename__ = "refusal_reasons"

    name: Mapped[str] = mapped_column("code", Name, primary_key=True)


@dataclass(frozen=True, slots=True)
class StoredOffsets:
    """The offsets of a chunk that have a name, as a serialised bitmap; empty bytes for none."""

    partition: int
    chunk: int
    name: str
    offsets: bytes


class RefusalOffsetsStore(Store):
    """Named offsets of quarantine topics: `stores.closures` by what became of them, `stores.reasons` by why they failed again."""

    def __init__(self, session: Session, row: type[_OffsetsRow]) -> None:
        super().__init__(session)
        self._row = row

    def all(self, stream: str) -> tuple[StoredOffsets, ...]:
        """Return all of a stream, by partition, chunk and name."""
        row = self._row
        query = select(row).where(row.stream == stream).order_by(row.partition, row.chunk, row.name)
        return tuple(StoredOffsets(**fields_of(each, StoredOffsets)) for each in self._session.scalars(query))

    def of_chunk(self, stream: str, partition: int, chunk: int) -> dict[str, bytes]:
        """Return the offsets of a chunk by name."""
        row = self._row
        query = select(row.name, row.offsets).where(
            row.stream == stream, row.partition == partition, row.chunk == chunk
        )
        return dict(self._session.execute(query).all())

    def names(self, stream: str) -> frozenset[str]:
        """Return the names that a stream has."""
        return frozenset(
            self._session.scalars(select(self._row.name).where(self._row.stream == stream).distinct())
        )

    def put(self, stream: str, found: Iterable[StoredOffsets]) -> None:
        """Store offsets, replacing those that there are; those without any are deleted."""
        row = self._row
        for each in found:
            if each.offsets:
                self._session.merge(row(stream=stream, **fields_of(each, StoredOffsets)))
            else:
                self._session.execute(
                    delete(row).where(
                        row.stream == stream,
                        row.partition == each.partition,
                        row.chunk == each.chunk,
                        row.name == each.name,
                    )
                )

    def drop_before(self, stream: str, partition: int, chunk: int) -> None:
        """Delete the chunks of a partition with lower numbers."""
        row = self._row
        self._session.execute(
            delete(row).where(row.stream == stream, row.partition == partition, row.chunk < chunk)
        )

    def drop(self, stream: str) -> None:
        """Delete all of a stream: its quarantine topic was made again."""
        self._session.execute(delete(self._row).where(self._row.stream == stream))
