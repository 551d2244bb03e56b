"""OpenTelemetry spans of requests, if the extra `otel` is installed and the OTEL_ variables enable traces."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidegate.contracts.tracing import HTTP_PROTOBUF, are_traces_wanted, wanted_protocol

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

_log = structlog.get_logger()

_SERVICE: Final = "tidegate-registry"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
_FAILED: Final = 500


def open_provider() -> TracerProvider | None:
    """Return a provider that exports spans; None if traces are off or not supported, or the extra is missing."""
    if not are_traces_wanted(os.environ):
        return None
    if (protocol := wanted_protocol(os.environ)) != HTTP_PROTOBUF:
        _log.warning("traces_off", reason=f"OTLP over {protocol} is not supported: set {HTTP_PROTOBUF}")
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - an extra
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        _log.warning("traces_off", reason=f"{error.name} is not installed: pip install 'tidegate[otel]'")
        return None
    name = os.environ.get("OTEL_SERVICE_NAME") or _SERVICE
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


class RequestSpans:
    """ASGI middleware that creates a span for each HTTP request, a child of the client's span in `traceparent`.

    The attributes are the method, the URL scheme, the route template and the status, but no path, query or body. Thus
    their cardinality is limited, and they contain no data of records. Source: OpenTelemetry, "Semantic Conventions for
    HTTP Spans".
    """

    def __init__(self, app: ASGIApp, provider: TracerProvider) -> None:
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 - an extra
            TraceContextTextMapPropagator,
        )

        self._app = app
        self._tracer = provider.get_tracer("tidegate.registry")
        self._propagator = TraceContextTextMapPropagator()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection (ASGI)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with self._span(scope) as span:

            async def send_with_status(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= _FAILED:
                        span.set_attribute("error.type", str(message["status"]))
                await send(message)

            await self._app(scope, receive, send_with_status)

    @contextmanager
    def _span(self, scope: Scope) -> Iterator[Span]:
        from opentelemetry.trace import SpanKind, Status, StatusCode  # noqa: PLC0415 - an extra

        headers = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in scope["headers"]
            if name in {b"traceparent", b"tracestate"}
        }
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        scope.setdefault("state", {})  # the Confluent API stores its route template there
        with self._tracer.start_as_current_span(
            method,
            self._propagator.extract(headers),
            SpanKind.SERVER,
            {"http.request.method": method, "url.scheme": scope.get("scheme", "http")},
            record_exception=False,  # the message of an exception may contain data of a record
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except BaseException as error:
                span.set_status(Status(StatusCode.ERROR))
                span.set_attribute("error.type", type(error).__name__)
                raise
            finally:
                if (route := _route(scope)) is not None:
                    span.update_name(f"{method} {route}")
                    span.set_attribute("http.route", route)


def _route(scope: Scope) -> str | None:
    """Return the route template; None for a path without an operation, and for a cached response."""
    route: str | None = scope["state"].get("route_template")
    return route or getattr(scope.get("route"), "path", None)
