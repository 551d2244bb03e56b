"""Heartbeats: an idle stream is distinguished from a stream without a job."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from prometheus_client.parser import text_string_to_metric_families as prometheus_text

from tidegate.contracts.stream.control import Heartbeat, StreamEvent
from tidegate.contracts.stream.report import BatchReport
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.desk.stream_states import stream_row
from tidegate.gateway.streams.controls import StreamControls
from tidegate.gateway.streams.reports import StreamReader

MakeContract = Callable[..., bytes]
MakeReport = Callable[..., BatchReport]
STREAM = "hospital.admissions"
NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)


@pytest.fixture(autouse=True)
def reported(factory: Factory, make_contract: MakeContract, make_report: MakeReport) -> None:
    factory.registry().publish(make_contract(), "contract.json")
    factory.reports().record(STREAM, make_report(1, committed_at=NOON, lag_records=0))


def beat(factory: Factory, at: datetime, **told: object) -> None:
    StreamControls(factory.database, lambda: at).beat(STREAM, Heartbeat.model_validate(told))


def state(factory: Factory, now: datetime) -> str:
    (row,) = (stream_row(each, now) for each in StreamReader(factory.database, lambda: now).summaries())
    return row.state.label


def test_an_idle_stream_is_distinguished_from_one_without_a_job(factory: Factory) -> None:
    assert state(factory, LATER) == "Idle"  # its job never said that it lives: nothing is known
    beat(factory, LATER)
    assert state(factory, LATER + timedelta(seconds=30)) == "Idle"
    assert state(factory, LATER + timedelta(seconds=50)) == "Silent"
    beat(factory, LATER + timedelta(seconds=51))
    assert state(factory, LATER + timedelta(seconds=52)) == "Idle"


def test_a_stream_that_was_ended_or_paused_is_not_silent(factory: Factory) -> None:
    beat(factory, LATER)
    later = LATER + timedelta(hours=1)
    event = {"id": uuid4(), "stream": STREAM, "kind": "ended", "at": LATER + timedelta(seconds=1)}
    factory.stream_controls().record_event(STREAM, StreamEvent.model_validate(event))
    assert state(factory, later) == "Ended"
    factory.stream_controls().pause(STREAM, None)
    assert state(factory, later) == "Paused"


def test_a_batch_that_hangs_is_distinguished_from_an_idle_stream(factory: Factory) -> None:
    at = LATER
    for busy_seconds, label in ((599.0, "All clear"), (600.0, "Stuck"), (None, "Idle")):
        told = {} if busy_seconds is None else {"busy_seconds": busy_seconds}
        beat(factory, at, **told)
        assert state(factory, at) == label
        at += timedelta(seconds=1)


def test_records_that_wait_are_seen_without_a_report(factory: Factory) -> None:
    beat(factory, LATER, lag_records=40)
    assert state(factory, LATER) == "Silent"
    assert StreamReader(factory.database, lambda: LATER).summary(STREAM).lag_records == 40
    beat(factory, LATER, lag_records=40, busy_seconds=3.0)
    assert state(factory, LATER) == "All clear"


def samples(client: Any, *names: str) -> list[float]:
    families = prometheus_text(client.get("/metrics").text)
    found = {sample.name: sample.value for family in families for sample in family.samples}
    return [found[name] for name in names]


def test_what_a_heartbeat_tells_is_in_the_metrics_and_on_the_page(client: Any) -> None:
    path, names = (
        f"/api/v1/streams/{STREAM}/heartbeat",
        ("tidegate_lag_records", "tidegate_batch_running_seconds"),
    )
    client.request("POST", path).raise_for_status()
    assert samples(client, *names) == [0, 0]
    assert "one batch in hand" not in client.get(f"/desk/streams/{STREAM}").text
    client.post(path, b'{"busy_seconds": 725}').raise_for_status()
    page = client.get(f"/desk/streams/{STREAM}").text
    assert "Stuck: one batch has taken 12 minutes." in page
    client.post(path, b'{"lag_records": 7, "busy_seconds": 12.5}').raise_for_status()
    assert samples(client, *names) == [7, 12.5]
    assert client.post(path, b'{"lag_records": -1}').status_code == 422
    assert samples(client, *names) == [7, 12.5]


@pytest.mark.parametrize("kind", ["ended", "stopped", "failed"])
def test_no_batch_runs_once_its_job_has_ended(client: Any, factory: Factory, kind: str) -> None:
    """A job sends no heartbeat after its last batch; its alert would stay for ever."""
    beat(factory, LATER, busy_seconds=715.0)
    assert samples(client, "tidegate_batch_running_seconds") == [715]
    event = {"id": uuid4(), "stream": STREAM, "kind": kind, "at": LATER + timedelta(seconds=1)}
    factory.stream_controls().record_event(STREAM, StreamEvent.model_validate(event))
    assert samples(client, "tidegate_batch_running_seconds") == [0]


def test_a_batch_that_was_reported_after_the_heartbeat_does_not_run(
    client: Any, factory: Factory, make_report: MakeReport
) -> None:
    beat(factory, LATER, busy_seconds=715.0)
    factory.reports().record(STREAM, make_report(2, committed_at=LATER + timedelta(seconds=1)))
    assert samples(client, "tidegate_batch_running_seconds") == [0]


def test_maintenance_of_an_idle_stream_is_in_the_metrics(
    client: Any, factory: Factory, make_report: MakeReport
) -> None:
    """Without it, failures would be visible only with the next batch."""
    names = (
        "tidegate_table_snapshots",
        "tidegate_table_data_files",
        "tidegate_table_maintenance_failures_total",
        "tidegate_table_maintenance_seconds",
    )
    size = {"snapshots": 7, "metadata_bytes": 900, "data_files": 3}
    upkeep = {"failures": 2, "seconds": 1.5}
    beat(factory, LATER, table=size, maintenance=upkeep)
    assert samples(client, *names) == [7, 3, 2, 1.5]
    batch = make_report(
        2, committed_at=LATER + timedelta(seconds=1), table={"snapshots": 8}, maintenance={"failures": 3}
    )
    factory.reports().record(STREAM, batch)
    assert samples(client, *names[::2]) == [8, 3]
    beat(factory, LATER + timedelta(seconds=2))  # from a job of an earlier release
    assert samples(client, *names[::2]) == [8, 3]
    beat(factory, LATER + timedelta(seconds=3), table=size, maintenance=upkeep)
    assert samples(client, *names[::2]) == [7, 2]


def test_a_heartbeat_over_http_is_in_the_metrics_and_on_the_page(client: Any) -> None:
    path = f"/api/v1/streams/{STREAM}/heartbeat"
    before = datetime.now(UTC).timestamp()
    answer = client.request("POST", path)
    assert (answer.status_code, answer.json()) == (200, {"reconciliation": None})
    assert client.request("POST", "/api/v1/streams/unknown/heartbeat").status_code == 404
    (seen,) = (
        sample.value
        for family in prometheus_text(client.get("/metrics").text)
        for sample in family.samples
        if sample.name == "tidegate_stream_heartbeat_timestamp_seconds"
    )
    assert seen >= before
    assert "Idle" in client.get(f"/desk/streams/{STREAM}").text
