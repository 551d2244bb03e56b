"""Operations on reconciliations: a person requests one, the job reports its result, and readers list them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any
from uuid import UUID

import structlog
from fastapi import APIRouter, Path, Response
from pydantic import BaseModel

from tidegate.contracts.stream.reconciliation import ReconciliationResult, StreamReconciliation
from tidegate.gateway.http.dependencies import FactoryDep, body_of, json_content, posted
from tidegate.gateway.http.gate import PrincipalDep
from tidegate.gateway.http.models.examples import example
from tidegate.gateway.http.native.streams import StreamName
from tidegate.gateway.http.problems import responses

_log = structlog.get_logger()

router = APIRouter(prefix="/api/v1/streams", tags=["streams"])

REQUEST: dict[str, Any] = {
    "id": "5d1e9c0a-7b42-4c0e-9d3f-2f6f3c1d7a10",
    "stream": "hospital.admissions",
    "by": "key:3f9c2a71b0de",
    "at": "2026-07-01T12:00:02Z",
}
RESULT: dict[str, Any] = {
    "at": "2026-07-01T12:00:41Z",
    "findings": {
        "stream": "hospital.admissions",
        "answer": "lost",
        "holds": False,
        "epoch": 12,
        "n": 431,
        "begin": {"0": 0},
        "end": {"0": 99841},
        "written": 98002,
        "quarantined": 1836,
        "dropped_superseded_or_deleted": 0,
        "absent": 2,
        "unverifiable": 0,
        "lost": 1,
        "twice": 0,
        "surplus": 0,
        "records": {
            "in_no_output": {"count": 1, "first": ["0/4711"]},
            "written_twice": None,
            "quarantined_twice": None,
            "written_and_quarantined": None,
            "written_but_not_covered": None,
        },
    },
    "failure": None,
}
_RECONCILIATION: dict[str, Any] = {"asked": REQUEST, "result": RESULT}
_OPEN: dict[str, Any] = {"asked": REQUEST, "result": None}

ReconciliationId = Annotated[UUID, Path(description="Id of the request.", examples=[REQUEST["id"]])]


class ReconciliationsInfo(BaseModel):
    """The reconciliations of a stream that are kept, newest first."""

    model_config = example({"reconciliations": [_RECONCILIATION]})

    reconciliations: tuple[StreamReconciliation, ...]


class ReconciliationReceipt(BaseModel):
    """The result is kept now, or another one was before."""

    model_config = example({"stream": "hospital.admissions", "id": REQUEST["id"]})

    stream: str
    id: UUID


@router.post(
    "/{stream}/reconciliations",
    operation_id="ask_for_reconciliation",
    summary="Request a reconciliation",
    status_code=HTTPStatus.CREATED,
    response_model=StreamReconciliation,
    responses={
        201: {
            "description": "The request is kept; the job takes it with its next heartbeat.",
            **json_content("StreamReconciliation", _OPEN),
        },
        200: {
            "description": "One is open already; this is it.",
            **json_content("StreamReconciliation", _OPEN),
        },
        **responses(403, 404, 503),
    },
)
def ask_for_reconciliation(
    stream: StreamName, factory: FactoryDep, principal: PrincipalDep, response: Response
) -> StreamReconciliation:
    """Request that the job proves from topics, sink and ledger that every offset has one fate. The stream keeps running."""
    found, is_new = factory.reconciliations().ask(stream, principal)
    response.status_code = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    if is_new:
        _log.info("reconciliation_asked", stream=stream)
    return found


@router.get(
    "/{stream}/reconciliations",
    operation_id="list_reconciliations",
    summary="List reconciliations",
    responses=responses(404, 503),
)
def list_reconciliations(stream: StreamName, factory: FactoryDep) -> ReconciliationsInfo:
    """List who asked when, and what was found: counts, and `partition/offset` of records that have no fate or two."""
    return ReconciliationsInfo(reconciliations=factory.reconciliations().all(stream))


@router.post(
    "/{stream}/reconciliations/{reconciliation}/result",
    operation_id="report_reconciliation",
    summary="Report the result of a reconciliation",
    status_code=HTTPStatus.CREATED,
    responses={
        200: {"model": ReconciliationReceipt, "description": "It was answered before; nothing changed."},
        **responses(403, 404, 409, 413, 415, 422, 503),
    },
    openapi_extra=body_of("ReconciliationResult", RESULT),
)
def report_reconciliation(
    stream: StreamName,
    reconciliation: ReconciliationId,
    result: Annotated[ReconciliationResult, posted(ReconciliationResult, "result of a reconciliation")],
    factory: FactoryDep,
    principal: PrincipalDep,
    response: Response,
) -> ReconciliationReceipt:
    """Store the job's result, or why it failed. It may be sent again; the first answer is kept."""
    is_new = factory.reconciliations().answer(stream, reconciliation, result, principal)
    response.status_code = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    if is_new:
        answer = result.findings.answer.value if result.findings else None
        _log.info("stream_reconciled", stream=stream, answer=answer)
    return ReconciliationReceipt(stream=stream, id=reconciliation)
