"""Pairs of JSON Schemas without a proof: cases of the comparison."""

from __future__ import annotations

from dataclasses import dataclass

from tests.unit.contracts.compatibility.json_schema.schemas import D4, I, S, Schema, d7, d19, obj


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
        "unevaluatedItems beside contains in 2019-09",
        d19(contains=I, unevaluatedItems=False),
        d19(contains={"type": "number"}, unevaluatedItems=False),
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
