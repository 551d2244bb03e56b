"""Upserts of any history, cut into any batches, end in the same table: the newest record of each key, or none."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql

from tests.integration.postgresql.staging import Record, claimed, plan_of, stage
from tidegate.contracts.stream.ledger import BatchTotals, PublishedBatch
from tidegate.spark_jobs.sinks.postgresql.table import PostgresqlTable

KEYS = "abcd"
EVENTS = st.lists(
    st.tuples(st.sampled_from(KEYS), st.booleans(), st.integers(0, 5), st.booleans()), min_size=1, max_size=20
)
"""Key, whether it is a tombstone, the producer's clock, whether a batch ends after it."""


def history(events: list[tuple[str, bool, int, bool]]) -> list[list[Record]]:
    """Return the batches; a key's partition is fixed, as producers do, and offsets count up in each partition."""
    batches: list[list[Record]] = [[]]
    ends = [0, 0]
    for number, (key, is_tombstone, second, is_last) in enumerate(events):
        partition = KEYS.index(key) % 2
        value = None if is_tombstone else {"id": key, "ward": str(number)}
        batches[-1].append(Record(value, ends[partition], partition, key.encode(), second))
        ends[partition] += 1
        if is_last:
            batches.append([])
    return [batch for batch in batches if batch]


def survivors(batches: list[list[Record]]) -> dict[str, str]:
    """Fold the history one record after the other."""
    rows: dict[str, str] = {}
    for record in (each for batch in batches for each in batch):
        assert record.key is not None
        if record.value is None:
            rows.pop(record.key.decode(), None)
        else:
            rows[record.key.decode()] = record.value["ward"]
    return rows


@pytest.mark.full
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EVENTS)
def test_any_history_in_any_batches(
    url: str, make_table: Callable[..., PostgresqlTable], events: list[tuple[str, bool, int, bool]]
) -> None:
    contract_id = f"upserts.t{uuid.uuid4().hex}"
    plan = plan_of(id=contract_id, primary_key=["id"], tombstones="delete")
    table = make_table(contract_id, write_mode="upsert")
    held = claimed(table, plan)
    batches = history(events)
    for batch in batches:
        totals = BatchTotals(written=len(batch))
        new = held.publish(PublishedBatch({}, {}, {}, totals, plan.contract.id, 1))
        landed = table.publish(table.stage(stage(table, plan, batch)), held, new)
        assert landed is not None
        held = landed
    with psycopg.connect(url) as connection:
        query = sql.SQL("SELECT id, ward FROM {}").format(sql.Identifier(*contract_id.split(".")))
        found: dict[str, Any] = dict(connection.execute(query).fetchall())
    assert found == survivors(batches)
    assert held.totals.written == len(found)
    assert held.totals.deleted == sum(is_tombstone for _, is_tombstone, _, _ in events)
    assert held.totals.offsets == len(events)
