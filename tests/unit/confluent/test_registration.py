from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.unit.confluent.conftest import Ask, record
from tidegate.gateway.access.principal import ANONYMOUS as SOMEBODY
from tidegate.gateway.factory import Factory
from tidegate.gateway.registry.registration import RegistrationOptions
from tidegate.gateway.registry.schemas.entities import SchemaRequest

STRING = {"schema": '"string"'}

# What is refused before anything is stored is refused alike on every database: once is enough.
only_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def test_the_first_version_of_a_subject(ask: Ask) -> None:
    status, body = ask("POST", "/subjects/plain/versions?normalize=False", {"schema": record("a")})
    assert status == 200
    assert {key: body[key] for key in ("subject", "version", "id", "schemaType", "deleted")} == {
        "subject": "plain",
        "version": 1,
        "id": 1,
        "schemaType": "AVRO",
        "deleted": False,
    }
    assert body["schema"] == '{"type":"record","name":"U","fields":[{"name":"a","type":"int"}]}'


def test_the_same_schema_again_is_the_same_version_and_elsewhere_the_same_id(ask: Ask) -> None:
    first = ask("POST", "/subjects/a/versions", STRING)[1]
    again = ask("POST", "/subjects/a/versions", {"schema": '{"type": "string"}'})[1]
    elsewhere = ask("POST", "/subjects/b/versions", STRING)[1]
    assert (first["id"], first["version"]) == (again["id"], again["version"]) == (1, 1)
    assert (elsewhere["id"], elsewhere["guid"], elsewhere["version"]) == (1, first["guid"], 1)
    assert ask("GET", "/schemas/ids/1/subjects")[1] == ["a", "b"]
    assert ask("GET", "/schemas/ids/1/versions?offset=1&limit=-1")[1] == [{"subject": "b", "version": 1}]


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ({"schema": "{"}, 42201, "Invalid schema: it is not valid JSON"),
        ({"schema": '{"type":"record"}'}, 42201, "Invalid schema: not an Avro schema"),
        ({"schema": '{"type":"nope"}', "schemaType": "JSON"}, 42201, "Invalid schema: not a JSON Schema"),
        ({"schema": "x", "schemaType": "PROTOBUF"}, 42201, "PROTOBUF is not supported"),
        ({"schema": "x", "schemaType": "avro"}, 42201, "in capitals"),
        ({"schema": ""}, 42201, "Empty schema"),
        ({"schema": '"string"', "id": 7}, 42205, "not in import mode"),
        ({"schema": '"string"', "version": 3}, 42201, "Version is not one more than previous version"),
        (
            {"schema": '"x.Y"', "references": [{"name": "x.Y", "subject": "none", "version": 1}]},
            42201,
            "the reference 'x.Y' leads to version 1 of the subject 'none', which does not exist",
        ),
    ],
    ids=["json", "avro", "json-schema", "protobuf", "case", "empty", "id", "version", "reference"],
)
@only_sqlite
def test_what_cannot_be_registered_is_refused_with_its_number(
    ask: Ask, body: dict[str, Any], code: int, message: str
) -> None:
    status, answer = ask("POST", "/subjects/s/versions", body)
    assert (status, answer["error_code"]) == (422, code)
    assert message in answer["message"]
    assert ask("GET", "/subjects")[1] == []


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ({"name": "r", "type": "SQL", "kind": "CONDITION"}, "'SQL', which no client runs"),
        ({"name": "1r", "type": "CEL"}, "is not a rule name"),
        ({"name": "r" * 257, "type": "CEL"}, "is not a rule name"),
        ({"name": "r", "type": "CEL", "mode": "UPGRADE"}, "can only be WRITE, READ, WRITEREAD"),
        ({"name": "r", "type": "CEL", "mode": "WRITE", "onFailure": "DLQ,NONE"}, "names two actions"),
        ({"name": "r", "type": "CEL", "mode": "SOMETIMES"}, "mode"),
        ({"type": "CEL"}, "name"),
    ],
    ids=["type", "name", "long", "mode", "actions", "unknown-mode", "nameless"],
)
@only_sqlite
def test_a_rule_that_no_client_could_run_is_42210_and_not_kept(
    ask: Ask, rule: dict[str, Any], told: str
) -> None:
    status, answer = ask("POST", "/subjects/s/versions", {**STRING, "ruleSet": {"domainRules": [rule]}})
    assert (status, answer["error_code"]) == (422, 42210)
    assert told in answer["message"]
    assert ask("GET", "/subjects")[1] == []


def test_rule_names_are_unique_over_all_lists(ask: Ask) -> None:
    rule = {"name": "r", "type": "CEL"}
    rules = {"domainRules": [rule], "migrationRules": [{**rule, "mode": "UPGRADE"}]}
    assert ask("POST", "/subjects/s/versions", {**STRING, "ruleSet": rules})[1]["error_code"] == 42210


def test_metadata_and_rules_are_kept_inherited_and_give_a_new_id(ask: Ask) -> None:
    metadata = {"properties": {"owner": "flow"}, "tags": {"**.a": ["PII"]}, "sensitive": ["owner"]}
    rule = {"name": "r", "kind": "CONDITION", "type": "CEL", "mode": "WRITE", "expr": "message.a > 0"}
    plain = ask("POST", "/subjects/s/versions", {"schema": record("a")})[1]
    rich = ask(
        "POST",
        "/subjects/s/versions",
        {"schema": record("a"), "metadata": metadata, "ruleSet": {"domainRules": [rule]}},
    )[1]
    assert (rich["id"], rich["version"]) == (2, 2)
    assert rich["guid"] != plain["guid"]
    found = ask("GET", "/subjects/s/versions/latest")[1]
    assert found["metadata"] == metadata
    assert found["ruleSet"]["domainRules"] == [{**rule, "disabled": False}]
    wider = ask("POST", "/subjects/s/versions", {"schema": record("a", b=1)})[1]
    assert wider["metadata"] == metadata
    assert wider["ruleSet"] == found["ruleSet"]


def test_an_empty_schema_changes_only_what_belongs_to_it(ask: Ask) -> None:
    ask("POST", "/subjects/s/versions", {"schema": record("a")})
    changed = ask("POST", "/subjects/s/versions", {"schema": "", "metadata": {"properties": {"k": "v"}}})[1]
    assert changed["version"] == 2
    assert json.loads(changed["schema"])["fields"] == [{"name": "a", "type": "int"}]


@only_sqlite
def test_tags_of_metadata_classify_the_fields_that_they_name(ask: Ask) -> None:
    definition = {
        "type": "object",
        "properties": {
            "ssn": {"type": "string"},
            "open": {"type": "string"},
            "lines": {
                "type": "array",
                "items": {"type": "object", "properties": {"name": {"type": "string"}}},
            },
        },
    }

    def classified(tags: dict[str, list[str]] | None) -> dict[str, str]:
        metadata = {"properties": {}, "tags": tags} if tags is not None else {"properties": {"k": "v"}}
        body = {"schema": json.dumps(definition), "schemaType": "JSON", "metadata": metadata}
        assert ask("POST", "/subjects/tagged-value/versions", body)[0] == 200
        latest = ask("GET", "/api/v1/contracts/tagged/versions/latest")[1]
        found: dict[str, str] = latest.get("classification", {})
        return found

    assert classified({"**.ssn": ["PII"], "**.name": ["PII"], "**.open": ["public"]}) == {
        "/lines/*/name": "confluent:PII",
        "/ssn": "confluent:PII",
    }
    assert classified({"**.ssn": ["SECRET"]}) == {"/ssn": "confluent:SECRET"}
    assert classified(None) == {}


def test_version_minus_one_asks_for_the_next_and_is_written_into_the_metadata(ask: Ask) -> None:
    first = ask("POST", "/subjects/s/versions", {**STRING, "version": -1})[1]
    again = ask("POST", "/subjects/s/versions", {**STRING, "version": -1})[1]
    changed = {**STRING, "version": -1, "metadata": {"sensitive": ["confluent:version"]}}
    second = ask("POST", "/subjects/s/versions", changed)[1]
    assert again == first
    assert (first["version"], first["metadata"]) == (1, {"properties": {"confluent:version": "1"}})
    assert (second["version"], second["metadata"]["properties"]) == (2, {"confluent:version": "2"})


def test_defaults_and_overrides_of_the_settings_are_merged_by_rule_name(ask: Ask) -> None:
    def rules(**exprs: str) -> dict[str, Any]:
        return {"domainRules": [{"name": name, "type": "CEL", "expr": expr} for name, expr in exprs.items()]}

    ask(
        "PUT",
        "/config/s",
        {
            "defaultMetadata": {"properties": {"a": "default", "b": "default"}},
            "overrideMetadata": {"properties": {"c": "override"}},
            "defaultRuleSet": rules(one="default", two="default"),
            "overrideRuleSet": rules(three="override"),
        },
    )
    body = ask(
        "POST",
        "/subjects/s/versions",
        {
            **STRING,
            "metadata": {"properties": {"b": "own", "c": "own"}},
            "ruleSet": rules(two="own", three="own"),
        },
    )[1]
    assert body["metadata"]["properties"] == {"a": "default", "b": "own", "c": "override"}
    found = {rule["name"]: rule["expr"] for rule in body["ruleSet"]["domainRules"]}
    assert found == {"one": "default", "two": "own", "three": "override"}


def test_normalizing_finds_a_schema_whose_members_stand_in_another_order(ask: Ask) -> None:
    text = '{"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "string"}}}'
    other = '{"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}'
    ask("POST", "/subjects/s/versions?normalize=True", {"schema": text, "schemaType": "JSON"})
    plain = ask("POST", "/subjects/s?normalize=False", {"schema": other, "schemaType": "JSON"})
    normal = ask("POST", "/subjects/s?normalize=true", {"schema": other, "schemaType": "JSON"})
    assert (plain[0], plain[1]["error_code"]) == (404, 40403)
    assert (normal[0], normal[1]["version"]) == (200, 1)


@pytest.mark.parametrize("scope", ["/config", "/config/s"])
def test_normalizing_may_be_a_setting(ask: Ask, scope: str) -> None:
    assert ask("PUT", scope, {"normalize": True}) == (200, {"normalize": True})
    body = {"schema": '{"properties": {"b": {}, "a": {}}, "type": "object"}', "schemaType": "JSON"}
    other = {**body, "schema": '{"type": "object", "properties": {"a": {}, "b": {}}}'}
    made = ask("POST", "/subjects/s/versions", body)[1]
    assert made["schema"] == '{"properties":{"a":{},"b":{}},"type":"object"}'
    assert ask("GET", f"/schemas/ids/{made['id']}/schema")[1] == json.loads(made["schema"])
    assert ask("POST", "/subjects/s/versions", other)[1]["version"] == 1


def test_lookup_tells_an_unknown_subject_from_an_unknown_schema(ask: Ask) -> None:
    assert ask("POST", "/subjects/s?deleted=True", STRING) == (
        404,
        {"error_code": 40401, "message": "Subject 's' not found."},
    )
    ask("POST", "/subjects/s/versions", STRING)
    assert ask("POST", "/subjects/s", {"schema": '"int"'}) == (
        404,
        {"error_code": 40403, "message": "Schema not found"},
    )


def test_references_are_resolved_shown_and_protected(ask: Ask) -> None:
    ask("POST", "/subjects/unit/versions", {"schema": record("x", name="com.x.Unit")})
    reference = {"name": "com.x.Unit", "subject": "unit", "version": -1}
    schema = json.dumps({"type": "record", "name": "T", "fields": [{"name": "u", "type": "com.x.Unit"}]})
    body = ask("POST", "/subjects/thing/versions", {"schema": schema, "references": [reference]})[1]
    assert body["references"] == [{**reference, "version": 1}]
    assert json.loads(body["schema"])["fields"] == [{"name": "u", "type": "com.x.Unit"}]
    resolved = json.loads(ask("GET", "/schemas/ids/2?format=resolved")[1]["schema"])
    assert resolved["fields"][0]["type"]["fields"] == [{"name": "x", "type": "int"}]
    assert ask("GET", "/subjects/unit/versions/1/referencedby?offset=0&limit=-1") == (200, [2])
    assert ask("DELETE", "/subjects/unit/versions/1")[1]["error_code"] == 42206
    assert ask("DELETE", "/subjects/unit")[1]["error_code"] == 42206
    ask("DELETE", "/subjects/thing")
    assert ask("DELETE", "/subjects/unit") == (200, [1])


def test_json_references_are_resolved_by_name(ask: Ask) -> None:
    unit = '{"$id": "unit.json", "type": "object", "properties": {"x": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}'
    ask("POST", "/subjects/unit/versions", {"schema": unit, "schemaType": "JSON"})
    body = {
        "schema": '{"type": "object", "properties": {"u": {"$ref": "unit.json"}}}',
        "schemaType": "JSON",
        "references": [{"name": "unit.json", "subject": "unit", "version": 1}],
    }
    assert ask("POST", "/subjects/thing/versions", body)[0] == 200
    without = {**body, "references": []}
    assert ask("POST", "/subjects/other/versions", without)[1]["error_code"] == 42201


def test_tags_are_added_to_a_version_and_removed(ask: Ask) -> None:
    ask("POST", "/subjects/s/versions", {"schema": record("a", name="com.x.U")})
    place = {"entityPath": ".com.x.U.a", "entityType": "sr_field"}
    added = ask(
        "POST", "/subjects/s/versions/1/tags", {"tagsToAdd": [{"schemaEntity": place, "tags": ["PII"]}]}
    )[1]
    assert json.loads(added["schema"])["fields"][0]["confluent:tags"] == ["PII"]
    removed = ask(
        "POST",
        "/subjects/s/versions/latest/tags",
        {"tagsToRemove": [{"schemaEntity": place, "tags": ["PII"]}]},
    )[1]
    assert removed["version"] == 1
    nowhere = {"entityPath": ".com.x.U.z"}
    refused = ask(
        "POST", "/subjects/s/versions/1/tags", {"tagsToAdd": [{"schemaEntity": nowhere, "tags": ["T"]}]}
    )
    assert refused[1]["error_code"] == 42201


def test_a_registration_adds_tags_removes_them_and_takes_those_of_the_version_before(ask: Ask) -> None:
    def entity(name: str, *tags: str) -> dict[str, Any]:
        return {"schemaEntity": {"entityPath": f".com.x.U.{name}", "entityType": "sr_field"}, "tags": tags}

    def tags_of(found: Any) -> dict[str, Any]:
        return {field["name"]: field.get("confluent:tags") for field in json.loads(found["schema"])["fields"]}

    path = "/subjects/s/versions"
    body = {"schema": record("a", "b", name="com.x.U"), "schemaTagsToAdd": [entity("a", "PII", "X")]}
    assert tags_of(ask("POST", path, body)[1]) == {"a": ["PII", "X"], "b": None}
    body = {"schema": record("a", c=1, name="com.x.U"), "propagateSchemaTags": True}
    body |= {"schemaTagsToAdd": [entity("c", "Y")], "schemaTagsToRemove": [entity("a", "X")]}
    assert tags_of(ask("POST", path, body)[1]) == {"a": ["PII"], "c": ["Y"]}
    body = {"schema": record("a", d=1, name="com.x.U")}
    assert tags_of(ask("POST", path, body)[1]) == {"a": None, "d": None}
    body = {"schema": record("a", d=2, name="com.x.U"), "propagateSchemaTags": True}
    assert tags_of(ask("POST", path, body)[1]) == {"a": None, "d": None}


def test_tags_may_make_a_version_of_a_given_number_and_rules_come_with_where_they_are_enabled(
    ask: Ask,
) -> None:
    rule = {"name": "known", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "message.a != 9"}
    rules = {"enableAt": "CLIENT", "domainRules": [{**rule, "disabled": False}]}
    ask("POST", "/subjects/s/versions", {"schema": record("a"), "ruleSet": rules})
    assert ask("GET", "/subjects/s/versions/1")[1]["ruleSet"]["enableAt"] == "CLIENT"
    place = {"entityPath": ".U.a", "entityType": "sr_field"}
    tags = [{"schemaEntity": place, "tags": ["PII"]}]
    late = ask("POST", "/subjects/s/versions/1/tags", {"newVersion": 5, "tagsToAdd": tags})
    assert (late[0], late[1]["error_code"]) == (422, 42201)
    made = ask("POST", "/subjects/s/versions/1/tags", {"newVersion": 2, "tagsToAdd": tags})[1]
    assert (made["version"], made["metadata"]["properties"]["confluent:version"]) == (2, "2")
    assert made["ruleSet"] == rules


ARRAY_OF_U = {
    "schema": '{"type": "array", "items": "U"}',
    "references": [{"name": "U", "subject": "u", "version": -1}],
}


@pytest.mark.parametrize("name", ["reference_format", "referenceFormat"])
def test_references_are_shown_as_they_were_registered_or_with_whole_names(ask: Ask, name: str) -> None:
    ask("POST", "/subjects/:.c:u/versions", {"schema": record("a")})
    made = ask("POST", "/subjects/:.c:s/versions", ARRAY_OF_U)[1]

    def shown(path: str, format_: str | None, body: Any = None, **headers: str) -> list[str]:
        join = "&" if "?" in path else "?"
        query = "" if format_ is None else f"{join}{name}={format_}"
        status, found = ask("GET" if body is None else "POST", f"{path}{query}", body, **headers)
        assert status == 200
        assert [(one["name"], one["version"]) for one in found["references"]] == [("U", 1)]
        return [one["subject"] for one in found["references"]]

    paths: list[tuple[str, Any]] = [
        (f"/schemas/ids/{made['id']}?subject=:.c:s", None),
        (f"/contexts/.c/schemas/ids/{made['id']}", None),
        (f"/schemas/guids/{made['guid']}", None),
        ("/subjects/:.c:s/versions/latest", None),
        ("/subjects/:.c:s", ARRAY_OF_U),
    ]
    for path, body in paths:
        for _ in range(2):  # from the database, then from memory
            for format_ in (None, "", "default", "DEFAULT"):
                assert shown(path, format_, body) == ["u"], path
            for format_ in ("qualified", "QUALIFIED"):
                assert shown(path, format_, body) == [":.c:u"], path
            # It looks for a subject by the name that it is shown, in whatever context the schema is.
            python = {"Confluent_Client_Version": "python/2.16.0"}
            assert shown(path, None, body, **python) == [":.c:u"], path
            assert shown(path, "default", body, **python) == ["u"], path
        assert shown(path, "odd", body) == ["u"], path


def test_a_reference_leads_into_the_context_of_the_schema_wherever_that_is_copied(ask: Ask) -> None:
    guids = []
    for context, field in ((".c", "a"), (".d", "b")):
        ask("POST", f"/subjects/:{context}:u/versions", {"schema": record(field)})
        made = ask("POST", f"/subjects/:{context}:s/versions", ARRAY_OF_U)[1]
        guids.append(made["guid"])
        resolved = ask("GET", f"/schemas/ids/{made['id']}?subject=:{context}:s&format=resolved")[1]
        assert json.loads(resolved["schema"])["items"]["fields"][0]["name"] == field
        assert ask("GET", f"/subjects/:{context}:u/versions/1/referencedby")[1] == [made["id"]]
        assert ask("DELETE", f"/subjects/:{context}:u")[1]["error_code"] == 42206
    # The name is hashed as it was registered, as Confluent does: a copy keeps its GUID.
    assert guids[0] == guids[1]
    whole = {**ARRAY_OF_U, "references": [{"name": "U", "subject": ":.c:u", "version": 1}]}
    other = ask("POST", "/subjects/:.d:other/versions", whole)[1]
    assert other["references"] == whole["references"]
    assert other["guid"] not in guids


def test_the_python_client_gets_tags_in_the_schema(ask: Ask) -> None:
    body = {
        "schema": record("a", "b", name="com.x.U"),
        "metadata": {"tags": {"**.a": ["PII"]}, "properties": {"k": "v"}},
    }
    ask("POST", "/subjects/s/versions", body)
    python = ask("GET", "/schemas/ids/1", Confluent_Client_Version="python/2.16.0")[1]
    assert python["metadata"] == {"properties": {"k": "v"}}
    tags = {field["name"]: field.get("confluent:tags") for field in json.loads(python["schema"])["fields"]}
    assert tags == {"a": ["PII"], "b": None}
    java = ask("GET", "/schemas/ids/1", Confluent_Client_Version="java/8.1.0")[1]
    assert java["metadata"]["tags"] == {"**.a": ["PII"]}


def test_32_registrations_of_one_schema_at_once_give_one_id_and_one_contract_version(
    factory: Factory,
) -> None:
    request = SchemaRequest(schema_text=record("a"))
    barrier = threading.Barrier(32)

    def register(_: int) -> tuple[int, int, bool]:
        barrier.wait()
        done = factory.registration().register("t-value", request, RegistrationOptions(SOMEBODY))
        return done.version.schema.id, done.version.number, done.is_new

    with ThreadPoolExecutor(32) as pool:
        found = sorted(pool.map(register, range(32)))
    assert found == [(1, 1, False)] * 31 + [(1, 1, True)]
    assert [version.number for version in factory.registry().versions("t")] == [1]


def test_registrations_of_different_schemas_at_once_each_get_their_number(factory: Factory) -> None:
    factory.subject_settings().put_config("t-value", {"compatibility": "NONE"}, SOMEBODY)

    def register(number: int) -> tuple[int, int]:
        request = SchemaRequest(schema_text=record(f"f{number}"))
        done = factory.registration().register("t-value", request, RegistrationOptions(SOMEBODY))
        return done.version.schema.id, done.version.number

    with ThreadPoolExecutor(8) as pool:
        found = sorted(pool.map(register, range(16)))
    assert found == [(number, number) for number in range(1, 17)]
    assert len(factory.registry().versions("t")) == 16
