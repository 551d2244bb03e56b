"""Records that were lost while topics hold only a part of what a stream has read: counts of all time do not excuse them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from psycopg import sql

from tests.integration.enforce.line import KNOWN, Line, row
from tests.integration.enforce.test_source_changes import forget
from tests.marks import full
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.contracts.stream.reconciliation import ReconciliationAnswer


def take_rows(line: Line, ids: list[str]) -> None:
    """Delete rows of a PostgreSQL table by hand."""
    with line.database() as connection:
        table = sql.Identifier(*line.contract_id.split("."))
        connection.execute(sql.SQL("DELETE FROM {} WHERE id = ANY(%s)").format(table), (ids,))


def forget_source(line: Line) -> None:
    """Delete all that was read so far from the source, as retention does."""
    for partition, end in line.ledger().end.items():
        forget(line, line.topic, partition, end)


def ids(first: int, end: int) -> list[str]:
    return [f"r{number}" for number in range(first, end)]


@pytest.fixture
def appended(make_line: Callable[..., Line]) -> Line:
    return make_line(sink="postgresql")


@pytest.mark.full
def test_50_of_1000_records_past_the_retention_of_the_quarantine_topic(appended: Line) -> None:
    line = appended
    line.produce(*(row(number, 999) for number in range(500)))
    line.enforce()
    forget_source(line)
    for partition in (0, 1):
        forget(line, quarantine_topic(line.topic), partition, 125)
    line.produce(*(row(number) for number in range(500, 1_000)))
    line.enforce()
    whole = line.reconcile()
    assert (whole.answer, whole.lost, whole.unverifiable) == (ReconciliationAnswer.UNPROVEN, 0, 250)
    take_rows(line, ids(500, 550))
    found = line.reconcile()
    assert (found.answer, found.lost) == (ReconciliationAnswer.LOST, 50)


@pytest.mark.full
def test_400_of_1000_records_of_a_table_that_is_upserted_into(make_line: Callable[..., Line]) -> None:
    line = make_line(sink="postgresql", write_mode="upsert")
    line.contracts.plan = line.plan(primary_key=["id"])
    line.produce(*(row(number % 100) for number in range(500)))
    line.enforce()
    assert line.reconcile().answer is ReconciliationAnswer.HOLDS
    forget_source(line)
    line.produce(*(row(number) for number in range(500, 1_000)))
    line.enforce()
    assert line.ledger().totals.superseded == 400
    # What was superseded is past retention: whether the newest was kept cannot be shown.
    assert (line.reconcile().answer, line.reconcile().unverifiable) == (ReconciliationAnswer.UNPROVEN, 400)
    take_rows(line, ids(500, 900))
    found = line.reconcile()
    assert (found.answer, found.lost) == (ReconciliationAnswer.LOST, 400)


@pytest.mark.full
def test_500_of_1000_records_of_a_contract_that_drops(appended: Line) -> None:
    line = appended
    line.contracts.plan = line.plan(rules=[{**KNOWN, "on_violation": "drop"}])
    line.produce(*(row(number, 999) for number in range(500)))
    line.enforce()
    forget_source(line)
    line.produce(*(row(number) for number in range(500, 1_000)))
    line.enforce()
    assert line.ledger().totals.dropped == 500
    assert line.reconcile().answer is ReconciliationAnswer.HOLDS
    take_rows(line, ids(500, 1_000))
    found = line.reconcile()
    assert (found.answer, found.lost) == (ReconciliationAnswer.LOST, 500)


@pytest.mark.parametrize(
    "sink",
    [
        "postgresql",
        pytest.param("iceberg", marks=pytest.mark.full),
        pytest.param("delta", marks=pytest.mark.full),
    ],
)
def test_a_row_that_is_older_than_the_newest_record_of_its_key_is_lost(
    make_line: Callable[..., Line], sink: str
) -> None:
    """Here the row itself is right, and the source has a newer record that the table has not: as after a rollback."""
    line = make_line(sink=sink, write_mode="upsert")
    line.contracts.plan = line.plan(primary_key=["id"], tombstones="delete")
    line.produce(row(0, 1), row(0, 2), row(2, 1), row(1, 1))
    line.enforce()
    line.produce(row(2, 3), row(4, 1))
    line.enforce()
    found = line.reconcile()
    assert (found.answer, found.in_no_output) == (ReconciliationAnswer.HOLDS, 2)
    if sink != "postgresql":
        return
    with line.database() as connection:
        table = sql.Identifier(*line.contract_id.split("."))
        stale = "UPDATE {} SET _source_offset = 0 WHERE id = 'r0'"
        connection.execute(sql.SQL(stale).format(table))
    found = line.reconcile()
    assert (found.answer, found.lost) == (ReconciliationAnswer.LOST, 1)
    assert (0, 1) in found.unaccounted


@pytest.mark.full
@pytest.mark.parametrize("key", [[], ["id"]])
@pytest.mark.parametrize("sink", ["postgresql", *full("iceberg", "delta")])
def test_a_row_of_another_topic_is_no_row_of_the_stream(
    make_line: Callable[..., Line], sink: str, key: list[str]
) -> None:
    """Rows of another stream were copied into the table, with the same partitions and offsets."""
    line = make_line(sink=sink, write_mode="upsert" if key else "append")
    line.contracts.plan = line.plan(primary_key=key)
    line.produce(*(row(number) for number in range(6)), row(0, 2))
    line.enforce()
    assert line.reconcile().answer is ReconciliationAnswer.HOLDS
    if sink == "postgresql":
        with line.database() as connection:
            table = sql.Identifier(*line.contract_id.split("."))
            connection.execute(
                sql.SQL("UPDATE {} SET _source_topic = 'another' WHERE id = 'r3'").format(table)
            )
    else:
        name = f"delta.`{line.delta().name}`" if sink == "delta" else f"lake.{line.contract_id}"
        statement = f"UPDATE {name} SET _source.topic = 'another' WHERE id = 'r3'"  # noqa: S608 - a name of ours
        line.spark.sql(statement).collect()
    found = line.reconcile()
    assert (found.answer, found.lost, found.twice) == (ReconciliationAnswer.LOST, 1, 0)
