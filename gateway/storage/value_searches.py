"""Storage of searches for a value among refused records: their progress and results, never the value."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Boolean, Integer, Text
from sqlalchemy.orm import Mapped, mapped_column

from tidegate.gateway.storage.tables import EntryStore, Instant, Name, StreamEntry, fields_of

KEPT = 50
"""Maximum searches that are kept for one stream."""


class ValueSearchRow(StreamEntry):
    """One search. `positions` is a JSON list of `partition/offset`; `heard_at` is its process's last sign of life."""

    __tablename__ = "quarantine_searches"

    stream: Mapped[str] = mapped_column(Name)
    by: Mapped[str] = mapped_column(Text)
    at: Mapped[datetime] = mapped_column(Instant)
    state: Mapped[str] = mapped_column(Text)
    looked_at: Mapped[int] = mapped_column(Integer)
    total: Mapped[int] = mapped_column(Integer)
    positions: Mapped[str] = mapped_column(Text)
    is_cancelled: Mapped[bool] = mapped_column(Boolean)
    heard_at: Mapped[datetime] = mapped_column(Instant)


@dataclass(frozen=True, slots=True)
class StoredSearch:
    """One stored search; the fields are those of ValueSearchRow."""

    id: str
    stream: str
    by: str
    at: datetime
    state: str
    looked_at: int
    total: int
    positions: str
    is_cancelled: bool
    heard_at: datetime


class ValueSearchStore(EntryStore[ValueSearchRow]):
    """Searches for values, as `stores.value_searches`."""

    _row = ValueSearchRow
    _kept = KEPT

    def add(self, search: StoredSearch) -> None:
        """Store a new search; delete the oldest of its stream."""
        self._add(ValueSearchRow(**fields_of(search, StoredSearch)))

    def find(self, stream: str, search_id: str) -> StoredSearch | None:
        """Return one search of a stream; None if no search has this id."""
        row = self._entry(stream, search_id)
        return None if row is None else StoredSearch(**fields_of(row, StoredSearch))

    def all(self, stream: str) -> tuple[StoredSearch, ...]:
        """List the stored searches of a stream, newest first."""
        return tuple(StoredSearch(**fields_of(row, StoredSearch)) for row in self._entries(stream))

    def update(self, search_id: str, **values: object) -> None:
        """Change fields of a search."""
        self._change(search_id, **values)
