"""The door of the application (ASGI): who asks, whether too often, and whether a page elsewhere made them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tidegate.contracts.errors import TidegateError
from tidegate.gateway.access.authentication import Authenticator
from tidegate.gateway.access.limits import RateLimit
from tidegate.gateway.access.principal import ANONYMOUS, Forbidden, Principal, Unauthenticated

NOBODY = Principal("nobody", ())
"""Who asks for a public page without saying who."""

_HEALTH = "/health/"
_PUBLIC_PATHS = frozenset({"/", "/docs", "/docs/reference.css", "/openapi.json"})
_PUBLIC_FOLDERS = (_HEALTH, "/desk/static/")
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_PAGES = frozenset({"same-origin", "none"})

Answer = Callable[[Request, TidegateError], Response]


class Door(Protocol):
    """What the guard needs to know of the process."""

    @property
    def authenticator(self) -> Authenticator | None:
        """Who can say who asks; None when access control is off."""
        ...

    @property
    def rate_limit(self) -> RateLimit | None:
        """How often somebody may ask; None for as often as they like."""
        ...


class AccessGuard:
    """Finds out who asks before anything else runs; `request.state.principal` says it to whatever does.

    What is turned away here is answered by `answer`, in the form of the face that was asked.
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
        state = scope.setdefault("state", {})
        state["principal"] = ANONYMOUS
        is_open = self._door.authenticator is None and self._door.rate_limit is None
        if not (is_open and scope["method"] in _SAFE_METHODS):
            request = Request(scope)
            try:
                _refuse_other_sites(request)
                state["principal"] = await self._principal(request)
            except TidegateError as error:
                await self._answer(request, error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _principal(self, request: Request) -> Principal:
        authenticator = self._door.authenticator
        path: str = request.scope["path"]  # never of `request.url`: that one is made of the Host header too
        if authenticator is None:
            principal = ANONYMOUS
        elif path in _PUBLIC_PATHS or path.startswith(_PUBLIC_FOLDERS):
            principal = NOBODY
        else:
            try:
                principal = await authenticator.principal(request.headers.get("authorization"))
            except Unauthenticated:
                self._count(f"address:{_address(request)}")
                raise
            self._count(principal.name)
            return principal
        if not path.startswith(_HEALTH):  # a probe of the process is never told to wait
            self._count(f"address:{_address(request)}")
        return principal

    def _count(self, who: str) -> None:
        if self._door.rate_limit is not None:
            self._door.rate_limit.count(who)


def _refuse_other_sites(request: Request) -> None:
    """Refuse a change that a page of another site asks a browser for: it would come with the person's credentials.

    Source: Fetch Metadata Request Headers (W3C), clause 2.3; programs other than browsers do not send the header.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in _OWN_PAGES and request.method not in _SAFE_METHODS:
        raise Forbidden("a page of another site asked your browser for this change; nothing was done")


def _address(request: Request) -> str:
    return request.client.host if request.client else "unknown"
