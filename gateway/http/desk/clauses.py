"""The clause of the contract that a violation breaks, and the fields of that clause."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.contracts.document.fields import join, tokens
from tidegate.contracts.document.model import Column, DataContract, JsonSchema
from tidegate.contracts.document.rule_model import Rule
from tidegate.contracts.document.source import escape
from tidegate.contracts.formats.json_keywords import dereferenced
from tidegate.contracts.rules.kinds.registry import kind_of
from tidegate.contracts.verdict import Stage, Violation

_LONGEST_VALUE = 400


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of a contract: `heading` names it, `lines` are its (name, value) pairs as in the document."""

    heading: str
    lines: tuple[tuple[str, str], ...]
    description: str | None = None


def clause_of(  # noqa: PLR0911 - one for each stage
    contract: DataContract, violation: Violation
) -> Clause | None:
    """Return the clause that `violation` breaks; None if there is no single clause."""
    match violation.stage:
        case Stage.RULE:
            rule = _rule(contract, violation.code)
            return _rule_clause(rule) if rule is not None else None
        case Stage.COLUMN:
            column = _column(contract, violation.code)
            if column is None:
                return None
            return Clause(f"column {column.name}", _lines(column.model_dump(mode="json", exclude_none=True)))
        case Stage.SCHEMA:
            return _schema_clause(contract, violation)
        case Stage.FRAME:
            return Clause("framing", _lines({"framing": contract.framing, "tombstones": contract.tombstones}))
        case Stage.DECODE:
            return Clause("schema", _lines({"type": contract.schema_.type}))
        case Stage.EXPECTATION:
            return _expectation_clause(contract, violation.code)


def _expectation_clause(contract: DataContract, code: str) -> Clause | None:
    for each in contract.expectations:
        if each.id == code:
            return Clause(f"expectation {code}", _lines(each.model_dump(mode="json", exclude_defaults=True)))
    return None


def pointers_of(contract: DataContract | None, violation: Violation) -> tuple[str, ...]:
    """Return the JSON Pointers of all fields that `violation` concerns, first its own if it has one.

    With `contract` None, only its own pointer is known.
    """
    own = (violation.pointer,) if violation.pointer else ()
    if contract is None:
        return own
    more: tuple[str, ...] = ()
    rule = _rule(contract, violation.code) if violation.stage is Stage.RULE else None
    if rule is not None:
        kind = kind_of(rule)
        cited = (kind.locate(rule, pointer, violation.pointer) for pointer in kind.cited(rule))
        more = tuple(join(path) for path in cited)
    elif violation.stage is Stage.SCHEMA and violation.code == "required":
        more = _required(contract, violation.pointer)
    elif violation.stage is Stage.COLUMN:
        column = _column(contract, violation.code)
        more = () if column is None else (column.from_,)
    return tuple(dict.fromkeys((*own, *more)))


def is_required(contract: DataContract, pointer: str) -> bool:
    """Return whether `required` of the JSON Schema lists the field; False for other types of schema."""
    if not isinstance(contract.schema_, JsonSchema):
        return False
    parent, _, _ = pointer.rpartition("/")
    return pointer in _required(contract, parent)


def _rule(contract: DataContract, code: str) -> Rule | None:
    return next((rule for rule in contract.rules if rule.id == code), None)


def _column(contract: DataContract, name: str) -> Column | None:
    return next((column for column in contract.columns if column.name == name), None)


def _rule_clause(rule: Rule) -> Clause:
    fields = rule.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    fields.pop("description", None)
    ordered = {"id": rule.id, "kind": rule.kind, **fields}
    return Clause(f"rule {rule.id}", _lines(ordered), rule.description)


def _schema_clause(contract: DataContract, violation: Violation) -> Clause | None:
    if not isinstance(contract.schema_, JsonSchema):
        return None
    pointer = violation.pointer
    schema = _subschema(contract.schema_.definition, pointer)
    if schema is None or (violation.code == "required" and "required" not in schema):
        pointer = pointer.rpartition("/")[0]
        schema = _subschema(contract.schema_.definition, pointer)
    if schema is None:
        return None
    # The violated keyword first, then its plain siblings; nested schemas are clauses of their own.
    plain = {
        name: value
        for name, value in schema.items()
        if not isinstance(value, dict) and name not in {"$schema", "$id"}
    }
    shown = {violation.code: schema[violation.code]} if violation.code in schema else {}
    description = schema.get("description")
    lines = _lines({**shown, **{name: value for name, value in plain.items() if name != "description"}})
    return Clause(
        f"schema of {pointer or 'the record'}", lines, description if isinstance(description, str) else None
    )


def _required(contract: DataContract, pointer: str) -> tuple[str, ...]:
    schema = _subschema(contract.schema_.definition, pointer)
    names = schema.get("required") if schema is not None else None
    if not isinstance(names, list):
        return ()
    return tuple(f"{pointer}/{escape(name)}" for name in names if isinstance(name, str))


def _subschema(definition: Any, pointer: str) -> Mapping[str, Any] | None:
    """Resolve the pointer of a record's field to its subschema; return None if there is none.

    It follows `properties`, `items`, `additionalProperties` and local references of the JSON Schema.
    """
    schema = _resolved(definition, definition)
    for name in tokens(pointer):
        if schema is None:
            return None
        properties = schema.get("properties")
        if isinstance(properties, dict) and name in properties:
            schema = _resolved(definition, properties[name])
        elif "items" in schema and (name == "*" or name.isdigit()):
            schema = _resolved(definition, schema["items"])
        elif "additionalProperties" in schema:
            schema = _resolved(definition, schema["additionalProperties"])
        else:
            return None
    return schema


def _resolved(definition: Any, schema: Any) -> Mapping[str, Any] | None:
    found = dereferenced(definition, schema)
    return found if isinstance(found, dict) else None


def _lines(fields: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((name, _written(value)) for name, value in fields.items())


def _written(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"
