"""The contract document: the one model that every other part reads.

Field names follow the Open Data Contract Standard where it has the idea. The published meta-schema
`schemas/meta/tidegate-v1.schema.json` is generated from these classes (`make generate`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from contracts.verdict import Severity

Scalar = str | int | float | bool | None
"""A JSON scalar. YAML dates and times arrive as the strings that were written."""

POINTER_PATTERN = r"^(/([^~/]|~[01])*)+$"
RULE_ID_PATTERN = r"^[a-z0-9]([a-z0-9._-]{0,78}[a-z0-9])?$"
IDENTIFIER_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$"
VERSION_PATTERN = r"^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$"
COLUMN_PATTERN = r"^[A-Za-z][A-Za-z0-9_]*$"
TOPIC_PATTERN = r"^[a-zA-Z0-9._-]{1,249}$"

Pointer = Annotated[
    str,
    Field(
        pattern=POINTER_PATTERN,
        description="JSON Pointer (RFC 6901) of a field in a record, such as /address/postcode.",
    ),
]
RuleId = Annotated[
    str,
    Field(
        pattern=RULE_ID_PATTERN,
        description="Lower-case id, unique in the contract, such as age-is-known.",
    ),
]
Identifier = Annotated[str, Field(pattern=IDENTIFIER_PATTERN)]
SemanticVersion = Annotated[
    str,
    Field(
        pattern=VERSION_PATTERN,
        description="Semantic version, such as 1.2.0.",
    ),
]


class OnViolation(StrEnum):
    """What a violation of severity `error` does to the record, or to the stream."""

    FAIL = "fail"
    DROP = "drop"
    ALERT = "alert"
    QUARANTINE = "quarantine"


class Compatibility(StrEnum):
    """Compatibility level, with the meaning that Confluent Schema Registry gives it."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"


class Status(StrEnum):
    """Life cycle of a contract version. Only `active` and `deprecated` versions are enforced."""

    DRAFT = "draft"
    ACTIVE = "active"
    DEPRECATED = "deprecated"
    RETIRED = "retired"


class _Part(BaseModel):
    """Frozen, and closed: an unknown key is a mistake to report, not to ignore."""

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)


class Team(_Part):
    """Who answers for the stream."""

    name: str
    contact: str | None = None


class _Schema(_Part):
    file: str | None = Field(default=None, description="Path of the schema, relative to the contract file.")


class JsonSchema(_Schema):
    """A JSON Schema, drafts 4 to 2020-12, by its `$schema` (2020-12 when it has none)."""

    type: Literal["json-schema"]
    definition: dict[str, Any] | bool | None = Field(
        default=None, description="The schema itself, instead of a file."
    )
    formats: Literal["assert", "annotate"] = Field(
        default="assert",
        description="Whether `format` refuses records (assert) or only documents (annotate).",
    )


class AvroSchema(_Schema):
    """An Apache Avro schema."""

    type: Literal["avro"]
    definition: dict[str, Any] | list[Any] | str | None = Field(
        default=None, description="The schema itself, instead of a file."
    )


class Column(_Part):
    """One column of the table that a sink writes."""

    name: Annotated[str, Field(pattern=COLUMN_PATTERN)]
    from_: Pointer = Field(alias="from")
    type: str = Field(
        description="boolean, int, long, float, double, decimal(p,s), string, binary, date, timestamp, timestamp_ntz or json."
    )


class _Rule(_Part):
    id: RuleId
    description: str | None = Field(
        default=None, description="Why the rule exists, shown to whoever meets a refusal."
    )
    severity: Severity = Severity.ERROR
    on_violation: OnViolation | None = Field(
        default=None, description="Overrides the contract's on_violation for this rule."
    )
    nulls: Literal["pass", "violate"] = Field(
        default="pass",
        description="Whether an absent or null field passes (it is unknown) or violates the rule.",
    )


class Forbidden(_Rule):
    """The field must not hold one of these values: sentinels such as 999 or 1900-01-01."""

    kind: Literal["forbidden"]
    field: Pointer
    values: tuple[Scalar, ...] = Field(min_length=1)


class Range(_Rule):
    """The field must lie in a range: of numbers, or of dates and timestamps (ISO 8601)."""

    kind: Literal["range"]
    field: Pointer
    minimum: int | float | None = Field(default=None, description="Smallest number allowed.")
    maximum: int | float | None = Field(default=None, description="Largest number allowed.")
    exclusive_minimum: int | float | None = Field(default=None, description="Numbers must be above this.")
    exclusive_maximum: int | float | None = Field(default=None, description="Numbers must be below this.")
    not_before: str | None = Field(default=None, description="Earliest date or timestamp allowed.")
    not_after: str | None = Field(default=None, description="Latest date or timestamp allowed.")
    after: str | None = Field(default=None, description="Dates or timestamps must be later than this.")
    before: str | None = Field(default=None, description="Dates or timestamps must be earlier than this.")


class Ordered(_Rule):
    """The fields must not decrease from first to last (with `strict`: must increase)."""

    kind: Literal["ordered"]
    fields: tuple[Pointer, ...] = Field(min_length=2)
    strict: bool = False


class Matches(_Rule):
    """The string must contain a match of the pattern (RE2 syntax, linear time; anchor it with ^ and $)."""

    kind: Literal["matches"]
    field: Pointer
    pattern: str


class OneOf(_Rule):
    """The field must hold one of these values."""

    kind: Literal["one_of"]
    field: Pointer
    values: tuple[Scalar, ...] = Field(min_length=1)


class Condition(_Part):
    """When a `required_when` rule applies: the field equals a value, is one of several, or is present and not null.

    Exactly one of `equals`, `one_of` and `present` is given. `equals: null` asks for a field that is null, so it
    is `model_fields_set`, not the value, that tells whether `equals` was given.
    """

    field: Pointer
    equals: Scalar = Field(default=None, description="The rule applies when the field has this value.")
    one_of: tuple[Scalar, ...] | None = Field(
        default=None, min_length=1, description="The rule applies when the field has one of these values."
    )
    present: Literal[True] | None = Field(
        default=None, description="The rule applies when the field is present and not null."
    )

    @model_serializer(mode="wrap")
    def _keep_null(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Keep `equals: null` where values left at their default are left out."""
        document: dict[str, Any] = serialize(self)
        return {**document, "equals": self.equals} if "equals" in self.model_fields_set else document


class RequiredWhen(_Rule):
    """The field must be present and not null when the condition holds."""

    kind: Literal["required_when"]
    field: Pointer
    when: Condition


class Cel(_Rule):
    """A Common Expression Language expression over `this`, the record; it must not be false."""

    kind: Literal["cel"]
    expr: str


Rule = Annotated[
    Forbidden | Range | Ordered | Matches | OneOf | RequiredWhen | Cel, Field(discriminator="kind")
]


class Expectation(_Part):
    """A batch-level expectation in the vocabulary of Great Expectations, over the columns."""

    id: RuleId
    type: str
    kwargs: Mapping[str, Any] = Field(default_factory=dict)
    severity: Severity = Severity.ERROR


class ErrorBudget(_Part):
    """How much of a batch may be refused before the stream stops, decided before anything is written."""

    ratio: float = Field(
        ge=0,
        le=1,
        description="Refused share of a batch (quarantined and dropped) above which the budget trips.",
    )
    min_records: int = Field(default=1, ge=1, description="Batches of fewer records never trip it.")
    action: Literal["fail", "pause", "quarantine"] = "fail"


class Consumer(_Part):
    """Somebody who reads the stream, and what of it."""

    id: Identifier
    team: str | None = None
    reads: tuple[Pointer, ...] = ()


class DataContract(_Part):
    """Structure, meaning and consequences of one stream, agreed by producers and consumers."""

    api_version: Literal["tidegate/v1"] = Field(alias="apiVersion")
    kind: Literal["DataContract"]
    id: Identifier
    version: SemanticVersion
    status: Status = Status.ACTIVE
    description: str | None = None
    topic: Annotated[str, Field(pattern=TOPIC_PATTERN)]
    domain: str | None = None
    team: Team | None = None
    schema_: Annotated[JsonSchema | AvroSchema, Field(discriminator="type")] = Field(alias="schema")
    framing: Literal["none", "confluent-prefix", "confluent-header", "auto"] = "none"
    tombstones: Literal["refuse", "pass", "delete"] = "refuse"
    columns: tuple[Column, ...] = Field(
        default=(), description="Columns of the table; derived from the schema when left out."
    )
    rules: tuple[Rule, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    on_violation: OnViolation = OnViolation.QUARANTINE
    error_budget: ErrorBudget | None = None
    primary_key: tuple[str, ...] = Field(default=(), description="Columns that identify a record.")
    classification: dict[Pointer, str] = Field(default_factory=dict)
    consumers: tuple[Consumer, ...] = ()
    compatibility: Compatibility = Compatibility.BACKWARD
