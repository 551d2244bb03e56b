"""What the shadow version of each stream would have made of its batches."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "stream_shadows",
        sa.Column("stream", sa.Text, sa.ForeignKey("contracts.id"), primary_key=True),
        sa.Column("findings", sa.Text, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("stream_shadows")
