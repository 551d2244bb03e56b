"""The tables of the audit log. Entries are appended and read, never changed or removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Integer, Text, insert, select, update
from sqlalchemy.orm import Mapped, mapped_column

from tidegate.gateway.storage.access import begins_with
from tidegate.gateway.storage.audit_chain import NO_HEAD, AuditedAction, AuditEntry, Head, chained
from tidegate.gateway.storage.tables import Instant, Number, Store, Table, fields_of

_CHUNK = 200


class AuditRow(Table):
    """One entry of the audit log. Database triggers refuse to change or remove entries."""

    __tablename__ = "audit"

    number: Mapped[int] = mapped_column(Number, primary_key=True, autoincrement=False)
    at: Mapped[datetime] = mapped_column(Instant)
    who: Mapped[str] = mapped_column(Text)
    action: Mapped[str] = mapped_column(Text)
    subject: Mapped[str] = mapped_column(Text, index=True)
    before: Mapped[str | None] = mapped_column(Text)
    after: Mapped[str | None] = mapped_column(Text)
    previous: Mapped[str] = mapped_column(Text)
    hash: Mapped[str] = mapped_column(Text)


class AuditHeadRow(Table):
    """The number and hash of the newest entry, in one row with the key 1."""

    __tablename__ = "audit_head"

    key: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    number: Mapped[int] = mapped_column(Number)
    hash: Mapped[str] = mapped_column(Text)


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """A filter of entries by names; None matches every name, and an action that ends with a dot is a prefix."""

    who: str | None = None
    action: str | None = None
    subject: str | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return the filter as conditions of a query."""
        found = [
            column == value
            for column, value in ((AuditRow.who, self.who), (AuditRow.subject, self.subject))
            if value is not None
        ]
        if self.action is not None and self.action.endswith("."):
            found.append(begins_with(AuditRow.action, [self.action]))
        elif self.action is not None:
            found.append(AuditRow.action == self.action)
        return found


class AuditStore(Store):
    """The audit log, as `stores.audit`: append to it in the transaction that makes the change."""

    def append(self, change: AuditedAction) -> AuditEntry:
        """Append an entry.

        Call it only in a write transaction: these run one after another, so the chain does not fork.
        """
        head, last = self.head() or NO_HEAD, self.last()
        # The recorded head counts even if its entry was removed: the gap at the end of the chain then stays visible.
        if last is not None and last.number > head.number:
            head = Head(last.number, last.hash)
        entry = chained(change, head.number + 1, head.hash)
        self._session.execute(insert(AuditRow).values(fields_of(entry, AuditEntry)))
        self._session.execute(update(AuditHeadRow).values(number=entry.number, hash=entry.hash))
        return entry

    def head(self) -> Head | None:
        """Return the recorded number and hash of the newest entry; None if the record was removed."""
        row = self._session.scalar(select(AuditHeadRow))
        return None if row is None else Head(row.number, row.hash)

    def last(self) -> AuditEntry | None:
        """Return the newest entry; None if the log is empty."""
        row = self._session.scalar(select(AuditRow).order_by(AuditRow.number.desc()).limit(1))
        return None if row is None else _entry(row)

    def page(self, after: int, limit: int, subject: str | None = None) -> tuple[AuditEntry, ...]:
        """List at most `limit` entries with numbers above `after`, oldest first; only of `subject`, if given."""
        query = select(AuditRow).where(AuditRow.number > after)
        if subject is not None:
            query = query.where(AuditRow.subject == subject)
        rows = self._session.scalars(query.order_by(AuditRow.number).limit(limit)).all()
        return tuple(_entry(row) for row in rows)

    def between(self, start: int, end: int, limit: int, names: AuditFilter) -> tuple[AuditEntry, ...]:
        """List at most `limit` entries with numbers in [start, end) that `names` matches, newest first."""
        query = select(AuditRow).where(AuditRow.number >= start, AuditRow.number < end, *names.conditions())
        rows = self._session.scalars(query.order_by(AuditRow.number.desc()).limit(limit)).all()
        return tuple(_entry(row) for row in rows)

    def of_subject_since(
        self, subject: str, since: datetime, actions: Sequence[str], limit: int
    ) -> tuple[AuditEntry, ...]:
        """List at most `limit` entries of a subject with one of these actions from `since` on, newest first."""
        query = select(AuditRow).where(
            AuditRow.subject == subject, AuditRow.at >= since, AuditRow.action.in_(actions)
        )
        rows = self._session.scalars(query.order_by(AuditRow.number.desc()).limit(limit)).all()
        return tuple(_entry(row) for row in rows)

    def entries(self) -> Iterator[AuditEntry]:
        """Yield every entry, oldest first, read in chunks; consume it inside the transaction."""
        after: int | None = None
        while True:
            query = select(AuditRow).order_by(AuditRow.number).limit(_CHUNK)
            if after is not None:
                query = query.where(AuditRow.number > after)
            rows = self._session.scalars(query).all()
            for row in rows:
                yield _entry(row)
            if len(rows) < _CHUNK:
                return
            after = rows[-1].number
            self._session.expunge_all()


def _entry(row: AuditRow) -> AuditEntry:
    return AuditEntry(**fields_of(row, AuditEntry))
