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

SCHEMA_KEY = "$schema"
"""Key by which a JSON document names its meta-schema for editors; no part of the contract."""

POINTER_PATTERN = r"^(/([^~/]|~[01])*)+$"
RULE_ID_PATTERN = r"^[a-z0-9]([a-z0-9._-]{0,78}[a-z0-9])?$"
IDENTIFIER_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$"
VERSION_PATTERN = r"^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$"
COLUMN_PATTERN = r"^[A-Za-z][A-Za-z0-9_]*$"
BOUND_PATTERN = r"^(P[0-9YMWDTHS.]+|-?[0-9.]{17,200})$"
TOPIC_PATTERN = r"^[a-zA-Z0-9._-]{1,249}$"

Pointer = Annotated[
    str,
    Field(
        pattern=POINTER_PATTERN,
        description="JSON Pointer (RFC 6901) of a field in a record, such as /address/postcode; `*` stands for every element of an array.",
    ),
]
RuleId = Annotated[
    str,
    Field(
        pattern=RULE_ID_PATTERN,
        description="Lower-case id, unique in the contract, such as age-is-known.",
    ),
]
Identifier = Annotated[
    str,
    Field(
        pattern=IDENTIFIER_PATTERN,
        description="Letters, digits, `.`, `_` and `-`, such as hospital.admissions.",
    ),
]
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


class Mask(StrEnum):
    """What is written, and shown, instead of the value of a field."""

    HASH = "hash"
    REDACT = "redact"
    DROP = "drop"


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

    name: str = Field(description="Name of the team.")
    contact: str | None = Field(default=None, description="Where to reach it: an address, a channel, a page.")


class _Schema(_Part):
    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": ["file"], "properties": {"file": {"type": "string"}}},
                {"required": ["definition"], "properties": {"definition": {"not": {"type": "null"}}}},
            ]
        }
    )

    file: str | None = Field(default=None, description="Path of the schema, relative to the contract file.")


class JsonSchema(_Schema):
    """A JSON Schema, drafts 4 to 2020-12, by its `$schema` (2020-12 when it has none)."""

    type: Literal["json-schema"] = Field(description="Records are JSON texts, described by a JSON Schema.")
    definition: dict[str, Any] | bool | None = Field(
        default=None, description="The schema itself, instead of a file."
    )
    formats: Literal["assert", "annotate"] = Field(
        default="assert",
        description="Whether `format` refuses records (assert) or only documents (annotate).",
    )


class AvroSchema(_Schema):
    """An Apache Avro schema."""

    type: Literal["avro"] = Field(description="Records are Avro binary, described by an Avro schema.")
    definition: dict[str, Any] | list[Any] | str | None = Field(
        default=None, description="The schema itself, instead of a file."
    )


class Column(_Part):
    """One column of the table that a sink writes."""

    name: str = Field(pattern=COLUMN_PATTERN, description="Name of the column; unique whatever its case.")
    from_: Pointer = Field(alias="from")
    type: str = Field(
        description="boolean, int, long, float, double, decimal(p,s), string, binary, date, timestamp, timestamp_ntz or json.",
        examples=["int", "decimal(12,2)", "timestamp"],
    )


class _Rule(_Part):
    id: RuleId
    description: str | None = Field(
        default=None, description="Why the rule exists, shown to whoever meets a refusal."
    )
    severity: Severity = Field(
        default=Severity.ERROR,
        description="error: on_violation decides about the record; warning: it is written and counted.",
    )
    on_violation: OnViolation | None = Field(
        default=None, description="Overrides the contract's on_violation for this rule."
    )
    nulls: Literal["pass", "violate"] = Field(
        default="pass",
        description="Whether an absent or null field passes (it is unknown) or violates the rule.",
    )


_VALUES_OR_SET = ConfigDict(json_schema_extra={"oneOf": [{"required": ["values"]}, {"required": ["set"]}]})


class Forbidden(_Rule):
    """The field must not hold one of these values: sentinels such as 999 or 1900-01-01."""

    kind: Literal["forbidden"] = Field(description="Sentinels: values that stand for something unknown.")
    field: Pointer
    values: tuple[Scalar, ...] = Field(
        default=(),
        min_length=1,
        description="Values that the field must not hold.",
        examples=[[999], ["1900-01-01"]],
    )
    set: Identifier | None = Field(
        default=None, description="A reference set of the contract, instead of values."
    )

    model_config = _VALUES_OR_SET


Now = Literal["record", "batch"]
Bound = int | float | Annotated[str, Field(pattern=BOUND_PATTERN)]
"""A number; as text a duration, or a decimal that no double is."""

_BOUNDS = (
    "minimum",
    "exclusive_minimum",
    "maximum",
    "exclusive_maximum",
    "not_before",
    "after",
    "not_after",
    "before",
)


_NOW = "What `now` is: the record's own timestamp (in Kafka), or the moment at which its batch is judged."


class Range(_Rule):
    """The field must lie in a range: of numbers, of durations, or of dates and timestamps (RFC 3339).

    A date or timestamp may be given from `now` on: `now`, `now + 5 minutes`, `now - P1D`.
    """

    model_config = ConfigDict(json_schema_extra={"anyOf": [{"required": [name]} for name in _BOUNDS]})

    kind: Literal["range"] = Field(description="Bounds of a number, a duration, a date or a timestamp.")
    field: Pointer
    minimum: Bound | None = Field(
        default=None,
        description="Smallest number or duration allowed; as text a decimal that no double is, or a duration.",
        examples=[0, "0.30000000000000001", "PT15M"],
    )
    maximum: Bound | None = Field(default=None, description="Largest number or duration allowed.")
    exclusive_minimum: Bound | None = Field(
        default=None, description="Numbers or durations must be above this."
    )
    exclusive_maximum: Bound | None = Field(
        default=None, description="Numbers or durations must be below this."
    )
    not_before: str | None = Field(default=None, description="Earliest date or timestamp allowed.")
    not_after: str | None = Field(
        default=None,
        description="Latest date or timestamp allowed.",
        examples=["2099-12-31", "now + 5 minutes"],
    )
    after: str | None = Field(default=None, description="Dates or timestamps must be later than this.")
    before: str | None = Field(default=None, description="Dates or timestamps must be earlier than this.")
    now: Now = Field(default="record", description=_NOW)


class Freshness(_Rule):
    """The moment in the field must be recent: at most so old, and if given at most so far ahead."""

    kind: Literal["freshness"] = Field(description="How old a date or timestamp may be.")
    field: Pointer
    max_age: str = Field(
        description="Longest time from the field's moment to now: a number of units, or an ISO 8601 duration.",
        examples=["15 minutes", "P1D"],
    )
    max_ahead: str | None = Field(
        default=None, description="Longest time from now to a moment of the field that lies ahead."
    )
    now: Now = Field(default="record", description=_NOW)


class Ordered(_Rule):
    """The fields must not decrease from first to last (with `strict`: must increase)."""

    kind: Literal["ordered"] = Field(description="Fields whose values follow each other.")
    fields: tuple[Pointer, ...] = Field(
        min_length=2, description="Fields of one type, in the order in which their values must stand."
    )
    strict: bool = Field(default=False, description="Whether equal neighbours violate the rule too.")
    compare_as: Literal["date", "timestamp"] | None = Field(
        default=None,
        description="How dates and timestamps compare with each other, in UTC: by the day, or a date as its first moment.",
    )


class Matches(_Rule):
    """The string must contain a match of the pattern (RE2 syntax, linear time; anchor it with ^ and $)."""

    kind: Literal["matches"] = Field(description="A pattern for text.")
    field: Pointer
    pattern: str = Field(
        description="Regular expression in RE2 syntax, found anywhere in the text unless anchored."
    )


class OneOf(_Rule):
    """The field must hold one of these values."""

    kind: Literal["one_of"] = Field(description="A list of the values allowed.")
    field: Pointer
    values: tuple[Scalar, ...] = Field(
        default=(), min_length=1, description="Values that the field may hold."
    )
    set: Identifier | None = Field(
        default=None, description="A reference set of the contract, instead of values."
    )

    model_config = _VALUES_OR_SET


class Condition(_Part):
    """When a `required_when` rule applies: the field equals a value, is one of several, or is present and not null.

    Exactly one of `equals`, `one_of` and `present` is given. `equals: null` asks for a field that is null, so it
    is `model_fields_set`, not the value, that tells whether `equals` was given.
    """

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": [name]} for name in ("equals", "one_of", "present")]}
    )

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

    kind: Literal["required_when"] = Field(description="A field that other fields make necessary.")
    field: Pointer
    when: Condition = Field(description="The condition under which the field is required.")


class Cel(_Rule):
    """A Common Expression Language expression over `this`, the record; it must not be false.

    With `field` it is asked about the value of that field too: `value`, and `parent`, the object that holds it.
    """

    kind: Literal["cel"] = Field(description="An expression over the whole record, or over a field.")
    expr: str = Field(
        description="Expression in CEL that gives true for a good record.",
        examples=['this.ward != "icu" || has(this.consultant)'],
    )
    field: Pointer | None = Field(
        default=None,
        description="The field whose value the expression calls `value`; without one it has none.",
    )
    strict: bool = Field(
        default=False,
        description="Whether a value that the expression needs and a record lacks breaks the rule, as other errors do.",
    )


Rule = Annotated[
    Forbidden | Range | Freshness | Ordered | Matches | OneOf | RequiredWhen | Cel,
    Field(discriminator="kind"),
]


class ReferenceSet(_Part):
    """Values that rules name: published with the contract, so that a version always means the same ones."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["values"]}, {"required": ["file"]}]})

    description: str | None = Field(default=None, description="What the values are.")
    values: tuple[Scalar, ...] = Field(default=(), min_length=1, description="The values themselves.")
    file: str | None = Field(
        default=None,
        description="A file of them beside the contract, instead: text with one a line, or a JSON or YAML list.",
    )


class Expectation(_Part):
    """A batch-level expectation in the vocabulary of Great Expectations, over the columns."""

    id: RuleId
    type: str = Field(description="Name of the expectation.", examples=["expect_column_mean_to_be_between"])
    kwargs: Mapping[str, Any] = Field(default_factory=dict, description="Arguments of the expectation.")
    description: str | None = Field(
        default=None, description="Why the expectation exists, shown to whoever meets a batch that is not so."
    )
    severity: Severity = Field(
        default=Severity.ERROR,
        description="error: on_violation decides about the batch; warning: it is written, and the result is kept.",
    )
    on_violation: Literal["fail", "alert", "quarantine"] | None = Field(
        default=None,
        description="What becomes of the whole batch: the stream fails, somebody is alerted, or its accepted records are quarantined. Left out: as the contract's on_violation, where drop counts as quarantine.",
    )
    min_records: int = Field(
        default=1, ge=1, description="Batches of fewer accepted records are not judged by it."
    )


class ErrorBudget(_Part):
    """How much of a batch may be refused before the stream stops, decided before anything is written."""

    ratio: float = Field(
        ge=0,
        le=1,
        description="Refused share of a batch (quarantined and dropped) above which the budget trips.",
    )
    min_records: int = Field(
        default=1, ge=1, description="Batches (or windows) of fewer records never trip it."
    )
    window_records: int | None = Field(
        default=None,
        ge=1,
        description="The ratio is of a batch and those before it, back to this many records; left out, of the batch alone.",
    )
    action: Literal["fail", "pause", "quarantine"] = Field(
        default="fail",
        description="fail: the stream stops with an error; pause: it waits; quarantine: the whole batch is refused.",
    )


class Consumer(_Part):
    """Somebody who reads the stream, and what of it."""

    id: Identifier
    team: str | None = Field(default=None, description="Who answers for the consumer.")
    reads: tuple[Pointer, ...] = Field(default=(), description="Fields that the consumer reads.")
    assumes: dict[str, Any] | bool | None = Field(
        default=None,
        description="A JSON Schema of what the consumer takes for granted of every record, such as an upper bound.",
    )


class DataContract(_Part):
    """Structure, meaning and consequences of one stream, agreed by producers and consumers."""

    api_version: Literal["tidegate/v1"] = Field(
        alias="apiVersion", description="Version of this document format."
    )
    kind: Literal["DataContract"] = Field(description="Kind of this document.")
    id: Identifier
    version: SemanticVersion
    status: Status = Field(
        default=Status.ACTIVE, description="Only active and deprecated versions are enforced."
    )
    description: str | None = Field(default=None, description="What a record of the stream means.")
    topic: str = Field(pattern=TOPIC_PATTERN, description="Kafka topic that the contract governs.")
    domain: str | None = Field(default=None, description="Business domain of the stream.")
    team: Team | None = Field(default=None, description="Who answers for the stream.")
    schema_: Annotated[JsonSchema | AvroSchema, Field(discriminator="type")] = Field(
        alias="schema", description="Structure of a record: a JSON Schema or an Avro schema."
    )
    framing: Literal["none", "confluent-prefix", "confluent-header", "auto"] = Field(
        default="none",
        description="What stands around the payload: nothing, a Confluent schema id before it or in a header, or either (JSON only).",
    )
    tombstones: Literal["refuse", "pass", "delete"] = Field(
        default="refuse", description="What a null value does: violate, pass, or delete the row of its key."
    )
    columns: tuple[Column, ...] = Field(
        default=(), description="Columns of the table; derived from the schema when left out."
    )
    rules: tuple[Rule, ...] = Field(default=(), description="What a record must mean, beyond its structure.")
    reference_sets: dict[Identifier, ReferenceSet] = Field(
        default_factory=dict, description="Sets of values by name, for rules to name."
    )
    expectations: tuple[Expectation, ...] = Field(
        default=(), description="What a batch must look like as a whole, over the columns."
    )
    on_violation: OnViolation = Field(
        default=OnViolation.QUARANTINE,
        description="What happens to a record with a violation of severity error.",
    )
    error_budget: ErrorBudget | None = Field(
        default=None, description="How much of a batch may be refused before the stream stops."
    )
    primary_key: tuple[str, ...] = Field(default=(), description="Columns that identify a record.")
    classification: dict[Pointer, str] = Field(
        default_factory=dict,
        description="Sensitivity of fields, such as pii; classified values are masked where people look.",
    )
    mask: dict[Pointer, Mask] = Field(
        default_factory=dict,
        description="What tables and accepted topics get instead of a field: hash (a keyed token), redact (null), drop (nothing).",
    )
    key_mask: Literal[Mask.HASH, Mask.REDACT] | None = Field(
        default=None,
        description="What an accepted topic gets instead of a record's key: hash (a keyed token), redact (null).",
    )
    consumers: tuple[Consumer, ...] = Field(default=(), description="Who reads the stream, and what of it.")
    compatibility: Compatibility = Field(
        default=Compatibility.BACKWARD,
        description="Which changes a new version may make to its predecessor.",
    )
