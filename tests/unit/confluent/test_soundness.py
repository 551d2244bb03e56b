"""What settings ask of a new schema beyond being one: reserved fields, names, expressions of rules."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.confluent.conftest import Ask, record

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def avro(*fields: str, reserved: str | None = None, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"schema": record(*fields), **more}
    return (
        found if reserved is None else {**found, "metadata": {"properties": {"confluent:reserved": reserved}}}
    )


def of_json(*names: str, reserved: str = "") -> dict[str, Any]:
    schema = json.dumps({"type": "object", "properties": {name: {"type": "string"} for name in names}})
    return avro(reserved=reserved) | {"schema": schema, "schemaType": "JSON"}


def test_the_settings_are_kept_and_shown_in_either_value(ask: Ask) -> None:
    for name in ("validateFields", "validateNames", "validateRules"):
        for value in (True, False):
            assert ask("PUT", "/config/s", {name: value}) == (200, {name: value})
            assert ask("GET", "/config/s")[1][name] is value
        ask("PUT", "/config/s", {name: None})
        assert name not in ask("GET", "/config/s?defaultToGlobal=true")[1]
        assert ask("PUT", "/config/s", {name: "perhaps"})[0] == 422


@pytest.mark.parametrize(
    ("schema", "taken"),
    [
        (avro("a", "email", reserved="email"), "email"),
        (avro("a", "b", reserved="x, b"), "b"),
        (of_json("email", reserved="email,later"), "email"),
    ],
)
def test_a_field_that_is_reserved_is_a_conflict(ask: Ask, schema: dict[str, Any], taken: str) -> None:
    assert ask("POST", "/subjects/before/versions", schema)[0] == 200
    ask("PUT", "/config", {"compatibility": "NONE", "validateFields": True})
    status, body = ask("POST", "/subjects/s/versions", schema)
    assert (status, body["error_code"]) == (409, 409)
    told = f"The new schema has field that conflicts with the reserved field {taken}."
    assert told in body["message"]
    assert "{validateFields: 'true', compatibility: 'NONE'}" in body["message"]
    checked = ask("POST", "/compatibility/subjects/s/versions?verbose=true", schema)[1]
    assert checked["is_compatible"] is False
    assert told in checked["messages"]
    assert ask("POST", "/subjects/s/versions?force=true", schema)[0] == 200


def test_a_reserved_field_stays_reserved(ask: Ask) -> None:
    ask("PUT", "/config/s", {"compatibility": "NONE", "validateFields": True})
    assert ask("POST", "/subjects/s/versions", avro("a", reserved="later"))[0] == 200
    refused = ask("POST", "/subjects/s/versions", avro("a", "b", reserved="other"))
    assert (refused[0], refused[1]["error_code"]) == (409, 409)
    assert "reserved field later removed from its metadata" in refused[1]["message"]
    assert ask("POST", "/subjects/s/versions", avro("a", "b", reserved="later,other"))[0] == 200
    # Metadata that is left out is inherited, and what it reserves with it.
    assert ask("POST", "/subjects/s/versions", avro("a", "later"))[0] == 409
    assert ask("POST", "/subjects/t/versions", avro("a", "later", reserved="later"))[0] == 200


def test_no_field_begins_like_a_reserved_one(ask: Ask) -> None:
    assert ask("POST", "/subjects/before/versions", of_json("$$a"))[0] == 200
    ask("PUT", "/config/s", {"validateFields": True})
    refused = ask("POST", "/subjects/s/versions", of_json("a", "$$a"))
    assert (refused[0], refused[1]["error_code"]) == (422, 42201)
    assert ask("POST", "/subjects/s/versions", of_json("a$$"))[0] == 200


WRONG_NAMES = [
    {"type": "record", "name": "1R", "fields": []},
    {"type": "record", "name": "R", "namespace": "a-b.c", "fields": []},
    {"type": "record", "name": "R", "fields": [{"name": "a-b", "type": "int"}]},
    {"type": "array", "items": {"type": "fixed", "name": "a b", "size": 1}},
    {"type": "record", "name": "R", "fields": [{"name": "", "type": "int"}]},
]


@pytest.mark.parametrize("schema", WRONG_NAMES)
def test_names_of_avro_are_looked_at_unless_that_is_switched_off(ask: Ask, schema: Any) -> None:
    body = {"schema": json.dumps(schema)}
    refused = ask("POST", "/subjects/s/versions", body)
    assert (refused[0], refused[1]["error_code"]) == (422, 42201)
    ask("PUT", "/config/s", {"validateNames": False})
    assert ask("POST", "/subjects/s/versions", body)[0] == 200
    ask("PUT", "/config/s", {"validateNames": True})
    assert ask("POST", "/subjects/s/versions", body)[0] == 200, "what is registered is found again"
    assert ask("POST", "/subjects/t/versions", body)[0] == 422


def test_letters_of_any_script_are_names(ask: Ask) -> None:
    schema = {"type": "record", "name": "Größe_1", "fields": [{"name": "年齢", "type": "int"}]}
    assert ask("POST", "/subjects/s/versions", {"schema": json.dumps(schema)})[0] == 200


@pytest.mark.parametrize("expr", ["tr(ue", "message.a > ; message.b == 1", "'a", "1 +"])
def test_expressions_that_cannot_be_read_are_refused_where_that_is_asked_for(ask: Ask, expr: str) -> None:
    rule = {"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": expr}
    body = avro("a", ruleSet={"domainRules": [rule]})
    assert ask("POST", "/subjects/before/versions", body)[0] == 200
    ask("PUT", "/config", {"validateRules": True})
    refused = ask("POST", "/subjects/s/versions", body)
    assert (refused[0], refused[1]["error_code"]) == (422, 42210)
    assert "the expression of the rule 'r' is not CEL" in refused[1]["message"]


@pytest.mark.parametrize(
    "expr", ["message.a > 1 ; message.a < 9", "value.isEmail()", "decimal(message.a) > now"]
)
def test_an_expression_may_use_what_only_clients_know(ask: Ask, expr: str) -> None:
    ask("PUT", "/config", {"validateRules": True})
    rule = {"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": expr}
    jsonata = {
        "name": "j",
        "kind": "TRANSFORM",
        "mode": "UPGRADE",
        "type": "JSONATA",
        "expr": "$merge([$, {'a': 1}])",
    }
    body = avro("a", ruleSet={"domainRules": [rule], "migrationRules": [jsonata]})
    assert ask("POST", "/subjects/s/versions", body)[0] == 200


def test_nothing_is_asked_of_what_is_imported(ask: Ask) -> None:
    ask("PUT", "/config/i", {"validateFields": True, "validateRules": True})
    ask("PUT", "/mode/i", {"mode": "import"})
    body = {"schema": json.dumps(WRONG_NAMES[0]), "id": 100, "version": 1}
    assert ask("POST", "/subjects/i/versions", body)[0] == 200
