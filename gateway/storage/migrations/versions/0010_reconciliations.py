"""What people asked to have reconciled, and what the jobs found."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
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


def downgrade() -> None:
    op.drop_table("stream_reconciliations")
