"""Pages about contracts: the list, one version, table audits, the diff of two versions, and the document."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Response

from tidegate.gateway.access.limits import checked
from tidegate.gateway.http.dependencies import FactoryDep
from tidegate.gateway.http.desk.contract_views import contract_view, contract_yaml
from tidegate.gateway.http.desk.contracts_views import ContractsFilter, contracts_view
from tidegate.gateway.http.desk.desk_route import DeskRoute, ShowDep
from tidegate.gateway.http.desk.diff_views import diff_view
from tidegate.gateway.http.desk.table_audit_views import audited_tables, table_audit_view
from tidegate.gateway.http.gate import PrincipalDep

router = APIRouter(route_class=DeskRoute, include_in_schema=False)

VersionName = Annotated[str | None, Query(max_length=200)]


@router.get("/desk/contracts")
def contracts(
    factory: FactoryDep, principal: PrincipalDep, show: ShowDep, wanted: Annotated[ContractsFilter, Query()]
) -> Response:
    """List the contracts."""
    return show("contracts.html", view=contracts_view(factory, principal, wanted))


@router.get("/desk/contracts/{contract_id}")
def contract(
    contract_id: str,
    factory: FactoryDep,
    show: ShowDep,
    version: VersionName = None,
) -> Response:
    """Show one version of a contract; without `version`, the current one."""
    view = contract_view(factory, contract_id, version or None)
    return show("contract.html", view=view, audits=audited_tables(factory, contract_id))


@router.get("/desk/contracts/{contract_id}/table-audits/{audit}")
def table_audit(
    contract_id: str, audit: UUID, factory: FactoryDep, principal: PrincipalDep, show: ShowDep
) -> Response:
    """Show one table audit."""
    return show("table_audit.html", view=table_audit_view(factory, principal, contract_id, audit))


@router.get("/desk/contracts/{contract_id}/diff")
@checked
def diff(
    contract_id: str,
    factory: FactoryDep,
    show: ShowDep,
    base: VersionName = None,
    candidate: VersionName = None,
) -> Response:
    """Show the changes between two versions; by default, between the two highest."""
    return show("diff.html", view=diff_view(factory, contract_id, base or None, candidate or None))


@router.get("/desk/contracts/{contract_id}/versions/{version}/contract.yaml")
def download(contract_id: str, version: str, factory: FactoryDep) -> Response:
    """Return the document of a version as a YAML download."""
    found = factory.registry().version(contract_id, version)
    name = f"{found.contract_id}-{found.version}.yaml"  # safe in a header: letters, digits and .-_+ only
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(contract_yaml(found), headers=headers, media_type="application/yaml")
