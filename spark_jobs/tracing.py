"""OpenTelemetry spans for starts and batches of streams. They need the extra `otel`, and the OTEL_ variables."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, Protocol

import httpx
import structlog

from tidegate.contracts.tracing import HTTP_PROTOBUF, are_traces_wanted, wanted_protocol

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

log = structlog.get_logger()

TRACEPARENT: Final = "traceparent"
_SERVICE: Final = "tidegate-job"

Attributes = Mapping[str, str | int]
"""Attributes of a span: names, versions and counts, never a value of a record."""


class Trace(Protocol):
    """The span of one start or one batch of a stream. Its methods never raise, and may be called from any thread."""

    def step(self, name: str, began_ns: int, ended_ns: int) -> None:
        """Add a finished step; times are in nanoseconds since 1970 UTC."""
        ...

    def current(self) -> AbstractContextManager[None]:
        """Return a context in which this is the current span of the thread."""
        ...

    def end(self, attributes: Attributes) -> None:
        """End the span successfully. Only the first end counts."""
        ...

    def fail(self, error: BaseException) -> None:
        """End the span with the class of an error, without its message, which may quote a record.

        Only the first end counts.
        """
        ...


class Tracer(Protocol):
    """Factory of the spans of a job."""

    def begin(self, name: str, attributes: Attributes) -> Trace:
        """Begin a span."""
        ...

    def traceparent(self) -> str | None:
        """Return the current span of this thread as value of the header `traceparent`; None without a span.

        Source: W3C, Trace Context, clause 3.2.
        """
        ...

    def follow(self, client: httpx.Client) -> None:
        """Add the current span to the headers of each request of a client."""
        ...

    def close(self) -> None:
        """Export the remaining spans."""
        ...


class NoTrace:
    """The span of a job without traces."""

    def step(self, name: str, began_ns: int, ended_ns: int) -> None:
        """Do nothing."""

    def current(self) -> AbstractContextManager[None]:
        """Return a context that does nothing."""
        return nullcontext()

    def end(self, attributes: Attributes) -> None:
        """Do nothing."""

    def fail(self, error: BaseException) -> None:
        """Do nothing."""


NO_TRACE: Final = NoTrace()


class NoTracer:
    """The tracer of a job without traces."""

    def begin(self, name: str, attributes: Attributes) -> Trace:  # noqa: ARG002 - required by the protocol
        """Return a span that does nothing."""
        return NO_TRACE

    def traceparent(self) -> str | None:
        """Return None."""
        return None

    def follow(self, client: httpx.Client) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def open_tracer() -> Tracer:
    """Return the tracer that the OTEL_ variables configure. Tracing problems are logged, and never fail a job."""
    if not are_traces_wanted(os.environ):
        return NoTracer()
    if (protocol := wanted_protocol(os.environ)) != HTTP_PROTOBUF:
        log.warning("traces_off", reason=f"OTLP over {protocol} is not supported: set {HTTP_PROTOBUF}")
        return NoTracer()
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - an extra
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        log.warning("traces_off", reason=f"{error.name} is not installed: pip install 'tidegate[otel]'")
        return NoTracer()
    name = os.environ.get("OTEL_SERVICE_NAME") or _SERVICE
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return OtelTracer(provider)


class OtelTracer:
    """The tracer with a provider of OpenTelemetry."""

    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 - an extra
            TraceContextTextMapPropagator,
        )

        self._provider = provider
        self._tracer = provider.get_tracer("tidegate.job")
        self._propagator = TraceContextTextMapPropagator()

    def begin(self, name: str, attributes: Attributes) -> Trace:
        """Begin a span without a parent, because it does not belong to a request."""
        from opentelemetry.context import Context  # noqa: PLC0415 - an extra

        return _OtelTrace(self._tracer, self._tracer.start_span(name, Context(), attributes=dict(attributes)))

    def traceparent(self) -> str | None:
        """Return the current span of this thread as value of the header; None without a span."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        return carrier.get(TRACEPARENT)

    def follow(self, client: httpx.Client) -> None:
        """Add the header to the requests of a client, unless they have one."""

        def add(request: httpx.Request) -> None:
            found = None if TRACEPARENT in request.headers else self.traceparent()
            if found is not None:
                request.headers[TRACEPARENT] = found

        client.event_hooks = {**client.event_hooks, "request": [*client.event_hooks["request"], add]}

    def close(self) -> None:
        """Export the remaining spans, within the timeout of the exporter."""
        self._provider.shutdown()


class _OtelTrace:
    def __init__(self, tracer: Any, span: Any) -> None:
        self._tracer = tracer
        self._span = span

    def step(self, name: str, began_ns: int, ended_ns: int) -> None:
        from opentelemetry.trace import set_span_in_context  # noqa: PLC0415 - an extra

        context = set_span_in_context(self._span)
        self._tracer.start_span(name, context, start_time=began_ns).end(ended_ns)

    @contextmanager
    def current(self) -> Iterator[None]:
        from opentelemetry.trace import use_span  # noqa: PLC0415 - an extra

        with use_span(self._span, record_exception=False, set_status_on_exception=False):
            yield

    def end(self, attributes: Attributes) -> None:
        if self._span.is_recording():
            self._span.set_attributes(dict(attributes))
            self._span.end()

    def fail(self, error: BaseException) -> None:
        from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415 - an extra

        if self._span.is_recording():
            self._span.set_attribute("error.type", type(error).__name__)
            self._span.set_status(Status(StatusCode.ERROR))
            self._span.end()
