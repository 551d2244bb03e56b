"""The settings of access control, a part of the gateway's."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from limits import parse_many
from pydantic import BeforeValidator, Field, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode

from tidegate.contracts.words import split_words

Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519"
]  # only asymmetric ones: the published keys can verify, but not sign


def _lower_words(value: object) -> object:
    return split_words(value.lower()) if isinstance(value, str) else value


Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_lower_words)]
NO_LIMIT = "off"
DEFAULT_RATE_LIMIT = "500/second;15000/minute"


Algorithms = Annotated[tuple[Algorithm, ...], NoDecode, BeforeValidator(split_words), Field(min_length=1)]


class AccessSettings(BaseSettings):
    """Settings of access control and rate limits."""

    access: Literal["on", "off"] | None = Field(
        default=None,
        description="Access control. Left out: off on a loopback address, and no start on any other.",
    )
    key_cache_seconds: float = Field(
        default=5.0,
        ge=0,
        le=300,
        description="How long a process remembers a key: the delay of a revocation.",
    )
    oidc_issuer: str | None = Field(default=None, description="The `iss` that a token must have, exactly.")
    oidc_audience: str | None = Field(default=None, description="The `aud` that a token must name.")
    oidc_jwks: str | None = Field(
        default=None, description="The issuer's public keys: an https URL, or the path of a JWKS file."
    )
    oidc_algorithms: Algorithms = Field(
        default=("RS256", "ES256"), description="Signature algorithms that a token may use."
    )
    oidc_leeway_seconds: int = Field(
        default=30, ge=0, le=300, description="How far clocks may be apart when a token's times are checked."
    )
    oidc_roles_claim: str = Field(
        default="tidegate_roles",
        min_length=1,
        description="Claim with a token's grants: role or role:prefix.",
    )
    rate_limit: str | None = Field(
        default=None,
        description="Most requests of one principal, or of one address without one, such as `200/second;5000/minute`; "
        "`off` for no limit. Left out: `500/second;15000/minute` with access control, no limit without it.",
    )
    allowed_hosts: Words = Field(
        default=(),
        description="Host names of the registry, separated by commas, besides loopback names and IP addresses; "
        "`*` allows every name.",
    )

    @field_validator("rate_limit")
    @classmethod
    def _rate_limit_is_readable(cls, value: str | None) -> str | None:
        if value not in {None, NO_LIMIT}:
            parse_many(value)
        return value

    @property
    def effective_rate_limit(self) -> str | None:
        """Return the rate limit in effect, with the default applied; None for no limit."""
        if self.rate_limit is None:
            return DEFAULT_RATE_LIMIT if self.access == "on" else None
        return None if self.rate_limit == NO_LIMIT else self.rate_limit

    @model_validator(mode="after")
    def _tokens_are_configured_whole_or_not_at_all(self) -> Self:
        given = {
            name: getattr(self, name) is not None for name in ("oidc_issuer", "oidc_audience", "oidc_jwks")
        }
        missing = [f"TIDEGATE_{name.upper()}" for name, is_given in given.items() if not is_given]
        if missing and len(missing) < len(given):
            raise ValueError(f"tokens need an issuer, an audience and keys: set {' and '.join(missing)} too")
        return self
