"""Entities of the API: schemas with references, metadata and rule sets; settings; associations; a schema's GUID.

Unknown members are ignored, as Confluent's registry does for the header `Confluent-Accept-Unknown-Properties`.
Sets and maps are kept sorted, because the GUID of a schema hashes them in that order.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
OWN_PROPERTIES: Final = "tidegate."
"""Prefix of the metadata properties that the registry itself adds to a schema; they are never inherited."""

T = TypeVar("T")


def java_order(text: str) -> bytes:
    """Return a sort key that orders strings as Java does: by UTF-16 code units."""
    return text.encode("utf-16-be")


def _sorted_map(found: Mapping[str, T]) -> dict[str, T]:
    return {key: found[key] for key in sorted(found, key=java_order)}


def _sorted_set(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(found), key=java_order))


StringSet = Annotated[tuple[str, ...], AfterValidator(_sorted_set)]
StringMap = Annotated[dict[str, str], AfterValidator(_sorted_map)]
TagMap = Annotated[dict[str, StringSet], AfterValidator(_sorted_map)]


class Entity(BaseModel):
    """The frozen base class of entities; empty and absent members are left out when one is written."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    def shown(self) -> dict[str, Any]:
        """Return the entity as a JSON object without empty members; false is not an empty member."""
        written = self.model_dump(mode="json", by_alias=True)
        return {name: value for name, value in written.items() if value not in (None, [], {}, "")}


class Reference(Entity):
    """The name under which a schema uses a version of another subject."""

    name: str
    subject: str
    version: int = Field(ge=-1, lt=2**31)


class Metadata(Entity):
    """Metadata of a schema: tags of fields, properties, and which properties are sensitive."""

    tags: TagMap = Field(default_factory=dict)
    properties: StringMap = Field(default_factory=dict)
    sensitive: StringSet = ()

    def with_property(self, name: str, value: str) -> Metadata:
        """Return metadata with one more property."""
        return Metadata(tags=self.tags, properties={**self.properties, name: value}, sensitive=self.sensitive)

    def without_property(self, name: str) -> Metadata:
        """Return metadata without a property."""
        properties = {other: value for other, value in self.properties.items() if other != name}
        return Metadata(tags=self.tags, properties=properties, sensitive=self.sensitive)


class Rule(Entity):
    """A rule that clients run when they write or read a record."""

    name: str
    doc: str | None = None
    kind: Literal["CONDITION", "TRANSFORM"] = "TRANSFORM"
    mode: Literal["UPGRADE", "DOWNGRADE", "UPDOWN", "WRITE", "READ", "WRITEREAD"] = "WRITEREAD"
    type: str
    tags: StringSet = ()
    params: StringMap = Field(default_factory=dict)
    expr: str | None = None
    on_success: str | None = Field(default=None, alias="onSuccess")
    on_failure: str | None = Field(default=None, alias="onFailure")
    disabled: bool = False


class RuleSet(Entity):
    """The rules of a schema, by when they run."""

    migration_rules: tuple[Rule, ...] = Field(default=(), alias="migrationRules")
    domain_rules: tuple[Rule, ...] = Field(default=(), alias="domainRules")
    encoding_rules: tuple[Rule, ...] = Field(default=(), alias="encodingRules")
    enable_at: str | None = Field(default=None, alias="enableAt")

    def shown(self) -> dict[str, Any]:
        """Return the rule set as a JSON object, its rules without empty members."""
        lists = {
            "migrationRules": self.migration_rules,
            "domainRules": self.domain_rules,
            "encodingRules": self.encoding_rules,
        }
        written: dict[str, Any] = {
            name: [rule.shown() for rule in rules] for name, rules in lists.items() if rules
        }
        return {**written, "enableAt": self.enable_at} if self.enable_at else written

    def rules(self) -> tuple[Rule, ...]:
        """Return every rule."""
        return (*self.migration_rules, *self.domain_rules, *self.encoding_rules)


class EntityTags(Entity):
    """Tags of one place in a schema."""

    class Place(Entity):
        """A place: its path, such as `.com.example.User.email`."""

        path: str = Field(alias="entityPath")
        type: str = Field(default="sr_field", alias="entityType")

    place: Place = Field(alias="schemaEntity")
    tags: tuple[str, ...] = ()


class SchemaRequest(Entity):
    """The body of a registration, of a look-up, and of a compatibility check."""

    schema_text: str = Field(default="", alias="schema")
    schema_type: str = Field(default=AVRO, alias="schemaType")
    references: tuple[Reference, ...] = ()
    metadata: Metadata | None = None
    rule_set: RuleSet | None = Field(default=None, alias="ruleSet")
    version: int = Field(default=0, ge=-1, lt=2**31)
    id: int = Field(default=-1, ge=-1, lt=2**31)
    tags_to_add: tuple[EntityTags, ...] = Field(default=(), alias="schemaTagsToAdd")
    tags_to_remove: tuple[EntityTags, ...] = Field(default=(), alias="schemaTagsToRemove")
    propagate_tags: bool = Field(default=False, alias="propagateSchemaTags")


class TagRequest(Entity):
    """The body of a request that makes a version with other tags."""

    new_version: int = Field(default=0, ge=-1, lt=2**31, alias="newVersion")
    tags_to_add: tuple[EntityTags, ...] = Field(default=(), alias="tagsToAdd")
    tags_to_remove: tuple[EntityTags, ...] = Field(default=(), alias="tagsToRemove")
    metadata: Metadata | None = None
    rule_set: RuleSet | None = Field(default=None, alias="ruleSet")


class Config(Entity):
    """The settings of a scope. None: the wider scope decides."""

    alias: str | None = None
    normalize: bool | None = None
    validate_fields: bool | None = Field(default=None, alias="validateFields")
    validate_names: bool | None = Field(default=None, alias="validateNames")
    validate_rules: bool | None = Field(default=None, alias="validateRules")
    judge_rules: bool | None = Field(default=None, alias="judgeRules")
    level: str | None = Field(default=None, alias="compatibilityLevel")
    policy: str | None = Field(default=None, alias="compatibilityPolicy")
    group: str | None = Field(default=None, alias="compatibilityGroup")
    default_metadata: Metadata | None = Field(default=None, alias="defaultMetadata")
    override_metadata: Metadata | None = Field(default=None, alias="overrideMetadata")
    default_rule_set: RuleSet | None = Field(default=None, alias="defaultRuleSet")
    override_rule_set: RuleSet | None = Field(default=None, alias="overrideRuleSet")

    def shown(self) -> dict[str, Any]:
        """Return the settings as the answer of GET: without those that are not set."""
        written: dict[str, Any] = {}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if value is not None:
                written[field.alias or name] = value.shown() if isinstance(value, Entity) else value
        return written


class ModeRequest(Entity):
    """The body of a request that sets a mode."""

    mode: str


class AssociationInfo(Entity):
    """One association in a request: a subject that a resource uses for keys or for values."""

    subject: str | None = None
    association_type: str = Field(default="value", alias="associationType")
    lifecycle: str | None = None
    frozen: bool | None = None
    schema_: SchemaRequest | None = Field(default=None, alias="schema")
    normalize: bool = False


class AssociationRequest(Entity):
    """The body of a request that associates subjects with a resource, such as a topic."""

    resource_name: str = Field(alias="resourceName", min_length=1)
    resource_namespace: str = Field(alias="resourceNamespace", min_length=1)
    resource_id: str = Field(alias="resourceId", min_length=1)
    resource_type: str = Field(default="topic", alias="resourceType", min_length=1)
    associations: tuple[AssociationInfo, ...] = ()


_GIVEN = b"\x01"
"""Hashed before metadata and before a rule set, so that an empty one differs from an absent one."""


def schema_guid(
    text: str, references: tuple[Reference, ...], metadata: Metadata | None, rule_set: RuleSet | None
) -> str:
    """Return the GUID of a schema: a hash of its canonical text, references, metadata and rule set."""
    digest = hashlib.md5(usedforsecurity=False)
    for part in _parts(text, references, metadata, rule_set):
        digest.update(part if isinstance(part, bytes) else part.encode())
    return str(uuid.UUID(bytes=digest.digest()))


def _parts(
    text: str, references: tuple[Reference, ...], metadata: Metadata | None, rule_set: RuleSet | None
) -> Iterator[str | bytes]:
    yield text
    for reference in references:
        yield reference.name
        yield reference.subject
        yield reference.version.to_bytes(4, signed=True)
    if metadata is not None:
        yield _GIVEN
        for path, tags in metadata.tags.items():
            yield path
            yield from tags
        for name, value in metadata.properties.items():
            yield name
            yield value
        yield from metadata.sensitive
    if rule_set is not None:
        yield _GIVEN
        for rule in rule_set.rules():
            yield from _rule_parts(rule)


def _rule_parts(rule: Rule) -> Iterator[str | bytes]:
    yield rule.name
    yield rule.doc or ""
    yield rule.kind
    yield rule.mode
    yield rule.type
    yield from rule.tags
    for name, value in rule.params.items():
        yield name
        yield value
    yield rule.expr or ""
    yield rule.on_success or ""
    yield rule.on_failure or ""
    yield b"\x01" if rule.disabled else b""
