"""Schemas of 2 KB that need 2^40 steps without memory, at every door of the registry; steps are counted, not seconds."""

from __future__ import annotations

import json
from typing import Any

import httpx
import orjson
import pytest

from gateway.api.examples import CONTRACT
from tests.steps import chain, steps_of
from tests.unit.conftest import Client

MOST = 200_000
REFUSED = "a value is looked at more than 10,"
KEYWORDS = ["allOf", "anyOf", "oneOf"]


def worst(keyword: str) -> dict[str, Any]:
    return chain(40, lambda ref: {keyword: [ref, ref]})


def asked(client: Client, method: str, path: str, body: Any) -> httpx.Response:
    """Send a request whose answer takes at most MOST steps."""
    answers: list[httpx.Response] = []
    content = orjson.dumps(body)
    headers = {"Content-Type": "application/json"}
    steps_of(lambda: answers.append(client.request(method, path, content=content, headers=headers)), MOST)
    return answers[0]


@pytest.mark.parametrize("keyword", KEYWORDS)
@pytest.mark.parametrize("path", ["/api/v1/contracts", "/api/v1/contracts/check"])
def test_the_native_face_names_the_mistake(client: Client, path: str, keyword: str) -> None:
    document = CONTRACT | {"schema": {"type": "json-schema", "definition": worst(keyword)}, "rules": []}
    answer = asked(client, "POST", path, document)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["pointer"].startswith("/schema/definition/$defs/d")
    assert REFUSED in error["message"]


@pytest.mark.parametrize("keyword", KEYWORDS)
@pytest.mark.parametrize(
    "path", ["/subjects/a-value/versions", "/subjects/a-value", "/compatibility/subjects/a-value/versions"]
)
def test_the_confluent_face_names_the_mistake(client: Client, path: str, keyword: str) -> None:
    known = {"schemaType": "JSON", "schema": json.dumps({"type": "object"})}
    assert asked(client, "POST", "/subjects/a-value/versions", known).status_code == 200
    wanted = {"schemaType": "JSON", "schema": json.dumps(worst(keyword))}
    answer = asked(client, "POST", path, wanted)
    assert answer.status_code == 422
    assert REFUSED in answer.json()["message"]
