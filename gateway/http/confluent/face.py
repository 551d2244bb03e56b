"""The face as an ASGI layer: its paths go to its operations, every other path goes on.

It stands before the routes of the framework, because a subject may hold slashes: a path is cut as it was sent.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson
import structlog
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tidegate.contracts.errors import TidegateError, Unavailable
from tidegate.gateway.access.principal import AccessError, Principal
from tidegate.gateway.http import problems
from tidegate.gateway.http.confluent.calls import (
    MEDIA_TYPE,
    READABLE,
    Answer,
    Call,
    confluent_answer,
    in_context,
    read_query,
    read_segments,
)
from tidegate.gateway.http.confluent.operations import ROOTS, Match, Operation, find_operation
from tidegate.gateway.http.confluent.schema_handlers import get_root
from tidegate.gateway.http.confluent.shown import differs_by_client, weaker_contract
from tidegate.gateway.http.dependencies import read_body
from tidegate.gateway.http.gate import SubjectHidden, permit_rule, principal_of
from tidegate.gateway.registry.approvals import NotApproved
from tidegate.gateway.registry.schemas.errors import IncompatibleSchema, Refused, subject_not_found
from tidegate.gateway.registry.schemas.names import DEFAULT_CONTEXT, canonical

if TYPE_CHECKING:
    from tidegate.gateway.factory import Factory

_log = structlog.get_logger()

_BY_ID = b"/schemas/ids/"
_KEPT_ANSWERS = 4096
KEPT_SECONDS = 5.0
"""How long a process gives an answer by id without asking the database: another may have deleted the schema for good."""
_BODY_METHODS = frozenset({"POST", "PUT"})


@dataclass(frozen=True, slots=True)
class _KeptAnswer:
    """An answer that never changes, ready to be sent, and the subjects; one of them must be visible."""

    start: dict[str, Any]
    body: dict[str, Any]
    not_modified: dict[str, Any]
    etag: bytes
    subjects: tuple[str, ...]
    kept_until: float


class AnswerCache:
    """The answers about schemas by id that were given last. They are forgotten when something is deleted for good."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answers: OrderedDict[tuple[bytes, bytes], _KeptAnswer] = OrderedDict()

    def find(self, key: tuple[bytes, bytes]) -> _KeptAnswer | None:
        """Return a kept answer; another process may have deleted its schema for good, so it is kept for seconds only."""
        found = self._answers.get(key)
        if found is not None and found.kept_until < self._clock():
            del self._answers[key]
            return None
        return found

    def keep(self, key: tuple[bytes, bytes], answer: Answer, subjects: tuple[str, ...]) -> None:
        """Keep an answer."""
        headers = [
            (name.lower().encode(), value.encode())
            for name, value in {**answer.headers, "Content-Type": MEDIA_TYPE}.items()
        ]
        body = answer.body()
        length = (b"content-length", str(len(body)).encode())
        self._answers[key] = _KeptAnswer(
            {"type": "http.response.start", "status": 200, "headers": [*headers, length]},
            {"type": "http.response.body", "body": body},
            {"type": "http.response.start", "status": 304, "headers": headers},
            answer.headers["ETag"].encode(),
            subjects,
            self._clock() + KEPT_SECONDS,
        )
        while len(self._answers) > _KEPT_ANSWERS:
            self._answers.popitem(last=False)

    def clear(self) -> None:
        """Forget every answer."""
        self._answers.clear()


class ConfluentFace:
    """Serves the paths of a schema registry over the factory of this process."""

    def __init__(self, app: ASGIApp, factory: Factory) -> None:
        self._app = app
        self._factory = factory
        self._kept = AnswerCache()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection (ASGI)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        raw_path: bytes = scope.get("raw_path") or scope["path"].encode()
        if raw_path.startswith(_BY_ID) and scope["method"] == "GET":
            kept = self._kept.find((raw_path, scope["query_string"]))
            if kept is not None and _may_see(scope["state"]["principal"], kept.subjects):
                await _send_kept(kept, scope, send)
                return
        if raw_path.split(b"/", 2)[1].decode("latin-1") not in ROOTS and not _asks_for_root(scope, raw_path):
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            answer = await self._answer(request, raw_path)
        except ClientDisconnect:
            return
        except TidegateError as error:
            await self._refusal(request, error)(scope, receive, send)
            return
        except Exception as error:  # noqa: BLE001 - an unexpected error, in the form that the client reads
            _log.exception("request_crashed", path=request.url.path, method=request.method, exc_info=error)
            await _error(500, 500, "the registry's log says more")(scope, receive, send)
            return
        body = answer.body()
        await Response(body, answer.status, dict(answer.headers), MEDIA_TYPE if body else None)(
            scope, receive, send
        )

    async def _answer(self, request: Request, raw_path: bytes) -> Answer:
        if raw_path == b"/":
            return get_root(None)
        segments = read_segments(raw_path)
        context = DEFAULT_CONTEXT
        if segments[0] == "contexts" and len(segments) > 2:
            context, segments = segments[1], segments[2:]
        match = find_operation(request.method, segments)
        if not isinstance(match, Match):
            return _no_such(match)
        if not _accepts(request.headers.get("accept", "*/*")):
            return _plain_error(406, f"the answer is of type {MEDIA_TYPE}; accept it")
        asked = self._call(request, match, context)
        call = await self._without_alias(asked, match.operation, context)
        try:
            await permit_rule(request, call.principal, _rule(match.operation, call), call.path)
        except SubjectHidden as error:
            raise match.operation.hidden(asked.path.get("subject", error.subject)) from error
        if request.method in _BODY_METHODS:
            media_type = request.headers.get("content-type", MEDIA_TYPE).partition(";")[0].strip().lower()
            if media_type not in READABLE:
                return _plain_error(415, f"the content type is {media_type}; send Content-Type: {MEDIA_TYPE}")
            call = replace(
                call, content=await read_body(request, 2 * self._factory.settings.max_document_bytes)
            )
        answer = await self._run(match.operation, call)
        if match.operation.permanent is not None or match.operation.path == "/config/{subject}":
            self._kept.clear()  # of a subject's settings, the alias may be another
        if raw_path.startswith(_BY_ID) and "ETag" in answer.headers and call is asked:
            await run_in_threadpool(self._keep, call, raw_path, answer)
        return _revalidated(request, answer)

    def _refusal(self, request: Request, error: TidegateError) -> Response:
        shown = weaker_contract(error) if isinstance(error, NotApproved) else error
        return _refusal(request, shown, self._factory.settings.incompatible_error_code)

    def _call(self, request: Request, match: Match, context: str) -> Call:
        path = dict(match.parameters)
        query = read_query(request.scope["query_string"])
        if "subject" in path:
            path["subject"] = canonical(in_context(context, path["subject"]))
        if context != DEFAULT_CONTEXT:
            if match.operation.path in {"/subjects", "/schemas"}:
                prefix = query.get("subjectPrefix", query.get("subject", ("",)))[-1]
                query["subjectPrefix"] = (in_context(context, prefix),)
            elif match.operation.path.startswith("/schemas/ids"):
                query["subject"] = (in_context(context, query.get("subject", ("",))[-1]),)
            elif match.operation.path in {"/config", "/mode"}:
                path["subject"] = f":{context}:"
        headers = {name.lower(): value for name, value in request.headers.items()}
        return Call(request, path, query, headers, b"", principal_of(request), self._factory)

    async def _without_alias(self, call: Call, operation: Operation, context: str) -> Call:
        """Put the subject that is meant in the place of its alias; one that may not be seen stands for nothing."""
        is_by_id = operation.path.startswith("/schemas/ids") and call.text("subject") != ""
        if not (operation.follows_aliases or is_by_id):
            return call
        named = canonical(call.text("subject")) if is_by_id else call.subject
        if not call.principal.sees(named):
            return call
        meant = await run_in_threadpool(self._factory.subject_settings().alias, named)
        if meant is None:
            return call
        meant = canonical(in_context(context, meant))
        if is_by_id:
            return replace(call, query={**call.query, "subject": (meant,)})
        return replace(call, path={**call.path, "subject": meant})

    async def _run(self, operation: Operation, call: Call) -> Answer:
        """Run an operation; one that reads a schema from its body waits for a turn."""
        if call.request.method in _BODY_METHODS:
            return await self._factory.check_turns.run(operation.run, call)
        return await run_in_threadpool(operation.run, call)

    def _keep(self, call: Call, raw_path: bytes, answer: Answer) -> None:
        reader = self._factory.subjects()
        schema = reader.schema(int(call.path["id"]), call.text("subject") or None)
        if differs_by_client(schema):
            return  # what is shown of it is another thing to another client
        self._kept.keep((raw_path, call.request.scope["query_string"]), answer, reader.subjects_of(schema))


def _rule(operation: Operation, call: Call) -> Any:
    if operation.permanent and call.flag("permanent"):
        return operation.permanent
    return operation.forced if operation.forced and call.flag("force") else operation.rule


def _asks_for_root(scope: Scope, raw_path: bytes) -> bool:
    """Return whether anything but a browser asks for `/`, where people find the desk."""
    if raw_path != b"/" or scope["method"] != "GET":
        return False
    accept = next((value for name, value in scope["headers"] if name == b"accept"), b"")
    return b"text/html" not in accept


def _may_see(principal: Principal, subjects: tuple[str, ...]) -> bool:
    return principal.prefixes is None or any(principal.sees(subject) for subject in subjects)


async def _send_kept(kept: _KeptAnswer, scope: Scope, send: Send) -> None:
    for name, value in scope["headers"]:
        if name == b"if-none-match" and kept.etag in value:
            await send(kept.not_modified)
            await send({"type": "http.response.body", "body": b""})
            return
    await send(kept.start)
    await send(kept.body)


def _revalidated(request: Request, answer: Answer) -> Answer:
    """Return 304 for an answer that the client holds already. Source: RFC 9110, clause 13.1.2."""
    etag = answer.headers.get("ETag")
    held = request.headers.get("if-none-match")
    if etag is None or held is None or request.method != "GET":
        return answer
    tags = {tag.strip().removeprefix("W/") for tag in held.split(",")}
    return Answer(status=304, content=b"", headers=answer.headers) if etag in tags or "*" in tags else answer


def _accepts(accept: str) -> bool:
    ranges = {one.partition(";")[0].strip().lower() for one in accept.split(",")}
    return bool(ranges & {"*/*", "application/*", "", *READABLE})


def _no_such(methods: tuple[str, ...]) -> Answer:
    if methods:
        answer = _plain_error(405, f"the path exists, but only for {', '.join(methods)}")
        return replace(answer, headers={"Allow": ", ".join(methods)})
    return _plain_error(404, "no operation has this path; /docs lists them")


def _plain_error(status: int, message: str) -> Answer:
    return Answer({"error_code": status, "message": message}, status)


def _error(status: int, code: int, message: str) -> Response:
    return Response(orjson.dumps({"error_code": code, "message": message}), status, None, MEDIA_TYPE)


def _refusal(request: Request, error: TidegateError, incompatible: int) -> Response:
    """Return an error with the number that clients of a schema registry know; that of an incompatible schema is set."""
    match error:
        case IncompatibleSchema():
            return _error(error.status, incompatible, error.message)
        case Refused():
            return _error(error.status, error.error_code, error.message)
        case SubjectHidden():
            hidden = subject_not_found(error.subject)
            return _error(hidden.status, hidden.error_code, hidden.message)
        case AccessError():
            return confluent_answer(error)
        case Unavailable():
            _log.error("request_failed", path=request.url.path, status=500, error=str(error))
            return _error(500, 50001, str(error))
        case _:
            status = problems.status_of(error)
            return _error(status, status, str(error))
