"""What the policy LENIENT leaves out of sight: properties that a JSON Schema does not declare.

Source: Confluent Schema Registry, `CompatibilityPolicy.LENIENT`: adding an optional property to an open content model
and removing one from a closed model are compatible by definition, whatever documents say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_COMBINING = ("$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "not", "if")
_OPENNESS = ("additionalProperties", "unevaluatedProperties", "patternProperties")
_NAMED = ("properties", "$defs", "definitions")
_SINGLE = ("items", "additionalItems", "contains", "additionalProperties")


def closed(schema: Any) -> Any:
    """Shut undeclared properties out of every object that says nothing of them and is not combined with others."""
    return _everywhere(schema, _close)


def opened(schema: Any) -> Any:
    """Let undeclared properties into every object that shuts them out and is not combined with others."""
    return _everywhere(schema, _open)


def _everywhere(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    if not isinstance(schema, dict):
        return schema
    found = dict(schema)
    for name in _NAMED:
        if isinstance(schema.get(name), dict):
            found[name] = {key: _everywhere(part, change) for key, part in schema[name].items()}
    for name in _SINGLE:
        if isinstance(schema.get(name), dict):
            found[name] = _everywhere(schema[name], change)
    for name in ("items", "prefixItems"):
        if isinstance(schema.get(name), list):
            found[name] = [_everywhere(part, change) for part in schema[name]]
    if "properties" in schema and not any(name in schema for name in _COMBINING):
        return change(found)
    return found


def _close(schema: dict[str, Any]) -> dict[str, Any]:
    return schema if any(name in schema for name in _OPENNESS) else {**schema, "additionalProperties": False}


def _open(schema: dict[str, Any]) -> dict[str, Any]:
    return {
        name: part
        for name, part in schema.items()
        if not (name in {"additionalProperties", "unevaluatedProperties"} and part is False)
    }
