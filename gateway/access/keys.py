"""API keys: made once, kept as hashes, recognised in constant time."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from time import monotonic

from tidegate.gateway.access.principal import Principal, read_grants
from tidegate.gateway.storage.access import StoredKey

_ID_BYTES = 6
_SECRET_BYTES = 32
_MOST_REMEMBERED = 4096
_ID = re.compile(r"[0-9a-f]{12}")
_TOKEN = re.compile(r"tgk_([0-9a-f]{12})_(.+)", re.DOTALL)
_NOBODY = "0" * 64  # the hash of no secret that anybody can find

Find = Callable[[str], StoredKey | None]
Compare = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class Credentials:
    """The two halves of a key as somebody presents them: the id is public, the secret is not."""

    key_id: str
    secret: str

    @property
    def token(self) -> str:
        """Both halves in one, to be sent as a bearer token."""
        return f"tgk_{self.key_id}_{self.secret}"


def new_credentials() -> Credentials:
    """Make the halves of a new key: 48 bits that name it, 256 random bits that prove it."""
    return Credentials(secrets.token_hex(_ID_BYTES), secrets.token_urlsafe(_SECRET_BYTES))


def read_token(token: str) -> Credentials | None:
    """Take an API key that came as a bearer token apart; None for a token of another kind."""
    found = _TOKEN.fullmatch(token)
    return Credentials(found[1], found[2]) if found else None


def secret_hash(secret: str) -> str:
    """SHA-256 of a secret, as 64 lower-case hexadecimal digits.

    One round and no salt are enough here, as they would not be for a password: a secret is 256 random bits that no
    person chose, so there is nothing to guess, no dictionary to hash beforehand, and no two keys share one. A slow
    hash would only make each request slow.
    """
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


class KeyRing:
    """Recognises API keys. What was found is remembered for `cache_seconds`, also that a key does not exist.

    An unknown id takes the same steps as a known one: one look, one hash, one comparison that does not end early.
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
        self._remembered: dict[str, tuple[float, StoredKey | None]] = {}

    def remembers(self, key_id: str) -> bool:
        """Return whether `principal` answers for this id without asking the database."""
        held = self._remembered.get(key_id)
        return held is not None and self._clock() < held[0]

    def principal(self, credentials: Credentials) -> Principal | None:
        """Say who presents these credentials; None when they are of no key, or of one that is not in use any more."""
        key = self._look_up(credentials.key_id)
        is_right = self._compare(secret_hash(credentials.secret), key.secret_hash if key else _NOBODY)
        if key is None or not is_right or not self._is_in_use(key):
            return None
        return Principal(f"key:{key.id}", read_grants(key.grants))

    def _look_up(self, key_id: str) -> StoredKey | None:
        if not _ID.fullmatch(key_id):
            key_id = ""  # of no key: a text that is no id takes the way of one that is unknown
        held = self._remembered.get(key_id)
        now = self._clock()
        if held is not None and now < held[0]:
            return held[1]
        found = self._find(key_id)
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered[key_id] = now + self._cache_seconds, found
        return found

    def _is_in_use(self, key: StoredKey) -> bool:
        return key.revoked_at is None and (key.expires_at is None or self._now() < key.expires_at)
