"""The tables of keywords and formats are what the judge does."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.contracts.document.model import JsonSchema
from tidegate.contracts.formats.json_schema import JsonSchemaFormat
from tidegate.contracts.inclusion.json_schema.dialect import FORMATS, Dialect, dialect_of
from tidegate.contracts.inclusion.json_schema.keywords import KEYWORDS

REFUSING: dict[str, tuple[dict[str, Any], Any]] = {
    "$ref": ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}, 1),
    "$dynamicRef": ({"$dynamicRef": "#/$defs/a", "$defs": {"a": {"type": "string"}}}, 1),
    "$recursiveRef": ({"properties": {"a": {"$recursiveRef": "#"}}, "required": ["a"]}, {"a": {}}),
    "type": ({"type": "string"}, 1),
    "enum": ({"enum": [2]}, 1),
    "const": ({"const": 2}, 1),
    "minimum": ({"minimum": 2}, 1),
    "maximum": ({"maximum": 0}, 1),
    "exclusiveMinimum": ({"exclusiveMinimum": 1}, 1),
    "exclusiveMaximum": ({"exclusiveMaximum": 1}, 1),
    "multipleOf": ({"multipleOf": 2}, 1),
    "minLength": ({"minLength": 2}, "a"),
    "maxLength": ({"maxLength": 0}, "a"),
    "pattern": ({"pattern": "b"}, "a"),
    "format": ({"format": "date"}, "a"),
    "contentEncoding": ({"contentEncoding": "base64"}, "%"),
    "contentMediaType": ({"contentMediaType": "application/json"}, "{"),
    "minItems": ({"minItems": 1}, []),
    "maxItems": ({"maxItems": 0}, [1]),
    "uniqueItems": ({"uniqueItems": True}, [1, 1.0]),
    "items": ({"items": {"type": "string"}}, [1]),
    "prefixItems": ({"prefixItems": [{"type": "string"}]}, [1]),
    "contains": ({"contains": {"type": "string"}}, [1]),
    "unevaluatedItems": ({"unevaluatedItems": {"type": "string"}}, [1]),
    "minProperties": ({"minProperties": 1}, {}),
    "maxProperties": ({"maxProperties": 0}, {"a": 1}),
    "required": ({"required": ["a"]}, {}),
    "properties": ({"properties": {"a": {"type": "string"}}}, {"a": 1}),
    "patternProperties": ({"patternProperties": {"a": {"type": "string"}}}, {"a": 1}),
    "additionalProperties": ({"additionalProperties": {"type": "string"}}, {"a": 1}),
    "propertyNames": ({"propertyNames": {"maxLength": 0}}, {"a": 1}),
    "dependentRequired": ({"dependentRequired": {"a": ["b"]}}, {"a": 1}),
    "dependentSchemas": ({"dependentSchemas": {"a": {"required": ["b"]}}}, {"a": 1}),
    "dependencies": ({"dependencies": {"a": ["b"]}}, {"a": 1}),
    "unevaluatedProperties": ({"unevaluatedProperties": {"type": "string"}}, {"a": 1}),
    "allOf": ({"allOf": [{"type": "string"}]}, 1),
    "anyOf": ({"anyOf": [{"type": "string"}]}, 1),
    "oneOf": ({"oneOf": [{"type": "string"}]}, 1),
    "not": ({"not": {"type": "number"}}, 1),
    "if": ({"if": {"type": "number"}, "then": {"minimum": 2}}, 1),
}
WRITTEN_OTHERWISE = {
    (Dialect.DRAFT4, "exclusiveMinimum"),
    (Dialect.DRAFT4, "exclusiveMaximum"),
}
ADDITIONAL_ITEMS = {"items": [{}], "additionalItems": {"type": "string"}}
FORMAT_NAMES = "color date date-time double duration email float host-name hostname idn-email idn-hostname int32 int64 ip-address"
FORMAT_NAMES += " ipv4 ipv6 iri iri-reference json-pointer password regex relative-json-pointer time uri uri-reference uri-template uuid"


def accepts(dialect: Dialect, schema: dict[str, Any], value: Any) -> bool:
    definition = {"$schema": dialect.uri, **schema}
    return JsonSchemaFormat(JsonSchema(type="json-schema", definition=definition)).is_valid(value)


@pytest.mark.parametrize("dialect", Dialect)
def test_a_keyword_counts_where_the_judge_refuses_by_it(dialect: Dialect) -> None:
    counting = {
        keyword
        for keyword, (schema, value) in REFUSING.items()
        if (dialect, keyword) not in WRITTEN_OTHERWISE and not accepts(dialect, schema, value)
    }
    if dialect is not Dialect.DRAFT202012 and not accepts(dialect, ADDITIONAL_ITEMS, [1, 2]):
        counting.add("additionalItems")
    assert counting == KEYWORDS[dialect]


@pytest.mark.parametrize("dialect", Dialect)
def test_a_format_is_asserted_where_the_judge_asserts_it(dialect: Dialect) -> None:
    nonsense = "\x00 %%\\(("
    asserted = {name for name in FORMAT_NAMES.split() if not accepts(dialect, {"format": name}, nonsense)}
    assert asserted == FORMATS[dialect]


@pytest.mark.parametrize("dialect", Dialect)
def test_a_dialect_is_known_by_its_uri(dialect: Dialect) -> None:
    assert dialect_of({"$schema": dialect.uri}) is dialect
    assert dialect_of({"$schema": dialect.uri.rstrip("#")}) is dialect
    assert dialect_of({"$schema": "https://example.org/own"}) is None
    assert dialect_of({}) is dialect_of(True) is Dialect.DRAFT202012


@pytest.mark.parametrize("dialect", Dialect)
def test_up_to_draft_7_other_keywords_next_to_a_reference_are_ignored(dialect: Dialect) -> None:
    schema = {"$ref": "#/definitions/a", "maximum": 0, "definitions": {"a": {"type": "integer"}}}
    assert accepts(dialect, schema, 1) is (dialect <= Dialect.DRAFT7)


def test_numbers_are_equal_as_numbers_and_not_as_texts() -> None:
    for dialect in Dialect:
        assert accepts(dialect, {"enum": [1]}, 1.0)
        assert not accepts(dialect, {"enum": [1]}, True)
        assert accepts(dialect, {"multipleOf": 0.01}, 4.35)
        assert accepts(dialect, {"type": "integer"}, 1.0) is (dialect is not Dialect.DRAFT4)
