"""Numbers of 64 bits for batches, audit entries and chunks of refused records."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_COLUMNS = (
    ("batches", "id"),
    ("batch_rules", "batch_id"),
    ("expectation_results", "batch_id"),
    ("audit", "number"),
    ("audit_head", "number"),
)


def upgrade() -> None:
    _change(sa.BigInteger(), "bigint")


def downgrade() -> None:
    _change(sa.Integer(), "integer")


def _change(kind: sa.types.TypeEngine[int], name: str) -> None:
    for table in ("refusal_closures", "refusal_reasons"):
        with op.batch_alter_table(table) as changed:
            changed.alter_column("chunk", type_=kind)
    # Every integer of SQLite has 64 bits. Its key must keep the type INTEGER, and a copy of the audit log its triggers.
    if op.get_bind().dialect.name == "postgresql":
        for table, column in _COLUMNS:
            op.alter_column(table, column, type_=kind)
        op.execute(f"ALTER SEQUENCE batches_id_seq AS {name}")
