"""What became of the expectations of each batch."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "expectation_results",
        sa.Column("batch_id", sa.Integer, sa.ForeignKey("batches.id"), primary_key=True),
        sa.Column("expectation", sa.Text, primary_key=True),
        sa.Column("stream", sa.Text, nullable=False),
        sa.Column("committed_at", sa.BigInteger, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("agrees", sa.Boolean, nullable=True),
        sa.Column("result", sa.Text, nullable=False),
    )
    op.create_index("ix_expectation_results_committed", "expectation_results", ["stream", "committed_at"])


def downgrade() -> None:
    op.drop_table("expectation_results")
