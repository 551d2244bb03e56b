"""Schemas of 2 KB that need 2^40 steps without memory, at every door of the registry; steps are counted, not seconds."""

from __future__ import annotations

import json
from typing import Any

import httpx
import orjson
import pytest
from sqlalchemy import create_engine, text

from tests.steps import chain, steps_of
from tests.unit.conftest import Client
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.models.examples import CONTRACT

MOST = 200_000
COMPARED = 3_000_000
"""Most steps of a request that compares with a document which is not refused because it is kept already."""
CHAINED = 700_000
"""Most steps of a registration at the end of a chain of 20 references, of 200 fields each."""
REFUSED = "a value is looked at more than 10,"
KEYWORDS = ["allOf", "anyOf", "oneOf"]


def worst(keyword: str) -> dict[str, Any]:
    return chain(40, lambda ref: {keyword: [ref, ref]})


def asked(client: Client, method: str, path: str, body: Any, most: int = MOST) -> httpx.Response:
    """Send a request whose answer takes at most so many steps."""
    answers: list[httpx.Response] = []
    content = orjson.dumps(body)
    headers = {"Content-Type": "application/json"}
    steps_of(lambda: answers.append(client.request(method, path, content=content, headers=headers)), most)
    return answers[0]


@pytest.mark.parametrize("keyword", KEYWORDS)
@pytest.mark.parametrize("path", ["/api/v1/contracts", "/api/v1/contracts/check"])
def test_the_native_api_names_the_mistake(client: Client, path: str, keyword: str) -> None:
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
def test_the_confluent_api_names_the_mistake(client: Client, path: str, keyword: str) -> None:
    known = {"schemaType": "JSON", "schema": json.dumps({"type": "object"})}
    assert asked(client, "POST", "/subjects/a-value/versions", known).status_code == 200
    wanted = {"schemaType": "JSON", "schema": json.dumps(worst(keyword))}
    answer = asked(client, "POST", path, wanted)
    assert answer.status_code == 422
    assert REFUSED in answer.json()["message"]


DEEP = {
    "JSON": [f'{{"x":{"[" * 300}{"]" * 300}}}', '{"items":' * 900 + "true" + "}" * 900],
    "AVRO": [
        '{"type":"array","items":' * 300 + '"string"' + "}" * 300,
        f'{{"type":"record","name":"R","x":{"[" * 300}{"]" * 300},"fields":[{{"name":"a","type":"long"}}]}}',
    ],
}
NUMBERS = {"1e999999999": "than a double holds", "9" * 4_301: "has 4,301 digits", "9" * 1_000_000: "digits"}


@pytest.mark.parametrize("path", ["/subjects/a-value/versions", "/compatibility/subjects/a-value/versions"])
@pytest.mark.parametrize("schema_type", DEEP)
def test_the_confluent_api_names_the_depth(client: Client, path: str, schema_type: str) -> None:
    known = {"schemaType": schema_type, "schema": '{"type": "string"}'}
    assert asked(client, "POST", "/subjects/a-value/versions", known).status_code == 200
    for schema in (*DEEP[schema_type], '{"a":' * 100_000):
        answer = asked(client, "POST", path, {"schemaType": schema_type, "schema": schema})
        assert answer.status_code == 422
        assert "nested deeper than 256 levels" in answer.json()["message"]


def test_the_confluent_api_keeps_what_is_as_deep_as_may_be(client: Client) -> None:
    deepest = '{"type":"array","items":' * 255 + '"string"' + "}" * 255
    assert asked(client, "POST", "/subjects/a-value/versions", {"schema": deepest}).status_code == 200
    assert client.get("/subjects/a-value/versions/1/schema").status_code == 200
    outer = {"type": "record", "name": "B", "fields": [{"name": "a", "type": "A"}]}
    inner = {
        "type": "record",
        "name": "A",
        "fields": [
            {"name": "a", "type": json.loads('{"type":"array","items":' * 250 + '"string"' + "}" * 250)}
        ],
    }
    assert asked(client, "POST", "/subjects/inner/versions", {"schema": json.dumps(inner)}).status_code == 200
    references = [{"name": "A", "subject": "inner", "version": 1}]
    body = {"schema": json.dumps(outer), "references": references}
    answer = asked(client, "POST", "/subjects/outer/versions", body)
    assert answer.status_code == 422
    assert "what its references lead to" in answer.json()["message"]


@pytest.mark.parametrize("number", NUMBERS, ids=["exponent", "digits", "many digits"])
@pytest.mark.parametrize("keyword", ["minimum", "multipleOf", "minLength", "const", "default", "x-y"])
def test_the_confluent_api_names_the_number(client: Client, keyword: str, number: str) -> None:
    body = {"schemaType": "JSON", "schema": f'{{"properties":{{"a":{{"{keyword}":{number}}}}}}}'}
    answer = asked(client, "POST", "/subjects/a-value/versions", body)
    assert answer.status_code == 422
    assert NUMBERS[number] in answer.json()["message"]


@pytest.mark.parametrize("path", ["/subjects/a-value/versions", "/compatibility/subjects/a-value/versions"])
def test_a_default_beyond_a_double_is_a_mistake_of_an_avro_schema(client: Client, path: str) -> None:
    assert asked(client, "POST", "/subjects/a-value/versions", {"schema": '"string"'}).status_code == 200
    field = {"name": "a", "type": "double", "default": 10**400}
    schema = json.dumps({"type": "record", "name": "R", "fields": [field]})
    answer = asked(client, "POST", path, {"schema": schema})
    assert answer.status_code == 422
    assert "too large for a double" in answer.json()["message"]


@pytest.fixture
def kept(client: Client, factory: Factory) -> str:
    """A version with the worst schema, as an earlier release let it into the registry; returns its contract's id."""
    content = orjson.dumps(CONTRACT | {"status": "active"})
    assert client.post("/api/v1/contracts", content).status_code == 201
    document = CONTRACT | {
        "schema": {"type": "json-schema", "definition": worst("anyOf")},
        "rules": [],
        "status": "active",
    }
    engine = create_engine(factory.settings.database_url.get_secret_value())
    with engine.begin() as connection:
        changed = connection.execute(
            text("UPDATE contract_versions SET document = :document"), {"document": orjson.dumps(document)}
        )
    engine.dispose()
    assert changed.rowcount == 1
    return str(CONTRACT["id"])


def test_the_page_of_a_kept_contract_is_shown(client: Client, kept: str) -> None:
    answer = asked(client, "GET", f"/desk/contracts/{kept}", None)
    assert answer.status_code == 200
    assert "d39" in answer.text


def test_judging_and_explaining_by_a_kept_contract_names_the_mistake(client: Client, kept: str) -> None:
    path = f"/api/v1/contracts/{kept}/versions/latest/judge"
    answer = asked(client, "POST", path, {"records": [{"value": {"id": "no"}}]})
    assert answer.status_code == 422
    assert REFUSED in answer.text


@pytest.mark.parametrize("path", ["/api/v1/contracts", "/api/v1/contracts/check"])
def test_a_version_after_a_kept_one_is_compared_within_the_bound(
    client: Client, kept: str, path: str
) -> None:
    answer = asked(
        client, "POST", path, CONTRACT | {"id": kept, "version": "1.3.0", "status": "active"}, COMPARED
    )
    assert answer.status_code < 500


def test_a_schema_is_read_once_on_however_many_ways_references_lead_to_it(client: Client) -> None:
    for level in range(9):
        below = [{"name": name, "subject": f"s{level - 1}", "version": 1} for name in "ab"] if level else []
        fields = [{"name": "x", "type": f"R{level - 1}" if level else "int"}]
        schema = {"type": "record", "name": f"R{level}", "fields": fields}
        body = {"schema": json.dumps(schema), "references": below}
        assert asked(client, "POST", f"/subjects/s{level}/versions", body, 100_000).status_code == 200


def test_what_references_lead_to_is_bounded(client: Client) -> None:
    schema: dict[str, Any] = {"description": "x" * 170_000}
    body = {"schemaType": "JSON", "schema": json.dumps(schema)}
    assert asked(client, "POST", "/subjects/s0/versions", body).status_code == 200
    found = []
    for level in (1, 2, 3):
        below = [{"name": name, "subject": f"s{level - 1}", "version": 1} for name in "ab"]
        schema = {"properties": {name: {"$ref": name} for name in "ab"}}
        body = {"schemaType": "JSON", "schema": json.dumps(schema), "references": below}
        found.append(asked(client, "POST", f"/subjects/s{level}/versions", body))
    assert [each.status_code for each in found] == [200, 200, 422]
    assert (
        "with what its references lead to it has more than 1,048,576 characters" in found[2].json()["message"]
    )


@pytest.mark.full
@pytest.mark.full
def test_a_chain_of_references_is_validated_once_and_bounded(client: Client) -> None:
    fields = {f"f{number}": {"type": "integer"} for number in range(200)}
    found = []
    for level in range(22):
        below = [{"name": "x", "subject": f"s{level - 1}", "version": 1}] if level else []
        schema = {"properties": {**fields, "below": {"$ref": "x"}} if level else fields}
        body = {"schemaType": "JSON", "schema": json.dumps(schema), "references": below}
        found.append(asked(client, "POST", f"/subjects/s{level}/versions", body, CHAINED))
    assert [each.status_code for each in found] == [200] * 21 + [422]
    assert "lead through 21 levels of schemas, and at most 20 are allowed" in found[-1].json()["message"]
