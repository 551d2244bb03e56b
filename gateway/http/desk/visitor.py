"""The visitor of a page: the name and the links in the header of every page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from fastapi import Request

from tidegate.gateway.access.principal import ANONYMOUS, Principal, Role
from tidegate.gateway.access.sessions import COOKIE


@dataclass(frozen=True, slots=True)
class Visitor:
    """The person before a page. `has_session`: they signed in with the form, and can sign out."""

    principal: Principal
    has_session: bool

    @property
    def is_known(self) -> bool:
        """Return whether access control is on: then the name is that of the person's key or token."""
        return self.principal is not ANONYMOUS

    @property
    def is_admin(self) -> bool:
        """Return whether this person may read the audit log and manage keys."""
        return self.principal.may_everywhere(Role.ADMIN)


def visitor_of(request: Request) -> Visitor:
    """Return who asks for a page, as the guard has identified them."""
    principal = cast("Principal", request.state.principal)
    is_by_cookie = COOKIE in request.cookies and "authorization" not in request.headers
    return Visitor(principal, has_session=is_by_cookie and principal is not ANONYMOUS)
