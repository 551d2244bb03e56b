"""Rules as JSON Schemas, so that the schema prover can show that a schema implies a rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final, assert_never

from tidegate.contracts.compatibility.expressions import NAN, RecordMember
from tidegate.contracts.compatibility.finding import overlap
from tidegate.contracts.compatibility.predicates import ecma_pattern
from tidegate.contracts.document.fields import FieldType, SchemaFields, join, tokens
from tidegate.contracts.document.model import DataContract, JsonSchema
from tidegate.contracts.document.rule_model import AMOUNT_BOUNDS, BaseRule, Rule
from tidegate.contracts.inclusion import json_schema
from tidegate.contracts.inclusion.answer import Outcome
from tidegate.contracts.rules.compile import refuses
from tidegate.contracts.rules.kinds.registry import kind_of, refused_set
from tidegate.contracts.rules.places import EACH, Path
from tidegate.contracts.rules.rule_kind import Listed, OfField, Others, Outside, Unmatched
from tidegate.contracts.rules.values import DATES, number_of, order_of_durations, order_of_times

STEPS: Final = 4_000
"""Maximum steps of a proof about one rule or one assumption."""
_MAX_RULES: Final = 40
_MAX_PATTERNS: Final = 2
_OBJECT: Final = frozenset({"object"})


def covered_by_schema(rule: BaseRule, contract: DataContract, fields: SchemaFields) -> bool:
    """Return whether every record that fits a contract's schema and satisfies its rules satisfies this rule.

    True is proven; False means unknown. Always False for Avro.
    """
    schema = contract.schema_
    wanted = schema_of_rule(rule, fields)
    if wanted is None or not isinstance(schema, JsonSchema) or schema.definition is None:
        return False
    definition = with_rules(schema.definition, contract, fields, kind_of(rule).fields(rule))
    return _is_within(definition, wanted, schema)


def member_of(contract: DataContract, fields: SchemaFields, path: Path) -> RecordMember | None:
    """Return what is proven about a member of every record that fits the schema; None if nothing is."""
    found = [fields.find(join(path[:length])) for length in range(len(path) + 1)]
    types = [each.types for each in found if each is not None]
    if len(types) < len(found) or any(token.isdigit() or token == EACH for token in path):
        return None
    schema = contract.schema_
    if not isinstance(schema, JsonSchema):
        held = types[-1] | ({NAN} if "number" in types[-1] else set())
        return RecordMember(held) if all(each == _OBJECT for each in types[:-1]) else None
    for is_always_there in (True, False):
        wanted: dict[str, Any] = {"type": sorted(types[-1] - {"bytes"})}
        for token in reversed(path):
            required = {"required": [token]} if is_always_there else {}
            wanted = {"type": "object", "properties": {token: wanted}, **required}
        if _is_within(True if schema.definition is None else schema.definition, wanted, schema):
            return RecordMember(types[-1], is_always_there)
    return None


def _is_within(definition: Any, wanted: dict[str, Any], schema: JsonSchema) -> bool:
    """Return whether `wanted` is proven to accept all that `definition` accepts, with the formats of `schema`."""
    asserts = schema.formats == "assert"
    wanted = {**wanted, **dialect_of(definition)}
    inclusion = json_schema.includes(definition, wanted, formats_asserted=asserts, budget=STEPS)
    return inclusion.outcome is Outcome.PROVEN


def with_rules(
    definition: Any, contract: DataContract, fields: SchemaFields, places: Iterable[str] = ("",)
) -> Any:
    """Return a schema with the refusing rules about some places added, or unchanged if none can be added.

    `places` are JSON Pointers of places in a record; "" stands for the whole record. See `kept_rules`.
    """
    parts = [part for _, part in kept_rules(definition, contract, fields, places)]
    return with_schemas(definition, parts) if parts else definition


def with_schemas(definition: dict[str, Any], parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return a schema with additional constraints in its `allOf`."""
    return {**definition, "allOf": [*definition.get("allOf", []), *parts]}


def kept_rules(
    definition: Any, contract: DataContract, fields: SchemaFields, places: Iterable[str] = ("",)
) -> list[tuple[Rule, dict[str, Any]]]:
    """Return the rules about some places that keep records from being written, each with its JSON Schema.

    Empty if adding a schema to `definition` would change the meaning of `definition`.
    """
    places = list(places)
    if not isinstance(definition, dict) or "$ref" in definition:
        return []
    # The meaning of these keywords depends on the properties that added schemas name.
    if any(keyword in repr(definition) for keyword in ("unevaluatedProperties", "unevaluatedItems")):
        return []
    near = [
        rule
        for rule in contract.rules
        if refuses(rule, contract)
        and any(overlap(name, place) for name in kind_of(rule).fields(rule) for place in places)
    ]
    patterns = [rule for rule in near if isinstance(refused_set(rule), Unmatched)]
    kept = ((rule, schema_of_rule(rule, fields)) for rule in near if rule not in patterns[_MAX_PATTERNS:])
    return list(islice(((rule, part) for rule, part in kept if part is not None), _MAX_RULES))


def schema_of_rule(rule: BaseRule, fields: SchemaFields) -> dict[str, Any] | None:
    """Return a JSON Schema, for any draft, of exactly the records that satisfy a rule; None if there is none."""
    form = refused_set(rule)
    if not isinstance(form, OfField):
        return None
    path = tokens(form.field)
    found = fields.find(form.field)
    if found is None or any(token.isdigit() or token == EACH for token in path):
        return None
    inner = _value_schema(form, found)
    if inner is None:
        return None
    if form.null:
        inner = {"allOf": [inner, {"not": {"type": "null"}}]}
    else:
        inner = {"anyOf": [{"type": "null"}, inner]}
    for token in reversed(path):
        inner = {"properties": {token: inner}}
        if form.null:
            inner |= {"type": "object", "required": [token]}
    return inner


def _value_schema(form: OfField, found: FieldType) -> dict[str, Any] | None:
    """Return a JSON Schema of the values that satisfy a rule; None if there is none."""
    times = order_of_times(found)
    if order_of_durations(found) is not None:
        return None
    match form:
        case Listed():
            # `enum` compares text, but one instant can be written in several ways.
            return {"not": {"enum": list(form.values)}} if times is None or times is DATES else None
        case Others():
            if times is not None:
                return None  # the rule refuses dates only, which `enum` cannot express
            types = sorted({_type_name(value) for value in form.values})
            return {"anyOf": [{"not": {"type": types}}, {"enum": list(form.values)}]}
        case Unmatched():
            pattern = ecma_pattern(form.pattern)
            return None if pattern is None else {"pattern": pattern}
        case Outside():
            return _bounds(form.limits)
        case _:
            assert_never(form)


def _bounds(given: Mapping[str, Any]) -> dict[str, Any] | None:
    limits = {name: number_of(limit) for name, limit in given.items() if name in AMOUNT_BOUNDS}
    if not limits or not all(isinstance(limit, int | float) for limit in limits.values()):
        return None
    parts: list[dict[str, Any]] = [{name: limits[name]} for name in ("minimum", "maximum") if name in limits]
    # Exclusive bounds differ between drafts, but "not at most" is written alike in all of them.
    for name, other in (("exclusive_minimum", "maximum"), ("exclusive_maximum", "minimum")):
        if name in limits:
            parts.append({"anyOf": [{"not": {"type": "number"}}, {"not": {other: limits[name]}}]})
    return {"allOf": parts}


def _type_name(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number"


def dialect_of(definition: Any) -> dict[str, Any]:
    """Return the `$schema` keyword of a schema as a dict; empty if it has none."""
    is_known = isinstance(definition, dict) and isinstance(definition.get("$schema"), str)
    return {"$schema": definition["$schema"]} if is_known else {}
