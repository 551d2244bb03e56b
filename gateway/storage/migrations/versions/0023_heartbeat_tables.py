"""Size and maintenance of a stream's table in its heartbeats, also while it is idle."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("stream_heartbeats", sa.Column("table_size", sa.Text))
    op.add_column("stream_heartbeats", sa.Column("maintenance", sa.Text))


def downgrade() -> None:
    with op.batch_alter_table("stream_heartbeats") as table:
        table.drop_column("maintenance")
        table.drop_column("table_size")
