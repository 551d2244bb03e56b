"""A client for the problems and the refused records of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import httpx

from tidegate.contracts.errors import Unavailable
from tidegate.contracts.registry_client.messages import RegistryAnswer, Request
from tidegate.contracts.registry_client.requests import stream_path
from tidegate.gateway.client.registry import RegistryClient

_PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of refused records. A field of None matches all; `since` and `until` are ISO 8601 timestamps."""

    problem: str | None = None
    rule: str | None = None
    field: str | None = None
    version: str | None = None
    since: str | None = None
    until: str | None = None
    again: str | None = None

    def parameters(self) -> dict[str, str]:
        """Return the query parameters of the filter, without those that are None."""
        named = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in named.items() if value is not None}


class QuarantineClient(RegistryClient):
    """A client for refused records; use it in a `with` statement.

    Every call may raise CredentialsError, SettingsError or Unavailable, and NotFoundError for an unknown stream.
    """

    def problems(self, stream: str, states: Sequence[str], text: str, limit: int) -> dict[str, Any]:
        """Return `problems`, those with most records first, and `total`, the number of all that match."""
        query = [
            ("limit", str(limit)),
            *(("state", state) for state in states),
            *([("q", text)] if text else ()),
        ]
        return self._got(stream_path(stream, "problems"), query)

    def pages(self, stream: str, wanted: Filter, limit: int) -> Iterator[dict[str, Any]]:
        """Yield pages until `limit` records were requested or none are left.

        A page has `records`, newest first, and `total`, the number of all records that match.
        """
        query = wanted.parameters()
        while True:
            page = self._got(
                stream_path(stream, "quarantine", "records"),
                [*query.items(), ("limit", str(min(limit, _PAGE)))],
            )
            yield page
            limit -= min(limit, _PAGE)
            if not limit or page["older"] is None:
                return
            query["older_than"] = page["older"]

    def record(self, stream: str, partition: int, offset: int) -> dict[str, Any]:
        """Return `record`, and the positions of its neighbors, `newer` and `older`. Raises NotFoundError."""
        return self._got(stream_path(stream, "quarantine", "records", str(partition), str(offset)), [])

    def export(self, stream: str, wanted: Filter, form: str, limit: int) -> Iterator[bytes]:
        """Stream a download in a format (csv, jsonl or parquet): yield its chunks as they arrive.

        Raises Unavailable if the connection breaks, possibly after some chunks.
        """
        query = [*wanted.parameters().items(), ("format", form), ("limit", str(limit))]
        path = f"{stream_path(stream, 'quarantine', 'export')}?{urlencode(query)}"
        try:
            with self._http.stream("GET", path) as response:
                if not response.is_success:
                    answer = RegistryAnswer(response.status_code, response.reason_phrase, response.read())
                    self._require_found(answer)
                yield from response.iter_bytes()
        except httpx.TransportError as error:
            raise Unavailable(
                f"the download from {self.url} broke off ({error}); what was written is incomplete"
            ) from error

    def index_status(self, stream: str) -> dict[str, Any]:
        """Return the status of a stream's index: how far it has read the quarantine topic."""
        return self._got(stream_path(stream, "quarantine"), [])

    def rebuild(self, stream: str) -> dict[str, Any]:
        """Delete the index of a stream, so that it is rebuilt from the topic; return its status."""
        request = Request("POST", stream_path(stream, "quarantine", "rebuild"))
        return self._require_found(self._ask(request)).document

    def _got(self, path: str, query: Sequence[tuple[str, str]]) -> dict[str, Any]:
        asked = f"{path}?{urlencode(query)}" if query else path
        return self._require_found(self._ask(Request("GET", asked))).document
