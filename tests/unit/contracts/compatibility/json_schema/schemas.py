"""The words in which the case tables of the comparison write JSON Schemas."""

from __future__ import annotations

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


def addons(**properties: Schema) -> dict[str, Any]:
    """Write a closed object with the property `foo` to which a dynamic anchor at the root adds others."""
    base = {
        "$id": "./base",
        "type": "object",
        "properties": {"foo": S},
        "unevaluatedProperties": False,
        "$dynamicRef": "#addons",
        "$defs": {"none": {"$dynamicAnchor": "addons"}},
    }
    own = {"$dynamicAnchor": "addons", "properties": properties}
    return {
        "$schema": D2020,
        "$id": "https://example.com/derived",
        "$ref": "./base",
        "$defs": {"own": own, "base": base},
    }
