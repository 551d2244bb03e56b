"""The Confluent API as ASGI middleware: it serves its own paths and passes on all others.

It runs before FastAPI's router because a subject may contain slashes: the raw path must be split before decoding.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import structlog
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tidegate.contracts.errors import TidegateError, Unavailable
from tidegate.gateway.access.principal import Principal
from tidegate.gateway.http.confluent.calls import (
    MEDIA_TYPE,
    READABLE,
    Call,
    OperationAnswer,
    in_context,
    read_query,
    read_segments,
)
from tidegate.gateway.http.confluent.operations import ROOTS, Match, Operation, find_operation
from tidegate.gateway.http.confluent.schema_handlers import get_root
from tidegate.gateway.http.confluent.shown import ShownError, differs_by_client, shown_error
from tidegate.gateway.http.confluent.subject_handlers import get_version
from tidegate.gateway.http.dependencies import read_body
from tidegate.gateway.http.gate import SubjectHidden, permit_rule, principal_of
from tidegate.gateway.registry.schemas.errors import Refused
from tidegate.gateway.registry.schemas.names import DEFAULT_CONTEXT, canonical

if TYPE_CHECKING:
    from tidegate.gateway.factory import Factory

_log = structlog.get_logger()

_BY_ID = b"/schemas/ids/"
_SUBJECTS = b"/subjects/"
_VERSIONS = b"/versions/"
_KEPT_ANSWERS = 4096
_KEPT_BYTES = 64 * 2**20
_BYTES_OF_A_TEXT = 57
"""Memory in bytes of a `str` in CPython in addition to its characters, with its slot in a tuple."""
_PYTHON = b"python/"
KEPT_SECONDS = 5.0
"""Lifetime of a cached response: another process may have permanently deleted the schema."""
KEY_REGISTRY = "dek-registry"
_ROOTS = ROOTS | {KEY_REGISTRY}
_NO_KEYS = (
    "this registry keeps no encryption keys, so clients cannot run rules of the types ENCRYPT and ENCRYPT_PAYLOAD with "
    "it; docs/reference/confluent.md says what that means"
)
_BODY_METHODS = frozenset({"POST", "PUT"})


@dataclass(frozen=True, slots=True)
class _KeptAnswer:
    """A cached response as ASGI messages: `start` and `body`, or `not_modified` for a client with this `etag`.

    The client must see at least one of `subjects`. A schema never changes, so its `mark` is None. The response about a
    version is valid as long as the change mark of the database is `mark`. `kept_until` is in seconds of the cache's
    clock; `memory` is in bytes.
    """

    start: dict[str, Any]
    body: dict[str, Any]
    not_modified: dict[str, Any]
    etag: bytes
    subjects: tuple[str, ...]
    kept_until: float
    mark: int | None
    memory: int


Key = tuple[bytes, ...]


class AnswerCache:
    """A cache of responses about schemas and versions, limited in number and bytes; the oldest are removed first.

    The owner clears it after a permanent deletion.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answers: OrderedDict[Key, _KeptAnswer] = OrderedDict()
        self._bytes = 0
        self._lock = threading.RLock()

    def find(self, key: Key, mark: int | None = None) -> _KeptAnswer | None:
        """Return a cached response; None if there is none, it has expired, or it was stored with another mark."""
        found = self._answers.get(key)
        if found is None or (found.kept_until >= self._clock() and found.mark == mark):
            return found
        self._forget(key)
        return None

    def keep(
        self, key: Key, answer: OperationAnswer, subjects: tuple[str, ...], mark: int | None = None
    ) -> None:
        """Store a response with an ETag. For one about a version, `mark` is the change mark read before the query."""
        headers = [
            (name.lower().encode(), value.encode())
            for name, value in {**answer.headers, "Content-Type": MEDIA_TYPE}.items()
        ]
        body = answer.body()
        length = (b"content-length", str(len(body)).encode())
        kept = _KeptAnswer(
            {"type": "http.response.start", "status": 200, "headers": [*headers, length]},
            {"type": "http.response.body", "body": body},
            {"type": "http.response.start", "status": 304, "headers": headers},
            answer.headers["ETag"].encode(),
            subjects,
            self._clock() + KEPT_SECONDS,
            mark,
            len(body) + sum(map(len, key)) + sum(len(name) + _BYTES_OF_A_TEXT for name in subjects),
        )
        with self._lock:
            self._forget(key)
            self._answers[key] = kept
            self._bytes += kept.memory
            while len(self._answers) > _KEPT_ANSWERS or self._bytes > _KEPT_BYTES:
                self._forget(next(iter(self._answers)))

    def clear(self) -> None:
        """Remove all responses."""
        with self._lock:
            self._answers.clear()
            self._bytes = 0

    def _forget(self, key: Key) -> None:
        with self._lock:
            found = self._answers.pop(key, None)
            if found is not None:
                self._bytes -= found.memory


class ConfluentMiddleware:
    """ASGI middleware that serves the paths of the Schema Registry API over the factory of this process."""

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
        kept = self._find_kept(scope, raw_path)
        if kept is not None:
            await _send_kept(kept, scope, send)
            return
        # The target of `OPTIONS *` has no path: RFC 9112, clause 3.2.4.
        if raw_path[1:].partition(b"/")[0].decode("latin-1") not in _ROOTS and not _asks_for_root(
            scope, raw_path
        ):
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
        except Exception as error:  # noqa: BLE001 - clients expect this error format also for a bug
            _log.exception("request_crashed", path=request.url.path, method=request.method, exc_info=error)
            await ShownError(500, 500, "the registry's log says more").response()(scope, receive, send)
            return
        body = answer.body()
        await Response(body, answer.status, dict(answer.headers), MEDIA_TYPE if body else None)(
            scope, receive, send
        )

    def _find_kept(self, scope: Scope, raw_path: bytes) -> _KeptAnswer | None:
        if scope["method"] != "GET":
            return None
        if raw_path.startswith(_BY_ID):
            kept = self._kept.find((raw_path, scope["query_string"]))
        elif raw_path.startswith(_SUBJECTS) and _VERSIONS in raw_path:
            kept = self._kept.find(_version_key(scope, raw_path), self._factory.database.change_mark())
        else:
            return None
        return kept if kept is not None and _may_see(scope["state"]["principal"], kept.subjects) else None

    async def _answer(self, request: Request, raw_path: bytes) -> OperationAnswer:
        segments = read_segments(raw_path)
        if segments[0] in {"", KEY_REGISTRY}:
            return _plain_error(501, _NO_KEYS) if segments[0] else get_root(None)
        context = DEFAULT_CONTEXT
        if segments[0] == "contexts" and len(segments) > 2:
            context, segments = segments[1], segments[2:]
            if context != DEFAULT_CONTEXT and segments in {("config",), ("mode",)}:
                segments = (*segments, f":{context}:")  # of that context, under the same rules as by its name
        match = find_operation(request.method, segments)
        if not isinstance(match, Match):
            return _no_such(match)
        if not _accepts(request.headers.get("accept", "*/*")):
            return _plain_error(406, f"the answer is of type {MEDIA_TYPE}; accept it")
        request.state.route_template = (
            match.operation.path
        )  # for traces: FastAPI does not know this operation
        asked = self._call(request, match, context)
        call = await self._without_alias(asked, match.operation, context)
        try:
            await permit_rule(request, call.principal, _rule(match.operation, call), call.path)
        except SubjectHidden as error:
            raise match.operation.hidden(asked.path.get("subject", error.subject)) from error
        if request.method in _BODY_METHODS:
            call = replace(call, content=await self._content(request))
        answer = await self._run(match.operation, call, raw_path if call is asked else None)
        if match.operation.permanent is not None or match.operation.path == "/config/{subject}":
            self._kept.clear()  # after a deletion, or because the alias of a subject may have changed
        if raw_path.startswith(_BY_ID) and "ETag" in answer.headers and call is asked:
            await run_in_threadpool(self._keep, call, raw_path, answer)
        return _revalidated(request, answer)

    async def _content(self, request: Request) -> bytes:
        """Return the request body. Raises Refused (415) unless its content type is JSON.

        A body without a content type is refused too, because a page of another site can send one (CSRF).
        """
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        content = b""
        if not media_type or media_type in READABLE:
            content = await read_body(request, 2 * self._factory.settings.max_document_bytes)
        if media_type in READABLE or (not media_type and not content):
            return content
        raise Refused(
            415, 415, f"the content type is {media_type or 'missing'}; send Content-Type: {MEDIA_TYPE}"
        )

    def _refusal(self, request: Request, error: TidegateError) -> Response:
        if isinstance(error, Unavailable):
            _log.error("request_failed", path=request.url.path, status=500, error=str(error))
        return shown_error(error, self._factory.settings.incompatible_error_code).response()

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
        headers = {name.lower(): value for name, value in request.headers.items()}
        return Call(request, path, query, headers, b"", principal_of(request), self._factory)

    async def _without_alias(self, call: Call, operation: Operation, context: str) -> Call:
        """Return the call with an alias replaced by its subject. Aliases that the principal may not see are kept."""
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

    async def _run(self, operation: Operation, call: Call, raw_path: bytes | None) -> OperationAnswer:
        """Run an operation; one that may change something, or compares a schema, waits for a turn.

        The response about a version is cached under `raw_path`, unless that is None: then the path has an alias.
        """
        if call.request.method != "GET":
            return await self._factory.check_turns.run(call.principal, operation.run, call)
        # A commit while the answer is made changes the mark, and the answer is not given again.
        mark = self._factory.database.change_mark() if operation.run is get_version else None
        answer = await run_in_threadpool(operation.run, call)
        if mark is not None and raw_path is not None:
            self._kept.keep(_version_key(call.request.scope, raw_path), answer, (call.subject,), mark)
        return answer

    def _keep(self, call: Call, raw_path: bytes, answer: OperationAnswer) -> None:
        reader = self._factory.subjects()
        schema = reader.schema(int(call.path["id"]), call.text("subject") or None)
        if differs_by_client(schema):
            return  # the response depends on the client
        self._kept.keep((raw_path, call.request.scope["query_string"]), answer, reader.subjects_of(schema))


def _rule(operation: Operation, call: Call) -> Any:
    if operation.permanent and call.flag("permanent"):
        return operation.permanent
    return operation.forced if operation.forced and call.flag("force") else operation.rule


def _asks_for_root(scope: Scope, raw_path: bytes) -> bool:
    """Return whether a client other than a browser requests `/`; browsers get the desk there."""
    if raw_path != b"/" or scope["method"] != "GET":
        return False
    accept = next((value for name, value in scope["headers"] if name == b"accept"), b"")
    return b"text/html" not in accept


def _may_see(principal: Principal, subjects: tuple[str, ...]) -> bool:
    return principal.prefixes is None or any(principal.sees(subject) for subject in subjects)


def _version_key(scope: Scope, raw_path: bytes) -> Key:
    """Return the cache key of a response about a version: path, query, and whether the client is the Python client.

    The Python client gets tags in another place.
    """
    named = next((value for name, value in scope["headers"] if name == b"confluent-client-version"), b"")
    return raw_path, scope["query_string"], _PYTHON if named.startswith(_PYTHON) else b""


async def _send_kept(kept: _KeptAnswer, scope: Scope, send: Send) -> None:
    for name, value in scope["headers"]:
        if name == b"if-none-match" and kept.etag in value:
            await send(kept.not_modified)
            await send({"type": "http.response.body", "body": b""})
            return
    await send(kept.start)
    await send(kept.body)


def _revalidated(request: Request, answer: OperationAnswer) -> OperationAnswer:
    """Return a 304 response if the client already has the response. Source: RFC 9110, clause 13.1.2."""
    etag = answer.headers.get("ETag")
    held = request.headers.get("if-none-match")
    if etag is None or held is None or request.method != "GET":
        return answer
    tags = {tag.strip().removeprefix("W/") for tag in held.split(",")}
    return (
        OperationAnswer(status=304, content=b"", headers=answer.headers)
        if etag in tags or "*" in tags
        else answer
    )


def _accepts(accept: str) -> bool:
    ranges = {one.partition(";")[0].strip().lower() for one in accept.split(",")}
    return bool(ranges & {"*/*", "application/*", "", *READABLE})


def _no_such(methods: tuple[str, ...]) -> OperationAnswer:
    if methods:
        answer = _plain_error(405, f"the path exists, but only for {', '.join(methods)}")
        return replace(answer, headers={"Allow": ", ".join(methods)})
    return _plain_error(404, "no operation has this path; /docs lists them")


def _plain_error(status: int, message: str) -> OperationAnswer:
    return OperationAnswer({"error_code": status, "message": message}, status)
