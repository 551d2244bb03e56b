"""Rule sets of every type: kept as they came, given back by every answer, and each rule that is not judged is named."""

from __future__ import annotations

from typing import Any

from tests.unit.confluent.conftest import Ask, record, respond

MIGRATIONS = [
    {"name": name, "kind": kind, "mode": mode, "type": type_, "expr": expr, "disabled": False}
    for name, kind, mode, type_, expr in (
        ("up", "TRANSFORM", "UPGRADE", "JSONATA", "$merge([$, {'b': a}])"),
        ("down", "TRANSFORM", "DOWNGRADE", "JSONATA", "$sift($, function($v, $k) {$k != 'b'})"),
        ("either", "CONDITION", "UPDOWN", "CEL", "message.a >= 0"),
    )
]
DOMAIN: list[dict[str, Any]] = [
    {
        "name": "known",
        "doc": "999 is a placeholder.",
        "kind": "CONDITION",
        "mode": "WRITEREAD",
        "type": "CEL",
        "params": {"dlq.topic": "refused", "other": "x"},
        "expr": "message.a != 999",
        "onSuccess": "NONE,NONE",
        "onFailure": "DLQ,ERROR",
        "disabled": False,
    },
    {"name": "path", "kind": "CONDITION", "mode": "READ", "type": "JSONATA", "expr": "a > 0", "disabled": False},
    {"name": "field", "kind": "TRANSFORM", "mode": "READ", "type": "CEL_FIELD", "expr": "value", "disabled": False},
    {
        "name": "secret",
        "kind": "TRANSFORM",
        "mode": "WRITEREAD",
        "type": "ENCRYPT",
        "tags": ["PII"],
        "params": {"encrypt.kek.name": "k", "encrypt.kms.type": "local-kms"},
        "onFailure": "ERROR,NONE",
        "disabled": False,
    },
    {"name": "off", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "false", "disabled": True},
]  # fmt: skip
ENCODING = [
    {
        "name": "whole",
        "kind": "TRANSFORM",
        "mode": "WRITEREAD",
        "type": "ENCRYPT_PAYLOAD",
        "params": {"encrypt.kek.name": "k"},
        "disabled": False,
    }
]
RULES = {
    "migrationRules": MIGRATIONS,
    "domainRules": DOMAIN,
    "encodingRules": ENCODING,
    "enableAt": "CLIENT",
}
NOT_EXECUTED = "which readers' clients run and the stream never executes"
BODY = {"schema": record("a", name="h.A"), "ruleSet": RULES}


def test_a_rule_set_of_every_type_comes_back_from_every_answer_as_it_was_sent(ask: Ask) -> None:
    made = ask("POST", "/subjects/t-value/versions", BODY)[1]
    answers = [
        made,
        ask("GET", f"/schemas/ids/{made['id']}?subject=t-value&format=")[1],
        ask("GET", f"/schemas/guids/{made['guid']}")[1],
        ask("GET", "/subjects/t-value/versions/1")[1],
        ask("GET", "/subjects/t-value/versions/latest")[1],
        ask("POST", "/subjects/t-value?deleted=True", BODY)[1],
        *ask("GET", "/schemas?subjectPrefix=t-")[1],
    ]
    assert [answer["ruleSet"] for answer in answers] == [RULES] * len(answers)
    types = {rule["type"] for rule in (*MIGRATIONS, *DOMAIN, *ENCODING)}
    assert types == {"CEL", "CEL_FIELD", "JSONATA", "ENCRYPT", "ENCRYPT_PAYLOAD"}
    for name in types:
        assert [one["subject"] for one in ask("GET", f"/schemas?ruleType={name}")[1]] == ["t-value"]
    assert ask("GET", "/schemas?ruleType=SQL")[1] == []


def test_the_contract_judges_what_it_can_and_its_note_names_the_rest_with_the_reason(
    client: Any, ask: Ask
) -> None:
    answer = respond(client, "POST", "/subjects/t-value/versions", BODY)
    up = f"8; up is a migration of type JSONATA and mode UPGRADE, {NOT_EXECUTED}; down is a migration of type"
    assert answer.headers["Tidegate-Rules-Not-Judged"].startswith(up)
    (version,) = ask("GET", "/api/v1/contracts/t")[1]["versions"]
    assert version["note"].splitlines() == [
        f"the rule {what}: it is kept for clients and not judged here"
        for what in (
            f"up is a migration of type JSONATA and mode UPGRADE, {NOT_EXECUTED}",
            f"down is a migration of type JSONATA and mode DOWNGRADE, {NOT_EXECUTED}",
            f"either is a migration of type CEL and mode UPDOWN, {NOT_EXECUTED}",
            "known is about what a later rule of clients changes",
            "path is a condition of type JSONATA",
            "field is a TRANSFORM of type CEL_FIELD, which clients run",
            "secret is a TRANSFORM of type ENCRYPT, which clients run",
            "whole is a TRANSFORM of type ENCRYPT_PAYLOAD, which clients run",
        )
    ]


def test_a_rule_set_of_the_settings_reaches_the_versions_that_are_registered(ask: Ask) -> None:
    config = {
        "defaultRuleSet": {"migrationRules": MIGRATIONS[:1], "domainRules": DOMAIN[:1]},
        "overrideRuleSet": {"migrationRules": MIGRATIONS[1:2], "encodingRules": ENCODING},
        "defaultMetadata": {"tags": {"**.a": ["PII"]}, "properties": {"k": "v"}, "sensitive": ["k"]},
    }
    assert ask("PUT", "/config/s", config) == (200, config)
    assert ask("GET", "/config/s")[1] == config
    made = ask("POST", "/subjects/s/versions", {"schema": record("a")})[1]
    assert made["ruleSet"] == {
        "migrationRules": MIGRATIONS[:2],
        "domainRules": DOMAIN[:1],
        "encodingRules": ENCODING,
    }
    assert made["metadata"] == config["defaultMetadata"]
