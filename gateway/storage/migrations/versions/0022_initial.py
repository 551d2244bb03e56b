"""The tables of version 0.1.0.

This migration replaces 22 earlier ones and has the number of the last one. It creates the same tables, so a database
that those migrations created is current.
"""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = None
branch_labels = None
depends_on = None

# Of 64 bits; the key of SQLite must have the type INTEGER, which has as many.
_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
# A text that PostgreSQL orders by code point, as SQLite does.
_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_REFUSAL = "the audit log only grows: its entries are never changed or removed"


def upgrade() -> None:
    _contracts()
    _subjects()
    _streams()
    _stream_controls()
    _quarantine()
    _audit_and_keys()


def _contracts() -> None:
    op.create_table(
        "contracts",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("topic", sa.Text, nullable=False, unique=True),
        sa.Column("subject", sa.Text, nullable=False, unique=True),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "contract_versions",
        sa.Column("registry_id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("contract_id", sa.Text, sa.ForeignKey("contracts.id"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("precedence", sa.LargeBinary, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("domain", sa.Text),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("published_at", sa.BigInteger, nullable=False),
        sa.Column("deleted_at", sa.BigInteger),
        sa.Column("is_purged", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("note", sa.Text),
        sa.UniqueConstraint("contract_id", "version", name="uq_contract_versions_version"),
        sa.UniqueConstraint("contract_id", "number", name="uq_contract_versions_number"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_contract_versions_precedence", "contract_versions", ["contract_id", "precedence"])
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


def _subjects() -> None:
    op.create_table(
        "schemas",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("context", _NAME, nullable=False),
        sa.Column("id", sa.BigInteger, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("guid", "schema_type", "text", "reference_list")),
        *(sa.Column(name, sa.Text) for name in ("metadata_json", "rule_set_json")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("text_hash", "normal_hash")),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("context", "id", name="uq_schemas_id"),
        sa.UniqueConstraint("context", "guid", name="uq_schemas_guid"),
        sqlite_autoincrement=True,
    )
    for column in ("guid", "text_hash", "normal_hash"):
        op.create_index(f"ix_schemas_{column}", "schemas", [column])
    op.create_table(
        "spent_ids",
        sa.Column("context", _NAME, primary_key=True),
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("guid", sa.Text, nullable=False),
    )
    op.create_table(
        "next_ids",
        sa.Column("context", _NAME, primary_key=True),
        sa.Column("id", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "schema_references",
        sa.Column("schema_key", sa.Integer, sa.ForeignKey("schemas.key"), primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("subject", _NAME, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
    )
    op.create_index("ix_schema_references_target", "schema_references", ["subject", "version"])
    op.create_table(
        "subject_versions",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("context", _NAME, nullable=False),
        sa.Column("subject", _NAME, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("schema_key", sa.Integer, sa.ForeignKey("schemas.key"), nullable=False),
        sa.Column("registry_id", sa.Integer, sa.ForeignKey("contract_versions.registry_id")),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("deleted_at", sa.BigInteger),
        sa.Column("dialect", sa.Text),
        sa.UniqueConstraint("subject", "number", name="uq_subject_versions_number"),
        sa.UniqueConstraint("registry_id", name="uq_subject_versions_registry_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_subject_versions_schema", "subject_versions", ["schema_key"])
    op.create_index("ix_subject_versions_context", "subject_versions", ["context", "subject"])
    op.create_table(
        "subject_settings",
        sa.Column("scope", _NAME, primary_key=True),
        sa.Column("config", sa.Text),
        sa.Column("mode", sa.Text),
    )
    op.create_table(
        "associations",
        sa.Column("key", sa.Integer, primary_key=True),
        sa.Column("resource_id", _NAME, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("resource_type", "association_type")),
        *(sa.Column(name, _NAME, nullable=False) for name in ("resource_name", "resource_namespace", "subject")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("guid", "lifecycle")),
        sa.Column("frozen", sa.Boolean, nullable=False),
        sa.UniqueConstraint("resource_id", "resource_type", "association_type", name="uq_associations_resource"),
    )
    op.create_index("ix_associations_name", "associations", ["resource_name", "resource_namespace"])
    op.create_index("ix_associations_subject", "associations", ["subject"])
    op.create_table(
        "status_changes",
        sa.Column("key", sa.Integer, primary_key=True),
        sa.Column("registry_id", sa.Integer, sa.ForeignKey("contract_versions.registry_id"), nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("is_deleted", sa.Boolean, nullable=False),
    )
    op.create_index("ix_status_changes_version", "status_changes", ["registry_id", "at"])


def _streams() -> None:
    op.create_table(
        "streams",
        sa.Column("stream", sa.Text, primary_key=True),
        sa.Column("first_started_at", sa.BigInteger, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("epoch_started_at", sa.BigInteger, nullable=False),
        *(
            sa.Column(name, sa.BigInteger, nullable=False)
            for name in (
                "epoch_records",
                "batches",
                "records",
                "written",
                "warned",
                "alerted",
                "quarantined",
                "dropped",
            )
        ),
    )
    op.create_table(
        "batches",
        sa.Column("id", _NUMBER, primary_key=True),
        sa.Column("stream", sa.Text, sa.ForeignKey("streams.stream"), nullable=False),
        *(
            sa.Column(name, sa.BigInteger, nullable=False)
            for name in ("epoch", "n", "committed_at", "records", "quarantined", "dropped")
        ),
        sa.Column("report", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("stream", "epoch", "n", name="uq_batches_identity"),
    )
    op.create_index(
        "ix_batches_committed", "batches", ["stream", "committed_at", "records", "quarantined", "dropped"]
    )
    op.create_table(
        "batch_rules",
        sa.Column("batch_id", _NUMBER, sa.ForeignKey("batches.id"), primary_key=True),
        sa.Column("stage", sa.Text, primary_key=True),
        sa.Column("code", sa.Text, primary_key=True),
        sa.Column("severity", sa.Text, primary_key=True),
        sa.Column("records", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "stream_rules",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("stream", sa.Text, nullable=False),
        sa.Column("stage", sa.Text, nullable=False),
        sa.Column("code", sa.Text, nullable=False),
        sa.Column("severity", sa.Text, nullable=False),
        sa.Column("records", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("stream", "stage", "code", "severity", name="uq_stream_rules_identity"),
    )
    op.create_table(
        "stream_steps",
        sa.Column("stream", sa.Text, primary_key=True),
        sa.Column("step", sa.Text, primary_key=True),
        sa.Column("milliseconds", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "expectation_results",
        sa.Column("batch_id", _NUMBER, sa.ForeignKey("batches.id"), primary_key=True),
        sa.Column("expectation", sa.Text, primary_key=True),
        sa.Column("stream", sa.Text, nullable=False),
        sa.Column("committed_at", sa.BigInteger, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("agrees", sa.Boolean, nullable=True),
        sa.Column("result", sa.Text, nullable=False),
    )
    op.create_index("ix_expectation_results_committed", "expectation_results", ["stream", "committed_at"])


def _stream_controls() -> None:
    op.create_table(
        "stream_controls",
        sa.Column("stream", sa.Text, sa.ForeignKey("contracts.id"), primary_key=True),
        sa.Column("control", sa.Text, nullable=False),
    )
    op.create_table(
        "stream_events",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("stream", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_index("ix_stream_events_stream", "stream_events", ["stream", "key"])
    op.create_table(
        "stream_shadows",
        sa.Column("stream", sa.Text, sa.ForeignKey("contracts.id"), primary_key=True),
        sa.Column("findings", sa.Text, nullable=False),
    )
    op.create_table(
        "stream_heartbeats",
        sa.Column("stream", sa.Text, sa.ForeignKey("contracts.id"), primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("lag_records", sa.BigInteger),
        sa.Column("busy_seconds", sa.Float),
    )
    op.create_table(
        "stream_reconciliations",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("stream", sa.Text, sa.ForeignKey("contracts.id"), nullable=False),
        sa.Column("asked_by", sa.Text, nullable=False),
        sa.Column("asked_at", sa.BigInteger, nullable=False),
        sa.Column("result", sa.Text),
    )
    op.create_index("ix_stream_reconciliations_stream", "stream_reconciliations", ["stream", "key"])
    op.create_table(
        "stream_adoptions",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("stream", sa.Text, sa.ForeignKey("contracts.id"), nullable=False),
        sa.Column("kept_by", sa.Text, nullable=False),
        sa.Column("kept_at", sa.BigInteger, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_index("ix_stream_adoptions_stream", "stream_adoptions", ["stream", "key"])
    op.create_table(
        "stream_replays",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("stream", sa.Text, sa.ForeignKey("contracts.id"), nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("request", sa.Text),
    )
    op.create_index("ix_stream_replays_stream", "stream_replays", ["stream", "key"])
    op.create_table(
        "table_audits",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("stream", sa.Text, sa.ForeignKey("contracts.id"), nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("is_whole", sa.Boolean, nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("refused", sa.BigInteger, nullable=False),
        sa.Column("unreadable", sa.BigInteger, nullable=False),
        sa.Column("unmet", sa.BigInteger, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_index("ix_table_audits_stream", "table_audits", ["stream", "key"])


def _quarantine() -> None:
    op.create_table(
        "quarantine_partitions",
        sa.Column("stream", _NAME, primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True),
        sa.Column("low", sa.BigInteger, nullable=False),
        sa.Column("next_offset", sa.BigInteger, nullable=False),
        sa.Column("high", sa.BigInteger, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("lease_until", sa.BigInteger),
        sa.Column("indexed_at", sa.BigInteger),
    )
    op.create_table(
        "quarantine_facets",
        sa.Column("stream", _NAME, primary_key=True),
        sa.Column("facet", sa.LargeBinary, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
    )
    op.create_table(
        "quarantine_bitmaps",
        sa.Column("stream", _NAME, primary_key=True),
        sa.Column("facet", sa.LargeBinary, primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True),
        sa.Column("chunk", sa.BigInteger, primary_key=True),
        sa.Column("records", sa.Integer, nullable=False),
        sa.Column("offsets", sa.LargeBinary, nullable=False),
    )
    op.create_index("ix_quarantine_bitmaps_partition", "quarantine_bitmaps", ["stream", "partition", "chunk"])
    op.create_table(
        "quarantine_pages",
        sa.Column("stream", _NAME, primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True),
        sa.Column("page", sa.BigInteger, primary_key=True),
        sa.Column("first_minute", sa.Integer, nullable=False),
        sa.Column("last_minute", sa.Integer, nullable=False),
        sa.Column("source_low", sa.BigInteger, nullable=False),
        sa.Column("source_high", sa.BigInteger, nullable=False),
        sa.Column("positions", sa.LargeBinary, nullable=False),
        sa.Column("keys", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "quarantine_days",
        sa.Column("stream", _NAME, primary_key=True),
        sa.Column("facet", sa.LargeBinary, primary_key=True),
        sa.Column("day", sa.Integer, primary_key=True),
        sa.Column("hours", sa.LargeBinary, nullable=False),
        sa.Column("minutes", sa.LargeBinary, nullable=False),
    )
    secret = op.create_table(
        "quarantine_secret",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("secret", sa.LargeBinary, nullable=False),
    )
    op.bulk_insert(secret, [{"id": 1, "secret": secrets.token_bytes(32)}])
    op.create_table(
        "problem_states",
        sa.Column("stream", _NAME, primary_key=True),
        sa.Column("problem", _NAME, primary_key=True),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("known_since", sa.BigInteger, nullable=False),
        sa.Column("changed_at", sa.BigInteger, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_table(
        "problem_comments",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("stream", _NAME, nullable=False),
        sa.Column("problem", _NAME, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
    )
    op.create_index("ix_problem_comments_problem", "problem_comments", ["stream", "problem", "key"])
    op.create_table(
        "quarantine_searches",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("stream", _NAME, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("looked_at", sa.Integer, nullable=False),
        sa.Column("total", sa.Integer, nullable=False),
        sa.Column("positions", sa.Text, nullable=False),
        sa.Column("is_cancelled", sa.Boolean, nullable=False),
        sa.Column("heard_at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_quarantine_searches_stream", "quarantine_searches", ["stream", "key"])
    op.create_table(
        "refusal_closures",
        sa.Column("stream", sa.Text, primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("chunk", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("closure", sa.Text, primary_key=True),
        sa.Column("offsets", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "refusal_reasons",
        sa.Column("stream", _NAME, primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("chunk", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("code", _NAME, primary_key=True),
        sa.Column("offsets", sa.LargeBinary, nullable=False),
    )


def _audit_and_keys() -> None:
    op.create_table(
        "audit",
        sa.Column("number", _NUMBER, primary_key=True, autoincrement=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("who", "action", "subject")),
        *(sa.Column(name, sa.Text) for name in ("before", "after")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("previous", "hash")),
    )
    op.create_index("ix_audit_subject", "audit", ["subject"])
    head = op.create_table(
        "audit_head",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("number", _NUMBER, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
    )
    op.bulk_insert(head, [{"key": 1, "number": 0, "hash": "0" * 64}])
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
    for table in (
        "desk_sessions", "keys", "audit_head", "audit", "refusal_reasons", "refusal_closures",
        "quarantine_searches", "problem_comments", "problem_states", "quarantine_secret",
        "quarantine_days", "quarantine_pages", "quarantine_bitmaps", "quarantine_facets",
        "quarantine_partitions", "table_audits", "stream_replays", "stream_adoptions",
        "stream_reconciliations", "stream_heartbeats", "stream_shadows", "stream_events",
        "stream_controls", "expectation_results", "stream_steps", "stream_rules", "batch_rules", "batches",
        "streams", "status_changes", "associations", "subject_settings", "subject_versions",
        "schema_references", "next_ids", "spent_ids", "schemas", "proposals", "acknowledgements",
        "consumers", "contract_versions", "contracts",
    ):  # fmt: skip
        op.drop_table(table)
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION audit_only_grows()")
