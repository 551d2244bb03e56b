"""Store schemas, once in each context, and the versions of subjects that use them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from sqlalchemy import ColumnElement, Row, Select, and_, delete, func, insert, literal, select, update
from sqlalchemy.orm import Session

from tidegate.gateway.storage.access import begins_with
from tidegate.gateway.storage.tables import (
    NextIdRow,
    ReferenceRow,
    SchemaRow,
    SpentIdRow,
    Store,
    SubjectVersionRow,
    VersionRow,
    fields_of,
)


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """A schema as it is kept. `id` is its number in its context; `reference_list`, `metadata_json` and `rule_set_json` are JSON."""

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


class SchemaStore(Store):
    """Schemas and their ids, as `stores.schemas`."""

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

    def add(
        self,
        row: SchemaRow,
        references: Sequence[tuple[str, int]],
        schema_id: int | None,
    ) -> StoredSchema:
        """Keep a schema and what it refers to, under the next id of its context or under the one that is given."""
        row.id = self._take_id(row.context, schema_id)
        self._session.add(row)
        self._session.flush()
        if references:
            self._session.execute(
                insert(ReferenceRow),
                [
                    {"schema_key": row.key, "position": position, "subject": subject, "version": version}
                    for position, (subject, version) in enumerate(references)
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


_CHUNK = 200


class Deleted(Enum):
    """Which versions to list, by whether they are soft-deleted."""

    LEFT_OUT = "left out"
    SHOWN = "shown"
    ONLY = "only"


@dataclass(frozen=True, slots=True)
class SubjectVersion:
    """One version of a subject. `registry_id` names the contract version that it is, if it is one.

    `dialect` is the `$schema` by which its JSON Schema is read if that names none; None is 2020-12.
    """

    subject: str
    number: int
    schema: StoredSchema
    registry_id: int | None
    created_at: datetime
    deleted_at: datetime | None = None
    dialect: str | None = None


class SubjectStore:
    """Versions of subjects, as `stores.subjects`."""

    def __init__(self, session: Session, schemas: SchemaStore) -> None:
        self._session = session
        self._schemas = schemas

    def add_version(self, version: SubjectVersion) -> SubjectVersion:
        """Keep a new version of a subject."""
        self._session.execute(
            insert(SubjectVersionRow).values(
                context=version.schema.context,
                subject=version.subject,
                number=version.number,
                schema_key=version.schema.key,
                registry_id=version.registry_id,
                created_at=version.created_at,
                dialect=version.dialect,
            )
        )
        return version

    def remove_version(self, subject: str, number: int) -> None:
        """Remove a version for good, and its schema with it when no other version has that."""
        found = self.version(subject, number)
        if found is None:
            return
        self._session.execute(
            delete(SubjectVersionRow).where(
                SubjectVersionRow.subject == subject, SubjectVersionRow.number == number
            )
        )
        others = select(func.count()).where(SubjectVersionRow.schema_key == found.schema.key)
        if not self._session.scalar(others):
            self._schemas.remove(found.schema)

    def set_deleted(self, subject: str, numbers: Sequence[int], at: datetime | None) -> None:
        """Soft-delete versions at an instant, or with None bring them back."""
        self._session.execute(
            update(SubjectVersionRow)
            .where(SubjectVersionRow.subject == subject, SubjectVersionRow.number.in_(numbers))
            .values(deleted_at=at)
        )

    def version(self, subject: str, number: int) -> SubjectVersion | None:
        """Find one version, soft-deleted or not."""
        return self._one(
            _versions().where(SubjectVersionRow.subject == subject, SubjectVersionRow.number == number)
        )

    def latest(self, subject: str) -> SubjectVersion | None:
        """Find the highest version that is not soft-deleted."""
        query = _versions().where(SubjectVersionRow.subject == subject, _is(Deleted.LEFT_OUT))
        return self._one(query.order_by(SubjectVersionRow.number.desc()).limit(1))

    def of_contract(self, registry_id: int) -> SubjectVersion | None:
        """Find the subject version that a contract version is."""
        return self._one(_versions().where(SubjectVersionRow.registry_id == registry_id))

    def has_property(self, subject: str, name: str) -> bool:
        """Return whether the metadata of some version of a subject, soft-deleted or not, have a property."""
        query = select(SubjectVersionRow.number).join(
            SchemaRow, SchemaRow.key == SubjectVersionRow.schema_key
        )
        named = SchemaRow.metadata_json.contains(json.dumps(name), autoescape=True)
        found = self._session.scalar(query.where(SubjectVersionRow.subject == subject, named).limit(1))
        return found is not None

    def unlinked_contracts(self) -> tuple[int, ...]:
        """List the contract versions, drafts left out, that are no version of a subject yet."""
        linked = select(SubjectVersionRow.registry_id).where(SubjectVersionRow.registry_id.is_not(None))
        query = select(VersionRow.registry_id).where(
            VersionRow.status != "draft",
            VersionRow.is_purged.is_(False),
            VersionRow.registry_id.not_in(linked),
        )
        return tuple(self._session.scalars(query.order_by(VersionRow.registry_id)))

    def numbers(self, subject: str, deleted: Deleted) -> tuple[int, ...]:
        """List the version numbers of a subject, lowest first."""
        query = select(SubjectVersionRow.number).where(SubjectVersionRow.subject == subject, _is(deleted))
        return tuple(self._session.scalars(query.order_by(SubjectVersionRow.number)))

    def highest_number(self, subject: str) -> int:
        """Return the highest number of a subject's versions, soft-deleted ones included; 0 for none."""
        query = select(func.max(SubjectVersionRow.number)).where(SubjectVersionRow.subject == subject)
        return self._session.scalar(query) or 0

    def alive(self, subject: str) -> tuple[int, int]:
        """Return the highest number of the versions that are not soft-deleted, and how many there are."""
        query = select(func.coalesce(func.max(SubjectVersionRow.number), 0), func.count())
        found = self._session.execute(
            query.where(SubjectVersionRow.subject == subject, _is(Deleted.LEFT_OUT))
        )
        highest, count = found.one()
        return highest, count

    def newest_first(self, subject: str) -> Iterator[SubjectVersion]:
        """Yield the versions of a subject that are not soft-deleted, highest first, some at a time."""
        below: int | None = None
        while True:
            query = _versions().where(SubjectVersionRow.subject == subject, _is(Deleted.LEFT_OUT))
            if below is not None:
                query = query.where(SubjectVersionRow.number < below)
            found = self._all(query.order_by(SubjectVersionRow.number.desc()).limit(_CHUNK))
            yield from found
            if len(found) < _CHUNK:
                return
            below = found[-1].number

    def find(
        self, subject: str, *, deleted: Deleted, guid: str | None = None, text: str | None = None, normal: str | None = None
    ) -> SubjectVersion | None:  # fmt: skip
        """Find the highest version of a subject whose schema has this GUID, or this hash of text or normal text."""
        conditions = [
            column == value
            for column, value in (
                (SchemaRow.guid, guid),
                (SchemaRow.text_hash, text),
                (SchemaRow.normal_hash, normal),
            )
            if value is not None
        ]
        query = _versions().where(SubjectVersionRow.subject == subject, _is(deleted), *conditions)
        return self._one(query.order_by(SubjectVersionRow.number.desc()).limit(1))

    def with_text(self, subject: str, text_hash: str, deleted: Deleted) -> tuple[SubjectVersion, ...]:
        """List the versions of a subject whose schemas have this hash of their text, highest first."""
        query = _versions().where(
            SubjectVersionRow.subject == subject, SchemaRow.text_hash == text_hash, _is(deleted)
        )
        return self._all(query.order_by(SubjectVersionRow.number.desc()))

    def of_schema(self, schema: StoredSchema, deleted: Deleted) -> tuple[tuple[str, int], ...]:
        """List the subjects and versions that have a schema, in their order."""
        query = (
            select(SubjectVersionRow.subject, SubjectVersionRow.number)
            .where(SubjectVersionRow.schema_key == schema.key, _is(deleted))
            .order_by(SubjectVersionRow.subject, SubjectVersionRow.number)
        )
        return tuple((subject, number) for subject, number in self._session.execute(query))

    def dialect_of(self, schema: StoredSchema) -> str | None:
        """Return the dialect of a version that has a schema: one in which the schema can be read."""
        query = select(SubjectVersionRow.dialect).where(SubjectVersionRow.schema_key == schema.key)
        return self._session.scalar(query.order_by(SubjectVersionRow.key).limit(1))

    def referenced_by(self, subject: str, number: int) -> tuple[int, ...]:
        """List the ids of the schemas, of any version that is not soft-deleted, that refer to a version."""
        query = (
            select(SchemaRow.id)
            .join(ReferenceRow, ReferenceRow.schema_key == SchemaRow.key)
            .join(SubjectVersionRow, SubjectVersionRow.schema_key == SchemaRow.key)
            .where(ReferenceRow.subject == subject, ReferenceRow.version == number, _is(Deleted.LEFT_OUT))
            .distinct()
            .order_by(SchemaRow.id)
        )
        return tuple(self._session.scalars(query))

    def subjects(
        self, context: str | None, prefix: str, deleted: Deleted, visible: Sequence[str] | None
    ) -> Select[str]:
        """Return the query of the subjects of a context (None: of all) whose names begin with a prefix.

        `visible` holds them to names that begin with one of these, None to none.
        """
        query = select(SubjectVersionRow.subject).where(*_named(context, prefix))
        if visible is not None:
            query = query.where(begins_with(SubjectVersionRow.subject, visible))
        if deleted is Deleted.LEFT_OUT:
            query = query.where(_is(deleted))
        query = query.group_by(SubjectVersionRow.subject)
        if deleted is Deleted.ONLY:
            query = query.having(func.count() == func.count(SubjectVersionRow.deleted_at))
        return query.order_by(SubjectVersionRow.subject)

    def page(self, query: Select[str], offset: int, limit: int | None) -> tuple[str, ...]:
        """Run a query of names, from `offset` on, at most `limit` of them."""
        return tuple(self._session.scalars(query.offset(offset).limit(limit)))

    def listed(
        self, context: str | None, prefix: str, deleted: Deleted, *, latest_only: bool
    ) -> Iterable[SubjectVersion]:
        """List versions by subject and number; with `latest_only` the highest of each subject."""
        query = _versions().where(*_named(context, prefix), _is(deleted))
        if latest_only:
            newest = (
                select(SubjectVersionRow.subject, func.max(SubjectVersionRow.number).label("number"))
                .where(_is(deleted))
                .group_by(SubjectVersionRow.subject)
                .subquery()
            )
            query = query.join(
                newest,
                and_(
                    newest.c.subject == SubjectVersionRow.subject, newest.c.number == SubjectVersionRow.number
                ),
            )
        ordered = query.order_by(SubjectVersionRow.subject, SubjectVersionRow.number)
        return (_version(row) for row in self._session.execute(ordered))

    def contexts(self) -> tuple[str, ...]:
        """List the contexts in which anything was ever registered and that hold something now, in their order."""
        query = select(SubjectVersionRow.context).distinct().order_by(SubjectVersionRow.context)
        return tuple(self._session.scalars(query))

    def _one(self, query: Select[SubjectVersionRow, SchemaRow]) -> SubjectVersion | None:
        row = self._session.execute(query).first()
        return None if row is None else _version(row)

    def _all(self, query: Select[SubjectVersionRow, SchemaRow]) -> tuple[SubjectVersion, ...]:
        return tuple(_version(row) for row in self._session.execute(query))


def _versions() -> Select[SubjectVersionRow, SchemaRow]:
    return select(SubjectVersionRow, SchemaRow).join(SchemaRow, SchemaRow.key == SubjectVersionRow.schema_key)


def _is(deleted: Deleted) -> ColumnElement[bool]:
    match deleted:
        case Deleted.LEFT_OUT:
            return SubjectVersionRow.deleted_at.is_(None)
        case Deleted.ONLY:
            return SubjectVersionRow.deleted_at.is_not(None)
        case Deleted.SHOWN:
            return literal(True)


def _named(context: str | None, prefix: str) -> list[ColumnElement[bool]]:
    """Hold names to a context and a prefix, character by character: LIKE would not tell `A` from `a` on SQLite."""
    conditions = [] if context is None else [SubjectVersionRow.context == context]
    if prefix:
        above = _next_string(prefix)
        conditions.append(
            SubjectVersionRow.subject >= prefix
            if above is None
            else and_(SubjectVersionRow.subject >= prefix, SubjectVersionRow.subject < above)
        )
    return conditions


def _next_string(prefix: str) -> str | None:
    """Return the lowest string above all that begin with a prefix; None when there is none."""
    for index in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[index]) + 1
        if code == 0xD800:
            code = 0xE000
        if code <= 0x10FFFF:
            return prefix[:index] + chr(code)
    return None


def _version(found: Row[SubjectVersionRow, SchemaRow]) -> SubjectVersion:
    row, schema = found
    return SubjectVersion(**fields_of(row, SubjectVersion, schema=stored_schema(schema)))
