"""Enforcement into a PostgreSQL table, by the whole job: killed, stopped and overtaken at its commit points."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg import sql
from pydantic import SecretStr
from typer import Exit

from contracts.errors import Fenced, NotFoundError, StreamStopped
from contracts.ledger import BatchTotals
from gateway.embedded.jars import Jars
from spark_jobs.cli import reconcile
from spark_jobs.steps import Step
from tests.integration.enforce.line import KNOWN, SCHEMA, Line, Sent, environment, row
from tests.postgresql import Postgresql

RECORDS = 40
KEYED = {"primary_key": ["id"], "tombstones": "delete"}


@pytest.fixture
def database(postgresql: Postgresql) -> Iterator[SecretStr]:
    """The address of an empty database."""
    with postgresql.database(template="template0") as url:
        yield SecretStr(url.replace("+psycopg", ""))


@pytest.fixture
def line(make_line: Callable[..., Line], database: SecretStr) -> Line:
    """A line into a table of PostgreSQL."""
    return make_line(sink="postgresql", postgresql_url=database)


@pytest.fixture
def upserting(make_line: Callable[..., Line], database: SecretStr) -> Line:
    """A line that merges on the primary key."""
    return make_line(sink="postgresql", postgresql_url=database, write_mode="upsert")


def fill(line: Line, publish: Callable[[dict[str, object]], None]) -> None:
    publish(line.document())
    line.produce(*(row(n, 999 if n % 4 == 0 else 1) for n in range(RECORDS)))


def require_exactly_once(line: Line) -> None:
    found = line.reconcile()
    assert found.holds, found
    assert (found.written, found.quarantined) == (RECORDS - RECORDS // 4, RECORDS // 4)
    assert line.ledger().totals == BatchTotals(written=RECORDS - RECORDS // 4, quarantined=RECORDS // 4)


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


@pytest.mark.parametrize("step", [Step.JUDGE, Step.STAGE])
def test_a_second_instance_fences_the_first(line: Line, step: Step) -> None:
    """Nothing was refused, so that only the compare-and-set of the ledger's row holds the zombie."""
    line.produce(row(0), row(2))

    def claim_meanwhile(_stream: str, finished: Step) -> None:
        if finished is step and not line.reports:
            line.enforce()

    with pytest.raises(Fenced):
        line.enforce(claim_meanwhile)
    assert len(line.rows()) == 2
    assert line.reconcile().holds
    assert line.ledger().epoch == 2


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
    reconcile(line.contract_id, as_json=True, limit=20)
    assert asked()["holds"]
    with line.database() as connection:
        table = sql.Identifier(*line.contract_id.split("."))
        taken = sql.SQL("DELETE FROM {} WHERE _source_partition = 0 AND _source_offset = 2").format(table)
        again = "INSERT INTO {0} SELECT * FROM {0} WHERE _source_partition = 1 AND _source_offset = 0"
        connection.execute(taken)
        connection.execute(sql.SQL(again).format(table))
    with pytest.raises(Exit) as ended:
        reconcile(line.contract_id, as_json=True, limit=20)
    assert ended.value.exit_code == 1
    found = asked()
    assert (found["lost"], found["twice"]) == (1, 1)
    assert found["records"] == {
        "in_no_output": {"count": 1, "first": ["0/2"]},
        "written_twice": {"count": 1, "first": ["1/0"]},
    }
    with pytest.raises(NotFoundError, match="has no ledger"):
        reconcile("test.never_ran", as_json=True, limit=20)


def test_upserts_keep_the_newest_and_count_the_others(upserting: Line) -> None:
    line = upserting
    line.contracts.plan = line.plan(**KEYED)
    line.produce(row(0, 1), row(1, 1), row(0, 2), row(2, 999), Sent(None, b"r1", partition=1), row(4, 1))
    line.enforce()
    line.produce(row(0, 3), Sent(None, b"r4"), row(3, 7))
    line.enforce()
    assert [(r["id"], r["amount"]) for r in line.rows()] == [("r0", 3), ("r3", 7)]
    assert line.ledger().totals == BatchTotals(written=2, superseded=4, deleted=2, quarantined=1)
    found = line.reconcile()
    assert found.holds
    assert found.in_no_output == 6


@pytest.mark.full
def test_killed_at_the_commit_points(
    line: Line, job: Callable[..., subprocess.Popen[bytes]], publish: Callable[[dict[str, object]], None]
) -> None:
    """Between the quarantine and the table, and between the table and Spark's own commit."""
    fill(line, publish)
    assert job(line, Step.QUARANTINE, 2).wait() == -signal.SIGKILL
    assert line.ledger().n == 1
    assert not line.reconcile().twice
    assert job(line, Step.COMMITTED, 1).wait() == -signal.SIGKILL
    assert line.ledger().n == 2
    assert line.reconcile().holds
    line.enforce()
    require_exactly_once(line)
    assert staging_tables(line) == 0


@pytest.mark.parametrize("step", [Step.STAGE, pytest.param(Step.JUDGE, marks=pytest.mark.full), pytest.param(Step.CLAIM, marks=pytest.mark.full)])  # fmt: skip
def test_a_zombie_wakes_up_to_another_epoch(
    line: Line, step: Step, job: Callable[..., subprocess.Popen[bytes]], publish: Callable[[dict[str, object]], None]
) -> None:  # fmt: skip
    """Stopped (SIGSTOP) after a step, overtaken by another instance, and let go again."""
    fill(line, publish)
    zombie = job(line, step, 1, "SIGSTOP")
    _, status = os.waitpid(zombie.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    line.enforce()
    require_exactly_once(line)
    os.kill(zombie.pid, signal.SIGCONT)
    assert zombie.wait() != 0
    require_exactly_once(line)


@pytest.mark.full
def test_killed_after_every_step_in_turn(
    line: Line, job: Callable[..., subprocess.Popen[bytes]], publish: Callable[[dict[str, object]], None]
) -> None:
    fill(line, publish)
    steps = (
        Step.CLAIM,
        Step.FENCE,
        Step.VERIFY,
        Step.SCAN,
        Step.JUDGE,
        Step.DECIDE,
        Step.STAGE,
        Step.QUARANTINE,
    )
    for step in (*steps, Step.PUBLISH, Step.QUARANTINE):
        assert job(line, step, 1).wait() == -signal.SIGKILL
        assert not line.reconcile().twice
    line.enforce()
    require_exactly_once(line)
