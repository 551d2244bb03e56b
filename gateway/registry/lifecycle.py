"""The status of published versions: promotion, deprecation, retirement, deletion, and what was enforced when."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime

from tidegate.contracts.document.model import DataContract, Status
from tidegate.contracts.document.terms import subject_of
from tidegate.contracts.errors import ConflictError, ContractError, NotFoundError
from tidegate.gateway.access.principal import ANONYMOUS, Principal
from tidegate.gateway.registry.approvals import guard_weakening, prepare_proofs, write_or_propose
from tidegate.gateway.registry.changes import check_publication
from tidegate.gateway.registry.compatibility_groups import require_group, require_one_table
from tidegate.gateway.registry.subject_contracts import add_subject_version, problems_of
from tidegate.gateway.registry.subject_deletion import referring_schemas
from tidegate.gateway.registry.subject_scope import (
    ENFORCED,
    READONLY,
    READONLY_OVERRIDE,
    mode_in_scope,
    topic_of_contract,
    unknown_contract,
)
from tidegate.gateway.storage.audit_chain import AuditedAction
from tidegate.gateway.storage.database import Service
from tidegate.gateway.storage.sql import ContractVersion, Stores

TRANSITIONS: Mapping[str, tuple[str, ...]] = {
    Status.DRAFT: (Status.ACTIVE, Status.RETIRED),
    Status.ACTIVE: (Status.DEPRECATED,),
    Status.DEPRECATED: (Status.ACTIVE, Status.RETIRED),
    Status.RETIRED: (),
}
"""The statuses that may follow a status. A retired version is never enforced again."""


class ContractLifecycle(Service):
    """A service that changes the status of published versions; their documents never change."""

    def change_status(
        self, contract_id: str, version: str, status: Status, by: Principal = ANONYMOUS
    ) -> ContractVersion:
        """Set the status of a version; setting its current status changes nothing.

        Raises NotFoundError, and ConflictError for an impossible transition. A promotion raises BreakingChange
        without the acknowledgements of consumers, and ContractError if the version does not compile. Raises
        NotApproved for a change that weakens the enforced contract.
        """
        at = self._now()
        if status is Status.ACTIVE:
            # Proofs take long, so they are made before the write transaction, which checks again.
            with suppress(ConflictError):
                self._database.read(lambda stores: _prove_promotion(stores, contract_id, version))

        def work(stores: Stores) -> ContractVersion:
            found = find_alive(stores, contract_id, version)
            if found.status == status:
                return found
            check_mode(stores, found.topic)
            if status not in TRANSITIONS[found.status]:
                raise ConflictError(_refused_step(found, status))
            if found.status == Status.DRAFT and status == Status.ACTIVE:
                contract = found.contract
                require_compiled(contract)
                registered = stores.subjects.of_contract(found.registry_id)
                if registered is None:
                    require_group(stores, contract)
                require_one_table(stores, contract, registered)
                check_publication(stores, contract)
                if registered is None:
                    add_subject_version(stores, found, at)
            with guard_weakening(stores, contract_id, by, at):
                stores.lifecycle.change_status(found.registry_id, status.value, at)
            _end_shadow(stores, found, status)
            action = f"contract.{found.status}-to-{status.value}"
            stores.audit.append(_change(found, by, action, at))
            return find_alive(stores, contract_id, version)

        return write_or_propose(self._database, work)

    def delete(self, contract_id: str, version: str, by: Principal = ANONYMOUS) -> ContractVersion:
        """Soft-delete a version: it is no longer enforced or listed, in both APIs.

        Raises NotFoundError, ConflictError for a version that other schemas refer to, NotApproved if a less strict
        version would be enforced.
        """
        at = self._now()

        def work(stores: Stores) -> ContractVersion:
            found = find_alive(stores, contract_id, version)
            check_mode(stores, found.topic)
            subject_version = stores.subjects.of_contract(found.registry_id)
            if subject_version is not None:
                subject, number = subject_version.subject, subject_version.number
                referring = referring_schemas(stores, subject, number, by)
                if referring:
                    raise ConflictError(
                        f"references to version {number} of {subject} exist, those of {referring}; delete them first"
                    )
                stores.subjects.set_deleted(subject, (number,), at)
            with guard_weakening(stores, contract_id, by, at):
                stores.lifecycle.delete(found.registry_id, found.status, at)
            stores.audit.append(_change(found, by, "contract.deleted", at, is_gone=True))
            return found

        return write_or_propose(self._database, work)

    def undelete(self, contract_id: str, version: str, by: Principal = ANONYMOUS) -> ContractVersion:
        """Restore a deleted version with the status that it had; a version that is not deleted is returned as it is.

        Raises NotFoundError, ConflictError if it is purged, NotApproved if that weakens the enforced contract.
        """
        at = self._now()

        def work(stores: Stores) -> ContractVersion:
            found = stores.contracts.version(contract_id, version)
            if found is None or found.deleted_at is None:
                return find_alive(stores, contract_id, version)
            if found.is_purged:
                raise ConflictError(
                    f"{contract_id} {version} was deleted for good; publish it under a new version"
                )
            check_mode(stores, found.topic)
            subject_version = stores.subjects.of_contract(found.registry_id)
            if subject_version is not None:
                stores.subjects.set_deleted(subject_version.subject, (subject_version.number,), None)
            with guard_weakening(stores, contract_id, by, at):
                stores.lifecycle.undelete(found.registry_id, found.status, at)
            stores.audit.append(_change(found, by, "contract.undeleted", at, is_new=True))
            return find_alive(stores, contract_id, version)

        return write_or_propose(self._database, work)

    def as_of(self, contract_id: str, at: datetime) -> ContractVersion:
        """Find the version that was enforced at an instant: the highest that was active or deprecated then.

        Raises NotFoundError.
        """
        with self._database.reading() as stores:
            registry_id = stores.lifecycle.highest_as_of(contract_id, ENFORCED, at)
            found = None if registry_id is None else stores.contracts.by_registry_id(registry_id)
            if found is None:
                topic_of_contract(stores, contract_id)
                raise NotFoundError(
                    f"no version of {contract_id} was active or deprecated at {at.isoformat()}"
                )
            if found.is_purged:
                raise NotFoundError(
                    f"{contract_id} {found.version} was enforced at {at.isoformat()}, and was deleted for good since"
                )
            return found


def require_compiled(contract: DataContract) -> None:
    """Require that a contract compiles. Raises ContractError."""
    problems = problems_of(contract)
    if problems:
        raise ContractError(problems)


def find_alive(stores: Stores, contract_id: str, version: str) -> ContractVersion:
    """Find a version that is not deleted. Raises NotFoundError."""
    found = stores.contracts.version(contract_id, version)
    if found is not None and found.deleted_at is None:
        return found
    if found is not None:
        advice = "" if found.is_purged else "; undelete it, or publish a new version"
        raise NotFoundError(f"{contract_id} {version} was deleted{advice}")
    highest = stores.contracts.highest(contract_id)
    if highest is None:
        raise unknown_contract(contract_id)
    raise NotFoundError(f"{contract_id} has no version {version}; the highest is {highest.version}")


def _prove_promotion(stores: Stores, contract_id: str, version: str) -> None:
    """Make the proofs of a promotion. Raises NotFoundError, ContractError, BreakingChange."""
    found = find_alive(stores, contract_id, version)
    if found.status == Status.DRAFT:
        require_compiled(found.contract)
        prepare_proofs(stores, found.contract)
        check_publication(stores, found.contract)


def _end_shadow(stores: Stores, found: ContractVersion, status: Status) -> None:
    """End the shadow of a version that is now enforced itself, or can never be enforced.

    The audit entry about the status covers this, too. The results of the shadow are kept.
    """
    control = stores.controls.find(found.contract_id)
    if control.shadow == found.version and status in {Status.ACTIVE, Status.RETIRED}:
        stores.controls.put(control.shadowed(None))


def check_mode(stores: Stores, topic: str) -> None:
    """Refuse a change of a contract whose subject is read-only. Raises ConflictError."""
    subject = subject_of(topic)
    if mode_in_scope(stores, subject) in {READONLY, READONLY_OVERRIDE}:
        raise ConflictError(f"the subject {subject} is in read-only mode; set its mode to READWRITE first")


def _refused_step(found: ContractVersion, status: Status) -> str:
    steps = TRANSITIONS[found.status]
    may = (
        f"it can become {' or '.join(steps)}"
        if steps
        else "a retired version stays so; publish a new version"
    )
    return f"{found.contract_id} {found.version} is {found.status} and cannot become {status.value}; {may}"


def _change(
    found: ContractVersion,
    by: Principal,
    action: str,
    at: datetime,
    *,
    is_gone: bool = False,
    is_new: bool = False,
) -> AuditedAction:
    before = None if is_new else found.fingerprint
    after = None if is_gone else found.fingerprint
    return AuditedAction(at, by.name, action, subject_of(found.topic), before, after)
