"""Operations on shadow versions: declare one, read its findings, and preview a promotion."""

from __future__ import annotations

from typing import Annotated, Any

import structlog
from fastapi import APIRouter
from pydantic import BaseModel, Field

from tidegate.contracts.document.model import Status
from tidegate.contracts.stream.control import StreamControl
from tidegate.contracts.stream.shadow import ShadowFindings
from tidegate.gateway.access.limits import checked
from tidegate.gateway.http.conversions import change_info
from tidegate.gateway.http.dependencies import FactoryDep, body_of, json_content, posted
from tidegate.gateway.http.gate import PrincipalDep
from tidegate.gateway.http.models.changes import CHANGE, ChangeInfo
from tidegate.gateway.http.models.examples import example, request_example
from tidegate.gateway.http.native.contracts import ContractId, NamedVersion
from tidegate.gateway.http.native.stream_controls import CONTROL_ANSWER
from tidegate.gateway.http.native.streams import StreamName
from tidegate.gateway.http.problems import contract_responses, responses

_log = structlog.get_logger()

router = APIRouter(prefix="/api/v1", tags=["streams"])

_RULE: dict[str, Any] = {"stage": "rule", "code": "age-is-known", "severity": "error", "records": 612}
FINDINGS: dict[str, Any] = {
    "stream": "hospital.admissions",
    "against": "hospital.admissions@1.2.0",
    "since": "2026-07-01T12:00:02Z",
    "until": "2026-07-01T13:00:02Z",
    "batches": 41,
    "result": {
        "version": "1.3.0",
        "compared": 98000,
        "would_refuse": 612,
        "would_accept": 0,
        "would_stop": 0,
        "refused_by": [_RULE],
        "accepted_by": [],
        "samples": [
            {
                "partition": 0,
                "offset": 1204,
                "change": "refuse",
                "reasons": [{"stage": "rule", "code": "age-is-known", "pointer": "/age"}],
            }
        ],
        "failure": None,
    },
}


class ShadowRequest(BaseModel):
    """The version that is judged beside the enforced one."""

    model_config = request_example({"version": "1.3.0"})

    version: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        description="A published version, a draft most often; null: none any more."
    )


class PromotionInfo(BaseModel):
    """The differences if a version were enforced from now on."""

    model_config = example(
        {
            "contract": "hospital.admissions",
            "version": "1.3.0",
            "status": "draft",
            "enforced": "1.2.0",
            "change": {**CHANGE, "comparisons": []},
            "shadow": FINDINGS,
        }
    )

    contract: str
    version: str
    status: Status
    enforced: str | None = Field(
        description="The version that is enforced now; null when this would be the first."
    )
    change: ChangeInfo
    shadow: ShadowFindings | None = Field(
        description="What it would have made of live records; null when it was not judged beside."
    )


@router.post(
    "/streams/{stream}/shadow",
    operation_id="declare_shadow",
    summary="Start or end a shadow",
    responses={**CONTROL_ANSWER, **responses(403, 404, 409, 413, 415, 503), **contract_responses()},
    openapi_extra=body_of(ShadowRequest),
)
@checked
def declare_shadow(
    stream: StreamName,
    wanted: Annotated[ShadowRequest, posted(ShadowRequest, "declaration of a shadow")],
    factory: FactoryDep,
    principal: PrincipalDep,
) -> StreamControl:
    """Judge with a version in addition to the enforced one, from the next batch on; its verdicts are only reported.

    No verdict depends on it, and what is wrong with it is reported too. What another shadow has found is forgotten.
    """
    control = factory.shadows().declare(stream, wanted.version, principal)
    _log.info("shadow_declared", stream=stream, version=wanted.version)
    return control


@router.get(
    "/streams/{stream}/shadow",
    operation_id="get_shadow_findings",
    summary="Show the results of the shadow",
    responses={
        200: json_content("ShadowFindings", FINDINGS),
        **responses(404, 503),
    },
)
def get_shadow_findings(stream: StreamName, factory: FactoryDep) -> ShadowFindings:
    """Count the records that the shadow would refuse or newly accept, by rule, with places of some. Holds no value."""
    return factory.shadows().findings(stream)


@router.get(
    "/contracts/{contract_id}/versions/{version}/promotion",
    operation_id="preview_promotion",
    summary="Preview a promotion",
    responses={**responses(404, 503), **contract_responses()},
)
@checked
def preview_promotion(contract_id: ContractId, version: NamedVersion, factory: FactoryDep) -> PromotionInfo:
    """Compare a version with what is enforced, and show what it made of live records as a shadow. Changes nothing."""
    promotion = factory.shadows().promotion(contract_id, version)
    return PromotionInfo(
        contract=contract_id,
        version=promotion.version.version,
        status=Status(promotion.version.status),
        enforced=promotion.enforced,
        change=change_info(promotion.review),
        shadow=promotion.shadow,
    )
