"""The tables of what controls a stream, and of what was done with it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op


def create_stream_controls() -> None:
    """Create the tables of controls, events, shadows and heartbeats."""
    op.create_table(
        "stream_controls",
        sa.Column("stream", sa.Text, sa.ForeignKey("contracts.id"), primary_key=True),
        sa.Column("control", sa.Text, nullable=False),
    )
    op.create_table(
        "stream_events",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("stream", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_index("ix_stream_events_stream", "stream_events", ["stream", "key"])
    op.create_table(
        "stream_shadows",
        sa.Column("stream", sa.Text, sa.ForeignKey("contracts.id"), primary_key=True),
        sa.Column("findings", sa.Text, nullable=False),
    )
    op.create_table(
        "stream_heartbeats",
        sa.Column("stream", sa.Text, sa.ForeignKey("contracts.id"), primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("lag_records", sa.BigInteger),
        sa.Column("busy_seconds", sa.Float),
    )


def create_stream_requests() -> None:
    """Create the tables of reconciliations, adoptions and replays."""
    op.create_table(
        "stream_reconciliations",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("stream", sa.Text, sa.ForeignKey("contracts.id"), nullable=False),
        sa.Column("asked_by", sa.Text, nullable=False),
        sa.Column("asked_at", sa.BigInteger, nullable=False),
        sa.Column("result", sa.Text),
    )
    op.create_index("ix_stream_reconciliations_stream", "stream_reconciliations", ["stream", "key"])
    op.create_table(
        "stream_adoptions",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("stream", sa.Text, sa.ForeignKey("contracts.id"), nullable=False),
        sa.Column("kept_by", sa.Text, nullable=False),
        sa.Column("kept_at", sa.BigInteger, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_index("ix_stream_adoptions_stream", "stream_adoptions", ["stream", "key"])
    op.create_table(
        "stream_replays",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("stream", sa.Text, sa.ForeignKey("contracts.id"), nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("request", sa.Text),
    )
    op.create_index("ix_stream_replays_stream", "stream_replays", ["stream", "key"])


def create_table_audits() -> None:
    """Create the table of the audits of a table."""
    op.create_table(
        "table_audits",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("stream", sa.Text, sa.ForeignKey("contracts.id"), nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("is_whole", sa.Boolean, nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("refused", sa.BigInteger, nullable=False),
        sa.Column("unreadable", sa.BigInteger, nullable=False),
        sa.Column("unmet", sa.BigInteger, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_index("ix_table_audits_stream", "table_audits", ["stream", "key"])
