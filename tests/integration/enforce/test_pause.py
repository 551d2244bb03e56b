"""Streams that people or error budgets pause: nothing of a batch is written, and they go on by themselves."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from tests.integration.enforce.job import DEADLINE_SECONDS, Publish, RunningJob
from tests.integration.enforce.line import Line, row
from tests.integration.enforce.registry import Registry, back_up, put_back
from tests.integration.enforce.running import eventually, running
from tests.marks import full
from tidegate.contracts.errors import StreamStopped
from tidegate.contracts.stream.decide import BudgetSpent
from tidegate.spark_jobs.job.control import StreamPaused

BUDGET = {"ratio": 0.5, "action": "pause"}


@pytest.fixture
def ask(registry: Registry) -> Callable[..., Any]:
    """Return a function that asks the gateway about a line's stream: `ask(line, "pause", reason="why")`."""

    def send(line: Line, what: str, **body: object) -> Any:
        path = f"{registry.url}/api/v1/streams/{line.contract_id}/{what}"
        answer = httpx.get(path) if what == "control" else httpx.post(path, json=body)
        return answer.raise_for_status().json()

    return send


def test_a_paused_stream_writes_nothing_continues_by_itself_and_leaves_the_others_alone(
    make_line: Callable[..., Line],
    spark: SparkSession,
    registry: Registry,
    publish: Publish,
    ask: Callable[..., Any],
) -> None:
    paused, other = make_line(), make_line()
    for line in (paused, other):
        publish(line.document())
        line.produce(row(0))

    def logged(name: str) -> list[MutableMapping[str, Any]]:
        return [event for event in events if event["event"] == name]

    with (
        capture_logs() as events,
        running(spark, paused, registry.url) as stream,
        running(spark, other, registry.url) as neighbour,
    ):
        eventually(lambda: len(paused.reports) == len(other.reports) == 1)
        ask(paused, "pause", reason="the clock is wrong")
        for line in (paused, other):
            line.produce(row(1), row(2, 999))
        eventually(lambda: logged("stream_paused") != [])
        (told,) = logged("stream_paused")
        assert told["stream"] == paused.contract_id
        assert "is paused (the clock is wrong; by anonymous" in told["reason"]
        eventually(lambda: len(other.reports) == 2)
        assert (len(paused.rows()), len(paused.quarantined()), paused.ledger().n) == (1, 0, 1)
        ask(paused, "resume")
        eventually(lambda: len(paused.reports) == 2)
    assert (stream.failure, neighbour.failure) == (None, None)
    assert logged("stream_restarting") == []
    for line in (paused, other):
        assert line.reconcile().holds
        assert (len(line.rows()), len(line.quarantined())) == (2, 1)


@pytest.mark.full
def test_a_spent_budget_pauses_until_its_batch_is_accepted_also_after_a_restart(
    make_line: Callable[..., Line],
    spark: SparkSession,
    registry: Registry,
    publish: Publish,
    ask: Callable[..., Any],
) -> None:
    line = make_line()
    publish(line.document(error_budget=BUDGET))
    line.produce(*(row(number, 999) for number in range(6)), row(6))

    def has_tripped(earlier: str | None) -> bool:
        control = ask(line, "control")
        return control["state"] == "paused" and control["trip"]["id"] != earlier

    with running(spark, line, registry.url) as stream:
        eventually(lambda: has_tripped(None))
        trip = ask(line, "control")["trip"]
        assert (trip["refused"], trip["records"]) == (6, 7)
        assert trip["rules"] == [
            {"stage": "rule", "code": "amount-is-known", "severity": "error", "records": 6}
        ]
        ask(line, "resume")  # judged again: it trips again
        eventually(lambda: has_tripped(trip["id"]))
        assert stream.is_alive()
        assert (line.rows(), line.quarantined()) == ([], [])
    ask(line, "resume", accept_batch=True)
    with running(spark, line, registry.url) as stream:
        eventually(lambda: len(line.reports) == 1)
        assert (len(line.rows()), len(line.quarantined())) == (1, 6)
        accepted = ask(line, "control")["trip"]["id"]
        line.produce(*(row(number, 999) for number in range(7, 10)))  # these were not accepted
        eventually(lambda: has_tripped(accepted))
        assert stream.failure is None
    assert line.reconcile().holds
    assert (len(line.rows()), len(line.quarantined())) == (1, 6)


def test_a_budget_that_fails_ends_the_stream_and_what_is_accepted_then_passes(
    make_line: Callable[..., Line],
    spark: SparkSession,
    registry: Registry,
    publish: Publish,
    ask: Callable[..., Any],
) -> None:
    line = make_line()
    publish(line.document(error_budget={**BUDGET, "action": "fail"}))
    line.produce(row(0, 999), row(1, 999), row(2))

    def end() -> BaseException | None:
        with running(spark, line, registry.url, available_now=True) as stream:
            stream.join(DEADLINE_SECONDS)
        return stream.failure

    stopped = end()
    assert isinstance(stopped, BudgetSpent)
    assert "error budget spent: 2 of 3 records refused, 50.0% allowed" in str(stopped)
    assert ask(line, "control")["state"] == "running"
    metrics = httpx.get(f"{registry.url}/metrics").text
    assert f'tidegate_stream_stopped{{stream="{line.contract_id}"}} 1.0' in metrics
    ask(line, "pause")
    paused = end()
    assert isinstance(paused, StreamPaused)
    assert f"{line.contract_id} is paused" in str(paused)
    ask(line, "resume", accept_batch=True)
    assert end() is None
    assert (len(line.rows()), len(line.quarantined())) == (1, 2)
    assert line.reconcile().holds


def test_a_registry_restored_without_decisions_stops_the_stream_at_its_start(
    make_line: Callable[..., Line], spark: SparkSession, tmp_path: Path
) -> None:
    line = make_line()
    registry = Registry(tmp_path, 0)
    streams = f"api/v1/streams/{line.contract_id}"

    def ask(what: str, **body: object) -> None:
        httpx.post(f"{registry.url}/{what}", json=body).raise_for_status()

    def failure(*, at_end: int) -> BaseException | None:
        line.produce(row(at_end))
        with running(spark, line, registry.url, available_now=True) as stream:
            stream.join(DEADLINE_SECONDS)
        return stream.failure

    try:
        ask("api/v1/contracts", **line.document())
        back_up(tmp_path)
        ask(f"{streams}/pause", reason="the clock is wrong")
        ask(f"{streams}/resume")
        assert failure(at_end=0) is None
        assert line.ledger().decisions == 2
        registry.stop()
        put_back(tmp_path)
        registry = Registry(tmp_path, 0)
        stopped = failure(at_end=1)
        assert isinstance(stopped, StreamStopped)
        assert f"knows 0 decisions about {line.contract_id}, and told its job of 2" in str(stopped)
        assert f"tidegate resume {line.contract_id} --decisions 2" in str(stopped)
        ask(f"{streams}/pause", reason="again")
        ask(f"{streams}/resume", decisions=2)
        assert failure(at_end=2) is None
    finally:
        registry.stop()
    assert line.reconcile().holds
    assert len(line.rows()) == 3


@pytest.mark.full
@pytest.mark.parametrize("sink", full("iceberg", "delta", "postgresql", "kafka"))
def test_a_registry_restored_without_a_pause_is_noticed_although_no_batch_followed_it(
    make_line: Callable[..., Line], spark: SparkSession, tmp_path: Path, sink: str
) -> None:
    """The pause is in the ledger: from the job that it stopped, or from the next start, which sees it first."""
    line = make_line(sink=sink)
    registry = Registry(tmp_path, 0)
    streams = f"api/v1/streams/{line.contract_id}"

    def ask(what: str, **body: object) -> None:
        httpx.post(f"{registry.url}/{what}", json=body).raise_for_status()

    def failure() -> BaseException | None:
        with running(spark, line, registry.url, available_now=True) as stream:
            stream.join(DEADLINE_SECONDS)
        return stream.failure

    try:
        ask("api/v1/contracts", **line.document())
        line.produce(row(0))
        with running(spark, line, registry.url) as stream:
            eventually(lambda: len(line.reports) == 1)
            back_up(tmp_path)
            ask(f"{streams}/pause", reason="the clock is wrong")
            line.produce(row(1))
            eventually(lambda: line.ledger().decisions == 1)
        assert stream.failure is None
        assert line.ledger().n == 1
        ask(f"{streams}/resume")
        ask(f"{streams}/pause", reason="it is wrong again")
        assert isinstance(failure(), StreamPaused)
        assert line.ledger().decisions == 3
        registry.stop()
        put_back(tmp_path)
        registry = Registry(tmp_path, 0)
        stopped = failure()
        assert isinstance(stopped, StreamStopped)
        assert f"knows 0 decisions about {line.contract_id}, and told its job of 3" in str(stopped)
        assert line.ledger().totals.written == 1
        ask(f"{streams}/pause", reason="again")
        ask(f"{streams}/resume", decisions=3)
        assert failure() is None
    finally:
        registry.stop()
    assert line.reconcile().holds


@pytest.mark.full
def test_a_pause_waits_although_the_table_is_not_as_it_should_be(
    make_line: Callable[..., Line],
    spark: SparkSession,
    registry: Registry,
    publish: Publish,
    ask: Callable[..., Any],
) -> None:
    """Somebody pauses a stream to repair its table, and restarts the job meanwhile."""
    line = make_line(sink="postgresql")
    publish(line.document())
    line.produce(row(0))
    line.enforce()
    ask(line, "pause", reason="the table is repaired")
    with line.database() as connection:
        connection.execute("ALTER TABLE tidegate.ledger RENAME TO broken")
    with capture_logs() as events, running(spark, line, registry.url) as stream:
        eventually(lambda: [each for each in events if each["event"] == "stream_paused"] != [])
        assert [each["log_level"] for each in events if each["event"] == "pause_not_in_ledger"] == ["warning"]
        with line.database() as connection:
            connection.execute("DROP TABLE tidegate.ledger")
            connection.execute("ALTER TABLE tidegate.broken RENAME TO ledger")
        ask(line, "resume")
        line.produce(row(1))
        eventually(lambda: len(line.reports) == 2)
    assert stream.failure is None
    assert line.reconcile().holds


@pytest.mark.full
def test_a_job_that_is_to_end_by_itself_says_that_its_stream_is_paused(
    line: Line,
    registry: Registry,
    publish: Publish,
    start: Callable[..., RunningJob],
    ask: Callable[..., Any],
) -> None:
    publish(line.document())
    line.produce(row(0))
    ask(line, "pause", reason="the clock is wrong")
    job = start(registry.url, [line], "--available-now")
    assert job.exit_code() == 4, "".join(job.lines)
    assert any("is paused (the clock is wrong; by anonymous" in each for each in job.lines)
    ask(line, "resume")
    assert start(registry.url, [line], "--available-now").exit_code() == 0
    assert len(line.rows()) == 1
