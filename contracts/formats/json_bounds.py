"""A JSON Schema of the same meaning whose bounds are quicker to check.

jsonschema-rs compares with a bound such as 9999999.99 in exact fractions, which takes as long as the rest of an ordinary
schema. Whoever is at most 9999999 is at most 9999999.99, and that is compared in integers: so `maximum: 9999999.99`
becomes `anyOf: [maximum: 9999999, maximum: 9999999.99]`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from contracts.formats.json_keywords import ONE_SCHEMA, SCHEMA_LIST, SCHEMA_MAP

_WHOLE: Final[dict[str, tuple[str, Callable[[float], int]]]] = {
    "minimum": ("minimum", math.ceil),
    "exclusiveMinimum": ("minimum", math.ceil),
    "maximum": ("maximum", math.floor),
    "exclusiveMaximum": ("maximum", math.floor),
}
"""The integer bound that implies a fractional one."""


def with_quick_bounds(schema: Any) -> Any:
    """Rewrite a schema; every subschema stays where a `$ref` may look for it."""
    if not isinstance(schema, dict):
        return schema
    quick = {keyword: _rewritten(keyword, value) for keyword, value in schema.items()}
    alternatives = [
        {"anyOf": [{_WHOLE[keyword][0]: _WHOLE[keyword][1](bound)}, {keyword: quick.pop(keyword)}]}
        for keyword, bound in schema.items()
        if _is_fraction(keyword, schema)
    ]
    if alternatives:
        quick["allOf"] = [*quick.get("allOf", ()), *alternatives]
    return quick


def _rewritten(keyword: str, value: Any) -> Any:
    if isinstance(value, list) and keyword in SCHEMA_LIST:
        return [with_quick_bounds(part) for part in value]
    if isinstance(value, dict) and keyword in SCHEMA_MAP:
        return {name: with_quick_bounds(part) for name, part in value.items()}
    return with_quick_bounds(value) if keyword in ONE_SCHEMA else value


def _is_fraction(keyword: str, schema: dict[str, Any]) -> bool:
    bound = schema[keyword]
    if keyword not in _WHOLE or not isinstance(bound, float) or bound.is_integer():
        return False
    # In draft 4 a boolean beside the bound says whether it is exclusive.
    return not isinstance(schema.get(f"exclusive{keyword.capitalize()}"), bool)
