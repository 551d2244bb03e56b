"""Operations on consumers: register and list them, check what a change would break, and record agreements."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

import structlog
from fastapi import APIRouter, Depends, Path, Response

from tidegate.contracts.document.terms import IDENTIFIER_PATTERN
from tidegate.gateway.access.limits import checked
from tidegate.gateway.http.conversions import change_info, consumer_info
from tidegate.gateway.http.dependencies import FactoryDep, body_of, posted
from tidegate.gateway.http.gate import PrincipalDep
from tidegate.gateway.http.models.changes import (
    AcknowledgementInfo,
    AcknowledgementList,
    AgreementRequest,
    ChangeInfo,
    ConsumerInfo,
    ConsumerList,
    ConsumerRequest,
)
from tidegate.gateway.http.native.contracts import ContractId, PostedDocument, document_body, posted_document
from tidegate.gateway.http.problems import InvalidBody, contract_responses, responses
from tidegate.gateway.registry.consumers import Agreement, KnownConsumer, WrongConsumer

_log = structlog.get_logger()

router = APIRouter(prefix="/api/v1/contracts", tags=["consumers"])

ConsumerId = Annotated[
    str,
    Path(description="Id of the consumer.", pattern=IDENTIFIER_PATTERN, examples=["length-of-stay-report"]),
]


@router.post(
    "/check",
    operation_id="check_contract",
    summary="Preview the breaking changes of a publication",
    responses={**responses(403, 409, 413, 415, 503), **contract_responses()},
    openapi_extra=document_body("A self-contained contract document, as for publishing."),
)
@checked
def check_contract(
    document: Annotated[PostedDocument, Depends(posted_document)],
    factory: FactoryDep,
    principal: PrincipalDep,
) -> ChangeInfo:
    """Compare a document with what is enforced: what breaks, which consumers, who has still to agree. Keeps nothing."""
    return change_info(factory.consumers().check(document.content, document.name, principal))


@router.get(
    "/{contract_id}/consumers",
    operation_id="list_consumers",
    summary="List the consumers of a contract",
    responses=responses(404, 503),
)
def list_consumers(contract_id: ContractId, factory: FactoryDep) -> ConsumerList:
    """List consumers by id: those registered here, and those that the contract's documents name."""
    found = factory.consumers().consumers(contract_id)
    return ConsumerList(consumers=tuple(consumer_info(known) for known in found))


@router.put(
    "/{contract_id}/consumers/{consumer_id}",
    operation_id="register_consumer",
    summary="Register a consumer, or change what it reads",
    status_code=HTTPStatus.CREATED,
    responses={
        200: {"model": ConsumerInfo, "description": "The consumer was registered before."},
        **responses(403, 404, 413, 415, 422, 503),
    },
    openapi_extra=body_of(ConsumerRequest),
)
@checked
def register_consumer(
    contract_id: ContractId,
    consumer_id: ConsumerId,
    wanted: Annotated[ConsumerRequest, posted(ConsumerRequest, "consumer")],
    factory: FactoryDep,
    principal: PrincipalDep,
    response: Response,
) -> ConsumerInfo:
    """Register who reads, which fields, and what they assume: a change that breaks them needs their agreement.

    Changing a consumer needs the role approver, and withdraws what it agreed to.
    """
    consumer = wanted.consumer(consumer_id)
    try:
        stored, is_new = factory.consumers().register(contract_id, consumer, principal)
    except WrongConsumer as error:
        raise InvalidBody("the consumer reads or assumes what cannot be", error.problems) from error
    _log.info("consumer_registered", contract=contract_id, consumer=consumer_id)
    response.status_code = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    return consumer_info(KnownConsumer(stored.consumer, stored))


@router.delete(
    "/{contract_id}/consumers/{consumer_id}",
    operation_id="remove_consumer",
    summary="Remove a consumer",
    responses=responses(403, 404, 409, 422, 503),
)
def remove_consumer(
    contract_id: ContractId, consumer_id: ConsumerId, factory: FactoryDep, principal: PrincipalDep
) -> ConsumerInfo:
    """Delete a consumer that was registered here; a consumer of the document is removed by a version without it."""
    stored = factory.consumers().remove(contract_id, consumer_id, principal)
    _log.info("consumer_removed", contract=contract_id, consumer=consumer_id)
    return consumer_info(KnownConsumer(stored.consumer, stored))


@router.get(
    "/{contract_id}/acknowledgements",
    operation_id="list_acknowledgements",
    summary="List acknowledgements",
    responses=responses(404, 503),
)
def list_acknowledgements(contract_id: ContractId, factory: FactoryDep) -> AcknowledgementList:
    """List what was agreed to, oldest first."""
    found = factory.consumers().acknowledgements(contract_id)
    return AcknowledgementList(
        acknowledgements=tuple(AcknowledgementInfo.model_validate(each) for each in found)
    )


@router.post(
    "/{contract_id}/acknowledgements",
    operation_id="acknowledge_change",
    summary="Acknowledge a breaking change",
    status_code=HTTPStatus.CREATED,
    responses={
        200: {"model": AcknowledgementInfo, "description": "It was agreed to before; nothing changed."},
        **responses(403, 404, 409, 413, 415, 422, 503),
    },
    openapi_extra=body_of(AgreementRequest),
)
@checked
def acknowledge_change(
    contract_id: ContractId,
    wanted: Annotated[AgreementRequest, posted(AgreementRequest, "acknowledgement")],
    factory: FactoryDep,
    principal: PrincipalDep,
    response: Response,
) -> AcknowledgementInfo:
    """Record that a consumer agrees to one candidate. Another document needs another agreement."""
    agreement = Agreement(wanted.consumer, wanted.candidate, wanted.version, wanted.by)
    made, is_new = factory.consumers().acknowledge(contract_id, agreement, principal)
    _log.info("change_acknowledged", contract=contract_id, consumer=made.consumer, candidate=made.candidate)
    response.status_code = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    return AcknowledgementInfo.model_validate(made)
