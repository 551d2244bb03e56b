"""Look-up of subjects, their versions, and schemas by id and GUID."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from tidegate.gateway.registry.schema_content import metadata_of, parsed, references_of, rule_set_of
from tidegate.gateway.registry.schemas.avro_text import avro_text
from tidegate.gateway.registry.schemas.entities import AVRO, Reference
from tidegate.gateway.registry.schemas.errors import (
    invalid_version,
    schema_not_found,
    subject_not_found,
    version_not_found,
)
from tidegate.gateway.registry.schemas.json_schema import json_text, without_dialect
from tidegate.gateway.registry.schemas.names import (
    DEFAULT_CONTEXT,
    EVERY_CONTEXT,
    canonical,
    context_of,
    qualified,
    unqualified,
)
from tidegate.gateway.storage.database import Database
from tidegate.gateway.storage.sql import Stores
from tidegate.gateway.storage.subjects import Deleted, StoredSchema, SubjectVersion

LATEST = -1
_MAX_VERSION = 2**31

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page:
    """The requested part of a list; without a limit (None), the whole rest."""

    offset: int = 0
    limit: int | None = None

    @property
    def end(self) -> int | None:
        """Return the index after the last item; None without a limit."""
        return None if self.limit is None else self.offset + self.limit

    def cut(self, items: tuple[T, ...]) -> tuple[T, ...]:
        """Return the items of this page from the whole list."""
        return items[self.offset :][: self.limit]


@dataclass(frozen=True, slots=True)
class ListedSubjects:
    """The subjects to list. `prefixes` are those that the caller may see; None for all."""

    prefix: str = EVERY_CONTEXT
    deleted: Deleted = Deleted.LEFT_OUT
    prefixes: tuple[str, ...] | None = None

    @property
    def context(self) -> str | None:
        """Return the context to look in, None for all."""
        return None if self.prefix.startswith(EVERY_CONTEXT) else context_of(self.prefix)

    @property
    def beginning(self) -> str:
        """Return the prefix of the stored names."""
        if self.prefix.startswith(EVERY_CONTEXT):
            return self.prefix.removeprefix(EVERY_CONTEXT)
        return self.prefix.removeprefix(f":{DEFAULT_CONTEXT}:")


def version_number(text: str) -> int:
    """Parse the number of a version; return LATEST for `latest` and -1. Raises Refused (42202)."""
    if text in {"latest", "-1"}:
        return LATEST
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:12]) < _MAX_VERSION or len(text) > 12:
        raise invalid_version(text)
    return int(text)


class SubjectReader:
    """A service that finds subjects, their versions, and schemas."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def subjects(self, wanted: ListedSubjects, page: Page) -> tuple[str, ...]:
        """List subjects by name."""
        with self._database.reading() as stores:
            query = stores.subjects.subjects(
                wanted.context, wanted.beginning, wanted.deleted, wanted.prefixes
            )
            return stores.subjects.page(query, page.offset, page.limit)

    def numbers(self, name: str, deleted: Deleted) -> tuple[int, ...]:
        """List the versions of a subject. Raises Refused (40401)."""
        subject = canonical(name)
        found = self._database.read(lambda stores: stores.subjects.numbers(subject, deleted))
        if not found:
            raise subject_not_found(subject)
        return found

    def version(self, name: str, number: int, *, deleted: bool) -> SubjectVersion:
        """Find a version of a subject. Raises Refused (40401, 40402)."""
        subject = canonical(name)
        return self._database.read(lambda stores: find_version(stores, subject, number, deleted=deleted))

    def with_metadata(self, name: str, properties: Mapping[str, str], *, deleted: bool) -> SubjectVersion:
        """Find the highest version whose metadata has these properties. Raises Refused (40401, 40402)."""
        subject = canonical(name)
        with self._database.reading() as stores:
            found = stores.subjects.numbers(subject, Deleted.SHOWN if deleted else Deleted.LEFT_OUT)
            for number in reversed(found):
                version = stores.subjects.version(subject, number)
                metadata = None if version is None else metadata_of(version.schema)
                if version and metadata and properties.items() <= metadata.properties.items():
                    return version
            raise version_not_found("with this metadata") if found else subject_not_found(subject)

    def schema(self, schema_id: int, subject: str | None) -> StoredSchema:
        """Find a schema by its id, in the context of a subject or in the default one. Raises Refused (40403)."""
        return self._database.read(lambda stores: find_schema(stores, schema_id, subject))

    def schemas_with_guid(self, guid: str) -> tuple[StoredSchema, ...]:
        """List the schemas with a GUID: the same schema in each context that has it."""
        return self._database.read(lambda stores: stores.schemas.with_guid(guid))

    def versions_of_schema(
        self, schema_id: int, subject: str | None, deleted: Deleted
    ) -> tuple[tuple[str, int], ...]:
        """List the subjects and versions that have a schema. Raises Refused (40403)."""
        with self._database.reading() as stores:
            found = find_schema(stores, schema_id, subject)
            versions = stores.subjects.of_schema(found, deleted)
            name = canonical(subject) if subject else ""
            if unqualified(name):
                versions = tuple(one for one in versions if one[0] == name)
            return versions

    def subjects_of(self, schema: StoredSchema) -> tuple[str, ...]:
        """List the subjects that have a schema, soft-deleted versions included.

        A caller who may see one of these subjects may see the schema.
        """
        found = self._database.read(lambda stores: stores.subjects.of_schema(schema, Deleted.SHOWN))
        return tuple(dict.fromkeys(subject for subject, _ in found))

    def referenced_by(self, name: str, number: int, prefixes: tuple[str, ...] | None) -> tuple[int, ...]:
        """List the ids of the schemas that refer to a version, in subjects with these prefixes; None for all.

        Raises Refused (40401, 40402).
        """
        subject = canonical(name)
        with self._database.reading() as stores:
            found = find_version(stores, subject, number, deleted=True)
            return stores.subjects.referenced_by(subject, found.number, prefixes)

    def listed(
        self,
        wanted: ListedSubjects,
        page: Page | None = None,
        *,
        latest_only: bool,
        keeps: Callable[[SubjectVersion], bool] = lambda _: True,
    ) -> tuple[SubjectVersion, ...]:
        """List a page of the versions that `keeps` accepts, by subject and number; read no further than its end."""
        with self._database.reading() as stores:
            page = page or Page()
            with closing(
                stores.subjects.listed(
                    wanted.context,
                    wanted.beginning,
                    wanted.deleted,
                    wanted.prefixes,
                    latest_only=latest_only,
                )
            ) as found:
                return tuple(islice(filter(keeps, found), page.offset, page.end))

    def contexts(self, prefixes: tuple[str, ...] | None) -> tuple[str, ...]:
        """List the contexts, the default one first, that have a subject with one of these prefixes; None for all."""
        found = self._database.read(lambda stores: stores.subjects.contexts(prefixes))
        return (DEFAULT_CONTEXT, *(one for one in found if one != DEFAULT_CONTEXT))

    def highest_id(self, context: str) -> int:
        """Return the highest id that was ever assigned in a context; 0 for none."""
        return self._database.read(lambda stores: stores.schemas.highest_id(context))

    def resolved_text(self, schema: StoredSchema) -> str:
        """Return the text of a schema with its references resolved into it."""
        found = self._database.read(lambda stores: parsed(stores, schema, stores.subjects.dialect_of(schema)))
        if found.schema_type == AVRO:
            return avro_text(found.definition)
        return json_text(found.definition if found.dialect is None else without_dialect(found.definition))

    def references(self, schema: StoredSchema) -> tuple[Reference, ...]:
        """Return the references of a schema."""
        return references_of(schema)


def find_version(stores: Stores, subject: str, number: int, *, deleted: bool) -> SubjectVersion:
    """Find a version; -1 is the latest. Raises Refused (40401, 40402)."""
    if number == LATEST:
        numbers = stores.subjects.numbers(subject, Deleted.SHOWN if deleted else Deleted.LEFT_OUT)
        found = stores.subjects.version(subject, numbers[-1]) if numbers else None
    else:
        found = stores.subjects.version(subject, number)
    if found is not None and (deleted or found.deleted_at is None):
        return found
    if not stores.subjects.numbers(subject, Deleted.SHOWN if deleted else Deleted.LEFT_OUT):
        raise subject_not_found(subject)
    raise version_not_found(number)


def find_schema(stores: Stores, schema_id: int, subject: str | None) -> StoredSchema:
    """Find a schema by its id, in the subject's context. Raises Refused (40403).

    If a subject without a context does not have that schema, a context in which it does is preferred.
    """
    name = canonical(subject) if subject else ""
    context = context_of(name)
    found = stores.schemas.by_id(context, schema_id)
    if context == DEFAULT_CONTEXT and name:
        own = found and stores.subjects.of_schema(found, Deleted.SHOWN)
        if not own or name not in dict(own):
            others = stores.schemas.with_id(schema_id)
            elsewhere = (
                one
                for one in others
                if one.context != context
                and qualified(one.context, name) in dict(stores.subjects.of_schema(one, Deleted.SHOWN))
            )
            found = next(elsewhere, found)
    if found is None:
        raise schema_not_found(schema_id)
    return found


def has_rule_type(version: SubjectVersion, rule_type: str) -> bool:
    """Return whether a version has a rule of a type."""
    rule_set = rule_set_of(version.schema)
    return rule_set is not None and any(rule.type == rule_type for rule in rule_set.rules())
