"""API keys: stored as hashes, compared in constant time, revoked permanently."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from time import monotonic

from tidegate.contracts.errors import ConflictError, NotFoundError, SettingsError
from tidegate.gateway.access.principal import Grant, Principal, read_grants
from tidegate.gateway.storage.access import StoredKey
from tidegate.gateway.storage.audit_chain import AuditedAction, content_hash
from tidegate.gateway.storage.database import Service

_ID_BYTES = 6
_SECRET_BYTES = 32
_MAX_CACHED = 4096
_ID = re.compile(r"[0-9a-f]{12}")
_TOKEN = re.compile(r"tgk_([0-9a-f]{12})_(.+)", re.DOTALL)
_UNMATCHABLE_HASH = "0" * 64  # no secret with this hash can be found

Find = Callable[[str], StoredKey | None]
Compare = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class Credentials:
    """The two halves of an API key: a public id and a secret."""

    key_id: str
    secret: str

    @property
    def token(self) -> str:
        """Return both halves as one string (`tgk_<id>_<secret>`), to be sent as a bearer token."""
        return f"tgk_{self.key_id}_{self.secret}"


def new_credentials() -> Credentials:
    """Generate a new key: an id of 48 random bits, and a secret of 256 random bits."""
    return Credentials(secrets.token_hex(_ID_BYTES), secrets.token_urlsafe(_SECRET_BYTES))


def read_token(token: str) -> Credentials | None:
    """Parse an API key that was sent as a bearer token; return None for another kind of token."""
    found = _TOKEN.fullmatch(token)
    return Credentials(found[1], found[2]) if found else None


def secret_hash(secret: str) -> str:
    """Return the SHA-256 of a secret, as 64 lowercase hexadecimal digits.

    Unlike for a password, one round without a salt is enough. A secret is 256 random bits, so a dictionary attack is
    impossible and no two keys share a secret. A slow hash would only slow down each request.
    """
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


class KeyRing:
    """The authentication of API keys. Lookups are cached for `cache_seconds`, also those of unknown ids.

    Known and unknown ids take the same steps: one lookup, one hash, and one comparison in constant time.
    """

    def __init__(
        self,
        find: Find,
        now: Callable[[], datetime],
        cache_seconds: float,
        compare: Compare = hmac.compare_digest,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._find = find
        self._now = now
        self._cache_seconds = cache_seconds
        self._compare = compare
        self._clock = clock
        self._cached: dict[str, tuple[float, StoredKey | None]] = {}

    def is_cached(self, key_id: str) -> bool:
        """Return whether `principal` needs no database query for this id."""
        cached = self._cached.get(key_id)
        return cached is not None and self._clock() < cached[0]

    def principal(self, credentials: Credentials) -> Principal | None:
        """Return the principal of these credentials; None if the key is unknown or no longer valid."""
        key = self._look_up(credentials.key_id)
        is_right = self._compare(
            secret_hash(credentials.secret), key.secret_hash if key else _UNMATCHABLE_HASH
        )
        return self._principal_of(key) if is_right else None

    def present(self, key_id: str) -> Principal | None:
        """Return the principal of a key whose secret was verified before; None if the key is no longer valid."""
        return self._principal_of(self._look_up(key_id))

    def _principal_of(self, key: StoredKey | None) -> Principal | None:
        if key is None or not self._is_in_use(key):
            return None
        return Principal(f"key:{key.id}", read_grants(key.grants))

    def _look_up(self, key_id: str) -> StoredKey | None:
        if not _ID.fullmatch(key_id):
            key_id = ""  # no key has this id, so a malformed id takes the path of an unknown one
        cached = self._cached.get(key_id)
        now = self._clock()
        if cached is not None and now < cached[0]:
            return cached[1]
        found = self._find(key_id)
        if len(self._cached) >= _MAX_CACHED:
            self._cached.clear()
        self._cached[key_id] = now + self._cache_seconds, found
        return found

    def _is_in_use(self, key: StoredKey) -> bool:
        return key.revoked_at is None and (key.expires_at is None or self._now() < key.expires_at)


class KeyService(Service):
    """The API keys of a registry."""

    def create(
        self, name: str, grants: Sequence[Grant], who: str, expires_at: datetime | None = None
    ) -> Credentials:
        """Create a key and return its credentials; the secret is not stored.

        `expires_at` None: the key never expires. Raises SettingsError without a grant, for a name that is blank or not
        printable, and for an expiry in the past.
        """
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
        with self._database.writing() as stores:
            stores.keys.add(key)
            stores.audit.append(AuditedAction(now, who, "key.created", _subject(key), None, _hash(key)))
        return made

    def all(self) -> tuple[StoredKey, ...]:
        """Return all keys, including revoked ones, oldest first."""
        return self._database.read(lambda stores: stores.keys.all())

    def find(self, key_id: str) -> StoredKey:
        """Return a key, whether it is valid or not. Raises NotFoundError."""
        key = self._database.read(lambda stores: stores.keys.find(key_id))
        if key is None:
            raise _unknown(key_id)
        return key

    def revoke(self, key_id: str, who: str) -> StoredKey:
        """Revoke a key permanently, and return it. Raises NotFoundError, ConflictError if it is already revoked."""
        now = self._now()
        with self._database.writing() as stores:
            key = stores.keys.find(key_id)
            if key is None:
                raise _unknown(key_id)
            if key.revoked_at is not None:
                raise ConflictError(f"the key {key_id} was revoked at {key.revoked_at:%Y-%m-%d %H:%M:%S} UTC")
            revoked = replace(key, revoked_at=now)
            stores.keys.revoke(key_id, now)
            stores.audit.append(
                AuditedAction(now, who, "key.revoked", _subject(key), _hash(key), _hash(revoked))
            )
            return revoked


def _unknown(key_id: str) -> NotFoundError:
    return NotFoundError(f"no key has the id {key_id}; `tidegate keys list` shows them")


def _subject(key: StoredKey) -> str:
    return f"key:{key.id}"


def _hash(key: StoredKey) -> str:
    """Return the hash of a key's fields, except the hash of its secret, for the audit log."""
    values = {name: value for name, value in asdict(key).items() if name != "secret_hash"}
    instants = ("created_at", "expires_at", "revoked_at")
    return content_hash({**values, **{name: str(values[name]) for name in instants}})
