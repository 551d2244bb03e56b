"""Pairs of JSON Schemas that accept the same documents: the case table of the comparison."""

from __future__ import annotations

from dataclasses import dataclass

from tests.unit.contracts.compatibility.json_schema.schemas import (
    D6,
    D2020,
    I,
    N,
    S,
    Schema,
    addons,
    d4,
    d7,
    obj,
    tree,
)


@dataclass(frozen=True)
class Same:
    """Both accept the same documents."""

    name: str
    one: Schema
    other: Schema


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
    Same(
        "contains beside unevaluatedItems",
        {"type": "array", "contains": I, "unevaluatedItems": S},
        {"type": "array", "contains": I, "items": {"type": ["integer", "string"]}},
    ),
    Same(
        "contains of two branches beside unevaluatedItems",
        {"type": "array", "anyOf": [{"contains": I}, {"contains": S}], "unevaluatedItems": False},
        {"type": "array", "anyOf": [{"contains": S}, {"contains": I}], "unevaluatedItems": False},
    ),
    Same(
        "a dynamic reference and the anchor that it always leads to",
        addons(bar=S),
        obj(closed=True, foo=S, bar=S),
    ),
    Same("0 and 0.0", {"minimum": 0}, {"minimum": 0.0}),
    Same("10 and 10.0", {"type": "number", "maximum": 10}, {"type": "number", "maximum": 10.0}),
    Same("exclusive 0 and 0.0", {"exclusiveMinimum": 0}, {"exclusiveMinimum": 0.0}),
    Same(
        "exclusive bounds of draft 4",
        d4(minimum=0, exclusiveMinimum=True),
        d4(minimum=0.0, exclusiveMinimum=True),
    ),
    Same("steps of 2 and 2.0", {"multipleOf": 2}, {"multipleOf": 2.0}),
    Same(
        "steps of 2 below 3 and below 2",
        {"type": "integer", "multipleOf": 2, "maximum": 3},
        {"type": "integer", "multipleOf": 2, "maximum": 2},
    ),
    Same(
        "bounds behind a reference", {"$ref": "#/$defs/n", "$defs": {"n": {"maximum": 10.0}}}, {"maximum": 10}
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
    Same("contentSchema", {"contentMediaType": "application/json", "contentSchema": {"minimum": 1}}, True),
    Same("a keyword of a later draft", d4(const=1), d4()),
)
