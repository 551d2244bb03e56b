"""Two jobs with the same settings: one runs the stream, the other waits and takes it over. Nothing is lost or doubled."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.integration.enforce.checker import require_exactly_once
from tests.integration.enforce.conftest import publish_to
from tests.integration.enforce.job import Publish, RunningJob
from tests.integration.enforce.line import Line, row
from tests.integration.enforce.registry import Registry

LEASE_SECONDS = 2.0
Start = Callable[..., RunningJob]


def named(job: RunningJob, event: str) -> list[dict[str, object]]:
    return [each for each in job.events if each["event"] == event]


def start_two(start: Start, url: str, line: Line) -> tuple[RunningJob, RunningJob]:
    """Start the job twice; return the one that runs the stream, and the one that waits."""
    line.settings = line.settings.model_copy(update={"lease_seconds": LEASE_SECONDS})
    first = start(url, [line])
    first.await_event("stream_started", epoch=1)
    second = start(url, [line])
    second.await_event("stream_standing_by")
    second.await_event("takeover_rehearsed")
    return first, second


@pytest.mark.full
def test_a_standby_takes_over_from_a_job_that_was_killed(
    line: Line, registry: Registry, publish: Publish, start: Start
) -> None:
    """The killed process stays in the process table, so its lease has to lapse."""
    publish(line.document())
    first, second = start_two(start, registry.url, line)
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
