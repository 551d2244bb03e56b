"""The audit of reveals: who saw which hidden part of a refused record."""

from __future__ import annotations

import getpass
from collections.abc import Iterable
from typing import Final

from tidegate.contracts.stream.evidence import EventPointer
from tidegate.gateway.access.principal import ANONYMOUS, Principal, Role, require
from tidegate.gateway.storage.audit_chain import AuditedAction
from tidegate.gateway.storage.database import Service

REVEAL_ACTION: Final = "record.revealed"
REVEAL_ROLE: Final = Role.APPROVER
"""Who may reveal fields of the records of a subject."""
MOST_PARTS: Final = 200
"""Maximum parts of a record that one request reveals."""


class Reveals(Service):
    """A service that writes reveals to the audit log."""

    def record(self, by: Principal, subject: str, record: EventPointer, parts: Iterable[str]) -> None:
        """Add one entry for each part of a record, all or none, before any of them is shown.

        `parts` are pointers of classified fields as the contract has them, or words such as `key`. Raises Forbidden.
        """
        require(by, REVEAL_ROLE, subject)
        at, who = self._now(), name_of(by)
        changes = [AuditedAction(at, who, REVEAL_ACTION, f"record:{record}#{part}") for part in parts]
        with self._database.writing() as stores:
            for change in changes:
                stores.audit.append(change)


def name_of(principal: Principal) -> str:
    """Return the caller's name: without access control, the user of this process."""
    return f"local:{getpass.getuser()}" if principal is ANONYMOUS else principal.name
