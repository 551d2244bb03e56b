"""No posted document makes the registry send a request: all of them name a server that counts its callers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx
import pytest

CALLERS: list[str] = []


class Bait(BaseHTTPRequestHandler):
    """Answers with a schema that anything fits."""

    def do_GET(self) -> None:
        CALLERS.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def bait() -> Iterator[str]:
    """Yield the address of a server on this machine."""
    CALLERS.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Bait) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def schemas(bait: str) -> list[dict[str, Any]]:
    return [
        {"$ref": f"{bait}/whole.json"},
        {"$id": f"{bait}/folder/", "properties": {"a": {"$ref": "part.json"}}},
        {"$schema": f"{bait}/meta.json", "type": "object"},
        {"properties": {"a": {"$dynamicRef": f"{bait}/dynamic.json#x"}}},
    ]


def test_a_contract_that_names_a_server_sends_no_request(
    client: Any, make_contract: Callable[..., bytes], bait: str
) -> None:
    for definition in schemas(bait):
        body = make_contract(schema={"type": "json-schema", "definition": definition}, rules=[])
        for path in ("/api/v1/contracts", "/api/v1/contracts/check"):
            answer = client.post(path, body)
            assert answer.status_code in {400, 422}, answer.text
    assert CALLERS == []


def test_a_schema_that_names_a_server_sends_no_request(client: Any, bait: str) -> None:
    for definition in schemas(bait):
        body = json.dumps({"schemaType": "JSON", "schema": json.dumps(definition)})
        for path in (
            "/subjects/a-value/versions",
            "/subjects/a-value",
            "/compatibility/subjects/a-value/versions",
        ):
            assert client.post(path, body).status_code < 500
    avro = {"type": "record", "name": "R", "doc": bait, "fields": [{"name": "a", "type": f"{bait}/T"}]}
    answer = client.post("/subjects/b-value/versions", json.dumps({"schema": json.dumps(avro)}))
    assert answer.status_code == 422
    assert CALLERS == []


def test_the_server_would_count_who_came(bait: str) -> None:
    httpx.get(f"{bait}/seen")
    assert CALLERS == ["/seen"]
