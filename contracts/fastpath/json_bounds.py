"""Rewrite a JSON Schema into an equivalent one whose bounds are faster to check.

jsonschema-rs compares with a bound such as 9999999.99 in exact fractions, which takes as long as the rest of an ordinary
schema. A number up to 9999999 is also below 9999999.99, and is compared as an integer. So `maximum: 9999999.99` becomes
`anyOf: [maximum: 9999999, maximum: 9999999.99]`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from tidegate.contracts.formats.json_keywords import subschemas_changed

_WHOLE: Final[dict[str, tuple[str, Callable[[float], int]]]] = {
    "minimum": ("minimum", math.ceil),
    "exclusiveMinimum": ("minimum", math.ceil),
    "maximum": ("maximum", math.floor),
    "exclusiveMaximum": ("maximum", math.floor),
}
"""By keyword of a fractional bound: the keyword of an integer bound that implies it, and how to round."""


def with_quick_bounds(schema: Any) -> Any:
    """Return the schema with faster bounds. Subschemas keep their place, so every `$ref` still resolves."""
    return subschemas_changed(schema, _bounds_changed)


def _bounds_changed(schema: dict[str, Any]) -> dict[str, Any]:
    fractions = [keyword for keyword in schema if _is_fraction(keyword, schema)]
    if not fractions:
        return schema
    quick = {keyword: value for keyword, value in schema.items() if keyword not in fractions}
    alternatives = [
        {"anyOf": [{_WHOLE[keyword][0]: _WHOLE[keyword][1](schema[keyword])}, {keyword: schema[keyword]}]}
        for keyword in fractions
    ]
    return quick | {"allOf": [*quick.get("allOf", ()), *alternatives]}


def _is_fraction(keyword: str, schema: dict[str, Any]) -> bool:
    bound = schema[keyword]
    if keyword not in _WHOLE or not isinstance(bound, float) or bound.is_integer():
        return False
    # In draft 4 a boolean beside the bound says whether it is exclusive.
    return not isinstance(schema.get(f"exclusive{keyword.capitalize()}"), bool)
