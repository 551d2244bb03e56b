"""A request to the registry and its answer, and the one function that sends."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, SecretStr

_NOT_FOUND = "urn:tidegate:problem:not-found"
_MOST_DETAIL = 300

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Request:
    """One request; `content` is JSON, `etag` that of the answer that the client holds, `traceparent` its trace."""

    method: str
    path: str
    content: bytes | None = None
    etag: str | None = None
    traceparent: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers that the fields ask for."""
        headers = {} if self.content is None else {"Content-Type": "application/json"}
        if self.etag is not None:
            headers["If-None-Match"] = self.etag
        if self.traceparent is not None:
            headers["traceparent"] = self.traceparent
        return headers


@dataclass(frozen=True, slots=True)
class RegistryAnswer:
    """The answer of a registry; `content` is the whole body.

    `groups_by` is set for a contract whose subject has compatibility groups.
    """

    status: int
    reason: str
    content: bytes
    etag: str | None = None
    groups_by: str | None = None

    @property
    def is_ok(self) -> bool:
        """Return whether the status is 200."""
        return self.status == HTTPStatus.OK

    @property
    def is_success(self) -> bool:
        """Return whether the status is 2xx."""
        return self.status // 100 == 2

    @property
    def is_passing(self) -> bool:
        """Return whether the same request may succeed later: the registry failed, or limits the rate."""
        return self.status >= HTTPStatus.INTERNAL_SERVER_ERROR or self.status == HTTPStatus.TOO_MANY_REQUESTS

    @property
    def is_refused(self) -> bool:
        """Return whether the status is 4xx, and the same request will be answered alike."""
        return self.status // 100 == 4 and not self.is_passing

    @property
    def is_final(self) -> bool:
        """Return whether the request is done: it was taken, or would be refused again.

        A redirect, a 404 of a proxy and a key in the middle of its rotation pass. What a proxy finds too large does not.
        """
        if self.is_missing:
            return self.is_unknown
        passes = self.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.REQUEST_TIMEOUT}
        return self.is_success or (self.is_refused and not passes)

    @property
    def is_missing(self) -> bool:
        """Return whether the status is 404, from a registry or from anything else."""
        return self.status == HTTPStatus.NOT_FOUND

    @property
    def is_unknown(self) -> bool:
        """Return whether a registry says that it has no such thing."""
        return self.is_missing and self.document.get("type") == _NOT_FOUND

    @property
    def document(self) -> dict[str, Any]:
        """Return the JSON object of the body; an empty one when the body is anything else."""
        try:
            body = json.loads(self.content)
        except ValueError:
            return {}
        return body if isinstance(body, dict) else {}

    @property
    def detail(self) -> str:
        """Return the registry's reason for the status, at most 300 characters; "" for any other body."""
        return str(self.document.get("detail", ""))[:_MOST_DETAIL]

    def read(self, model: type[M]) -> M:
        """Return the body as a model. Raises ValueError for any other body."""
        return model.model_validate_json(self.content)


class Client(Protocol):
    """The methods that are used of an HTTP client, such as httpx.Client."""

    def request(self, method: str, url: str, *, content: bytes | None, headers: Mapping[str, str]) -> Any:
        """Send a request; return the response. Raises what the library raises."""
        ...


def send(client: Client, request: Request) -> RegistryAnswer:
    """Send a request with the client of an HTTP library. Raises what the library raises."""
    response = client.request(request.method, request.path, content=request.content, headers=request.headers)
    etag, groups_by = response.headers.get("ETag"), response.headers.get("Tidegate-Groups-By")
    return RegistryAnswer(response.status_code, response.reason_phrase, response.content, etag, groups_by)


def authorization(
    user: str | None, password: SecretStr | None, token: SecretStr | None
) -> Callable[[Any], Any] | None:
    """Return what adds the credentials to a request of an HTTP library; None without any.

    Source: RFC 7617, clause 2, for user and password; RFC 6750, clause 2.1, for a token.
    """
    if user is not None and password is not None:
        pair = f"{user}:{password.get_secret_value()}"
        header = f"Basic {b64encode(pair.encode()).decode()}"
    elif token is not None:
        header = f"Bearer {token.get_secret_value()}"
    else:
        return None

    def authorize(request: Any) -> Any:
        request.headers["Authorization"] = header
        return request

    return authorize
