"""Where schemas are kept: once in each context, by id and GUID."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, delete, insert, select
from sqlalchemy.orm import Session

from tidegate.gateway.storage.subject_tables import NextIdRow, ReferenceRow, SchemaRow, SpentIdRow
from tidegate.gateway.storage.tables import fields_of


@dataclass(frozen=True, slots=True)
class NewSchema:
    """A schema to keep. `reference_list`, `metadata_json` and `rule_set_json` are JSON; hashes find equal texts."""

    context: str
    guid: str
    schema_type: str
    text: str
    reference_list: str
    metadata_json: str | None
    rule_set_json: str | None
    text_hash: str
    normal_hash: str
    references: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """A schema as it is kept; see NewSchema. `id` is its number in its context."""

    key: int
    context: str
    id: int
    guid: str
    schema_type: str
    text: str
    reference_list: str
    metadata_json: str | None
    rule_set_json: str | None
    created_at: datetime


class SchemaStore:
    """Schemas and their ids, as `stores.schemas`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def by_guid(self, context: str, guid: str) -> StoredSchema | None:
        """Find a schema of a context by its GUID."""
        return self._one(SchemaRow.context == context, SchemaRow.guid == guid)

    def by_id(self, context: str, schema_id: int) -> StoredSchema | None:
        """Find a schema of a context by its id."""
        return self._one(SchemaRow.context == context, SchemaRow.id == schema_id)

    def with_id(self, schema_id: int) -> tuple[StoredSchema, ...]:
        """Find the schemas that have an id, one a context, by context."""
        query = select(SchemaRow).where(SchemaRow.id == schema_id).order_by(SchemaRow.context)
        return tuple(stored_schema(row) for row in self._session.scalars(query))

    def with_guid(self, guid: str) -> tuple[StoredSchema, ...]:
        """Find the schemas that have a GUID, one a context, by context."""
        query = select(SchemaRow).where(SchemaRow.guid == guid).order_by(SchemaRow.context)
        return tuple(stored_schema(row) for row in self._session.scalars(query))

    def spent_guid(self, context: str, schema_id: int) -> str | None:
        """Return the GUID of the schema that had an id and was deleted for good."""
        query = select(SpentIdRow.guid).where(SpentIdRow.context == context, SpentIdRow.id == schema_id)
        return self._session.scalar(query)

    def highest_id(self, context: str) -> int:
        """Return the highest id that a context ever gave, 0 for none."""
        return (self._session.scalar(select(NextIdRow.id).where(NextIdRow.context == context)) or 1) - 1

    def add(self, new: NewSchema, schema_id: int | None, at: datetime) -> StoredSchema:
        """Keep a schema, under the next id of its context or under the one that is given."""
        given = self._take_id(new.context, schema_id)
        row = SchemaRow(
            id=given,
            created_at=at,
            **{name: getattr(new, name) for name in NewSchema.__slots__ if name != "references"},
        )
        self._session.add(row)
        self._session.flush()
        if new.references:
            self._session.execute(
                insert(ReferenceRow),
                [
                    {"schema_key": row.key, "position": position, "subject": subject, "version": version}
                    for position, (subject, version) in enumerate(new.references)
                ],
            )
        return stored_schema(row)

    def remove(self, schema: StoredSchema) -> None:
        """Remove a schema that no version has any more. Its id is spent: no other schema will have it."""
        self._session.execute(delete(ReferenceRow).where(ReferenceRow.schema_key == schema.key))
        self._session.execute(delete(SchemaRow).where(SchemaRow.key == schema.key))
        if self.spent_guid(schema.context, schema.id) is None:
            self._session.execute(
                insert(SpentIdRow).values(context=schema.context, id=schema.id, guid=schema.guid)
            )

    def _take_id(self, context: str, wanted: int | None) -> int:
        row = self._session.get(NextIdRow, context, with_for_update=True)
        if row is None:
            row = NextIdRow(context=context, id=1)
            self._session.add(row)
        given = row.id if wanted is None else wanted
        row.id = max(row.id, given + 1)
        self._session.flush()
        return given

    def _one(self, *conditions: ColumnElement[bool]) -> StoredSchema | None:
        row = self._session.scalar(select(SchemaRow).where(*conditions))
        return None if row is None else stored_schema(row)


def stored_schema(row: SchemaRow) -> StoredSchema:
    """Read a row."""
    return StoredSchema(**fields_of(row, StoredSchema))
