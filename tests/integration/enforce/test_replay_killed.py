"""Instances that are killed, or stopped and woken up, after each step of a replay."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from tests.integration.enforce.checker import require_exactly_once
from tests.integration.enforce.faults import Publish, StartJob, kill_after, stop_after
from tests.integration.enforce.line import Line, row
from tests.integration.enforce.registry import Registry
from tests.integration.enforce.replaying import MENDED, ask_of_registry, changes, fill, line_of
from tests.integration.enforce.test_faults import SINKS
from tidegate.gateway.exits import ExitCode
from tidegate.spark_jobs.steps import ReplayStep

STEPS = (
    ReplayStep.READ,
    ReplayStep.JUDGE,
    ReplayStep.POSITIONS,
    ReplayStep.STAGE,
    ReplayStep.PUBLISH,
)
PLACES = [
    (sink, step) for sink in SINKS for step in STEPS if "kafka" not in sink or step is not ReplayStep.STAGE
]


@pytest.fixture
def line(make_line: Callable[..., Line], request: pytest.FixtureRequest) -> Line:
    """A line into the sink of the parameter."""
    return line_of(make_line, request)


@pytest.mark.full
@pytest.mark.parametrize(("sink", "step"), PLACES)
def test_killed_in_a_replay(
    line: Line,
    sink: str,  # noqa: ARG001 - `line` takes it
    step: ReplayStep,
    job: StartJob,
    publish: Publish,
    registry: Registry,
) -> None:
    """With SIGKILL; the next instance finishes the request of the registry."""
    publish(line.document(**changes(line)))
    refused = fill(line)
    ask_of_registry(line, registry.url, fix=MENDED)
    kill_after(job, line, step)
    assert not line.reconcile().twice
    line.enforce()
    require_exactly_once(line, refused)


@pytest.mark.full
@pytest.mark.parametrize(("sink", "step"), PLACES)
def test_a_zombie_of_a_replay_wakes_up_to_another_epoch(
    line: Line,
    sink: str,  # noqa: ARG001 - `line` takes it
    step: ReplayStep,
    job: StartJob,
    publish: Publish,
    registry: Registry,
) -> None:
    publish(line.document(**changes(line)))
    refused = fill(line)
    ask_of_registry(line, registry.url, fix=MENDED)
    zombie = stop_after(job, line, step)
    line.enforce()
    require_exactly_once(line, refused)
    if step is ReplayStep.PUBLISH:  # it has nothing left to publish, so it would not notice
        line.produce(row(1000))
        line.enforce()
    os.kill(zombie.pid, signal.SIGCONT)
    line.produce(row(1001))
    assert zombie.wait() == ExitCode.FENCED
    line.enforce()
    require_exactly_once(line, refused)
