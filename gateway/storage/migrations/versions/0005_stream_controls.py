"""What people and error budgets decided about streams, and what happened to their jobs."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
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


def downgrade() -> None:
    op.drop_table("stream_events")
    op.drop_table("stream_controls")
