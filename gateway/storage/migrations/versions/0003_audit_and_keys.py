"""The audit log, which only grows, and the keys of access control."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_REFUSAL = "the audit log only grows: its entries are never changed or removed"


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("who", "action", "subject")),
        *(sa.Column(name, sa.Text) for name in ("before", "after")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("previous", "hash")),
    )
    op.create_index("ix_audit_subject", "audit", ["subject"])
    op.create_table(
        "keys",
        sa.Column("id", sa.Text, primary_key=True),
        *(
            sa.Column(name, sa.Text, nullable=False)
            for name in ("name", "secret_hash", "grants", "created_by")
        ),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("revoked_at", sa.BigInteger),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "CREATE FUNCTION audit_only_grows() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION '{_REFUSAL}'; END $$"
        )
        op.execute(
            "CREATE TRIGGER audit_only_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON audit "
            "FOR EACH STATEMENT EXECUTE FUNCTION audit_only_grows()"
        )
    else:
        for verb in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER audit_refuses_{verb.lower()} BEFORE {verb} ON audit "
                f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
            )


def downgrade() -> None:
    op.drop_table("keys")
    op.drop_table("audit")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION audit_only_grows()")
