"""The number and hash of the newest audit entry, so that a cut-off end of the log is detected."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_NO_ENTRY = "0" * 64


def upgrade() -> None:
    head = op.create_table(
        "audit_head",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
    )
    last = op.get_bind().execute(sa.text("SELECT number, hash FROM audit ORDER BY number DESC LIMIT 1")).first()
    number, found = last or (0, _NO_ENTRY)
    op.bulk_insert(head, [{"key": 1, "number": number, "hash": found}])


def downgrade() -> None:
    op.drop_table("audit_head")
