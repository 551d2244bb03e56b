"""Publication of contracts over HTTP: documents that are published, and those that are refused, with the place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.conftest import MakeContract
from tests.unit.contracts.exchange.test_odcs import DOCUMENT
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.document.yaml_source import read_yaml
from tidegate.contracts.exchange.odcs import write_odcs
from tidegate.gateway.http.models.examples import CONTRACT_YAML

from .conftest import CONTRACTS, LATEST, VERSION, only_sqlite, problem


def test_publishing_answers_201_then_200_with_the_same_body(client: Any, make_contract: MakeContract) -> None:
    first = client.post(CONTRACTS, CONTRACT_YAML, "application/yaml; charset=utf-8")
    again = client.post(CONTRACTS, make_contract(), "application/json")
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert first.headers["location"] == again.headers["location"] == VERSION
    body = first.json()
    assert {key: body[key] for key in ("id", "topic", "version", "registry_id", "number", "status")} == {
        "id": "hospital.admissions",
        "topic": "hospital.admissions",
        "version": "1.2.0",
        "registry_id": 1,
        "number": 1,
        "status": "active",
    }


@only_sqlite
def test_publishing_warns_of_names_that_nothing_declares(
    client: Any, make_contract: MakeContract, published: dict[str, Any]
) -> None:
    assert published["warnings"] == []
    definition = {"type": "object", "properties": {"n": {"fromat": "date"}}, "required": ["m"]}
    document = make_contract(
        version="2.0.0", schema={"type": "json-schema", "definition": definition}, rules=[]
    )
    first = client.post(CONTRACTS, document, "application/json")
    again = client.post(CONTRACTS, document, "application/json")
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    warnings = first.json()["warnings"]
    assert [(each["pointer"], each["message"]) for each in warnings] == [
        ("/schema/definition/required/0", "required property `m` is declared nowhere"),
        (
            "/schema/definition/properties/n/fromat",
            "unknown keyword `fromat` refuses nothing; did you mean `format`?",
        ),
    ]
    assert all(each["line"] for each in warnings)


@only_sqlite
def test_a_document_of_the_open_data_contract_standard_is_published(client: Any) -> None:
    answer = client.post(CONTRACTS, DOCUMENT, "application/yaml")
    assert answer.status_code == 201
    body = answer.json()
    assert (body["version"], body["topic"]) == ("1.4.0", "hospital.admissions")
    warnings = [each for each in body["warnings"] if each["message"].startswith("not judged: SQL")]
    assert [(each["pointer"], each["line"]) for each in warnings] == [
        ("/schema/0/properties/1/quality/1", 36)
    ]


@only_sqlite
def test_rules_of_the_standard_that_do_not_suit_are_set_aside_and_named(client: Any) -> None:
    unfit = DOCUMENT.replace('pattern: "[a-z]+"', 'pattern: "(?=x)y"')
    answer = client.post(CONTRACTS, unfit, "application/yaml")
    assert answer.status_code == 201
    warnings = {each["pointer"]: each for each in answer.json()["warnings"]}
    warned = warnings["/schema/0/properties/2/quality/1"]
    assert warned["message"].startswith("not judged: `ward-invalidvalues-2` does not suit its field: ")
    assert warned["line"] == next(at for at, line in enumerate(unfit.splitlines(), 1) if "(?=x)y" in line)
    stored = json.dumps(client.get(answer.headers["location"]).json())
    assert write_odcs(DataContract.model_validate_json(stored)) == read_yaml("unfit", unfit).value


@only_sqlite
def test_a_schema_of_the_standard_with_a_mistake_is_refused_with_its_place(client: Any) -> None:
    answer = client.post(CONTRACTS, DOCUMENT.replace("^A[0-9]+$", "["), "application/yaml")
    assert answer.status_code == 422
    (mistake,) = problem(answer)["errors"]
    assert mistake["message"].startswith(
        "the schema that it describes has a mistake at /properties/id/pattern: "
    )


def test_a_changed_document_answers_409_with_what_to_do(client: Any, published: dict[str, Any]) -> None:
    answer = client.post(CONTRACTS, CONTRACT_YAML.replace("999", "998"), "application/yaml")
    assert answer.status_code == 409
    assert problem(answer)["detail"].endswith("give the changed document a new version, such as 1.3.0")
    assert client.get(LATEST).headers["etag"] == f'"{published["fingerprint"]}"'


def test_a_document_with_mistakes_answers_422_with_each_place(client: Any) -> None:
    text = CONTRACT_YAML.replace("field: /age,", "field: /agee,").replace("domain:", "domian:")
    answer = client.post(CONTRACTS, text, "application/yaml")
    assert answer.status_code == 422
    places = [(one["pointer"], one["line"], one["column"]) for one in problem(answer)["errors"]]
    assert places == [("/domian", 6, 1)]
    compiled = client.post(
        CONTRACTS, CONTRACT_YAML.replace("field: /age,", "field: /agee,"), "application/yaml"
    )
    assert compiled.status_code == 422
    assert problem(compiled)["errors"] == [
        {
            "pointer": "/rules/0/field",
            "message": "the schema declares no field `/agee`; did you mean `/age`?",
            "line": 18,
            "column": 48,
        }
    ]


def test_a_rule_that_can_never_see_a_value_answers_422_with_the_field_that_was_meant(client: Any) -> None:
    line = {"type": "object", "properties": {"net": {"type": "number"}}, "additionalProperties": False}
    lines = {"type": "object", "properties": {"lines": {"type": "array", "items": line}}}
    document = {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": "a.b",
        "version": "1.0.0",
        "topic": "a.b",
        "schema": {"type": "json-schema", "definition": lines},
        "rules": [{"id": "net", "kind": "cel", "expr": "this.lines.all(line, line.nett > 0.0)"}],
    }
    answer = client.post(CONTRACTS, json.dumps(document), "application/json")
    assert answer.status_code == 422
    assert [(one["pointer"], one["message"]) for one in problem(answer)["errors"]] == [
        ("/rules/0/expr", "the schema declares no field `/lines/*/nett`; did you mean `/lines/*/net`?")
    ]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"{",
        b'{"apiVersion": NaN}',
        b"a: *b",
        b"a: &a [*a]",
        b"\x00",
        b"- " * 20_000,
    ],
    ids=[
        "empty",
        "bytes",
        "null",
        "deep-array",
        "deep-object",
        "cut",
        "nan",
        "alias",
        "loop",
        "nul",
        "deep-yaml",
    ],
)
@pytest.mark.parametrize("media_type", ["application/json", "application/yaml"])
@only_sqlite
def test_hostile_documents_are_mistakes_of_their_author(client: Any, body: bytes, media_type: str) -> None:
    answer = client.post(CONTRACTS, body, media_type)
    assert answer.status_code == 422
    assert problem(answer)["errors"]
