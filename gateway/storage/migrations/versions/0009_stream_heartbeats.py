"""When the job of each stream said last that it lives."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "stream_heartbeats",
        sa.Column("stream", sa.Text, sa.ForeignKey("contracts.id"), primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("stream_heartbeats")
