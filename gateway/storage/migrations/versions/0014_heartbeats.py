"""Heartbeats: the lag in records, and how long the current batch has taken."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_COLUMNS = ("lag_records", "busy_seconds")


def upgrade() -> None:
    op.add_column("stream_heartbeats", sa.Column("lag_records", sa.BigInteger))
    op.add_column("stream_heartbeats", sa.Column("busy_seconds", sa.Float))


def downgrade() -> None:
    with op.batch_alter_table("stream_heartbeats") as table:
        for column in _COLUMNS:
            table.drop_column(column)
