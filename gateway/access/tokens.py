"""Bearer tokens of an identity provider (OAuth 2, OpenID Connect): signed JWTs, checked against its public keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from joserfc import jws, jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from tidegate.contracts.errors import SettingsError
from tidegate.gateway.access.principal import Grant, Principal
from tidegate.gateway.access.settings import AccessSettings

_TYPES = {None, "jwt", "at+jwt", "application/at+jwt"}
_MOST_CHARACTERS = 16_384
_LONGEST_NAME = 200


class UnknownSigner(Exception):  # noqa: N818 - a state of the key set: newer keys may hold the signer
    """A token names a key that the key set does not hold."""


class WrongToken(Exception):  # noqa: N818 - named for what was sent
    """A token that proves nothing; the message says why, for the log and not for who sent it."""


class TokenReader:
    """Reads tokens of one issuer for one audience. Stateless: the keys are given with each token."""

    def __init__(self, settings: AccessSettings, now: Callable[[], datetime]) -> None:
        if settings.oidc_issuer is None or settings.oidc_audience is None:
            raise SettingsError(
                "tokens need TIDEGATE_OIDC_ISSUER, TIDEGATE_OIDC_AUDIENCE and TIDEGATE_OIDC_JWKS"
            )
        self._roles_claim = settings.oidc_roles_claim
        # The allow list decides, never the token: `none` and symmetric algorithms are no setting either.
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
        """Say who presents a token. Raises UnknownSigner, and WrongToken for anything else that is wrong.

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
            raise WrongToken("its sub is no name")
        return Principal(f"oidc:{name}", _grants(found.claims.get(self._roles_claim)))


def _type(header: Mapping[str, Any]) -> object:
    kind = header.get("typ")
    return kind.lower() if isinstance(kind, str) else kind


def _grants(claim: object) -> tuple[Grant, ...]:
    """Read the grants that a token carries. Words that are none of ours belong to somebody else, and grant nothing."""
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
