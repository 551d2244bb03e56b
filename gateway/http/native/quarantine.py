"""Operations on refused records: count, list and find them with the index of the quarantine topics."""

from __future__ import annotations

import base64
from typing import Annotated

import structlog
from fastapi import APIRouter, Depends, Path, Query

from tidegate.contracts.errors import Problem
from tidegate.contracts.stream.bounds import Instant
from tidegate.contracts.stream.replay import MOST_RUNS
from tidegate.contracts.verdict import Stage
from tidegate.gateway.http.dependencies import FactoryDep, body_of, posted
from tidegate.gateway.http.gate import PrincipalDep
from tidegate.gateway.http.models.quarantine import (
    BreakdownInfo,
    FindRequest,
    FoundInfo,
    GroupInfo,
    NeighbouredRecord,
    PartitionInfo,
    PositionsInfo,
    QuarantineInfo,
    RecordInfo,
    RecordsInfo,
    RecordViolation,
    TrendBucket,
    TrendInfo,
)
from tidegate.gateway.http.native.streams import StreamName
from tidegate.gateway.http.problems import InvalidBody, responses
from tidegate.gateway.streams.quarantine_index.filters import QuarantineFilter
from tidegate.gateway.streams.quarantine_index.reading import ArrivalPlace, Dimension, IndexStatus, ValueCount
from tidegate.gateway.streams.quarantine_records import MOST_SINGLE_BYTES, MaskedRecord

_log = structlog.get_logger()

router = APIRouter(prefix="/api/v1/streams/{stream}/quarantine", tags=["quarantine"])

Partition = Annotated[
    int, Path(ge=0, lt=2**31, description="Partition of the quarantine topic.", examples=[0])
]
Offset = Annotated[int, Path(ge=0, lt=2**63, description="Offset in the partition.", examples=[4711])]
Cursor = Annotated[str | None, Query(max_length=60, description="`older` or `newer` of an answer.")]


class RecordFilter:
    """A filter of refused records, as query parameters; None matches all. Raises InvalidBody for an empty span."""

    def __init__(  # noqa: PLR0913 - one for each parameter of the query
        self,
        *,
        problem: Annotated[str | None, Query(max_length=64, description="Id of a problem.")] = None,
        stage: Annotated[Stage | None, Query(description="Stage of the judge.")] = None,
        rule: Annotated[str | None, Query(max_length=300, description="Rule, keyword or code.")] = None,
        field: Annotated[
            str | None, Query(max_length=1000, description="Pointer with `*` for indices.")
        ] = None,
        version: Annotated[str | None, Query(max_length=100, description="Contract version.")] = None,
        partition: Annotated[
            int | None, Query(ge=0, lt=2**31, description="Partition of the quarantine topic.")
        ] = None,
        producer: Annotated[
            str | None, Query(max_length=64, description="Value of a breakdown by producer.")
        ] = None,
        since: Annotated[Instant | None, Query(description="Arrived from this minute on.")] = None,
        until: Annotated[Instant | None, Query(description="Arrived before this minute.")] = None,
        again: Annotated[
            str | None, Query(max_length=300, description="Code by which a replay refused the record again.")
        ] = None,
    ) -> None:
        if since is not None and until is not None and since >= until:
            raise InvalidBody("the range is empty", (Problem("since", "must be earlier than until"),))
        self.wanted = QuarantineFilter(
            problem, stage, rule, field, version, partition, producer, since, until, again
        )


FilterDep = Annotated[RecordFilter, Depends()]


@router.get(
    "",
    operation_id="get_quarantine",
    summary="Show the index of a quarantine topic",
    responses=responses(404, 503),
)
def get_quarantine(stream: StreamName, factory: FactoryDep) -> QuarantineInfo:
    """Show how many refused records are kept, and how far the index has read them."""
    return _status(factory.quarantine_index().status(stream))


@router.post(
    "/rebuild",
    operation_id="rebuild_quarantine_index",
    summary="Build the index again",
    responses=responses(403, 404, 503),
)
def rebuild_quarantine_index(
    stream: StreamName, factory: FactoryDep, principal: PrincipalDep
) -> QuarantineInfo:
    """Forget the index of a stream; the topic is read again in the background. States and comments of problems stay."""
    status = factory.quarantine_index(principal).rebuild(stream)
    _log.info("quarantine_index_rebuilt", stream=stream)
    return _status(status)


@router.get(
    "/breakdown",
    operation_id="break_quarantine_down",
    summary="Count refused records by a dimension",
    responses=responses(404, 422, 503),
)
def break_quarantine_down(
    stream: StreamName,
    factory: FactoryDep,
    record_filter: FilterDep,
    by: Annotated[Dimension, Query(description="What to count by.")],
) -> BreakdownInfo:
    """Count the refused records of a filter by a dimension; by `again`, what they violated when a replay refused them again."""
    groups, records = factory.quarantine_index().breakdown(stream, by, record_filter.wanted)
    return BreakdownInfo(by=by, records=records, groups=tuple(group_info(each, records) for each in groups))


@router.get(
    "/trend",
    operation_id="get_quarantine_trend",
    summary="Count refused records over time",
    responses=responses(404, 422, 503),
)
def get_quarantine_trend(
    stream: StreamName,
    factory: FactoryDep,
    record_filter: FilterDep,
    buckets: Annotated[int, Query(ge=1, le=1000, description="Number of equal slices.")] = 48,
) -> TrendInfo:
    """Count the refused records of a filter in equal slices of its span: the last 24 hours if it has none."""
    slices, counts = factory.quarantine_index().trend(stream, record_filter.wanted, buckets)
    starts = slices.starts
    found = zip(starts, starts[1:], counts, strict=False)
    return TrendInfo(
        buckets=tuple(TrendBucket(start=start, end=end, records=each) for start, end, each in found)
    )


@router.get(
    "/positions",
    operation_id="list_quarantine_positions",
    summary="List the positions of a filter",
    responses=responses(404, 422, 503),
)
def list_quarantine_positions(
    stream: StreamName, factory: FactoryDep, record_filter: FilterDep
) -> PositionsInfo:
    """List the positions of all refused records of a filter, with a digest that says which they are."""
    found = factory.quarantine_index().positions(stream, record_filter.wanted)
    runs = {partition: tuple(found.runs(partition)) for partition in found.offsets}
    if sum(map(len, runs.values())) > MOST_RUNS:
        raise InvalidBody(f"these are more than {MOST_RUNS:,} runs of positions; narrow the filter")
    return PositionsInfo(topic=found.topic, records=found.records, digest=found.digest, partitions=runs)


@router.get(
    "/records",
    operation_id="list_refused_records",
    summary="List refused records",
    responses=responses(404, 422, 503),
)
def list_refused_records(  # noqa: PLR0913 - one for each parameter of the query
    stream: StreamName,
    factory: FactoryDep,
    principal: PrincipalDep,
    record_filter: FilterDep,
    *,
    limit: Annotated[int, Query(ge=1, le=200, description="How many records to give at most.")] = 50,
    older_than: Cursor = None,
    newer_than: Cursor = None,
) -> RecordsInfo:
    """List the refused records of a filter, newest first, without what the reader may not see."""
    found = factory.record_search(principal).page(
        stream,
        record_filter.wanted,
        limit,
        (_place(older_than, "older_than"), _place(newer_than, "newer_than")),
    )
    return RecordsInfo(
        records=tuple(record_info(each) for each in found.records),
        newer=None if found.page.newer is None else str(found.page.newer),
        older=None if found.page.older is None else str(found.page.older),
        total=found.page.total,
    )


@router.get(
    "/records/{at_partition}/{at_offset}",
    operation_id="get_refused_record",
    summary="Show a refused record",
    responses=responses(404, 422, 503),
)
def get_refused_record(
    stream: StreamName,
    at_partition: Partition,
    at_offset: Offset,
    factory: FactoryDep,
    *,
    principal: PrincipalDep,
    record_filter: FilterDep,
) -> NeighbouredRecord:
    """Show one refused record, and the positions of the next newer and older one of a filter."""
    search = factory.record_search(principal)
    record = search.one(stream, at_partition, at_offset, MOST_SINGLE_BYTES)
    newer, older = factory.quarantine_index().neighbours(
        stream, record_filter.wanted, at_partition, at_offset
    )
    return NeighbouredRecord(record=record_info(record), newer=_position(newer), older=_position(older))


@router.post(
    "/find",
    operation_id="find_refused_records",
    summary="Find refused records by key or source position",
    responses=responses(403, 404, 413, 415, 422, 503),
    openapi_extra=body_of(FindRequest),
)
def find_refused_records(
    stream: StreamName,
    wanted: Annotated[FindRequest, posted(FindRequest, "search for a key or a position")],
    factory: FactoryDep,
    principal: PrincipalDep,
) -> FoundInfo:
    """Find the refused records of a key, or of a position in the source topic. Keys that the contract hides need an approver."""
    if wanted.source is not None:
        partition, offset = wanted.source.split("/")
        found = factory.record_search(principal).by_source(stream, int(partition), int(offset))
    else:
        key = _key(wanted)
        found = factory.record_search(principal).by_key(stream, key)
    return FoundInfo(positions=tuple(f"{p}/{o}" for p, o in found.positions), is_complete=found.is_complete)


def _key(wanted: FindRequest) -> bytes:
    if wanted.key is not None:
        return wanted.key.encode("utf-8", "surrogatepass")
    if wanted.key_base64 is None:
        raise InvalidBody("nothing is looked for", (Problem("key", "give key, key_base64 or source"),))
    try:
        return base64.b64decode(wanted.key_base64, validate=True)
    except ValueError as error:  # binascii.Error, or a character that is not ASCII
        raise InvalidBody("the key cannot be read", (Problem("key_base64", "is not Base64"),)) from error


def _place(text: str | None, name: str) -> ArrivalPlace | None:
    try:
        return None if text is None else ArrivalPlace.parse(text)
    except ValueError as error:
        raise InvalidBody("the list cannot be continued there", (Problem(name, str(error)),)) from error


def _position(place: ArrivalPlace | None) -> str | None:
    return None if place is None else f"{place.partition}/{place.offset}"


def _status(status: IndexStatus) -> QuarantineInfo:
    partitions = tuple(
        PartitionInfo(partition=each.partition, low=each.low, next_offset=each.next_offset, high=each.high)
        for each in status.partitions
    )
    values = {name: getattr(status, name) for name in QuarantineInfo.model_fields if name != "partitions"}
    return QuarantineInfo(**values, partitions=partitions)


def group_info(group: ValueCount, records: int) -> GroupInfo:
    """Convert a group to its response model, with its share of `records`."""
    share = group.records / records if records else 0.0
    return GroupInfo(
        value=group.value, records=group.records, share=share, name=group.name, shown=group.shown
    )


def record_info(record: MaskedRecord) -> RecordInfo:
    """Convert a masked record to its response model."""
    violations = tuple(
        RecordViolation(
            stage=each.violation.stage,
            code=each.violation.code,
            pointer=each.violation.pointer,
            severity=each.violation.severity,
            sentence=each.sentence,
            passes=each.passes,
        )
        for each in record.explanations
    )
    values = {name: getattr(record, name) for name in RecordInfo.model_fields if name != "violations"}
    return RecordInfo(**values, violations=violations)
