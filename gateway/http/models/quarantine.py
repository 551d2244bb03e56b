"""Request and response models about refused records and problems."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from tidegate.contracts.document.terms import VERSION_PATTERN
from tidegate.contracts.stream.bounds import Instant
from tidegate.gateway.http.models.examples import example, request_example
from tidegate.gateway.streams.problem_states import Mute, ProblemState, StateChange
from tidegate.gateway.streams.quarantine_index.reading import Dimension
from tidegate.gateway.streams.value_search import SearchState

PROBLEM_ID = "9f0c1d2e3b4a59687786a5b4c3d2e1f0"
_AT = "2026-07-01T12:00:00Z"
_MUTED: dict[str, Any] = {"until": None, "count": 100, "ratio": None}
_PROBLEM: dict[str, Any] = {
    "id": PROBLEM_ID,
    "stream": "hospital.admissions",
    "stage": "rule",
    "code": "age-is-known",
    "field": "/age",
    "shape": "999",
    "sentence": "holds a value that the contract forbids",
    "title": "age-is-known at /age: 999",
    "state": "muted",
    "muted": _MUTED,
    "resolved_in": None,
    "assignee": "ann",
    "comments": 1,
    "records": 1000,
    "share": 0.1667,
    "record_share": None,
    "first_seen": _AT,
    "last_seen": "2026-07-01T12:31:00Z",
    "known_since": _AT,
    "is_surging": False,
    "trend": [0, 600, 400],
    "members": [],
}
_GROUP: dict[str, Any] = {"value": "1.2.0", "records": 1000, "share": 1.0, "name": None, "shown": None}
_COMMENT: dict[str, Any] = {"at": _AT, "by": "key:3f9c2a71b0de", "text": "the new form sends 999 for unknown"}
_CHANGE: dict[str, Any] = {"at": _AT, "by": "key:3f9c2a71b0de", "before": "open", "after": "muted"}
_PARTITION: dict[str, Any] = {"partition": 0, "low": 0, "next_offset": 6012, "high": 6012}
_RECORD: dict[str, Any] = {
    "position": "0/4711",
    "source": "hospital.admissions/0/90211",
    "at": _AT,
    "refused_at": _AT,
    "contract": "hospital.admissions@1.2.0",
    "violations": [
        {
            "stage": "rule",
            "code": "age-is-known",
            "pointer": "/age",
            "severity": "error",
            "sentence": "age is 999, a placeholder value",
            "passes": "any value but 999",
        }
    ],
    "left_out": 0,
    "key": "▇▇▇▇",
    "value": {"admission_id": "a-1", "age": 999, "note": "▇▇▇▇"},
    "value_text": '{"admission_id": "a-1", "age": 999, "note": "▇▇▇▇"}',
    "is_cut": False,
    "hidden": ["/note", "key"],
    "headers": [["app", "▇▇▇▇"]],
    "size": 61,
}


class ProblemInfo(BaseModel):
    """One problem of a stream. `records`, `share` and `record_share` are of the span that was asked for."""

    model_config = example(_PROBLEM)

    id: str = Field(description="Permanent id; the ids of joined problems lead here too.")
    stream: str
    stage: str
    code: str
    field: str = Field(description="JSON Pointer with `*` for every index.")
    shape: str = Field(description="Class of the offending value, never the value.")
    sentence: str
    title: str
    state: ProblemState
    muted: Mute | None = None
    resolved_in: str | None = None
    assignee: str | None = None
    comments: int
    records: int
    share: float = Field(description="Share of the stream's refused records.")
    record_share: float | None = Field(
        default=None, description="Share of all records of the stream's batches; null if not known."
    )
    first_seen: datetime
    last_seen: datetime
    known_since: datetime | None = Field(
        default=None, description="First seen ever, also if those records are not kept any more."
    )
    is_surging: bool = Field(description="Whether the last hour has far more records than is usual.")
    trend: tuple[int, ...]
    members: tuple[str, ...] = Field(description="Ids of the problems that are joined into this one.")


class ProblemsInfo(BaseModel):
    """Problems, most records first. `total` counts all that match, `refused` the refused records of the span."""

    model_config = example(
        {
            "problems": [_PROBLEM],
            "total": 5,
            "refused": 6000,
            "trend_from": _AT,
            "trend_until": "2026-07-01T15:00:00Z",
        }
    )

    problems: tuple[ProblemInfo, ...]
    total: int
    refused: int | None = None
    trend_from: datetime | None = None
    trend_until: datetime | None = None


class GroupInfo(BaseModel):
    """Records with one value. Of a producer header `name` is its name, and `shown` its value, null if only a hash is kept."""

    model_config = example(_GROUP)

    value: str
    records: int
    share: float
    name: str | None = None
    shown: str | None = None


class CommentInfo(BaseModel):
    """A comment on a problem."""

    model_config = example(_COMMENT)

    at: datetime
    by: str
    text: str


class ProblemDetail(ProblemInfo):
    """A problem with where it comes from, examples, and what people said and decided."""

    model_config = example(
        {
            **_PROBLEM,
            "by_version": [_GROUP],
            "by_partition": [{**_GROUP, "value": "0"}],
            "by_producer": [],
            "by_again": [{**_GROUP, "value": "ward-is-open"}],
            "examples": ["0/4711"],
            "comment_list": [_COMMENT],
            "changes": [_CHANGE],
        }
    )

    by_version: tuple[GroupInfo, ...]
    by_partition: tuple[GroupInfo, ...]
    by_producer: tuple[GroupInfo, ...]
    by_again: tuple[GroupInfo, ...] = Field(description="What records violate that a replay refused again.")
    examples: tuple[str, ...] = Field(description="Positions of the newest records, `partition/offset`.")
    comment_list: tuple[CommentInfo, ...]
    changes: tuple[StateChange, ...] = Field(description="The newest changes of state, oldest first.")


class StateRequest(BaseModel):
    """A new state of a problem."""

    model_config = request_example({"state": "muted", "count": 100})

    state: ProblemState
    until: Instant | None = Field(default=None, description="Muted until this instant.")
    count: int | None = Field(
        default=None, ge=1, le=10**12, description="Muted until so many more records came."
    )
    ratio: float | None = Field(
        default=None, gt=0, le=1, description="Muted until it is this share of the records of an hour."
    )
    in_version: str | None = Field(
        default=None,
        max_length=100,
        pattern=VERSION_PATTERN,
        description="Contract version that resolves it: from it on it must not come back.",
    )


class AssigneeRequest(BaseModel):
    """Assignee of a problem; null without one."""

    model_config = request_example({"assignee": "ann"})

    assignee: str | None = Field(min_length=1, max_length=100)


class CommentRequest(BaseModel):
    """A comment."""

    model_config = request_example({"text": "the new form sends 999 for unknown"})

    text: str = Field(min_length=1, max_length=2_000)


class PartitionInfo(BaseModel):
    """The progress of the index in one partition of the quarantine topic, as offsets."""

    model_config = example(_PARTITION)

    partition: int
    low: int
    next_offset: int
    high: int


class QuarantineInfo(BaseModel):
    """The retained refused records of a stream, and how far they are indexed. `lag` counts offsets."""

    model_config = example(
        {
            "stream": "hospital.admissions",
            "topic": "hospital.admissions.quarantine",
            "records": 6000,
            "problems": 5,
            "lag": 0,
            "is_complete": True,
            "oldest": _AT,
            "newest": _AT,
            "indexed_at": _AT,
            "partitions": [_PARTITION],
        }
    )

    stream: str
    topic: str
    records: int
    problems: int
    lag: int
    is_complete: bool
    oldest: datetime | None = None
    newest: datetime | None = None
    indexed_at: datetime | None = None
    partitions: tuple[PartitionInfo, ...]


class BreakdownInfo(BaseModel):
    """Refused records by one dimension, most first. A record of two problems counts for both."""

    model_config = example({"by": "version", "records": 1000, "groups": [_GROUP]})

    by: Dimension
    records: int
    groups: tuple[GroupInfo, ...]


class TrendBucket(BaseModel):
    """The refused records of one slice of time."""

    model_config = example({"start": _AT, "end": "2026-07-01T12:30:00Z", "records": 12})

    start: datetime
    end: datetime
    records: int


class TrendInfo(BaseModel):
    """Refused records in equal slices of time, by their arrival in the quarantine topic."""

    model_config = example({"buckets": [{"start": _AT, "end": "2026-07-01T12:30:00Z", "records": 12}]})

    buckets: tuple[TrendBucket, ...]


class PositionsInfo(BaseModel):
    """Positions that do not change: runs of offsets (both ends belong to them) by partition, and a digest of all."""

    model_config = example(
        {
            "topic": "hospital.admissions.quarantine",
            "records": 7,
            "digest": "8a3f" * 16,
            "partitions": {"0": [[17, 17], [20, 25]]},
        }
    )

    topic: str
    records: int
    digest: str
    partitions: dict[int, tuple[tuple[int, int], ...]]


class RecordViolation(BaseModel):
    """One violation of a record; the sentence holds only values that the reader may see."""

    model_config = ConfigDict(frozen=True)

    stage: str
    code: str
    pointer: str
    severity: str
    sentence: str
    passes: str | None = None


class RecordInfo(BaseModel):
    """A refused record without what its reader may not see; hidden parts are `▇▇▇▇`."""

    model_config = example(_RECORD)

    position: str = Field(description="`partition/offset` in the quarantine topic.")
    source: str = Field(description="`topic/partition/offset` where the record came from.")
    at: datetime | None = None
    refused_at: datetime | None = None
    contract: str
    violations: tuple[RecordViolation, ...]
    left_out: int = Field(description="Violations that did not fit into the headers.")
    key: str | None = None
    value: Any = Field(
        default=None,
        description="The value, decoded; null where it is not JSON, nested too deep, or has a lone surrogate.",
    )
    value_text: str | None = Field(
        default=None, description="The value as text: a record's own bytes, numbers as they were written."
    )
    is_cut: bool = Field(description="Whether the value is left out because it is too large for this answer.")
    hidden: tuple[str, ...]
    headers: tuple[tuple[str, str | None], ...] = Field(description="The producer's headers.")
    size: int | None = None


class RecordsInfo(BaseModel):
    """Refused records, newest first; `newer` and `older` continue the list. Records that are gone are left out."""

    model_config = example({"records": [_RECORD], "newer": None, "older": "29712345-0-4711", "total": 1000})

    records: tuple[RecordInfo, ...]
    newer: str | None = None
    older: str | None = None
    total: int


class NeighbouredRecord(BaseModel):
    """One record, and the positions beside it in the filter: null at its ends."""

    model_config = example({"record": _RECORD, "newer": "0/4712", "older": "0/4700"})

    record: RecordInfo
    newer: str | None = None
    older: str | None = None


class FindRequest(BaseModel):
    """The search term: a record's key as text or in Base64, or `partition/offset` in the source topic."""

    model_config = request_example({"source": "0/90211"})

    key: str | None = Field(default=None, max_length=10_000)
    key_base64: str | None = Field(default=None, max_length=20_000)
    source: str | None = Field(default=None, max_length=40, pattern=r"^\d{1,9}/\d{1,18}$")


class FoundInfo(BaseModel):
    """Positions of what was looked for, oldest first. Some are missing if `is_complete` is false."""

    model_config = example({"positions": ["0/4711"], "is_complete": True})

    positions: tuple[str, ...]
    is_complete: bool


_SEARCH: dict[str, Any] = {
    "id": "5d1e9c0a-7b42-4c0e-9d3f-2f6f3c1d7a10",
    "by": "key:3f9c2a71b0de",
    "at": _AT,
    "state": "running",
    "looked_at": 1200,
    "total": 6000,
    "positions": ["0/4711"],
}


class SearchRequest(BaseModel):
    """A text that the key or value of a record holds, and which records are looked at: all of the stream if nothing is given."""

    model_config = request_example({"value": "Smith", "rule": "age-is-known"})

    value: str = Field(min_length=1, max_length=1_000)
    problem: str | None = Field(default=None, max_length=64)
    rule: str | None = Field(default=None, max_length=300)
    field: str | None = Field(default=None, max_length=1_000)
    version: str | None = Field(default=None, max_length=100)
    partition: int | None = Field(default=None, ge=0, lt=2**31)
    since: Instant | None = None
    until: Instant | None = None
    again: str | None = Field(default=None, max_length=300)


class SearchInfo(BaseModel):
    """The progress of a search, and the positions that it found; the searched value is not kept."""

    model_config = example(_SEARCH)

    id: str
    by: str
    at: datetime
    state: SearchState = Field(
        description="running, done, full (found as much as it may), bounded (looked as long as it may), cancelled or failed."
    )
    looked_at: int
    total: int
    positions: tuple[str, ...]


class SearchesInfo(BaseModel):
    """The searches of a stream that are kept, newest first."""

    model_config = example({"searches": [_SEARCH]})

    searches: tuple[SearchInfo, ...]
