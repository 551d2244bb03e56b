"""Streams that come and go while the job runs: real broker, Spark and registry."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.integration.enforce.job import DEADLINE_SECONDS, RunningJob
from tests.integration.enforce.line import SCHEMA, Line, Sent, environment, row
from tests.integration.enforce.registry import Registry
from tests.integration.enforce.running import eventually
from tidegate.gateway.embedded.jars import Jars

CONTRACTS = "/api/v1/contracts"
StartAll = Callable[..., RunningJob]


@pytest.fixture
def follow(
    jars: Jars,
    quick_starts: None,  # noqa: ARG001 - it is done before
) -> Iterator[StartAll]:
    """Yield a function that starts a job that follows the registry: `follow(line, url, *options, **variables)`."""
    jobs: list[RunningJob] = []

    def run(line: Line, url: str, *options: str, **variables: str) -> RunningJob:
        often = {"TIDEGATE_HEARTBEAT_SECONDS": "0.5"}
        patient = {"TIDEGATE_REGISTRY_TIMEOUT_SECONDS": "30"}
        jobs.append(RunningJob([*options], environment(line, jars, url) | often | patient | variables))
        return jobs[-1]

    yield run
    for job in jobs:
        job.end()


def publish(url: str, line: Line, **changes: object) -> dict[str, object]:
    answer = httpx.post(f"{url}{CONTRACTS}", json=line.document(**changes), timeout=DEADLINE_SECONDS)
    told: dict[str, object] = answer.raise_for_status().json()
    return told


def register(url: str, line: Line) -> None:
    """Register a schema of the line's topic over the Confluent API."""
    body = {"schemaType": "JSON", "schema": json.dumps(SCHEMA)}
    answer = httpx.post(f"{url}/subjects/{line.topic}-value/versions", json=body, timeout=DEADLINE_SECONDS)
    answer.raise_for_status()


def condition(url: str, line: Line) -> str:
    """What the registry says of a stream."""
    found: str = httpx.get(f"{url}/api/v1/streams/{line.contract_id}", timeout=DEADLINE_SECONDS).json()[
        "condition"
    ]["condition"]
    return found


def is_enforced(url: str, line: Line) -> bool:
    """What publishing the same contract again says."""
    enforcement = publish(url, line)["enforcement"]
    assert isinstance(enforcement, dict)
    return bool(enforcement["is_enforced"])


@pytest.mark.full
def test_contracts_come_and_go_while_the_job_runs_and_the_registry_does_not_answer_for_a_while(
    make_line: Callable[..., Line],
    make_registry: Callable[..., Registry],
    follow: StartAll,
    tmp_path: Path,
) -> None:
    first, second, subject, absent = (make_line() for _ in range(4))
    subject.contract_id = subject.topic  # as the registry names the contract of a subject
    absent.topic = f"{absent.topic}-absent"
    registry, ready = make_registry(), tmp_path / "ready.json"
    job = follow(first, registry.url, "--all", "--ready-file", str(ready))
    eventually(ready.exists)  # without a contract there is nothing to wait for
    assert json.loads(ready.read_text())["streams"] == []

    assert publish(registry.url, first)["enforcement"] == {"is_enforced": False, "seen_at": None}
    first.produce(row(0), row(1, 999))
    job.await_event("batch_published", stream=first.contract_id, n=1, written=1, quarantined=1)
    eventually(lambda: is_enforced(registry.url, first))

    register(registry.url, subject)
    subject.produce(row(0), Sent(b'{"id": 1}', partition=1))
    job.await_event("batch_published", stream=subject.contract_id, n=1, written=1, quarantined=1)

    registry.stop()
    job.await_event("contracts_not_listed", streams=2)
    first.produce(row(2))
    job.await_event("batch_published", stream=first.contract_id, n=2, written=1)

    registry = make_registry(port=registry.port)
    publish(registry.url, absent)  # its topic does not exist: it fails beside the others
    publish(registry.url, second)
    job.await_event("stream_restarting", stream=absent.contract_id)
    second.produce(row(0), row(1, 999))
    job.await_event("batch_published", stream=second.contract_id, n=1, written=1, quarantined=1)

    version = f"{registry.url}{CONTRACTS}/{first.contract_id}/versions/1.0.0"
    httpx.delete(version, timeout=DEADLINE_SECONDS).raise_for_status()
    job.await_event("stream_ended", stream=first.contract_id)
    eventually(lambda: condition(registry.url, first) == "ended")
    second.produce(row(2))
    job.await_event("batch_published", stream=second.contract_id, n=2, written=1)

    first.produce(row(4))
    httpx.post(f"{version}/undelete", timeout=DEADLINE_SECONDS).raise_for_status()
    job.await_event("batch_published", stream=first.contract_id, n=3, written=1)
    assert job.stop(signal.SIGTERM) == 0, "".join(job.lines)
    failed = {
        each["stream"] for each in job.events if each["event"] in {"stream_failed", "stream_restarting"}
    }
    assert failed == {absent.contract_id}
    for line in (first, second, subject):
        assert line.reconcile().holds
    assert (len(subject.rows()), len(subject.quarantined())) == (1, 1)
    assert (len(first.rows()), len(first.quarantined())) == (3, 1)


@pytest.mark.full  # the same with other contracts is above
def test_a_prefix_and_a_bound_leave_contracts_out(
    make_line: Callable[..., Line], make_registry: Callable[..., Registry], follow: StartAll
) -> None:
    lines = [make_line() for _ in range(3)]
    for number, line in enumerate(lines):
        line.contract_id = f"{'other' if number == 2 else 'kept'}.{line.contract_id}"
    registry = make_registry()
    for line in lines:
        publish(registry.url, line)
    job = follow(lines[0], registry.url, "--prefix", "kept.", "--max-streams", "1")
    started, left_out = sorted((line for line in lines[:2]), key=lambda line: line.contract_id)
    job.await_event("stream_started", stream=started.contract_id)
    job.await_event("streams_left_out", count=1, contracts=[left_out.contract_id], most=1)
    version = f"{registry.url}{CONTRACTS}/{started.contract_id}/versions/1.0.0"
    httpx.delete(version, timeout=DEADLINE_SECONDS).raise_for_status()
    job.await_event("stream_started", stream=left_out.contract_id)
    assert job.stop(signal.SIGINT) == 130
    assert not any(each.get("stream") == lines[2].contract_id for each in job.events)


@pytest.mark.full
def test_what_is_there_is_processed_once_for_all_contracts(
    make_line: Callable[..., Line], make_registry: Callable[..., Registry], follow: StartAll
) -> None:
    """More contracts than streams may run at one time; one of them cannot be enforced, which the exit code says."""
    good, bad = make_line(), make_line()
    bad.topic = f"{bad.topic}-absent"
    registry = make_registry()
    for line in (good, bad):
        publish(registry.url, line)
    good.produce(row(0), row(1, 999))
    job = follow(
        good,
        registry.url,
        *("--all", "--available-now", "--max-streams", "1"),
        TIDEGATE_RESTART_LIMIT="0",
    )
    assert job.exit_code() == 3, "".join(job.lines)
    job.await_event("batch_published", stream=good.contract_id, written=1, quarantined=1)
    assert good.reconcile().holds
