"""The operation that returns the principal of the request."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, Field

from tidegate.gateway.access.principal import ANONYMOUS
from tidegate.gateway.http.gate import PrincipalDep
from tidegate.gateway.http.models.examples import example
from tidegate.gateway.http.problems import responses

router = APIRouter(prefix="/api/v1/whoami", tags=["access"])


class PrincipalInfo(BaseModel):
    """A principal and its grants."""

    model_config = example(
        {"name": "key:3f9c2a71b0de", "grants": ["producer:hospital.", "viewer"], "access_control": True}
    )

    name: str = Field(description="Name in the audit log: key:ID, oidc:SUBJECT, or anonymous.")
    grants: tuple[str, ...] = Field(description="Each `role` or `role:prefix`.")
    access_control: bool = Field(description="Whether the registry asks for credentials.")


@router.get(
    "", operation_id="get_principal", summary="Show who you are and what you may do", responses=responses(503)
)
def get_principal(principal: PrincipalDep) -> PrincipalInfo:
    """Return the principal of the credentials that were sent, and its grants."""
    grants = tuple(str(grant) for grant in principal.grants)
    return PrincipalInfo(name=principal.name, grants=grants, access_control=principal is not ANONYMOUS)
