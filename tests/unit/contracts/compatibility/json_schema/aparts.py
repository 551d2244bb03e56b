"""Pairs of JSON Schemas that each accept records that the other refuses: cases of the comparison."""

from __future__ import annotations

from dataclasses import dataclass

from tests.unit.contracts.compatibility.json_schema.schemas import I, S, Schema, d7, obj


@dataclass(frozen=True)
class Apart:
    """Each accepts what the other refuses: `there` is the change from one to other, `back` the way back."""

    name: str
    one: Schema
    other: Schema
    there: str
    back: str


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
