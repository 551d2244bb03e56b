"""Schemas between the store and the HTTP APIs: parsed, with resolved references, and checked against the settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from tidegate.contracts.formats.json_fields import JsonFields
from tidegate.contracts.rules.cel import syntax_error
from tidegate.gateway.registry.schemas.avro_text import named_types
from tidegate.gateway.registry.schemas.entities import (
    AVRO,
    JSON,
    OWN_PROPERTIES,
    Config,
    Metadata,
    Reference,
    RuleSet,
    schema_guid,
)
from tidegate.gateway.registry.schemas.errors import invalid_rule_set, invalid_schema, no_such_reference
from tidegate.gateway.registry.schemas.json_schema import DRAFT_7, NEWEST, json_text
from tidegate.gateway.registry.schemas.names import canonical, context_of, qualified
from tidegate.gateway.registry.schemas.parsing import ParsedSchema, normal_text, parse_schema, too_large
from tidegate.gateway.registry.schemas.rule_expressions import parts_of
from tidegate.gateway.storage.sql import Stores
from tidegate.gateway.storage.subjects import Deleted, StoredSchema, SubjectVersion
from tidegate.gateway.storage.tables import SchemaRow

_PARSED_KEPT = 512
MAX_LEVELS: Final = 20
"""Maximum levels of schemas that references of a posted schema lead through: each level copies all that is below it."""
MAX_POSTED: Final = 1 << 20
"""Maximum characters of a posted JSON Schema with what it refers to. Stored ones may be larger: they can be read."""


@dataclass(frozen=True, slots=True)
class SchemaContent:
    """A parsed schema and everything else that its GUID covers; references have the names of the registration."""

    parsed: ParsedSchema
    references: tuple[Reference, ...] = ()
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None

    @property
    def guid(self) -> str:
        """Return the GUID, which is equal for equal content."""
        return schema_guid(self.parsed.text, self.references, self.metadata, self.rule_set)

    @property
    def text_hash(self) -> str:
        """Return a hash that is equal for contents of the same text and references."""
        return self._hash(self.parsed.text)

    @property
    def normal_hash(self) -> str:
        """Return a hash that is equal for contents of the same normal text and references."""
        return self._hash(self.parsed.normal)

    def normalized(self) -> SchemaContent:
        """Return the content with its normal text."""
        return replace(self, parsed=replace(self.parsed, text=self.parsed.normal))

    def keep(self, stores: Stores, context: str, schema_id: int | None, at: datetime) -> StoredSchema:
        """Store the content in a context under `schema_id`; None: under the next id there."""
        row = SchemaRow(
            context=context,
            guid=self.guid,
            schema_type=self.parsed.schema_type,
            text=self.parsed.text,
            reference_list=json.dumps([one.model_dump() for one in self.references]),
            metadata_json=None if self.metadata is None else self.metadata.model_dump_json(),
            rule_set_json=None if self.rule_set is None else self.rule_set.model_dump_json(by_alias=True),
            text_hash=self.text_hash,
            normal_hash=self.normal_hash,
            created_at=at,
        )
        references = [(whole_name(context, one.subject), one.version) for one in self.references]
        return stores.schemas.add(row, references, schema_id)

    def _hash(self, text: str) -> str:
        return _text_hash(self.parsed.schema_type, text, self.references)


def references_of(schema: StoredSchema) -> tuple[Reference, ...]:
    """Return a stored schema's references as registered: subject names may be relative to its context."""
    return tuple(Reference.model_validate(one) for one in json.loads(schema.reference_list))


def whole_references_of(schema: StoredSchema) -> tuple[Reference, ...]:
    """Return the references of a stored schema with qualified subject names."""
    return tuple(
        one.model_copy(update={"subject": whole_name(schema.context, one.subject)})
        for one in references_of(schema)
    )


def whole_name(context: str, subject: str) -> str:
    """Return the qualified name of a subject that a schema of a context refers to. Raises Refused (42208).

    Source: Confluent Schema Registry, `QualifiedSubject.qualifySubjectWithParent`.
    """
    target = canonical(subject)
    return qualified(context, target) if target == subject and not target.startswith(":") else target


def metadata_of(schema: StoredSchema) -> Metadata | None:
    """Return the metadata of a stored schema; None without any."""
    found = schema.metadata_json
    return None if found is None else Metadata.model_validate_json(found)


def rule_set_of(schema: StoredSchema) -> RuleSet | None:
    """Return the rule set of a stored schema; None without any."""
    return None if schema.rule_set_json is None else RuleSet.model_validate_json(schema.rule_set_json)


def inherited_metadata(schema: StoredSchema) -> Metadata | None:
    """Return the metadata that the next version inherits: without the properties that the registry adds.

    These describe this version only. None if nothing is left.
    """
    found = metadata_of(schema)
    if found is None:
        return None
    properties = {
        name: value for name, value in found.properties.items() if not name.startswith(OWN_PROPERTIES)
    }
    if properties == found.properties:
        return found
    kept = Metadata(tags=found.tags, properties=properties, sensitive=found.sensitive)
    return kept if kept.shown() else None


def parse(
    stores: Stores, context: str, schema_type: str, text: str, references: tuple[Reference, ...], dialect: str
) -> ParsedSchema:
    """Parse a posted schema of a context with the schemas that it refers to. Raises Refused (42201)."""
    others, levels = _referenced(stores, context, references, {})
    if levels > MAX_LEVELS:
        raise invalid_schema(
            f"its references lead through {levels} levels of schemas, and at most {MAX_LEVELS} are allowed; merge some of "
            "the schemas that it leads to"
        )
    if others and schema_type == JSON and len(text) + _size_of(others) > MAX_POSTED:
        raise too_large(MAX_POSTED)
    return _parse(schema_type, text, others, dialect)


def _size_of(others: dict[str, ParsedSchema]) -> int:
    return sum(len(json_text(other.definition)) for other in others.values())


def _parse(schema_type: str, text: str, others: dict[str, ParsedSchema], dialect: str) -> ParsedSchema:
    if others:
        return parse_schema(schema_type, text, others, dialect)
    return _parse_alone(schema_type, text, dialect)


def _referenced(
    stores: Stores,
    context: str,
    references: tuple[Reference, ...],
    known: dict[tuple[int, str | None], tuple[ParsedSchema, int]],
) -> tuple[dict[str, ParsedSchema], int]:
    """Return the parsed schemas of references by reference name, and the number of levels that they lead through.

    `known` caches the schemas and their levels, by key and dialect.
    """
    others: dict[str, ParsedSchema] = {}
    deepest = 0
    for reference in references:
        found = stores.subjects.version(whole_name(context, reference.subject), reference.version)
        if found is None:
            raise no_such_reference(reference.name, reference.subject, reference.version)
        schema, key = found.schema, (found.schema.key, found.dialect)
        if key not in known:
            below, levels = _referenced(stores, schema.context, references_of(schema), known)
            dialect = found.dialect or NEWEST
            known[key] = (
                parse_schema(schema.schema_type, schema.text, below, dialect, is_registered=True),
                levels + 1,
            )
        others[reference.name], levels = known[key]
        deepest = max(deepest, levels)
    return others, deepest


def parsed(stores: Stores, schema: StoredSchema, dialect: str | None) -> ParsedSchema:
    """Parse a stored schema in the dialect of its version; None: 2020-12, the default of versions without one."""
    others, _ = _referenced(stores, schema.context, references_of(schema), {})
    return _parse(schema.schema_type, schema.text, others, dialect or NEWEST)


def parsed_version(stores: Stores, version: SubjectVersion) -> ParsedSchema:
    """Parse the schema of a version, in its dialect."""
    return parsed(stores, version.schema, version.dialect)


def dialect_for(
    stores: Stores, subject: str, schema_type: str, text: str, references: tuple[Reference, ...]
) -> str:
    """Return the dialect for a text that names none: that of the subject's version with this text, else draft 7.

    So a registered schema is still found and keeps its meaning when its metadata or rules change.
    """
    normal = normal_text(text) if schema_type == JSON else None
    if normal is None:
        return DRAFT_7
    found = stores.subjects.find(
        subject, deleted=Deleted.SHOWN, normal_hash=_text_hash(schema_type, normal, references)
    )
    return DRAFT_7 if found is None else found.dialect or NEWEST


def resolve_references(
    stores: Stores, subject: str, references: Iterable[Reference]
) -> tuple[Reference, ...]:
    """Return references with the number of the latest version in place of -1. Raises Refused (42201).

    Subject names are kept as they are; they may be relative to the subject's context.
    """
    resolved = []
    for reference in references:
        if not reference.name or "\0" in reference.name:
            raise invalid_schema("a reference has no name")
        target = whole_name(context_of(subject), reference.subject)
        number = reference.version
        if number < 1:
            latest = stores.subjects.latest(target)
            if latest is None:
                raise invalid_schema(
                    f"the reference '{reference.name}' leads to the subject '{target}', which has no version"
                )
            number = latest.number
        resolved.append(Reference(name=reference.name, subject=reference.subject, version=number))
    if len({one.name for one in resolved}) < len(resolved):
        raise invalid_schema("two references have one name")
    return tuple(resolved)


@lru_cache(maxsize=_PARSED_KEPT)
def _parse_alone(schema_type: str, text: str, dialect: str) -> ParsedSchema:
    return parse_schema(schema_type, text, {}, dialect)


def _text_hash(schema_type: str, text: str, references: tuple[Reference, ...]) -> str:
    content = json.dumps([schema_type, text, [one.model_dump() for one in references]])
    return hashlib.sha256(content.encode()).hexdigest()


RESERVED: Final = "confluent:reserved"
"""The metadata property that lists field names reserved for later versions, separated by commas."""
_RESERVED_PREFIX: Final = "$$"


def check_sound(content: SchemaContent, config: Config) -> None:
    """Refuse a new schema that the settings forbid. Raises Refused (42201, 42210).

    Avro names are checked unless `validateNames` is false. Fields and rules are checked only if `validateFields` and
    `validateRules` are true.
    """
    if content.parsed.schema_type == AVRO and config.validate_names is not False:
        for name in _names(content.parsed.definition):
            if not _is_name(name):
                raise invalid_schema(
                    f"'{name}' is not a name in Avro: it begins with a letter or _, and goes on with letters, digits and _"
                )
    if config.validate_fields:
        for name in _top_level(content):
            if name.startswith(_RESERVED_PREFIX):
                raise invalid_schema(f"the field '{name}' begins with {_RESERVED_PREFIX}, which is reserved")
    if config.validate_rules:
        _check_expressions(content.rule_set)


def reserved_conflicts(content: SchemaContent, earlier: Metadata | None, config: Config) -> tuple[str, ...]:
    """Return messages about reserved fields that a new schema uses or no longer reserves.

    Empty unless `validateFields` is true.
    """
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
    """Return whether Avro accepts a name. Source: Apache Avro 1.12 (Java), `NameValidator.UTF_VALIDATOR`."""
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
