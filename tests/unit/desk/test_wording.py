"""The words of the desk for codes of JSON Schema."""

from __future__ import annotations

from tidegate.contracts.document.model import JsonSchema
from tidegate.contracts.formats.json_schema import JsonSchemaFormat
from tidegate.contracts.inclusion.json_schema.keywords import KEYWORDS
from tidegate.contracts.verdict import Stage
from tidegate.gateway.http.desk import wording


def test_every_keyword_that_refuses_values_has_words() -> None:
    known = frozenset().union(*KEYWORDS.values())
    assert {*wording.KEYWORDS} - {"falseSchema"} == known
    assert all(wording.keyword_words(Stage.SCHEMA, each) for each in known)
    assert wording.keyword_words(Stage.RULE, "type") is None


def test_the_schema_false_has_words() -> None:
    schema = JsonSchema(type="json-schema", definition={"properties": {"a": False}})
    (found,) = JsonSchemaFormat(schema).violations({"a": 1})
    assert wording.keyword_words(found.stage, found.code) == "a value is there where the schema allows none"
