"""Which keywords of JSON Schema hold schemas, over all drafts.

Source: JSON Schema drafts 4, 6 and 7, validation; 2019-09 chapter 9 and 2020-12 chapters 10 and 11 of core.
"""

from __future__ import annotations

from typing import Final

ONE_SCHEMA: Final = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
"""Their value is a schema."""
SCHEMA_LIST: Final = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
"""Their value is a list of schemas; `items` until draft 2019-09 may be either."""
SCHEMA_MAP: Final = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
"""Their value is an object of schemas by name; `dependencies` may hold lists of names, too."""
