"""Read and check the audit log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from tidegate.gateway.storage.audit import AuditFilter
from tidegate.gateway.storage.audit_chain import NO_ENTRY, AuditEntry, ChainReport, check, check_end
from tidegate.gateway.storage.database import Database

T = TypeVar("T")

MOST_SCANNED = 50_000
"""Maximum entries that one page searches for names: `who` and `action` have no index, and a log grows for years."""


@dataclass(frozen=True, slots=True)
class AuditPage:
    """A part of the log, oldest first. `head` is the hash of the newest entry: keep it to prove later that none was removed."""

    entries: tuple[AuditEntry, ...]
    head: str


@dataclass(frozen=True, slots=True)
class NewestEntries:
    """Entries, newest first. All entries with numbers from `looked_from` were searched."""

    entries: tuple[AuditEntry, ...]
    looked_from: int
    head: str


class AuditLog:
    """Reads the audit log. Entries are written in the transactions of the changes, with `AuditStore.append`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(self, after: int, limit: int, subject: str | None = None) -> AuditPage:
        """List at most `limit` entries with a number above `after`; only those of `subject`, if given."""
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
        """List at most `limit` entries with a number below `before` (None: the newest ones), newest first.

        Only entries with the given names are listed; an action that ends with a dot is a prefix. At most MOST_SCANNED
        entries are searched.
        """
        with self._database.reading() as stores:
            last = stores.audit.last()
            if last is None:
                return NewestEntries((), 1, NO_ENTRY)
            end = min(before or last.number + 1, last.number + 1)
            start = max(1, end - MOST_SCANNED)
            wanted = AuditFilter(who, action, subject)
            entries = stores.audit.between(start, end, limit, wanted)
        looked_from = entries[-1].number if len(entries) == limit else start
        return NewestEntries(entries, looked_from, last.hash)

    def check(self, known_head: str | None = None) -> ChainReport:
        """Check the whole chain, its recorded head, and that it holds a head that was noted earlier."""
        return self._database.read(
            lambda stores: check_end(check(stores.audit.entries(), known_head), stores.audit.head())
        )

    def read(self, consume: Callable[[Iterator[AuditEntry]], T]) -> T:
        """Return the result of `consume` for an iterator of all entries, oldest first, of one state of the log.

        Only a part of the log is in memory at a time.
        """
        return self._database.read(lambda stores: consume(stores.audit.entries()))
