"""Requests to the Confluent API, as its clients send them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
Ask = Callable[..., tuple[int, Any]]


@pytest.fixture
def ask(client: Any) -> Ask:
    """Send one request; give status and decoded body."""

    def send(method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        answer = respond(client, method, path, body, **headers)
        return answer.status_code, answer.json() if answer.content else None

    return send


def respond(client: Any, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
    """Send one request as the Python client does, the path as it stands."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    content = None if body is None else json.dumps(body)
    if body is not None:
        named = {"Content-Type": MEDIA_TYPE, **named}
    answer: httpx.Response = client.request(method, path, content=content, headers=named)
    return answer


def record(*fields: str, name: str = "U", **defaults: Any) -> str:
    """Write an Avro record of int fields; those named in `defaults` have one."""
    written = [{"name": field, "type": "int"} for field in fields]
    written += [{"name": field, "type": "int", "default": value} for field, value in defaults.items()]
    return json.dumps({"type": "record", "name": name, "fields": written})
