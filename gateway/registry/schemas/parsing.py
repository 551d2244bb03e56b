"""Parsing and validation of posted schemas: their canonical text, normal text and self-contained definition."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isfinite
from typing import Any, Final, NoReturn

from tidegate.contracts.document.model import AvroSchema, JsonSchema
from tidegate.contracts.errors import ContractError
from tidegate.contracts.formats.avro import AvroFormat
from tidegate.contracts.formats.avro_types import depth_exceeds
from tidegate.contracts.formats.json_schema import JsonSchemaFormat
from tidegate.gateway.registry.schemas.avro_text import avro_text, named_types, with_types
from tidegate.gateway.registry.schemas.entities import AVRO, JSON, PROTOBUF
from tidegate.gateway.registry.schemas.errors import Refused, invalid_schema
from tidegate.gateway.registry.schemas.json_schema import (
    DRAFT_7,
    ClientDifference,
    bundled,
    differences,
    foreign_reference,
    json_text,
    names_draft,
    read_as,
    without_dialect,
)

SCHEMA_TYPES = (JSON, AVRO)
MAX_DEPTH: Final = 256
"""Maximum nesting levels of a schema, values included; the libraries that read and write it limit the depth."""
MAX_BUNDLE: Final = 4 << 20
"""Maximum characters of a JSON Schema with the schemas that it refers to; each level of references can double it."""
MAX_DIGITS: Final = 4_300
"""Maximum digits of an integer; Python's default limit for conversions."""
_READ_KEPT = 128


@dataclass(frozen=True, slots=True)
class ParsedSchema:
    """A valid schema.

    `text` is its canonical text with references as they are. `normal` is the same with sorted members: it is equal for
    schemas that differ only in the order of members. `definition` is the schema itself, self-contained.

    `dialect` is the `$schema` that was assumed for a JSON Schema without one, and None for every other schema. Draft 7
    is also written into `definition`. `differences` are the keywords that clients read differently without `$schema`.
    """

    schema_type: str
    text: str
    normal: str
    definition: Any
    dialect: str | None = None
    differences: tuple[ClientDifference, ...] = ()

    def read_as(self, dialect: str) -> ParsedSchema:
        """Return the schema as clients with this default read it: unchanged if it names its draft."""
        if self.dialect is None:
            return self
        return replace(self, definition=read_as(self.definition, dialect), dialect=dialect)


def check_type(schema_type: str) -> None:
    """Refuse a schema type that is not supported. Raises Refused (422)."""
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


def parse_schema(
    schema_type: str,
    text: str,
    others: Mapping[str, ParsedSchema],
    dialect: str = DRAFT_7,
    *,
    is_registered: bool = False,
) -> ParsedSchema:
    """Parse a schema; `others` are the schemas that it refers to, by reference name.

    `dialect` is the `$schema` by which a JSON Schema without one is read. With `is_registered`, the schema is not
    validated again: validating each schema of a chain takes time that grows with the square of its length.
    Raises Refused (42201).
    """
    check_type(schema_type)
    for name, other in others.items():
        if other.schema_type != schema_type:
            raise invalid_schema(f"the reference '{name}' leads to a schema of type {other.schema_type}")
    schema = _read(text, lenient=schema_type == AVRO)
    try:
        if schema_type == AVRO:
            return _avro(schema, others, is_registered=is_registered)
        return _json(schema, others, dialect, is_registered=is_registered)
    except ContractError as error:
        raise invalid_schema(_joined(error)) from error
    except RecursionError as error:
        raise _too_deep() from error
    except (UnicodeEncodeError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise invalid_schema(f"it cannot be read: {error}") from error


def _avro(schema: Any, others: Mapping[str, ParsedSchema], *, is_registered: bool) -> ParsedSchema:
    try:
        text = avro_text(schema)
    except (KeyError, TypeError, AttributeError):
        AvroFormat(AvroSchema(type="avro", definition=schema))  # raises ContractError with the reason
        raise
    definition = json.loads(text)
    if others:
        types: dict[str, dict[str, Any]] = {}
        for other in others.values():
            types.update(named_types(other.definition))
        definition = with_types(definition, types)
    _check_depth(definition)
    if not is_registered:
        AvroFormat(AvroSchema(type="avro", definition=definition))
    return _encodable(ParsedSchema(AVRO, text, avro_text(schema, sort_properties=True), definition))


def _json(
    schema: Any, others: Mapping[str, ParsedSchema], dialect: str, *, is_registered: bool
) -> ParsedSchema:
    if not isinstance(schema, dict | bool):
        raise invalid_schema("a JSON Schema is an object, true or false")
    is_named = names_draft(schema)
    is_draft_7 = not is_named and dialect == DRAFT_7
    whole = read_as(schema, dialect) if is_draft_7 else schema
    definition = bundled(whole, {name: other.definition for name, other in others.items()})
    _check_depth(definition)
    if others and len(json_text(definition)) > MAX_BUNDLE:
        raise too_large(MAX_BUNDLE)
    try:
        if not is_registered:
            _compile(definition)
    except ContractError as error:
        if is_draft_7 and is_json_schema(json_text(without_dialect(definition))):
            raise invalid_schema(
                f"{_joined(error)}; it names no draft and is read as draft 7, as by clients for Java: name its draft in "
                "`$schema`"
            ) from error
        raise
    text, normal = json_text(schema), json_text(schema, sort_keys=True)
    if is_named or is_registered:
        return _encodable(ParsedSchema(JSON, text, normal, definition, None if is_named else dialect))
    found = differences(definition)
    if is_draft_7:
        found += tuple(foreign_reference(name) for name, other in others.items() if _is_foreign(other))
    return _encodable(ParsedSchema(JSON, text, normal, definition, dialect, found))


def normal_text(text: str) -> str | None:
    """Return the normal text of a JSON Schema that names no draft; None for any other text."""
    try:
        schema = _read(text, lenient=False)
        return None if names_draft(schema) else json_text(schema, sort_keys=True)
    except (Refused, RecursionError, ValueError):
        return None


@lru_cache(maxsize=_READ_KEPT)
def is_json_schema(text: str) -> bool:
    """Return whether a JSON text is a JSON Schema of the draft that it names, or else of 2020-12."""
    try:
        _compile(json.loads(text))
    except (ContractError, RecursionError, ValueError):
        return False
    return True


def _compile(definition: Any) -> None:
    JsonSchemaFormat(JsonSchema(type="json-schema", definition=definition))


def _is_foreign(other: ParsedSchema) -> bool:
    """Return whether a referenced schema names a draft other than draft 7, as which it is read here."""
    definition = other.definition
    if other.dialect is not None or not isinstance(definition, dict):
        return False
    return str(definition.get("$schema", DRAFT_7)).rstrip("#") != DRAFT_7.rstrip("#")


def _joined(error: ContractError) -> str:
    return "; ".join(problem.message for problem in error.problems)


def _encodable(schema: ParsedSchema) -> ParsedSchema:
    """Return the schema. Raises UnicodeEncodeError if its text has a lone surrogate."""
    schema.text.encode()
    return schema


def _read(text: str, *, lenient: bool) -> Any:
    """Read JSON. With `lenient`, also read a bare type name such as `string`, as Confluent's registry does."""
    stripped = text.strip()
    if lenient and stripped.replace("_", "").replace(".", "").isalnum() and stripped.isascii():
        return stripped
    try:
        return json.loads(text, parse_int=_whole_number, parse_float=_double, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise _too_deep() from error
    except ValueError as error:
        raise invalid_schema(f"it is not valid JSON: {error}") from error


def _whole_number(text: str) -> int:
    if len(text.removeprefix("-")) > MAX_DIGITS:
        raise invalid_schema(
            f"the number {text:.20}... has {len(text):,} digits; write at most {MAX_DIGITS:,} of them"
        )
    return int(text)


def _double(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise invalid_schema(f"the number {text:.40} is larger than a double holds; write a smaller one")
    return number


def _check_depth(definition: Any) -> None:
    if depth_exceeds(definition, MAX_DEPTH):
        raise _too_deep()


def too_large(most: int) -> Refused:
    """Return the refusal of a JSON Schema that has more characters than `most` with what it refers to."""
    return invalid_schema(
        f"with what its references lead to it has more than {most:,} characters; refer to each schema once"
    )


def _too_deep() -> Refused:
    return invalid_schema(
        f"it is nested deeper than {MAX_DEPTH} levels, with what its references lead to; nest it less"
    )


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
