"""Confluent's rules as rules of a contract: which are taken, what they say of records, and why others are left out."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.document.terms import OnViolation
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.verdict import Disposition, Severity
from tidegate.gateway.registry.schemas.entities import AVRO, JSON, Metadata, RuleSet
from tidegate.gateway.registry.schemas.imported_rules import ImportedRules, import_rules
from tidegate.gateway.registry.schemas.parsing import parse_schema

NOT_EXECUTED = "which readers' clients run and the stream never executes"

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "confluent:tags": ["PII"]},
        "nick": {"type": ["string", "null"]},
        "age": {"type": "integer"},
        "kind": {"enum": ["a", "b"]},
        "address": {"$ref": "#/$defs/address"},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}},
        "either": {"type": ["string", "integer"]},
    },
    "$defs": {"address": {"type": "object", "properties": {"zip": {"type": "string"}}}},
}


def rule(**members: Any) -> dict[str, Any]:
    return {"name": "checked", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", **members}


def imported(
    *rules: dict[str, Any], schema: Any = PERSON, schema_type: str = JSON, metadata: Any = None, **lists: Any
) -> ImportedRules:
    rule_set = RuleSet.model_validate({"domainRules": rules, **lists})
    found = None if metadata is None else Metadata.model_validate(metadata)
    return import_rules(rule_set, parse_schema(schema_type, json.dumps(schema), {}), found)


def plan_of(found: ImportedRules, schema: Any = PERSON, kind: str = "json-schema") -> EnforcementPlan:
    return compile_plan(
        DataContract.model_validate(
            {
                "apiVersion": "tidegate/v1",
                "kind": "DataContract",
                "id": "t",
                "version": "1.0.0",
                "topic": "t",
                "schema": {"type": kind, "definition": schema},
                "columns": [{"name": "c", "from": "/name", "type": "json"}],
                "rules": [each.model_dump(mode="json", exclude_defaults=True) for each in found.rules],
            }
        )
    )


def places(found: ImportedRules, record: Any) -> list[str]:
    """Judge a record in every way, and give the places that are refused."""
    plan = plan_of(found)
    value = json.dumps(record).encode()
    verdict = plan.explain(value)
    assert plan.judge(pa.array([value])).to_pylist()[0]["disposition"] == verdict.disposition
    return [violation.pointer for violation in verdict.violations]


def test_a_rule_of_each_field_is_asked_of_the_fields_that_clients_ask() -> None:
    found = imported(rule(type="CEL_FIELD", expr="typeName == 'STRING' ; value != ''"))
    assert found.left_out == ()
    assert [each.field for each in found.rules if each.field not in {"/age", "/either"}] == [
        "/name",
        "/nick",
        "/address/zip",
        "/lines/*/sku",
    ]
    record = {
        "name": "",
        "nick": None,
        "age": 0,
        "address": {"zip": ""},
        "lines": [{"sku": "a"}, {"sku": ""}],
    }
    assert places(found, record) == ["/name", "/address/zip", "/lines/1/sku"]
    assert places(found, {"age": 1, "either": 3}) == []
    assert places(found, {"either": ""}) == ["/either"]


def test_a_rule_with_tags_is_asked_of_tagged_fields() -> None:
    tagged = rule(type="CEL_FIELD", tags=["PII"], expr="value != 'x'")
    assert [each.field for each in imported(tagged).rules] == ["/name"]
    by_metadata = imported(tagged, metadata={"tags": {"$.nick": ["PII"]}})
    assert [each.field for each in by_metadata.rules] == ["/name", "/nick"]
    none = imported(rule(type="CEL_FIELD", tags=["OTHER"], expr="value != 'x'"))
    assert none.left_out == ("checked is about no field of the schema",)


def test_a_rule_of_a_field_knows_what_clients_tell_it() -> None:
    says = "fullName == '$.address.zip' ; name == 'zip' && typeName == 'STRING' && size(tags) == 0 && message.zip == value && value == 'ok'"
    found = imported(rule(type="CEL_FIELD", expr=says))
    assert places(found, {"address": {"zip": "ok"}, "name": "n"}) == []
    assert places(found, {"address": {"zip": "no"}}) == ["/address/zip"]


def test_a_guard_decides_whether_a_condition_is_asked_and_its_error_is_a_failure() -> None:
    found = imported(rule(expr="message.age > 17 ; message.name != ''"))
    assert places(found, {"age": 3, "name": ""}) == []
    assert places(found, {"age": 30, "name": "x"}) == []
    assert places(found, {"age": 30, "name": ""}) == [""]
    assert places(found, {"name": "x"}) == [""]


@pytest.mark.parametrize(
    ("action", "severity", "on_violation"),
    [
        (None, Severity.ERROR, OnViolation.QUARANTINE),
        ("ERROR", Severity.ERROR, OnViolation.QUARANTINE),
        ("DLQ", Severity.ERROR, OnViolation.QUARANTINE),
        ("NONE", Severity.WARNING, None),
        ("DLQ,NONE", Severity.ERROR, OnViolation.QUARANTINE),
        ("NONE,DLQ", Severity.WARNING, None),
    ],
)
def test_what_a_failure_does(
    action: str | None, severity: Severity, on_violation: OnViolation | None
) -> None:
    (taken,) = imported(rule(mode="WRITEREAD", expr="message.age > 0", onFailure=action)).rules
    assert (taken.severity, taken.on_violation) == (severity, on_violation)


@pytest.mark.parametrize("mode", ["WRITE", "READ", "WRITEREAD"])
@pytest.mark.parametrize("kind", ["CEL", "CEL_FIELD"])
def test_every_mode_of_a_domain_rule_is_judged(mode: str, kind: str) -> None:
    found = imported(rule(mode=mode, type=kind, expr="1 < 2"))
    assert found.rules
    assert found.left_out == ()


@pytest.mark.parametrize("mode", ["WRITE", "READ", "WRITEREAD"])
@pytest.mark.parametrize("kind", ["CONDITION", "TRANSFORM"])
@pytest.mark.parametrize("name", ["CEL", "CEL_FIELD", "JSONATA", "ENCRYPT", "ENCRYPT_PAYLOAD"])
@pytest.mark.parametrize("action", [None, "ERROR", "DLQ", "NONE"])
def test_no_rule_is_kept_in_silence(name: str, kind: str, mode: str, action: str | None) -> None:
    """Each is judged as a rule of its own severity, or named with what it is."""
    found = imported(rule(type=name, kind=kind, mode=mode, expr="1 < 2", onFailure=action))
    if kind == "CONDITION" and name in {"CEL", "CEL_FIELD"}:
        expected = Severity.WARNING if action == "NONE" else Severity.ERROR
        assert {each.severity for each in found.rules} == {expected}
        assert found.left_out == ()
    else:
        what = (
            f"a {kind} of type {name}, which clients run"
            if kind == "TRANSFORM"
            else f"a condition of type {name}"
        )
        assert found == ImportedRules((), (f"checked is {what}",))


@pytest.mark.parametrize("mode", ["UPGRADE", "DOWNGRADE", "UPDOWN"])
@pytest.mark.parametrize("kind", ["CONDITION", "TRANSFORM"])
def test_every_migration_is_named(kind: str, mode: str) -> None:
    found = imported(migrationRules=[rule(kind=kind, mode=mode, type="JSONATA", expr="$")])
    assert found == ImportedRules(
        (), (f"checked is a migration of type JSONATA and mode {mode}, {NOT_EXECUTED}",)
    )


@pytest.mark.parametrize(
    ("condition", "transformation", "is_judged"),
    [
        ("WRITE", "WRITE", False),
        ("WRITE", "WRITEREAD", False),
        ("WRITE", "READ", True),  # the writer has asked before, the reader changes it after the topic
        ("READ", "READ", False),  # a reader runs them from the last to the first
        ("READ", "WRITEREAD", False),
        ("READ", "WRITE", True),
        ("WRITEREAD", "WRITE", True),  # readers ask about the record of the topic
        ("WRITEREAD", "READ", True),
        ("WRITEREAD", "WRITEREAD", False),
    ],
)
def test_a_condition_is_judged_where_clients_ask_it_about_the_record_of_the_topic(
    condition: str, transformation: str, *, is_judged: bool
) -> None:
    changes = rule(
        name="mask", kind="TRANSFORM", type="CEL_FIELD", tags=["PII"], mode=transformation, expr="'x'"
    )
    for asked in (
        rule(mode=condition, expr="message.name != ''"),
        rule(mode=condition, type="CEL_FIELD", tags=["PII"], expr="value != ''"),
    ):
        assert bool(imported(asked, changes).rules) is is_judged
        assert imported(changes, asked).rules


def test_migrations_and_transformations_are_named() -> None:
    found = imported(
        rule(name="mask", kind="TRANSFORM", expr="{'a': 1}"),
        rule(name="path", kind="CONDITION", type="JSONATA", expr="$"),
        rule(name="none", expr=None),
        rule(name="off", expr="false", disabled=True),
        migrationRules=[rule(name="up", kind="TRANSFORM", mode="UPGRADE", type="JSONATA", expr="$")],
        encodingRules=[rule(name="secret", kind="TRANSFORM", mode="WRITEREAD", type="ENCRYPT_PAYLOAD")],
    )
    assert found.rules == ()
    assert found.left_out == (
        f"up is a migration of type JSONATA and mode UPGRADE, {NOT_EXECUTED}",
        "mask is a TRANSFORM of type CEL, which clients run",
        "path is a condition of type JSONATA",
        "none is without an expression",
        "secret is a TRANSFORM of type ENCRYPT_PAYLOAD, which clients run",
    )


@pytest.mark.parametrize("place", [None, "CLIENT", "GATEWAY", "nowhere"])
def test_the_stream_judges_wherever_a_rule_set_is_enabled(place: str | None) -> None:
    found = imported(rule(expr="message.age > 0"), enableAt=place)
    assert places(found, {"age": 0}) == [""]


def test_a_condition_is_judged_on_what_no_later_rule_changes() -> None:
    encrypt = rule(name="encrypt", kind="TRANSFORM", type="ENCRYPT", mode="WRITEREAD", tags=["PII"])
    names = rule(name="names", expr="message.name != ''")
    ages = rule(name="ages", expr="message.age > 0")
    whole = rule(name="whole", expr="size(message) > 0")
    fields = rule(name="fields", type="CEL_FIELD", expr="typeName == 'STRING' ; value != ''")
    before = imported(names, ages, whole, fields, encrypt)
    assert {each.id.split(".")[1].partition("-")[0] for each in before.rules} == {"ages", "fields"}
    assert "/name" not in {each.field for each in before.rules}
    assert before.left_out == (
        "names is about what a later rule of clients changes",
        "whole is about what a later rule of clients changes",
        "fields is about /name, which a later rule of clients changes",
        "encrypt is a TRANSFORM of type ENCRYPT, which clients run",
    )
    after = imported(encrypt, names)
    assert [each.id for each in after.rules] == ["confluent.names"]
    covered = imported(fields, rule(name="mask", kind="TRANSFORM", expr="{'a': 1}"))
    assert covered.rules == ()


def test_rules_that_the_schema_carries_are_judged() -> None:
    schema = {
        "type": "object",
        "confluent:rules": [{"name": "order", "doc": "From before to.", "expr": "this.from <= this.to"}],
        "properties": {
            "from": {"type": "integer"},
            "to": {"type": "integer", "confluent:rules": [{"name": "small", "expr": "this < 100"}]},
            "name": {
                "type": ["string", "null"],
                "confluent:rules": [{"name": "short", "expr": "size(this) < 3 ? '' : 'too long'"}, {"name": "odd"}],
            },
            "inner": {"type": "object", "confluent:rules": [{"name": "full", "expr": "has(this.x)"}], "properties": {"x": {}}},
            "many": {"type": "array", "items": {"type": "integer", "confluent:rules": [{"name": "each", "expr": "this > 0"}]}},
        },
    }  # fmt: skip
    found = imported(schema=schema)
    assert [(each.id, each.field) for each in found.rules] == [
        ("confluent.order", None),
        ("confluent.each.many", "/many/*"),
        ("confluent.small.to", "/to"),
        ("confluent.short.name", "/name"),
        ("confluent.full.inner", "/inner"),
    ]
    assert found.left_out == ("in the schema at /name is without an expression",)
    assert found.rules[0].description == "From before to."
    plan = plan_of(found, schema)

    def refused(record: Any) -> list[str]:
        return [each.pointer for each in plan.explain(json.dumps(record).encode()).violations]

    assert refused({"from": 1, "to": 2, "name": "ab", "inner": {"x": 1}, "many": [1]}) == []
    assert refused({"from": 1, "to": 2, "name": None}) == []
    assert refused({"from": 3, "to": 2, "name": "abc", "inner": {}, "many": [1, 0]}) == [
        "",
        "/many/1",
        "/name",
        "/inner",
    ]
    assert refused({"to": 200}) == ["", "/to"]


def test_rules_of_avro_fields_know_names_types_and_nulls() -> None:
    schema = {
        "type": "record",
        "name": "Person",
        "namespace": "com.example",
        "confluent:rules": [{"name": "named", "expr": "this.name != 'x'"}],
        "fields": [
            {"name": "name", "type": "string", "confluent:tags": ["PII"]},
            {"name": "mail", "type": ["null", "string"]},
            {"name": "age", "type": "int"},
            {"name": "tags", "type": {"type": "map", "values": "string"}},
        ],
    }
    guarded = rule(name="a", type="CEL_FIELD", expr="typeName == 'STRING' ; value != ''")
    plain = rule(
        name="b", type="CEL_FIELD", tags=["PII"], expr="fullName == 'com.example.Person.name' && value != 'y'"
    )
    asks_null = rule(name="c", type="CEL_FIELD", expr="name == 'mail' ; value != null")
    found = imported(guarded, plain, asks_null, schema=schema, schema_type=AVRO)
    assert (
        "a is not asked at /tags, which is a map, whose values have no place of their own" in found.left_out
    )
    plan = plan_of(found, schema, "avro")

    def refused(name: str, mail: str | None) -> list[str]:
        file = io.BytesIO()
        record = {"name": name, "mail": mail, "age": 1, "tags": {}}
        fastavro.schemaless_writer(file, fastavro.parse_schema(schema), record)
        verdict = plan.explain(file.getvalue())
        (judged,) = plan.judge(pa.array([file.getvalue()])).to_pylist()
        assert judged["disposition"] == verdict.disposition
        return [violation.code for violation in verdict.violations]

    assert refused("n", "m") == []
    assert refused("", "m") == ["confluent.a.name"]
    assert refused("y", "") == ["confluent.a.mail", "confluent.b.name"]
    assert refused("x", "m") == ["confluent.named"]
    assert refused("n", None) == ["confluent.c.mail"]


def test_a_failure_inside_an_expression_about_a_field_is_one() -> None:
    found = imported(rule(type="CEL_FIELD", expr="name == 'name' ; message.age > 0"))
    assert places(found, {"name": "n"}) == ["/name"]
    assert places(found, {"name": "n", "age": 1}) == []


def test_a_member_that_is_asked_for_itself_must_be_true() -> None:
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}, "name": {}}}
    found = imported(rule(expr="message.ok"), schema=schema)
    plan = plan_of(found, schema)
    dispositions = [plan.explain(value).disposition for value in (b'{"ok": true}', b'{"ok": false}', b"{}")]
    assert dispositions == [Disposition.ACCEPTED, Disposition.QUARANTINED, Disposition.QUARANTINED]


def test_names_in_literals_and_members_are_kept() -> None:
    found = imported(
        rule(type="CEL_FIELD", tags=["PII"], expr="value != 'name value message' && message.name != ''")
    )
    assert found.rules[0].expr == "value != 'name value message' && parent.name != ''"


def test_fields_beyond_a_bound_are_named() -> None:
    schema = {"type": "object", "properties": {f"f{index}": {"type": "string"} for index in range(230)}}
    found = imported(rule(type="CEL_FIELD", expr="value != ''"), schema=schema)
    assert len(found.rules) == 200
    assert len(found.left_out) == 30
    assert found.left_out[0] == "checked at /f200 is one of more than 200"
