"""Storage of contracts and their versions, and `Stores`: all stores of one transaction.

Stores only write and find rows; `gateway.registry` and `gateway.streams` contain the logic.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import ColumnElement, Row, Select, case, func, insert, select, update
from sqlalchemy.orm import Session

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.document.terms import subject_of
from tidegate.gateway.storage.access import KeyStore, SessionStore, begins_with
from tidegate.gateway.storage.agreements import ConsumerStore, ProposalStore
from tidegate.gateway.storage.audit import AuditStore
from tidegate.gateway.storage.problems import ProblemStore
from tidegate.gateway.storage.quarantine_index import QuarantineIndexStore
from tidegate.gateway.storage.refusal_closures import (
    RefusalClosureRow,
    RefusalOffsetsStore,
    RefusalReasonRow,
)
from tidegate.gateway.storage.reports import ExpectationStore, ReportStore, StreamSumStore
from tidegate.gateway.storage.shadows import ShadowStore
from tidegate.gateway.storage.stream_control import (
    AdoptionStore,
    ControlStore,
    ReconciliationStore,
    ReplayStore,
)
from tidegate.gateway.storage.subject_settings import AssociationStore, SettingStore
from tidegate.gateway.storage.subjects import SchemaStore, SubjectStore
from tidegate.gateway.storage.table_audits import TableAuditStore
from tidegate.gateway.storage.tables import (
    ByCodePoint,
    ContractRow,
    StatusChangeRow,
    Store,
    VersionRow,
    fields_of,
)
from tidegate.gateway.storage.value_searches import ValueSearchStore


@dataclass(frozen=True, slots=True)
class StatusChange:
    """The status of a version from an instant on."""

    at: datetime
    status: str
    is_deleted: bool


class LifecycleStore(Store):
    """Statuses of contract versions and their history, as `stores.lifecycle`."""

    def record(self, registry_id: int, status: str, at: datetime) -> None:
        """Record the first status of a new version."""
        self._record_change(registry_id, StatusChange(at, status, is_deleted=False))

    def change_status(self, registry_id: int, status: str, at: datetime) -> None:
        """Set the status of a version, and record the change."""
        self._update(registry_id, status=status)
        self._record_change(registry_id, StatusChange(at, status, is_deleted=False))

    def delete(self, registry_id: int, status: str, at: datetime) -> None:
        """Soft-delete a version that has this status: it is no longer enforced or listed."""
        self._update(registry_id, deleted_at=at)
        self._record_change(registry_id, StatusChange(at, status, is_deleted=True))

    def undelete(self, registry_id: int, status: str, at: datetime) -> None:
        """Restore a soft-deleted version with a status."""
        self._update(registry_id, deleted_at=None, status=status)
        self._record_change(registry_id, StatusChange(at, status, is_deleted=False))

    def purge(self, registry_id: int) -> None:
        """Delete the document of a deleted version; its name remains reserved."""
        self._update(registry_id, document=b"", is_purged=True, number=-registry_id)

    def changes(self, registry_id: int) -> tuple[StatusChange, ...]:
        """List the status changes of a version, oldest first."""
        query = select(StatusChangeRow).where(StatusChangeRow.registry_id == registry_id)
        rows = self._session.scalars(query.order_by(StatusChangeRow.key))
        return tuple(StatusChange(row.at, row.status, row.is_deleted) for row in rows)

    def highest_as_of(self, contract_id: str, statuses: Sequence[str], at: datetime) -> int | None:
        """Return the registry id of the version of highest precedence that had one of these statuses at an instant.

        None without one. A version that was purged later counts too, although its document is gone.
        """
        newest = (
            select(StatusChangeRow.key)
            .where(StatusChangeRow.registry_id == VersionRow.registry_id, StatusChangeRow.at <= at)
            .order_by(StatusChangeRow.key.desc())
            .limit(1)
            .correlate(VersionRow)
            .scalar_subquery()
        )
        query = (
            select(VersionRow.registry_id)
            .join(StatusChangeRow, StatusChangeRow.key == newest)
            .where(
                VersionRow.contract_id == contract_id,
                StatusChangeRow.status.in_(statuses),
                StatusChangeRow.is_deleted.is_(False),
            )
            .order_by(VersionRow.precedence.desc())
            .limit(1)
        )
        return self._session.scalar(query)

    def _update(self, registry_id: int, **values: object) -> None:
        self._session.execute(
            update(VersionRow).where(VersionRow.registry_id == registry_id).values(**values)
        )

    def _record_change(self, registry_id: int, change: StatusChange) -> None:
        self._session.execute(
            insert(StatusChangeRow).values(
                registry_id=registry_id, at=change.at, status=change.status, is_deleted=change.is_deleted
            )
        )


_HIGHEST_ID = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ContractVersion:
    """One stored contract version. `document` is canonical JSON; `number` counts from 1 per contract.

    `status` is the current status; the document has the status at publication. A deleted version can be read only by
    its registry id, a purged one not at all. `note` lists the parts that are not enforced, with reasons; None without
    any.
    """

    registry_id: int
    contract_id: str
    number: int
    version: str
    precedence: bytes
    topic: str
    status: str
    domain: str | None
    fingerprint: str
    document: bytes
    published_at: datetime
    note: str | None = None
    deleted_at: datetime | None = None
    is_purged: bool = False

    @property
    def contract(self) -> DataContract:
        """Return the parsed document."""
        return DataContract.model_validate_json(self.document)


@dataclass(frozen=True, slots=True)
class VersionFilter:
    """A filter of contract versions; None in a field matches every value.

    The subject must begin with one of `prefixes`, case-sensitively.
    """

    status: str | None = None
    topic: str | None = None
    domain: str | None = None
    prefixes: tuple[str, ...] | None = None


class Stores:
    """All stores of one transaction."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.contracts = ContractStore(session)
        self.reports = ReportStore(session)
        self.audit = AuditStore(session)
        self.keys = KeyStore(session)
        self.sessions = SessionStore(session)
        self.lifecycle = LifecycleStore(session)
        self.schemas = SchemaStore(session)
        self.subjects = SubjectStore(session, self.schemas)
        self.settings = SettingStore(session)
        self.associations = AssociationStore(session)
        self.consumers = ConsumerStore(session)
        self.proposals = ProposalStore(session)
        self.controls = ControlStore(session)
        self.expectations = ExpectationStore(session)
        self.sums = StreamSumStore(session)
        self.shadows = ShadowStore(session)
        self.reconciliations = ReconciliationStore(session)
        self.adoptions = AdoptionStore(session)
        self.table_audits = TableAuditStore(session)
        self.quarantine = QuarantineIndexStore(session)
        self.problems = ProblemStore(session)
        self.value_searches = ValueSearchStore(session)
        self.replays = ReplayStore(session)
        self.closures = RefusalOffsetsStore(session, RefusalClosureRow)
        self.reasons = RefusalOffsetsStore(session, RefusalReasonRow)

    def undo(self) -> None:
        """Roll back all changes of this transaction."""
        self._session.rollback()


class ContractStore(Store):
    """Contracts and their versions, as `stores.contracts`."""

    def contract_of_topic(self, topic: str) -> str | None:
        """Return the id of the contract that owns a topic; None without one."""
        return self._session.scalar(select(ContractRow.id).where(ContractRow.topic == topic))

    def topic_of(self, contract_id: str) -> str | None:
        """Return the topic that a contract owns; None for an unknown contract."""
        return self._session.scalar(select(ContractRow.topic).where(ContractRow.id == contract_id))

    def topics(self) -> dict[str, str]:
        """Return the topic of every contract by its id."""
        rows = self._session.execute(select(ContractRow.id, ContractRow.topic))
        return {row.id: row.topic for row in rows}

    def add_contract(self, contract_id: str, topic: str, created_at: datetime) -> None:
        """Store a new contract."""
        self._session.execute(
            insert(ContractRow).values(
                id=contract_id, topic=topic, subject=subject_of(topic), created_at=created_at
            )
        )

    def highest_number(self, contract_id: str) -> int:
        """Return the highest number of a contract's versions; 0 without any."""
        query = select(func.max(VersionRow.number)).where(VersionRow.contract_id == contract_id)
        return max(self._session.scalar(query) or 0, 0)

    def add_version(self, version: ContractVersion) -> ContractVersion:
        """Store a new version under its `number`; return it with its new `registry_id`."""
        values = fields_of(version, ContractVersion)
        del values["registry_id"], values["topic"]
        row = VersionRow(**values)
        self._session.add(row)
        self._session.flush()
        return replace(version, registry_id=row.registry_id)

    def version(self, contract_id: str, version: str) -> ContractVersion | None:
        """Find one version by its name, deleted or not."""
        return self._one(
            _versions().where(VersionRow.contract_id == contract_id, VersionRow.version == version)
        )

    def by_registry_id(self, registry_id: int) -> ContractVersion | None:
        """Find one version by its global number."""
        if registry_id > _HIGHEST_ID:
            return None  # PostgreSQL raises an error for a number that its type cannot hold
        return self._one(_versions().where(VersionRow.registry_id == registry_id))

    def with_fingerprints(self, fingerprints: Collection[str]) -> tuple[ContractVersion, ...]:
        """List the versions that have one of these fingerprints, deleted ones too."""
        return self._all(_versions().where(VersionRow.fingerprint.in_(fingerprints)))

    def highest(self, contract_id: str, statuses: Sequence[str] | None = None) -> ContractVersion | None:
        """Find the version of highest precedence that is not deleted and has one of `statuses` (None: any)."""
        query = _versions().where(VersionRow.contract_id == contract_id, VersionRow.deleted_at.is_(None))
        if statuses is not None:
            query = query.where(VersionRow.status.in_(statuses))
        return self._one(query.order_by(VersionRow.precedence.desc()).limit(1))

    def highest_name(self, contract_id: str, below: bytes | None = None) -> str | None:
        """Return the highest version that was ever published, deleted or not, below a precedence (None: any)."""
        query = select(VersionRow.version).where(VersionRow.contract_id == contract_id)
        if below is not None:
            query = query.where(VersionRow.precedence < below)
        return self._session.scalar(query.order_by(VersionRow.precedence.desc()).limit(1))

    def versions(self, contract_id: str, *, deleted: bool = False) -> tuple[ContractVersion, ...]:
        """List the versions of one contract, highest precedence first; with `deleted` the soft-deleted ones too."""
        query = _versions().where(VersionRow.contract_id == contract_id, VersionRow.is_purged.is_(False))
        if not deleted:
            query = query.where(VersionRow.deleted_at.is_(None))
        return self._all(query.order_by(VersionRow.precedence.desc()))

    def page(
        self, wanted: VersionFilter, enforced: Sequence[str], offset: int, limit: int
    ) -> tuple[tuple[ContractVersion, ...], int]:
        """Return a page of the contracts by id, each as its current version, and the number of all that match.

        The current version is the highest with a status in `enforced`, or without one the highest of any status.
        """
        rank = (
            func.row_number()
            .over(
                partition_by=VersionRow.contract_id,
                order_by=(
                    case((VersionRow.status.in_(enforced), 0), else_=1),
                    VersionRow.precedence.desc(),
                ),
            )
            .label("rank")
        )
        alive = VersionRow.deleted_at.is_(None)
        ranked = select(VersionRow.registry_id, rank).where(alive).subquery()
        current = select(ranked.c.registry_id).where(ranked.c.rank == 1)
        matches = _versions().where(VersionRow.registry_id.in_(current), *_conditions(wanted))
        total = self._session.scalar(select(func.count()).select_from(matches.subquery())) or 0
        return self._all(
            matches.order_by(ByCodePoint(VersionRow.contract_id)).offset(offset).limit(limit)
        ), total

    def _one(self, query: Select[VersionRow, str]) -> ContractVersion | None:
        row = self._session.execute(query).first()
        return None if row is None else _contract_version(row)

    def _all(self, query: Select[VersionRow, str]) -> tuple[ContractVersion, ...]:
        return tuple(_contract_version(row) for row in self._session.execute(query))


def _versions() -> Select[VersionRow, str]:
    return select(VersionRow, ContractRow.topic).join(ContractRow, ContractRow.id == VersionRow.contract_id)


def _conditions(wanted: VersionFilter) -> list[ColumnElement[bool]]:
    columns = (
        (VersionRow.status, wanted.status),
        (ContractRow.topic, wanted.topic),
        (VersionRow.domain, wanted.domain),
    )
    conditions = [column == value for column, value in columns if value is not None]
    if wanted.prefixes is not None:
        conditions.append(begins_with(ContractRow.subject, wanted.prefixes))
    return conditions


def _contract_version(found: Row[VersionRow, str]) -> ContractVersion:
    row, topic = found
    return ContractVersion(**fields_of(row, ContractVersion, topic=topic))
