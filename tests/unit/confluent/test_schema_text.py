"""The one spelling of a schema, its GUID, and references resolved into it."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.marks import examples
from tidegate.gateway.registry.schemas.avro_text import avro_text, with_types
from tidegate.gateway.registry.schemas.entities import Metadata, Reference, RuleSet, schema_guid
from tidegate.gateway.registry.schemas.errors import Refused
from tidegate.gateway.registry.schemas.fields import with_inline_tags
from tidegate.gateway.registry.schemas.imported_rules import import_rules
from tidegate.gateway.registry.schemas.json_schema import bundled
from tidegate.gateway.registry.schemas.parsing import parse_schema
from tidegate.gateway.registry.schemas.rule_expressions import condition, renamed

PERSON_AVRO = (
    '{"type":"record","name":"Person","namespace":"io.confluent.kafka.example","fields":['
    '{"name":"name","type":"string"},{"name":"age","type":"int"},{"name":"ssn","type":"string"},'
    '{"name":"user","type":"io.confluent.kafka.example.User"},'
    '{"name":"address","type":"io.confluent.kafka.example.Address"}]}'
)
PERSON_JSON = """{
  "$schema": "http://json-schema.org/draft-07/schema#",
  "type": "object",
  "title": "Person",
  "properties": {
    "name": {
      "type": "string"
    },
    "age": {
      "type": "integer",
      "minimum": 0
    },
    "ssn": {
      "type": "string",
      "pattern": "^[0-9]{3}-[0-9]{2}-[0-9]{4}$"
    },
    "user": {
      "$ref": "#/definitions/User"
    },
    "address": {
      "$ref": "#/definitions/Address"
    }
  },
  "required": ["name", "age"],
  "definitions": {
    "User": {
      "type": "object",
      "properties": {
        "id": {"type": "string"},
        "email": {"type": "string", "format": "email"}
      }
    },
    "Address": {
      "type": "object",
      "properties": {
        "street": {"type": "string"},
        "city": {"type": "string"},
        "zip": {"type": "string"}
      }
    }
  }
}"""
# No schema of this type is registered here; its GUIDs show that the text is hashed whatever it is.
PERSON_PROTOBUF = """syntax = "proto3";
package io.confluent.kafka.example;
import "google/protobuf/timestamp.proto";
message Person {
  string name = 1;
  int32 age = 2;
  string ssn = 3;
  User user = 4;
  Address address = 5;
}
message User {
  string id = 1;
  string email = 2;
}
message Address {
  string street = 1;
  string city = 2;
  string zip = 3;
}"""
REFERENCES = (
    Reference(name="io.confluent.kafka.example.User", subject="User", version=1),
    Reference(name="io.confluent.kafka.example.Address", subject="Address", version=2),
)
METADATA = Metadata(
    tags={"team": ("data-engineering",), "environment": ("staging", "production")},
    properties={"owner": "data-team", "version": "1.0.0", "description": "Person schema for user management"},
    sensitive=("ssn", "credit-card"),
)


def person_rule(name: str, doc: str, how: tuple[str, str, str], field: str, expr: str) -> dict[str, Any]:
    kind, mode, rule_type = how
    return {
        "name": name, "doc": doc, "kind": kind, "mode": mode, "type": rule_type, "tags": ["PERSON"],
        "params": {"field": field}, "expr": expr, "onSuccess": "none", "onFailure": "error",
    }  # fmt: skip


RULES = RuleSet.model_validate(
    {
        "migrationRules": [
            person_rule(
                "upgrade-rule-1", "Upgrade rule for field changes", ("TRANSFORM", "UPGRADE", "FIELD_UPDATE"),
                "name", "field.name = field.name.toUpperCase()",
            ),
            person_rule(
                "downgrade-rule-1", "Downgrade rule for compatibility", ("TRANSFORM", "DOWNGRADE", "FIELD_DELETE"),
                "ssn", "delete field.ssn",
            ),
        ],
        "domainRules": [
            person_rule(
                "validation-rule-1", "Validate age field", ("CONDITION", "WRITE", "FIELD_VALIDATION"),
                "age", "field.age >= 0 && field.age <= 150",
            ),
            person_rule(
                "masking-rule-1", "Mask sensitive data on read", ("TRANSFORM", "READ", "DATA_MASKING"),
                "ssn", "field.ssn = '***-**-****'",
            ),
        ],
    }
)  # fmt: skip


# Without anything, and then with rules, metadata and references counted up in binary.
# Source: Confluent Schema Registry, `schema-md5-golden-data.json`.
GUIDS = {
    PERSON_AVRO: (
        "d629bb05-ad85-3d20-fbcb-895de3c459f7",
        "c0708b8f-65f6-b698-bffe-45c1dfa8987c",
        "2034166c-90a8-1166-0ff2-f5f62c80dbe0",
        "d9877161-cfdf-d8c5-4eb4-ab37ed50e9d5",
        "5c08d70e-5347-41b2-6369-199425d044eb",
        "96825311-eb10-b7f5-48be-2a023b4c018e",
        "3619d8e0-2ee8-de51-0d9e-2520d39174d5",
        "589556fb-ad98-e8e0-94fa-e6da3455433a",
    ),
    PERSON_JSON: (
        "8d9ce1c2-8624-0d98-53ec-66d14051c703",
        "b1dd5216-670b-476a-bba4-2763ff8720d6",
        "c1410156-b1ec-346c-3b3b-e8ef9df4fd20",
        "4f438fbe-c518-fea5-e433-82bd8c77e72f",
        "ee6044f3-6476-c191-e6b6-e3eceeea87d6",
        "0476399c-ee06-5d92-14fd-f3afe300b400",
        "916dad4b-fef3-50ed-25ab-de84bd91c74a",
        "fbab57e1-71f5-063c-288a-03fbfb24c505",
    ),
    PERSON_PROTOBUF: (
        "fd291f54-9ebf-6b66-69c4-d7c94f57d765",
        "e0a5944a-07ec-f8b3-2e65-d618095d9b93",
        "56052a3d-b48e-0af1-2f4e-fb4fc5defed4",
        "89665e7a-68a3-0750-503e-cab9c5ab6494",
        "2acee2f0-10ab-9e39-ff5e-a3c6301a16fc",
        "ca144a0b-d04f-9cdf-5576-bc3e0872c2ec",
        "1b1cd912-56b3-5aec-ed5e-628e4f8d6b99",
        "6e27c5d9-341f-eedd-8d14-8e32f414f50e",
    ),
}


@pytest.mark.parametrize("number", range(8), ids="{:03b}".format)
@pytest.mark.parametrize("text", GUIDS, ids=["avro", "json", "protobuf"])
def test_guids_are_those_of_the_peer(text: str, number: int) -> None:
    references = REFERENCES if number & 4 else ()
    metadata = METADATA if number & 2 else None
    rules = RULES if number & 1 else None
    assert schema_guid(text, references, metadata, rules) == GUIDS[text][number]


def test_empty_metadata_is_not_no_metadata() -> None:
    assert schema_guid("x", (), Metadata(), None) != schema_guid("x", (), None, None)
    assert schema_guid("x", (), None, RuleSet()) == schema_guid("x", (), Metadata(), None)


SPELLINGS = {
    "primitive": ('{"type": "string"}', '"string"'),
    "bare": ("string", '"string"'),
    "logical": ('{"logicalType": "date", "type": "int"}', '{"type":"int","logicalType":"date"}'),
    "nested": ('{"type": {"type": "array", "items": {"type": "int"}}}', '{"type":"array","items":"int"}'),
    "order": (
        """{"fields": [{"type": "int", "default": 0, "name": "a", "x": 1, "order": "ascending"}], "doc": "d",
        "name": "n.s.R", "type": "record", "aliases": ["Old"], "z": 2}""",
        """{"type":"record","name":"R","namespace":"n.s","doc":"d",
        "fields":[{"name":"a","type":"int","default":0,"x":1}],"z":2,"aliases":["Old"]}""",
    ),
    "names": (
        """{"type": "record", "name": "R", "namespace": "n", "fields": [
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"}},
        {"name": "f", "type": ["null", "n.E"]}, {"name": "g", "type": {"type": "fixed", "name": "o.F", "size": 2}},
        {"name": "h", "type": {"type": "map", "values": "o.F"}, "order": "ignore"}]}""",
        """{"type":"record","name":"R","namespace":"n","fields":[
        {"name":"e","type":{"type":"enum","name":"E","symbols":["A"],"default":"A"}},
        {"name":"f","type":["null","E"]},
        {"name":"g","type":{"type":"fixed","name":"F","namespace":"o","size":2}},
        {"name":"h","type":{"type":"map","values":"o.F"},"order":"ignore"}]}""",
    ),
}


@pytest.mark.parametrize(("written", "canonical"), SPELLINGS.values(), ids=SPELLINGS)
def test_avro_has_one_spelling(written: str, canonical: str) -> None:
    found = parse_schema("AVRO", written, {})
    assert found.text == canonical.replace("\n        ", "")
    assert parse_schema("AVRO", found.text, {}).text == found.text


def test_further_properties_stand_in_order_in_the_normal_text_only() -> None:
    schema = {"type": "record", "name": "R", "fields": [], "z": 1, "a": 2}
    assert avro_text(schema) == '{"type":"record","name":"R","fields":[],"z":1,"a":2}'
    assert avro_text(schema, sort_properties=True) == '{"type":"record","name":"R","fields":[],"a":2,"z":1}'


def test_types_are_defined_where_they_are_first_met_and_the_schema_writes_records() -> None:
    unit = {"type": "record", "name": "Unit", "namespace": "h", "fields": [{"name": "w", "type": "W"}]}
    ward = {"type": "enum", "name": "W", "namespace": "h", "symbols": ["ICU"]}
    stay = {
        "type": "record",
        "name": "Stay",
        "fields": [
            {"name": "a", "type": "h.Unit"},
            {"name": "b", "type": ["null", "h.Unit", "h.W"]},
            {"name": "c", "type": {"type": "array", "items": "h.W"}},
        ],
    }
    resolved = with_types(stay, {"h.Unit": unit, "h.W": ward})
    content = io.BytesIO()
    record = {"a": {"w": "ICU"}, "b": None, "c": ["ICU"]}
    fastavro.schemaless_writer(content, fastavro.parse_schema(resolved), record)
    assert content.getvalue()


def test_a_bundle_means_what_its_parts_mean_together() -> None:
    others = {
        "unit.json": {
            "$id": "https://example.org/unit.json",
            "type": "object",
            "properties": {
                "ward": {"$ref": "#/$defs/ward"},
                "part": {"$ref": "#"},
                "other": {"$ref": "note.json"},
            },
            "$defs": {"ward": {"enum": ["icu"]}},
        },
        "note.json": {"type": "string"},
    }
    root = {
        "$id": "https://example.org/stay.json",
        "properties": {
            "unit": {"$ref": "unit.json"},
            "ward": {"$ref": "unit.json#/$defs/ward"},
            "next": {"$ref": "#"},
            "literal": {"const": {"$ref": "unit.json"}},
        },
    }
    bundle = bundled(root, others)
    validator = jsonschema_rs.validator_for(bundle, offline=True)
    assert validator.is_valid({"unit": {"ward": "icu", "part": {"ward": "icu"}, "other": "x"}, "ward": "icu"})
    for wrong in (
        {"unit": {"part": {"ward": "x"}}},
        {"ward": 1},
        {"next": {"ward": 1}},
        {"unit": {"other": 1}},
    ):
        assert not validator.is_valid(wrong)
    assert bundle["properties"]["literal"] == {"const": {"$ref": "unit.json"}}


@pytest.mark.parametrize(
    "draft",
    [
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    ],
)
def test_every_draft_takes_references(draft: str) -> None:
    other = parse_schema("JSON", json.dumps({"$schema": draft, "type": "integer"}), {})
    text = json.dumps({"$schema": draft, "properties": {"a": {"$ref": "other"}}})
    found = parse_schema("JSON", text, {"other": other})
    validator = jsonschema_rs.validator_for(found.definition, offline=True)
    assert validator.is_valid({"a": 1})
    assert not validator.is_valid({"a": "x"})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "NaN",
        '{"minimum": 1e999}',
        '{"title": "\\ud800"}',
        "[" * 50_000,
        '{"$ref": "https://example.org/x"}',
        "1",
    ],
)
def test_what_is_no_json_schema_is_refused(text: str) -> None:
    with pytest.raises(Refused) as raised:
        parse_schema("JSON", text, {})
    assert raised.value.error_code == 42201


@pytest.mark.parametrize("stars", ["*", "**", "***"])
def test_a_path_of_many_wildcards_is_matched_without_backtracking(stars: str) -> None:
    """Backtracking takes more than 2^60 steps for it, and never ends."""
    name = "a" * 80
    schema = json.dumps({"properties": {name: {"type": "string"}}})
    found = with_inline_tags("JSON", schema, {f"{stars}a" * 40 + "b": ["NO"], f"{stars}a" * 40: ["YES"]})
    assert json.loads(found)["properties"][name]["confluent:tags"] == ["YES"]
    found = with_inline_tags("JSON", schema, {"**.*a.**": ["NO"], "$.*a*": ["YES"], "*": ["NO"]})
    assert json.loads(found)["properties"][name]["confluent:tags"] == ["YES", "NO"]


def test_tags_reach_fields_by_wildcards_in_both_formats() -> None:
    avro = '{"type":"record","name":"h.R","fields":[{"name":"a","type":"int"},{"name":"b","type":["null",{"type":"record","name":"S","fields":[{"name":"c","type":"int"}]}]}]}'
    inline = with_inline_tags("AVRO", avro, {"h.R.*": ["ONE"], "**.c": ["TWO"]})
    fields = json.loads(inline)["fields"]
    assert fields[0]["confluent:tags"] == ["ONE"]
    assert fields[1]["type"][1]["fields"][0]["confluent:tags"] == ["TWO"]
    schema = '{"properties":{"a":{"type":"integer"},"b":{"properties":{"c":{"type":"integer"}}}}}'
    found = json.loads(with_inline_tags("JSON", schema, {"$.a": ["ONE"], "object.b.c": ["TWO"]}))
    assert found["properties"]["a"]["confluent:tags"] == ["ONE"]
    assert found["properties"]["b"]["properties"]["c"]["confluent:tags"] == ["TWO"]


@pytest.mark.parametrize(
    ("confluent", "ours"),
    [
        ("message.a > 0", "this.a > 0"),
        ("message . a > messages.message", "this . a > messages.message"),
        ("'message' + message.a", "'message' + this.a"),
        ('a.message.b == "it\\"s message" && message.b', 'a.message.b == "it\\"s message" && this.b'),
    ],
)
def test_names_are_changed_outside_of_literals(confluent: str, ours: str) -> None:
    assert renamed(confluent, {"message": "this"}) == ours


def test_a_guard_ends_at_a_semicolon_that_stands_in_no_literal() -> None:
    written = condition("message.b != ';'; message.a == ';'", {"message": "this"}, is_of_field=False)
    assert written == "(this.b != ';') ? (this.a == ';') : true"


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(
        st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,255}", fullmatch=True), min_size=1, max_size=6, unique=True
    )
)
def test_every_name_of_a_rule_becomes_an_id_of_its_own(names: list[str]) -> None:
    rules = [{"name": name, "kind": "CONDITION", "type": "CEL", "expr": "true"} for name in names]
    found = import_rules(RuleSet.model_validate({"domainRules": rules}), parse_schema("JSON", "{}", {}))
    assert len({rule.id for rule in found.rules}) == len(names)
