"""Deletion of subjects and versions: soft, then permanent.

The contract version is deleted and restored with its schema version.
"""

from __future__ import annotations

from datetime import datetime

from tidegate.gateway.access.principal import Principal
from tidegate.gateway.registry.approvals import guard_weakening, write_or_propose
from tidegate.gateway.registry.schemas.errors import (
    context_not_empty,
    referenced,
    subject_not_found,
    subject_not_soft_deleted,
    subject_soft_deleted,
    version_not_found,
    version_not_soft_deleted,
    version_soft_deleted,
)
from tidegate.gateway.registry.schemas.names import DEFAULT_CONTEXT, canonical, context_of, topic_of
from tidegate.gateway.registry.subject_reading import LATEST
from tidegate.gateway.registry.subject_scope import check_writable
from tidegate.gateway.storage.audit_chain import AuditedAction
from tidegate.gateway.storage.database import Service
from tidegate.gateway.storage.sql import Stores
from tidegate.gateway.storage.subjects import Deleted, SubjectVersion


class SubjectDeletion(Service):
    """A service that deletes subjects and versions. A deleted version stays deleted until it is restored."""

    def delete_subject(self, name: str, *, permanent: bool, by: Principal) -> tuple[int, ...]:
        """Delete every version of a subject; return their numbers.

        Raises Refused (40401, 40404, 40405, 42205, 42206), NotApproved if that weakens the enforced contract.
        """
        subject = canonical(name)
        deletion = _Deletion(by, self._now(), permanent=permanent)

        def work(stores: Stores) -> tuple[int, ...]:
            everything = stores.subjects.numbers(subject, Deleted.SHOWN)
            alive = stores.subjects.numbers(subject, Deleted.LEFT_OUT)
            if not everything:
                raise subject_not_found(subject)
            check_writable(stores, subject)
            if permanent and alive:
                raise subject_not_soft_deleted(subject)
            if not permanent and not alive:
                raise subject_soft_deleted(subject)
            numbers = everything if permanent else alive
            self._delete(stores, subject, numbers, deletion)
            if permanent:
                stores.settings.put_config(subject, None)
                stores.settings.put_mode(subject, None)
            return numbers

        return write_or_propose(self._database, work)

    def delete_version(self, name: str, number: int, *, permanent: bool, by: Principal) -> int:
        """Delete one version (-1: the latest); return its number.

        Raises Refused (40401, 40402, 40406, 40407, 42205, 42206), NotApproved if that weakens the enforced contract.
        """
        subject = canonical(name)
        deletion = _Deletion(by, self._now(), permanent=permanent)

        def work(stores: Stores) -> int:
            everything = stores.subjects.numbers(subject, Deleted.SHOWN)
            if not everything:
                raise subject_not_found(subject)
            check_writable(stores, subject)
            found = _chosen(stores, subject, number, permanent=permanent)
            if found is None:
                raise version_not_found("latest" if number == LATEST else number)
            if permanent and found.deleted_at is None:
                raise version_not_soft_deleted(subject, found.number)
            if not permanent and found.deleted_at is not None:
                raise version_soft_deleted(subject, found.number)
            self._delete(stores, subject, (found.number,), deletion)
            return found.number

        return write_or_propose(self._database, work)

    def delete_context(self, context: str) -> None:
        """Check that a context is empty, and so deleted: it exists only by its subjects. Raises Refused (42211)."""
        with self._database.reading() as stores:
            if context in stores.subjects.contexts():
                raise context_not_empty(context)

    def _delete(self, stores: Stores, subject: str, numbers: tuple[int, ...], deletion: _Deletion) -> None:
        for number in numbers:
            by = referring_schemas(stores, subject, number, deletion.by)
            if by:
                raise referenced(subject, number, by)
        with guard_weakening(stores, _contract_of(stores, subject), deletion.by, deletion.at):
            self._delete_each(stores, subject, numbers, deletion)
        if not deletion.permanent:
            stores.subjects.set_deleted(subject, numbers, deletion.at)

    def _delete_each(
        self, stores: Stores, subject: str, numbers: tuple[int, ...], deletion: _Deletion
    ) -> None:
        for number in numbers:
            found = stores.subjects.version(subject, number)
            if found is None:
                continue
            if deletion.permanent:
                stores.subjects.remove_version(subject, number)
            delete_contract_version(stores, found, deletion.at, permanent=deletion.permanent)
            action = "subject.version-purged" if deletion.permanent else "subject.version-deleted"
            stores.audit.append(
                AuditedAction(deletion.at, deletion.by.name, action, subject, found.schema.guid)
            )


class _Deletion:
    """A deletion: its author, its time, and whether it is permanent."""

    def __init__(self, by: Principal, at: datetime, *, permanent: bool) -> None:
        self.by = by
        self.at = at
        self.permanent = permanent


def referring_schemas(stores: Stores, subject: str, number: int, reader: Principal) -> str:
    """Return in words which schemas refer to a version: the ids that `reader` may see, and how many others; or ""."""
    every = stores.subjects.referenced_by(subject, number)
    seen = stores.subjects.referenced_by(subject, number, reader.prefixes)
    ids = f"the schema ids {', '.join(map(str, seen))}" if seen else ""
    hidden = len(every) - len(seen)
    if not hidden:
        return ids
    if seen:
        return f"{ids} and of {hidden} more that you may not see"
    return f"{hidden} schema{'s' if hidden > 1 else ''} that you may not see"


def delete_contract_version(
    stores: Stores, version: SubjectVersion, at: datetime, *, permanent: bool
) -> None:
    """Delete the contract version behind a subject version, if there is one; `permanent` also purges it."""
    if version.registry_id is None:
        return
    contract = stores.contracts.by_registry_id(version.registry_id)
    if contract is None:
        return
    if contract.deleted_at is None:
        stores.lifecycle.delete(contract.registry_id, contract.status, at)
    if permanent:
        stores.lifecycle.purge(contract.registry_id)


def _contract_of(stores: Stores, subject: str) -> str | None:
    """Return the id of the contract that governs a subject; None without one."""
    topic = topic_of(subject) if context_of(subject) == DEFAULT_CONTEXT else None
    return None if topic is None else stores.contracts.contract_of_topic(topic)


def _chosen(stores: Stores, subject: str, number: int, *, permanent: bool) -> SubjectVersion | None:
    if number != LATEST:
        return stores.subjects.version(subject, number)
    if not permanent:
        return stores.subjects.latest(subject)
    numbers = stores.subjects.numbers(subject, Deleted.ONLY)
    return stores.subjects.version(subject, numbers[-1]) if numbers else None
