"""What the batches of a stream add up to, by rule and by step."""

import json
from collections import Counter

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_CHUNK = 1000


def upgrade() -> None:
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
    op.execute(
        """
        INSERT INTO stream_rules (stream, stage, code, severity, records)
        SELECT b.stream, r.stage, r.code, r.severity, SUM(r.records)
        FROM batch_rules r JOIN batches b ON b.id = r.batch_id
        GROUP BY b.stream, r.stage, r.code, r.severity
        ORDER BY MIN(r.batch_id)
        """
    )
    _sum_steps()


def _sum_steps() -> None:
    """Add up what stands in the reports, some at a time."""
    batches = sa.table("batches", sa.column("id"), sa.column("stream"), sa.column("report"))
    steps = sa.table("stream_steps", sa.column("stream"), sa.column("step"), sa.column("milliseconds"))
    connection = op.get_bind()
    sums: Counter[tuple[str, str]] = Counter()
    after = 0
    while True:
        query = sa.select(batches.c.id, batches.c.stream, batches.c.report)
        rows = connection.execute(query.where(batches.c.id > after).order_by(batches.c.id).limit(_CHUNK)).all()
        for _, stream, report in rows:
            for step, milliseconds in json.loads(bytes(report)).get("timings_ms", {}).items():
                sums[stream, step] += milliseconds
        if len(rows) < _CHUNK:
            break
        after = rows[-1][0]
    if sums:
        connection.execute(
            sa.insert(steps),
            [
                {"stream": stream, "step": step, "milliseconds": milliseconds}
                for (stream, step), milliseconds in sorted(sums.items())
            ],
        )


def downgrade() -> None:
    op.drop_table("stream_steps")
    op.drop_table("stream_rules")
