"""Pairs of JSON Schemas and what is known of them: the case table of the comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any] | bool

D4 = "http://json-schema.org/draft-04/schema#"
D6 = "http://json-schema.org/draft-06/schema#"
D7 = "http://json-schema.org/draft-07/schema#"
D2019 = "https://json-schema.org/draft/2019-09/schema"
D2020 = "https://json-schema.org/draft/2020-12/schema"

S: Schema = {"type": "string"}
I: Schema = {"type": "integer"}  # noqa: E741 - as short as S
N: Schema = {"type": "number"}


@dataclass(frozen=True)
class Widening:
    """`wide` accepts all that `narrow` does and more; going back is the change `code`."""

    name: str
    narrow: Schema
    wide: Schema
    code: str


@dataclass(frozen=True)
class Same:
    """Both accept the same documents."""

    name: str
    one: Schema
    other: Schema


@dataclass(frozen=True)
class Apart:
    """Each accepts what the other refuses: `there` is the change from one to other, `back` the way back."""

    name: str
    one: Schema
    other: Schema
    there: str
    back: str


def obj(required: list[str] | None = None, *, closed: bool = False, **properties: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        made["required"] = required
    return {**made, "additionalProperties": False} if closed else made


def d4(**keywords: Any) -> dict[str, Any]:
    return {"$schema": D4, **keywords}


def d7(**keywords: Any) -> dict[str, Any]:
    return {"$schema": D7, **keywords}


def d19(**keywords: Any) -> dict[str, Any]:
    return {"$schema": D2019, **keywords}


def tree(value: Schema, name: str = "tree") -> dict[str, Any]:
    node = {"type": "object", "properties": {"next": {"$ref": f"#/$defs/{name}"}, "value": value}}
    return {"$ref": f"#/$defs/{name}", "$defs": {name: node}}


WIDENINGS = (
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
    # arrays
    Widening("minItems lowered", {"minItems": 2}, {"minItems": 1}, "schema.min-items-raised"),
    Widening("minItems dropped", {"minItems": 2}, True, "schema.min-items-added"),
    Widening("maxItems raised", {"maxItems": 2}, {"maxItems": 3}, "schema.max-items-lowered"),
    Widening("maxItems dropped", {"maxItems": 2}, True, "schema.max-items-added"),
    Widening("uniqueItems dropped", {"uniqueItems": True}, True, "schema.unique-items-added"),
    Widening("uniqueItems false", {"uniqueItems": True}, {"uniqueItems": False}, "schema.unique-items-added"),
    Widening("items widened", {"items": I}, {"items": N}, "schema.type-narrowed"),
    Widening("items dropped", {"items": S}, True, "schema.items-constrained"),
    Widening("items opened", {"items": False}, {"items": S}, "schema.items-closed"),
    Widening("prefixItems widened", {"prefixItems": [I, S]}, {"prefixItems": [N, S]}, "schema.type-narrowed"),
    Widening(
        "prefixItems shortened", {"prefixItems": [S, I]}, {"prefixItems": [S]}, "schema.items-constrained"
    ),
    Widening(
        "tuple opened", {"prefixItems": [S], "items": False}, {"prefixItems": [S]}, "schema.items-closed"
    ),
    Widening(
        "additionalItems widened",
        d7(items=[S], additionalItems=I),
        d7(items=[S], additionalItems=N),
        "schema.type-narrowed",
    ),
    Widening(
        "additionalItems opened", d7(items=[S], additionalItems=False), d7(items=[S]), "schema.items-closed"
    ),
    Widening("contains dropped", {"contains": S}, True, "schema.contains-added"),
    Widening("contains widened", {"contains": I}, {"contains": N}, "schema.contains-changed"),
    Widening(
        "contains from items",
        {"type": "array", "items": S, "minItems": 1},
        {"contains": S},
        "schema.type-added",
    ),
    Widening(
        "minContains lowered",
        {"contains": S, "minContains": 3},
        {"contains": S, "minContains": 2},
        "schema.min-contains-raised",
    ),
    Widening("minContains 0", {"contains": S}, {"contains": S, "minContains": 0}, "schema.contains-changed"),
    Widening(
        "minContains dropped", {"contains": S, "minContains": 2}, {"contains": S}, "schema.min-contains-added"
    ),
    Widening(
        "unique items of a list",
        {"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True},
        {"maxItems": 2},
        "schema.type-added",
    ),
    Widening(
        "maxContains raised",
        {"contains": S, "maxContains": 1},
        {"contains": S, "maxContains": 2},
        "schema.max-contains-lowered",
    ),
    Widening(
        "maxContains dropped", {"contains": S, "maxContains": 1}, {"contains": S}, "schema.max-contains-added"
    ),
    Widening(
        "unevaluatedItems opened",
        {"prefixItems": [S], "unevaluatedItems": False},
        {"prefixItems": [S]},
        "schema.items-closed",
    ),
    Widening(
        "dependentSchemas evaluates items of no array",
        {"type": "array", "unevaluatedItems": False, "dependentSchemas": {"a": {"items": S}}},
        {"type": "array", "dependentSchemas": {"a": {"items": S}}},
        "schema.items-closed",
    ),
    Widening(
        "unevaluatedItems widened",
        {"prefixItems": [S], "unevaluatedItems": I},
        {"prefixItems": [S], "unevaluatedItems": N},
        "schema.type-narrowed",
    ),
    # objects
    Widening("required dropped", obj(["a"], a=S), obj(a=S), "schema.required-added"),
    Widening("required of an undeclared property", {"required": ["a"]}, True, "schema.required-added"),
    Widening("one of two required", {"required": ["a", "b"]}, {"required": ["a"]}, "schema.required-added"),
    Widening(
        "a property's maximum raised", obj(a={"maximum": 1}), obj(a={"maximum": 2}), "schema.maximum-lowered"
    ),
    Widening(
        "a nested property nullable",
        obj(a=obj(b=S)),
        obj(a=obj(b={"type": ["string", "null"]})),
        "schema.type-narrowed",
    ),
    Widening(
        "an optional property more in a closed model",
        obj(closed=True, a=S),
        obj(closed=True, a=S, b=I),
        "schema.property-removed",
    ),
    Widening("a closed model opened", obj(closed=True, a=S), obj(a=S), "schema.property-closed"),
    Widening(
        "an undeclared property constrained", obj(a=S), {"type": "object"}, "schema.property-constrained"
    ),
    Widening(
        "a property declared as the others were",
        {"additionalProperties": S},
        {"properties": {"a": {"type": ["string", "null"]}}, "additionalProperties": S},
        "schema.type-narrowed",
    ),
    Widening(
        "additionalProperties widened",
        {"additionalProperties": I},
        {"additionalProperties": N},
        "schema.type-narrowed",
    ),
    Widening(
        "additionalProperties from false to a schema",
        {"additionalProperties": False},
        {"additionalProperties": S},
        "schema.property-closed",
    ),
    Widening(
        "patternProperties widened",
        {"patternProperties": {"^x": I}},
        {"patternProperties": {"^x": N}},
        "schema.type-narrowed",
    ),
    Widening(
        "patternProperties dropped", {"patternProperties": {"^x": I}}, True, "schema.property-constrained"
    ),
    Widening(
        "patternProperties to additionalProperties",
        {"patternProperties": {"^x": I}, "additionalProperties": False},
        {"additionalProperties": N},
        "schema.type-narrowed",
    ),
    Widening(
        "patternProperties of a longer prefix",
        {"patternProperties": {"^x": I}},
        {"patternProperties": {"^xy": I}},
        "schema.property-constrained",
    ),
    Widening(
        "propertyNames dropped", {"propertyNames": {"maxLength": 3}}, True, "schema.property-names-added"
    ),
    Widening(
        "propertyNames widened",
        {"propertyNames": {"maxLength": 3}},
        {"propertyNames": {"maxLength": 4}},
        "schema.property-names-changed",
    ),
    Widening(
        "propertyNames of a pattern",
        {"propertyNames": {"pattern": "^[ab]$"}},
        {"propertyNames": {"pattern": "^[a-c]$"}},
        "schema.property-names-changed",
    ),
    Widening(
        "minProperties lowered", {"minProperties": 2}, {"minProperties": 1}, "schema.min-properties-raised"
    ),
    Widening("minProperties dropped", {"minProperties": 2}, True, "schema.min-properties-added"),
    Widening(
        "maxProperties raised", {"maxProperties": 2}, {"maxProperties": 3}, "schema.max-properties-lowered"
    ),
    Widening("maxProperties dropped", {"maxProperties": 2}, True, "schema.max-properties-added"),
    Widening(
        "required implies minProperties",
        {"type": "object", "required": ["a", "b"]},
        {"minProperties": 2},
        "schema.type-added",
    ),
    Widening(
        "a closed model implies maxProperties",
        obj(closed=True, a=S, b=S),
        {"maxProperties": 2},
        "schema.type-added",
    ),
    Widening(
        "dependentRequired dropped", {"dependentRequired": {"a": ["b"]}}, True, "schema.dependency-added"
    ),
    Widening(
        "dependentRequired loosened",
        {"dependentRequired": {"a": ["b", "c"]}},
        {"dependentRequired": {"a": ["b"]}},
        "schema.dependency-added",
    ),
    Widening(
        "required for dependentRequired",
        {"required": ["b"]},
        {"dependentRequired": {"a": ["b"]}},
        "schema.required-added",
    ),
    Widening(
        "dependentSchemas loosened",
        {"dependentSchemas": {"a": {"required": ["b"], "minProperties": 3}}},
        {"dependentSchemas": {"a": {"required": ["b"]}}},
        "schema.dependency-added",
    ),
    Widening(
        "dependentSchemas dropped",
        {"dependentSchemas": {"a": {"required": ["b"]}}},
        True,
        "schema.dependency-added",
    ),
    Widening("dependencies dropped", d7(dependencies={"a": ["b"]}), d7(), "schema.dependency-added"),
    Widening(
        "dependencies of a schema loosened",
        d7(dependencies={"a": {"required": ["b", "c"]}}),
        d7(dependencies={"a": {"required": ["b"]}}),
        "schema.dependency-added",
    ),
    Widening(
        "unevaluatedProperties opened",
        {"properties": {"a": S}, "unevaluatedProperties": False},
        {"properties": {"a": S}},
        "schema.property-closed",
    ),
    Widening(
        "a property more under unevaluatedProperties",
        {"allOf": [{"properties": {"a": S}}], "unevaluatedProperties": False},
        {"allOf": [{"properties": {"a": S, "b": S}}], "unevaluatedProperties": False},
        "schema.property-removed",
    ),
    Widening(
        "a branch more under unevaluatedProperties",
        {"properties": {"a": S}, "unevaluatedProperties": False},
        {
            "properties": {"a": S},
            "if": {"required": ["b"]},
            "then": {"properties": {"b": S}},
            "unevaluatedProperties": False,
        },
        "schema.property-removed",
    ),
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

_ADDRESS = obj(["city"], city=S, zip={"type": "string", "pattern": "^[0-9]{5}$"})

SAMES = (
    Same(
        "patterns of two branches under unevaluatedProperties",
        {
            "anyOf": [{"patternProperties": {"^a": S}}, {"patternProperties": {"^b": S}}],
            "unevaluatedProperties": False,
        },
        {
            "anyOf": [{"patternProperties": {"^b": S}}, {"patternProperties": {"^a": S}}],
            "unevaluatedProperties": False,
        },
    ),
    Same(
        "items of a branch under unevaluatedItems",
        {
            "type": "array",
            "anyOf": [{"prefixItems": [S]}, {"prefixItems": [True, I]}],
            "unevaluatedItems": False,
            "minItems": 2,
        },
        {
            "type": "array",
            "anyOf": [{"prefixItems": [True, I]}, {"prefixItems": [S]}],
            "unevaluatedItems": False,
            "minItems": 2,
        },
    ),
    Same(
        "else and dependentSchemas under unevaluatedProperties",
        {
            "type": "object",
            "if": {"required": ["a"]},
            "then": {"properties": {"a": S}},
            "else": {"properties": {"b": S}},
            "unevaluatedProperties": False,
        },
        {
            "type": "object",
            "properties": {"b": S},
            "dependentSchemas": {"a": {"properties": {"a": S, "b": False}}},
            "unevaluatedProperties": False,
        },
    ),
    Same(
        "an annotation",
        S,
        {
            **S,
            "title": "Name",
            "description": "of a person",
            "default": "x",
            "examples": ["y"],
            "$comment": "z",
            "deprecated": True,
        },
    ),
    Same("an unknown keyword", S, {**S, "x-owner": "team"}),
    Same(
        "keywords in another order",
        {"type": "object", "required": ["a", "b"], "properties": {"a": S, "b": I}},
        {"properties": {"b": I, "a": S}, "required": ["b", "a"], "type": "object"},
    ),
    Same("enum in another order", {"enum": [1, "a", None]}, {"enum": [None, 1, "a"]}),
    Same("enum of 1 and 1.0", {"enum": [1]}, {"enum": [1.0]}),
    Same("const and enum of one", {"const": "a"}, {"enum": ["a"]}),
    Same("type and type list", S, {"type": ["string"]}),
    Same("types in another order", {"type": ["string", "null"]}, {"type": ["null", "string"]}),
    Same("number and integer besides", N, {"type": ["number", "integer"]}),
    Same("every type", True, {"type": ["null", "boolean", "number", "string", "array", "object"]}),
    Same("boolean and its values", {"type": "boolean"}, {"enum": [True, False]}),
    Same("true and {}", True, {}),
    Same("false and not {}", False, {"not": {}}),
    Same("an empty range", {"type": "number", "minimum": 2, "maximum": 1}, False),
    Same("no integer between", {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2}, False),
    Same("integer bounds", {"type": "integer", "minimum": 1.5}, {"type": "integer", "minimum": 2}),
    Same(
        "exclusive integer bounds",
        {"type": "integer", "exclusiveMinimum": 1},
        {"type": "integer", "minimum": 2},
    ),
    Same(
        "1 and 1.0 as bounds of integers",
        {"type": "integer", "maximum": 1},
        {"type": "integer", "maximum": 1.0},
    ),
    Same("multiple of 1", I, {"type": "integer", "multipleOf": 1}),
    Same("two steps", {"multipleOf": 6}, {"allOf": [{"multipleOf": 2}, {"multipleOf": 3}]}),
    Same("minLength 0", S, {"type": "string", "minLength": 0}),
    Same(
        "pattern and length",
        {"pattern": "^.{2,3}$", "type": "string"},
        {"type": "string", "pattern": "^.{2}.?$"},
    ),
    Same("equal patterns", {"pattern": "^(a|b)+$"}, {"pattern": "^[ab][ab]*$"}),
    Same("an empty pattern", {"pattern": ""}, True),
    Same(
        "a pattern for a constant", {"type": "string", "pattern": "^(red|green)$"}, {"enum": ["red", "green"]}
    ),
    Same("an unknown format", {"format": "phone"}, True),
    Same("minItems 0", {"type": "array"}, {"type": "array", "minItems": 0}),
    Same("items true", {"type": "array"}, {"type": "array", "items": True}),
    Same("no items", {"type": "array", "items": False}, {"type": "array", "maxItems": 0}),
    Same(
        "a tuple of the same",
        {"type": "array", "items": S},
        {"type": "array", "prefixItems": [S, S], "items": S},
    ),
    Same("prefixItems true", {"prefixItems": [True, S]}, {"prefixItems": [{}, S]}),
    Same(
        "unevaluatedItems and items",
        {"prefixItems": [S], "unevaluatedItems": I},
        {"prefixItems": [S], "items": I},
    ),
    Same("minContains 1", {"contains": S}, {"contains": S, "minContains": 1}),
    Same(
        "contains nothing",
        {"type": "array", "contains": True, "minContains": 2},
        {"type": "array", "minItems": 2},
    ),
    Same(
        "items as a limit of contains",
        {"type": "array", "contains": S, "minContains": 0, "maxContains": 0},
        {"type": "array", "items": {"not": S}},
    ),
    Same("required twice", {"required": ["a", "b"]}, {"allOf": [{"required": ["b"]}, {"required": ["a"]}]}),
    Same("a property that may be anything", obj(a=S), obj(a=S, b=True)),
    Same(
        "a property as the others",
        {"additionalProperties": S},
        {"properties": {"a": S}, "additionalProperties": S},
    ),
    Same(
        "a property that may not be there",
        {"properties": {"a": False}},
        {"not": {"required": ["a"], "type": "object"}},
    ),
    Same(
        "a closed model as propertyNames",
        {"type": "object", "properties": {"a": True, "b": True}, "additionalProperties": False},
        {"type": "object", "propertyNames": {"enum": ["a", "b"]}},
    ),
    Same(
        "propertyNames as patternProperties",
        {"propertyNames": {"pattern": "^x"}},
        {"patternProperties": {"^x": True}, "additionalProperties": False},
    ),
    Same("a property as a pattern", {"properties": {"a": S}}, {"patternProperties": {"^a$": S}}),
    Same(
        "additionalProperties and unevaluatedProperties",
        obj(closed=True, a=S),
        {"type": "object", "properties": {"a": S}, "unevaluatedProperties": False},
    ),
    Same(
        "unevaluatedProperties over allOf",
        {"allOf": [obj(a=S)], "unevaluatedProperties": False},
        obj(closed=True, a=S),
    ),
    Same(
        "unevaluatedProperties over $ref",
        {"$ref": "#/$defs/base", "$defs": {"base": obj(a=S)}, "unevaluatedProperties": False},
        obj(closed=True, a=S),
    ),
    Same(
        "dependencies by their later names",
        d7(dependencies={"a": ["b"], "c": {"minProperties": 2}}),
        {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"minProperties": 2}}},
    ),
    Same(
        "dependentRequired as if",
        {"dependentRequired": {"a": ["b"]}},
        {"if": {"type": "object", "required": ["a"]}, "then": {"required": ["b"]}},
    ),
    Same("allOf flattened", {"allOf": [{"type": "object"}, obj(a=S), {"required": ["a"]}]}, obj(["a"], a=S)),
    Same("allOf of one", {"allOf": [S]}, S),
    Same("nested allOf", {"allOf": [{"allOf": [{"allOf": [S]}, {"minLength": 1}]}]}, {**S, "minLength": 1}),
    Same("anyOf as a type list", {"anyOf": [S, {"type": "null"}]}, {"type": ["string", "null"]}),
    Same("oneOf as a type list", {"oneOf": [{"type": "null"}, S]}, {"type": ["string", "null"]}),
    Same("anyOf in another order", {"anyOf": [obj(a=S), obj(b=S)]}, {"anyOf": [obj(b=S), obj(a=S)]}),
    Same("oneOf of constants as enum", {"oneOf": [{"const": 1}, {"const": 2}]}, {"enum": [1, 2]}),
    Same(
        "oneOf and anyOf of what excludes each other",
        {
            "oneOf": [
                {"type": "object", "required": ["k"], "properties": {"k": {"const": n}}} for n in (1, 2, 3)
            ]
        },
        {
            "anyOf": [
                {"type": "object", "required": ["k"], "properties": {"k": {"const": n}}} for n in (1, 2, 3)
            ]
        },
    ),
    Same("double negation", {"not": {"not": S}}, S),
    Same(
        "not a type",
        {"not": {"type": ["object", "array"]}},
        {"type": ["null", "boolean", "number", "string"]},
    ),
    Same(
        "a condition as alternatives",
        {"if": S, "then": {"minLength": 1}, "else": {"type": "null"}},
        {"anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}]},
    ),
    Same("if without then and else", {"if": S}, True),
    Same(
        "$ref inlined",
        obj(home={"$ref": "#/$defs/address"}) | {"$defs": {"address": _ADDRESS}},
        obj(home=_ADDRESS),
    ),
    Same("a definition renamed", tree(I, "tree"), tree(I, "node")),
    Same(
        "definitions to $defs",
        d7(**{"$ref": "#/definitions/a", "definitions": {"a": S}}),
        {"$ref": "#/$defs/a", "$defs": {"a": S}},
    ),
    Same("an unused definition", S, {**S, "$defs": {"a": I}}),
    Same("an anchor", {"$ref": "#here", "$defs": {"a": {"$anchor": "here", **S}}}, S),
    Same("an $id", {"$id": "https://example.org/a", "$ref": "b", "$defs": {"b": {"$id": "b", **S}}}, S),
    Same(
        "a recursive definition unrolled once",
        tree(I),
        {
            "type": "object",
            "properties": {"value": I, "next": {"$ref": "#/$defs/tree"}},
            "$defs": tree(I)["$defs"],
        },
    ),
    Same(
        "a recursion that no document ends",
        {
            "$ref": "#/$defs/a",
            "$defs": {"a": {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#/$defs/a"}}}},
        },
        False,
    ),
    Same(
        "draft 7 and 2020-12",
        d7(**obj(["a"], a=S, b={"type": "array", "items": I})),
        {"$schema": D2020, **obj(["a"], a=S, b={"type": "array", "items": I})},
    ),
    Same(
        "draft 4 bounds in draft 6",
        d4(minimum=1, exclusiveMinimum=True),
        {"$schema": D6, "exclusiveMinimum": 1},
    ),
    Same("draft 4 booleans", d4(minimum=1, exclusiveMinimum=False), d4(minimum=1)),
    Same(
        "formats across drafts",
        d7(type="string", format="date-time"),
        {"type": "string", "format": "date-time"},
    ),
    Same(
        "a tuple across drafts",
        d7(items=[S, I], additionalItems=False),
        {"prefixItems": [S, I], "items": False},
    ),
    Same(
        "beside $ref in draft 7 nothing counts",
        d7(**{"$ref": "#/definitions/a", "maximum": 3, "definitions": {"a": S}}),
        d7(**{"$ref": "#/definitions/a", "definitions": {"a": S}}),
    ),
    Same("additionalItems beside a single schema", d7(items=S, additionalItems=False), d7(items=S)),
    Same(
        "an annotation beside what is not looked into",
        {"contains": S, "unevaluatedItems": False},
        {"contains": {**S, "title": "x"}, "unevaluatedItems": False, "description": "y"},
    ),
    Same("an annotation beside a loop", {"$ref": "#"}, {"$ref": "#", "title": "x"}),
    Same(
        "a property named like an annotation",
        obj(title=S, description={**S, "title": "x"}),
        obj(title={**S, "description": "y"}, description=S),
    ),
    Same("an annotation beside a meta-schema", {"$ref": D2020}, {"$ref": D2020, "title": "x"}),
    Same(
        "seven branches under unevaluatedProperties",
        {"anyOf": [obj(**{c: S}) for c in "abcdefg"], "unevaluatedProperties": False},
        {"anyOf": [obj(**{c: S}) for c in "gfedcba"], "unevaluatedProperties": False},
    ),
    Same("minContains without contains", {"minContains": 3}, True),
    Same("contentEncoding in 2020-12", {"contentEncoding": "base64"}, True),
    Same("a keyword of a later draft", d4(const=1), d4()),
)

APARTS = (
    Apart("other types", S, I, "schema.type-narrowed", "schema.type-narrowed"),
    Apart(
        "ranges that overlap",
        {"minimum": 1, "maximum": 3},
        {"minimum": 2, "maximum": 4},
        "schema.minimum-raised",
        "schema.maximum-lowered",
    ),
    Apart(
        "other steps",
        {"multipleOf": 2},
        {"multipleOf": 3},
        "schema.multiple-of-changed",
        "schema.multiple-of-changed",
    ),
    Apart(
        "other patterns",
        {"pattern": "^a"},
        {"pattern": "b$"},
        "schema.pattern-changed",
        "schema.pattern-changed",
    ),
    Apart(
        "other formats",
        {"format": "date"},
        {"format": "ipv4"},
        "schema.format-changed",
        "schema.format-changed",
    ),
    Apart(
        "other lists",
        {"enum": [1, 2]},
        {"enum": [2, 3]},
        "schema.enum-value-removed",
        "schema.enum-value-removed",
    ),
    Apart("other constants", {"const": 1}, {"const": 2}, "schema.const-changed", "schema.const-changed"),
    Apart(
        "a property renamed in a closed model",
        obj(closed=True, a=S),
        obj(closed=True, b=S),
        "schema.property-removed",
        "schema.property-removed",
    ),
    Apart(
        "a property renamed in an open model",
        obj(a=S),
        obj(b=S),
        "schema.property-constrained",
        "schema.property-constrained",
    ),
    Apart(
        "other required properties",
        {"required": ["a"]},
        {"required": ["b"]},
        "schema.required-added",
        "schema.required-added",
    ),
    Apart(
        "other dependencies",
        {"dependentRequired": {"a": ["b"]}},
        {"dependentRequired": {"b": ["a"]}},
        "schema.dependency-added",
        "schema.dependency-added",
    ),
    Apart(
        "items against a tuple",
        {"items": S},
        {"prefixItems": [I]},
        "schema.type-narrowed",
        "schema.type-narrowed",
    ),
    Apart(
        "other items wanted",
        {"contains": S},
        {"contains": I},
        "schema.contains-changed",
        "schema.contains-changed",
    ),
    Apart(
        "other names",
        {"propertyNames": {"pattern": "^a"}},
        {"propertyNames": {"maxLength": 2}},
        "schema.property-names-changed",
        "schema.property-names-changed",
    ),
    Apart(
        "other alternatives",
        {"anyOf": [S, I]},
        {"anyOf": [S, {"type": "null"}]},
        "schema.any-of-narrowed",
        "schema.any-of-narrowed",
    ),
    Apart(
        "exactly one instead of any",
        {"anyOf": [{"type": "object", "required": ["a"]}, {"type": "object", "required": ["b"]}]},
        {
            "oneOf": [
                {"type": "object", "required": ["a"]},
                {"type": "object", "required": ["b"]},
                {"type": "null"},
            ]
        },
        "schema.one-of-narrowed",
        "schema.any-of-narrowed",
    ),
    Apart(
        "excluded values",
        {"not": {"const": 1}},
        {"not": {"const": 2}},
        "schema.not-changed",
        "schema.not-changed",
    ),
    Apart(
        "conditions swapped",
        {"if": S, "then": {"minLength": 1}, "else": I},
        {"if": I, "then": {"minimum": 0}, "else": S},
        "schema.minimum-added",
        "schema.min-length-added",
    ),
    Apart(
        "patternProperties of another prefix",
        {"patternProperties": {"^a": S}},
        {"patternProperties": {"^b": S}},
        "schema.property-constrained",
        "schema.property-constrained",
    ),
    Apart(
        "counts that overlap",
        {"minItems": 1, "maxItems": 3},
        {"minItems": 2, "maxItems": 4},
        "schema.min-items-raised",
        "schema.max-items-lowered",
    ),
    Apart(
        "lengths that overlap",
        {"minLength": 1, "maxLength": 3},
        {"minLength": 2, "maxLength": 4},
        "schema.min-length-raised",
        "schema.max-length-lowered",
    ),
    Apart(
        "unevaluated properties of other branches",
        {"anyOf": [obj(a=S), obj(b=S)], "unevaluatedProperties": False},
        {"anyOf": [obj(a=S), obj(c=S)], "unevaluatedProperties": False},
        "schema.property-removed",
        "schema.property-removed",
    ),
    Apart(
        "other encodings in draft 7",
        d7(contentEncoding="base64", contentMediaType="application/json"),
        d7(contentMediaType="application/json"),
        "schema.content-media-type-changed",
        "schema.content-encoding-added",
    ),
    Apart(
        "a pattern that is not read",
        {"pattern": "^(?=a)..$"},
        {"pattern": "^(?!a)..$"},
        "schema.pattern-changed",
        "schema.pattern-changed",
    ),
)


@dataclass(frozen=True)
class Unsure:
    """What is true of the pair is not found out; `keyword` is what the answer names."""

    name: str
    old: Schema
    new: Schema
    keyword: str


UNSURES = (
    Unsure("a loop", {"$ref": "#"}, {"allOf": [{"$ref": "#"}]}, "$ref"),
    Unsure(
        "two definitions that name each other",
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"$ref": "#/$defs/c", "$defs": {"c": {"$ref": "#/$defs/c"}}},
        "$ref",
    ),
    Unsure(
        "a loop through alternatives", {"anyOf": [{"$ref": "#"}, S]}, {"anyOf": [S, {"$ref": "#"}, I]}, "$ref"
    ),
    Unsure("look-ahead", {"pattern": "^(?=a)[ab]$"}, {"pattern": "^a$"}, "pattern"),
    Unsure(
        "a reference back", {"type": "string", "pattern": r"^(a|b)\1$"}, {"pattern": "^(aa|bb)$"}, "pattern"
    ),
    Unsure(
        "a pattern that grows",
        {"pattern": "^(a|b)*a(a|b){30}$"},
        {"pattern": "^(a|b)*(a|b)a(a|b){30}$|^a(a|b){30}$"},
        "pattern",
    ),
    Unsure("a pattern against a format", {"pattern": "^127\\.0\\.0\\.1$"}, {"format": "ipv4"}, "format"),
    Unsure("one format within another", {"format": "hostname"}, {"format": "idn-hostname"}, "format"),
    Unsure(
        "unevaluatedItems beside contains",
        {"contains": I, "unevaluatedItems": False},
        {"contains": N, "unevaluatedItems": False},
        "unevaluatedItems",
    ),
    Unsure(
        "patterns of five branches under unevaluatedProperties",
        {
            "anyOf": [{"patternProperties": {f"^{c}": S}} for c in "abcde"],
            "unevaluatedProperties": False,
            "$ref": "#/$defs/a",
            "$defs": {"a": True},
        },
        {"anyOf": [{"patternProperties": {f"^{c}": S}} for c in "edcba"], "unevaluatedProperties": False},
        "unevaluatedProperties",
    ),
    Unsure(
        "the same encoding of something else",
        d7(contentEncoding="base64", contentMediaType="application/json"),
        d7(contentEncoding="base64"),
        "contentEncoding",
    ),
    Unsure("an embedded dialect", obj(a={"$schema": D4, "$id": "urn:a", "type": "string"}), obj(a=S), "type"),
    Unsure(
        "a choice of choices",
        {"allOf": [{"anyOf": [{"required": [f"a{i}"]}, {"required": [f"b{i}"]}]} for i in range(16)]},
        {"minProperties": 16},
        "minProperties",
    ),
)
