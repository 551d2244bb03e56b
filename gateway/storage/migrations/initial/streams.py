"""The tables of streams: their batches and counts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tidegate.gateway.storage.migrations.initial.columns import NUMBER


def create_streams() -> None:
    """Create the tables of streams and their batches."""
    # Times are microseconds since 1970. `epoch` counts the claims of a stream, and `n` the batches of an epoch.
    # The `epoch_` columns are about the newest epoch; the others count since the first start.
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
        sa.Column("id", NUMBER, primary_key=True),
        sa.Column("stream", sa.Text, sa.ForeignKey("streams.stream"), nullable=False),
        *(
            sa.Column(name, sa.BigInteger, nullable=False)
            for name in ("epoch", "n", "committed_at", "records", "quarantined", "dropped")
        ),
        sa.Column("report", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("stream", "epoch", "n", name="uq_batches_identity"),
    )
    # The index holds every column of the charts, so that no report is read for them.
    op.create_index(
        "ix_batches_committed", "batches", ["stream", "committed_at", "records", "quarantined", "dropped"]
    )
    op.create_table(
        "batch_rules",
        sa.Column("batch_id", NUMBER, sa.ForeignKey("batches.id"), primary_key=True),
        sa.Column("stage", sa.Text, primary_key=True),
        sa.Column("code", sa.Text, primary_key=True),
        sa.Column("severity", sa.Text, primary_key=True),
        sa.Column("records", sa.BigInteger, nullable=False),
    )


def create_stream_sums() -> None:
    """Create the tables of sums over whole streams: records by rule, and milliseconds by step."""
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


def create_expectation_results() -> None:
    """Create the table of the results of expectations."""
    op.create_table(
        "expectation_results",
        sa.Column("batch_id", NUMBER, sa.ForeignKey("batches.id"), primary_key=True),
        sa.Column("expectation", sa.Text, primary_key=True),
        sa.Column("stream", sa.Text, nullable=False),
        sa.Column("committed_at", sa.BigInteger, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("agrees", sa.Boolean, nullable=True),
        sa.Column("result", sa.Text, nullable=False),
    )
    op.create_index("ix_expectation_results_committed", "expectation_results", ["stream", "committed_at"])
