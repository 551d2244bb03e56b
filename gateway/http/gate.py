"""Authorization of requests, once the principal and the operation are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, assert_never, cast

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.errors import NotFoundError
from tidegate.gateway.access.principal import ANONYMOUS, Forbidden, Principal, Role, forbidden
from tidegate.gateway.access.rules import AccessRule, Reach, rule_of
from tidegate.gateway.http.dependencies import get_factory
from tidegate.gateway.storage.database import Database


class SubjectHidden(NotFoundError):  # noqa: N818 - a state of the subject
    """A subject that the principal may not see. The response is that of a subject that does not exist."""

    def __init__(self, subject: str) -> None:
        super().__init__(f"no subject {subject} is registered")
        self.subject = subject


def principal_of(request: Request) -> Principal:
    """Return the principal of a request, as a FastAPI dependency. The guard has authenticated the request."""
    return cast("Principal", request.state.principal)


PrincipalDep = Annotated[Principal, Depends(principal_of)]


def authorise(request: Request, role: Role, subject: str) -> Principal:
    """Require that the principal of a request has `role` for a subject; return the principal.

    Raises SubjectHidden if the principal may not see the subject, Forbidden if its role is too low.
    """
    principal = principal_of(request)
    if principal.may(role, subject):
        return principal
    if role is Role.VIEWER or not principal.sees(subject):
        request.state.is_denied = True  # the guard audits it, if it is a write
        raise SubjectHidden(subject)
    raise forbidden(principal, role, f"of the subject {subject}")


async def permit(request: Request) -> None:
    """Authorize a request to the native API or the desk; a dependency of every route.

    Raises Forbidden, and NotFoundError for a contract or stream that does not exist or is hidden. These two cases have
    the same message and occur at the same point, before the rest of the request is read. Without access control,
    everything is permitted.
    """
    principal = principal_of(request)
    if principal is ANONYMOUS:
        return
    template = request.scope["route"].path
    rule = rule_of(request.method, template)
    if rule is None:
        raise Forbidden(f"no access rule covers {request.method} {template}, so it is refused")
    await permit_rule(request, principal, rule, request.path_params)


async def permit_rule(
    request: Request, principal: Principal, rule: AccessRule, parameters: Mapping[str, str]
) -> None:
    """Authorize a principal by a rule and the parameters of the path.

    Raises SubjectHidden, NotFoundError and Forbidden.
    """
    match rule.reach:
        case Reach.NOBODY_ASKED:
            return
        case Reach.SUBJECT:
            authorise(request, rule.role, parameters["subject"])
        case Reach.CONTRACT:
            contract_id = parameters["contract_id"]
            found = await run_in_threadpool(_subject_of_contract, get_factory(request).database, contract_id)
            _permit_found(request, rule.role, found, f"no contract is published under the id {contract_id}")
        case Reach.STREAM:
            stream = parameters["stream"]
            found = await run_in_threadpool(_subject_of_contract, get_factory(request).database, stream)
            _permit_found(request, rule.role, found, f"no batch of a stream {stream} was reported")
        case Reach.EVERYWHERE:
            is_permitted = principal.may_everywhere(rule.role)
            _require(principal, rule.role, "of every subject", is_permitted=is_permitted)
        case Reach.NEW_SUBJECT:
            subject = parameters["subject"]
            is_permitted = principal.may(rule.role, subject)
            _require(principal, rule.role, f"of the subject {subject}", is_permitted=is_permitted)
        case Reach.SOMEWHERE:
            is_permitted = principal.may_somewhere(rule.role)
            _require(principal, rule.role, "of some subjects", is_permitted=is_permitted)
        case _:
            assert_never(rule.reach)


def _require(principal: Principal, role: Role, of_what: str, *, is_permitted: bool) -> None:
    if not is_permitted:
        raise forbidden(principal, role, of_what)


def _permit_found(request: Request, role: Role, subject: str | None, unknown: str) -> None:
    if subject is None:
        raise NotFoundError(unknown)
    try:
        authorise(request, role, subject)
    except SubjectHidden as error:
        raise NotFoundError(unknown) from error


def _subject_of_contract(database: Database, contract_id: str) -> str | None:
    topic = database.read(lambda stores: stores.contracts.topic_of(contract_id))
    return None if topic is None else subject_of(topic)
