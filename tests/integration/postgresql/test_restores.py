"""Rows and ledger of a PostgreSQL table that were restored from different moments."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
import structlog.testing
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.integration.postgresql.staging import Record, claimed, plan_of, publish
from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.stream.ledger import BatchTotals, Ledger, PublishedBatch
from tidegate.spark_jobs.sinks.postgresql.table import PostgresqlTable
from tidegate.spark_jobs.sinks.store import move_ledger

MakeTable = Callable[..., PostgresqlTable]
SECOND = PublishedBatch({0: 9}, {0: 12}, {}, BatchTotals(written=3), "hospital.admissions@1.0.0", 1)
FILLER = """INSERT INTO hospital.admissions SELECT rows.* FROM hospital.admissions rows, generate_series(1, 40000)
WHERE _source_offset = 0"""


def run(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)  # type: ignore[arg-type] # our own literals


def two_batches(table: PostgresqlTable, url: str) -> Ledger:
    """Publish two batches, with a backup of rows and ledgers between them. Return the ledger of the backup."""
    plan = plan_of()
    first = publish(table, plan, claimed(table, plan), [Record({"id": f"{n}"}, n) for n in range(9)])
    run(
        url,
        "CREATE TABLE rows_then AS TABLE hospital.admissions",
        "CREATE TABLE ledger_then AS TABLE tidegate.ledger",
    )
    stage = table.stage([])
    second = first.publish(SECOND)
    assert table.publish(stage, first, second) == second
    run(
        url,
        "CREATE TABLE more AS SELECT * FROM hospital.admissions LIMIT 3",
        "UPDATE more SET _source_offset = _source_offset + 9",
        "INSERT INTO hospital.admissions TABLE more",
    )
    return first


def restore_ledger(url: str) -> None:
    run(url, "DELETE FROM tidegate.ledger", "INSERT INTO tidegate.ledger TABLE ledger_then")


def restore_rows(url: str) -> None:
    run(url, "TRUNCATE hospital.admissions", "INSERT INTO hospital.admissions TABLE rows_then")


def test_an_older_ledger_beside_newer_rows_stops_the_stream(url: str, make_table: MakeTable) -> None:
    two_batches(make_table(), url)
    claimed(make_table(), plan_of())
    restore_ledger(url)
    with pytest.raises(
        StreamStopped, match=r"batches after batch 1.*tidegate adopt hospital.admissions --replace"
    ):
        claimed(make_table(), plan_of())


def test_after_a_restore_all_rows_are_compared(url: str, make_table: MakeTable) -> None:
    """The newest pages hold only rows that the older ledger covers; the files of the table are new."""
    two_batches(make_table(), url)
    restore_ledger(url)
    run(url, FILLER, "VACUUM FULL hospital.admissions")
    with pytest.raises(StreamStopped, match="restored from an older moment"):
        claimed(make_table(), plan_of())


def test_fewer_rows_than_the_ledger_counts_are_logged(url: str, make_table: MakeTable) -> None:
    two_batches(make_table(), url)
    restore_rows(url)
    with structlog.testing.capture_logs() as logged:
        claimed(make_table(), plan_of())
    (event,) = [each for each in logged if each["event"] == "table_rows_missing"]
    assert (event["log_level"], event["rows"], event["counted"]) == ("warning", 9, 12)
    with structlog.testing.capture_logs() as again:
        claimed(make_table(), plan_of())
    assert not again


def test_replayed_rows_are_counted_once(url: str, make_table: MakeTable) -> None:
    two_batches(make_table(), url)
    held = claimed(make_table(), plan_of())
    assert held.totals.written == 12
    move_ledger(make_table(), held, held.model_copy(update={"replayed": 2}), "test")
    run(url, "VACUUM FULL hospital.admissions")
    with structlog.testing.capture_logs() as logged:
        claimed(make_table(), plan_of())
    assert logged == []


def test_rows_and_ledger_of_one_moment_go_on(url: str, make_table: MakeTable) -> None:
    first = two_batches(make_table(), url)
    restore_ledger(url)
    restore_rows(url)
    with structlog.testing.capture_logs() as logged:
        held = claimed(make_table(), plan_of())
    assert (held, logged) == (first.claim(1), [])


def test_merged_rows_are_not_compared(url: str, make_table: MakeTable) -> None:
    """A record that is merged a second time changes nothing."""
    keyed = plan_of(primary_key=["id"])
    two_batches(make_table(), url)
    restore_ledger(url)
    run(url, "UPDATE hospital.admissions SET id = id || '-later' WHERE _source_offset >= 9")
    claimed(make_table(write_mode="upsert"), keyed)


def test_ledgers_of_an_earlier_release_get_the_column(url: str, make_table: MakeTable) -> None:
    two_batches(make_table(), url)
    run(url, "ALTER TABLE tidegate.ledger DROP COLUMN storage")
    claimed(make_table(), plan_of())
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT storage IS NOT NULL FROM tidegate.ledger").fetchone() == (True,)


def test_ledgers_of_another_owner_stay_as_they_are(url: str, make_table: MakeTable) -> None:
    """This role may not add the column. The stream starts, and its newest pages are looked at."""
    two_batches(make_table(), url)
    run(
        url,
        "ALTER TABLE tidegate.ledger DROP COLUMN storage",
        "CREATE ROLE job LOGIN",
        "GRANT ALL ON SCHEMA tidegate, hospital TO job",
        "GRANT ALL ON tidegate.ledger TO job",
        "ALTER TABLE hospital.admissions OWNER TO job",
        f'GRANT CREATE ON DATABASE "{conninfo_to_dict(url)["dbname"]}" TO job',
    )
    as_job = make_conninfo(url, user="job")
    claimed(make_table(postgresql_url=as_job), plan_of())
    run(url, "UPDATE tidegate.ledger SET ledger = ledger_then.ledger FROM ledger_then")
    with pytest.raises(StreamStopped, match="restored from an older moment"):
        claimed(make_table(postgresql_url=as_job), plan_of())
    run(url, "DROP OWNED BY job CASCADE", "DROP ROLE job")
