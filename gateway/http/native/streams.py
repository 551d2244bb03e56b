"""Operations on streams: report batches, and read the state and history of streams."""

from __future__ import annotations

from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Query, Response
from pydantic import BaseModel, ConfigDict

from tidegate.contracts.errors import Problem
from tidegate.contracts.stream.bounds import Instant
from tidegate.contracts.stream.report import BatchReport, ExpectationResult
from tidegate.gateway.clock import now
from tidegate.gateway.http.conversions import refusal_slice, stream_info
from tidegate.gateway.http.dependencies import FactoryDep, body_of, posted
from tidegate.gateway.http.gate import PrincipalDep
from tidegate.gateway.http.models.answers import (
    BatchList,
    RefusalList,
    ReportReceipt,
    StreamInfo,
    StreamList,
)
from tidegate.gateway.http.models.examples import EXPECTATION_RESULT, REPORT, example
from tidegate.gateway.http.problems import InvalidBody, responses
from tidegate.gateway.storage.report_pages import ReportPlace

router = APIRouter(prefix="/api/v1/streams", tags=["streams"])

_DAY = timedelta(days=1)
_MOST_REPORT_BYTES: Final = 8 << 20
"""Largest report, whatever the setting says: the bounds of its fields allow more than a document may have."""

StreamName = Annotated[
    str, Path(description="Name of the stream: the id of its contract.", examples=["hospital.admissions"])
]


class TimeRange:
    """The time range [since, until) of a query; by default, the last day. Raises InvalidBody for an empty range."""

    def __init__(
        self,
        since: Annotated[Instant | None, Query(examples=["2026-07-01T00:00:00Z"])] = None,
        until: Annotated[Instant | None, Query(examples=["2026-07-02T00:00:00Z"])] = None,
    ) -> None:
        self.until = until or now() + timedelta(microseconds=1)
        self.since = since or self.until - _DAY
        if self.since >= self.until:
            raise InvalidBody("the range is empty", (Problem("since", "must be earlier than until"),))


TimeRangeDep = Annotated[TimeRange, Depends()]


@router.post(
    "/{stream}/batches",
    operation_id="report_batch",
    summary="Report a committed batch",
    status_code=HTTPStatus.CREATED,
    responses={
        200: {"model": ReportReceipt, "description": "The batch was reported before; nothing changed."},
        **responses(403, 404, 409, 413, 415, 422, 503),
    },
    openapi_extra=body_of("BatchReport", REPORT),
)
def report_batch(
    stream: StreamName,
    report: Annotated[BatchReport, posted(BatchReport, "batch report", least_limit_bytes=_MOST_REPORT_BYTES)],
    factory: FactoryDep,
    principal: PrincipalDep,
    response: Response,
) -> ReportReceipt:
    """Store a report. It is identified by (stream, epoch, n), so it may be sent again after a time-out."""
    is_new = factory.reports().record(stream, report, principal)
    response.status_code = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    return ReportReceipt(stream=report.stream, epoch=report.epoch, n=report.n)


@router.get("", operation_id="list_streams", summary="List streams", responses=responses(503))
def list_streams(factory: FactoryDep, principal: PrincipalDep) -> StreamList:
    """Show the state of every stream that ever reported a batch."""
    summaries = factory.streams(principal).summaries()
    at = now()
    return StreamList(streams=tuple(stream_info(summary, at) for summary in summaries))


@router.get("/{stream}", operation_id="get_stream", summary="Show a stream", responses=responses(404, 503))
def get_stream(stream: StreamName, factory: FactoryDep) -> StreamInfo:
    """Show the state of one stream."""
    return stream_info(factory.streams().summary(stream), now())


@router.get(
    "/{stream}/batches",
    operation_id="list_batches",
    summary="List a stream's batches",
    responses=responses(404, 422, 503),
)
def list_batches(
    stream: StreamName,
    factory: FactoryDep,
    time: TimeRangeDep,
    limit: Annotated[int, Query(ge=1, le=10_000, description="How many batches to give at most.")] = 1000,
    older_than: Annotated[str | None, Query(max_length=60, description="`older` of an answer.")] = None,
) -> BatchList:
    """List the batches committed in a range of time, newest first.

    An answer ends after about 8 MiB of reports, and `older` continues it.
    """
    try:
        place = None if older_than is None else ReportPlace.parse(older_than)
    except ValueError as error:
        problem = Problem("older_than", str(error))
        raise InvalidBody("the list cannot be continued there", (problem,)) from error
    found = factory.streams().page(stream, time.since, time.until, limit, place)
    return BatchList(batches=found.reports, older=None if found.older is None else str(found.older))


@router.get(
    "/{stream}/refusals",
    operation_id="list_refusals",
    summary="Count refusals by rule over time",
    responses=responses(404, 422, 503),
)
def list_refusals(
    stream: StreamName,
    factory: FactoryDep,
    time: TimeRangeDep,
    buckets: Annotated[int, Query(ge=1, le=1000, description="Number of equal slices of the range.")] = 48,
) -> RefusalList:
    """Count the violations of severity error by rule or keyword, in equal slices of a range of time."""
    found = factory.streams().refusals(stream, time.since, time.until, buckets)
    return RefusalList(buckets=tuple(refusal_slice(bucket) for bucket in found))


class ExpectationEntry(BaseModel):
    """The outcome of one expectation in one batch."""

    model_config = ConfigDict(from_attributes=True)

    epoch: int
    n: int
    committed_at: datetime
    result: ExpectationResult


class ExpectationList(BaseModel):
    """Results of expectations, newest first."""

    model_config = example(
        {
            "results": [
                {"epoch": 1, "n": 1, "committed_at": REPORT["committed_at"], "result": EXPECTATION_RESULT}
            ]
        }
    )

    results: tuple[ExpectationEntry, ...]


@router.get(
    "/{stream}/expectations",
    operation_id="list_expectation_results",
    summary="List results of expectations",
    responses=responses(404, 422, 503),
)
def list_expectation_results(
    stream: StreamName,
    factory: FactoryDep,
    time: TimeRangeDep,
    expectation: Annotated[str | None, Query(description="Id of one expectation; left out, all.")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="How many results to give at most.")] = 1000,
) -> ExpectationList:
    """List the results in the batches committed in a range of time, newest first: figures, never a value."""
    found = factory.expectations().results(stream, time.since, time.until, limit, expectation)
    return ExpectationList(results=tuple(ExpectationEntry.model_validate(each) for each in found))
