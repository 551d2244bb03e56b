"""What a subject's settings ask of a new schema beyond being one: names, reserved fields, expressions of rules.

Source: Confluent Schema Registry, `schema.validate.fields` (`validateFields`), `validateNames`, `validateRules`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tidegate.contracts.formats.json_fields import JsonFields
from tidegate.contracts.rules.cel import syntax_error
from tidegate.gateway.registry.schema_content import SchemaContent
from tidegate.gateway.registry.schemas.avro_text import named_types
from tidegate.gateway.registry.schemas.entities import AVRO, Config, Metadata, RuleSet
from tidegate.gateway.registry.schemas.errors import invalid_rule_set, invalid_schema
from tidegate.gateway.registry.schemas.expressions import parts_of

RESERVED: Final = "confluent:reserved"
"""The property of metadata that lists fields which a schema may have only later."""
_RESERVED_PREFIX: Final = "$$"


def check_sound(content: SchemaContent, config: Config) -> None:
    """Refuse a new schema that the settings forbid. Raises Refused (42201, 42210).

    Names of Avro are looked at unless `validateNames` is false, the others only where they are true.
    """
    if content.parsed.schema_type == AVRO and config.validate_names is not False:
        for name in _names(content.parsed.definition):
            if not _is_name(name):
                raise invalid_schema(
                    f"'{name}' is no name in Avro: it begins with a letter or _, and goes on with letters, digits and _"
                )
    if config.validate_fields:
        for name in _top_level(content):
            if name.startswith(_RESERVED_PREFIX):
                raise invalid_schema(f"the field '{name}' begins with {_RESERVED_PREFIX}, which is reserved")
    if config.validate_rules:
        _check_expressions(content.rule_set)


def reserved_conflicts(content: SchemaContent, earlier: Metadata | None, config: Config) -> tuple[str, ...]:
    """Return what a new schema does to fields that it, or the version before, reserves; nothing unless that is asked for."""
    if not config.validate_fields:
        return ()
    reserved = _reserved(content.metadata)
    removed = (
        f"The new schema has reserved field {name} removed from its metadata which is present in the old schema's "
        "metadata."
        for name in _reserved(earlier)
        if name not in reserved
    )
    present = set(_top_level(content))
    taken = (
        f"The new schema has field that conflicts with the reserved field {name}."
        for name in reserved
        if name in present
    )
    found = (*removed, *taken)
    return (*found, f"{{validateFields: 'true', compatibility: '{config.level}'}}") if found else ()


def _reserved(metadata: Metadata | None) -> list[str]:
    listed = "" if metadata is None else metadata.properties.get(RESERVED, "")
    return [name.strip() for name in listed.split(",") if name.strip()]


def _top_level(content: SchemaContent) -> tuple[str, ...]:
    definition = content.parsed.definition
    if content.parsed.schema_type != AVRO:
        return JsonFields(definition).top_level()
    fields = definition.get("fields", ()) if isinstance(definition, dict) else ()
    return tuple(field["name"] for field in fields)


def _names(definition: Any) -> Iterator[str]:
    """Yield the parts of the names of types, and the names of fields."""
    for full_name, schema in named_types(definition).items():
        yield from full_name.split(".")
        yield from (field["name"] for field in schema.get("fields", ()))


def _is_name(text: str) -> bool:
    """Source: Apache Avro 1.12 (Java), `NameValidator.UTF_VALIDATOR`."""
    plain = text.replace("_", "a")
    return plain[:1].isalpha() and plain.isalnum()


def _check_expressions(rule_set: RuleSet | None) -> None:
    for rule in () if rule_set is None else rule_set.rules():
        if rule.type not in {"CEL", "CEL_FIELD"}:
            continue
        for expression in parts_of(rule.expr or ""):
            reason = syntax_error(expression)
            if reason is not None:
                raise invalid_rule_set(f"the expression of the rule '{rule.name}' is not CEL: {reason}")
