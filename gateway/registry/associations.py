"""Associations: which subject a resource, such as a topic, uses for its keys and its values."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from tidegate.gateway.access.principal import Principal
from tidegate.gateway.registry.registration import RegistrationOptions, SchemaRegistration
from tidegate.gateway.registry.schemas.entities import AssociationInfo, AssociationRequest
from tidegate.gateway.registry.schemas.errors import (
    frozen,
    invalid_association,
    no_active_version,
    no_association,
    resource_associated,
    subject_associated,
    subject_owned,
)
from tidegate.gateway.registry.schemas.names import context_of, subject_to_register
from tidegate.gateway.registry.subject_deletion import SubjectDeletion
from tidegate.gateway.storage.audit_chain import AuditedAction, content_hash
from tidegate.gateway.storage.database import Service
from tidegate.gateway.storage.sql import Stores
from tidegate.gateway.storage.subject_settings import StoredAssociation
from tidegate.gateway.storage.subjects import Deleted

STRONG, WEAK = LIFECYCLES = ("STRONG", "WEAK")
ANY_NAMESPACE = "-"


@dataclass(frozen=True, slots=True)
class AssociationFilter:
    """A filter of associations; None and () match all."""

    name: str | None = None
    namespace: str | None = None
    resource_id: str | None = None
    subject: str | None = None
    resource_type: str | None = None
    types: tuple[str, ...] = ()
    lifecycle: str | None = None
    context: str | None = None

    def lets_through(self, found: StoredAssociation) -> bool:
        """Return whether an association has the resource type, type, lifecycle and context of the filter."""
        return (
            (self.resource_type is None or self.resource_type == found.resource_type)
            and (not self.types or found.association_type in self.types)
            and (self.lifecycle is None or self.lifecycle.upper() == found.lifecycle)
            and (self.context is None or self.context == context_of(found.subject))
        )


class Associations(Service):
    """A service that stores and finds associations."""

    def find(self, wanted: AssociationFilter) -> tuple[StoredAssociation, ...]:
        """List associations, oldest first."""
        return self._database.read(lambda stores: _find(stores, wanted))

    def subject_of(self, request: AssociationRequest, info: AssociationInfo) -> str:
        """Return the associated subject: the given one, or `<resource>-<type>`. Raises Refused (42208, 42212)."""
        if info.association_type not in {"key", "value"}:
            raise invalid_association("associationType", f"it is key or value, not {info.association_type}")
        return subject_to_register(info.subject or f"{request.resource_name}-{info.association_type}")

    def put(
        self, request: AssociationRequest, *, replaces: bool, by: Principal, is_dry: bool = False
    ) -> tuple[StoredAssociation, ...]:
        """Associate subjects with a resource; a schema in the request is registered first.

        With `is_dry` the answer is the same, and nothing is stored. Raises the errors of a registration, and Refused
        with these codes: 40907 for a subject without a version, 40903 if the resource has another subject. 40904 and
        40905 mean that another resource has the subject, 40908 a change of a frozen association, 42212 an invalid
        one.
        """
        if not request.associations:
            raise invalid_association("associations", "the request has none")
        wanted = tuple((info, self._stored(request, info)) for info in request.associations)
        if is_dry and any(info.schema_ is not None for info, _ in wanted):
            advice = "a schema is not registered to try it; ask POST /compatibility about it, and leave it out here"
            raise invalid_association("dryRun", advice)
        registration = SchemaRegistration(self._database, self._now)
        for info, association in wanted:
            if info.schema_ is not None:
                registration.register(
                    association.subject, info.schema_, RegistrationOptions(by, normalize=info.normalize)
                )
        at = self._now()

        with self._database.writing() as stores:
            kept = []
            for _, association in wanted:
                change = AuditedAction(at, by.name, "association.made", association.subject)
                kept.append(_put(stores, association, change, replaces=replaces))
            if is_dry:
                stores.undo()
        return tuple(kept)

    def delete(
        self, wanted: AssociationFilter, *, cascade: bool, by: Principal, is_dry: bool = False
    ) -> None:
        """Remove associations; with `cascade`, soft-delete the subjects that belong to the resource (STRONG).

        Subjects are deleted first: if one cannot be deleted yet, its association stays, and the request can be
        repeated. With `is_dry` nothing is removed. Raises the errors of a deletion, and Refused: 40410 if no association
        matches, 40908 for a frozen one without `cascade`, because it is only removed with its resource.
        """
        found = self._database.read(lambda stores: _removable(stores, wanted, cascade=cascade))
        if is_dry:
            return
        deletion = SubjectDeletion(self._database, self._now)
        for one in found:
            if cascade and one.lifecycle == STRONG and self._is_alive(one.subject):
                deletion.delete_subject(one.subject, permanent=False, by=by)
        at = self._now()
        with self._database.writing() as stores:
            for one in (each for each in _find(stores, wanted) if each in found):
                stores.associations.remove(one)
                stores.audit.append(
                    AuditedAction(at, by.name, "association.removed", one.subject, _hash(one))
                )

    def _is_alive(self, subject: str) -> bool:
        return bool(self._database.read(lambda stores: stores.subjects.alive(subject)[1]))

    def _stored(self, request: AssociationRequest, info: AssociationInfo) -> StoredAssociation:
        lifecycle = (info.lifecycle or (STRONG if info.schema_ is not None else WEAK)).upper()
        if lifecycle not in LIFECYCLES:
            raise invalid_association("lifecycle", f"it is STRONG or WEAK, not {info.lifecycle}")
        texts = (
            request.resource_id,
            request.resource_name,
            request.resource_namespace,
            request.resource_type,
        )
        if any("\0" in text for text in texts):
            raise invalid_association("resourceName", "a name holds no NUL")
        return StoredAssociation(
            resource_id=request.resource_id,
            resource_type=request.resource_type,
            association_type=info.association_type,
            resource_name=request.resource_name,
            resource_namespace=request.resource_namespace,
            subject=self.subject_of(request, info),
            guid=str(uuid.uuid4()),
            lifecycle=lifecycle,
            frozen=bool(info.frozen),
        )


def _put(
    stores: Stores, association: StoredAssociation, change: AuditedAction, *, replaces: bool
) -> StoredAssociation:
    if not stores.subjects.numbers(association.subject, Deleted.LEFT_OUT):
        raise no_active_version(association.subject)
    held = next(
        (
            one
            for one in stores.associations.find(resource_id=association.resource_id)
            if one.resource_type == association.resource_type
            and one.association_type == association.association_type
        ),
        None,
    )
    if held is not None:
        if _content(held) == _content(association):
            return held
        if held.frozen:
            raise frozen(held.association_type, held.subject)
        if not replaces:
            raise resource_associated(held.association_type, held.resource_id)
    _check_owner(stores, association)
    stores.associations.put(association)
    before = None if held is None else _hash(held)
    stores.audit.append(
        AuditedAction(change.at, change.who, change.action, change.subject, before, _hash(association))
    )
    return association


def _check_owner(stores: Stores, association: StoredAssociation) -> None:
    """Check that a subject with a strong association has no other resource. Raises Refused (40904, 40905)."""
    for other in stores.associations.find(subject=association.subject):
        if other.resource_id == association.resource_id and other.resource_type == association.resource_type:
            continue
        if other.lifecycle == STRONG:
            raise subject_owned(association.subject)
        if association.lifecycle == STRONG:
            raise subject_associated(association.subject)


def _find(stores: Stores, wanted: AssociationFilter) -> tuple[StoredAssociation, ...]:
    namespace = None if wanted.namespace == ANY_NAMESPACE else wanted.namespace
    found = stores.associations.find(
        name=wanted.name, namespace=namespace, resource_id=wanted.resource_id, subject=wanted.subject
    )
    return tuple(one for one in found if wanted.lets_through(one))


def _removable(stores: Stores, wanted: AssociationFilter, *, cascade: bool) -> tuple[StoredAssociation, ...]:
    found = _find(stores, wanted)
    if not found:
        raise no_association(wanted.resource_id or "")
    for one in found:
        if one.frozen and not cascade:
            raise frozen(one.association_type, one.subject)
    return found


def _content(found: StoredAssociation) -> tuple[object, ...]:
    return tuple(getattr(found, name) for name in StoredAssociation.__slots__ if name != "guid")


def _hash(found: StoredAssociation) -> str:
    return content_hash({name: getattr(found, name) for name in StoredAssociation.__slots__})
