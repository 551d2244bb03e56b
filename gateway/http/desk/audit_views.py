"""The page of the audit log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

from pydantic import BaseModel, BeforeValidator, Field

from tidegate.gateway.audit import AuditLog
from tidegate.gateway.http.desk.parameters import empty_is_none
from tidegate.gateway.storage.audit_chain import AuditEntry

ROWS = 100


Words = Annotated[Annotated[str, Field(max_length=300)] | None, BeforeValidator(empty_is_none)]


class AuditQuery(BaseModel):
    """The filters of the log, as query parameters. `before` is an entry number: only earlier entries are shown."""

    who: Words = None
    action: Words = None
    subject: Words = None
    before: Annotated[Annotated[int, Field(ge=1, lt=2**63)] | None, BeforeValidator(empty_is_none)] = None


@dataclass(frozen=True, slots=True)
class AuditView:
    """A page of the log, newest entry first.

    `actions` are the actions of these entries. `looked_from` is the lowest entry number that was searched. `newest` and
    `older` are URLs of other pages; `older` is None at the start of the log.
    """

    wanted: AuditQuery
    entries: tuple[AuditEntry, ...]
    actions: tuple[str, ...]
    looked_from: int
    head: str
    is_filtered: bool
    newest: str
    older: str | None


def audit_view(log: AuditLog, wanted: AuditQuery) -> AuditView:
    """Return a page of the log."""
    found = log.newest(wanted.before, ROWS, who=wanted.who, action=wanted.action, subject=wanted.subject)
    filters = {name: value for name, value in wanted.model_dump(exclude={"before"}).items() if value}
    is_at_start = found.looked_from <= 1
    return AuditView(
        wanted,
        found.entries,
        tuple(sorted({entry.action for entry in found.entries})),
        found.looked_from,
        found.head,
        bool(filters),
        _address(filters),
        None if is_at_start else _address({**filters, "before": found.looked_from}),
    )


def _address(query: dict[str, object]) -> str:
    return f"/desk/audit?{urlencode(query)}" if query else "/desk/audit"
