"""ASGI middleware for access: authentication, rate limits, and protection against cross-site requests."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_network
from typing import Protocol

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidegate.contracts.errors import TidegateError
from tidegate.contracts.words import seen
from tidegate.gateway.access.authentication import Authenticator
from tidegate.gateway.access.denials import REFUSING, DenialAudit, Denials
from tidegate.gateway.access.hosts import is_allowed, is_same_origin, split_host
from tidegate.gateway.access.limits import ADDRESS, RateLimit
from tidegate.gateway.access.principal import ANONYMOUS, Forbidden, Misdirected, Principal, Unauthenticated
from tidegate.gateway.access.sessions import COOKIE, DeskSessions

NOBODY = Principal("nobody", ())
"""The principal of requests for public pages, which are not authenticated."""

_HEALTH = "/health/"
_DESK = "/desk"
_PUBLIC_PATHS = frozenset(
    {"/", "/docs", "/docs/reference.css", "/openapi.json", "/desk/sign-in", "/desk/sign-out"}
)
_PUBLIC_FOLDERS = (_HEALTH, "/desk/static/")
_BY_ID = re.compile(r"(?:/contexts/[^/]+)?/schemas/(?:ids|guids)/[^/]+(?:/schema)?")
_JOB_REPORT = re.compile(
    r"/api/v1/streams/[^/]+/(?:batches|trips|events|heartbeat|reconciliations/[^/]+/result|replays/[^/]+/progress)"
)
_LONGEST_SHOWN = 100
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_PAGES = frozenset({"same-origin", "none"})

Answer = Callable[[Request, TidegateError], Response]


class Door(Protocol):
    """The parts of the process that the guard needs."""

    @property
    def authenticator(self) -> Authenticator | None:
        """Return the authenticator of requests; None if access control is off."""
        ...

    @property
    def sessions(self) -> DeskSessions | None:
        """Return the sessions of people who signed in at the desk; None if access control is off."""
        ...

    @property
    def denials(self) -> Denials:
        """Return the counter of refused requests."""
        ...

    @property
    def denial_audit(self) -> DenialAudit:
        """Return the audit of denied writes and reveals."""
        ...

    @property
    def allowed_hosts(self) -> tuple[str, ...]:
        """Return the host names of the server, in addition to loopback names and IP addresses."""
        ...

    @property
    def rate_limit(self) -> RateLimit | None:
        """Return the rate limit of requests; None for no limit."""
        ...


class AccessGuard:
    """ASGI middleware that authenticates each request before any handler runs.

    It stores the principal in `request.state.principal`. `answer` builds the response of a refused request, in the
    error format of the requested API.
    """

    def __init__(self, app: ASGIApp, door: Door, answer: Answer) -> None:
        self._app = app
        self._door = door
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection (ASGI)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = self._counted(scope, send)
        state = scope.setdefault("state", {})
        state["principal"] = ANONYMOUS
        is_open = self._door.authenticator is None and self._door.rate_limit is None
        has_own_host = _has_own_host(scope, self._door.allowed_hosts)
        if not (is_open and has_own_host and scope["method"] in _SAFE_METHODS):
            request = Request(scope)
            try:
                if not has_own_host:
                    raise _misdirected(request)
                _refuse_other_sites(request, self._door.allowed_hosts)
                state["principal"] = await self._principal(request)
            except TidegateError as error:
                await self._answer(request, error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _counted(self, scope: Scope, send: Send) -> Send:
        """Wrap `send` so that responses that refuse the request are counted and audited."""
        status = 0

        async def counting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if status in REFUSING:
                    await self._add_denial(scope, status)
            await send(message)
            # Only after the response: its latency would otherwise reveal that a hidden subject exists.
            is_last = message["type"] == "http.response.body" and not message.get("more_body", False)
            is_hidden = is_last and status not in REFUSING and "is_denied" in scope["state"]
            if is_hidden and DenialAudit.covers(status, scope["method"], scope["path"], is_hidden=True):
                await self._add_denial(scope, status, is_hidden=True)

        return counting

    async def _add_denial(self, scope: Scope, status: int, *, is_hidden: bool = False) -> None:
        principal: Principal = scope["state"]["principal"]
        is_known = principal is not ANONYMOUS and principal is not NOBODY
        who = principal.name if is_known else f"{ADDRESS}{_address(Request(scope))}"
        denial = (status, who, scope["method"], scope["path"])
        self._door.denials.add(*denial)
        if DenialAudit.covers(status, scope["method"], scope["path"], is_hidden=is_hidden):
            await run_in_threadpool(self._door.denial_audit.add, *denial)

    async def _principal(self, request: Request) -> Principal:
        authenticator = self._door.authenticator
        path: str = request.scope["path"]  # not `request.url`, which is also built from the Host header
        if authenticator is None:
            principal = ANONYMOUS
        elif path in _PUBLIC_PATHS or path.startswith(_PUBLIC_FOLDERS):
            principal = NOBODY
        else:
            try:
                principal = await self._of_session(request, path) or await authenticator.principal(
                    request.headers.get("authorization")
                )
            except Unauthenticated:
                self._count(f"{ADDRESS}{_address(request)}")
                raise
            if not _is_exempt(request.method, path):
                self._count(principal.name)
            return principal
        # Health probes are exempt from the rate limit.
        if not path.startswith(_HEALTH) and not (authenticator is None and _is_exempt(request.method, path)):
            self._count(f"{ADDRESS}{_address(request)}")
        return principal

    async def _of_session(self, request: Request, path: str) -> Principal | None:
        """Return the principal of the desk session; None without a valid one.

        The session cookie is valid for desk pages only. An Authorization header takes precedence over it.
        """
        token = request.cookies.get(COOKIE)
        sessions = self._door.sessions
        is_page = path == _DESK or path.startswith(f"{_DESK}/")
        if token is None or sessions is None or not is_page or "authorization" in request.headers:
            return None
        return await run_in_threadpool(sessions.principal, token)

    def _count(self, who: str) -> None:
        if self._door.rate_limit is not None:
            self._door.rate_limit.count(who)


def _has_own_host(scope: Scope, allowed: tuple[str, ...]) -> bool:
    """Return whether the Host header names this server.

    A health probe may send any name. A request without a Host header is accepted, because browsers always send one.
    """
    host = next((value for name, value in scope["headers"] if name == b"host"), None)
    if host is None or scope["path"].startswith(_HEALTH):
        return True
    return is_allowed(host.decode("latin-1"), allowed)


def _misdirected(request: Request) -> Misdirected:
    name = split_host(request.headers["host"])[0]
    shown = seen(name[:_LONGEST_SHOWN])
    return Misdirected(
        f"this registry does not answer to the host name {shown or 'that was sent'}; if that is its name, add it to "
        "TIDEGATE_ALLOWED_HOSTS of the registry, and restart it"
    )


def _refuse_other_sites(request: Request, allowed: tuple[str, ...]) -> None:
    """Raise Forbidden for a write that a page of another site sends from a person's browser (CSRF).

    Browsers send Sec-Fetch-Site to https and loopback addresses only, and Origin with every write. Other programs
    send neither. Source: Fetch Metadata Request Headers (W3C), clause 2.3; Fetch Standard, clause 3.2.
    """
    if request.method in _SAFE_METHODS:
        return
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        is_own = site in _OWN_PAGES
    else:
        is_own = origin is None or is_same_origin(origin, request.headers.get("host", ""), allowed)
    if not is_own:
        raise Forbidden("a page of another site asked your browser for this change; nothing was done")


def _is_exempt(method: str, path: str) -> bool:
    """Return whether the rate limit exempts a request: a schema by id or GUID, or a report of a job.

    Records wait for these requests.
    """
    if method == "POST":
        return _JOB_REPORT.fullmatch(path) is not None
    return method == "GET" and _BY_ID.fullmatch(path) is not None


def _address(request: Request) -> str:
    """Return the address of a client; for IPv6 its /64 network, because one host may use every address in it."""
    host = request.client.host if request.client else "unknown"
    try:
        return str(ip_network(f"{host}/64", strict=False)) if ":" in host else host
    except ValueError:  # an address with a zone id
        return host
