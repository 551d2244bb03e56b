"""The web application: native API, Confluent API, health, desk and API reference, over one factory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from importlib.metadata import version

import structlog
from fastapi import APIRouter, Depends, FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidegate.contracts.errors import TidegateError
from tidegate.gateway.access.guard import AccessGuard
from tidegate.gateway.factory import Factory
from tidegate.gateway.http import problems
from tidegate.gateway.http.confluent import openapi as confluent
from tidegate.gateway.http.confluent.middleware import ConfluentMiddleware
from tidegate.gateway.http.confluent.shown import shown_error
from tidegate.gateway.http.desk import account_routes, contract_routes, routes
from tidegate.gateway.http.desk import problem_routes as problem_pages
from tidegate.gateway.http.desk.desk_route import error_page, refusal_page
from tidegate.gateway.http.gate import permit
from tidegate.gateway.http.native import (
    adoptions,
    approvals,
    audit,
    consumers,
    contracts,
    health,
    judge,
    keys,
    metrics,
    quarantine,
    quarantine_jobs,
    reconciliations,
    reference,
    replays,
    shadows,
    stream_controls,
    streams,
    table_audits,
    whoami,
)
from tidegate.gateway.http.native import (
    problems as problem_routes,
)
from tidegate.gateway.http.openapi import DocumentedApi
from tidegate.gateway.http.tracing import RequestSpans, open_provider

_NATIVE = ("/api/", "/health/", "/docs", "/openapi.json")


def refused(request: Request, error: TidegateError) -> Response:
    """Build the response of a refused request, in the error format of the requested API."""
    path: str = request.scope["path"]
    if path == "/" or path.startswith(_NATIVE):
        return problems.problem_of(request, error)
    if is_desk(path):
        return refusal_page(request, error)
    return shown_error(error).response()


def is_desk(path: str) -> bool:
    """Return whether a path belongs to the desk, which responds with HTML pages."""
    return path == "/desk" or path.startswith("/desk/")


def desk_error(request: Request, status: int, detail: str | None) -> Response | None:
    """Return the error page for a request to the desk; None for other paths."""
    return error_page(request, status, detail) if is_desk(request.scope["path"]) else None


_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class SecurityHeaders:
    """ASGI middleware that adds security headers to every response, errors included.

    It does not replace a header that the response already has.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection (ASGI)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)


_log = structlog.get_logger()


def create_app(factory: Factory) -> FastAPI:
    """Build the application over a factory, which handlers find as `app.state.factory`.

    The tables of the database must exist. The application closes the factory when it stops.
    """
    provider = open_provider()

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(factory.adopt_contracts)
        factory.start_ingestion()
        _log.info("registry_started", database=factory.database.description)
        yield
        await run_in_threadpool(factory.close)
        if provider is not None:
            await run_in_threadpool(provider.shutdown)
        _log.info("registry_stopped")

    app = DocumentedApi(
        title="Tidegate",
        summary="Registry of data contracts, and what their streams refused.",
        version=version("tidegate"),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_tags=_TAGS,
        routes=_routes(),
        dependencies=_GATE,  # for routes that a caller adds; those of _routes() have it
    )
    app.state.factory = factory
    app.add_middleware(ConfluentMiddleware, factory=factory)  # added first, so it runs after the guard
    app.add_middleware(AccessGuard, door=factory, answer=refused)
    problems.install(app, desk_error)
    app.add_middleware(SecurityHeaders)
    if provider is not None:
        app.add_middleware(RequestSpans, provider=provider)
    return app


_MODULES = (
    approvals,
    consumers,
    contracts,
    judge,
    table_audits,
    streams,
    shadows,
    stream_controls,
    reconciliations,
    replays,
    adoptions,
    problem_routes,
    quarantine,
    quarantine_jobs,
    metrics,
    audit,
    keys,
    whoami,
    health,
    reference,
    routes,
    problem_pages,
    contract_routes,
    account_routes,
)

_GATE = [Depends(permit)]


@cache
def _routes() -> list[BaseRoute]:
    """Return the routes, which all applications of a process share.

    FastAPI analyses the parameters of a route at the first request, which takes 200 ms for all of them.
    """
    router = APIRouter(dependencies=_GATE)
    for module in _MODULES:
        router.include_router(module.router)
    return router.routes


_TAGS = [
    {
        "name": "contracts",
        "description": "Publish contract versions and fetch them. A version never changes.",
    },
    {
        "name": "consumers",
        "description": "Consumers, the breaking changes that affect them, and acknowledgements.",
    },
    {
        "name": "approvals",
        "description": "Approval of changes that weaken the enforced contract.",
    },
    {"name": "judge", "description": "Judge records with the plan that the streaming job uses."},
    {"name": "streams", "description": "Reports, state, history and controls of the streams."},
    {
        "name": "quarantine",
        "description": "Refused records: counted, listed, found and downloaded by the index of the quarantine topics.",
    },
    {"name": "problems", "description": "Problems of refused records, and what people decide about them."},
    {"name": "audit", "description": "The audit log: a hash chain of all changes, with their authors."},
    {"name": "access", "description": "API keys and their grants."},
    *confluent.TAGS,
    {"name": "health", "description": "Liveness and readiness of the process."},
]
