"""How a subject version reads a JSON Schema that names no draft. Versions of before keep their reading: null, 2020-12."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("subject_versions", sa.Column("dialect", sa.Text))


def downgrade() -> None:
    op.drop_column("subject_versions", "dialect")
