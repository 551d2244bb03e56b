"""The index of the quarantine topics, and the decisions of people about the problems in them."""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

# Names that every database orders by code point.
_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "quarantine_partitions",
        sa.Column("stream", _NAME, primary_key=True),
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
        sa.Column("stream", _NAME, primary_key=True),
        sa.Column("facet", sa.LargeBinary, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
    )
    op.create_table(
        "quarantine_bitmaps",
        sa.Column("stream", _NAME, primary_key=True),
        sa.Column("facet", sa.LargeBinary, primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True),
        sa.Column("chunk", sa.BigInteger, primary_key=True),
        sa.Column("records", sa.Integer, nullable=False),
        sa.Column("offsets", sa.LargeBinary, nullable=False),
    )
    op.create_index("ix_quarantine_bitmaps_partition", "quarantine_bitmaps", ["stream", "partition", "chunk"])
    op.create_table(
        "quarantine_pages",
        sa.Column("stream", _NAME, primary_key=True),
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
        sa.Column("stream", _NAME, primary_key=True),
        sa.Column("facet", sa.LargeBinary, primary_key=True),
        sa.Column("day", sa.Integer, primary_key=True),
        sa.Column("hours", sa.LargeBinary, nullable=False),
        sa.Column("minutes", sa.LargeBinary, nullable=False),
    )
    secret = op.create_table(
        "quarantine_secret",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("secret", sa.LargeBinary, nullable=False),
    )
    op.bulk_insert(secret, [{"id": 1, "secret": secrets.token_bytes(32)}])
    op.create_table(
        "problem_states",
        sa.Column("stream", _NAME, primary_key=True),
        sa.Column("problem", _NAME, primary_key=True),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("known_since", sa.BigInteger, nullable=False),
        sa.Column("changed_at", sa.BigInteger, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_table(
        "problem_comments",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("stream", _NAME, nullable=False),
        sa.Column("problem", _NAME, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
    )
    op.create_index("ix_problem_comments_problem", "problem_comments", ["stream", "problem", "key"])
    op.create_table(
        "quarantine_searches",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("stream", _NAME, nullable=False),
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


def downgrade() -> None:
    for table in (
        "quarantine_searches",
        "problem_comments",
        "problem_states",
        "quarantine_secret",
        "quarantine_days",
        "quarantine_pages",
        "quarantine_bitmaps",
        "quarantine_facets",
        "quarantine_partitions",
    ):
        op.drop_table(table)
