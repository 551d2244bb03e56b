"""What access control answers when it says no."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.contracts.errors import TidegateError


class AccessError(TidegateError):
    """A request that is turned away; `headers` go with the answer."""

    def __init__(self, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message, headers)
        self.headers = dict(headers or {})

    def __str__(self) -> str:
        return str(self.args[0])


class Unauthenticated(AccessError):  # noqa: N818 - named for the state of who asks
    """No one known asks: credentials are missing, wrong, expired or revoked. The message does not say which."""


class Forbidden(AccessError):  # noqa: N818 - named for what the request is
    """Somebody known asks for what their roles do not cover."""


class TooManyRequests(AccessError):  # noqa: N818 - named for what was sent
    """Somebody asks more often than the limit allows."""
