"""The registry, as an adoption needs it: it keeps what is done before it is done, and knows the epochs that it was told."""

from __future__ import annotations

import httpx

from tidegate.contracts.errors import NotFoundError, SettingsError, Unavailable
from tidegate.contracts.registry_client import requests
from tidegate.contracts.registry_client.messages import Answer, Request, send
from tidegate.contracts.stream.adoption import Adoption


class AdoptionLog:
    """The adoptions of one stream in the registry's log of changes."""

    def __init__(self, client: httpx.Client, stream: str) -> None:
        self._client = client
        self._stream = stream

    def last_epoch(self) -> int:
        """Return the epoch of the last batch that was reported; 0 when none was. Raises Unavailable, SettingsError."""
        answer = self._ask(Request("GET", requests.stream_path(self._stream)))
        if answer.is_missing:
            return 0
        self._require(answer, "say what was reported of the stream")
        try:
            return int(answer.document["epoch"])
        except (ValueError, KeyError, TypeError) as error:
            raise Unavailable(
                f"the registry at {self._client.base_url} answers in a way that cannot be read here; is it another version "
                "of Tidegate?"
            ) from error

    def keep(self, adoption: Adoption) -> None:
        """Have an adoption written down. Raises NotFoundError, SettingsError, Unavailable: then it must not be done."""
        answer = self._ask(requests.post(requests.stream_path(adoption.stream, "adoptions"), adoption))
        if answer.is_missing:
            raise NotFoundError(
                f"the registry at {self._client.base_url} keeps no adoptions of {adoption.stream}: no contract is published "
                "under that id, or it is an older version of Tidegate; nothing was changed"
            )
        self._require(answer, "write the adoption down")

    def _ask(self, request: Request) -> Answer:
        try:
            return send(self._client, request)
        except httpx.HTTPError as error:
            raise Unavailable(
                f"the registry at {self._client.base_url} does not answer ({error}), and nothing is adopted without its log "
                "of changes; nothing was changed"
            ) from error

    def _require(self, answer: Answer, what: str) -> None:
        if answer.is_success:
            return
        if answer.status in {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}:
            raise SettingsError(
                f"the registry at {self._client.base_url} does not let you {what} ({answer.status}): set "
                "TIDEGATE_REGISTRY_TOKEN to a key of yours with the role approver; nothing was changed"
            )
        raise Unavailable(
            f"the registry at {self._client.base_url} answered {answer.status} when asked to {what}; nothing was changed"
        )
