"""The tables of subjects: schemas by id, the versions of subjects, settings, associations."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, Boolean, ForeignKey, Index, Integer, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from tidegate.gateway.storage.tables import Instant, Table

Name = Text().with_variant(Text(collation="C"), "postgresql")
"""A text that every database orders by code point."""


class SchemaRow(Table):
    """One schema with what belongs to it. Ids are unique in a context and never given twice by this registry."""

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
    """An id whose schema was deleted for good: it stays that schema's, by its GUID."""

    __tablename__ = "spent_ids"

    context: Mapped[str] = mapped_column(Name, primary_key=True)
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    guid: Mapped[str] = mapped_column(Text)


class NextIdRow(Table):
    """The next id that a context gives; it only grows."""

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

    `dialect` is the `$schema` by which a JSON Schema is read that names none. It is not kept with the schema, because
    versions that read one text differently share an id. Null is 2020-12.
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
    """The settings of a scope: "" for all, `:.context:` for a context, or a subject."""

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
    """What a contract version became, and when: the newest row at an instant says what it was then."""

    __tablename__ = "status_changes"
    __table_args__ = (Index("ix_status_changes_version", "registry_id", "at"),)

    key: Mapped[int] = mapped_column(Integer, primary_key=True)
    registry_id: Mapped[int] = mapped_column(ForeignKey("contract_versions.registry_id"))
    at: Mapped[datetime] = mapped_column(Instant)
    status: Mapped[str] = mapped_column(Text)
    is_deleted: Mapped[bool] = mapped_column(Boolean)
