"""Storage of the settings of subjects, and of the associations of resources."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import delete, select

from tidegate.gateway.storage.tables import AssociationRow, SettingRow, Store, fields_of


@dataclass(frozen=True, slots=True)
class Setting:
    """The settings of one scope; `config` is JSON. None: not set."""

    config: str | None
    mode: str | None


@dataclass(frozen=True, slots=True)
class StoredAssociation:
    """A subject that a resource uses; `lifecycle` is STRONG (the resource owns the subject) or WEAK."""

    resource_id: str
    resource_type: str
    association_type: str
    resource_name: str
    resource_namespace: str
    subject: str
    guid: str
    lifecycle: str
    frozen: bool


class SettingStore(Store):
    """Settings by scope, as `stores.settings`."""

    def setting(self, scope: str) -> Setting:
        """Return the settings of a scope itself; both fields are None if nothing is set."""
        row = self._session.get(SettingRow, scope)
        return Setting(None, None) if row is None else Setting(row.config, row.mode)

    def put_config(self, scope: str, config: str | None) -> None:
        """Set the config of a scope; None deletes it."""
        self._row(scope).config = config
        self._tidy(scope)

    def put_mode(self, scope: str, mode: str | None) -> None:
        """Set the mode of a scope; None deletes it."""
        self._row(scope).mode = mode
        self._tidy(scope)

    def _row(self, scope: str) -> SettingRow:
        row = self._session.get(SettingRow, scope)
        if row is None:
            row = SettingRow(scope=scope, config=None, mode=None)
            self._session.add(row)
        return row

    def _tidy(self, scope: str) -> None:
        self._session.flush()
        self._session.execute(
            delete(SettingRow).where(
                SettingRow.scope == scope, SettingRow.config.is_(None), SettingRow.mode.is_(None)
            )
        )
        self._session.expire_all()


class AssociationStore(Store):
    """Associations of resources with subjects, as `stores.associations`."""

    def find(
        self,
        *,
        name: str | None = None,
        namespace: str | None = None,
        resource_id: str | None = None,
        subject: str | None = None,
    ) -> tuple[StoredAssociation, ...]:
        """List the associations that match the given values (None: any), oldest first."""
        columns = (
            (AssociationRow.resource_name, name),
            (AssociationRow.resource_namespace, namespace),
            (AssociationRow.resource_id, resource_id),
            (AssociationRow.subject, subject),
        )
        query = select(AssociationRow).where(
            *(column == value for column, value in columns if value is not None)
        )
        rows = self._session.scalars(query.order_by(AssociationRow.key))
        return tuple(StoredAssociation(**fields_of(row, StoredAssociation)) for row in rows)

    def put(self, association: StoredAssociation) -> None:
        """Store an association, replacing the resource's association of this type."""
        self.remove(association)
        self._session.add(AssociationRow(**fields_of(association, StoredAssociation)))
        self._session.flush()

    def remove(self, association: StoredAssociation) -> None:
        """Remove the resource's association of this type, if it exists."""
        self._session.execute(
            delete(AssociationRow).where(
                AssociationRow.resource_id == association.resource_id,
                AssociationRow.resource_type == association.resource_type,
                AssociationRow.association_type == association.association_type,
            )
        )
