"""The tables of version 0.1.0.

This migration replaces 22 earlier ones and has the number of the last one. It creates the same tables, so a database
that those migrations created is current.
"""

from __future__ import annotations

from alembic import op

from tidegate.gateway.storage.migrations.initial import (
    access,
    contracts,
    quarantine,
    stream_controls,
    streams,
    subjects,
)

revision = "0022"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    contracts.create_contracts()
    contracts.create_agreements()
    subjects.create_schemas()
    subjects.create_subjects()
    subjects.create_status_changes()
    streams.create_streams()
    streams.create_stream_sums()
    streams.create_expectation_results()
    stream_controls.create_stream_controls()
    stream_controls.create_stream_requests()
    stream_controls.create_table_audits()
    quarantine.create_quarantine_index()
    quarantine.create_quarantine_secret()
    quarantine.create_problems()
    quarantine.create_quarantine_searches()
    quarantine.create_refusals()
    access.create_audit_log()
    access.create_keys()
    access.protect_audit_log()


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
