"""Credentials for a registry: from the environment, or from the file that `tidegate login` writes."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import httpx
import platformdirs
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from tidegate.contracts.errors import SettingsError
from tidegate.contracts.registry_client.messages import authorization

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class RegistryCredentials(BaseModel):
    """A user and a password, or a token, or nothing.

    User and password are the halves of an API key. A token is a whole API key, or a token of an identity provider.
    `source` says in messages where they were found; None without credentials.
    """

    model_config = ConfigDict(frozen=True)

    user: str | None = None
    password: SecretStr | None = None
    token: SecretStr | None = None
    source: str | None = Field(default=None, exclude=True)

    @model_validator(mode="after")
    def _one_kind_is_whole(self) -> Self:
        if (self.user is None) != (self.password is None):
            raise ValueError("a user needs a password, and a password a user")
        if self.user is not None and self.token is not None:
            raise ValueError("there is a user and a token; leave one of them out")
        return self

    @classmethod
    def of_environment(cls) -> Self:
        """Read TIDEGATE_REGISTRY_USER, _PASSWORD and _TOKEN. Raises SettingsError for a wrong combination."""
        found = _Environment()
        source = "the environment" if found.model_fields_set else None
        try:
            return cls(user=found.user, password=found.password, token=found.token, source=source)
        except ValidationError as error:
            reasons = "; ".join(one["msg"].removeprefix("Value error, ") for one in error.errors())
            raise SettingsError(
                f"TIDEGATE_REGISTRY_USER, _PASSWORD and _TOKEN do not fit: {reasons}"
            ) from error

    def auth(self) -> Callable[[httpx.Request], httpx.Request] | None:
        """Return the `auth` argument of httpx; None without credentials."""
        return authorization(self.user, self.password, self.token)


class _Environment(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix="TIDEGATE_REGISTRY_", frozen=True, extra="ignore", env_ignore_empty=True
    )

    user: str | None = None
    password: SecretStr | None = None
    token: SecretStr | None = None


def credentials_for(url: str) -> RegistryCredentials:
    """Return the credentials for a registry: from the environment, else those of `tidegate login`, else empty ones.

    Raises SettingsError.
    """
    found = RegistryCredentials.of_environment()
    if found.source is not None:
        return found
    token = _stored().get(_key(url))
    return RegistryCredentials() if token is None else of_token(token, f"`tidegate login` ({stored_path()})")


def of_token(token: str, source: str) -> RegistryCredentials:
    """Return credentials with an API key or another token; `source` says where it was found."""
    return RegistryCredentials(token=SecretStr(token), source=source)


def store_token(url: str, token: str) -> Path:
    """Store the token for a registry, replacing an earlier one; return the path of the file.

    Only the owner can read the file. Raises SettingsError.
    """
    return _write(_stored() | {_key(url): token})


def forget_token(url: str) -> bool:
    """Delete the stored token of a registry; return whether there was one. Raises SettingsError."""
    stored = _stored()
    if stored.pop(_key(url), None) is None:
        return False
    _write(stored)
    return True


def stored_path() -> Path:
    """Return the path of the stored tokens, in the user's configuration folder."""
    return platformdirs.user_config_path("tidegate") / "credentials.json"


def _key(url: str) -> str:
    """Return the key of a registry URL in the file: its scheme, host, port and path.

    A token is only sent to the URL that it was stored for. Raises SettingsError.
    """
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise SettingsError(f"{url} is not the URL of a registry: {error}") from error
    return str(parsed.copy_with(username=None, password=None, query=None, fragment=None)).rstrip("/")


def _stored() -> dict[str, str]:
    path = stored_path()
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            found: Any = json.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path} cannot be read ({error}): delete it, and log in again") from error
    if os.name == "posix" and mode & _OTHERS:
        raise SettingsError(
            f"{path} holds tokens, and other users can read it (mode {mode:03o}): chmod 600 {path}, or log in again with "
            "new tokens"
        )
    tokens = found.get("tokens") if isinstance(found, dict) else None
    if not isinstance(tokens, dict) or not all(isinstance(token, str) for token in tokens.values()):
        raise SettingsError(f"{path} is not a file of `tidegate login`: delete it, and log in again")
    return tokens


def _write(tokens: Mapping[str, str]) -> Path:
    """Replace the file atomically, so that a crash leaves either the old or the new one. Raises SettingsError."""
    path = stored_path()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".credentials-")  # mode 0600
        try:
            with os.fdopen(descriptor, "w") as file:
                json.dump({"tokens": dict(sorted(tokens.items()))}, file, indent=2)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}") from error
    return path
