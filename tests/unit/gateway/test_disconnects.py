"""A client that goes away while it sends its body: no crash."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs


@pytest.mark.parametrize("path", ["/api/v1/contracts", "/subjects/a-value/versions"])
def test_a_client_that_goes_away_is_no_crash(client: Any, path: str) -> None:
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", b"9")],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8081),
    }  # fmt: skip
    messages = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    with capture_logs() as logs:
        asyncio.run(client.app(scope, receive, send))
    assert [log for log in logs if log["event"] == "request_crashed"] == []
    assert sent == []
