"""Sessions of people who sign in at the desk with an API key. The browser stores a token, the database its hash."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from tidegate.gateway.access.keys import secret_hash
from tidegate.gateway.access.principal import Principal
from tidegate.gateway.storage.access import StoredSession
from tidegate.gateway.storage.database import Database, Service

COOKIE = "tidegate_session"
LASTS = timedelta(hours=12)
_TOKEN_BYTES = 32
_LONGEST_TOKEN = 100
_MOST_OF_KEY = 50
"""Maximum open sessions per key. A further sign-in ends the oldest, so repeated sign-ins cannot fill the table."""


class KeyHolders(Protocol):
    """The store of API keys."""

    def sign_in(self, key_id: str, secret: str) -> Principal:
        """Return the principal of a key. Raises Unauthenticated."""
        ...

    def of_key_id(self, key_id: str) -> Principal | None:
        """Return the principal of a key that was authenticated before; None if the key is no longer valid."""
        ...


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """A new session. The token exists only here: the database stores its hash."""

    token: str
    principal: Principal


class DeskSessions(Service):
    """The desk sessions. A session ends with its key, after LASTS, or when the person signs out."""

    def __init__(self, database: Database, now: Callable[[], datetime], holders: KeyHolders) -> None:
        super().__init__(database, now)
        self._holders = holders

    def open(self, key_id: str, secret: str) -> OpenedSession:
        """Open a session with the id and secret of an API key. Raises Unauthenticated."""
        principal = self._holders.sign_in(key_id, secret)
        token, at = secrets.token_urlsafe(_TOKEN_BYTES), self._now()
        session = StoredSession(secret_hash(token), principal.name.removeprefix("key:"), at, at + LASTS)
        with self._database.writing() as stores:
            stores.sessions.add(session, _MOST_OF_KEY)
        return OpenedSession(token, principal)

    def principal(self, token: str) -> Principal | None:
        """Return the principal of a session; None if it has ended, or its key is no longer valid."""
        found = self.find(token)
        return None if found is None else self._holders.of_key_id(found.key_id)

    def find(self, token: str) -> StoredSession | None:
        """Return the session of a token; None if the token is unknown or the session has ended."""
        if len(token) > _LONGEST_TOKEN:
            return None
        found = self._database.read(lambda stores: stores.sessions.find(secret_hash(token)))
        return found if found is not None and self._now() < found.expires_at else None

    def close(self, token: str) -> None:
        """End a session; do nothing if there is none."""
        with self._database.writing() as stores:
            stores.sessions.remove(secret_hash(token))
