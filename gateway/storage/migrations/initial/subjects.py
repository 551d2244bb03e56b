"""The tables of the Confluent API: schemas, and the subjects that have them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tidegate.gateway.storage.migrations.initial.columns import NAME


def create_schemas() -> None:
    """Create the tables of schemas, their ids and their references."""
    op.create_table(
        "schemas",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("context", NAME, nullable=False),
        sa.Column("id", sa.BigInteger, nullable=False),
        *(
            sa.Column(name, sa.Text, nullable=False)
            for name in ("guid", "schema_type", "text", "reference_list")
        ),
        *(sa.Column(name, sa.Text) for name in ("metadata_json", "rule_set_json")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("text_hash", "normal_hash")),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("context", "id", name="uq_schemas_id"),
        sa.UniqueConstraint("context", "guid", name="uq_schemas_guid"),
        sqlite_autoincrement=True,
    )
    for column in ("guid", "text_hash", "normal_hash"):
        op.create_index(f"ix_schemas_{column}", "schemas", [column])
    op.create_table(
        "spent_ids",
        sa.Column("context", NAME, primary_key=True),
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("guid", sa.Text, nullable=False),
    )
    op.create_table(
        "next_ids",
        sa.Column("context", NAME, primary_key=True),
        sa.Column("id", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "schema_references",
        sa.Column("schema_key", sa.Integer, sa.ForeignKey("schemas.key"), primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("subject", NAME, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
    )
    op.create_index("ix_schema_references_target", "schema_references", ["subject", "version"])


def create_subjects() -> None:
    """Create the tables of subjects: versions, settings and associations."""
    op.create_table(
        "subject_versions",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("context", NAME, nullable=False),
        sa.Column("subject", NAME, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("schema_key", sa.Integer, sa.ForeignKey("schemas.key"), nullable=False),
        sa.Column("registry_id", sa.Integer, sa.ForeignKey("contract_versions.registry_id")),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("deleted_at", sa.BigInteger),
        sa.Column("dialect", sa.Text),
        sa.UniqueConstraint("subject", "number", name="uq_subject_versions_number"),
        sa.UniqueConstraint("registry_id", name="uq_subject_versions_registry_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_subject_versions_schema", "subject_versions", ["schema_key"])
    op.create_index("ix_subject_versions_context", "subject_versions", ["context", "subject"])
    op.create_table(
        "subject_settings",
        sa.Column("scope", NAME, primary_key=True),
        sa.Column("config", sa.Text),
        sa.Column("mode", sa.Text),
    )
    op.create_table(
        "associations",
        sa.Column("key", sa.Integer, primary_key=True),
        sa.Column("resource_id", NAME, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("resource_type", "association_type")),
        *(
            sa.Column(name, NAME, nullable=False)
            for name in ("resource_name", "resource_namespace", "subject")
        ),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("guid", "lifecycle")),
        sa.Column("frozen", sa.Boolean, nullable=False),
        sa.UniqueConstraint(
            "resource_id", "resource_type", "association_type", name="uq_associations_resource"
        ),
    )
    op.create_index("ix_associations_name", "associations", ["resource_name", "resource_namespace"])
    op.create_index("ix_associations_subject", "associations", ["subject"])


def create_status_changes() -> None:
    """Create the table of the changes of a version's status."""
    op.create_table(
        "status_changes",
        sa.Column("key", sa.Integer, primary_key=True),
        sa.Column("registry_id", sa.Integer, sa.ForeignKey("contract_versions.registry_id"), nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("is_deleted", sa.Boolean, nullable=False),
    )
    op.create_index("ix_status_changes_version", "status_changes", ["registry_id", "at"])
