"""Store which refused records are closed, as the jobs report it. It outlives the index, which may be built again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Integer, LargeBinary, delete, select
from sqlalchemy.orm import Mapped, mapped_column

from tidegate.gateway.storage.tables import Name, Store, Table, fields_of


class RefusalClosureRow(Table):
    """The low bits of offsets of one chunk of a quarantine topic's partition that were closed in one way."""

    __tablename__ = "refusal_closures"

    stream: Mapped[str] = mapped_column(Name, primary_key=True)
    partition: Mapped[int] = mapped_column(Integer, primary_key=True)
    chunk: Mapped[int] = mapped_column(Integer, primary_key=True)
    closure: Mapped[str] = mapped_column(Name, primary_key=True)
    offsets: Mapped[bytes] = mapped_column(LargeBinary)


@dataclass(frozen=True, slots=True)
class StoredClosure:
    """The offsets of a chunk that were closed in one way."""

    partition: int
    chunk: int
    closure: str
    offsets: bytes


class RefusalClosureStore(Store):
    """Closed records of quarantine topics, as `stores.closures`."""

    def all(self, stream: str) -> tuple[StoredClosure, ...]:
        """Return what is closed of a stream, by partition and chunk."""
        rows = self._session.scalars(
            select(RefusalClosureRow)
            .where(RefusalClosureRow.stream == stream)
            .order_by(RefusalClosureRow.partition, RefusalClosureRow.chunk, RefusalClosureRow.closure)
        )
        return tuple(StoredClosure(**fields_of(row, StoredClosure)) for row in rows)

    def find(self, stream: str, partition: int, chunk: int, closure: str) -> bytes | None:
        """Return the offsets of a chunk that were closed in one way; None without any."""
        row = self._session.get(RefusalClosureRow, (stream, partition, chunk, closure))
        return None if row is None else row.offsets

    def put(self, stream: str, closures: Iterable[StoredClosure]) -> None:
        """Store chunks, replacing those that there are."""
        for each in closures:
            self._session.merge(RefusalClosureRow(stream=stream, **fields_of(each, StoredClosure)))

    def drop_before(self, stream: str, partition: int, chunk: int) -> None:
        """Delete the chunks of a partition with lower numbers."""
        self._session.execute(
            delete(RefusalClosureRow).where(
                RefusalClosureRow.stream == stream,
                RefusalClosureRow.partition == partition,
                RefusalClosureRow.chunk < chunk,
            )
        )

    def drop(self, stream: str) -> None:
        """Delete all of a stream: its quarantine topic was made again."""
        self._session.execute(delete(RefusalClosureRow).where(RefusalClosureRow.stream == stream))
