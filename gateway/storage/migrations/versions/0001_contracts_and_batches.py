"""Contracts with their versions, streams with their batch reports."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "contracts",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("topic", sa.Text, nullable=False, unique=True),
        sa.Column("subject", sa.Text, nullable=False, unique=True),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "contract_versions",
        sa.Column("registry_id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("contract_id", sa.Text, sa.ForeignKey("contracts.id"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("precedence", sa.LargeBinary, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("domain", sa.Text),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("published_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("contract_id", "version", name="uq_contract_versions_version"),
        sa.UniqueConstraint("contract_id", "number", name="uq_contract_versions_number"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_contract_versions_precedence", "contract_versions", ["contract_id", "precedence"])
    op.create_table(
        "streams",
        sa.Column("stream", sa.Text, primary_key=True),
        sa.Column("first_started_at", sa.BigInteger, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("epoch_started_at", sa.BigInteger, nullable=False),
        *(
            sa.Column(name, sa.BigInteger, nullable=False)
            for name in (
                "epoch_records",
                "batches",
                "records",
                "written",
                "warned",
                "alerted",
                "quarantined",
                "dropped",
            )
        ),
    )
    op.create_table(
        "batches",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("stream", sa.Text, sa.ForeignKey("streams.stream"), nullable=False),
        *(
            sa.Column(name, sa.BigInteger, nullable=False)
            for name in ("epoch", "n", "committed_at", "records", "quarantined", "dropped")
        ),
        sa.Column("report", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("stream", "epoch", "n", name="uq_batches_identity"),
    )
    op.create_index(
        "ix_batches_committed", "batches", ["stream", "committed_at", "records", "quarantined", "dropped"]
    )
    op.create_table(
        "batch_rules",
        sa.Column("batch_id", sa.Integer, sa.ForeignKey("batches.id"), primary_key=True),
        sa.Column("stage", sa.Text, primary_key=True),
        sa.Column("code", sa.Text, primary_key=True),
        sa.Column("severity", sa.Text, primary_key=True),
        sa.Column("records", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("batch_rules")
    op.drop_table("batches")
    op.drop_table("streams")
    op.drop_table("contract_versions")
    op.drop_table("contracts")
