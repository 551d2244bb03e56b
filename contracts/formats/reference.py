"""A reference validator for JSON Schema: python-jsonschema, which shares no code with the judge."""

from __future__ import annotations

import json
from decimal import Decimal, localcontext
from typing import Any, Final

import jsonschema
from referencing.jsonschema import SchemaRegistry

from tidegate.contracts.document.model import JsonSchema

_DIGITS: Final = 1_000
"""Decimal digits for the quotient of two doubles in `multipleOf`; Python's default is 28."""


class ReferenceValidator:
    """Validates JSON records with python-jsonschema, to compare its verdicts with those of the judge.

    It is slow, because each keyword is a Python function. It asserts only the formats that python-jsonschema can check
    with the installed packages, and interprets patterns as Python's `re` does.
    """

    def __init__(self, schema: JsonSchema) -> None:
        definition = _exact(json.dumps(schema.definition))
        draft = jsonschema.validators.validator_for(definition, default=jsonschema.Draft202012Validator)
        # Decoded fractions are Decimals. From draft 6 on, 1.0 is an integer. Source: draft-06 validation, section 4.2.
        is_integer = _is_whole if draft is not jsonschema.Draft4Validator else _is_int
        types = draft.TYPE_CHECKER.redefine("integer", is_integer)
        formats = draft.FORMAT_CHECKER if schema.formats == "assert" else None
        # The default registry would fetch remote references from the network.
        exact = jsonschema.validators.extend(draft, type_checker=types)  # type: ignore[no-untyped-call] # `extend` has no types
        self._validator = exact(definition, registry=SchemaRegistry(), format_checker=formats)

    def accepts(self, payload: bytes) -> bool | None:
        """Return whether a record fits the schema; None if Python's JSON decoder or Decimal cannot represent it."""
        try:
            with localcontext(prec=_DIGITS):
                return bool(self._validator.is_valid(_exact(payload)))
        except (ValueError, RecursionError, ArithmeticError):
            return None


def _exact(text: str | bytes) -> Any:
    return json.loads(text, parse_float=Decimal)


def _is_int(_checker: object, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_whole(_checker: object, value: object) -> bool:
    return _is_int(_checker, value) or (isinstance(value, Decimal) and value == value.to_integral_value())
