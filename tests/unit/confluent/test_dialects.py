"""JSON Schemas that name no draft: read as draft 7 here, and compatible only as draft 7 and 2020-12 have it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from tests.unit.confluent.conftest import Ask, respond
from tidegate.contracts.document.load import parse_contract
from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.verdict import Disposition
from tidegate.gateway.factory import Factory
from tidegate.gateway.registry.schemas.json_schema import DRAFT_7, NEWEST, differences

MakeContract = Callable[..., bytes]
NATIVE = "/api/v1/contracts"
TUPLE = {"type": "array", "items": [{"type": "integer"}, {"type": "string"}], "additionalItems": False}
NONE_OF_KIND = {"type": "array", "contains": {"type": "integer"}, "minContains": 0}
SIBLINGS = {
    "type": "object",
    "properties": {"name": {"$ref": "#/definitions/text", "maxLength": 3}},
    "definitions": {"text": {"type": "string", "maxLength": 5}},
}

# What is said of schemas is said alike on every database: once is enough.
only_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def posted(schema: Any, **more: Any) -> dict[str, Any]:
    return {"schema": json.dumps(schema), "schemaType": "JSON", **more}


def register(ask: Ask, subject: str, schema: Any, **more: Any) -> dict[str, Any]:
    status, body = ask("POST", f"/subjects/{subject}/versions", posted(schema, **more))
    assert status == 200, body
    found: dict[str, Any] = body
    return found


def document_of(client: Any, contract: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"{NATIVE}/{contract}/versions/latest").json()
    return found


def verdicts(client: Any, contract: str, *records: Any) -> list[str]:
    body = json.dumps({"records": [{"value": one} for one in records]}).encode()
    url = f"{NATIVE}/{contract}/versions/latest/judge"
    answer = client.request("POST", url, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 200, answer.text
    return [one["disposition"] for one in answer.json()["verdicts"]]


def with_reading(schema: dict[str, Any], uri: str) -> dict[str, Any]:
    return {"$schema": uri, **schema}


def forget_dialects(factory: Factory) -> None:
    """Leave the rows as a registry wrote them that kept no dialect."""
    engine = create_engine(factory.settings.database_url.get_secret_value())
    with engine.begin() as connection:
        connection.execute(text("UPDATE subject_versions SET dialect = NULL"))
    engine.dispose()


class TestReading:
    def test_a_tuple_is_registered_and_shown_as_it_was_sent(self, ask: Ask) -> None:
        found = register(ask, "pairs-value", TUPLE)
        assert json.loads(found["schema"]) == TUPLE
        assert ask("GET", f"/schemas/ids/{found['id']}")[1]["schema"] == found["schema"]

    def test_the_document_carries_the_dialect_and_every_judge_reads_by_it(
        self, client: Any, ask: Ask
    ) -> None:
        register(ask, "pairs-value", TUPLE)
        document = document_of(client, "pairs")
        assert document["schema"]["definition"] == with_reading(TUPLE, DRAFT_7)
        assert verdicts(client, "pairs", [1, "a"], ["a", 1], [1, "a", 2]) == [
            "accepted",
            "quarantined",
            "quarantined",
        ]
        downloaded = parse_contract(json.dumps(document), name="c.json", read_schema=None).contract
        explained = compile_plan(downloaded).explain(b'["a", 1]')
        assert explained.disposition is Disposition.QUARANTINED

    def test_what_draft_7_ignores_refuses_nothing(self, client: Any, ask: Ask) -> None:
        register(ask, "names-value", SIBLINGS)
        assert verdicts(client, "names", {"name": "abcd"}, {"name": "abcdef"}) == ["accepted", "quarantined"]
        register(ask, "lists-value", NONE_OF_KIND)
        assert verdicts(client, "lists", [], [1]) == ["quarantined", "accepted"]

    @pytest.mark.parametrize(("uri", "expected"), [(DRAFT_7, 200), (NEWEST, 422)])
    @only_sqlite
    def test_a_schema_that_names_its_draft_is_read_by_it(self, ask: Ask, uri: str, expected: int) -> None:
        assert ask("POST", "/subjects/t-value/versions", posted(with_reading(TUPLE, uri)))[0] == expected

    @only_sqlite
    def test_what_is_no_schema_of_draft_7_is_refused_with_the_way_out(self, ask: Ask) -> None:
        schema = {"$ref": "#there", "$defs": {"a": {"$anchor": "there"}}}
        status, body = ask("POST", "/subjects/t-value/versions", posted(schema))
        assert (status, body["error_code"]) == (422, 42201)
        assert "names no draft and is read as draft 7" in body["message"]
        assert "`$schema`" in body["message"]
        assert ask("POST", "/subjects/t-value/versions", posted(with_reading(schema, NEWEST)))[0] == 200

    @pytest.mark.parametrize("subject", ["pairs-key", ":.other:pairs-value"])
    def test_subjects_without_a_contract_keep_it_too(self, ask: Ask, subject: str) -> None:
        register(ask, subject, TUPLE)
        wider = {**TUPLE, "additionalItems": True}
        assert ask("POST", f"/compatibility/subjects/{subject}/versions", posted(wider))[1] == {
            "is_compatible": True
        }
        assert register(ask, subject, wider)["version"] == 2

    @only_sqlite
    def test_imported_schemas_too(self, client: Any, ask: Ask) -> None:
        ask("PUT", "/mode/pairs-value", {"mode": "IMPORT"})
        register(ask, "pairs-value", TUPLE, id=7, version=3)
        assert document_of(client, "pairs")["schema"]["definition"]["$schema"] == DRAFT_7

    @only_sqlite
    def test_references_are_read_with_the_schema_and_shown_in_it_without_the_dialect(
        self, client: Any, ask: Ask
    ) -> None:
        register(ask, "pair", TUPLE)
        reference = {"name": "pair.json", "subject": "pair", "version": 1}
        schema = {"properties": {"p": {"$ref": "pair.json"}}}
        found = register(ask, "held-value", schema, references=[reference])
        assert verdicts(client, "held", {"p": [1, "a"]}, {"p": ["a"]}) == ["accepted", "quarantined"]
        shown = ask("GET", f"/schemas/ids/{found['id']}?format=resolved")[1]["schema"]
        assert "$schema" not in json.loads(shown)


class TestOneText:
    def test_an_id_is_shared_with_a_contract_that_reads_it_otherwise(
        self, client: Any, ask: Ask, make_contract: MakeContract
    ) -> None:
        native = make_contract(
            id="native", topic="native", schema={"type": "json-schema", "definition": NONE_OF_KIND},
            rules=[], columns=[], primary_key=[], classification={}, expectations=[], consumers=[], mask={},
        )  # fmt: skip
        assert client.post(NATIVE, native).status_code == 201
        known = ask("GET", "/subjects/native-value/versions/1")[1]
        copied = register(ask, "copied-value", NONE_OF_KIND, metadata=known["metadata"])
        assert copied["id"] == known["id"]
        assert verdicts(client, "native", []) == ["accepted"]
        assert verdicts(client, "copied", []) == ["quarantined"]
        assert "$schema" not in document_of(client, "native")["schema"]["definition"]

    def test_what_was_registered_before_is_found_and_judged_as_it_was(
        self, factory: Factory, client: Any, ask: Ask
    ) -> None:
        first = register(ask, "old-key", NONE_OF_KIND)
        forget_dialects(factory)
        again = register(ask, "old-key", NONE_OF_KIND)
        assert (again["id"], again["version"]) == (first["id"], first["version"])
        # Other metadata make another version; the text says what it said.
        tagged = register(ask, "old-key", NONE_OF_KIND, metadata={"properties": {"owner": "a"}})
        assert tagged["version"] == 2
        kept = register(ask, "old-key", NONE_OF_KIND, metadata={"properties": {"owner": "b"}})
        assert kept["version"] == 3
        assert factory.subjects().version("old-key", 2, deleted=False).dialect == NEWEST
        # Another text is read as draft 7, in which an empty array lacks an item: what was let pass is not any more.
        status, body = ask("POST", "/subjects/old-key/versions", posted({**NONE_OF_KIND, "maxItems": 9}))
        assert status == 409
        assert "data of version 3, read as 2020-12, under the new schema, read as draft 7" in body["message"]
        assert client

    def test_a_client_that_changes_a_contracts_rules_keeps_how_it_is_read(
        self, client: Any, ask: Ask, make_contract: MakeContract
    ) -> None:
        native = make_contract(
            id="native", topic="native", schema={"type": "json-schema", "definition": NONE_OF_KIND},
            rules=[], columns=[], primary_key=[], classification={}, expectations=[], consumers=[], mask={},
        )  # fmt: skip
        assert client.post(NATIVE, native).status_code == 201
        register(ask, "native-value", NONE_OF_KIND, metadata={"properties": {"owner": "a"}})
        assert verdicts(client, "native", []) == ["accepted"]

    def test_tags_leave_how_a_version_is_read(self, client: Any, ask: Ask) -> None:
        register(ask, "names-value", SIBLINGS)
        change = {
            "tagsToAdd": [{"schemaEntity": {"entityPath": "name", "entityType": "sr_field"}, "tags": ["PII"]}]
        }
        status, body = ask("POST", "/subjects/names-value/versions/1/tags", change)
        assert (status, body["version"]) == (200, 2)
        assert document_of(client, "names")["schema"]["definition"]["$schema"] == DRAFT_7


@only_sqlite
class TestCompatibility:
    def refusal(self, ask: Ask, old: Any, new: Any, level: str = "BACKWARD") -> str:
        ask("PUT", "/config/s", {"compatibility": level})
        register(ask, "s", old)
        status, body = ask("POST", "/subjects/s/versions", posted(new))
        assert status == 409, body
        checked = ask("POST", "/compatibility/subjects/s/versions/latest", posted(new))
        assert checked == (200, {"is_compatible": False})
        message: str = body["message"]
        return message

    def test_siblings_of_a_reference_hide_a_break_from_the_newest_draft_only(self, ask: Ask) -> None:
        narrowed = {**SIBLINGS, "definitions": {"text": {"type": "string", "maxLength": 4}}}
        message = self.refusal(ask, SIBLINGS, narrowed)
        assert "data of version 1, read as draft 7, under the new schema, read as draft 7" in message
        assert "read as 2020-12" not in message
        assert 'counterexample:{"name":' in message

    def test_siblings_of_a_reference_break_the_newest_draft_only(self, ask: Ask) -> None:
        name = {"$ref": "#/definitions/text", "maxLength": 2}
        message = self.refusal(ask, SIBLINGS, {**SIBLINGS, "properties": {"name": name}})
        assert "data of version 1, read as 2020-12, under the new schema, read as 2020-12" in message
        assert "read as draft 7" not in message
        assert 'counterexample:{"name":' in message

    def test_an_empty_array_breaks_draft_7_only(self, ask: Ask) -> None:
        message = self.refusal(ask, {"type": "array"}, NONE_OF_KIND)
        assert "read as draft 7" in message
        assert "counterexample:[" in message
        assert "read as 2020-12" not in message

    def test_new_data_are_read_by_the_old_schema_in_both_drafts(self, ask: Ask) -> None:
        message = self.refusal(ask, NONE_OF_KIND, {"type": "array"}, "FORWARD")
        assert "data of the new schema, read as draft 7, under version 1, read as draft 7" in message

    def test_a_break_in_both_drafts_is_reported_once_without_a_draft(self, ask: Ask) -> None:
        message = self.refusal(ask, {"maximum": 9}, {"maximum": 8})
        assert message.count("schema.maximum-lowered") == 1
        assert "read as" not in message

    def test_what_the_newest_draft_cannot_read_breaks_its_clients(self, ask: Ask) -> None:
        message = self.refusal(ask, {"type": "array", "items": {"type": "integer"}}, TUPLE)
        assert "schema.not-readable" in message
        assert "read as 2020-12" in message
        assert "`$schema`" in message

    def test_tuples_go_on_by_the_one_draft_that_reads_them(self, ask: Ask) -> None:
        register(ask, "s", TUPLE)
        assert register(ask, "s", {**TUPLE, "additionalItems": True})["version"] == 2
        status, body = ask("POST", "/subjects/s/versions", posted(TUPLE))
        assert status == 200, body  # it is version 1
        closed = {**TUPLE, "maxItems": 1}
        status, body = ask("POST", "/subjects/s/versions", posted(closed))
        assert status == 409
        assert "read as draft 7" in body["message"]

    def test_one_that_names_its_draft_is_compared_with_both_readings_of_the_other(self, ask: Ask) -> None:
        register(ask, "s", NONE_OF_KIND)
        named = with_reading({"type": "array", "contains": {"type": "integer"}}, DRAFT_7)
        status, body = ask("POST", "/subjects/s/versions", posted(named))
        assert status == 409
        assert "data of version 1, read as 2020-12, under the new schema" in body["message"]

    def test_schemas_that_name_their_draft_are_compared_as_they_were(self, ask: Ask) -> None:
        register(ask, "s", with_reading({"type": "array"}, NEWEST))
        assert register(ask, "s", with_reading(NONE_OF_KIND, NEWEST))["version"] == 2

    def test_consumers_are_not_asked_about_what_one_kind_of_client_cannot_read(
        self, client: Any, ask: Ask, make_contract: MakeContract
    ) -> None:
        native = make_contract(
            id="native", topic="native", schema={"type": "json-schema", "definition": SIBLINGS},
            rules=[], columns=[], primary_key=[], classification={}, expectations=[], consumers=[], mask={},
        )  # fmt: skip
        assert client.post(NATIVE, native).status_code == 201
        name = {"$ref": "#/definitions/text", "maxLength": 2}
        changed = {**SIBLINGS, "properties": {"name": name}}
        status, body = ask("POST", "/subjects/native-value/versions", posted(changed))
        assert status == 409
        assert "data of version 1, read as 2020-12, under the new schema, read as 2020-12" in body["message"]
        assert "acknowledge" not in body["message"]
        assert "name its draft in `$schema`" in body["message"]

    def test_a_lenient_policy_is_lenient_in_both_drafts(self, ask: Ask) -> None:
        ask("PUT", "/config/s", {"compatibility": "BACKWARD", "compatibilityPolicy": "LENIENT"})
        register(ask, "s", {"type": "object", "properties": {"a": {"type": "string"}}})
        more = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
        assert register(ask, "s", more)["version"] == 2
        narrowed = {"type": "object", "properties": {"a": {"type": "string", "format": "uuid"}}}
        assert ask("POST", "/subjects/s/versions", posted(narrowed))[0] == 409

    def test_a_change_that_both_drafts_take_is_a_minor_version(self, client: Any, ask: Ask) -> None:
        register(ask, "names-value", SIBLINGS)
        register(
            ask, "names-value", {**SIBLINGS, "definitions": {"text": {"type": "string", "maxLength": 9}}}
        )
        assert document_of(client, "names")["version"] == "1.1.0"


@only_sqlite
class TestNamed:
    def test_registration_names_keywords_that_clients_read_differently(self, client: Any, ask: Ask) -> None:
        answer = respond(client, "POST", "/subjects/names-value/versions", posted(SIBLINGS))
        assert answer.headers["Tidegate-Read-As"] == "draft 7; read differently by clients: $ref"
        assert set(answer.json()) == set(ask("GET", "/subjects/names-value/versions/1")[1])
        (listed,) = client.get(f"{NATIVE}/names").json()["versions"]
        assert "`$ref` at /properties/name" in listed["note"]
        again = respond(client, "POST", "/subjects/names-value/versions", posted(SIBLINGS))
        assert again.headers["Tidegate-Read-As"] == answer.headers["Tidegate-Read-As"]

    def test_a_schema_that_all_clients_read_alike_is_just_read(self, client: Any) -> None:
        plain = {"type": "object", "properties": {"a": {"type": "string"}}}
        answer = respond(client, "POST", "/subjects/plain-value/versions", posted(plain))
        assert answer.headers["Tidegate-Read-As"] == "draft 7"
        (listed,) = client.get(f"{NATIVE}/plain").json()["versions"]
        assert listed.get("note") is None
        named = with_reading(plain, NEWEST)
        answer = respond(client, "POST", "/subjects/named-value/versions", posted(named))
        assert "Tidegate-Read-As" not in answer.headers

    def test_verbose_checks_name_them_too(self, ask: Ask) -> None:
        status, body = ask("POST", "/compatibility/subjects/s/versions?verbose=true", posted(NONE_OF_KIND))
        assert (status, body["is_compatible"]) == (200, True)
        (message,) = body["messages"]
        assert "`minContains`" in message


class TestKeywords:
    @pytest.mark.parametrize(
        ("schema", "named"),
        [
            ({"prefixItems": [True]}, ["prefixItems"]),
            ({"items": [True]}, ["items"]),
            ({"items": {"type": "string"}}, []),
            ({"items": [True], "additionalItems": False}, ["additionalItems", "items"]),
            ({"additionalItems": False}, []),
            ({"contains": True, "minContains": 0, "maxContains": 2}, ["maxContains", "minContains"]),
            ({"dependentRequired": {"a": ["b"]}}, ["dependentRequired"]),
            ({"dependentSchemas": {"a": True}}, ["dependentSchemas"]),
            ({"dependencies": {"a": ["b"]}}, ["dependencies"]),
            ({"unevaluatedProperties": False}, ["unevaluatedProperties"]),
            ({"unevaluatedItems": False}, ["unevaluatedItems"]),
            ({"$dynamicRef": "#"}, ["$dynamicRef"]),
            ({"$recursiveRef": "#"}, ["$recursiveRef"]),
            ({"$defs": {"a": {"$anchor": "a"}}}, ["$anchor"]),
            ({"definitions": {"a": {"$id": "#a"}}}, ["$id"]),
            ({"$id": "urn:a#", "$defs": {"a": True}}, []),
            ({"contentEncoding": "base64"}, ["contentEncoding"]),
            ({"format": "uuid"}, ["format"]),
            ({"format": "date"}, []),
            ({"not": {"$ref": "#/definitions/a", "maxLength": 1}}, ["$ref"]),
            ({"allOf": [{"$ref": "#/definitions/a", "title": "a", "$comment": "b"}]}, []),
            ({"properties": {"prefixItems": True, "minContains": {"type": "null"}}}, []),
            ({"const": {"prefixItems": []}, "default": {"items": []}}, []),
        ],
    )
    def test_each_is_named_by_its_keyword(self, schema: Any, named: list[str]) -> None:
        assert sorted(one.keyword for one in differences(schema)) == named

    def test_names_are_shown_short_and_once_however_large_the_schema_is(self) -> None:
        long = {"properties": {f"{'n' * 9_000}{index}": {"minContains": 0} for index in range(50)}}
        (found,) = differences(long)
        assert len(found.sentence) < 400
