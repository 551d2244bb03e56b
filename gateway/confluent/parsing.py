"""From a posted schema to one that is known to be sound: its canonical text, its normal text, its definition."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from contracts.errors import ContractError
from contracts.formats.avro import AvroFormat
from contracts.formats.json_schema import JsonSchemaFormat
from contracts.model import AvroSchema, JsonSchema
from gateway.confluent.avro_text import avro_text, named_types, with_types
from gateway.confluent.entities import AVRO, JSON, PROTOBUF
from gateway.confluent.errors import Refused, invalid_schema
from gateway.confluent.json_text import bundled, json_text

SCHEMA_TYPES = (JSON, AVRO)


@dataclass(frozen=True, slots=True)
class ParsedSchema:
    """A sound schema.

    `text` is its canonical text with references as they are, `normal` the same with members in order, equal for
    schemas that differ in the order of their members only. `definition` is the schema itself, self-contained.
    """

    schema_type: str
    text: str
    normal: str
    definition: Any


def check_type(schema_type: str) -> None:
    """Refuse a schema type that is not kept here. Raises Refused (422)."""
    if schema_type == PROTOBUF:
        raise Refused(
            422,
            42201,
            "Invalid schema: this registry keeps Avro and JSON Schema; PROTOBUF is not supported, see "
            "GET /schemas/types",
        )
    if schema_type not in SCHEMA_TYPES:
        raise invalid_schema(
            f"no schema type is named {schema_type}; the types are AVRO and JSON, in capitals"
        )


def parse_schema(schema_type: str, text: str, others: Mapping[str, ParsedSchema]) -> ParsedSchema:
    """Parse a schema; `others` are the schemas that it refers to, by reference name. Raises Refused (42201)."""
    check_type(schema_type)
    for name, other in others.items():
        if other.schema_type != schema_type:
            raise invalid_schema(f"the reference '{name}' leads to a schema of type {other.schema_type}")
    schema = _read(text, lenient=schema_type == AVRO)
    try:
        return _avro(schema, others) if schema_type == AVRO else _json(schema, others)
    except ContractError as error:
        raise invalid_schema("; ".join(problem.message for problem in error.problems)) from error
    except (RecursionError, UnicodeEncodeError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise invalid_schema(f"it cannot be read: {error}") from error


def _avro(schema: Any, others: Mapping[str, ParsedSchema]) -> ParsedSchema:
    try:
        text = avro_text(schema)
    except (KeyError, TypeError, AttributeError):
        AvroFormat(AvroSchema(type="avro", definition=schema))  # says what is wrong
        raise
    definition = json.loads(text)
    if others:
        types: dict[str, dict[str, Any]] = {}
        for other in others.values():
            types.update(named_types(other.definition))
        definition = with_types(definition, types)
    AvroFormat(AvroSchema(type="avro", definition=definition))
    return _sound(AVRO, text, avro_text(schema, sort_properties=True), definition)


def _json(schema: Any, others: Mapping[str, ParsedSchema]) -> ParsedSchema:
    if not isinstance(schema, dict | bool):
        raise invalid_schema("a JSON Schema is an object, true or false")
    definition = bundled(schema, {name: other.definition for name, other in others.items()})
    JsonSchemaFormat(JsonSchema(type="json-schema", definition=definition))
    return _sound(JSON, json_text(schema), json_text(schema, sort_keys=True), definition)


def _sound(schema_type: str, text: str, normal: str, definition: Any) -> ParsedSchema:
    text.encode()  # a lone surrogate is no text
    return ParsedSchema(schema_type, text, normal, definition)


def _read(text: str, *, lenient: bool) -> Any:
    """Read JSON; of Avro also a bare type name, as the peer does."""
    stripped = text.strip()
    if lenient and stripped.replace("_", "").replace(".", "").isalnum() and stripped.isascii():
        return stripped
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise invalid_schema(f"it is no JSON: {error}") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
