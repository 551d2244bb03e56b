"""Error responses as problem documents (RFC 9457), and the table that maps error classes to HTTP statuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidegate.contracts.errors import (
    ConflictError,
    ContractError,
    NotFoundError,
    Problem,
    SettingsError,
    StreamStopped,
    TidegateError,
    Unavailable,
)
from tidegate.gateway.access.principal import (
    AccessError,
    Forbidden,
    Hidden,
    Misdirected,
    TooManyRequests,
    Unauthenticated,
)
from tidegate.gateway.http.conversions import change_info, proposal_info
from tidegate.gateway.http.models.answers import ProblemPlace
from tidegate.gateway.http.models.changes import ChangeInfo, ProposalInfo
from tidegate.gateway.registry.approvals import NotApproved
from tidegate.gateway.registry.changes import BreakingChange
from tidegate.gateway.storage.database import UnstorableText
from tidegate.gateway.storage.subjects import IdsUsedUp
from tidegate.gateway.streams.quarantine import NoBroker

MEDIA_TYPE = "application/problem+json"
_RETRY_AFTER_SECONDS = 2

_log = structlog.get_logger()


class RequestError(TidegateError):
    """A malformed request; `problems` are the problems with their locations in the body."""

    def __init__(self, message: str, problems: tuple[Problem, ...] = ()) -> None:
        super().__init__(message, problems)
        self.problems = problems


class InvalidBody(RequestError):  # noqa: N818 - named for what the request has
    """A request that can be parsed, but has invalid content."""


class BodyTooLarge(RequestError):  # noqa: N818 - named for what the request has
    """The body exceeds the size limit of the operation."""


class UnknownMediaType(RequestError):  # noqa: N818 - named for what the request has
    """The operation does not support the content type of the body."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """The members of the problem document for one class of errors; `name` is the last part of the type URN."""

    status: int
    name: str
    title: str


_KINDS: Mapping[type[TidegateError], _Kind] = {
    ContractError: _Kind(422, "contract", "The contract cannot be compiled"),
    NotFoundError: _Kind(404, "not-found", "Not found"),
    ConflictError: _Kind(409, "conflict", "The request contradicts what is stored"),
    NotApproved: _Kind(409, "not-approved", "The change weakens what is enforced and lacks an approval"),
    BreakingChange: _Kind(409, "breaking-change", "The change breaks what is enforced"),
    StreamStopped: _Kind(409, "stream-stopped", "The stream is stopped"),
    Unavailable: _Kind(503, "unavailable", "Something that the registry needs does not answer"),
    NoBroker: _Kind(503, "no-broker", "The registry knows no Kafka broker"),
    SettingsError: _Kind(500, "settings", "The registry is not set up for this"),
    Unauthenticated: _Kind(401, "unauthenticated", "The registry does not know who asks"),
    Forbidden: _Kind(403, "forbidden", "This is not allowed"),
    Misdirected: _Kind(421, "misdirected", "The registry does not have this host name"),
    TooManyRequests: _Kind(429, "too-many-requests", "Too many requests"),
    BodyTooLarge: _Kind(413, "too-large", "The body is too large"),
    UnknownMediaType: _Kind(415, "media-type", "The content type is not read here"),
    UnstorableText: _Kind(422, "invalid", "The request says something that cannot be"),
    IdsUsedUp: _Kind(422, "invalid", "The request says something that cannot be"),
    InvalidBody: _Kind(422, "invalid", "The request says something that cannot be"),
    RequestError: _Kind(400, "malformed", "The request cannot be read"),
    TidegateError: _Kind(500, "internal", "The registry failed"),
}


class ProblemDocument(BaseModel):
    """A problem document (RFC 9457)."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "type": "urn:tidegate:problem:contract",
                "title": "The contract cannot be compiled",
                "status": 422,
                "detail": "1 mistake in the contract",
                "instance": "/api/v1/contracts",
                "errors": [
                    {
                        "pointer": "/rules/0/field",
                        "message": "the schema has no field /agee; did you mean /age?",
                        "line": 14,
                        "column": 45,
                    }
                ],
            }
        }
    )

    type: str
    title: str
    status: int
    detail: str | None = None
    instance: str | None = None
    errors: tuple[ProblemPlace, ...] | None = None
    change: ChangeInfo | None = Field(
        default=None,
        description="Of a breaking change: its findings, whom they affect, and who has still to agree.",
    )
    proposal: ProposalInfo | None = Field(
        default=None,
        description="Of a change that weakens what is enforced: what it gives up, and who proposed it.",
    )


ErrorPage = Callable[[Request, int, str | None], Response | None]
"""A function that returns the page for a request, status and detail; None for a problem document instead."""


def install(app: FastAPI, error_page: ErrorPage = lambda *_: None) -> None:
    """Install error handlers: `app` responds to errors with a problem document, or with the page of `error_page`."""

    def http_error(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        return error_page(request, status, _ADVICE.get(status)) or _http_error(request, error)

    app.add_exception_handler(TidegateError, problem_of)
    app.add_exception_handler(RequestValidationError, _invalid_parameters)
    app.add_exception_handler(HTTPException, http_error)
    app.add_middleware(_CrashReports, error_page=error_page)


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI `responses` of an operation for these error statuses, by status."""
    return {status: _described(status, _example(status)) for status in statuses}


def contract_responses() -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI `responses` for a contract document with mistakes (422)."""
    return {422: _described(422, ProblemDocument.model_json_schema()["example"])}


def _described(status: int, example: dict[str, Any]) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/ProblemDocument"}
    return {
        "description": HTTPStatus(status).phrase,
        "content": {MEDIA_TYPE: {"schema": schema, "example": example}},
    }


_DETAILS = {
    400: "the body is not valid JSON; records that are not valid JSON are sent as value_base64",
    401: "the credentials are not accepted: they are wrong, expired or revoked",
    403: "this needs the role admin of every subject; key:3f9c2a71b0de has viewer:hospital.",
    404: "hospital.admissions has no version 9.9.9; the highest is 1.2.0",
    409: "the topic hospital.admissions is governed by the contract hospital.admissions; "
    "publish a new version of hospital.admissions, or name another topic",
    413: "the body is larger than 1048576 bytes, the limit of this operation",
    415: "the content type is text/plain; send Content-Type: application/json",
    422: "a parameter has an impossible value",
    429: "more than 200 requests in a second; try again in 1 s",
    503: "the registry's database does not serve: disk I/O error",
}


def _example(status: int) -> dict[str, Any]:
    kind = next(
        kind for error, kind in _KINDS.items() if kind.status == status and error is not ContractError
    )
    return {
        "type": f"urn:tidegate:problem:{kind.name}",
        "title": kind.title,
        "status": status,
        "detail": _DETAILS[status],
    }


def problem_response(
    request: Request,
    kind: _Kind,
    detail: str | None,
    errors: Sequence[Problem] = (),
    **more: BaseModel | str | int,
) -> Response:
    """Return the response with the problem document of one error; `more` are additional members."""
    members: dict[str, Any] = {
        "type": f"urn:tidegate:problem:{kind.name}",
        "title": kind.title,
        "status": kind.status,
        "detail": detail and detail.encode(errors="backslashreplace").decode(),
        "instance": request.url.path,
        "errors": [ProblemPlace.model_validate(each).model_dump(exclude_none=True) for each in errors]
        or None,
        **more,
    }
    content = to_json({name: value for name, value in members.items() if value is not None})
    headers = {"Retry-After": str(_RETRY_AFTER_SECONDS)} if kind.status == 503 else None
    return Response(content, kind.status, headers, MEDIA_TYPE)


def status_of(error: Exception) -> int:
    """Return the HTTP status of a TidegateError."""
    return _kind(error).status


def note_denial(request: Request, error: Exception) -> None:
    """Note for the guard, which audits denied writes, that an error hides an object that exists."""
    if isinstance(error, Hidden):
        request.state.is_denied = True


def _kind(error: Exception) -> _Kind:
    return next(_KINDS[cls] for cls in type(error).__mro__ if cls in _KINDS)


def problem_of(request: Request, error: Exception) -> Response:
    """Return the response with the problem document of a TidegateError, as an exception handler of FastAPI."""
    note_denial(request, error)
    kind = _kind(error)
    if kind.status >= 500:
        _log.error("request_failed", path=request.url.path, status=kind.status, error=str(error))
    detail = str(error)
    errors = error.problems if isinstance(error, (ContractError, RequestError)) else ()
    more: dict[str, BaseModel] = {}
    if isinstance(error, ContractError):
        detail = f"{len(errors)} mistake{'' if len(errors) == 1 else 's'} in the contract"
    elif isinstance(error, BreakingChange):
        more["change"] = change_info(error.review)
    elif isinstance(error, NotApproved):
        more["proposal"] = proposal_info(error.proposal)
    response = problem_response(request, kind, detail, errors, **more)
    if isinstance(error, AccessError):
        response.headers.update(error.headers)
    return response


def _invalid_parameters(request: Request, error: Exception) -> Response:
    """Return the problem document for invalid path and query parameters, without their values."""
    found = error.errors() if isinstance(error, RequestValidationError) else ()
    places = tuple(Problem(".".join(str(part) for part in one["loc"][1:]), str(one["msg"])) for one in found)
    return problem_response(request, _KINDS[InvalidBody], "a parameter has an impossible value", places)


def _http_error(request: Request, error: Exception) -> Response:
    """Return the problem document for an error of the router, such as an unknown path or method."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    title = HTTPStatus(status).phrase
    kind = _Kind(status, title.lower().replace(" ", "-"), title)
    advice = _ADVICE.get(status)
    # A Confluent client that requests a path which only Confluent's registry has reads error_code and message.
    response = problem_response(request, kind, advice, error_code=status, message=advice or title)
    response.headers.update(getattr(error, "headers", None) or {})
    return response


_ADVICE = {
    404: "no page and no operation has this path; /docs lists the operations",
    405: "the path exists, but not with this method; the Allow header names the ones that do",
}


class _CrashReports:
    """ASGI middleware that logs an unexpected error with its traceback, and responds without details."""

    def __init__(self, app: ASGIApp, error_page: ErrorPage) -> None:
        self._app = app
        self._error_page = error_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watched_send(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, watched_send)
        except asyncio.CancelledError:  # the server is stopping, and cancels the remaining requests
            if scope["type"] != "http" or started:
                raise
            ending = Unavailable("the registry is shutting down; send the request again")
            await problem_of(Request(scope), ending)(scope, receive, send)
        except ClientDisconnect:  # the client closed the connection before it had sent the whole body
            return
        except Exception as error:  # a bug: the client gets a problem document without details
            if scope["type"] != "http" or started:
                raise
            request = Request(scope)
            _log.exception("request_crashed", path=request.url.path, method=request.method, exc_info=error)
            detail = "the registry's log says more"
            document = problem_response(request, _KINDS[TidegateError], detail)
            response = self._error_page(request, document.status_code, detail) or document
            await response(scope, receive, send)
