"""Operations on table audits: `tidegate audit-table` reports one, and readers list them."""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any
from uuid import UUID

import structlog
from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from tidegate.contracts.stream.table_audit import KeptTableAudit, TableAudit
from tidegate.gateway.http.dependencies import FactoryDep, body_of, json_content, posted
from tidegate.gateway.http.gate import PrincipalDep
from tidegate.gateway.http.models.examples import EXPECTATION_RESULT, example
from tidegate.gateway.http.native.contracts import ContractId
from tidegate.gateway.http.problems import responses

_log = structlog.get_logger()

router = APIRouter(prefix="/api/v1/contracts/{contract_id}/table-audits", tags=["contracts"])

TABLE_AUDIT: dict[str, Any] = {
    "id": "8c0f7b5e-3b52-4c59-9a44-6f1f5e0c2d31",
    "contract": "hospital.admissions@1.2.0",
    "fingerprint": "3f5a0d6c1b0e4b8f9f6e2a7c5d4b3a291817161514131211100f0e0d0c0b0a09",
    "table": "iceberg:hospital.admissions",
    "is_whole": False,
    "since": "4182937465012345678",
    "version": "5920174638201947365",
    "reason": None,
    "rows": 98_000,
    "refused": 640,
    "unreadable": 0,
    "dispositions": {
        "accepted": 97_360,
        "warned": 0,
        "alerted": 0,
        "dropped": 0,
        "quarantined": 640,
        "failed": 0,
    },
    "violations": [
        {"stage": "rule", "code": "age-is-known", "severity": "error", "records": 612},
        {"stage": "rule", "code": "stay-not-negative", "severity": "error", "records": 31},
    ],
    "expectations": [EXPECTATION_RESULT],
}
_KEPT: dict[str, Any] = {"by": "key:3f9c2a71b0de", "at": "2026-07-01T12:00:41Z", "audit": TABLE_AUDIT}

AuditId = Annotated[UUID, Path(description="Id of the audit.", examples=[TABLE_AUDIT["id"]])]


class TableAuditReceipt(BaseModel):
    """The audit is kept now, or was before."""

    model_config = example({"contract": "hospital.admissions", "id": TABLE_AUDIT["id"]})

    contract: str
    id: UUID


class TableAuditSummary(BaseModel):
    """One audit in a list."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    id: UUID
    by: str
    at: datetime
    version: str = Field(description="Version of the contract that judged the rows.")
    table: str = Field(validation_alias="table_name")
    is_whole: bool
    rows: int
    refused: int
    unreadable: int
    unmet: int = Field(description="Expectations that are not met.")


class TableAuditList(BaseModel):
    """Audits of tables, newest first; `total` counts all that match."""

    model_config = example(
        {
            "audits": [
                {
                    "id": TABLE_AUDIT["id"],
                    "by": _KEPT["by"],
                    "at": _KEPT["at"],
                    "version": "1.2.0",
                    "table": TABLE_AUDIT["table"],
                    "is_whole": False,
                    "rows": 98_000,
                    "refused": 640,
                    "unreadable": 0,
                    "unmet": 0,
                }
            ],
            "total": 1,
        }
    )

    audits: tuple[TableAuditSummary, ...]
    total: int


@router.post(
    "",
    operation_id="keep_table_audit",
    summary="Report an audit of a table",
    status_code=HTTPStatus.CREATED,
    responses={
        200: {"model": TableAuditReceipt, "description": "It was kept before; nothing changed."},
        **responses(403, 404, 409, 413, 415, 422, 503),
    },
    openapi_extra=body_of("TableAudit", TABLE_AUDIT),
)
def keep_table_audit(
    contract_id: ContractId,
    audit: Annotated[TableAudit, posted(TableAudit, "audit of a table")],
    factory: FactoryDep,
    principal: PrincipalDep,
    response: Response,
) -> TableAuditReceipt:
    """Store the result of `tidegate audit-table`: counts and figures, never a value of a record.

    The version that judged must be published with the same fingerprint. The audit log records it as
    `contract.table-audited`. The same audit may be sent again.
    """
    is_new = factory.table_audits().keep(contract_id, audit, principal)
    response.status_code = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    if is_new:
        _log.info("table_audited", contract=contract_id, rows=audit.rows, refused=audit.refused)
    return TableAuditReceipt(contract=contract_id, id=audit.id)


@router.get(
    "", operation_id="list_table_audits", summary="List audits of tables", responses=responses(404, 422, 503)
)
def list_table_audits(
    contract_id: ContractId,
    factory: FactoryDep,
    table: Annotated[
        str | None, Query(description="Only audits of this table, as they name it.", max_length=5_000)
    ] = None,
    limit: Annotated[int, Query(ge=1, le=500, description="How many audits to give at most.")] = 100,
) -> TableAuditList:
    """List the audits by any version of a contract that are kept, newest first."""
    found = [each for each in factory.table_audits().all(contract_id) if table in {None, each.table_name}]
    listed = tuple(TableAuditSummary.model_validate(each) for each in found[:limit])
    return TableAuditList(audits=listed, total=len(found))


@router.get(
    "/{audit}",
    operation_id="get_table_audit",
    summary="Show an audit of a table",
    responses={200: json_content("KeptTableAudit", _KEPT), **responses(404, 422, 503)},
)
def get_table_audit(contract_id: ContractId, audit: AuditId, factory: FactoryDep) -> KeptTableAudit:
    """Show one audit: who sent it when, and its counts by rule and its expectations."""
    return factory.table_audits().get(contract_id, audit)
