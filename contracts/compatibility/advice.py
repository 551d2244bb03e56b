"""Advice about a difference between two JSON Schemas: how to proceed, its cause, and what the contract assumes."""

from __future__ import annotations

from typing import Any, Final

from tidegate.contracts.document.fields import tokens, value_at
from tidegate.contracts.formats.json_fields import JsonFields
from tidegate.contracts.inclusion.answer import Difference, Outcome
from tidegate.contracts.rules.places import EACH

_OPEN: Final = (
    "the object is open, so earlier records may have anything there: raise the major version (one that closes the "
    "object with `additionalProperties: false` makes later properties compatible), or let the change pass with the "
    "compatibilityPolicy LENIENT of the subject, or set `undeclared: ignore` in a version before"
)
ASSUMED: Final = (
    "the contract assumes with `undeclared: ignore` that records have no such property: a producer that already sends it "
    "may be refused"
)
_DEFAULT: Final = (
    "its `default` fills nothing in: a record without it is refused, although Confluent Schema Registry calls this change "
    "compatible"
)


def advice_about(difference: Difference, old: JsonFields, new: Any) -> str | None:
    """Return advice about a difference, or None.

    `new` is the new schema, which must accept records of the old one; `old` are the fields of that one.
    """
    if difference.outcome is Outcome.PROVEN:
        return None
    if is_declared_now(difference, old):
        return _OPEN
    if difference.code == "schema.required-added" and _has_default(difference, new):
        return _DEFAULT
    return None


def is_declared_now(difference: Difference, old: JsonFields) -> bool:
    """Return whether the new schema declares a property that was undeclared in an open object of the old schema.

    A property that the old schema names in any way, as in `required`, is expected in its records.
    """
    if difference.keyword == "properties":
        is_new = difference.code == "schema.property-constrained"
    else:
        was_undeclared = difference.old_pointer.endswith("/additionalProperties")
        is_new = was_undeclared and "/properties/" in difference.new_pointer
    return is_new and has_unnamed(tokens(difference.field), old)


def has_unnamed(path: tuple[str, ...], fields: JsonFields) -> bool:
    """Return whether a property on a path is named nowhere in the schema of its object."""
    steps = [path[: index + 1] for index, token in enumerate(path) if token != EACH and not token.isdigit()]
    return any(not fields.mentions(step) for step in steps)


def _has_default(difference: Difference, new: Any) -> bool:
    """Return whether the newly required property of a difference has a default."""
    schema = value_at(new, tokens(difference.new_pointer)[:-1])
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return False
    return any(
        isinstance(part, dict) and "default" in part and f"the property `{name}` of" in difference.sentence
        for name, part in properties.items()
    )
