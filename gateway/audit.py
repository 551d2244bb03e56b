"""Reads the audit log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from tidegate.gateway.storage.audit import AuditNames
from tidegate.gateway.storage.audit_chain import NO_ENTRY, AuditEntry, ChainReport, check, check_end
from tidegate.gateway.storage.database import Database

T = TypeVar("T")

MOST_LOOKED_AT = 50_000
"""Entries that one page looks at for names: who and action have no index, and a log grows for years."""


@dataclass(frozen=True, slots=True)
class AuditPage:
    """A part of the log, oldest first, and the hash of its newest entry: note it to see later that nothing was cut off."""

    entries: tuple[AuditEntry, ...]
    head: str


@dataclass(frozen=True, slots=True)
class NewestEntries:
    """Entries, newest first. All entries from the number `looked_from` on were looked at."""

    entries: tuple[AuditEntry, ...]
    looked_from: int
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

    def newest(
        self,
        before: int | None,
        limit: int,
        *,
        who: str | None = None,
        action: str | None = None,
        subject: str | None = None,
    ) -> NewestEntries:
        """List at most `limit` entries numbered below `before` (None: the newest), newest first.

        Only entries of these names are listed; an action that ends with a dot stands for all that begin so. At most
        MOST_LOOKED_AT entries are looked at.
        """
        with self._database.reading() as stores:
            last = stores.audit.last()
            if last is None:
                return NewestEntries((), 1, NO_ENTRY)
            end = min(before or last.number + 1, last.number + 1)
            start = max(1, end - MOST_LOOKED_AT)
            wanted = AuditNames(who, action, subject)
            entries = stores.audit.between(start, end, limit, wanted)
        looked_from = entries[-1].number if len(entries) == limit else start
        return NewestEntries(entries, looked_from, last.hash)

    def check(self, known_head: str | None = None) -> ChainReport:
        """Check the whole chain, its recorded head, and that it holds a head that was noted earlier."""
        return self._database.read(
            lambda stores: check_end(check(stores.audit.entries(), known_head), stores.audit.head())
        )

    def read(self, consume: Callable[[Iterator[AuditEntry]], T]) -> T:
        """Return every entry to `consume`, oldest first: one state of the log, a part of it in memory at a time."""
        return self._database.read(lambda stores: consume(stores.audit.entries()))
