"""Authentication of requests: from an Authorization header to a principal."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from datetime import datetime

import structlog
from joserfc.jwk import KeySet
from starlette.concurrency import run_in_threadpool

from tidegate.gateway.access.keys import Credentials, Find, KeyRing, read_token
from tidegate.gateway.access.principal import Principal, Unauthenticated
from tidegate.gateway.access.settings import AccessSettings
from tidegate.gateway.access.tokens import IssuerKeys, TokenReader, UnknownSigner, WrongToken, reader

# Source: RFC 9110, clause 11.6.1. Basic comes first because browsers and Confluent clients support it.
CHALLENGE = {"WWW-Authenticate": 'Basic realm="tidegate", charset="UTF-8", Bearer realm="tidegate"'}

_log = structlog.get_logger()


class Authenticator:
    """The authenticator of API keys and tokens.

    Lookups in the database or at the token issuer run in a thread; cached ones run in the event loop.
    """

    def __init__(self, settings: AccessSettings, find: Find, now: Callable[[], datetime]) -> None:
        self._ring = KeyRing(find, now, settings.key_cache_seconds)
        self._tokens: TokenReader | None = None
        if settings.oidc_jwks is not None:
            self._tokens = TokenReader(settings, now)
            self._issuer_keys = IssuerKeys(reader(settings.oidc_jwks))

    async def principal(self, authorization: str | None) -> Principal:
        """Return the principal of an Authorization header (None: no header). Raises Unauthenticated, Unavailable.

        Basic: the id and the secret of an API key. Bearer: a whole API key (`tgk_...`), or a token of the issuer.
        """
        scheme, _, value = (authorization or "").strip().partition(" ")
        value = value.strip()
        match scheme.lower():
            case "basic":
                credentials = read_basic(value)
            case "bearer":
                credentials = read_token(value)
                if credentials is None:
                    return await self._of_token(value)
            case "":
                raise Unauthenticated(
                    "this registry requires authentication: send an API key as HTTP basic authentication (user: its "
                    "id, password: its secret) or as a bearer token",
                    CHALLENGE,
                )
            case _:
                credentials = None
        principal = await self._of_key(credentials) if credentials else None
        if principal is None:
            raise _refusal()
        return principal

    def sign_in(self, key_id: str, secret: str) -> Principal:
        """Return the principal of an API key that a person entered in a form. Raises Unauthenticated.

        `secret` may also be a whole key (`tgk_...`); `key_id` is then ignored.
        """
        typed = Credentials(key_id.strip(), secret.strip())
        principal = self._ring.principal(read_token(typed.secret) or typed)
        if principal is None:
            raise _refusal()
        return principal

    def of_key_id(self, key_id: str) -> Principal | None:
        """Return the principal of a key that was authenticated before; None if the key is no longer valid."""
        return self._ring.present(key_id)

    async def _of_key(self, credentials: Credentials) -> Principal | None:
        if self._ring.is_cached(credentials.key_id):
            return self._ring.principal(credentials)
        return await run_in_threadpool(self._ring.principal, credentials)

    async def _of_token(self, token: str) -> Principal:
        if self._tokens is None:
            raise _refusal()
        keys = self._issuer_keys.held
        if keys is None:
            keys = await run_in_threadpool(self._issuer_keys.current)
        try:
            return await self._read(token, self._tokens, keys)
        except WrongToken as error:
            _log.info("token_refused", reason=str(error))
            raise _refusal() from error

    async def _read(self, token: str, tokens: TokenReader, keys: KeySet) -> Principal:
        try:
            return tokens.principal(token, keys)
        except UnknownSigner:
            newer = await run_in_threadpool(self._issuer_keys.newer, keys)
        try:
            return tokens.principal(token, newer)
        except UnknownSigner as error:
            raise WrongToken("no key of the issuer signed it") from error


def read_basic(value: str) -> Credentials | None:
    """Decode the credentials of HTTP basic authentication; return None if they are malformed.

    Source: RFC 7617, clause 2.
    """
    try:
        key_id, colon, secret = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
    return Credentials(key_id, secret) if colon else None


def _refusal() -> Unauthenticated:
    return Unauthenticated("the credentials are not accepted: they are wrong, expired or revoked", CHALLENGE)
