"""Operations on contracts: publish, list, fetch, change the status, delete and restore versions."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import quote

import structlog
from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from pydantic import AwareDatetime

from tidegate.contracts.document.model import Status
from tidegate.contracts.errors import Problem
from tidegate.gateway.access.limits import checked
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.conversions import (
    compatibility_groups,
    contract_detail,
    contract_list,
    publication_receipt,
    published_contract,
)
from tidegate.gateway.http.dependencies import FactoryDep, body_of, media_type, posted, read_body
from tidegate.gateway.http.gate import PrincipalDep
from tidegate.gateway.http.models.answers import (
    CompatibilityGroupList,
    ContractDetail,
    ContractList,
    PublicationReceipt,
    PublishedContract,
    StatusRequest,
)
from tidegate.gateway.http.models.examples import CONTRACT, CONTRACT_YAML
from tidegate.gateway.http.problems import InvalidBody, contract_responses, responses
from tidegate.gateway.registry.publication import LATEST
from tidegate.gateway.storage.sql import ContractVersion, VersionFilter

_log = structlog.get_logger()

router = APIRouter(prefix="/api/v1", tags=["contracts"])

_JSON_TYPES = ("application/json",)
_YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")

_DOCUMENT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The contract document, self-contained; its ETag is the fingerprint.",
        "content": {"application/json": {"schema": {"type": "object"}, "example": CONTRACT}},
    },
    304: {"description": "The client holds this document already."},
}

ContractId = Annotated[str, Path(description="Id of the contract.", examples=["hospital.admissions"])]
Version = Annotated[
    str,
    Path(
        description="Semantic version, or `latest`: the highest that is active or deprecated.",
        examples=["1.2.0"],
    ),
]
NamedVersion = Annotated[str, Path(description="Semantic version.", examples=["1.2.0"])]
AsOf = Annotated[
    AwareDatetime | None,
    Query(
        alias="asOf",
        description="With `latest`: the version that was enforced at this instant (RFC 3339).",
        examples=["2026-07-01T00:00:00Z"],
    ),
]
IfNoneMatch = Annotated[
    str | None, Header(description="ETags that the client holds; 304 when one of them is still right.")
]


@dataclass(frozen=True, slots=True)
class PostedDocument:
    """A posted contract document, and the file name that error messages use."""

    content: bytes
    name: str


def contract_filter(
    principal: PrincipalDep,
    status: Annotated[
        Status | None, Query(description="Only contracts whose current version has it.")
    ] = None,
    topic: Annotated[str | None, Query(description="Only the contract that governs this topic.")] = None,
    domain: Annotated[str | None, Query(description="Only contracts of this domain.")] = None,
) -> VersionFilter:
    """Return the filter of the list of contracts, as a FastAPI dependency."""
    return VersionFilter(status.value if status else None, topic, domain, principal.prefixes)


def document_body(description: str) -> dict[str, Any]:
    """Return the OpenAPI `requestBody` for the body that `posted_document` reads."""
    content = {
        "application/yaml": {"schema": {"type": "string"}, "example": CONTRACT_YAML},
        "application/json": {"schema": {"type": "object"}, "example": CONTRACT},
    }
    return {"requestBody": {"required": True, "description": description, "content": content}}


async def posted_document(request: Request, factory: FactoryDep) -> PostedDocument:
    """Read a posted contract document, as a FastAPI dependency. Raises UnknownMediaType, BodyTooLarge."""
    found = media_type(request, (*_YAML_TYPES, *_JSON_TYPES))
    content = await read_body(request, factory.settings.max_document_bytes)
    return PostedDocument(content, "contract.json" if found in _JSON_TYPES else "contract.yaml")


@router.post(
    "/contracts",
    operation_id="publish_contract",
    summary="Publish a contract version",
    status_code=HTTPStatus.CREATED,
    responses={
        200: {
            "model": PublicationReceipt,
            "description": "The same content was published before; nothing changed.",
        },
        **responses(403, 409, 413, 415, 503),
        **contract_responses(),
    },
    openapi_extra=document_body(
        "A self-contained contract document: its schema under `definition`, not in a file."
    ),
)
@checked
def publish_contract(
    document: Annotated[PostedDocument, Depends(posted_document)],
    factory: FactoryDep,
    principal: PrincipalDep,
    response: Response,
) -> PublicationReceipt:
    """Publish a version. Versions never change; the same content again is no change (200).

    `warnings` names what may be misspelt: the version is kept all the same. `enforcement` says whether a job enforces
    the contract; one that follows the registry (`tidegate enforce --all`) starts a new contract's stream by itself.
    """
    publication = factory.registry().publish(document.content, document.name, principal)
    readers = factory.consumers().readers((publication.version,))
    enforcement = factory.streams().enforcement(publication.version.contract_id)
    published = publication_receipt(publication, readers, enforcement)
    if publication.is_new:
        _log.info("contract_published", contract=f"{published.id}@{published.version}")
    response.status_code = HTTPStatus.CREATED if publication.is_new else HTTPStatus.OK
    response.headers["Location"] = _location(publication.version)
    return published


@router.get(
    "/contracts", operation_id="list_contracts", summary="List contracts", responses=responses(422, 503)
)
def list_contracts(
    factory: FactoryDep,
    wanted: Annotated[VersionFilter, Depends(contract_filter)],
    offset: Annotated[int, Query(ge=0, le=2**31, description="How many contracts to pass over.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many contracts to give.")] = 100,
) -> ContractList:
    """List contracts by id, each as its current version: the one enforced, or else the highest."""
    page = factory.registry().contracts(wanted, offset=offset, limit=limit)
    return contract_list(page, factory.consumers().readers(page.contracts), offset, limit)


@router.get(
    "/contracts/by-registry-id/{registry_id}",
    operation_id="get_contract_by_registry_id",
    summary="Fetch a version by its registry id",
    response_class=Response,
    responses={**_DOCUMENT, **responses(404, 422, 503)},
)
def get_contract_by_registry_id(
    registry_id: Annotated[int, Path(ge=1, lt=2**63, examples=[3])],
    factory: FactoryDep,
    principal: PrincipalDep,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Fetch the document that has this global number."""
    return _document(factory.registry().by_registry_id(registry_id, principal), if_none_match, immutable=True)


@router.get(
    "/contracts/{contract_id}",
    operation_id="get_contract",
    summary="Show a contract and its versions",
    responses=responses(404, 503),
)
def get_contract(contract_id: ContractId, factory: FactoryDep) -> ContractDetail:
    """Show a contract: its topic and all of its versions, highest first."""
    versions = factory.registry().versions(contract_id)
    enforcement = factory.streams().enforcement(contract_id)
    return contract_detail(versions, factory.consumers().readers(versions), enforcement)


@router.get(
    "/contracts/{contract_id}/versions/{version}",
    operation_id="get_contract_version",
    summary="Fetch a version",
    response_class=Response,
    responses={**_DOCUMENT, **responses(404, 422, 503)},
)
def get_contract_version(
    contract_id: ContractId,
    version: Version,
    factory: FactoryDep,
    as_of: AsOf = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Fetch the contract document, self-contained, as JSON. Its ETag is the contract's fingerprint.

    The document says what the status was at publication; `Tidegate-Status` says what it is now, and of a deprecated
    version `Tidegate-Read-By` who still reads it. With `latest`, `Tidegate-Groups-By` names the metadata property that
    tells compatibility groups apart, if the subject has the setting: fetch the groups too.
    """
    if as_of is None:
        found = factory.registry().version(contract_id, version)
    elif version == LATEST:
        found = factory.lifecycle().as_of(contract_id, as_of)
    else:
        raise InvalidBody("a version never changes", (Problem("asOf", "goes with the version `latest`"),))
    answer = _document(found, if_none_match, immutable=version != LATEST)
    if version == LATEST and as_of is None:
        setting = factory.registry().group_setting(found.topic)
        if setting is not None:
            answer.headers["Tidegate-Groups-By"] = quote(setting)
    for readers in factory.consumers().readers((found,)).values():
        answer.headers["Tidegate-Read-By"] = ", ".join(readers)
    return answer


@router.get(
    "/contracts/{contract_id}/groups",
    operation_id="list_compatibility_groups",
    summary="List the compatibility groups of a contract",
    response_model=CompatibilityGroupList,
    responses={304: {"description": "The client holds this list already."}, **responses(404, 503)},
)
def list_compatibility_groups(
    contract_id: ContractId, factory: FactoryDep, if_none_match: IfNoneMatch = None
) -> Response:
    """List the groups that the subject's setting `compatibilityGroup` makes: newest enforced version, schema ids.

    A record is judged by the newest version of the group of the schema that it names.
    """
    listed = compatibility_groups(factory.registry().compatibility_groups(contract_id))
    content = listed.model_dump_json().encode()
    etag = f'"{sha256(content).hexdigest()}"'
    headers = {"ETag": etag, "Cache-Control": "no-cache"}
    if if_none_match is not None and _matches(if_none_match, etag):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(content, headers=headers, media_type="application/json")


@router.post(
    "/contracts/{contract_id}/versions/{version}/status",
    operation_id="change_contract_status",
    summary="Promote, deprecate or retire a version",
    responses=responses(404, 409, 413, 415, 422, 503),
    openapi_extra=body_of(StatusRequest),
)
@checked
def change_contract_status(
    contract_id: ContractId,
    version: NamedVersion,
    wanted: Annotated[StatusRequest, posted(StatusRequest, "status")],
    factory: FactoryDep,
    principal: PrincipalDep,
) -> PublishedContract:
    """Set the status of a version: draft to active or retired, active to deprecated, deprecated to active or retired.

    A draft becomes active only if it compiles and is compatible with the enforced version, or if the broken consumers agreed.
    What is retired stays so. The answer says who still reads a deprecated version.
    """
    found = factory.lifecycle().change_status(contract_id, version, wanted.status, principal)
    _log.info("contract_status_changed", contract=f"{contract_id}@{version}", status=found.status)
    return _published(factory, found)


@router.delete(
    "/contracts/{contract_id}/versions/{version}",
    operation_id="delete_contract_version",
    summary="Delete a version",
    responses=responses(404, 409, 503),
)
@checked
def delete_contract_version(
    contract_id: ContractId, version: NamedVersion, factory: FactoryDep, principal: PrincipalDep
) -> PublishedContract:
    """Delete a version softly: it is neither enforced nor listed, in both APIs. Its name is never used again."""
    found = factory.lifecycle().delete(contract_id, version, principal)
    _log.info("contract_deleted", contract=f"{contract_id}@{version}")
    return _published(factory, found)


@router.post(
    "/contracts/{contract_id}/versions/{version}/undelete",
    operation_id="undelete_contract_version",
    summary="Undelete a version",
    responses=responses(404, 409, 503),
)
@checked
def undelete_contract_version(
    contract_id: ContractId, version: NamedVersion, factory: FactoryDep, principal: PrincipalDep
) -> PublishedContract:
    """Restore a deleted version, with the status that it had."""
    found = factory.lifecycle().undelete(contract_id, version, principal)
    _log.info("contract_undeleted", contract=f"{contract_id}@{version}")
    return _published(factory, found)


def _published(factory: Factory, version: ContractVersion) -> PublishedContract:
    return published_contract(version, factory.consumers().readers((version,)))


def _document(version: ContractVersion, if_none_match: str | None, *, immutable: bool) -> Response:
    """Return a stored document, or a 304 response if the client has it.

    A named version never changes, so clients may cache it (`immutable`). They have to revalidate `latest` each time.
    """
    etag = f'"{version.fingerprint}"'
    headers = {
        "ETag": etag,
        "Cache-Control": "private, max-age=31536000, immutable" if immutable else "no-cache",
        "Content-Location": _location(version),
        "Tidegate-Contract": f"{version.contract_id}@{version.version}",
        "Tidegate-Registry-Id": str(version.registry_id),
        "Tidegate-Status": version.status,
    }
    if if_none_match is not None and _matches(if_none_match, etag):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(version.document, headers=headers, media_type="application/json")


def _matches(if_none_match: str, etag: str) -> bool:
    """Return whether If-None-Match has the ETag, by weak comparison. Source: RFC 9110, clause 13.1.2."""
    held = {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}
    return etag in held or "*" in held


def _location(version: ContractVersion) -> str:
    return f"/api/v1/contracts/{version.contract_id}/versions/{version.version}"
