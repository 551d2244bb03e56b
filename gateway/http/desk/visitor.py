"""The visitor of a page, for the name and the links in the header of every page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from fastapi import Request

from tidegate.gateway.access.principal import ANONYMOUS, Principal, Role
from tidegate.gateway.access.sessions import COOKIE


@dataclass(frozen=True, slots=True)
class Visitor:
    """The person who views a page. `has_session`: they signed in with the form, and can sign out."""

    principal: Principal
    has_session: bool

    @property
    def is_known(self) -> bool:
        """Return whether access control is on, so that the principal is that of a key or token."""
        return self.principal is not ANONYMOUS

    @property
    def is_admin(self) -> bool:
        """Return whether this person may read the audit log and manage keys."""
        return self.principal.may_everywhere(Role.ADMIN)


def visitor_of(request: Request) -> Visitor:
    """Return the visitor of a request, as a FastAPI dependency. The guard has authenticated the request."""
    principal = cast("Principal", request.state.principal)
    is_by_cookie = COOKIE in request.cookies and "authorization" not in request.headers
    return Visitor(principal, has_session=is_by_cookie and principal is not ANONYMOUS)
