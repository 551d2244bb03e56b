"""Sessions of people who signed in at the desk."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "desk_sessions",
        sa.Column("token_hash", sa.Text, primary_key=True),
        sa.Column("key_id", sa.Text, sa.ForeignKey("keys.id"), nullable=False),
        sa.Column("opened_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_desk_sessions_key", "desk_sessions", ["key_id", "opened_at"])
    op.create_index("ix_desk_sessions_expires", "desk_sessions", ["expires_at"])


def downgrade() -> None:
    op.drop_table("desk_sessions")
