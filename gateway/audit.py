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
"""Maximum number of entries that one page searches: `who` and `action` have no index, and the log only grows."""


@dataclass(frozen=True, slots=True)
class AuditPage:
    """A page of the log, oldest entry first.

    `head` is the hash of the newest entry of the log. Keep it to prove later that no entry was removed.
    """

    entries: tuple[AuditEntry, ...]
    head: str


@dataclass(frozen=True, slots=True)
class NewestEntries:
    """A page of the log, newest entry first.

    `looked_from` is the lowest entry number that was searched; the next page ends before it. `head` is the hash of the
    newest entry of the log.
    """

    entries: tuple[AuditEntry, ...]
    looked_from: int
    head: str


class AuditLog:
    """The read side of the audit log. Each change appends its entry in its own transaction (`AuditStore.append`)."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(self, after: int, limit: int, subject: str | None = None) -> AuditPage:
        """Return at most `limit` entries with a number above `after`; only those of `subject`, if given."""
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
        """Return at most `limit` entries with a number below `before` (None: the newest ones), newest first.

        `who`, `action` and `subject` are filters; None matches all. An action that ends with a dot is a prefix. At most
        MOST_SCANNED entries are searched.
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
        """Verify the hash chain and its recorded head, and that the chain contains `known_head`, if given."""
        return self._database.read(
            lambda stores: check_end(check(stores.audit.entries(), known_head), stores.audit.head())
        )

    def read(self, consume: Callable[[Iterator[AuditEntry]], T]) -> T:
        """Call `consume` with an iterator over all entries, oldest first, and return its result.

        The entries are of one snapshot of the log. Only a part of them is in memory at a time.
        """
        return self._database.read(lambda stores: consume(stores.audit.entries()))
