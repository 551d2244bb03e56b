"""The tables of the audit log, of keys, and of sessions of the desk."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tidegate.gateway.storage.migrations.initial.columns import NUMBER

_REFUSAL = "the audit log only grows: its entries are never changed or removed"


def create_audit_log() -> None:
    """Create the tables of the audit log."""
    op.create_table(
        "audit",
        sa.Column("number", NUMBER, primary_key=True, autoincrement=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("who", "action", "subject")),
        *(sa.Column(name, sa.Text) for name in ("before", "after")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("previous", "hash")),
    )
    op.create_index("ix_audit_subject", "audit", ["subject"])
    head = op.create_table(
        "audit_head",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("number", NUMBER, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
    )
    # The head of an empty log: number 0, and the hash that the first entry names as previous.
    op.bulk_insert(head, [{"key": 1, "number": 0, "hash": "0" * 64}])


def create_keys() -> None:
    """Create the tables of keys and of sessions."""
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
    op.create_table(
        "desk_sessions",
        sa.Column("token_hash", sa.Text, primary_key=True),
        sa.Column("key_id", sa.Text, sa.ForeignKey("keys.id"), nullable=False),
        sa.Column("opened_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_desk_sessions_key", "desk_sessions", ["key_id", "opened_at"])
    op.create_index("ix_desk_sessions_expires", "desk_sessions", ["expires_at"])


def protect_audit_log() -> None:
    """Create the triggers that refuse to change the audit log; `audit_head` changes with each entry and has none."""
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
