"""Storage of schemas and of the subject versions that use them. A context has each schema once, with its own id."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from sqlalchemy import ColumnElement, Row, Select, and_, delete, func, insert, literal, select, update
from sqlalchemy.orm import Session

from tidegate.contracts.errors import TidegateError
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
    """One stored schema.

    `key` is the primary key of its row; `id` is the schema id that clients see, unique in its context.
    `reference_list`, `metadata_json` and `rule_set_json` are JSON texts.
    """

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


@dataclass(frozen=True, slots=True)
class SubjectMember:
    """A version of a subject in brief: its schema, and `version` and `precedence` of its enforced contract version.

    Both are None if it has no contract version, or one that is not enforced.
    """

    schema_id: int
    metadata_json: str | None
    version: str | None
    precedence: bytes | None


MAX_ID = 2**31 - 1
"""The highest id that fits into the frame of a record. Source: Schema Registry, wire format."""
MAX_IMPORTED_ID = 2**30
"""The highest id, and the highest version, that can be imported: half of the numbers remain for those that follow."""


class IdsUsedUp(TidegateError):  # noqa: N818 - named for the state of the context
    """A context without a free schema id that fits into the frame of a record."""


class SchemaStore(Store):
    """The table of schemas and the ids that were assigned; an attribute `schemas` of Stores."""

    def by_guid(self, context: str, guid: str) -> StoredSchema | None:
        """Find a schema of a context by its GUID; None if the context does not have it."""
        return self._one(SchemaRow.context == context, SchemaRow.guid == guid)

    def by_id(self, context: str, schema_id: int) -> StoredSchema | None:
        """Find a schema of a context by its id; None if the context does not have it."""
        return self._one(SchemaRow.context == context, SchemaRow.id == schema_id)

    def with_id(self, schema_id: int) -> tuple[StoredSchema, ...]:
        """Find the schemas that have this id, at most one in each context, ordered by context."""
        query = select(SchemaRow).where(SchemaRow.id == schema_id).order_by(SchemaRow.context)
        return tuple(stored_schema(row) for row in self._session.scalars(query))

    def with_guid(self, guid: str) -> tuple[StoredSchema, ...]:
        """Find the schemas that have this GUID, at most one in each context, ordered by context."""
        query = select(SchemaRow).where(SchemaRow.guid == guid).order_by(SchemaRow.context)
        return tuple(stored_schema(row) for row in self._session.scalars(query))

    def spent_guid(self, context: str, schema_id: int) -> str | None:
        """Return the GUID of the permanently deleted schema that had this id, or None."""
        query = select(SpentIdRow.guid).where(SpentIdRow.context == context, SpentIdRow.id == schema_id)
        return self._session.scalar(query)

    def highest_id(self, context: str) -> int:
        """Return the highest id that was ever assigned in a context; 0 for none."""
        return (self._session.scalar(select(NextIdRow.id).where(NextIdRow.context == context)) or 1) - 1

    def add(
        self,
        row: SchemaRow,
        references: Sequence[tuple[str, int]],
        schema_id: int | None,
    ) -> StoredSchema:
        """Store a schema under `schema_id`; None: under the next id of its context. Raises IdsUsedUp.

        `references` are (subject, version) in their order in the schema.
        """
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
        """Delete a schema that no version uses any more. Its id is never assigned to another schema."""
        self._session.execute(delete(ReferenceRow).where(ReferenceRow.schema_key == schema.key))
        self._session.execute(delete(SchemaRow).where(SchemaRow.key == schema.key))
        if self.spent_guid(schema.context, schema.id) is None:
            self._session.execute(
                insert(SpentIdRow).values(context=schema.context, id=schema.id, guid=schema.guid)
            )

    def _take_id(self, context: str, wanted: int | None) -> int:
        """Return `wanted`, or for None the next id of a context, which is above all that were ever assigned."""
        row = self._session.get(NextIdRow, context, with_for_update=True)
        if row is None:
            row = NextIdRow(context=context, id=1)
            self._session.add(row)
        given = row.id if wanted is None else wanted
        if given > MAX_ID:
            raise IdsUsedUp(
                f"the context {context} has given its last schema id ({MAX_ID}); register the schema in another context, "
                "or import it under a free id"
            )
        row.id = max(row.id, given + 1)
        self._session.flush()
        return given

    def _one(self, *conditions: ColumnElement[bool]) -> StoredSchema | None:
        row = self._session.scalar(select(SchemaRow).where(*conditions))
        return None if row is None else stored_schema(row)


def stored_schema(row: SchemaRow) -> StoredSchema:
    """Return the schema that a row holds."""
    return StoredSchema(**fields_of(row, StoredSchema))


_CHUNK_VERSIONS = 200
_LISTED_AT_ONCE = 100


class Deleted(Enum):
    """A filter of versions by whether they are soft-deleted."""

    LEFT_OUT = "left out"
    SHOWN = "shown"
    ONLY = "only"


@dataclass(frozen=True, slots=True)
class SubjectVersion:
    """One version of a subject.

    `registry_id` is that of the contract version with this schema; None if the subject has no contract. `dialect` is the
    `$schema` that is assumed for a JSON Schema without one; None means 2020-12. `deleted_at` is set if it is
    soft-deleted.
    """

    subject: str
    number: int
    schema: StoredSchema
    registry_id: int | None
    created_at: datetime
    deleted_at: datetime | None = None
    dialect: str | None = None


class SubjectStore:
    """The table of the versions of subjects; an attribute `subjects` of Stores."""

    def __init__(self, session: Session, schemas: SchemaStore) -> None:
        self._session = session
        self._schemas = schemas

    def add_version(self, version: SubjectVersion) -> SubjectVersion:
        """Store a new version of a subject, and return it."""
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
        """Delete a version permanently, and its schema if no other version uses it. Ignore an unknown version."""
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
        """Soft-delete versions at an instant; None restores them."""
        self._session.execute(
            update(SubjectVersionRow)
            .where(SubjectVersionRow.subject == subject, SubjectVersionRow.number.in_(numbers))
            .values(deleted_at=at)
        )

    def version(self, subject: str, number: int) -> SubjectVersion | None:
        """Find one version, soft-deleted or not."""
        return self._one(
            _select_versions().where(SubjectVersionRow.subject == subject, SubjectVersionRow.number == number)
        )

    def latest(self, subject: str) -> SubjectVersion | None:
        """Find the highest version that is not soft-deleted."""
        query = _select_versions().where(SubjectVersionRow.subject == subject, _by_deletion(Deleted.LEFT_OUT))
        return self._one(query.order_by(SubjectVersionRow.number.desc()).limit(1))

    def of_contract(self, registry_id: int) -> SubjectVersion | None:
        """Find the subject version of a contract version."""
        return self._one(_select_versions().where(SubjectVersionRow.registry_id == registry_id))

    def members(self, subject: str, statuses: Sequence[str]) -> Iterator[SubjectMember]:
        """Yield all versions of a subject, soft-deleted ones too, with their contract version if in `statuses`."""
        is_enforced = and_(
            VersionRow.registry_id == SubjectVersionRow.registry_id,
            VersionRow.status.in_(statuses),
            VersionRow.deleted_at.is_(None),
        )
        query = (
            select(SchemaRow.id, SchemaRow.metadata_json, VersionRow.version, VersionRow.precedence)
            .select_from(SubjectVersionRow)
            .join(SchemaRow, SchemaRow.key == SubjectVersionRow.schema_key)
            .outerjoin(VersionRow, is_enforced)
            .where(SubjectVersionRow.subject == subject)
        )
        return (SubjectMember(*row) for row in self._session.execute(query))

    def has_property(self, subject: str, name: str) -> bool:
        """Return whether the metadata of any version of a subject, soft-deleted or not, may contain a property.

        Searches the JSON text, so a tag or a value of that name counts too.
        """
        query = select(SubjectVersionRow.number).join(
            SchemaRow, SchemaRow.key == SubjectVersionRow.schema_key
        )
        named = SchemaRow.metadata_json.contains(json.dumps(name), autoescape=True)
        found = self._session.scalar(query.where(SubjectVersionRow.subject == subject, named).limit(1))
        return found is not None

    def metadata(self) -> Iterator[tuple[str, str | None]]:
        """Yield each subject with the metadata of its versions, soft-deleted ones too, each once."""
        query = select(SubjectVersionRow.subject, SchemaRow.metadata_json).distinct()
        rows = self._session.execute(query.where(SchemaRow.key == SubjectVersionRow.schema_key))
        return ((row.subject, row.metadata_json) for row in rows)

    def unlinked_contracts(self) -> tuple[int, ...]:
        """List the registry ids of the contract versions without a subject version, except drafts and purged ones."""
        linked = select(SubjectVersionRow.registry_id).where(SubjectVersionRow.registry_id.is_not(None))
        query = select(VersionRow.registry_id).where(
            VersionRow.status != "draft",
            VersionRow.is_purged.is_(False),
            VersionRow.registry_id.not_in(linked),
        )
        return tuple(self._session.scalars(query.order_by(VersionRow.registry_id)))

    def numbers(self, subject: str, deleted: Deleted) -> tuple[int, ...]:
        """List the version numbers of a subject, lowest first."""
        query = select(SubjectVersionRow.number).where(
            SubjectVersionRow.subject == subject, _by_deletion(deleted)
        )
        return tuple(self._session.scalars(query.order_by(SubjectVersionRow.number)))

    def highest_number(self, subject: str) -> int:
        """Return the highest number of a subject's versions, soft-deleted ones included; 0 for none."""
        query = select(func.max(SubjectVersionRow.number)).where(SubjectVersionRow.subject == subject)
        return self._session.scalar(query) or 0

    def alive(self, subject: str) -> tuple[int, int]:
        """Return (highest number, count) of the versions that are not soft-deleted; (0, 0) for none."""
        query = select(func.coalesce(func.max(SubjectVersionRow.number), 0), func.count())
        found = self._session.execute(
            query.where(SubjectVersionRow.subject == subject, _by_deletion(Deleted.LEFT_OUT))
        )
        highest, count = found.one()
        return highest, count

    def newest_first(self, subject: str) -> Iterator[SubjectVersion]:
        """Yield the versions of a subject that are not soft-deleted, highest first; read 200 at a time."""
        below: int | None = None
        while True:
            query = _select_versions().where(
                SubjectVersionRow.subject == subject, _by_deletion(Deleted.LEFT_OUT)
            )
            if below is not None:
                query = query.where(SubjectVersionRow.number < below)
            found = self._all(query.order_by(SubjectVersionRow.number.desc()).limit(_CHUNK_VERSIONS))
            yield from found
            if len(found) < _CHUNK_VERSIONS:
                return
            below = found[-1].number

    def find(
        self, subject: str, *, deleted: Deleted, guid: str | None = None, text_hash: str | None = None, normal_hash: str | None = None
    ) -> SubjectVersion | None:  # fmt: skip
        """Find the highest version of a subject whose schema has this GUID, text hash and normal hash (None: any)."""
        conditions = [
            column == value
            for column, value in (
                (SchemaRow.guid, guid),
                (SchemaRow.text_hash, text_hash),
                (SchemaRow.normal_hash, normal_hash),
            )
            if value is not None
        ]
        query = _select_versions().where(
            SubjectVersionRow.subject == subject, _by_deletion(deleted), *conditions
        )
        return self._one(query.order_by(SubjectVersionRow.number.desc()).limit(1))

    def with_text(self, subject: str, text_hash: str, deleted: Deleted) -> tuple[SubjectVersion, ...]:
        """List the versions of a subject whose schemas have this hash of their text, highest first."""
        query = _select_versions().where(
            SubjectVersionRow.subject == subject, SchemaRow.text_hash == text_hash, _by_deletion(deleted)
        )
        return self._all(query.order_by(SubjectVersionRow.number.desc()))

    def of_schema(self, schema: StoredSchema, deleted: Deleted) -> tuple[tuple[str, int], ...]:
        """List (subject, version number) of all versions with a schema, ordered by both."""
        query = (
            select(SubjectVersionRow.subject, SubjectVersionRow.number)
            .where(SubjectVersionRow.schema_key == schema.key, _by_deletion(deleted))
            .order_by(SubjectVersionRow.subject, SubjectVersionRow.number)
        )
        return tuple((subject, number) for subject, number in self._session.execute(query))

    def dialect_of(self, schema: StoredSchema) -> str | None:
        """Return the dialect of the oldest version with a schema; the schema can be read in it."""
        query = select(SubjectVersionRow.dialect).where(SubjectVersionRow.schema_key == schema.key)
        return self._session.scalar(query.order_by(SubjectVersionRow.key).limit(1))

    def referenced_by(
        self, subject: str, number: int, visible: Sequence[str] | None = None
    ) -> tuple[int, ...]:
        """List the ids of the schemas that refer to a version, if a version that uses them is not soft-deleted.

        With `visible`, only those of subjects whose names begin with one of these prefixes.
        """
        query = (
            select(SchemaRow.id)
            .join(ReferenceRow, ReferenceRow.schema_key == SchemaRow.key)
            .join(SubjectVersionRow, SubjectVersionRow.schema_key == SchemaRow.key)
            .where(
                ReferenceRow.subject == subject,
                ReferenceRow.version == number,
                _by_deletion(Deleted.LEFT_OUT),
            )
            .distinct()
            .order_by(SchemaRow.id)
        )
        if visible is not None:
            query = query.where(begins_with(SubjectVersionRow.subject, visible))
        return tuple(self._session.scalars(query))

    def subjects(
        self, context: str | None, prefix: str, deleted: Deleted, visible: Sequence[str] | None
    ) -> Select[str]:
        """Return an ordered query for the names of subjects that begin with a prefix, in a context (None: in all).

        With `visible`, only names that begin with one of these prefixes. With Deleted.ONLY, only subjects whose versions
        are all soft-deleted. Run it with `page`.
        """
        query = select(SubjectVersionRow.subject).where(*_by_name(context, prefix))
        if visible is not None:
            query = query.where(begins_with(SubjectVersionRow.subject, visible))
        if deleted is Deleted.LEFT_OUT:
            query = query.where(_by_deletion(deleted))
        query = query.group_by(SubjectVersionRow.subject)
        if deleted is Deleted.ONLY:
            query = query.having(func.count() == func.count(SubjectVersionRow.deleted_at))
        return query.order_by(SubjectVersionRow.subject)

    def page(self, query: Select[str], offset: int, limit: int | None) -> tuple[str, ...]:
        """Run a query of `subjects`; return at most `limit` names from `offset` on."""
        return tuple(self._session.scalars(query.offset(offset).limit(limit)))

    def listed(
        self, context: str | None, prefix: str, deleted: Deleted, visible: Sequence[str] | None, *, latest_only: bool
    ) -> Generator[SubjectVersion, None, None]:  # fmt: skip
        """Yield versions ordered by subject and number; with `latest_only` only the highest of each subject.

        With `visible`, only those of subjects whose names begin with one of these prefixes. Close the generator before the transaction ends: it holds a cursor of the database.
        """
        query = _select_versions().where(*_by_name(context, prefix), _by_deletion(deleted))
        if visible is not None:
            query = query.where(begins_with(SubjectVersionRow.subject, visible))
        if latest_only:
            newest = (
                select(SubjectVersionRow.subject, func.max(SubjectVersionRow.number).label("number"))
                .where(_by_deletion(deleted))
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
        # In chunks: a reader of the first page must not hold the schemas of thousands of subjects in memory.
        with self._session.execute(ordered, execution_options={"yield_per": _LISTED_AT_ONCE}) as rows:
            for row in rows:
                yield _version(row)

    def contexts(self, visible: Sequence[str] | None = None) -> tuple[str, ...]:
        """List the contexts that have a version of a subject, soft-deleted or not, ordered.

        With `visible`, a subject whose name begins with one of these prefixes.
        """
        query = select(SubjectVersionRow.context).distinct().order_by(SubjectVersionRow.context)
        if visible is not None:
            query = query.where(begins_with(SubjectVersionRow.subject, visible))
        return tuple(self._session.scalars(query))

    def _one(self, query: Select[SubjectVersionRow, SchemaRow]) -> SubjectVersion | None:
        row = self._session.execute(query).first()
        return None if row is None else _version(row)

    def _all(self, query: Select[SubjectVersionRow, SchemaRow]) -> tuple[SubjectVersion, ...]:
        return tuple(_version(row) for row in self._session.execute(query))


def _select_versions() -> Select[SubjectVersionRow, SchemaRow]:
    return select(SubjectVersionRow, SchemaRow).join(SchemaRow, SchemaRow.key == SubjectVersionRow.schema_key)


def _by_deletion(deleted: Deleted) -> ColumnElement[bool]:
    """Filter versions by whether they are soft-deleted."""
    match deleted:
        case Deleted.LEFT_OUT:
            return SubjectVersionRow.deleted_at.is_(None)
        case Deleted.ONLY:
            return SubjectVersionRow.deleted_at.is_not(None)
        case Deleted.SHOWN:
            return literal(True)


def _by_name(context: str | None, prefix: str) -> list[ColumnElement[bool]]:
    """Filter subjects by context and by a prefix of their name.

    The prefix is compared as a range of strings, because LIKE ignores case on SQLite.
    """
    conditions = [] if context is None else [SubjectVersionRow.context == context]
    if prefix:
        conditions.append(SubjectVersionRow.subject >= prefix)
        if (above := _next_string(prefix)) is not None:
            conditions.append(SubjectVersionRow.subject < above)
    return conditions


def _next_string(prefix: str) -> str | None:
    """Return the lowest string above all that begin with a prefix; None if there is none."""
    for index in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[index]) + 1
        if code == 0xD800:  # skip the surrogates: no text can contain one
            code = 0xE000
        if code <= 0x10FFFF:
            return prefix[:index] + chr(code)
    return None


def _version(found: Row[SubjectVersionRow, SchemaRow]) -> SubjectVersion:
    row, schema = found
    return SubjectVersion(**fields_of(row, SubjectVersion, schema=stored_schema(schema)))
