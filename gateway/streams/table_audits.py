"""Audits of tables: stored as `tidegate audit-table` sends them, and read for pages and the API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from tidegate.contracts.errors import ConflictError, NotFoundError
from tidegate.contracts.stream.table_audit import KeptTableAudit, TableAudit
from tidegate.gateway.access.principal import ANONYMOUS, Principal
from tidegate.gateway.registry.subject_scope import subject_of_contract
from tidegate.gateway.storage.audit_chain import AuditedAction, content_hash
from tidegate.gateway.storage.database import Database
from tidegate.gateway.storage.sql import Stores
from tidegate.gateway.storage.table_audits import AuditSummary


@dataclass(frozen=True, slots=True)
class AuditedTable:
    """The stored audits of one table, newest first; never empty."""

    audits: tuple[AuditSummary, ...]

    @property
    def last(self) -> AuditSummary:
        """Return the newest audit."""
        return self.audits[0]

    def before(self, audit_id: str) -> AuditSummary | None:
        """Return the audit to compare one with: the newest before it that judged rows; None without one."""
        ids = [each.id for each in self.audits]
        earlier = self.audits[ids.index(audit_id) + 1 :]
        return next((each for each in earlier if each.rows), None)


@dataclass(frozen=True, slots=True)
class SeenTableAudit:
    """One audit; `before` is the one that it is compared with, None for a first audit."""

    kept: KeptTableAudit
    before: KeptTableAudit | None
    table: AuditedTable


class TableAudits:
    """A service that stores and reads audits of tables. Every audit is an entry in the audit log, with its hash.

    Each new audit deletes those of its contract that are older than `retention`.
    """

    def __init__(self, database: Database, retention: timedelta, now: Callable[[], datetime]) -> None:
        self._database = database
        self._retention = retention
        self._now = now

    def keep(self, contract_id: str, audit: TableAudit, by: Principal = ANONYMOUS) -> bool:
        """Store an audit; return False if it was stored before.

        Raises NotFoundError for an unknown contract. Raises ConflictError for an audit by another contract or an
        unpublished version, and if another audit has the same id.
        """
        if audit.contract_id != contract_id:
            raise ConflictError(
                f"{audit.contract} judged this table; post the audit there, not to {contract_id}"
            )
        kept = KeptTableAudit(by=by.name, at=self._now(), audit=audit)
        with self._database.writing() as stores:
            subject = subject_of_contract(stores, contract_id)
            earlier = stores.table_audits.find(contract_id, audit.id)
            if earlier is not None and earlier.audit == audit:
                return False
            if stores.table_audits.is_used(audit.id):
                raise ConflictError(f"another audit was kept under the id {audit.id}")
            _require_published(stores, audit)
            stores.table_audits.add(kept, kept.at - self._retention)
            made = content_hash(audit.model_dump(mode="json"))
            stores.audit.append(
                AuditedAction(kept.at, by.name, "contract.table-audited", subject, None, made)
            )
            return True

    def all(self, contract_id: str) -> tuple[AuditSummary, ...]:
        """Return the stored audits of a contract, newest first. Raises NotFoundError."""
        with self._database.reading() as stores:
            subject_of_contract(stores, contract_id)
            return stores.table_audits.summaries(contract_id)

    def tables(self, contract_id: str) -> tuple[AuditedTable, ...]:
        """Return the tables that were audited by a contract, the last audited one first. Raises NotFoundError."""
        by_table: dict[str, list[AuditSummary]] = {}
        for each in self.all(contract_id):
            by_table.setdefault(each.table_name, []).append(each)
        return tuple(AuditedTable(tuple(audits)) for audits in by_table.values())

    def get(self, contract_id: str, audit_id: UUID) -> KeptTableAudit:
        """Return one audit. Raises NotFoundError."""
        with self._database.reading() as stores:
            return _found(stores, contract_id, audit_id)

    def seen(self, contract_id: str, audit_id: UUID) -> SeenTableAudit:
        """Return one audit with the other audits of its table. Raises NotFoundError."""
        with self._database.reading() as stores:
            kept = _found(stores, contract_id, audit_id)
            of_table = [
                each
                for each in stores.table_audits.summaries(contract_id)
                if each.table_name == kept.audit.table
            ]
            table = AuditedTable(tuple(of_table))
            before = table.before(str(audit_id))
            return SeenTableAudit(
                kept, None if before is None else stores.table_audits.find(contract_id, before.id), table
            )


def _found(stores: Stores, contract_id: str, audit_id: UUID) -> KeptTableAudit:
    subject_of_contract(stores, contract_id)
    kept = stores.table_audits.find(contract_id, audit_id)
    if kept is None:
        raise NotFoundError(f"no audit {audit_id} of a table by {contract_id} is kept")
    return kept


def _require_published(stores: Stores, audit: TableAudit) -> None:
    """Check that the version that judged is published, so that its rules can be read. Raises ConflictError."""
    found = stores.contracts.version(audit.contract_id, audit.contract_version)
    if found is None:
        raise ConflictError(f"{audit.contract} is not published here; publish it, then audit the table again")
    if found.fingerprint != audit.fingerprint:
        raise ConflictError(
            f"{audit.contract} is published with other content (fingerprint {found.fingerprint[:12]}); audit the table "
            "by the published version, or publish yours as a new one"
        )
