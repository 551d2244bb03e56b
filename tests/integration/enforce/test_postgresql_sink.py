"""Enforcement into a PostgreSQL table, by the whole job: killed, stopped and overtaken at its commit points."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from psycopg import sql
from typer import Exit

from tests.integration.enforce.line import KNOWN, SCHEMA, Line, environment, row
from tidegate.contracts.errors import NotFoundError, StreamStopped
from tidegate.contracts.stream.ledger import BatchTotals
from tidegate.gateway.embedded.jars import Jars
from tidegate.spark_jobs.cli import reconcile
from tidegate.spark_jobs.sinks.postgresql.table import qualified_name
from tidegate.spark_jobs.steps import Step


@pytest.fixture
def line(make_line: Callable[..., Line]) -> Line:
    """A line into a table of PostgreSQL."""
    return make_line(sink="postgresql")


def staging_tables(line: Line) -> int:
    with line.database() as connection:
        query = "SELECT 1 FROM pg_tables WHERE schemaname = 'tidegate' AND tablename <> 'ledger'"
        return len(connection.execute(query).fetchall())


def test_rows_say_where_they_came_from_and_every_offset_is_accounted_for(line: Line) -> None:
    line.produce(*(row(n, 999 if n == 3 else n, day="2024-02-29") for n in range(20)))
    line.enforce(max_offsets=6)
    found = line.rows()
    assert len(found) == 19
    assert [(r["id"], r["amount"], str(r["day"]), r["_source_topic"], r["_source_offset"], r["_contract"]) for r in found[:2]] == [
        ("r0", 0, "2024-02-29", line.topic, 0, f"{line.contract_id}@1.0.0"),
        ("r2", 2, "2024-02-29", line.topic, 1, f"{line.contract_id}@1.0.0"),
    ]  # fmt: skip
    assert line.ledger().totals == BatchTotals(written=19, quarantined=1)
    assert line.reconcile().holds
    assert len(line.reports) > 2
    assert set(line.reports[0].timings_ms) == {
        "contract",
        "judge",
        "decide",
        "quarantine",
        "stage",
        "publish",
    }
    assert staging_tables(line) == 0


def test_a_new_contract_version_adds_its_columns_between_two_batches(line: Line) -> None:
    wider = {**SCHEMA, "properties": {**SCHEMA["properties"], "note": {"type": "string"}}}
    line.produce(*(row(2 * n) for n in range(4)))

    def publish_after_first(_stream: str, step: Step) -> None:
        if step is Step.COMMITTED:
            line.contracts.plan = line.plan(
                version="1.1.0", schema={"type": "json-schema", "definition": wider}
            )

    line.enforce(publish_after_first, max_offsets=2)
    line.produce(row(8, note="seen"))
    line.enforce()
    assert [r["note"] for r in line.rows()] == [None] * 4 + ["seen"]
    assert line.reconcile().holds


def test_a_batch_that_must_not_pass_leaves_no_trace(line: Line) -> None:
    line.contracts.plan = line.plan(rules=[{**KNOWN, "on_violation": "fail"}])
    line.produce(row(0), row(1), row(2, 999))
    with pytest.raises(StreamStopped):
        line.enforce()
    assert line.rows() == []
    assert staging_tables(line) == 0
    line.contracts.plan = line.plan(version="1.0.1")
    line.enforce()
    assert line.reconcile().holds


def test_the_command_finds_what_somebody_has_taken_away_or_added(
    line: Line, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line.produce(*(row(n, 999 if n == 3 else 1) for n in range(8)))
    line.enforce()
    for name, value in environment(line, Jars(Path(), Path()), "http://none").items():
        monkeypatch.setenv(name, value)

    def asked() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    capsys.readouterr()  # what the job has logged
    reconcile(line.contract_id, output_format="json", limit=20)
    assert asked()["holds"]
    with line.database() as connection:
        table = sql.Identifier(*line.contract_id.split("."))
        taken = sql.SQL("DELETE FROM {} WHERE _source_partition = 0 AND _source_offset = 2").format(table)
        again = "INSERT INTO {0} SELECT * FROM {0} WHERE _source_partition = 1 AND _source_offset = 0"
        connection.execute(taken)
        connection.execute(sql.SQL(again).format(table))
    with pytest.raises(Exit) as ended:
        reconcile(line.contract_id, output_format="json", limit=20)
    assert ended.value.exit_code == 1
    found = asked()
    assert (found["lost"], found["twice"]) == (1, 1)
    assert found["records"] == {
        "in_no_output": {"count": 1, "first": ["0/2"]},
        "written_twice": {"count": 1, "first": ["1/0"]},
    }
    with pytest.raises(NotFoundError, match="has no ledger"):
        reconcile("test.never_ran", output_format="json", limit=20)


@pytest.mark.full
def test_a_time_in_microseconds_that_a_producer_gave_as_milliseconds_is_stored(
    line: Line, make_topic: Callable[..., str]
) -> None:
    """Such times are after the year 9999, which Arrow cannot write as text and psycopg cannot read."""
    line.topic = make_topic("rows", partitions=2, message_timestamp_after_max_ms=str(2**63 - 1))
    line.contracts.plan = line.plan()
    line.produce(*(replace(row(n), timestamp_ms=1_700_000_000_000 * 1_000**n) for n in range(2)))
    line.enforce()
    with line.database() as connection:
        query = sql.SQL("SELECT extract(epoch FROM _source_timestamp)::bigint FROM {} ORDER BY 1")
        found = connection.execute(query.format(sql.Identifier(*qualified_name(line.contract_id)))).fetchall()
    assert found == [(1_700_000_000,), (1_700_000_000_000,)]
    assert line.reconcile().holds
