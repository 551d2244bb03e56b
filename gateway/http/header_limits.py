"""Limits on the time and the size of request headers, which uvicorn lacks with httptools."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEADER_BYTES: Final = 64 * 1024
"""Maximum bytes received without completing the headers, a part of the body, or the end of a request."""
_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)


def protocol_with_header_limits(seconds: float) -> type[HttpToolsProtocol]:
    """Return the protocol class for uvicorn whose clients have `seconds` to send the headers of a request."""
    return type("HeaderLimits", (HeaderLimitsProtocol,), {"header_seconds": seconds})


class HeaderLimitsProtocol(HttpToolsProtocol):
    """An HTTP/1.1 protocol that closes connections whose request headers are too slow or too large.

    The time limit runs from the start of the connection, and from the first byte of each later request, to the end of
    the headers. The keep-alive timeout of uvicorn ends with the first byte of a request, so it only limits idle
    connections. Headers above MOST_HEADER_BYTES (plus up to one read) get the response 431. The same limit applies to
    trailers and chunk extensions of a body. Source: RFC 6585, clause 5.
    """

    header_seconds: float
    _header_timer: asyncio.TimerHandle | None = None
    _pending_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Start the timer of the first request."""
        super().connection_made(transport)
        self._start_header_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_header_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Process received bytes; refuse a request whose headers are too large."""
        self._pending_bytes += len(data)
        super().data_received(data)
        if self._pending_bytes > MOST_HEADER_BYTES and not self.transport.is_closing():
            self._refuse_large()

    def on_message_begin(self) -> None:
        """Start the timer of a request."""
        self._start_header_timer()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Stop the timer, and restart the count of bytes."""
        self._stop_header_timer()
        self._pending_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Restart the count of bytes after a part of the body."""
        self._pending_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Restart the count of bytes at the end of the request."""
        self._pending_bytes = 0
        super().on_message_complete()

    def _start_header_timer(self) -> None:
        self._stop_header_timer()
        self._header_timer = self.loop.call_later(self.header_seconds, self._close_slow)

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _is_answering(self) -> bool:
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

    def _close_slow(self) -> None:
        if self._is_answering():
            # A pipelined request: uvicorn pauses reading until the previous response is complete.
            self._start_header_timer()
            return
        self._header_timer = None
        self.transport.close()

    def _refuse_large(self) -> None:
        if not self._is_answering():
            self.transport.write(_TOO_LARGE)
        self.transport.close()
