"""Bearer tokens of an identity provider (OAuth 2, OpenID Connect): signed JWTs, verified with its public keys."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Any

import httpx
import structlog
from joserfc import jws, jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from tidegate.contracts.errors import SettingsError, Unavailable
from tidegate.gateway.access.principal import Grant, Principal
from tidegate.gateway.access.settings import AccessSettings

_TIMEOUT_SECONDS = 5.0
_MOST_BYTES = 1 << 20
_FRESH_SECONDS = 3600.0
_PAUSE_SECONDS = 30.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_UNFIT_PARAMETERS = {"d", "k"}

_log = structlog.get_logger()

Read = Callable[[], bytes]


class IssuerKeys:
    """The cached key set (JWKS) of the issuer. It is read again after an hour, or if a token names an unknown key.

    Reads are at least 30 seconds apart, whatever tokens arrive. If a read fails, the cached keys stay in use.
    Without cached keys, `current` raises Unavailable: an outage of the issuer must not look like wrong credentials.
    """

    def __init__(self, read: Read, clock: Callable[[], float] = monotonic) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: KeySet | None = None
        self._last_look: float | None = None

    @property
    def held(self) -> KeySet | None:
        """Return the cached keys; None if there are none, or they are an hour old and must be read again."""
        return self._keys if self._age() < _FRESH_SECONDS else None

    def current(self) -> KeySet:
        """Return the keys; read them first if they are missing or an hour old. Raises Unavailable."""
        with self._lock:
            if self._keys is None or self._age() >= _FRESH_SECONDS:
                self._look()
            return self._required()

    def newer(self, than: KeySet) -> KeySet:
        """Return newer keys than `than`, which lacks a key. Return `than` if it was read less than 30 seconds ago."""
        with self._lock:
            if self._keys is than:
                self._look()
            return self._required()

    def _age(self) -> float:
        return self._clock() - self._last_look if self._last_look is not None else float("inf")

    def _look(self) -> None:
        if self._age() < _PAUSE_SECONDS:
            return
        self._last_look = self._clock()
        try:
            self._keys = read_key_set(self._read())
        except (OSError, httpx.HTTPError, SettingsError) as error:
            _log.error("issuer_keys_unread", error=str(error), serving_older=self._keys is not None)

    def _required(self) -> KeySet:
        if self._keys is None:
            raise Unavailable("the keys of the token issuer cannot be read; the registry's log says why")
        return self._keys


def read_key_set(content: bytes) -> KeySet:
    """Parse a JWKS document; omit private and symmetric keys. Raises SettingsError.

    Source: RFC 7517, clause 5.
    """
    try:
        found = json.loads(content)["keys"]
        return KeySet.import_key_set({"keys": [key for key in found if not _UNFIT_PARAMETERS & key.keys()]})
    except (ValueError, LookupError, TypeError, AttributeError, JoseError) as error:
        raise SettingsError(f"the issuer's keys are not a JWKS document with public keys: {error}") from error


def reader(address: str) -> Read:
    """Return a function that reads the keys from an https URL or a file path. Raises SettingsError for other URLs."""
    if "://" not in address:
        return Path(address).read_bytes
    url = httpx.URL(address)
    if url.scheme != "https" and not (url.scheme == "http" and url.host in _LOOPBACK):
        raise SettingsError(
            f"TIDEGATE_OIDC_JWKS names {address}: keys are fetched over https, or read from a file"
        )
    return lambda: _fetch(url)


def _fetch(url: httpx.URL) -> bytes:
    """Fetch a document of at most _MOST_BYTES. Redirects are not followed, because their target is not configured."""
    content = b""
    with httpx.stream("GET", url, timeout=_TIMEOUT_SECONDS, follow_redirects=False) as answer:
        if answer.status_code != httpx.codes.OK:
            raise SettingsError(f"{url} answers {answer.status_code}")
        for chunk in answer.iter_bytes():
            content += chunk
            if len(content) > _MOST_BYTES:
                raise SettingsError(f"{url} answers with more than {_MOST_BYTES} bytes")
    return content


_TYPES = {None, "jwt", "at+jwt", "application/at+jwt"}
_MOST_CHARACTERS = 16_384
_LONGEST_NAME = 200


class UnknownSigner(Exception):  # noqa: N818 - a state of the key set: newer keys may hold the signer
    """A token names a key that the key set does not hold."""


class WrongToken(Exception):  # noqa: N818 - named for what was sent
    """A token that is not valid. The message gives the reason, for the log and not for the client."""


class TokenReader:
    """The verifier of tokens of one issuer for one audience. Stateless: the keys are passed with each token."""

    def __init__(self, settings: AccessSettings, now: Callable[[], datetime]) -> None:
        if settings.oidc_issuer is None or settings.oidc_audience is None:
            raise SettingsError(
                "tokens need TIDEGATE_OIDC_ISSUER, TIDEGATE_OIDC_AUDIENCE and TIDEGATE_OIDC_JWKS"
            )
        self._roles_claim = settings.oidc_roles_claim
        # The allowlist decides the algorithm, never the token. It cannot contain `none` or a symmetric algorithm.
        self._registry = jws.JWSRegistry(algorithms=list(settings.oidc_algorithms))
        self._claims = jwt.JWTClaimsRegistry(
            now=lambda: int(now().timestamp()),
            leeway=settings.oidc_leeway_seconds,
            iss={"essential": True, "value": settings.oidc_issuer},
            aud={"essential": True, "value": settings.oidc_audience},
            exp={"essential": True},
            sub={"essential": True},
        )

    def principal(self, token: str, keys: KeySet) -> Principal:
        """Return the principal of a token. Raises UnknownSigner, and WrongToken for other errors.

        Source: RFC 7519 clause 7.2, RFC 8725 clauses 3.1 to 3.11, RFC 9068 clause 4.
        """
        if len(token) > _MOST_CHARACTERS:
            raise WrongToken("it is too long")
        try:
            found = jwt.decode(token, keys, registry=self._registry)
            self._claims.validate(found.claims)
        except InvalidKeyIdError as error:
            raise UnknownSigner from error
        except (JoseError, ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            raise WrongToken(type(error).__name__) from error
        if _type(found.header) not in _TYPES:
            raise WrongToken("it is a token for another purpose")
        name = found.claims["sub"]
        if not name.isprintable() or len(name) > _LONGEST_NAME:
            raise WrongToken("its sub is not a name")
        return Principal(f"oidc:{name}", _grants(found.claims.get(self._roles_claim)))


def _type(header: Mapping[str, Any]) -> object:
    kind = header.get("typ")
    return kind.lower() if isinstance(kind, str) else kind


def _grants(claim: object) -> tuple[Grant, ...]:
    """Parse the grants in a claim, a list or a string of words. Ignore other words: they belong to other services."""
    words: Sequence[object] = (
        claim.split() if isinstance(claim, str) else claim if isinstance(claim, list) else ()
    )
    grants = set()
    for word in words:
        if isinstance(word, str):
            try:
                grants.add(Grant.read(word))
            except SettingsError:
                continue
    return tuple(sorted(grants, key=str))
