"""The containment that jsonschema-rs computes, as a second opinion on the comparison of JSON Schemas.

It is an oracle of tests only: docs/decisions.md says why the product does not use it.
"""

from __future__ import annotations

import json

import jsonschema_rs
from jsonschema_rs.canonical import CanonicalizationError, Containment

from tidegate.contracts.formats.json_schema import JsonSchemaFormat

_SAID = {Containment.YES: True, Containment.NO: False, Containment.UNKNOWN: None}


def contained(old: JsonSchemaFormat, new: JsonSchemaFormat) -> bool | None:
    """Return whether every document of `old` is one of `new`; None where jsonschema-rs does not tell."""
    if _may_overflow(old) or _may_overflow(new):
        return None
    try:
        narrow, wide = _canonical(old), _canonical(new)
        return _SAID[wide.covers(narrow)]
    except CanonicalizationError:  # two drafts, or a pattern or keyword that it does not compare
        return None


def _canonical(schema: JsonSchemaFormat) -> jsonschema_rs.CanonicalSchema:
    return jsonschema_rs.canonicalize(
        schema.patterns.rewritten(schema.definition), validate_formats=schema.formats_hold, offline=True
    )


def _may_overflow(schema: JsonSchemaFormat) -> bool:
    """Return whether jsonschema-rs 0.60.3 may overflow the stack, which ends the process.

    `{"if": {"$ref": "#", "unevaluatedProperties": {}}}` does.
    """
    text = json.dumps(schema.definition)
    return '"unevaluated' in text and any(
        f'"{each}"' in text for each in ("$ref", "$dynamicRef", "$recursiveRef")
    )
