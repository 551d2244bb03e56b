"""The page about the current user."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tidegate.gateway.access.principal import Role
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.desk.visitor import Visitor

ABILITIES: Final = {
    Role.VIEWER: "see contracts, streams and refused records, with classified fields hidden",
    Role.REPORTER: "report batches as a job does",
    Role.PRODUCER: "publish contracts, work on problems and register consumers",
    Role.APPROVER: "pause, resume and reconcile streams, promote versions, approve changes, and see hidden values",
    Role.ADMIN: "delete and restore versions, and with every subject manage keys and read the audit log",
}
"""The permissions that each role adds to those of the lower roles."""


@dataclass(frozen=True, slots=True)
class GrantRow:
    """One grant: the role, the prefix of the subjects that it covers ("" for all), and what it permits."""

    role: str
    prefix: str
    abilities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MeView:
    """The current principal. `key_name` and `expires_at` are of its session; None without one."""

    name: str
    key_name: str | None
    grants: tuple[GrantRow, ...]
    expires_at: datetime | None


def me_view(visitor: Visitor, factory: Factory, token: str | None) -> MeView:
    """Return the page about a visitor; `token` is the session cookie of the browser, or None."""
    session = None
    if visitor.has_session and token is not None and factory.sessions is not None:
        session = factory.sessions.find(token)
    return MeView(
        name=visitor.principal.name,
        key_name=None if session is None else factory.keys().find(session.key_id).name,
        grants=tuple(
            GrantRow(grant.role.word, grant.prefix, tuple(_abilities(grant.role)))
            for grant in visitor.principal.grants
        ),
        expires_at=None if session is None else session.expires_at,
    )


def _abilities(role: Role) -> list[str]:
    return [ability for of_role, ability in ABILITIES.items() if of_role <= role]
