"""Request and response models of the native API. The constants are examples for the OpenAPI document."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from tidegate.contracts.document.model import Status
from tidegate.contracts.stream.control import Condition
from tidegate.contracts.stream.report import BatchReport
from tidegate.contracts.verdict import Severity, Stage
from tidegate.gateway.http.models.examples import REPORT, example, request_example
from tidegate.gateway.http.models.stream_status import BUDGET, STATUS, BudgetInfo, StatusInfo

_VERSION: dict[str, Any] = {
    "registry_id": 3,
    "number": 2,
    "version": "1.2.0",
    "status": "active",
    "domain": "hospital",
    "fingerprint": "3f5a0d6c1b0e4b8f9f6e2a7c5d4b3a291817161514131211100f0e0d0c0b0a09",
    "published_at": "2026-07-01T12:00:00Z",
    "note": None,
}
_VIOLATION: dict[str, Any] = {
    "stage": "rule",
    "code": "age-is-known",
    "pointer": "/age",
    "severity": "error",
    "message": "age holds a value that the contract forbids",
    "sentence": "age is 999, a placeholder value",
    "description": None,
    "passes": "any value but 999",
}
_WARNING: dict[str, Any] = {
    "pointer": "/schema/definition/properties/age/minimun",
    "message": "unknown keyword `minimun` refuses nothing; did you mean `minimum`?",
    "line": 12,
    "column": 9,
}
_TOTALS: dict[str, Any] = {
    "batches": 1,
    "records": 1000,
    "written": 970,
    "warned": 4,
    "alerted": 0,
    "quarantined": 29,
    "dropped": 1,
    "refused_share": 0.03,
}
_CONDITION: dict[str, Any] = {
    "condition": "paused",
    "reason": "the ward's clock is wrong",
    "by": "key:3f9c2a71b0de",
    "at": "2026-07-01T12:00:05Z",
}
_STREAM: dict[str, Any] = {
    "stream": "hospital.admissions",
    "topic": "hospital.admissions",
    "quarantine_topic": "hospital.admissions.quarantine",
    "sink": "iceberg:lake.hospital.admissions",
    "contract": "hospital.admissions@1.2.0",
    "fingerprint": _VERSION["fingerprint"],
    "epoch": 1,
    "n": 1,
    "first_started_at": "2026-07-01T12:00:00Z",
    "started_at": "2026-07-01T12:00:00Z",
    "last_committed_at": "2026-07-01T12:00:02Z",
    "records_per_second_last_minute": 16.7,
    "records_per_second_since_start": 500.0,
    "lag_records": 0,
    "condition": _CONDITION,
    "seen_at": "2026-07-01T12:00:08Z",
    "status": STATUS,
    "budget": BUDGET,
    "totals": _TOTALS,
    "sparkline": [{"start": "2026-07-01T11:32:03Z", "records": 1000, "refused": 30}],
}
_SLICE: dict[str, Any] = {
    "start": "2026-07-01T12:00:00Z",
    "end": "2026-07-01T12:30:00Z",
    "counts": [{"stage": "rule", "code": "age-is-known", "records": 30}],
}
_ENFORCEMENT: dict[str, Any] = {"is_enforced": True, "seen_at": "2026-07-01T12:00:08Z"}
_CONTRACT: dict[str, Any] = {"id": "hospital.admissions", "topic": "hospital.admissions"}


class ProblemPlace(BaseModel):
    """One mistake in a document, and its place; line and column are null if they are unknown."""

    model_config = ConfigDict(from_attributes=True)

    pointer: str = Field(description="JSON Pointer (RFC 6901) into the body, or the name of a parameter.")
    message: str
    line: int | None = Field(default=None, description="Line in the posted document, from 1.")
    column: int | None = Field(default=None, description="Column in that line, from 1.")


class VersionInfo(BaseModel):
    """One published version, without its document."""

    model_config = example(_VERSION)

    registry_id: int = Field(description="Global number of the version; it grows, and is never used twice.")
    number: int = Field(description="Number of the version within its contract, from 1.")
    version: str = Field(description="Semantic version.")
    status: Status
    domain: str | None
    fingerprint: str = Field(description="SHA-256 of the canonical document: equal for equal contracts.")
    published_at: datetime
    note: str | None = Field(
        default=None,
        description="What of the version is not enforced and why, and what clients read differently; or null.",
    )
    read_by: tuple[str, ...] | None = Field(
        default=None, description="The consumers that still read a deprecated version; else null."
    )


class StatusRequest(BaseModel):
    """The new status of a version."""

    model_config = request_example({"status": "deprecated"})

    status: Status


class ContractName(BaseModel):
    """A contract's id, and the topic that it governs."""

    id: str
    topic: str


class PublishedContract(VersionInfo, ContractName):
    """A published version and its contract."""

    model_config = example(_CONTRACT | _VERSION)


class EnforcementInfo(BaseModel):
    """The enforcement of a contract by a job, according to its heartbeats."""

    model_config = ConfigDict(from_attributes=True)

    is_enforced: bool = Field(
        description="Whether a job sent a heartbeat within the last 45 seconds, and has not reported its end since."
    )
    seen_at: datetime | None = Field(
        description="Time of the last heartbeat of its job; null if there never was one."
    )


class PublicationReceipt(PublishedContract):
    """The published version, whether a job enforces its contract, and possible mistakes in its document."""

    model_config = example(_CONTRACT | _VERSION | {"enforcement": _ENFORCEMENT, "warnings": [_WARNING]})

    enforcement: EnforcementInfo
    warnings: tuple[ProblemPlace, ...] = Field(
        default=(),
        description="Names that the contract uses and does not declare. The version is published nevertheless.",
    )


class ContractList(BaseModel):
    """One page of the list of contracts."""

    model_config = example({"contracts": [_CONTRACT | _VERSION], "total": 1, "offset": 0, "limit": 100})

    contracts: tuple[PublishedContract, ...]
    total: int = Field(description="Contracts that match, on all pages.")
    offset: int
    limit: int


class ContractDetail(ContractName):
    """A contract and its versions, highest first."""

    model_config = example(
        {
            **_CONTRACT,
            "subject": "hospital.admissions-value",
            "enforcement": _ENFORCEMENT,
            "versions": [_VERSION],
        }
    )

    subject: str = Field(description="Name of the contract's subject in the Confluent API.")
    enforcement: EnforcementInfo
    versions: tuple[VersionInfo, ...]


class CompatibilityGroupInfo(BaseModel):
    """A compatibility group of a contract's subject."""

    group: str = Field(description="Value of the property; empty for versions without it.")
    version: str | None = Field(description="Its newest enforced version, which judges its records.")
    schemas: tuple[int, ...] = Field(description="Ids of its schemas, also of deleted versions.")


class CompatibilityGroupList(BaseModel):
    """The compatibility groups of a contract's subject."""

    model_config = example(
        {
            "setting": "app_version",
            "newest": "2",
            "groups": [
                {"group": "1", "version": "1.1.0", "schemas": [1, 3]},
                {"group": "2", "version": "2.0.0", "schemas": [2]},
            ],
        }
    )

    setting: str | None = Field(
        description="Metadata property that tells the groups apart; null without one."
    )
    newest: str | None = Field(description="The group of the newest enforced version.")
    groups: tuple[CompatibilityGroupInfo, ...]


class ViolationInfo(BaseModel):
    """One way in which a record breaks the contract."""

    model_config = example(_VIOLATION)

    stage: Stage
    code: str = Field(description="Rule id, schema keyword, column name, or a code such as json.invalid.")
    pointer: str = Field(description="JSON Pointer of the offending place in the record.")
    severity: Severity
    message: str = Field(description="A sentence without any value of the record.")
    sentence: str = Field(description="The same with values, except for those of classified fields.")
    description: str | None = Field(default=None, description="Why the rule exists, in its author's words.")
    passes: str | None = Field(
        default=None, description="What would have passed, in words; null if there is no short description."
    )


class VerdictInfo(BaseModel):
    """The verdict on one record."""

    disposition: str = Field(
        description="accepted, warned, alerted, dropped, quarantined or failed.", examples=["quarantined"]
    )
    violations: tuple[ViolationInfo, ...]


class JudgementInfo(BaseModel):
    """The verdicts on the posted records, in the order of the records."""

    model_config = example(
        {
            "contract": "hospital.admissions@1.2.0",
            "fingerprint": _VERSION["fingerprint"],
            "counts": {"accepted": 1, "quarantined": 1},
            "verdicts": [
                {"disposition": "accepted", "violations": []},
                {"disposition": "quarantined", "violations": [_VIOLATION]},
            ],
        }
    )

    contract: str = Field(
        description="id@version by which they were judged.", examples=["hospital.admissions@1.2.0"]
    )
    fingerprint: str
    counts: dict[str, int] = Field(
        description="Records by disposition.", examples=[{"accepted": 1, "quarantined": 2}]
    )
    verdicts: tuple[VerdictInfo, ...]


class ReportReceipt(BaseModel):
    """The batch whose report was stored."""

    model_config = example({"stream": "hospital.admissions", "epoch": 1, "n": 1})

    stream: str
    epoch: int = Field(description="How often a job has claimed the stream.")
    n: int = Field(description="Number of the batch, from 1.")


class TotalsInfo(BaseModel):
    """Counts since the stream's first batch."""

    model_config = ConfigDict(from_attributes=True)

    batches: int
    records: int = Field(description="written + quarantined + dropped")
    written: int
    warned: int = Field(description="Part of written.")
    alerted: int = Field(description="Part of written.")
    quarantined: int
    dropped: int
    refused_share: float = Field(description="(quarantined + dropped) / records, from 0 to 1.")


class SparkInfo(BaseModel):
    """One bar of a sparkline: half an hour of a stream."""

    model_config = ConfigDict(from_attributes=True)

    start: datetime
    records: int
    refused: int = Field(description="quarantined + dropped")


class ConditionInfo(BaseModel):
    """The condition of a stream: whether it runs, since when and why."""

    model_config = example(_CONDITION)

    condition: Condition = Field(
        description="ended: somebody stopped its job, or everything was read; stopped: it stopped or failed by itself."
    )
    reason: str | None = None
    by: str | None = Field(default=None, description="The principal that paused the stream; else null.")
    at: datetime | None = None


class StreamInfo(BaseModel):
    """The state of one stream."""

    model_config = example(_STREAM)

    stream: str
    topic: str
    quarantine_topic: str
    sink: str = Field(description="Kind and name of the output, such as iceberg:lake.hospital.admissions.")
    contract: str = Field(description="id@version that judged the last batch.")
    fingerprint: str
    epoch: int = Field(description="How often a job has claimed the stream.")
    n: int = Field(description="Number of the last batch.")
    first_started_at: datetime
    started_at: datetime = Field(description="Start of the first batch since the job last started.")
    last_committed_at: datetime
    records_per_second_last_minute: float
    records_per_second_since_start: float
    lag_records: int | None = Field(description="Records in the topic past the last batch; null if unknown.")
    condition: ConditionInfo
    seen_at: datetime | None = Field(
        description="Time of the last heartbeat of its job; null if there never was one."
    )
    status: StatusInfo
    budget: BudgetInfo | None = Field(description="null for a contract without an error budget.")
    totals: TotalsInfo
    sparkline: tuple[SparkInfo, ...] = Field(description="The last 24 hours in half hours, oldest first.")


class StreamList(BaseModel):
    """Every stream that ever reported a batch."""

    model_config = example({"streams": [_STREAM]})

    streams: tuple[StreamInfo, ...]


class BatchList(BaseModel):
    """Batch reports, newest first; `older` continues the list, null at its end."""

    model_config = example({"batches": [REPORT], "older": None})

    batches: tuple[BatchReport, ...]
    older: str | None = None


class RefusalCount(BaseModel):
    """The number of records that violated one rule or keyword in one slice of time."""

    stage: Stage
    code: str = Field(description="Rule id, schema keyword, column name, or a code such as json.invalid.")
    records: int


class RefusalSlice(BaseModel):
    """The refusals in one slice of time, most frequent violations first."""

    start: datetime
    end: datetime
    counts: tuple[RefusalCount, ...]


class RefusalList(BaseModel):
    """Violations of severity error over time, empty slices included."""

    model_config = example({"buckets": [_SLICE]})

    buckets: tuple[RefusalSlice, ...]
