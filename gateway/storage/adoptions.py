"""Store who rebuilt the ledger of a stream, and what was given up for it."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, Index, Integer, Text, insert, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from tidegate.contracts.stream.adoption import Adoption, KeptAdoption
from tidegate.gateway.storage.tables import Instant, Table, keep_newest

KEPT = 100
"""Adoptions of one stream that are kept. Each takes a person; their entries in the log of changes stay."""


class AdoptionRow(Table):
    """One adoption as JSON, who had it kept, and when."""

    __tablename__ = "stream_adoptions"
    __table_args__ = (Index("ix_stream_adoptions_stream", "stream", "key"),)

    key: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(Text, unique=True)
    stream: Mapped[str] = mapped_column(ForeignKey("contracts.id"))
    kept_by: Mapped[str] = mapped_column(Text)
    kept_at: Mapped[datetime] = mapped_column(Instant)
    document: Mapped[str] = mapped_column(Text)


class AdoptionStore:
    """Adoptions of streams, as `stores.adoptions`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def find(self, wanted: str) -> KeptAdoption | None:
        """Return the adoption of that id, of any stream; None when there is none."""
        row = self._session.scalar(select(AdoptionRow).where(AdoptionRow.id == wanted))
        return None if row is None else _kept(row)

    def all(self, stream: str) -> tuple[KeptAdoption, ...]:
        """Return those of a stream, newest first."""
        rows = self._session.scalars(
            select(AdoptionRow).where(AdoptionRow.stream == stream).order_by(AdoptionRow.key.desc())
        )
        return tuple(map(_kept, rows))

    def add(self, kept: KeptAdoption) -> None:
        """Keep a new adoption; the oldest of its stream give way."""
        adoption = kept.adoption
        self._session.execute(
            insert(AdoptionRow).values(
                id=adoption.id,
                stream=adoption.stream,
                kept_by=kept.by,
                kept_at=kept.at,
                document=adoption.model_dump_json(),
            )
        )
        keep_newest(self._session, AdoptionRow.key, AdoptionRow.stream, adoption.stream, KEPT)


def _kept(row: AdoptionRow) -> KeptAdoption:
    return KeptAdoption(by=row.kept_by, at=row.kept_at, adoption=Adoption.model_validate_json(row.document))
