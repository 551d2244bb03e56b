"""Reads the audit log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from tidegate.gateway.storage.audit_chain import NO_ENTRY, AuditEntry, ChainReport, check, check_end
from tidegate.gateway.storage.database import Database

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AuditPage:
    """A part of the log, oldest first, and the hash of its newest entry: note it to see later that nothing was cut off."""

    entries: tuple[AuditEntry, ...]
    head: str


class AuditLog:
    """The audit log as people and programs read it. It is written where changes are made, never here."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(self, after: int, limit: int, subject: str | None = None) -> AuditPage:
        """List at most `limit` entries numbered above `after`; of one subject, if it is given."""
        with self._database.reading() as stores:
            last = stores.audit.last()
            return AuditPage(stores.audit.page(after, limit, subject), last.hash if last else NO_ENTRY)

    def check(self, known_head: str | None = None) -> ChainReport:
        """Check the whole chain, its recorded head, and that it holds a head that was noted earlier."""
        return self._database.read(
            lambda stores: check_end(check(stores.audit.entries(), known_head), stores.audit.head())
        )

    def read(self, consume: Callable[[Iterator[AuditEntry]], T]) -> T:
        """Return every entry to `consume`, oldest first: one state of the log, a part of it in memory at a time."""
        return self._database.read(lambda stores: consume(stores.audit.entries()))
