"""The codes by which refused records failed again in a replay."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "refusal_reasons",
        sa.Column("stream", name, primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("chunk", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("code", name, primary_key=True),
        sa.Column("offsets", sa.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("refusal_reasons")
