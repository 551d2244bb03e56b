"""The registry's description of itself: the OpenAPI document, and the reference made of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import jsonschema
import pytest

from tests.unit.conftest import Client
from tidegate.gateway.access.rules import NATIVE
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.app import create_app
from tidegate.gateway.http.confluent.operations import OPERATIONS
from tidegate.gateway.settings import GatewaySettings


def test_the_reference_lists_every_operation_and_loads_nothing_from_elsewhere(client: Any) -> None:
    page = client.get("/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for operation in _operations(client.get("/openapi.json").json()):
        assert f'id="{operation["operationId"]}"' in page.text
    assert "http://" not in page.text
    assert "https://" not in page.text
    assert client.get("/docs/reference.css").headers["content-type"].startswith("text/css")


def _operations(openapi: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in openapi["paths"].values():
        yield from methods.values()


def _schemas(openapi: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from openapi["components"]["schemas"].values()
    for operation in _operations(openapi):
        yield from (parameter["schema"] for parameter in operation.get("parameters", ()))


def _contents(openapi: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for operation in _operations(openapi):
        for holder in (operation.get("requestBody", {}), *operation["responses"].values()):
            yield from holder.get("content", {}).values()


PAGES = ("/openapi.json", "/docs", "/docs/reference.css")


@pytest.mark.parametrize("access", ["on", "off"])
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_the_openapi_document_says_who_has_to_prove_who_they_are(
    settings: GatewaySettings, access: Literal["on", "off"]
) -> None:
    issuer = {"oidc_issuer": "https://login.example/", "oidc_audience": "tidegate", "oidc_jwks": "keys.json"}
    factory = Factory(settings.model_copy(update={"access": access, **issuer}))
    try:
        openapi = Client(create_app(factory)).get("/openapi.json").json()
    finally:
        factory.close()
    schemes = openapi["components"]["securitySchemes"]
    assert {(one["type"], one.get("scheme")) for one in schemes.values()} == {
        ("http", "basic"),
        ("http", "bearer"),
        ("openIdConnect", None),
    }
    assert schemes["oidc"]["openIdConnectUrl"] == "https://login.example/.well-known/openid-configuration"
    named = [{name: []} for name in schemes]
    for path, methods in openapi["paths"].items():
        for operation in methods.values():
            statuses = set(operation["responses"])
            if path.startswith("/health/"):
                assert operation["security"] == []
                assert not statuses & {"401", "403"}
            else:
                assert operation["security"] == ([] if access == "on" else [{}]) + named
                assert {"401", "403", "429"} <= statuses
    assert "429" not in openapi["paths"]["/health/live"]["get"]["responses"]


def test_the_openapi_document_is_valid_and_complete(client: Any) -> None:
    openapi = client.get("/openapi.json").json()
    assert openapi["openapi"].startswith("3.1.")
    tags = {tag["name"] for tag in openapi["tags"]}
    for operation in _operations(openapi):
        assert operation["summary"]
        assert operation["description"]
        assert set(operation["tags"]) <= tags
        statuses = set(operation["responses"])
        is_confluent = operation["tags"] == ["schema registry"]
        refusal = "application/vnd.schemaregistry.v1+json" if is_confluent else "application/problem+json"
        assert statuses & {"200", "201", "204"}
        for status in statuses - {"200", "201", "204", "304"}:
            assert list(operation["responses"][status]["content"]) == [refusal]
    ids = [operation["operationId"] for operation in _operations(openapi)]
    assert len(set(ids)) == len(ids) == len(NATIVE) - len(PAGES) + len(OPERATIONS)
    for schema in _schemas(openapi):
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_reference_and_every_example_of_the_openapi_document_holds(client: Any) -> None:
    openapi = client.get("/openapi.json").json()
    for content in _contents(openapi):
        schema = {**content["schema"], "components": openapi["components"]}
        if "example" in content:
            example = content["example"]
        else:
            example = openapi["components"]["schemas"][content["schema"]["$ref"].rpartition("/")[2]][
                "example"
            ]
        jsonschema.Draft202012Validator(schema).validate(example)
