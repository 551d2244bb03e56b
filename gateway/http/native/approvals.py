"""Operations on approvals: list, approve and reject changes that weaken the enforced contract."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

import structlog
from fastapi import APIRouter, Path, Response

from tidegate.gateway.http.conversions import proposal_info
from tidegate.gateway.http.dependencies import FactoryDep, body_of, posted
from tidegate.gateway.http.gate import PrincipalDep
from tidegate.gateway.http.models.changes import ApprovalRequest, ProposalInfo, ProposalList
from tidegate.gateway.http.native.contracts import ContractId
from tidegate.gateway.http.problems import responses

_log = structlog.get_logger()

router = APIRouter(prefix="/api/v1/contracts", tags=["approvals"])

Candidate = Annotated[
    str, Path(pattern="^[0-9a-f]{64}$", description="Fingerprint of the change.", examples=["9b0c1d2e" * 8])
]


@router.get(
    "/{contract_id}/approvals",
    operation_id="list_approvals",
    summary="List changes without approval",
    responses=responses(404, 503),
)
def list_approvals(contract_id: ContractId, factory: FactoryDep) -> ProposalList:
    """List the proposed changes that weaken what is enforced now, oldest first, approved or not."""
    found = factory.approvals().proposals(contract_id)
    return ProposalList(proposals=tuple(proposal_info(each) for each in found))


@router.post(
    "/{contract_id}/approvals",
    operation_id="approve_change",
    summary="Approve a change that weakens the enforced contract",
    status_code=HTTPStatus.CREATED,
    responses={
        200: {"model": ProposalInfo, "description": "It was approved before; nothing changed."},
        **responses(403, 404, 413, 415, 422, 503),
    },
    openapi_extra=body_of(ApprovalRequest),
)
def approve_change(
    contract_id: ContractId,
    wanted: Annotated[ApprovalRequest, posted(ApprovalRequest, "approval")],
    factory: FactoryDep,
    principal: PrincipalDep,
    response: Response,
) -> ProposalInfo:
    """Approve one candidate by its fingerprint; its author cannot. The author then makes the same request again."""
    approved, is_new = factory.approvals().approve(contract_id, wanted.candidate, principal)
    _log.info("change_approved", contract=contract_id, candidate=approved.candidate)
    response.status_code = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    return proposal_info(approved)


@router.delete(
    "/{contract_id}/approvals/{candidate}",
    operation_id="reject_change",
    summary="Reject a change that weakens the enforced contract",
    responses=responses(403, 404, 422, 503),
)
def reject_change(
    contract_id: ContractId, candidate: Candidate, factory: FactoryDep, principal: PrincipalDep
) -> ProposalInfo:
    """Delete one candidate, and its approval if it has one. Its author may propose it again."""
    rejected = factory.approvals().reject(contract_id, candidate, principal)
    _log.info("change_rejected", contract=contract_id, candidate=rejected.candidate)
    return proposal_info(rejected)
