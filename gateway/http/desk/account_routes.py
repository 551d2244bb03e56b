"""Pages about access: sign in, sign out, the current user, API keys and the audit log."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

import structlog
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from tidegate.contracts.errors import Problem, SettingsError
from tidegate.gateway.access.principal import Unauthenticated
from tidegate.gateway.access.sessions import COOKIE, LASTS, OpenedSession
from tidegate.gateway.http.dependencies import FactoryDep
from tidegate.gateway.http.desk.audit_views import AuditQuery, audit_view
from tidegate.gateway.http.desk.desk_route import (
    SIGN_IN,
    DeskRoute,
    FormDep,
    ShowDep,
    VisitorDep,
    own_page,
    sign_in_page,
)
from tidegate.gateway.http.desk.key_views import keys_view, wanted_key
from tidegate.gateway.http.desk.me_views import me_view
from tidegate.gateway.http.gate import PrincipalDep
from tidegate.gateway.http.problems import InvalidBody

_log = structlog.get_logger()

router = APIRouter(route_class=DeskRoute, include_in_schema=False)

NextPage = Annotated[str, Query(alias="next", max_length=2000)]


@router.get(SIGN_IN)
def sign_in_form(request: Request, next_page: NextPage = "/desk") -> Response:
    """Show the sign-in form; the query has the page to open afterwards."""
    return sign_in_page(request, None, next_page)


@router.post(SIGN_IN)
def sign_in(request: Request, form: FormDep, factory: FactoryDep) -> Response:
    """Open a session, and redirect to the requested page."""
    next_page = own_page(form.text("next") or "")
    if factory.sessions is None:  # access control is off, so nobody needs to sign in
        return RedirectResponse(next_page, HTTPStatus.SEE_OTHER)
    try:
        opened = factory.sessions.open(form.text("key_id") or "", form.text("secret") or "")
    except Unauthenticated as error:
        return sign_in_page(request, str(error), next_page)
    _log.info("signed_in", who=opened.principal.name)
    return _with_session(request, RedirectResponse(next_page, HTTPStatus.SEE_OTHER), opened)


@router.post("/desk/sign-out")
def sign_out(request: Request, factory: FactoryDep) -> Response:
    """End the session, and delete its cookie in the browser."""
    token = request.cookies.get(COOKIE)
    if token is not None and factory.sessions is not None:
        factory.sessions.close(token)
    response = RedirectResponse(SIGN_IN, HTTPStatus.SEE_OTHER)
    response.delete_cookie(COOKIE, path="/desk")
    return response


def _with_session(request: Request, response: Response, opened: OpenedSession) -> Response:
    """Set the session cookie: scripts cannot read it, and browsers do not send it with posts from other sites."""
    # Behind a TLS proxy the scheme of the request is http, but Origin has the scheme that the browser sees.
    is_tls = request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")
    response.set_cookie(
        COOKIE,
        opened.token,
        max_age=int(LASTS.total_seconds()),
        path="/desk",
        secure=is_tls,
        httponly=True,
        samesite="lax",  # with strict, a link from another site (such as a chat) would lead to the sign-in form
    )
    return response


@router.get("/desk/me")
def me(request: Request, factory: FactoryDep, visitor: VisitorDep, show: ShowDep) -> Response:
    """Show the current principal and its permissions."""
    return show("me.html", view=me_view(visitor, factory, request.cookies.get(COOKIE)))


@router.get("/desk/keys")
def keys(factory: FactoryDep, show: ShowDep) -> Response:
    """List the API keys."""
    return show("keys.html", view=keys_view(factory.keys()))


@router.post("/desk/keys")
def create_key(form: FormDep, factory: FactoryDep, principal: PrincipalDep, show: ShowDep) -> Response:
    """Create a key, and show its secret once, on the returned page."""
    try:
        name, grants, expires_at = wanted_key(form)
        made = factory.keys().create(name, grants, principal.name, expires_at)
    except SettingsError as error:
        raise InvalidBody("the key cannot be created", (Problem("", str(error)),)) from error
    _log.info("key_created", key=made.key_id)
    return show("keys.html", view=keys_view(factory.keys(), made))


@router.post("/desk/keys/{key_id}/revoke")
def revoke_key(key_id: str, factory: FactoryDep, principal: PrincipalDep) -> Response:
    """Revoke a key permanently."""
    factory.keys().revoke(key_id, principal.name)
    _log.info("key_revoked", key=key_id)
    return RedirectResponse("/desk/keys", HTTPStatus.SEE_OTHER)


@router.get("/desk/audit")
def audit(factory: FactoryDep, show: ShowDep, wanted: Annotated[AuditQuery, Query()]) -> Response:
    """Show the audit log, newest entry first."""
    return show("audit.html", view=audit_view(factory.audit(), wanted))
