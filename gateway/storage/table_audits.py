"""Storage of the audits of tables, by contract."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import BigInteger, Boolean, ColumnElement, Text, delete, select
from sqlalchemy.orm import Mapped, mapped_column

from tidegate.contracts.stream.table_audit import KeptTableAudit, TableAudit
from tidegate.gateway.storage.tables import EntryStore, Instant, StreamEntry, fields_of

AUDITS_KEPT: Final = 500
"""Maximum audits that are kept for one contract."""
AUDITS_OF_TABLE_KEPT: Final = 100
"""Maximum audits that are kept for one table and contract, so that a table audited every minute leaves room."""


class TableAuditRow(StreamEntry):
    """One audit as JSON, and the columns that lists show. `stream` is the contract's id, `version` its version."""

    __tablename__ = "table_audits"

    by: Mapped[str] = mapped_column(Text)
    at: Mapped[datetime] = mapped_column(Instant)
    version: Mapped[str] = mapped_column(Text)
    table_name: Mapped[str] = mapped_column(Text)
    is_whole: Mapped[bool] = mapped_column(Boolean)
    rows: Mapped[int] = mapped_column(BigInteger)
    refused: Mapped[int] = mapped_column(BigInteger)
    unreadable: Mapped[int] = mapped_column(BigInteger)
    unmet: Mapped[int] = mapped_column(BigInteger)
    # Up to a megabyte: lists do not load it.
    document: Mapped[str] = mapped_column(Text, deferred=True)


@dataclass(frozen=True, slots=True)
class AuditSummary:
    """An audit as a list shows it. `version` is the contract's; `unmet` counts expectations that are not met."""

    id: str
    by: str
    at: datetime
    version: str
    table_name: str
    is_whole: bool
    rows: int
    refused: int
    unreadable: int
    unmet: int

    @property
    def share(self) -> float | None:
        """Return the refused share of the rows; None without rows."""
        return self.refused / self.rows if self.rows else None


class TableAuditStore(EntryStore[TableAuditRow]):
    """Audits of tables, as `stores.table_audits`."""

    _row = TableAuditRow
    _kept = AUDITS_KEPT

    def summaries(self, contract_id: str) -> tuple[AuditSummary, ...]:
        """Return the stored audits of a contract, newest first."""
        return tuple(AuditSummary(**fields_of(row, AuditSummary)) for row in self._entries(contract_id))

    def find(self, contract_id: str, wanted: UUID | str) -> KeptTableAudit | None:
        """Find one audit of a contract; None if it is unknown."""
        row = self._entry(contract_id, wanted)
        if row is None:
            return None
        return KeptTableAudit(by=row.by, at=row.at, audit=TableAudit.model_validate_json(row.document))

    def is_used(self, wanted: UUID) -> bool:
        """Return whether an audit of any contract has this id."""
        query = select(TableAuditRow.key).where(TableAuditRow.id == str(wanted))
        return self._session.scalar(query) is not None

    def add(self, kept: KeptTableAudit, keep_from: datetime) -> None:
        """Store a new audit; delete the oldest of its table and contract, and the contract's before `keep_from`."""
        audit, row = kept.audit, TableAuditRow
        self._add(
            TableAuditRow(
                id=str(audit.id),
                stream=audit.contract_id,
                by=kept.by,
                at=kept.at,
                version=audit.contract_version,
                table_name=audit.table,
                is_whole=audit.is_whole,
                rows=audit.rows,
                refused=audit.refused,
                unreadable=audit.unreadable,
                unmet=audit.unmet,
                document=audit.model_dump_json(),
            )
        )
        own = row.stream == audit.contract_id
        of_table = select(row.key).where(own, row.table_name == audit.table).order_by(row.key.desc())
        last = self._session.scalar(of_table.offset(AUDITS_OF_TABLE_KEPT).limit(1))
        if last is not None:
            self._delete(own, row.table_name == audit.table, row.key <= last)
        self._delete(own, row.at < keep_from)

    def _delete(self, *which: ColumnElement[bool]) -> None:
        self._session.execute(delete(TableAuditRow).where(*which))
