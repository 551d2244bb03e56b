"""What the job tells the registry about each batch: counts and positions, never a payload value.

Reports are idempotent by (stream, epoch, n); pages and metrics are built from them, and they can be rebuilt
from the ledger and the topics.
"""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from contracts.verdict import Severity, Stage


class RuleCount(BaseModel):
    """How many records of a batch violated one rule or schema keyword (a record may count under several)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stage: Stage
    code: str
    severity: Severity
    records: int = Field(ge=1)


class BatchReport(BaseModel):
    """One committed batch of one stream.

    `records = written + quarantined + dropped`; warned and alerted records are part of `written`. `start` and
    `end` map a source partition to the first offset of the batch and the first one after it. Times are UTC.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    stream: str
    topic: str
    quarantine_topic: str
    sink: str = Field(description="Human-readable sink, such as iceberg:lake.hospital.admissions.")
    epoch: int = Field(ge=0)
    n: int = Field(ge=1)
    contract: str = Field(description="id@version in force for the batch.")
    fingerprint: str
    started_at: datetime
    committed_at: datetime
    records: int = Field(ge=0)
    written: int = Field(ge=0)
    warned: int = Field(ge=0)
    alerted: int = Field(ge=0)
    quarantined: int = Field(ge=0)
    dropped: int = Field(ge=0)
    rules: tuple[RuleCount, ...] = ()
    start: dict[int, int]
    end: dict[int, int]
    lag_records: int | None = Field(
        default=None, ge=0, description="Records in the topic past `end` when the batch was committed."
    )
    timings_ms: dict[str, int] = Field(
        default_factory=dict, description="Milliseconds by step: judge, quarantine, stage, publish."
    )
