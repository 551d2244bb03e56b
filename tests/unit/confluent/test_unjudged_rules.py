"""Rules that are stored and not judged: counted, with the reason, in each place; or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.steps import steps_of
from tests.unit.confluent.conftest import Ask, record, respond
from tidegate.gateway.registry.schemas.entities import RuleSet
from tidegate.gateway.registry.schemas.fields import fields_of
from tidegate.gateway.registry.schemas.imported_rules import MAX_WORK, _Importing

MASK = {"name": "mask", "kind": "TRANSFORM", "mode": "WRITE", "type": "CEL_FIELD", "expr": "'x'"}
PATH = {"name": "path", "kind": "CONDITION", "mode": "WRITE", "type": "JSONATA", "expr": "a > 0"}
KNOWN = {"name": "known", "kind": "CONDITION", "mode": "READ", "type": "CEL", "expr": "message.a != 'x'"}
RULES = {"domainRules": [MASK, PATH, KNOWN]}
BODY = {"schema": record("a"), "ruleSet": RULES}
HEADER = "Tidegate-Rules-Not-Judged"
# What no database decides: once is enough.
only_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
REASONS = "2; mask is a TRANSFORM of type CEL_FIELD, which clients run; path is a condition of type JSONATA"


def test_the_answer_to_a_registration_counts_them_and_says_why(client: Any) -> None:
    for _ in range(2):  # the second one finds the version of the first
        answer = respond(client, "POST", "/subjects/t-value/versions", BODY)
        assert answer.headers[HEADER] == REASONS
    judged = {"schema": record("a"), "ruleSet": {"domainRules": [KNOWN]}}
    assert HEADER not in respond(client, "POST", "/subjects/u-value/versions", judged).headers
    key = respond(client, "POST", "/subjects/t-key/versions", judged)
    assert key.headers[HEADER] == "1; known is of a subject without a contract"


def test_long_reasons_are_cut_and_stay_a_header(client: Any) -> None:
    fields = [f"größe{index}" for index in range(60)]
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in fields}}
    many = {"domainRules": [{**KNOWN, "mode": "WRITE", "type": "CEL_FIELD", "expr": "value"}]}
    body = {"schemaType": "JSON", "schema": json.dumps(schema), "ruleSet": many}
    found = respond(client, "POST", "/subjects/long-value/versions", body).headers[HEADER]
    assert found.startswith("1; known at /gr\\xf6\\xdfe0 may give something else than true or false")
    assert found.endswith("...")
    assert len(found) < 1_100


@pytest.mark.parametrize("kind", ["CEL", "CEL_FIELD"])
@pytest.mark.parametrize("expr", ["", " \n", ";", " ; "])
@only_sqlite
def test_a_blank_condition_is_named(client: Any, kind: str, expr: str) -> None:
    """The answer to a blank one of type CEL was 500."""
    blank = {"domainRules": [{**KNOWN, "type": kind, "expr": expr}]}
    answer = respond(client, "POST", "/subjects/t-value/versions", {"schema": record("a"), "ruleSet": blank})
    assert (answer.status_code, answer.headers[HEADER]) == (200, "1; known is without an expression")


def test_names_of_fields_add_no_line_to_a_header_or_a_note(client: Any) -> None:
    name = "a\r\nX-Added: yes\r\n\u202e" + "b" * 500
    schema = {
        "type": "object",
        "properties": {name: {"type": "string", "confluent:rules": [{"name": "odd"}]}},
    }
    fields = {**KNOWN, "mode": "WRITE", "type": "CEL_FIELD", "expr": "value"}
    body = {"schemaType": "JSON", "schema": json.dumps(schema), "ruleSet": {"domainRules": [fields]}}
    answer = respond(client, "POST", "/subjects/t-value/versions", body)
    shown = "/a\\u000d\\u000aX-Added: yes"
    assert answer.headers[HEADER].startswith(f"2; known at {shown}")
    assert "X-Added" not in answer.headers
    note = client.get("/api/v1/contracts/t/versions/latest", headers={"Accept": "application/json"})
    (version,) = client.get("/api/v1/contracts/t").json()["versions"]
    assert note.status_code == 200
    assert len(version["note"].split("\n")) == 2
    assert len(version["note"]) < 1_000


@pytest.mark.parametrize("kind", ["conditions", "transformations"])
def test_the_work_of_many_rules_about_many_fields_is_bounded(kind: str) -> None:
    """Their numbers are multiplied: 38 KB took 11 seconds, and its note 3 MB."""
    schema = {"type": "object", "properties": {f"f{number}": {"type": "string"} for number in range(300)}}
    later = 290 if kind == "transformations" else 0
    conditions = [
        {**KNOWN, "name": f"r{number}", "mode": "WRITE", "type": "CEL_FIELD", "expr": "value != 'x'"}
        for number in range(300 - later)
    ]
    changes = [
        {**MASK, "name": f"t{number}", "expr": f"name == 'f{number}' ; 'x'"} for number in range(later)
    ]
    rules = RuleSet.model_validate({"domainRules": [*conditions, *changes]})
    importing = _Importing(fields_of("JSON", schema))
    importing.rule_set(rules)
    assert importing.work < 2 * MAX_WORK
    assert len(importing.left_out) < 12_000
    named = {reason.split(" ", 1)[0].partition(".")[0] for reason in importing.left_out}
    assert {rule["name"] for rule in conditions[1:]} <= named


@only_sqlite
def test_a_large_schema_is_compiled_once_for_all_rules(client: Any) -> None:
    """It was compiled for each rule: 250 fields took 15 seconds, and 2,000 took minutes."""
    schema = {"type": "object", "properties": {f"f{number}": {"type": "string"} for number in range(250)}}
    fields = {**KNOWN, "mode": "WRITE", "type": "CEL_FIELD", "expr": "value != 'x'"}
    unknown = {**KNOWN, "name": "unknown", "expr": "message.b != 'x'"}
    rules = {"domainRules": [unknown, fields]}
    body = {"schemaType": "JSON", "schema": json.dumps(schema), "ruleSet": rules}
    answers = []
    steps = steps_of(
        lambda: answers.append(respond(client, "POST", "/subjects/t-value/versions", body)), 1_000_000
    )
    assert steps > 0
    (answer,) = answers
    assert answer.headers[HEADER].startswith("2; known at /f199 is one of more than 200; known at /f200 is")
    judged = client.get("/api/v1/contracts/t/versions/latest").json()["rules"]
    assert [each["field"] for each in judged] == [f"/f{number}" for number in range(199)]


def test_a_version_keeps_its_reasons_when_its_status_changes(client: Any) -> None:
    respond(client, "POST", "/subjects/t-value/versions", BODY)
    (before,) = client.get("/api/v1/contracts/t").json()["versions"]
    address = f"/api/v1/contracts/t/versions/{before['version']}/status"
    changed = client.post(address, b'{"status": "deprecated"}').json()
    assert (changed["status"], changed["note"]) == ("deprecated", before["note"])
    assert "path is a condition of type JSONATA" in changed["note"]


def test_a_setting_refuses_conditions_that_are_not_judged(ask: Ask) -> None:
    assert ask("PUT", "/config", {"judgeRules": True}) == (200, {"judgeRules": True})
    status, body = ask("POST", "/subjects/t-value/versions", BODY)
    assert (status, body["error_code"]) == (422, 42210)
    assert body["message"].endswith(
        "the setting judgeRules is on, and 1 rule would not be judged: path is a condition of type JSONATA. Change the "
        "conditions, or set judgeRules to false"
    )
    assert ask("GET", "/subjects")[1] == []
    status, body = ask("POST", "/subjects/t-key/versions", {**BODY, "ruleSet": {"domainRules": [KNOWN]}})
    assert (status, body["error_code"]) == (422, 42210)
    assert "known is of a subject without a contract" in body["message"]
    allowed = {"domainRules": [KNOWN, MASK]}
    assert ask("POST", "/subjects/t-value/versions", {**BODY, "ruleSet": allowed})[0] == 200
    ask("PUT", "/config/other-value", {"judgeRules": False})
    assert ask("POST", "/subjects/other-value/versions", BODY)[0] == 200


@only_sqlite
@pytest.mark.parametrize(
    ("rule", "fields", "reason"),
    [
        ({"name": "Known", "expr": "message.b != 'x'"}, 1, "Known is not an expression that the judge"),
        (
            {"name": "k" * 90, "expr": "message.b != 'x'"},
            1,
            f"{'k' * 90} is not an expression that the judge",
        ),
        (
            {"name": "known", "type": "CEL_FIELD", "expr": "odd(value)"},
            2,
            "known at /f0 is not an expression that the judge",
        ),
        (
            {"name": "Known", "type": "CEL_FIELD", "expr": "value != 'x'"},
            202,
            "Known at /f200 is one of more than 200; Known at /f201 is one",
        ),
    ],
    ids=["capital", "long", "fields", "many"],
)
def test_a_rule_is_one_rule_and_has_its_name(
    client: Any, ask: Ask, rule: dict[str, str], fields: int, reason: str
) -> None:
    """They were counted once for each field, and `judgeRules` did not know them by their ids."""
    properties = {f"f{number}": {"type": "string"} for number in range(fields)}
    schema = json.dumps({"type": "object", "properties": properties})
    rules = {"domainRules": [{**KNOWN, "mode": "WRITE", **rule}]}
    body = {"schemaType": "JSON", "schema": schema, "ruleSet": rules}
    answer = respond(client, "POST", "/subjects/t-value/versions", body)
    assert answer.headers[HEADER].startswith(f"1; {reason}")
    ask("PUT", "/config/u-value", {"judgeRules": True})
    status, refused = ask("POST", "/subjects/u-value/versions", body)
    assert (status, refused["error_code"]) == (422, 42210)
    assert f"1 rule would not be judged: {reason}" in refused["message"]


@only_sqlite
@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({"name": "odd"}, "in the schema at /a is without an expression"),
        ({"name": "O\nd", "expr": "odd(this)"}, "in the schema at /a (O\\u000ad) is not an expression that"),
    ],
    ids=["none", "unknown"],
)
@pytest.mark.parametrize("rules", [{}, {"ruleSet": {"domainRules": []}}], ids=["alone", "beside"])
def test_the_setting_concerns_rules_that_only_the_schema_has(
    client: Any, ask: Ask, rule: Any, reason: str, rules: Any
) -> None:
    """Without a rule set beside it, such a schema was registered all the same."""
    properties = {"a": {"type": "string", "confluent:rules": [rule]}}
    schema = json.dumps({"type": "object", "properties": properties})
    body = {"schemaType": "JSON", "schema": schema, **rules}
    answer = respond(client, "POST", "/subjects/t-value/versions", body)
    assert answer.headers[HEADER].startswith(f"1; {reason}")
    ask("PUT", "/config/u-value", {"judgeRules": True})
    status, refused = ask("POST", "/subjects/u-value/versions", body)
    assert (status, refused["error_code"]) == (422, 42210)
    assert f"1 rule would not be judged: {reason}" in refused["message"]


def test_the_page_of_a_contract_names_them(client: Any) -> None:
    up = {"name": "up", "kind": "TRANSFORM", "mode": "UPGRADE", "type": "JSONATA", "expr": "$"}
    rules = {"domainRules": [MASK, PATH], "migrationRules": [up]}
    respond(client, "POST", "/subjects/t-value/versions", {**BODY, "ruleSet": rules})
    page = client.get("/desk/contracts/t").text
    assert "3 rules for clients only" in page
    assert "up is a migration of type JSONATA and mode UPGRADE" in page
    assert "path is a condition of type JSONATA" in page
    assert "no rules beside its schema" not in page


def test_the_native_api_refuses_rules_that_only_the_schema_has(client: Any) -> None:
    age = {"type": "integer", "confluent:rules": [{"name": "grown", "expr": "this > 17"}, {"name": "odd"}]}
    document: dict[str, Any] = {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": "native",
        "version": "1.0.0",
        "topic": "native",
        "schema": {"type": "json-schema", "definition": {"type": "object", "properties": {"age": age}}},
    }
    answer = client.post("/api/v1/contracts", content=json.dumps(document))
    assert answer.status_code == 422
    messages = answer.text
    assert (
        "the schema carries a rule for clients at /age (confluent.grown.age), which is judged only if"
        in messages
    )
    assert "one in the schema at /age is without an expression: it is not judged, so remove it" in messages
    del age["confluent:rules"][1]
    grown = {"id": "confluent.grown.age", "kind": "cel", "field": "/age", "expr": "value > 17"}
    document["rules"] = [grown]
    assert client.post("/api/v1/contracts", content=json.dumps(document)).status_code == 201
