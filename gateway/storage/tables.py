"""The tables of the registry, as typed mappings. Migrations create them; a test checks that both agree."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Text,
    UniqueConstraint,
    bindparam,
    delete,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, declared_attr, mapped_column
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator

K = TypeVar("K", bytes, tuple[int, int])

Number = BigInteger().with_variant(Integer, "sqlite")
"""A number of 64 bits. SQLite has them in every integer column, and generates keys only in one of the type INTEGER."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_microseconds(instant: datetime) -> int:
    """Return an aware instant as microseconds since 1970-01-01 UTC, exactly."""
    return (instant - _EPOCH) // _MICROSECOND


_LAST = to_microseconds(datetime.max.replace(tzinfo=UTC))


def from_microseconds(microseconds: int) -> datetime:
    """Return the aware UTC instant of a number of microseconds since 1970-01-01; at most the end of the year 9999.

    The end of that year west of Greenwich, such as the expiry of a key, is in the year 10000 in UTC.
    """
    return _EPOCH + min(microseconds, _LAST) * _MICROSECOND


class Instant(TypeDecorator[datetime]):
    """An aware instant, stored in microseconds so that every database orders and buckets it in the same way."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:  # noqa: ARG002 - the signature is SQLAlchemy's
        """Return the microseconds to store; None for null."""
        return None if value is None else to_microseconds(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - the signature is SQLAlchemy's
        """Return the stored instant; None for null."""
        return None if value is None else from_microseconds(value)


class Table(DeclarativeBase):
    """The base class of the mappings."""


class Store:
    """A store that writes and finds the rows of some tables in one transaction."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def _put(self, table: type[Table], rows: list[dict[str, object]]) -> None:
        """Insert rows by column, replacing those with the same primary keys."""
        if not rows:
            return
        is_sqlite = self._session.get_bind().dialect.name == "sqlite"
        # Of the table and not of the mapping, whose attributes may have other names than the columns.
        statement = (sqlite_insert if is_sqlite else postgresql_insert)(
            table.metadata.tables[table.__tablename__]
        )
        keys = [column.name for column in table.__table__.primary_key]
        others = {name: statement.excluded[name] for name in rows[0] if name not in keys}
        self._session.execute(statement.on_conflict_do_update(index_elements=keys, set_=others), rows)

    def _drop(self, table: type[Table], rows: list[dict[str, object]]) -> None:
        """Delete the rows with the same primary keys."""
        if not rows:
            return
        columns = list(table.__table__.primary_key)
        found = [{f"key_{column.name}": row[column.name] for column in columns} for row in rows]
        conditions = [column == bindparam(f"key_{column.name}") for column in columns]
        self._session.connection().execute(delete(table).where(*conditions), found)


CHUNKS_AT_ONCE = 5_000
"""Maximum chunks of one statement, two parameters each; SQLite has 32,766 of them at most."""


def slices(keys: Collection[K], most: int) -> Iterable[list[K]]:
    """Yield the keys in order, at most `most` at a time."""
    ordered = sorted(keys)
    for start in range(0, len(ordered), most):
        yield ordered[start : start + most]


def fields_of(source: object, kind: type[Any], **others: object) -> dict[str, Any]:
    """Return the fields of the dataclass `kind` as read from `source`, a row or a value; `others` take precedence."""
    names = (name for name in kind.__slots__ if name not in others)
    return {name: getattr(source, name) for name in names} | others


class StreamEntry(Table):
    """An entry of a stream. `key` numbers the entries in order of arrival; only the newest are kept."""

    __abstract__ = True

    key: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(Text, unique=True)
    stream: Mapped[str] = mapped_column(ForeignKey("contracts.id"))

    @declared_attr.directive
    @classmethod
    def __table_args__(cls) -> tuple[Index]:
        """Return the index for finding the entries of a stream."""
        return (Index(f"ix_{cls.__tablename__}_stream", "stream", "key"),)


Entry = TypeVar("Entry", bound=StreamEntry)


class EntryStore(Store, Generic[Entry]):
    """A store of entries of streams in the table of `_row`; it keeps the newest `_kept` of each stream."""

    _row: type[Entry]
    _kept: int

    def _entries(self, stream: str) -> Iterable[Entry]:
        """Return the entries of a stream, newest first."""
        row = self._row
        return self._session.scalars(select(row).where(row.stream == stream).order_by(row.key.desc()))

    def _entry(self, stream: str, wanted: UUID | str) -> Entry | None:
        """Return one entry of a stream; None if no entry has this id."""
        row = self._row
        return self._session.scalar(select(row).where(row.stream == stream, row.id == str(wanted)))

    def _change(self, entry: UUID | str, **values: object) -> None:
        self._session.execute(update(self._row).where(self._row.id == str(entry)).values(**values))

    def _may_go(self) -> ColumnElement[bool]:
        """Return the condition of the entries that may be deleted if newer ones exist."""
        return true()

    def _add(self, entry: Entry) -> None:
        """Store an entry; of its stream, delete those that may go and are older than the newest `_kept`."""
        self._session.add(entry)
        self._session.flush()
        row, stream = self._row, entry.stream
        keys = select(row.key).where(row.stream == stream).order_by(row.key.desc())
        last = self._session.scalar(keys.offset(self._kept).limit(1))
        if last is not None:
            self._session.execute(delete(row).where(row.stream == stream, row.key <= last, self._may_go()))


class ContractRow(Table):
    """One contract: the owner of one topic, and of the subject `<topic>-value`."""

    __tablename__ = "contracts"

    id: Mapped[str] = mapped_column(Text, primary_key=True)
    topic: Mapped[str] = mapped_column(Text, unique=True)
    subject: Mapped[str] = mapped_column(Text, unique=True)
    created_at: Mapped[datetime] = mapped_column(Instant)


class VersionRow(Table):
    """One published version. Its document never changes; its status does, and it may be deleted.

    `registry_id` is global, grows and is never reused, not even after a deletion. `number` counts the versions of a
    subject from 1. `precedence` orders semantic versions bytewise. A purged version has no document and a negative
    number, but keeps its name, so that the name never means another document. `note` lists the parts of the version
    that are not enforced, with reasons.
    """

    __tablename__ = "contract_versions"
    __table_args__ = (
        UniqueConstraint("contract_id", "version", name="uq_contract_versions_version"),
        UniqueConstraint("contract_id", "number", name="uq_contract_versions_number"),
        Index("ix_contract_versions_precedence", "contract_id", "precedence"),
        {"sqlite_autoincrement": True},
    )

    registry_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    contract_id: Mapped[str] = mapped_column(ForeignKey("contracts.id"))
    number: Mapped[int] = mapped_column(Integer)
    version: Mapped[str] = mapped_column(Text)
    precedence: Mapped[bytes] = mapped_column(LargeBinary)
    status: Mapped[str] = mapped_column(Text)
    domain: Mapped[str | None] = mapped_column(Text)
    fingerprint: Mapped[str] = mapped_column(Text)
    document: Mapped[bytes] = mapped_column(LargeBinary)
    published_at: Mapped[datetime] = mapped_column(Instant)
    deleted_at: Mapped[datetime | None] = mapped_column(Instant)
    is_purged: Mapped[bool] = mapped_column(Boolean)
    note: Mapped[str | None] = mapped_column(Text)


class StreamRow(Table):
    """Totals of one stream since its first batch; the `epoch_` fields are about its newest epoch.

    They change only in the transaction that adds a batch.
    """

    __tablename__ = "streams"

    stream: Mapped[str] = mapped_column(Text, primary_key=True)
    first_started_at: Mapped[datetime] = mapped_column(Instant)
    epoch: Mapped[int] = mapped_column(BigInteger)
    epoch_started_at: Mapped[datetime] = mapped_column(Instant)
    epoch_records: Mapped[int] = mapped_column(BigInteger)
    batches: Mapped[int] = mapped_column(BigInteger)
    records: Mapped[int] = mapped_column(BigInteger)
    written: Mapped[int] = mapped_column(BigInteger)
    warned: Mapped[int] = mapped_column(BigInteger)
    alerted: Mapped[int] = mapped_column(BigInteger)
    quarantined: Mapped[int] = mapped_column(BigInteger)
    dropped: Mapped[int] = mapped_column(BigInteger)


class BatchRow(Table):
    """One batch report: the report itself as JSON, and the columns that queries sum."""

    __tablename__ = "batches"
    __table_args__ = (
        UniqueConstraint("stream", "epoch", "n", name="uq_batches_identity"),
        # A covering index for the rate and the sparkline, so that neither reads the reports themselves.
        Index("ix_batches_committed", "stream", "committed_at", "records", "quarantined", "dropped"),
    )

    id: Mapped[int] = mapped_column(Number, primary_key=True)
    stream: Mapped[str] = mapped_column(ForeignKey("streams.stream"))
    epoch: Mapped[int] = mapped_column(BigInteger)
    n: Mapped[int] = mapped_column(BigInteger)
    committed_at: Mapped[datetime] = mapped_column(Instant)
    records: Mapped[int] = mapped_column(BigInteger)
    quarantined: Mapped[int] = mapped_column(BigInteger)
    dropped: Mapped[int] = mapped_column(BigInteger)
    report: Mapped[bytes] = mapped_column(LargeBinary)


class BatchRuleRow(Table):
    """The number of records of one batch that violated one rule or keyword."""

    __tablename__ = "batch_rules"

    batch_id: Mapped[int] = mapped_column(ForeignKey("batches.id"), primary_key=True)
    stage: Mapped[str] = mapped_column(Text, primary_key=True)
    code: Mapped[str] = mapped_column(Text, primary_key=True)
    severity: Mapped[str] = mapped_column(Text, primary_key=True)
    records: Mapped[int] = mapped_column(BigInteger)


Name = Text().with_variant(Text(collation="C"), "postgresql")
"""A text column that every database orders by code point."""


class SchemaRow(Table):
    """One schema with its references, metadata and rule set. Ids are unique in a context and never reused."""

    __tablename__ = "schemas"
    __table_args__ = (
        UniqueConstraint("context", "id", name="uq_schemas_id"),
        UniqueConstraint("context", "guid", name="uq_schemas_guid"),
        Index("ix_schemas_guid", "guid"),
        Index("ix_schemas_text_hash", "text_hash"),
        Index("ix_schemas_normal_hash", "normal_hash"),
        {"sqlite_autoincrement": True},
    )

    key: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    context: Mapped[str] = mapped_column(Name)
    id: Mapped[int] = mapped_column(BigInteger)
    guid: Mapped[str] = mapped_column(Text)
    schema_type: Mapped[str] = mapped_column(Text)
    text: Mapped[str] = mapped_column(Text)
    reference_list: Mapped[str] = mapped_column(Text)
    metadata_json: Mapped[str | None] = mapped_column(Text)
    rule_set_json: Mapped[str | None] = mapped_column(Text)
    text_hash: Mapped[str] = mapped_column(Text)
    normal_hash: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(Instant)


class SpentIdRow(Table):
    """The id of a permanently deleted schema, with the schema's GUID: no other schema gets this id."""

    __tablename__ = "spent_ids"

    context: Mapped[str] = mapped_column(Name, primary_key=True)
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    guid: Mapped[str] = mapped_column(Text)


class NextIdRow(Table):
    """The next id of a context; it only grows."""

    __tablename__ = "next_ids"

    context: Mapped[str] = mapped_column(Name, primary_key=True)
    id: Mapped[int] = mapped_column(BigInteger)


class ReferenceRow(Table):
    """One reference of a schema to a version of a subject."""

    __tablename__ = "schema_references"
    __table_args__ = (Index("ix_schema_references_target", "subject", "version"),)

    schema_key: Mapped[int] = mapped_column(ForeignKey("schemas.key"), primary_key=True)
    position: Mapped[int] = mapped_column(Integer, primary_key=True)
    subject: Mapped[str] = mapped_column(Name)
    version: Mapped[int] = mapped_column(Integer)


class SubjectVersionRow(Table):
    """One version of a subject; with `registry_id` it is also a version of a contract.

    `dialect` is the `$schema` that is assumed for a JSON Schema without one; null means 2020-12. It is not stored with
    the schema, because versions that read one text differently share a schema id.
    """

    __tablename__ = "subject_versions"
    __table_args__ = (
        UniqueConstraint("subject", "number", name="uq_subject_versions_number"),
        UniqueConstraint("registry_id", name="uq_subject_versions_registry_id"),
        Index("ix_subject_versions_schema", "schema_key"),
        Index("ix_subject_versions_context", "context", "subject"),
        {"sqlite_autoincrement": True},
    )

    key: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    context: Mapped[str] = mapped_column(Name)
    subject: Mapped[str] = mapped_column(Name)
    number: Mapped[int] = mapped_column(Integer)
    schema_key: Mapped[int] = mapped_column(ForeignKey("schemas.key"))
    registry_id: Mapped[int | None] = mapped_column(ForeignKey("contract_versions.registry_id"))
    created_at: Mapped[datetime] = mapped_column(Instant)
    deleted_at: Mapped[datetime | None] = mapped_column(Instant)
    dialect: Mapped[str | None] = mapped_column(Text)


class SettingRow(Table):
    """The settings of a scope: "" for the whole registry, `:.context:` for a context, or a subject."""

    __tablename__ = "subject_settings"

    scope: Mapped[str] = mapped_column(Name, primary_key=True)
    config: Mapped[str | None] = mapped_column(Text)
    mode: Mapped[str | None] = mapped_column(Text)


class AssociationRow(Table):
    """A subject that a resource, such as a topic, uses for its keys or its values."""

    __tablename__ = "associations"
    __table_args__ = (
        UniqueConstraint("resource_id", "resource_type", "association_type", name="uq_associations_resource"),
        Index("ix_associations_name", "resource_name", "resource_namespace"),
        Index("ix_associations_subject", "subject"),
    )

    key: Mapped[int] = mapped_column(Integer, primary_key=True)
    resource_id: Mapped[str] = mapped_column(Name)
    resource_type: Mapped[str] = mapped_column(Text)
    association_type: Mapped[str] = mapped_column(Text)
    resource_name: Mapped[str] = mapped_column(Name)
    resource_namespace: Mapped[str] = mapped_column(Name)
    subject: Mapped[str] = mapped_column(Name)
    guid: Mapped[str] = mapped_column(Text)
    lifecycle: Mapped[str] = mapped_column(Text)
    frozen: Mapped[bool] = mapped_column(Boolean)


class StatusChangeRow(Table):
    """One change of a contract version's status. The newest row up to an instant has the status at that instant."""

    __tablename__ = "status_changes"
    __table_args__ = (Index("ix_status_changes_version", "registry_id", "at"),)

    key: Mapped[int] = mapped_column(Integer, primary_key=True)
    registry_id: Mapped[int] = mapped_column(ForeignKey("contract_versions.registry_id"))
    at: Mapped[datetime] = mapped_column(Instant)
    status: Mapped[str] = mapped_column(Text)
    is_deleted: Mapped[bool] = mapped_column(Boolean)


class ByCodePoint(FunctionElement[str]):
    """A text column for ORDER BY that every database orders by code point. A null remains null."""

    inherit_cache = True
    name = "by_code_point"
    type = Text()


@compiles(ByCodePoint)
def _as_it_is(element: ByCodePoint, compiler: SQLCompiler, **options: Any) -> str:
    return str(compiler.process(element.clauses, **options))


@compiles(ByCodePoint, "postgresql")
def _collated(element: ByCodePoint, compiler: SQLCompiler, **options: Any) -> str:
    return f'{compiler.process(element.clauses, **options)} COLLATE "C"'
