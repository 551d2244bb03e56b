"""Judging over HTTP."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request

from tidegate.gateway.access.limits import checked
from tidegate.gateway.http.conversions import judgement_info
from tidegate.gateway.http.dependencies import FactoryDep, media_type, read_body
from tidegate.gateway.http.models.answers import JudgementInfo
from tidegate.gateway.http.models.examples import RECORDS
from tidegate.gateway.http.native.contracts import ContractId, Version
from tidegate.gateway.http.native.records import RecordBatch, lines, read_envelope
from tidegate.gateway.http.problems import BodyTooLarge, responses

router = APIRouter(prefix="/api/v1", tags=["judge"])

_LINES_TYPES = ("application/x-ndjson", "text/ndjson", "application/ndjson")
_Values = tuple[bytes | None, ...]


async def posted_values(request: Request, factory: FactoryDep) -> _Values:
    """Read the posted record values, byte for byte."""
    found = media_type(request, ("application/json", *_LINES_TYPES))
    content = await read_body(request, factory.settings.max_judge_bytes)
    values = lines(content) if found in _LINES_TYPES else read_envelope(content)
    limit = factory.settings.max_judge_records
    if len(values) > limit:
        raise BodyTooLarge(f"{len(values)} records are more than {limit}, the limit of one request")
    return values


@router.post(
    "/contracts/{contract_id}/versions/{version}/judge",
    operation_id="judge_records",
    summary="Judge records",
    responses=responses(400, 404, 413, 415, 422, 503),
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": (
                "Records to judge, byte for byte. As JSON, `value` is judged exactly as it is written in the body "
                "(spaces, digits and duplicate keys included), `value_base64` holds any bytes, and "
                "`value_base64: null` is a tombstone. As x-ndjson each line is one record; lines end at LF only, "
                "and blank lines are records too."
            ),
            "content": {
                "application/json": {"schema": RecordBatch.model_json_schema(), "example": RECORDS},
                "application/x-ndjson": {
                    "schema": {"type": "string"},
                    "example": '{"admission_id": "A-1", "age": 63}\n{"admission_id": "A-2", "age": 999}\n',
                },
            },
        }
    },
)
@checked
def judge_records(
    contract_id: ContractId,
    version: Version,
    values: Annotated[_Values, Depends(posted_values)],
    factory: FactoryDep,
) -> JudgementInfo:
    """Judge records and say what is wrong with each. Nothing of them is kept, logged or repeated."""
    return judgement_info(factory.judging().judge(contract_id, version, values))
