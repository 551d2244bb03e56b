"""A time limit for request headers, which uvicorn does not have."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


def protocol_with_header_timeout(seconds: float) -> type[HttpToolsProtocol]:
    """Return the HTTP protocol that closes a connection whose request headers take longer than `seconds`.

    The time runs from the connection, and from the first byte of each later request, to the end of the headers.
    uvicorn's keep-alive time-out ends with the first byte of a request, so it bounds idle connections only.
    """

    class HeaderTimeoutProtocol(HttpToolsProtocol):
        _header_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
            super().connection_made(transport)
            self._start_header_timer()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_header_timer()
            super().connection_lost(exc)

        def on_message_begin(self) -> None:
            self._start_header_timer()
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._stop_header_timer()
            super().on_headers_complete()

        def _start_header_timer(self) -> None:
            self._stop_header_timer()
            self._header_timer = self.loop.call_later(seconds, self._close_slow)

        def _stop_header_timer(self) -> None:
            if self._header_timer is not None:
                self._header_timer.cancel()
                self._header_timer = None

        def _close_slow(self) -> None:
            cycle: Any = self.cycle
            if cycle is not None and not cycle.response_complete:
                # A pipelined request: uvicorn stops reading while it answers the one before.
                self._start_header_timer()
                return
            self._header_timer = None
            self.transport.close()

    return HeaderTimeoutProtocol
