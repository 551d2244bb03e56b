"""Who reads a contract's records, and who agreed to which change of it."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "consumers",
        sa.Column("contract_id", sa.Text, sa.ForeignKey("contracts.id"), primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("consumer", sa.Text, nullable=False),
        sa.Column("registered_by", sa.Text, nullable=False),
        sa.Column("registered_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "acknowledgements",
        sa.Column("contract_id", sa.Text, sa.ForeignKey("contracts.id"), primary_key=True),
        sa.Column("candidate", sa.Text, primary_key=True),
        sa.Column("consumer", sa.Text, primary_key=True),
        sa.Column("agreed_by", sa.Text),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("acknowledgements")
    op.drop_table("consumers")
