"""Storage of API keys and of sessions of the desk, with only hashes of their secrets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import (
    ColumnElement,
    ForeignKey,
    Index,
    Text,
    delete,
    false,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.orm import InstrumentedAttribute, Mapped, mapped_column

from tidegate.gateway.storage.tables import Instant, Store, Table, fields_of


def begins_with(column: InstrumentedAttribute[str], prefixes: Sequence[str]) -> ColumnElement[bool]:
    """Return the condition that a column begins with one of the prefixes; false without any. LIKE ignores case on SQLite."""
    return or_(false(), *(func.substr(column, 1, len(prefix)) == prefix for prefix in prefixes))


class KeyRow(Table):
    """One API key. `grants` has one `role` or `role:prefix` per line."""

    __tablename__ = "keys"

    id: Mapped[str] = mapped_column(Text, primary_key=True)
    name: Mapped[str] = mapped_column(Text)
    secret_hash: Mapped[str] = mapped_column(Text)
    grants: Mapped[str] = mapped_column(Text)
    created_by: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(Instant)
    expires_at: Mapped[datetime | None] = mapped_column(Instant)
    revoked_at: Mapped[datetime | None] = mapped_column(Instant)


@dataclass(frozen=True, slots=True)
class StoredKey:
    """One stored API key. `grants` are `role` or `role:prefix`; instants are UTC, None for never."""

    id: str
    name: str
    secret_hash: str
    grants: tuple[str, ...]
    created_by: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


class KeyStore(Store):
    """The API keys, as `stores.keys`. A key is revoked, never removed, so that the audit log can name it."""

    def add(self, key: StoredKey) -> None:
        """Store a new key."""
        self._session.execute(insert(KeyRow).values(fields_of(key, StoredKey, grants="\n".join(key.grants))))

    def find(self, key_id: str) -> StoredKey | None:
        """Find one key, revoked or not."""
        row = self._session.scalar(select(KeyRow).where(KeyRow.id == key_id))
        return None if row is None else _key(row)

    def all(self) -> tuple[StoredKey, ...]:
        """List every key, oldest first."""
        rows = self._session.scalars(select(KeyRow).order_by(KeyRow.created_at, KeyRow.id))
        return tuple(_key(row) for row in rows)

    def revoke(self, key_id: str, at: datetime) -> None:
        """Set the time of revocation; do nothing for an unknown key."""
        self._session.execute(update(KeyRow).where(KeyRow.id == key_id).values(revoked_at=at))


def _key(row: KeyRow) -> StoredKey:
    return StoredKey(**fields_of(row, StoredKey, grants=tuple(row.grants.splitlines())))


class SessionRow(Table):
    """One session of a person who signed in at the desk with an API key."""

    __tablename__ = "desk_sessions"
    __table_args__ = (
        Index("ix_desk_sessions_key", "key_id", "opened_at"),
        Index("ix_desk_sessions_expires", "expires_at"),
    )

    token_hash: Mapped[str] = mapped_column(Text, primary_key=True)
    key_id: Mapped[str] = mapped_column(ForeignKey("keys.id"))
    opened_at: Mapped[datetime] = mapped_column(Instant)
    expires_at: Mapped[datetime] = mapped_column(Instant)


@dataclass(frozen=True, slots=True)
class StoredSession:
    """One stored session; instants are UTC."""

    token_hash: str
    key_id: str
    opened_at: datetime
    expires_at: datetime


class SessionStore(Store):
    """Sessions of the desk, as `stores.sessions`."""

    def add(self, session: StoredSession, most_of_key: int) -> None:
        """Store a new session; delete expired ones, and all but the newest `most_of_key` of the same key."""
        self._session.execute(delete(SessionRow).where(SessionRow.expires_at <= session.opened_at))
        self._session.execute(insert(SessionRow).values(fields_of(session, StoredSession)))
        of_key = select(SessionRow.token_hash).where(SessionRow.key_id == session.key_id)
        newest_first = of_key.order_by(SessionRow.opened_at.desc(), SessionRow.token_hash)
        older = list(self._session.scalars(newest_first.offset(most_of_key)))
        self._session.execute(delete(SessionRow).where(SessionRow.token_hash.in_(older)))

    def find(self, token_hash: str) -> StoredSession | None:
        """Find one session, expired or not."""
        row = self._session.get(SessionRow, token_hash)
        return None if row is None else StoredSession(**fields_of(row, StoredSession))

    def remove(self, token_hash: str) -> None:
        """Delete a session, if it exists."""
        self._session.execute(delete(SessionRow).where(SessionRow.token_hash == token_hash))
