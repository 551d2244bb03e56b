"""The replay requests of one stream, as the registry stores them."""

from __future__ import annotations

from typing import Final, Protocol
from uuid import UUID

import httpx
from pydantic import ValidationError

from tidegate.contracts.errors import Unavailable
from tidegate.contracts.registry_client import requests
from tidegate.contracts.registry_client.messages import send
from tidegate.contracts.stream.replay import ReplayReport, ReplayRequest, ReplayState

_TRIES: Final = 3


class Replays(Protocol):
    """The replay requests of one stream, as the job uses them."""

    def current(self) -> ReplayRequest | None:
        """Return the request to process now, or None. Raises Unavailable."""
        ...

    def report(self, report: ReplayReport) -> bool:
        """Report the progress of a request; return whether the registry has accepted the report."""
        ...


class NoReplays:
    """The replay requests of a stream without a registry. There are none."""

    def current(self) -> None:
        """Return None."""

    def report(self, report: ReplayReport) -> bool:  # noqa: ARG002 - required by the protocol
        """Send nothing; return True."""
        return True


class RegistryReplays:
    """The replay requests in the registry. The answer to a heartbeat names the open request; it is fetched once."""

    def __init__(self, client: httpx.Client, stream: str) -> None:
        self._client = client
        self._stream = stream
        self._named: UUID | None = None
        self._known: ReplayRequest | None = None

    def name(self, request: UUID | None) -> None:
        """Set the id of the open request, or None. Called from the heartbeat thread."""
        self._named = request

    def current(self) -> ReplayRequest | None:
        """Return the open request, or None; fetch it if it is not known yet. Raises Unavailable."""
        named = self._named
        if named is None:
            return None
        if self._known is None or self._known.id != named:
            try:
                answer = send(self._client, requests.replay(self._stream, named))
                if answer.is_missing:
                    self._named = None
                    return None
                if not answer.is_ok:
                    raise Unavailable(
                        f"the registry answered {answer.status} when asked for a replay: {answer.detail}"
                    )
                self._known = answer.read(ReplayRequest)
            except (httpx.HTTPError, ValidationError) as error:
                raise Unavailable(f"the registry did not return a replay: {type(error).__name__}") from error
        return self._known

    def report(self, report: ReplayReport) -> bool:
        """Send a report, in up to _TRIES attempts; return whether it was accepted.

        If the request has ended, no request is open until a heartbeat names another one.
        """
        for _ in range(_TRIES):
            try:
                answer = send(self._client, requests.replayed(report))
            except httpx.HTTPError:
                continue
            if answer.is_passing:
                continue
            if answer.document.get("state") != ReplayState.OPEN:
                self._named = None  # ended, or cancelled meanwhile; the next heartbeat may name another one
            return answer.is_success
        return False
