"""The closed refused records."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "refusal_closures",
        sa.Column("stream", sa.Text, primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("chunk", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("closure", sa.Text, primary_key=True),
        sa.Column("offsets", sa.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("refusal_closures")
