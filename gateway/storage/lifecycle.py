"""What became of contract versions, and when: status, deletion, and what was enforced at an instant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from tidegate.gateway.storage.subject_tables import StatusChangeRow
from tidegate.gateway.storage.tables import VersionRow


@dataclass(frozen=True, slots=True)
class StatusChange:
    """What a version became at an instant."""

    at: datetime
    status: str
    is_deleted: bool


class LifecycleStore:
    """The life of contract versions, as `stores.lifecycle`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def record(self, registry_id: int, status: str, at: datetime) -> None:
        """Note the first status of a new version."""
        self._note(registry_id, StatusChange(at, status, is_deleted=False))

    def change_status(self, registry_id: int, status: str, at: datetime, note: str | None = None) -> None:
        """Set the status of a version, and note when."""
        self._update(registry_id, status=status, note=note)
        self._note(registry_id, StatusChange(at, status, is_deleted=False))

    def delete(self, registry_id: int, status: str, at: datetime) -> None:
        """Soft-delete a version of this status: it is enforced and listed no more."""
        self._update(registry_id, deleted_at=at)
        self._note(registry_id, StatusChange(at, status, is_deleted=True))

    def undelete(self, registry_id: int, status: str, at: datetime) -> None:
        """Bring a soft-deleted version back with a status."""
        self._update(registry_id, deleted_at=None, status=status)
        self._note(registry_id, StatusChange(at, status, is_deleted=False))

    def purge(self, registry_id: int) -> None:
        """Take a deleted version's document away; its name stays taken."""
        self._update(registry_id, document=b"", is_purged=True, number=-registry_id)

    def changes(self, registry_id: int) -> tuple[StatusChange, ...]:
        """List what a version became, oldest first."""
        query = select(StatusChangeRow).where(StatusChangeRow.registry_id == registry_id)
        rows = self._session.scalars(query.order_by(StatusChangeRow.key))
        return tuple(StatusChange(row.at, row.status, row.is_deleted) for row in rows)

    def highest_as_of(self, contract_id: str, statuses: Sequence[str], at: datetime) -> int | None:
        """Return the registry id of the version of highest precedence that had one of these statuses at an instant.

        A version that was purged later counts too: its registry id is given, and its document is gone.
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

    def _note(self, registry_id: int, change: StatusChange) -> None:
        self._session.execute(
            insert(StatusChangeRow).values(
                registry_id=registry_id, at=change.at, status=change.status, is_deleted=change.is_deleted
            )
        )
