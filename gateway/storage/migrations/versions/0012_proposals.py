"""Changes that weaken what is enforced, and who approved them."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "proposals",
        sa.Column("contract_id", sa.Text, sa.ForeignKey("contracts.id"), primary_key=True),
        sa.Column("base", sa.Text, primary_key=True),
        sa.Column("candidate", sa.Text, primary_key=True),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("weakenings", sa.Text, nullable=False),
        sa.Column("proposed_by", sa.Text, nullable=False),
        sa.Column("proposed_at", sa.BigInteger, nullable=False),
        sa.Column("approved_by", sa.Text),
        sa.Column("approved_at", sa.BigInteger),
    )


def downgrade() -> None:
    op.drop_table("proposals")
