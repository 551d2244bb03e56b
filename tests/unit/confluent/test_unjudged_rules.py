"""Rules that are stored and not judged: counted, with the reason, in each place; or refused."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.confluent.conftest import Ask, record, respond

MASK = {"name": "mask", "kind": "TRANSFORM", "mode": "WRITE", "type": "CEL_FIELD", "expr": "'x'"}
PATH = {"name": "path", "kind": "CONDITION", "mode": "WRITE", "type": "JSONATA", "expr": "a > 0"}
KNOWN = {"name": "known", "kind": "CONDITION", "mode": "READ", "type": "CEL", "expr": "message.a != 'x'"}
RULES = {"domainRules": [MASK, PATH, KNOWN]}
BODY = {"schema": record("a"), "ruleSet": RULES}
HEADER = "Tidegate-Rules-Not-Judged"
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


def test_the_page_of_a_contract_names_them(client: Any) -> None:
    respond(client, "POST", "/subjects/t-value/versions", {**BODY, "ruleSet": {"domainRules": [MASK, PATH]}})
    page = client.get("/desk/contracts/t").text
    assert "2 rules for clients only" in page
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
