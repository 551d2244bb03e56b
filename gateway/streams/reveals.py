"""Reveals: somebody asks to see what a page hides. Who, which record and which fields stand in the log of changes first."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterable
from datetime import datetime

from tidegate.contracts.stream.evidence import EventPointer
from tidegate.gateway.access.principal import ANONYMOUS, Principal, Role, require
from tidegate.gateway.storage.audit_chain import Change
from tidegate.gateway.storage.database import Database
from tidegate.gateway.storage.sql import Stores

ACTION = "record.revealed"
ROLE = Role.APPROVER
"""Who may reveal fields of the records of a subject."""
MOST_PARTS = 200


class Reveals:
    """Writes down who asks to see what."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now

    def note(self, by: Principal, subject: str, record: EventPointer, parts: Iterable[str]) -> None:
        """Add one entry for each part of a record, all or none, before anything of it is shown.

        `parts` are pointers of classified fields as the contract has them, or words such as `key`. Raises Forbidden.
        """
        require(by, ROLE, subject)
        at, who = self._now(), name_of(by)
        changes = [Change(at, who, ACTION, f"record:{record}#{part}") for part in parts]

        def work(stores: Stores) -> None:
            for change in changes:
                stores.audit.append(change)

        self._database.write(work)


def name_of(principal: Principal) -> str:
    """Name who asks: with access control off, the user whose process this is."""
    return f"local:{getpass.getuser()}" if principal is ANONYMOUS else principal.name
