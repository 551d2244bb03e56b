"""Pairs of JSON Schemas; the second accepts all records of the first, and more: cases of the comparison."""

from __future__ import annotations

from dataclasses import dataclass

from tests.unit.contracts.compatibility.json_schema.schemas import D6, I, N, S, Schema, d4, d7, d19, obj, tree


@dataclass(frozen=True)
class Widening:
    """`wide` accepts all that `narrow` does and more; going back is the change `code`."""

    name: str
    narrow: Schema
    wide: Schema
    code: str


OTHER_WIDENINGS = (
    # patterns with assertions
    Widening(
        "a look-ahead dropped",
        {"pattern": "^(?=A)[A-Z]{2}$"},
        {"pattern": "^[A-Z]{2}$"},
        "schema.pattern-changed",
    ),
    Widening(
        "a word allowed that was excluded",
        {"pattern": "^(?!admin$)[a-z]+$"},
        {"pattern": "^[a-z]*$"},
        "schema.pattern-changed",
    ),
    Widening("word borders dropped", {"pattern": r"\bfoo\b"}, {"pattern": "foo"}, "schema.pattern-changed"),
    # any value
    Widening("anything -> true", S, True, "schema.type-added"),
    Widening("false -> anything", False, S, "schema.closed"),
    Widening("false -> true", False, True, "schema.closed"),
    Widening("a type more", S, {"type": ["string", "null"]}, "schema.type-narrowed"),
    Widening(
        "two types more",
        {"type": ["string", "null"]},
        {"type": ["string", "null", "array", "boolean"]},
        "schema.type-narrowed",
    ),
    Widening("integer to number", I, N, "schema.type-narrowed"),
    Widening("type dropped", {"type": "string", "maxLength": 3}, {"maxLength": 3}, "schema.type-added"),
    Widening(
        "draft-4 integer to later integer",
        d4(type="integer"),
        {"$schema": D6, "type": "integer"},
        "schema.type-narrowed",
    ),
    Widening(
        "draft-4 integer to draft-4 number", d4(type="integer"), d4(type="number"), "schema.type-narrowed"
    ),
    Widening(
        "an enum value more", {"enum": ["a", "b"]}, {"enum": ["a", "b", "c"]}, "schema.enum-value-removed"
    ),
    Widening("enum dropped for its type", {"enum": ["a", "b"]}, S, "schema.enum-added"),
    Widening(
        "enum of numbers to a range", {"enum": [1, 2.5]}, {"minimum": 1, "maximum": 2.5}, "schema.enum-added"
    ),
    Widening("const to enum", {"const": 1}, {"enum": [1, 2]}, "schema.const-changed"),
    Widening("const to type", {"const": "x"}, S, "schema.const-added"),
    Widening("const object to its shape", {"const": {"a": 1}}, obj(["a"], a=I), "schema.const-added"),
    Widening(
        "const array to its items", {"const": [1, 2]}, {"type": "array", "items": I}, "schema.const-added"
    ),
    Widening("boolean constants to boolean", {"const": True}, {"type": "boolean"}, "schema.const-added"),
    Widening("null to nullable", {"type": "null"}, {"enum": [None, 1]}, "schema.type-added"),
    # numbers
    Widening("minimum lowered", {"minimum": 10}, {"minimum": 9}, "schema.minimum-raised"),
    Widening(
        "minimum lowered by a fraction", {"minimum": 0.3}, {"minimum": 0.29999}, "schema.minimum-raised"
    ),
    Widening("minimum dropped", {"minimum": 10}, True, "schema.minimum-added"),
    Widening("maximum raised", {"maximum": 10}, {"maximum": 11}, "schema.maximum-lowered"),
    Widening(
        "maximum raised beyond 2^53", {"maximum": 2**53}, {"maximum": 2**53 + 8}, "schema.maximum-lowered"
    ),
    Widening("maximum dropped", {"maximum": 10}, True, "schema.maximum-added"),
    Widening(
        "exclusive to inclusive minimum",
        {"exclusiveMinimum": 1},
        {"minimum": 1},
        "schema.exclusive-minimum-raised",
    ),
    Widening(
        "exclusive to inclusive maximum",
        {"exclusiveMaximum": 1},
        {"maximum": 1},
        "schema.exclusive-maximum-lowered",
    ),
    Widening(
        "exclusiveMaximum raised",
        {"exclusiveMaximum": 1},
        {"exclusiveMaximum": 2},
        "schema.exclusive-maximum-lowered",
    ),
    Widening("exclusiveMinimum dropped", {"exclusiveMinimum": 1}, True, "schema.exclusive-minimum-added"),
    Widening(
        "draft-4 exclusive bound",
        d4(minimum=1, exclusiveMinimum=True),
        d4(minimum=1),
        "schema.minimum-raised",
    ),
    Widening(
        "draft-4 maximum",
        d4(maximum=1, exclusiveMaximum=True),
        d4(maximum=1, exclusiveMaximum=False),
        "schema.maximum-lowered",
    ),
    Widening("multiple of a multiple", {"multipleOf": 6}, {"multipleOf": 3}, "schema.multiple-of-changed"),
    Widening(
        "multiple of a fraction", {"multipleOf": 0.5}, {"multipleOf": 0.1}, "schema.multiple-of-changed"
    ),
    Widening("multipleOf dropped", {"multipleOf": 6}, True, "schema.multiple-of-added"),
    Widening("multipleOf to integer", {"type": "integer", "multipleOf": 2}, I, "schema.multiple-of-added"),
    Widening(
        "integers in a small range to their list",
        {"type": "integer", "minimum": 1, "maximum": 3},
        {"enum": [1, 2, 3, 4]},
        "schema.maximum-added",
    ),
    # strings
    Widening("minLength lowered", {"minLength": 2}, {"minLength": 1}, "schema.min-length-raised"),
    Widening("minLength dropped", {"minLength": 2}, True, "schema.min-length-added"),
    Widening("maxLength raised", {"maxLength": 2}, {"maxLength": 3}, "schema.max-length-lowered"),
    Widening("maxLength dropped", {"maxLength": 2}, True, "schema.max-length-added"),
    Widening(
        "pattern dropped",
        {"pattern": "^a"},
        S | {"type": ["string", "null", "number", "object", "array", "boolean"]},
        "schema.pattern-added",
    ),
    Widening(
        "pattern widened", {"pattern": "^[A-Z]{3}$"}, {"pattern": "^[A-Z]{2,3}$"}, "schema.pattern-changed"
    ),
    Widening("pattern unanchored", {"pattern": "^a$"}, {"pattern": "a"}, "schema.pattern-changed"),
    Widening(
        "pattern of a class",
        {"pattern": "^\\d{4}-\\d{2}$"},
        {"pattern": "^[0-9-]+$"},
        "schema.pattern-changed",
    ),
    Widening(
        "pattern implies a length", {"pattern": "^[a-z]{2,4}$"}, {"maxLength": 4}, "schema.pattern-added"
    ),
    Widening(
        "prefix of a choice",
        {"pattern": "^(foo|bar)$"},
        {"pattern": "^(foo|bar|baz)$"},
        "schema.pattern-changed",
    ),
    Widening("format dropped", {"format": "date"}, True, "schema.format-added"),
    Widening("uri to uri-reference", {"format": "uri"}, {"format": "uri-reference"}, "schema.format-changed"),
    Widening("email to idn-email", {"format": "email"}, {"format": "idn-email"}, "schema.format-changed"),
    Widening(
        "date to its length",
        {"type": "string", "format": "date"},
        {"minLength": 10, "maxLength": 10},
        "schema.type-added",
    ),
    Widening(
        "contentEncoding dropped in draft 7",
        d7(contentEncoding="base64"),
        d7(),
        "schema.content-encoding-added",
    ),
    Widening(
        "contentMediaType dropped in draft 7",
        d7(contentMediaType="application/json"),
        d7(),
        "schema.content-media-type-added",
    ),
    Widening("exclusiveMaximum dropped", {"exclusiveMaximum": 1}, True, "schema.exclusive-maximum-added"),
    # combinations
    Widening(
        "an alternative more",
        {"anyOf": [S, I]},
        {"anyOf": [S, I, {"type": "null"}]},
        "schema.any-of-narrowed",
    ),
    Widening(
        "an alternative widened",
        {"anyOf": [{"type": "null"}, obj(a={"maximum": 1})]},
        {"anyOf": [{"type": "null"}, obj(a={"maximum": 2})]},
        "schema.maximum-lowered",
    ),
    Widening(
        "anyOf of lists",
        {"anyOf": [{"const": 1}, {"const": 2}]},
        {"enum": [1, 2, 3]},
        "schema.any-of-narrowed",
    ),
    Widening(
        "oneOf with another alternative",
        {"oneOf": [S, I]},
        {"oneOf": [S, I, {"type": "array"}]},
        "schema.one-of-narrowed",
    ),
    Widening(
        "oneOf to anyOf",
        {"oneOf": [{"minimum": 5}, {"maximum": 5}]},
        {"anyOf": [{"minimum": 5}, {"maximum": 5}]},
        "schema.one-of-narrowed",
    ),
    Widening(
        "a discriminated union widened",
        {"oneOf": [obj(["k"], k={"const": "a"}, v=I), obj(["k"], k={"const": "b"})]},
        {"oneOf": [obj(["k"], k={"const": "a"}, v=N), obj(["k"], k={"const": "b"})]},
        "schema.type-narrowed",
    ),
    Widening(
        "oneOf of constants",
        {"oneOf": [{"const": 1, "title": "one"}]},
        {"oneOf": [{"const": 1, "title": "one"}, {"const": 2, "title": "two"}]},
        "schema.one-of-narrowed",
    ),
    Widening(
        "a part of allOf dropped",
        {"allOf": [{"minimum": 1}, {"maximum": 5}]},
        {"allOf": [{"minimum": 1}]},
        "schema.maximum-added",
    ),
    Widening("not narrowed", {"not": N}, {"not": I}, "schema.not-changed"),
    Widening("not dropped", {"not": {"const": 3}}, True, "schema.not-added"),
    Widening(
        "not required", {"not": {"required": ["a"]}}, {"not": {"required": ["a", "b"]}}, "schema.not-changed"
    ),
    Widening(
        "then loosened",
        d7(**{"if": {"required": ["a"]}, "then": {"required": ["b", "c"]}}),
        d7(**{"if": {"required": ["a"]}, "then": {"required": ["b"]}}),
        "schema.required-added",
    ),
    Widening(
        "if/then dropped",
        {"if": {"required": ["a"]}, "then": {"required": ["b"]}},
        True,
        "schema.required-added",
    ),
    Widening(
        "else loosened",
        {"if": S, "then": True, "else": {"minimum": 3}},
        {"if": S, "else": {"minimum": 2}},
        "schema.minimum-raised",
    ),
    Widening(
        "condition narrowed",
        {"if": N, "then": {"minimum": 0}},
        {"if": I, "then": {"minimum": 0}},
        "schema.minimum-added",
    ),
    Widening(
        "any e-mail address has an @",
        {"type": "string", "format": "email"},
        {"pattern": "@"},
        "schema.type-added",
    ),
    # references
    Widening(
        "a definition widened",
        {"$ref": "#/$defs/a", "$defs": {"a": {"maximum": 1}}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"maximum": 2}}},
        "schema.maximum-lowered",
    ),
    Widening("a recursive definition widened", tree(I), tree(N), "schema.type-narrowed"),
    Widening(
        "a recursive root widened",
        obj(next={"$ref": "#"}, v=I),
        obj(next={"$ref": "#"}, v=N),
        "schema.type-narrowed",
    ),
    Widening(
        "mutual recursion widened",
        {
            "$ref": "#/$defs/a",
            "$defs": {"a": obj(b={"$ref": "#/$defs/b"}, v=I), "b": obj(a={"$ref": "#/$defs/a"})},
        },
        {
            "$ref": "#/$defs/a",
            "$defs": {"a": obj(b={"$ref": "#/$defs/b"}, v=N), "b": obj(a={"$ref": "#/$defs/a"})},
        },
        "schema.type-narrowed",
    ),
    Widening(
        "$dynamicRef to one anchor",
        {"$dynamicRef": "#t", "$defs": {"t": {"$dynamicAnchor": "t", "maximum": 1}}},
        {"$dynamicRef": "#t", "$defs": {"t": {"$dynamicAnchor": "t", "maximum": 2}}},
        "schema.maximum-lowered",
    ),
    Widening(
        "$recursiveRef",
        d19(properties={"a": {"$recursiveRef": "#"}, "v": {"maximum": 1}}),
        d19(properties={"a": {"$recursiveRef": "#"}, "v": {"maximum": 2}}),
        "schema.maximum-lowered",
    ),
)
