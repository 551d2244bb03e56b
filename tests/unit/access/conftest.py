"""A registry that wants to know who asks, with subjects of two teams, and people of each role."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tidegate.gateway.access.keys import Credentials
from tidegate.gateway.access.principal import read_grants
from tidegate.gateway.factory import Factory
from tidegate.gateway.settings import GatewaySettings

CONFLUENT = "application/vnd.schemaregistry.v1+json"
MAKER = "cli:test"
AVRO = json.dumps({"type": "record", "name": "U", "fields": [{"name": "age", "type": "int"}]})


class Person:
    """A client with a key, which calls the application in this process."""

    def __init__(self, client: Any, credentials: Credentials) -> None:
        self.client = client
        self.credentials = credentials
        self.name = f"key:{credentials.key_id}"

    def ask(self, method: str, path: str, body: Any = None, media_type: str | None = None) -> httpx.Response:
        options: dict[str, Any] = {"auth": (self.credentials.key_id, self.credentials.secret), "headers": {}}
        if body is not None:
            native = path.startswith("/api/")
            options["content"] = body if isinstance(body, bytes) else json.dumps(body)
            options["headers"]["Content-Type"] = media_type or ("application/json" if native else CONFLUENT)
        answer: httpx.Response = self.client.request(method, path, **options)
        return answer

    def json(self, path: str) -> Any:
        answer = self.ask("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()


Hire = Callable[..., Person]


@pytest.fixture
def settings(settings: GatewaySettings) -> GatewaySettings:
    return settings.model_copy(update={"access": "on", "key_cache_seconds": 0.0})


@pytest.fixture
def hire(client: Any, factory: Factory) -> Hire:
    """Return a function that creates a client with a key of some roles: `hire("producer:hospital.")`."""

    def make(*grants: str) -> Person:
        return Person(client, factory.keys().create("test", read_grants(grants), MAKER))

    return make


@pytest.fixture
def admin(hire: Hire) -> Person:
    return hire("admin")


def same_but_for(name: str, other: str, answer: httpx.Response) -> tuple[int, bytes, dict[str, str]]:
    """Return all of an answer, with one name written as another."""
    headers = {key: value for key, value in answer.headers.items() if key != "content-length"}
    return answer.status_code, answer.content.replace(name.encode(), other.encode()), headers
