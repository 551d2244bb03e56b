"""A registry that wants to know who asks, with subjects of two teams, and people of each role."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tidegate.gateway.access.keys import Credentials
from tidegate.gateway.access.principal import read_grants
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.models.examples import CONTRACT
from tidegate.gateway.settings import GatewaySettings

CONFLUENT = "application/vnd.schemaregistry.v1+json"
MAKER = "cli:test"
AVRO = json.dumps({"type": "record", "name": "U", "fields": [{"name": "age", "type": "int"}]})
MINE, HIDDEN, UNKNOWN = "a.x-value", "b.hidden-value", "b.nothing-value"
ASSOCIATION = "/associations/resources/topic-1"
only_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
ID = "hospital.admissions"
HERE = f"/api/v1/contracts/{ID}"
SUBJECT = f"{ID}-value"
VERSIONS = f"/subjects/{SUBJECT}/versions"
STRICT: dict[str, Any] = {
    "classification": {"/admission_id": "pii"},
    "mask": {"/admission_id": "hash"},
    "error_budget": {"ratio": 0.01},
}


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


def associate(subject: str, resource: str = "topic-1") -> dict[str, Any]:
    return {
        "resourceName": subject.removesuffix("-value"),
        "resourceNamespace": "n",
        "resourceId": resource,
        "resourceType": "topic",
        "associations": [{"subject": subject, "associationType": "value"}],
    }


@pytest.fixture
def registry(admin: Person, hire: Hire) -> Person:
    """A subject of a, a subject of b with settings, and a schema that both have."""
    for subject in (MINE, HIDDEN):
        assert admin.ask("POST", f"/subjects/{subject}/versions", {"schema": AVRO}).status_code == 200
    own = AVRO.replace('"U"', '"Own"')
    assert admin.ask("POST", f"/subjects/{HIDDEN}/versions", {"schema": own}).status_code == 409
    assert admin.ask("PUT", f"/config/{HIDDEN}", {"compatibility": "NONE"}).status_code == 200
    # Another record is a weaker contract: one person proposes it, another one registers it.
    assert hire("admin").ask("POST", f"/subjects/{HIDDEN}/versions", {"schema": own}).status_code == 409
    assert admin.ask("POST", f"/subjects/{HIDDEN}/versions", {"schema": own}).status_code == 200
    assert admin.ask("PUT", f"/mode/{HIDDEN}", {"mode": "READONLY"}).status_code == 200
    assert admin.ask("POST", "/associations", associate(HIDDEN)).status_code == 200
    return admin


def document(**changes: Any) -> dict[str, Any]:
    """The strict contract; a part that is None is left out."""
    parts = {**copy.deepcopy(CONTRACT), **STRICT, **changes}
    return {name: part for name, part in parts.items() if part is not None}


def loose(**changes: Any) -> dict[str, Any]:
    return document(**{"classification": None, "mask": None, "version": "1.3.0", **changes})


def schema_text(change: Callable[[dict[str, Any]], object] = lambda _: None) -> str:
    definition = copy.deepcopy(CONTRACT["schema"]["definition"])
    change(definition)
    return json.dumps(definition)


def registered(change: Callable[[dict[str, Any]], object] = lambda _: None, **more: Any) -> dict[str, Any]:
    return {"schema": schema_text(change), "schemaType": "JSON", **more}


def without_minimum(definition: dict[str, Any]) -> None:
    del definition["properties"]["age"]["minimum"]


@dataclass(frozen=True, slots=True)
class People:
    """Who asks: the author has as high a role as the operation needs, and never is the other person."""

    owner: Person
    producer: Person
    approver: Person
    admin: Person


@pytest.fixture
def people(hire: Hire) -> People:
    found = People(
        hire("admin"), hire("producer:hospital."), hire("approver:hospital."), hire("admin:hospital.")
    )
    assert found.owner.ask("POST", "/api/v1/contracts", document()).status_code == 201
    return found
