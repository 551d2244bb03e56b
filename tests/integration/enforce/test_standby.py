"""Two jobs with the same settings: one runs the stream, the other waits and takes it over. Nothing is lost or doubled."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.integration.enforce.checker import require_exactly_once
from tests.integration.enforce.conftest import publish_to
from tests.integration.enforce.job import Publish, RunningJob
from tests.integration.enforce.line import Line, row
from tests.integration.enforce.registry import Registry
from tests.integration.enforce.running import eventually

LEASE_SECONDS = 2.0
MANIFESTS = Path(__file__).parents[3] / "docker/kubernetes.yaml"
Start = Callable[..., RunningJob]


def named(job: RunningJob, event: str) -> list[dict[str, object]]:
    return [each for each in job.events if each["event"] == event]


def start_two(
    start: Start, url: str, line: Line, ready_files: Sequence[Path] = ()
) -> tuple[RunningJob, RunningJob]:
    """Start the job twice; return the one that runs the stream, and the one that waits.

    With ready files, the jobs are started as the shipped deployment starts them.
    """
    line.settings = line.settings.model_copy(update={"lease_seconds": LEASE_SECONDS})
    options = [deployed(each) for each in ready_files] or [[], []]
    first = start(url, [line], *options[0], follows=bool(ready_files))
    first.await_event("stream_started", epoch=1)
    second = start(url, [line], *options[1], follows=bool(ready_files))
    second.await_event("stream_standing_by")
    second.await_event("takeover_rehearsed")
    return first, second


def deployed(ready_file: Path) -> list[str]:
    """Return the arguments with which the shipped deployment starts a job, with another ready file."""
    documents = YAML(typ="safe").load_all(MANIFESTS)
    deployments = {each["metadata"]["name"]: each for each in documents if each["kind"] == "Deployment"}
    job = deployments["tidegate-job"]["spec"]
    assert job["replicas"] == 2
    verb, *arguments, option, _ = job["template"]["spec"]["containers"][0]["args"]
    assert (verb, option) == ("enforce", "--ready-file")
    return [*arguments, option, str(ready_file)]


@pytest.mark.full
@pytest.mark.parametrize("is_deployed", [False, True], ids=["named", "deployed"])
def test_a_standby_takes_over_from_a_job_that_was_killed(
    line: Line, make_registry: Callable[..., Registry], start: Start, tmp_path: Path, is_deployed: bool
) -> None:
    """The killed process stays in the process table, so its lease has to lapse."""
    registry = make_registry()
    publish_to(registry, line.document())
    ready_files = [tmp_path / name for name in ("first.json", "second.json")] if is_deployed else []
    first, second = start_two(start, registry.url, line, ready_files)
    for job, ready_file in zip((first, second), ready_files, strict=False):
        eventually(ready_file.exists)
        told = json.loads(ready_file.read_text())
        assert told == {"pid": job.process.pid, "streams": [line.contract_id]}
    line.produce(*(row(n, 999 if n % 2 else 1) for n in range(10)))
    first.await_event("batch_published")
    line.produce(*(row(n) for n in range(10, 20)))
    first.process.send_signal(signal.SIGKILL)
    line.produce(*(row(n) for n in range(20, 30)))
    second.await_event("stream_started", epoch=2)
    second.await_event("batch_published", lag=0)
    assert second.stop(signal.SIGTERM) == 0
    line.enforce()
    require_exactly_once(line)
    assert line.ledger().epoch == 3  # two jobs, and the line of this test
    assert first.exit_code() == -signal.SIGKILL
    assert [named(job, event) for job in (first, second) for event in ("stream_failed", "lease_lost")] == [
        []
    ] * 4


@pytest.mark.full
def test_a_job_that_was_frozen_becomes_the_standby_and_may_take_over_again(
    line: Line, registry: Registry, publish: Publish, start: Start
) -> None:
    publish(line.document())
    first, second = start_two(start, registry.url, line)
    line.produce(row(0), row(1, 999))
    first.await_event("batch_published")
    first.process.send_signal(signal.SIGSTOP)
    line.produce(*(row(n) for n in range(2, 10)))
    second.await_event("stream_started", epoch=2)
    first.process.send_signal(signal.SIGCONT)
    first.await_event("stream_standing_by")
    line.produce(*(row(n) for n in range(10, 20)))
    second.await_event("batch_published", lag=0)
    assert second.stop(signal.SIGTERM) == 0
    first.await_event("stream_started", epoch=3)
    line.produce(row(20))
    first.await_event("batch_published", epoch=3)
    assert first.stop(signal.SIGTERM) == 0
    line.enforce()
    require_exactly_once(line)
    assert line.ledger().epoch == 4
    assert [len(named(job, "stream_started")) for job in (first, second)] == [2, 1]


@pytest.mark.full
def test_a_registry_that_does_not_answer_is_no_reason_to_take_over(
    line: Line, make_registry: Callable[..., Registry], start: Start
) -> None:
    registry = make_registry()
    publish_to(registry, line.document())
    first, second = start_two(start, registry.url, line)
    registry.stop()
    for n in range(6):  # each batch asks the registry, which does not answer
        line.produce(row(n))
        first.await_event("batch_published", count=n + 1)
    assert second.stop(signal.SIGTERM) == 0
    assert not named(second, "stream_started")
    assert first.stop(signal.SIGTERM) == 0
    assert not named(first, "lease_lost")
    assert line.ledger().epoch == 1
    line.enforce()
    require_exactly_once(line)
