"""Operations on replays: request, approve and cancel them, for people, and fetch and report them, for the job."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any
from uuid import UUID

import structlog
from fastapi import APIRouter, Path
from pydantic import BaseModel

from tidegate.contracts.errors import ConflictError, ContractError
from tidegate.contracts.stream.replay import (
    MOST_REQUEST_BYTES,
    ReplayOrder,
    ReplayReport,
    ReplayRequest,
    StreamReplay,
)
from tidegate.gateway.access.limits import checked
from tidegate.gateway.http.dependencies import (
    FactoryDep,
    body_of,
    json_content,
    posted,
    posted_json,
    read_model,
)
from tidegate.gateway.http.gate import PrincipalDep
from tidegate.gateway.http.models.examples import example
from tidegate.gateway.http.native.streams import StreamName
from tidegate.gateway.http.problems import InvalidBody, responses

_log = structlog.get_logger()

router = APIRouter(prefix="/api/v1/streams", tags=["streams"])

_ID = "0c8f2f0e-6a51-4a0b-9a60-2f6f3c1d7a10"
_FIX = '{"fix":"age-sentinel","steps":[{"action":"map","field":"/age","values":[{"from":999,"to":null}]}]}'
_ORDER: dict[str, Any] = {
    "topic": "hospital.admissions.quarantine",
    "topic_id": "5t4MBcagRK+ZidN418oVQQ",
    "positions": {"0": [[17, 17], [20, 25]]},
    "records": 7,
    "digest": "3f5c4f8f0e6f1a5f8a3c9d0b7e2d1c4b3f5c4f8f0e6f1a5f8a3c9d0b7e2d1c4b",
    "action": "replay",
    "reason": None,
    "fix": _FIX,
    "fingerprint": "9d0b7e2d1c4b3f5c4f8f0e6f1a5f8a3c9d0b7e2d1c4b3f5c4f8f0e6f1a5f8a3c",
    "append_late": False,
    "accept_batches": False,
    "allowed": 0.2,
    "rate": None,
    "ledger": "hospital.admissions@iceberg:5d1e9c0a",
}
_REQUEST: dict[str, Any] = {"id": _ID, "stream": "hospital.admissions", **_ORDER}
_REPORT: dict[str, Any] = {
    "request": _ID,
    "stream": "hospital.admissions",
    "at": "2026-07-01T12:00:02Z",
    "state": "done",
    "records": 7,
    "written": 6,
    "refused": 1,
    "left": 0,
    "closed": 0,
    "reasons": [{"stage": "rule", "code": "age-is-known", "severity": "error", "records": 1}],
    "untouched": {},
    "closures": {"replayed": {"0": [[17, 17], [20, 24]]}},
    "message": None,
}
_SHOWN: dict[str, Any] = {
    "id": _ID,
    "stream": "hospital.admissions",
    "state": "done",
    "by": "key:3f9c2a71b0de",
    "at": "2026-07-01T12:00:00Z",
    "approved_by": "key:7a2c41d9e1f0",
    **{name: value for name, value in _ORDER.items() if name not in {"positions", "topic_id"}},
    "problems": ["3f9c2a71b0de4c5d8e6f7a1b2c3d4e5f"],
    "report": {**_REPORT, "closures": {}},
}

ReplayId = Annotated[UUID, Path(description="Id of the request.", examples=[_ID])]

_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"description": "The request as it is now.", **json_content("StreamReplay", _SHOWN)}
}


class ReplaysInfo(BaseModel):
    """The replays of a stream that are kept, newest first."""

    model_config = example({"replays": [_SHOWN]})

    replays: tuple[StreamReplay, ...]


@router.post(
    "/{stream}/replays",
    operation_id="ask_for_replay",
    summary="Request a replay",
    status_code=HTTPStatus.CREATED,
    response_model=StreamReplay,
    responses={
        201: {
            "description": "The request is kept. The job takes it with its next heartbeat, or after its approval.",
            **json_content(
                "StreamReplay", {**_SHOWN, "state": "proposed", "approved_by": None, "report": None}
            ),
        },
        **responses(403, 404, 409, 413, 415, 422, 429, 503),
    },
    openapi_extra=body_of(ReplayOrder, _ORDER),
)
@checked
def ask_for_replay(
    stream: StreamName,
    content: Annotated[bytes, posted_json(MOST_REQUEST_BYTES)],
    factory: FactoryDep,
    principal: PrincipalDep,
) -> StreamReplay:
    """Request that refused records are judged again, and written or sent to the source topic if they pass; or discarded.

    `replay_approval` of the contract says which requests need the approval of another person, if access control is on.
    """
    order = read_model(ReplayOrder, content, "request to replay records")
    try:
        replay = factory.replays().ask(stream, order, principal)
    except ContractError as error:
        raise InvalidBody("the fix cannot be used", error.problems) from error
    _log.info("replay_asked", stream=stream, replay=str(replay.id), records=replay.records)
    return replay


@router.get(
    "/{stream}/replays",
    operation_id="list_replays",
    summary="List replays",
    responses=responses(404, 503),
)
def list_replays(stream: StreamName, factory: FactoryDep, principal: PrincipalDep) -> ReplaysInfo:
    """List who asked for what, and how far it is.

    Below the role approver, values of classified fields in a fix are hidden.
    """
    return ReplaysInfo(replays=factory.replays().all(stream, principal))


@router.get(
    "/{stream}/replays/{replay}",
    operation_id="get_replay",
    summary="Show a replay",
    response_model=StreamReplay,
    responses={**_ANSWER, **responses(404, 422, 503)},
)
def get_replay(
    stream: StreamName, replay: ReplayId, factory: FactoryDep, principal: PrincipalDep
) -> StreamReplay:
    """Return who asked for a replay, and how far it is; its fix as in the list."""
    return factory.replays().find(stream, replay, principal)


@router.post(
    "/{stream}/replays/{replay}/approval",
    operation_id="approve_replay",
    summary="Approve a replay",
    response_model=StreamReplay,
    responses={**_ANSWER, **responses(403, 404, 409, 422, 503)},
)
def approve_replay(
    stream: StreamName, replay: ReplayId, factory: FactoryDep, principal: PrincipalDep
) -> StreamReplay:
    """Approve the replay that another person has requested; the job takes it with its next heartbeat."""
    found = factory.replays().approve(stream, replay, principal)
    _log.info("replay_approved", stream=stream, replay=str(replay))
    return found


@router.delete(
    "/{stream}/replays/{replay}",
    operation_id="cancel_replay",
    summary="Cancel a replay",
    response_model=StreamReplay,
    responses={**_ANSWER, **responses(403, 404, 409, 422, 503)},
)
def cancel_replay(
    stream: StreamName, replay: ReplayId, factory: FactoryDep, principal: PrincipalDep
) -> StreamReplay:
    """End a replay. Records that it has written stay."""
    found = factory.replays().cancel(stream, replay, principal)
    _log.info("replay_cancelled", stream=stream, replay=str(replay))
    return found


@router.get(
    "/{stream}/replays/{replay}/request",
    operation_id="get_replay_request",
    summary="Show the positions of a replay",
    response_model=ReplayRequest,
    responses={
        200: {"description": "The request with its positions.", **json_content("ReplayRequest", _REQUEST)},
        **responses(403, 404, 422, 503),
    },
)
def get_replay_request(
    stream: StreamName, replay: ReplayId, factory: FactoryDep, principal: PrincipalDep
) -> ReplayRequest:
    """Return the whole request, for the job of the stream; only of a replay that is open.

    It shows the hidden values of a fix, so the role producer does not include it: it needs reporter itself, or approver.
    """
    return factory.replays().request(stream, replay, principal)


@router.post(
    "/{stream}/replays/{replay}/progress",
    operation_id="report_replay",
    summary="Report how far a replay is",
    response_model=StreamReplay,
    responses={**_ANSWER, **responses(403, 404, 409, 413, 415, 422, 503)},
    openapi_extra=body_of(ReplayReport, _REPORT),
)
def report_replay(
    stream: StreamName,
    replay: ReplayId,
    report: Annotated[
        ReplayReport, posted(ReplayReport, "report of a replay", least_limit_bytes=MOST_REQUEST_BYTES)
    ],
    factory: FactoryDep,
    principal: PrincipalDep,
) -> StreamReplay:
    """Store the counts of a replay after a chunk. May be sent again.

    It names only records of the request. Those in a report about a replay that is done or stopped are ignored: the
    report that ended it had them.
    """
    if report.request != replay:
        raise ConflictError(f"this reports the replay {report.request}; post it there, not to {replay}")
    return factory.replays().progress(stream, report, principal)
