"""The web application: the native API, health, the desk and the reference, over one factory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

import structlog
from fastapi import Depends, FastAPI
from starlette.concurrency import run_in_threadpool

from tidegate.gateway.access.guard import AccessGuard
from tidegate.gateway.factory import Factory
from tidegate.gateway.http import problems
from tidegate.gateway.http.answers import turned_away
from tidegate.gateway.http.confluent import openapi as confluent
from tidegate.gateway.http.confluent.face import ConfluentFace
from tidegate.gateway.http.desk import routes
from tidegate.gateway.http.gate import permit
from tidegate.gateway.http.headers import SecurityHeaders
from tidegate.gateway.http.native import (
    adoptions,
    approvals,
    audit,
    consumers,
    contracts,
    expectations,
    health,
    judge,
    keys,
    metrics,
    reconciliations,
    reference,
    shadows,
    stream_controls,
    streams,
)
from tidegate.gateway.http.openapi import DocumentedApi

_log = structlog.get_logger()


def create_app(factory: Factory) -> FastAPI:
    """Build the operations over a factory, which handlers find as `app.state.factory`.

    The database's tables are there already; the factory is closed when the application stops.
    """

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(factory.adopt_contracts)
        _log.info("registry_started", database=factory.database.description)
        yield
        factory.close()
        _log.info("registry_stopped")

    app = DocumentedApi(
        title="Tidegate",
        summary="Registry of data contracts, and what their streams refused.",
        version=version("tidegate"),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_tags=_TAGS,
        dependencies=[Depends(permit)],
    )
    app.state.factory = factory
    app.add_middleware(ConfluentFace, factory=factory)  # behind the guard
    app.add_middleware(AccessGuard, door=factory, answer=turned_away)
    problems.install(app)
    app.add_middleware(SecurityHeaders)
    for module in _MODULES:
        app.include_router(module.router)
    return app


_MODULES = (
    approvals,
    consumers,
    contracts,
    judge,
    streams,
    shadows,
    expectations,
    stream_controls,
    reconciliations,
    adoptions,
    metrics,
    audit,
    keys,
    health,
    reference,
    routes,
)

_TAGS = [
    {
        "name": "contracts",
        "description": "Publish contract versions and fetch them. A version never changes.",
    },
    {
        "name": "consumers",
        "description": "Who reads what; what a change breaks, and for whom; who agreed to it.",
    },
    {
        "name": "approvals",
        "description": "Changes that weaken what is enforced, and the other person who approves them.",
    },
    {"name": "judge", "description": "Judge records with the plan that the streaming job uses."},
    {"name": "streams", "description": "What the streams did: batch reports in, state and history out."},
    {"name": "audit", "description": "Who did what: the log of changes, a chain of hashes."},
    {"name": "access", "description": "API keys: who may do what."},
    *confluent.TAGS,
    {"name": "health", "description": "Liveness and readiness of the process."},
]
