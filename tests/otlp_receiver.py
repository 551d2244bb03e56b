"""A receiver of traces over OTLP/HTTP on loopback, for tests."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """A received span; ids are hexadecimal, times are in nanoseconds since the Unix epoch."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    began: int
    ended: int
    is_error: bool
    attributes: dict[str, str | int]


@dataclass(slots=True)
class Receiver:
    """The URL of the receiver and the spans that it has received."""

    url: str
    spans: list[ReceivedSpan] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def await_spans(self, *names: str, seconds: float = 120) -> list[ReceivedSpan]:
        """Wait until a span of each name was received; return all received spans. Raise AssertionError after `seconds`."""
        with self.changed:
            assert self.changed.wait_for(lambda: set(names) <= {each.name for each in self.spans}, seconds), [
                each.name for each in self.spans
            ]
            return list(self.spans)


def read_spans(content: bytes) -> Iterator[ReceivedSpan]:
    """Yield the spans of an OTLP export request. Source: OTLP 1.x, `ExportTraceServiceRequest`."""
    for resource in ExportTraceServiceRequest.FromString(content).resource_spans:
        names = {each.key: each.value.string_value for each in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield ReceivedSpan(
                    names["service.name"],
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    span.status.code == span.status.STATUS_CODE_ERROR,
                    {each.key: each.value.string_value or each.value.int_value for each in span.attributes},
                )


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Run a receiver on a free port, in a thread."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                content = gzip.decompress(content)
            with receiver.changed:
                receiver.spans.extend(read_spans(content))
                receiver.changed.notify_all()
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver = Receiver(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join(30)
