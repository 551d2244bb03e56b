"""Operations on adoptions: record one before a ledger is rebuilt, and list them with the accepted loss."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Response
from pydantic import BaseModel

from tidegate.contracts.stream.adoption import Adoption, KeptAdoption
from tidegate.gateway.http.dependencies import FactoryDep, body_of, posted
from tidegate.gateway.http.gate import PrincipalDep
from tidegate.gateway.http.models.examples import example
from tidegate.gateway.http.native.streams import StreamName
from tidegate.gateway.http.problems import responses

_log = structlog.get_logger()

router = APIRouter(prefix="/api/v1/streams", tags=["streams"])

ADOPTION: dict[str, Any] = {
    "id": "9f2c4e1ab7d04c5f8e6a3b2d1c0f9e8d",
    "stream": "hospital.admissions",
    "topic": "hospital.admissions",
    "sink": "iceberg:lake.hospital.admissions",
    "ledger": "hospital.admissions@iceberg:3f2a9c01",
    "at": "2026-07-01T12:00:02Z",
    "epoch": 1012,
    "begin": {"0": 0},
    "end": {"0": 99841},
    "written": 98003,
    "quarantined": 1836,
    "absent": 2,
    "accepted_loss": 0,
    "twice": 0,
    "partition": None,
}
_KEPT: dict[str, Any] = {"by": "key:3f9c2a71b0de", "at": "2026-07-01T12:00:02Z", "adoption": ADOPTION}


class AdoptionReceipt(BaseModel):
    """The adoption is kept now."""

    model_config = example({"stream": "hospital.admissions", "id": ADOPTION["id"]})

    stream: str
    id: str


class AdoptionsInfo(BaseModel):
    """The adoptions of a stream that are kept, newest first."""

    model_config = example({"adoptions": [_KEPT]})

    adoptions: tuple[KeptAdoption, ...]


@router.post(
    "/{stream}/adoptions",
    operation_id="keep_adoption",
    summary="Record an adoption",
    status_code=HTTPStatus.CREATED,
    responses={
        200: {"model": AdoptionReceipt, "description": "It was kept before; nothing changed."},
        **responses(403, 404, 409, 413, 415, 422, 503),
    },
    openapi_extra=body_of("Adoption", ADOPTION),
)
def keep_adoption(
    stream: StreamName,
    adoption: Annotated[Adoption, posted(Adoption, "adoption of a stream")],
    factory: FactoryDep,
    principal: PrincipalDep,
    response: Response,
) -> AdoptionReceipt:
    """Store an adoption before `tidegate adopt` makes it: the new ledger's vectors and the loss that is accepted.

    `tidegate archive`, `rewind` and `erase` store theirs here too. The audit log records it as `stream.adopted`,
    `stream.archived`, `stream.rewound` or `stream.erased`, also when the ledger could not be written afterwards. The
    ledger names the id of the adoption that it comes from.
    """
    is_new = factory.adoptions().keep(stream, adoption, principal)
    response.status_code = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    if is_new:
        _log.info("stream_adopted", stream=stream, accepted_loss=adoption.accepted_loss)
    return AdoptionReceipt(stream=stream, id=adoption.id)


@router.get(
    "/{stream}/adoptions",
    operation_id="list_adoptions",
    summary="List adoptions",
    responses=responses(404, 503),
)
def list_adoptions(stream: StreamName, factory: FactoryDep) -> AdoptionsInfo:
    """List who adopted the stream when, with what vectors, and how many offsets were given up."""
    return AdoptionsInfo(adoptions=factory.adoptions().all(stream))
