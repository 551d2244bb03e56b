"""What a client of a registry presents, read from the environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import httpx
from pydantic import SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from tidegate.contracts.errors import SettingsError
from tidegate.contracts.registry_client.messages import authorization


class RegistryCredentials(BaseSettings):
    """A user and a password (the halves of an API key), or a token (a whole key, or one of an identity provider)."""

    model_config = SettingsConfigDict(
        env_prefix="TIDEGATE_REGISTRY_", frozen=True, extra="ignore", env_ignore_empty=True
    )

    user: str | None = None
    password: SecretStr | None = None
    token: SecretStr | None = None

    @model_validator(mode="after")
    def _one_kind_is_whole(self) -> Self:
        if (self.user is None) != (self.password is None):
            raise ValueError("a user needs a password, and a password a user")
        if self.user is not None and self.token is not None:
            raise ValueError("there is a user and a token; leave one of them out")
        return self

    @classmethod
    def of_environment(cls) -> Self:
        """Read TIDEGATE_REGISTRY_USER, _PASSWORD and _TOKEN. Raises SettingsError."""
        try:
            return cls()
        except ValidationError as error:
            reasons = "; ".join(one["msg"].removeprefix("Value error, ") for one in error.errors())
            raise SettingsError(
                f"TIDEGATE_REGISTRY_USER, _PASSWORD and _TOKEN do not fit: {reasons}"
            ) from error

    def auth(self) -> Callable[[httpx.Request], httpx.Request] | None:
        """Return what an HTTP client sends; None without credentials."""
        return authorization(self.user, self.password, self.token)
