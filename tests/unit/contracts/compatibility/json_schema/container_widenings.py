"""Pairs of schemas of arrays and objects; the second accepts all records of the first, and more."""

from __future__ import annotations

from tests.unit.contracts.compatibility.json_schema.schemas import I, N, S, addons, d7, d19, obj
from tests.unit.contracts.compatibility.json_schema.widenings import Widening

CONTAINER_WIDENINGS = (
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
    Widening(
        "unevaluatedItems of 2019-09 dropped beside contains",
        d19(contains=I, unevaluatedItems=S),
        d19(contains=I, unevaluatedItems=True),
        "schema.unevaluated-items-changed",
    ),
    Widening(
        "maxItems dropped beside contains and unevaluatedItems of 2019-09",
        d19(type="array", contains=I, unevaluatedItems=S, maxItems=9),
        d19(type="array", contains=I, unevaluatedItems=S),
        "schema.max-items-added",
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
        "a wider contains beside unevaluatedItems",
        {"contains": I, "unevaluatedItems": False},
        {"contains": N, "unevaluatedItems": False},
        "schema.contains-changed",
    ),
    Widening(
        "a contains in a branch beside unevaluatedItems",
        {"type": "array", "contains": I, "unevaluatedItems": S},
        {"type": "array", "anyOf": [{"contains": I}, {"maxItems": 0}], "unevaluatedItems": S},
        "schema.contains-added",
    ),
    Widening(
        "a property more of a dynamic anchor under unevaluatedProperties",
        addons(bar=S),
        addons(bar=S, baz=S),
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
)
