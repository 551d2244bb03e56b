"""The report that the job sends to the registry for each batch: counts and positions, never a payload value.

Reports are idempotent by (stream, epoch, n). Pages and metrics are built from them, and they can be rebuilt from the
ledger and the topics.
"""

from __future__ import annotations

from enum import StrEnum
from operator import not_
from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, model_validator

from tidegate.contracts.stream.bounds import (
    MOST_COLUMNS,
    MOST_EXPECTATIONS,
    MOST_RECORDS,
    MOST_RULES,
    MOST_STEPS,
    Instant,
    LineText,
    Offsets,
    StepMilliseconds,
    StepText,
    StreamText,
    TopicText,
    VersionText,
)
from tidegate.contracts.stream.counts import CodeText, Count, RuleCount
from tidegate.contracts.stream.shadow import ShadowResult
from tidegate.contracts.stream.versions import MESSAGE


class ExpectationOutcome(StrEnum):
    """The outcome of an expectation in a batch."""

    MET = "met"
    WARNED = "warned"
    ALERTED = "alerted"
    QUARANTINED = "quarantined"
    FAILED = "failed"
    SKIPPED = "skipped"


class ExpectationResult(BaseModel):
    """The result of one expectation for one batch: figures about many values, never a value.

    `considered` counts the values (or rows, or pairs) that were checked, `unexpected` those that are not as expected.
    `observed` is a mean, a sum, a deviation, a share or a number of rows. It is None for any other figure, for one that
    could reveal a value, such as a maximum, and for a classified column.
    """

    model_config = MESSAGE

    id: CodeText
    type: LineText = Field(description="Name of the expectation, in Great Expectations' vocabulary.")
    columns: Annotated[tuple[CodeText, ...], Field(max_length=MOST_COLUMNS)] = ()
    outcome: ExpectationOutcome
    judged_by: Literal["tidegate", "great_expectations"]
    considered: Count = 0
    unexpected: Count | None = None
    observed: float | None = Field(default=None, allow_inf_nan=False)
    agrees: bool | None = Field(
        default=None,
        description="Whether Great Expectations, asked too, said the same; null when it was not.",
    )


class TableSize(BaseModel):
    """Figures of a table that make each commit slower as they grow. None: unknown."""

    model_config = MESSAGE

    snapshots: Count
    metadata_bytes: Count | None = Field(default=None, description="Size of the metadata file.")
    data_files: Count | None = None


class TableMaintenance(BaseModel):
    """Maintenance by the job since it last claimed the stream: of its table, and of its quarantine table if it has one.

    `seconds` is the sum of the durations of the last round of each table.
    """

    model_config = MESSAGE

    snapshots_expired: Count = Field(
        default=0, description="Snapshots of the job that were expired, or versions of a Delta table's log."
    )
    files_compacted: Count = Field(default=0, description="Small files that were replaced.")
    bytes_compacted: Count = Field(default=0, description="Bytes of these files.")
    manifests_rewritten: Count = Field(default=0, description="Manifests that were replaced.")
    orphans_removed: Count = Field(default=0, description="Files of crashed attempts that were removed.")
    orphan_bytes: Count = Field(default=0, description="Bytes of these files.")
    replaced_removed: Count = Field(
        default=0, description="Replaced files of a Delta table that were removed after its retention."
    )
    replaced_bytes: Count = Field(default=0, description="Bytes of these files.")
    failures: Count = Field(default=0, description="Parts of rounds that have failed.")
    seconds: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="What the last round of each table took, added up.",
    )


class BatchReport(BaseModel):
    """One committed batch of one stream.

    `epoch` counts the job's claims of the stream, `n` its batches from 1. `records = written + quarantined + dropped`;
    warned and alerted records are part of `written`. `start` and `end` map a source partition to the first offset of
    the batch and the first one after it. Times are UTC.
    """

    model_config = MESSAGE

    stream: StreamText
    topic: TopicText
    quarantine_topic: TopicText
    sink: LineText = Field(description="Human-readable sink, such as iceberg:lake.hospital.admissions.")
    epoch: Count
    n: Annotated[int, Field(ge=1, lt=2**63)]
    contract: VersionText = Field(description="id@version in force for the batch.")
    fingerprint: LineText
    started_at: Instant
    committed_at: Instant
    records: Count
    written: Count
    warned: Count
    alerted: Count
    quarantined: Count
    dropped: Count
    rules: Annotated[tuple[RuleCount, ...], Field(max_length=MOST_RULES)] = ()
    alerts: Annotated[tuple[RuleCount, ...], Field(max_length=MOST_RULES)] = Field(
        default=(),
        exclude_if=not_,
        description="Violated rules of the records in `alerted`; part of `rules`.",
    )
    expectations: Annotated[tuple[ExpectationResult, ...], Field(max_length=MOST_EXPECTATIONS)] = ()
    shadow: ShadowResult | None = Field(
        default=None,
        description="What the shadow version would have made of the batch; null without a shadow.",
    )
    start: Offsets
    end: Offsets
    lag_records: Count | None = Field(
        default=None, description="Records in the topic past `end` when the batch was committed."
    )
    timings_ms: dict[StepText, StepMilliseconds] = Field(
        default_factory=dict,
        max_length=MOST_STEPS,
        description="Milliseconds by step: judge, quarantine, stage, publish.",
    )
    table: TableSize | None = Field(
        default=None, description="Size of the table when it was last maintained; null where there is none."
    )

    maintenance: TableMaintenance | None = Field(
        default=None, description="How the tables of the stream were maintained since the job took it."
    )

    @model_validator(mode="after")
    def _check_counts(self) -> Self:
        if self.records != self.written + self.quarantined + self.dropped:
            raise ValueError("records is not written + quarantined + dropped")
        if self.warned + self.alerted > self.written:
            raise ValueError("warned and alerted records are part of written, and here exceed it")
        if len({(count.stage, count.code, count.severity) for count in self.rules}) < len(self.rules):
            raise ValueError("a rule is counted twice in rules")
        if len({result.id for result in self.expectations}) < len(self.expectations):
            raise ValueError("an expectation stands twice in expectations")
        return self

    @model_validator(mode="after")
    def _check_size(self) -> Self:
        # The registry sums these counts over all batches in 64-bit columns.
        shadow = () if self.shadow is None else self.shadow.counts
        if max((self.records, *(count.records for count in self.rules), *shadow)) > MOST_RECORDS:
            raise ValueError(f"a batch has at most {MOST_RECORDS} records")
        return self
