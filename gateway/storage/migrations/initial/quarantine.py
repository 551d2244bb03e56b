"""The tables of refused records: their index, their problems, and what became of them."""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

from tidegate.gateway.storage.migrations.initial.columns import NAME


def create_quarantine_index() -> None:
    """Create the tables of the index of refused records."""
    op.create_table(
        "quarantine_partitions",
        sa.Column("stream", NAME, primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True),
        sa.Column("low", sa.BigInteger, nullable=False),
        sa.Column("next_offset", sa.BigInteger, nullable=False),
        sa.Column("high", sa.BigInteger, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("lease_until", sa.BigInteger),
        sa.Column("indexed_at", sa.BigInteger),
    )
    op.create_table(
        "quarantine_facets",
        sa.Column("stream", NAME, primary_key=True),
        sa.Column("facet", sa.LargeBinary, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
    )
    op.create_table(
        "quarantine_bitmaps",
        sa.Column("stream", NAME, primary_key=True),
        sa.Column("facet", sa.LargeBinary, primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True),
        sa.Column("chunk", sa.BigInteger, primary_key=True),
        sa.Column("records", sa.Integer, nullable=False),
        sa.Column("offsets", sa.LargeBinary, nullable=False),
    )
    op.create_index("ix_quarantine_bitmaps_partition", "quarantine_bitmaps", ["stream", "partition", "chunk"])
    op.create_table(
        "quarantine_pages",
        sa.Column("stream", NAME, primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True),
        sa.Column("page", sa.BigInteger, primary_key=True),
        sa.Column("first_minute", sa.Integer, nullable=False),
        sa.Column("last_minute", sa.Integer, nullable=False),
        sa.Column("source_low", sa.BigInteger, nullable=False),
        sa.Column("source_high", sa.BigInteger, nullable=False),
        sa.Column("positions", sa.LargeBinary, nullable=False),
        sa.Column("keys", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "quarantine_days",
        sa.Column("stream", NAME, primary_key=True),
        sa.Column("facet", sa.LargeBinary, primary_key=True),
        sa.Column("day", sa.Integer, primary_key=True),
        sa.Column("hours", sa.LargeBinary, nullable=False),
        sa.Column("minutes", sa.LargeBinary, nullable=False),
    )


def create_quarantine_secret() -> None:
    """Create the table of the index's secret, and write a new secret."""
    secret = op.create_table(
        "quarantine_secret",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("secret", sa.LargeBinary, nullable=False),
    )
    op.bulk_insert(secret, [{"id": 1, "secret": secrets.token_bytes(32)}])


def create_problems() -> None:
    """Create the tables of the states and comments of problems."""
    op.create_table(
        "problem_states",
        sa.Column("stream", NAME, primary_key=True),
        sa.Column("problem", NAME, primary_key=True),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("known_since", sa.BigInteger, nullable=False),
        sa.Column("changed_at", sa.BigInteger, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_table(
        "problem_comments",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("stream", NAME, nullable=False),
        sa.Column("problem", NAME, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
    )
    op.create_index("ix_problem_comments_problem", "problem_comments", ["stream", "problem", "key"])


def create_quarantine_searches() -> None:
    """Create the table of searches in refused records."""
    op.create_table(
        "quarantine_searches",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("stream", NAME, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("looked_at", sa.Integer, nullable=False),
        sa.Column("total", sa.Integer, nullable=False),
        sa.Column("positions", sa.Text, nullable=False),
        sa.Column("is_cancelled", sa.Boolean, nullable=False),
        sa.Column("heard_at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_quarantine_searches_stream", "quarantine_searches", ["stream", "key"])


def create_refusals() -> None:
    """Create the tables of the reasons of refusals, and of those that are closed."""
    op.create_table(
        "refusal_closures",
        sa.Column("stream", sa.Text, primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("chunk", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("closure", sa.Text, primary_key=True),
        sa.Column("offsets", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "refusal_reasons",
        sa.Column("stream", NAME, primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("chunk", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("code", NAME, primary_key=True),
        sa.Column("offsets", sa.LargeBinary, nullable=False),
    )
