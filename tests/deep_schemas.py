"""Schemas that reach the same member of a value by several paths, and deeply nested records."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.steps import fresh
from tidegate.contracts.document.load import parse_contract
from tidegate.contracts.document.model import DataContract

LEVELS = 40


def _twice(reference: dict[str, Any]) -> dict[str, Any]:
    return {"properties": {"a": reference}}


BODIES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "allOf": lambda ref: {"allOf": [_twice(ref), _twice(ref)]},
    "anyOf": lambda ref: {"anyOf": [_twice(ref), _twice(ref) | {"minProperties": 1}]},
    "oneOf": lambda ref: {"oneOf": [_twice(ref), _twice(ref) | {"minProperties": 1}]},
    "dependentSchemas": lambda ref: {"dependentSchemas": {"a": _twice(ref)}, **_twice(ref)},
    "patternProperties": lambda ref: {"patternProperties": {"a": ref, "^a": ref}, **_twice(ref)},
    "unevaluatedProperties": lambda ref: {
        "anyOf": [_twice(ref), _twice(ref) | {"minProperties": 1}],
        "unevaluatedProperties": False,
    },
    "additionalProperties": lambda ref: {
        "additionalProperties": ref,
        "allOf": [{"additionalProperties": ref}],
    },
}
KINDS = tuple(BODIES)


def recursive(kind: str) -> dict[str, Any]:
    """Return a schema whose definition refers to itself twice for the same member."""
    body = BODIES[kind]({"$ref": "#/$defs/n"})
    return fresh({"$ref": "#/$defs/n", "$defs": {"n": {**body, "type": "object"}}})


def dynamic(kind: str) -> dict[str, Any]:
    """Return a schema that refers to itself twice through its dynamic anchor."""
    return fresh({"$dynamicAnchor": "n", "type": "object", **BODIES[kind]({"$dynamicRef": "#n"})})


def chained(kind: str, levels: int = LEVELS) -> dict[str, Any]:
    """Return a schema of `levels` definitions; each refers to the next one twice for the same member."""
    definitions = {f"d{each}": BODIES[kind]({"$ref": f"#/$defs/d{each + 1}"}) for each in range(levels)}
    definitions[f"d{levels}"] = {"type": "object"}
    return fresh({"$ref": "#/$defs/d0", "$defs": definitions})


SHAPES: dict[str, Callable[[str], dict[str, Any]]] = {
    "recursive": recursive,
    "dynamic": dynamic,
    "chained": chained,
}


def nested(depth: int, leaf: str) -> bytes:
    """Return JSON of `depth` nested objects around a leaf."""
    return b'{"a":' * depth + leaf.encode() + b"}" * depth


def contract_with(definition: dict[str, Any], *rules: dict[str, Any]) -> DataContract:
    """Return a contract with a JSON Schema and rules."""
    document = {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": "a.b",
        "version": "1.0.0",
        "topic": "a.b",
        "schema": {"type": "json-schema", "definition": definition},
        "rules": [{"id": f"rule-{index}", **rule} for index, rule in enumerate(rules)],
    }
    return parse_contract(json.dumps(document), name="c.json", read_schema=None).contract
