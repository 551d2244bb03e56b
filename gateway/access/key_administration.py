"""Makes and revokes API keys; each is an entry in the log of changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import datetime

from tidegate.contracts.errors import ConflictError, NotFoundError, SettingsError
from tidegate.gateway.access.keys import Credentials, new_credentials, secret_hash
from tidegate.gateway.access.principal import Grant
from tidegate.gateway.storage.access import StoredKey
from tidegate.gateway.storage.audit_chain import Change, content_hash
from tidegate.gateway.storage.database import Database
from tidegate.gateway.storage.sql import Stores


class KeyCabinet:
    """The API keys of a registry."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now

    def create(
        self, name: str, grants: Sequence[Grant], who: str, expires_at: datetime | None = None
    ) -> Credentials:
        """Make a key. Its secret is in the answer and nowhere else. Raises SettingsError for a key without a use."""
        now = self._now()
        if not grants:
            raise SettingsError(
                "a key needs a role: viewer, reporter, producer, approver or admin, with or without a prefix"
            )
        if not name.isprintable() or not name.strip():
            raise SettingsError("a key needs a name that people can read, such as `admissions job`")
        if expires_at is not None and expires_at <= now:
            raise SettingsError("a key that has expired already opens nothing")
        made = new_credentials()
        written = tuple(str(grant) for grant in grants)
        key = StoredKey(made.key_id, name, secret_hash(made.secret), written, who, now, expires_at)

        def work(stores: Stores) -> None:
            stores.keys.add(key)
            stores.audit.append(Change(now, who, "key.created", _subject(key), None, _hash(key)))

        self._database.write(work)
        return made

    def all(self) -> tuple[StoredKey, ...]:
        """List every key, revoked ones included, oldest first."""
        return self._database.read(lambda stores: stores.keys.all())

    def find(self, key_id: str) -> StoredKey:
        """Find one key, in use or not. Raises NotFoundError."""
        key = self._database.read(lambda stores: stores.keys.find(key_id))
        if key is None:
            raise _unknown(key_id)
        return key

    def revoke(self, key_id: str, who: str) -> StoredKey:
        """Take a key out of use, for good. Raises NotFoundError, ConflictError when it was revoked before."""
        now = self._now()

        def work(stores: Stores) -> StoredKey:
            key = stores.keys.find(key_id)
            if key is None:
                raise _unknown(key_id)
            if key.revoked_at is not None:
                raise ConflictError(f"the key {key_id} was revoked at {key.revoked_at:%Y-%m-%d %H:%M:%S} UTC")
            revoked = replace(key, revoked_at=now)
            stores.keys.revoke(key_id, now)
            stores.audit.append(Change(now, who, "key.revoked", _subject(key), _hash(key), _hash(revoked)))
            return revoked

        return self._database.write(work)


def _unknown(key_id: str) -> NotFoundError:
    return NotFoundError(f"no key has the id {key_id}; `tidegate keys list` shows them")


def _subject(key: StoredKey) -> str:
    return f"key:{key.id}"


def _hash(key: StoredKey) -> str:
    """Hash what a key is, but for its secret."""
    values = {name: value for name, value in asdict(key).items() if name != "secret_hash"}
    instants = ("created_at", "expires_at", "revoked_at")
    return content_hash({**values, **{name: str(values[name]) for name in instants}})
