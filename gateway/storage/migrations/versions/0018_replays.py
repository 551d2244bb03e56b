"""Requests to replay refused records."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
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


def downgrade() -> None:
    op.drop_table("stream_replays")
