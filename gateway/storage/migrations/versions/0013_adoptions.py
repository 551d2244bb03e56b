"""Ledgers that people have rebuilt, and what they gave up for them."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
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


def downgrade() -> None:
    op.drop_table("stream_adoptions")
