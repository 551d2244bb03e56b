"""The model of the contract document, on which all other parts build.

Field names follow the Open Data Contract Standard where it has the same concept. The published meta-schema
`schemas/meta/tidegate-v1.schema.json` is generated from these classes (`make generate`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from tidegate.contracts.document.rule_model import Rule
from tidegate.contracts.document.terms import (
    COLUMN_PATTERN,
    MOST_DAYS,
    TOPIC_PATTERN,
    Identifier,
    OnViolation,
    Part,
    Pointer,
    RuleId,
    Scalar,
    SemanticVersion,
)
from tidegate.contracts.verdict import Severity

SCHEMA_KEY = "$schema"
"""Key with which a JSON document names its meta-schema for editors; it is not a part of the contract."""


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
    """The form in which the value of a field is written and shown."""

    HASH = "hash"
    REDACT = "redact"
    DROP = "drop"


class Status(StrEnum):
    """Life cycle of a contract version. Only `active` and `deprecated` versions are enforced."""

    DRAFT = "draft"
    ACTIVE = "active"
    DEPRECATED = "deprecated"
    RETIRED = "retired"


class Team(Part):
    """The team that is responsible for the stream."""

    name: str = Field(description="Name of the team.")
    contact: str | None = Field(default=None, description="Where to reach it: an address, a channel, a page.")
    alert_channel: Identifier | None = Field(
        default=None,
        description="Name of the team's channel in the registry's setting `alert_channels`, for alerts about problems; never an address with a secret.",
    )


class _Schema(Part):
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
        description="assert: a value that does not match its `format` violates the schema; annotate: `format` refuses nothing.",
    )


class AvroSchema(_Schema):
    """An Apache Avro schema."""

    type: Literal["avro"] = Field(description="Records are Avro binary, described by an Avro schema.")
    definition: dict[str, Any] | list[Any] | str | None = Field(
        default=None, description="The schema itself, instead of a file."
    )


class Column(Part):
    """One column of the table that a sink writes."""

    name: str = Field(pattern=COLUMN_PATTERN, description="Name of the column; unique whatever its case.")
    from_: Pointer = Field(alias="from")
    type: str = Field(
        description="boolean, int, long, float, double, decimal(p,s), string, binary, date, timestamp, timestamp_ntz or json.",
        examples=["int", "decimal(12,2)", "timestamp"],
    )


class ReferenceSet(Part):
    """Values that rules name: published with the contract, so that a version always means the same ones."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["values"]}, {"required": ["file"]}]})

    description: str | None = Field(default=None, description="Meaning of the values.")
    values: tuple[Scalar, ...] = Field(default=(), min_length=1, description="The values themselves.")
    file: str | None = Field(
        default=None,
        description="A file with the values, in the contract's folder, instead: text with one a line, or a JSON or YAML list.",
    )


class Expectation(Part):
    """A batch-level expectation in the vocabulary of Great Expectations, over the columns."""

    id: RuleId
    type: str = Field(description="Name of the expectation.", examples=["expect_column_mean_to_be_between"])
    kwargs: Mapping[str, Any] = Field(default_factory=dict, description="Arguments of the expectation.")
    description: str | None = Field(
        default=None, description="Why the expectation exists; shown with a batch that does not meet it."
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


class ErrorBudget(Part):
    """The share of a batch that may be refused before the stream stops, checked before anything is written."""

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


class Retention(Part):
    """The retention of the topics that the job writes. It applies when the job creates them; existing topics are not changed."""

    quarantine_days: int | None = Field(
        default=90,
        ge=1,
        le=MOST_DAYS,
        description="Days that a refused record is kept, from its refusal on; null: forever.",
    )
    accepted_days: int | None = Field(
        default=None,
        ge=1,
        le=MOST_DAYS,
        description="Days that an accepted topic keeps a record, from the record's own time on; left out: the retention of the source topic, and a week.",
    )


class Consumer(Part):
    """A reader of the stream, and the fields that it reads."""

    id: Identifier
    team: str | None = Field(default=None, description="Who answers for the consumer.")
    reads: tuple[Pointer, ...] = Field(default=(), description="Fields that the consumer reads.")
    assumes: dict[str, Any] | bool | None = Field(
        default=None,
        description="A JSON Schema of the consumer's assumptions about every record, such as an upper bound.",
    )


class ProducerHeader(Part):
    """A Kafka header by which a producer says who it is, such as the name of its application."""

    name: str = Field(min_length=1, max_length=100, description="Name of the header.")
    public: bool = Field(
        default=False,
        description="Whether people may read its values; otherwise the registry keeps and shows keyed hashes of them.",
    )


class DataContract(Part):
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
    description: str | None = Field(default=None, description="Meaning of a record of the stream.")
    topic: str = Field(pattern=TOPIC_PATTERN, description="Kafka topic that the contract governs.")
    domain: str | None = Field(default=None, description="Business domain of the stream.")
    team: Team | None = Field(default=None, description="Who answers for the stream.")
    schema_: Annotated[JsonSchema | AvroSchema, Field(discriminator="type")] = Field(
        alias="schema", description="Structure of a record: a JSON Schema or an Avro schema."
    )
    framing: Literal["none", "confluent-prefix", "confluent-header", "auto"] = Field(
        default="none",
        description="Framing of the payload: none, a Confluent schema id before it or in a header, or either (JSON only).",
    )
    compatibility_group: str | None = Field(
        default=None,
        description="Compatibility group of this version, for subjects with the setting `compatibilityGroup`; empty: the group of the versions without one.",
    )
    unframed_group: str | None = Field(
        default=None,
        description="Compatibility group whose newest version judges records that name no schema.",
    )
    tombstones: Literal["refuse", "pass", "delete"] = Field(
        default="refuse",
        description="What a record with a null value is. refuse: a violation; pass: accepted; delete: the deletion of the row of its key.",
    )
    columns: tuple[Column, ...] = Field(
        default=(), description="Columns of the table; derived from the schema when left out."
    )
    rules: tuple[Rule, ...] = Field(default=(), description="Checks of a record beyond its structure.")
    reference_sets: dict[Identifier, ReferenceSet] = Field(
        default_factory=dict, description="Sets of values by name, for rules to name."
    )
    expectations: tuple[Expectation, ...] = Field(
        default=(), description="Checks of a whole batch, over the columns."
    )
    on_violation: OnViolation = Field(
        default=OnViolation.QUARANTINE,
        description="What happens to a record with a violation of severity error: quarantine and drop refuse it, alert writes it, fail stops the stream.",
    )
    error_budget: ErrorBudget | None = Field(
        default=None, description="How much of a batch may be refused before the stream stops."
    )
    retention: Retention = Field(
        default=Retention(), description="How long the topics that the job writes keep records."
    )
    replay_approval: Literal["never", "fixes", "always"] = Field(
        default="fixes",
        description="Which requests about refused records another person approves: none, those with a fix or to the source topic, or all.",
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
    producer_headers: tuple[ProducerHeader, ...] = Field(
        default=(),
        max_length=4,
        description="Headers that say which producer wrote a record: refused records are counted by their values.",
    )
    compatibility: Compatibility = Field(
        default=Compatibility.BACKWARD,
        description="Which changes a new version may make to its predecessor.",
    )
    undeclared: Literal["compare", "ignore"] = Field(
        default="compare",
        description="How later versions are compared where this JSON Schema allows undeclared properties. compare: records may have them; ignore: they are assumed to be absent.",
    )

    @property
    def drops_records(self) -> bool:
        """Return whether a violation can drop a record, so that no output has it."""
        return OnViolation.DROP in {self.on_violation, *(rule.on_violation for rule in self.rules)}
