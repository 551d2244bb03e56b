"""The tables of contracts: their versions, their consumers, and what people agreed to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op


def create_contracts() -> None:
    """Create the tables of contracts and their versions."""
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
        sa.Column("deleted_at", sa.BigInteger),
        sa.Column("is_purged", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("note", sa.Text),
        sa.UniqueConstraint("contract_id", "version", name="uq_contract_versions_version"),
        sa.UniqueConstraint("contract_id", "number", name="uq_contract_versions_number"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_contract_versions_precedence", "contract_versions", ["contract_id", "precedence"])


def create_agreements() -> None:
    """Create the tables of consumers, acknowledgements and proposals."""
    op.create_table(
        "consumers",
        sa.Column("contract_id", sa.Text, sa.ForeignKey("contracts.id"), primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("consumer", sa.Text, nullable=False),
        sa.Column("registered_by", sa.Text, nullable=False),
        sa.Column("registered_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "acknowledgements",
        sa.Column("contract_id", sa.Text, sa.ForeignKey("contracts.id"), primary_key=True),
        sa.Column("candidate", sa.Text, primary_key=True),
        sa.Column("consumer", sa.Text, primary_key=True),
        sa.Column("agreed_by", sa.Text),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "proposals",
        sa.Column("contract_id", sa.Text, sa.ForeignKey("contracts.id"), primary_key=True),
        sa.Column("base", sa.Text, primary_key=True),
        sa.Column("candidate", sa.Text, primary_key=True),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("weakenings", sa.Text, nullable=False),
        sa.Column("proposed_by", sa.Text, nullable=False),
        sa.Column("proposed_at", sa.BigInteger, nullable=False),
        sa.Column("approved_by", sa.Text),
        sa.Column("approved_at", sa.BigInteger),
    )
