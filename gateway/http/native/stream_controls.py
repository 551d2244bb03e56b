"""Operations on stream controls: pause and resume streams, and the events and heartbeats of their jobs."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Header, Response
from pydantic import BaseModel, Field

from tidegate.contracts.stream.control import (
    EventKind,
    Heartbeat,
    RecordPosition,
    StreamControl,
    StreamEvent,
    Trip,
)
from tidegate.contracts.stream.reconciliation import HeartbeatAnswer
from tidegate.gateway.http.dependencies import FactoryDep, body_of, json_content, posted
from tidegate.gateway.http.gate import PrincipalDep
from tidegate.gateway.http.models.examples import example, request_example
from tidegate.gateway.http.native.reconciliations import REQUEST
from tidegate.gateway.http.native.streams import StreamName
from tidegate.gateway.http.problems import responses
from tidegate.gateway.storage.audit_chain import content_hash
from tidegate.gateway.streams.controls import EMPTY_HEARTBEAT

_log = structlog.get_logger()

router = APIRouter(prefix="/api/v1/streams", tags=["streams"])


_TRIP: dict[str, Any] = {
    "id": "0b7a3c52-6c1e-4d64-9f0c-2f6f3c1d7a10",
    "stream": "hospital.admissions",
    "topic": "hospital.admissions",
    "contract": "hospital.admissions@1.2.0",
    "epoch": 3,
    "at": "2026-07-01T12:00:02Z",
    "start": {"0": 600, "1": 400},
    "end": {"0": 1600, "1": 1400},
    "records": 2000,
    "refused": 612,
    "allowed": 0.2,
    "action": "pause",
    "rules": [{"stage": "rule", "code": "age-is-known", "severity": "error", "records": 612}],
}
_CONTROL: dict[str, Any] = {
    "stream": "hospital.admissions",
    "revision": 1,
    "state": "paused",
    "reason": "error budget spent: 612 of 2000 records refused, 20.0% allowed; nothing of the batch is written",
    "by": "key:3f9c2a71b0de",
    "at": "2026-07-01T12:00:02Z",
    "trip": _TRIP,
    "accepted": None,
    "set_aside": [{"partition": 1, "offset": 90211}],
}
_EVENT: dict[str, Any] = {
    "id": "7a0f6a8e-3b1f-4a53-8d27-6f3d0f2f9a11",
    "stream": "hospital.admissions",
    "kind": "stopped",
    "at": "2026-07-01T12:00:02Z",
    "message": "topic hospital.admissions was deleted and created again",
}

_BEAT: dict[str, Any] = {"lag_records": 1250, "busy_seconds": 3.2}
_ASKED: dict[str, Any] = {"reconciliation": REQUEST}

IfNoneMatch = Annotated[
    str | None,
    Header(description="ETag of the answer that the client holds.", examples=['"0f1e2d3c4b5a6978"']),
]


class PauseRequest(BaseModel):
    """A request to pause a stream, with its reason."""

    model_config = request_example({"reason": "the ward's clock is wrong"})

    reason: str | None = Field(
        default=None,
        min_length=1,
        max_length=500,
        description="Why the stream is paused; people who find it paused see this.",
    )


class ResumeRequest(BaseModel):
    """A request to resume a stream."""

    model_config = request_example({"accept_batch": True})

    accept_batch: bool = Field(
        default=False,
        description="Let the batch through that spent the error budget; else it is judged again, and trips again.",
    )
    decisions: int = Field(
        default=0,
        ge=0,
        le=10**9,
        description="Number of decisions that the stopped job named, after a restore of the database that lost some.",
    )


class SetAsideRequest(RecordPosition):
    """The record that is to be set aside."""

    model_config = request_example({"partition": 1, "offset": 90211})


class EventReceipt(BaseModel):
    """The stored event."""

    model_config = example({"stream": "hospital.admissions", "kind": "stopped"})

    stream: str
    kind: EventKind


CONTROL_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"description": "What holds.", **json_content("StreamControl", _CONTROL)}
}


@router.get(
    "/{stream}/control",
    operation_id="get_stream_control",
    summary="Show the control of a stream",
    response_model=StreamControl,
    responses={
        **CONTROL_ANSWER,
        304: {"description": "What the client holds still holds."},
        **responses(404, 503),
    },
)
def get_stream_control(
    stream: StreamName, factory: FactoryDep, if_none_match: IfNoneMatch = None
) -> Response:
    """Return whether a stream runs or is paused, and what tripped and was accepted last. The job asks at each batch."""
    control = factory.stream_controls().control(stream)
    etag = f'"{content_hash(control.model_dump(mode="json"))[:32]}"'
    headers = {"ETag": etag, "Cache-Control": "no-cache"}
    if if_none_match is not None and if_none_match.strip() == etag:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(control.model_dump_json(), headers=headers, media_type="application/json")


@router.post(
    "/{stream}/pause",
    operation_id="pause_stream",
    summary="Pause a stream",
    responses={**CONTROL_ANSWER, **responses(403, 404, 413, 415, 422, 503)},
    openapi_extra=body_of(PauseRequest),
)
def pause_stream(
    stream: StreamName,
    wanted: Annotated[PauseRequest, posted(PauseRequest, "request to pause a stream")],
    factory: FactoryDep,
    principal: PrincipalDep,
) -> StreamControl:
    """Pause a stream: from its next batch on nothing is judged or written, until it is resumed."""
    control = factory.stream_controls().pause(stream, wanted.reason, principal)
    _log.info("stream_paused", stream=stream)
    return control


@router.post(
    "/{stream}/resume",
    operation_id="resume_stream",
    summary="Resume a stream",
    responses={**CONTROL_ANSWER, **responses(403, 404, 409, 413, 415, 422, 503)},
    openapi_extra=body_of(ResumeRequest),
)
def resume_stream(
    stream: StreamName,
    wanted: Annotated[ResumeRequest, posted(ResumeRequest, "request to resume a stream")],
    factory: FactoryDep,
    principal: PrincipalDep,
) -> StreamControl:
    """Resume a stream; with `accept_batch` accept the batch that exceeded its error budget.

    Without it that batch is judged again. A stream that ended because of it (`action: fail`) has to be started again.
    """
    control = factory.stream_controls().resume(
        stream, accept_batch=wanted.accept_batch, decisions=wanted.decisions, by=principal
    )
    _log.info("stream_resumed", stream=stream, accept_batch=wanted.accept_batch)
    return control


@router.post(
    "/{stream}/quarantine-record",
    operation_id="quarantine_record",
    summary="Set one record aside",
    responses={**CONTROL_ANSWER, **responses(403, 404, 413, 415, 422, 503)},
    openapi_extra=body_of(SetAsideRequest),
)
def quarantine_record(
    stream: StreamName,
    wanted: Annotated[SetAsideRequest, posted(SetAsideRequest, "record to set aside")],
    factory: FactoryDep,
    principal: PrincipalDep,
) -> StreamControl:
    """Quarantine one record without judging it, such as a record that has stopped the stream.

    It takes effect with the next batch. A record that the stream is past already stays where it is.
    """
    record = RecordPosition(partition=wanted.partition, offset=wanted.offset)
    control = factory.stream_controls().set_aside(stream, record, principal)
    _log.info("record_set_aside", stream=stream, partition=wanted.partition, offset=wanted.offset)
    return control


@router.post(
    "/{stream}/trips",
    operation_id="report_trip",
    summary="Report a spent error budget",
    responses={**CONTROL_ANSWER, **responses(403, 404, 409, 413, 415, 422, 503)},
    openapi_extra=body_of(Trip, _TRIP),
)
def report_trip(
    stream: StreamName,
    trip: Annotated[Trip, posted(Trip, "trip of an error budget")],
    factory: FactoryDep,
    principal: PrincipalDep,
) -> StreamControl:
    """Record that a batch has exceeded the budget, and pause the stream if the budget says so. May be sent again."""
    control = factory.stream_controls().trip(stream, trip, principal)
    _log.info("budget_tripped", stream=stream, action=trip.action, records=trip.records, refused=trip.refused)
    return control


@router.post(
    "/{stream}/events",
    operation_id="report_event",
    summary="Report a start or an end",
    status_code=HTTPStatus.CREATED,
    responses={
        200: {"model": EventReceipt, "description": "The event was reported before; nothing changed."},
        **responses(403, 404, 409, 413, 415, 422, 503),
    },
    openapi_extra=body_of(StreamEvent, _EVENT),
)
def report_event(
    stream: StreamName,
    event: Annotated[StreamEvent, posted(StreamEvent, "event of a stream")],
    factory: FactoryDep,
    principal: PrincipalDep,
    response: Response,
) -> EventReceipt:
    """Record that the job of a stream has started, ended, stopped, failed or was overtaken. May be sent again."""
    is_new = factory.stream_controls().record_event(stream, event, principal)
    _log.info("stream_event", stream=stream, kind=event.kind.value, is_new=is_new)
    response.status_code = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    return EventReceipt(stream=event.stream, kind=event.kind)


@router.post(
    "/{stream}/heartbeat",
    operation_id="report_heartbeat",
    summary="Report a heartbeat",
    responses={
        200: {"description": "What is asked of the job.", **json_content("HeartbeatAnswer", _ASKED)},
        **responses(403, 404, 413, 415, 422, 503),
    },
    openapi_extra=body_of(Heartbeat, _BEAT, required=False),
)
def report_heartbeat(
    stream: StreamName,
    beat: Annotated[Heartbeat, posted(Heartbeat, "heartbeat of a stream", left_out=EMPTY_HEARTBEAT)],
    factory: FactoryDep,
    principal: PrincipalDep,
) -> HeartbeatAnswer:
    """Record a heartbeat of a stream's job, with or without records to judge. The job sends one every ten seconds.

    The body may be left out. While a reconciliation is requested and its result is not reported, the answer asks the
    job to reconcile the stream.
    """
    return factory.stream_controls().beat(stream, beat, principal)
