"""Whatever is killed, stopped or started twice, on every sink: nothing lost, nothing twice, nothing changed."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from itertools import count

import pytest

from tests.integration.enforce.checker import require_exactly_once
from tests.integration.enforce.faults import (
    RECORDS,
    Publish,
    StartJob,
    fill,
    kill_after,
    require_nothing_twice,
    stop_after,
    wake,
)
from tests.integration.enforce.job import RunningJob
from tests.integration.enforce.line import KNOWN, Line, row
from tests.integration.enforce.registry import Registry
from tests.integration.enforce.running import eventually
from tests.integration.enforce.test_source_changes import PowerCutError
from tests.marks import full
from tidegate.contracts.errors import Fenced
from tidegate.spark_jobs.steps import Step

STARTING = (Step.CLAIM, Step.FENCE, Step.VERIFY, Step.SCAN)
IN_BATCH = (Step.JUDGE, Step.DECIDE, Step.SLOT, Step.QUARANTINE, Step.STAGE, Step.PUBLISH, Step.COMMITTED)
IN_ONE_TRANSACTION = (Step.JUDGE, Step.DECIDE, Step.PUBLISH, Step.COMMITTED)
IN_TASKS = (Step.JUDGE, Step.DECIDE, Step.SLOT, Step.PUBLISH, Step.COMMITTED)
UPSERT = {"write_mode": "upsert"}
SINKS = {
    "iceberg": {"sink": "iceberg"},
    "iceberg-upsert": {"sink": "iceberg", **UPSERT},
    "delta": {"sink": "delta"},
    "delta-upsert": {"sink": "delta", **UPSERT},
    "postgresql": {"sink": "postgresql"},
    "postgresql-upsert": {"sink": "postgresql", **UPSERT},
    "kafka": {"sink": "kafka"},
    "kafka-tasks": {"sink": "kafka", "accepted_slots": 2},
}
QUICK_KILLS = {("iceberg", Step.QUARANTINE)}
"""Before the sink's commit: the selection that is not left to the long run, beside an attempt that ends after each step.

For Kafka, where both are one transaction, test_slots.py has instances that are killed in it. Within one process,
`test_a_second_instance_fences_the_first` has a zombie on each sink; those of processes of their own are all long.
"""
QUICK_ZOMBIES: set[tuple[str, Step]] = set()


def at(quick: set[tuple[str, Step]], *places: tuple[str, Step]) -> list[object]:
    """Name a sink and a step each."""
    return [
        pytest.param(
            sink, step, id=f"{sink}-{step}", marks=[] if (sink, step) in quick else [pytest.mark.full]
        )
        for sink, step in places
    ]


@pytest.fixture
def line(make_line: Callable[..., Line], request: pytest.FixtureRequest) -> Line:
    """A line into the sink of the parameter, or into an Iceberg table."""
    name = (
        request.node.callspec.params.get("sink", "iceberg")
        if hasattr(request.node, "callspec")
        else "iceberg"
    )
    return make_line(**SINKS[name])


@pytest.mark.parametrize("step", [*STARTING, *IN_BATCH])
@pytest.mark.parametrize("sink", ["iceberg", *full("delta", "postgresql")])
def test_an_attempt_that_ends_after_a_step_is_finished_by_the_next(
    line: Line, sink: str, step: Step  # noqa: ARG001 - `line` takes it
) -> None:  # fmt: skip
    """As killed there, within this process: each step has a test that takes seconds."""

    def cut(_stream: str, passed: Step) -> None:
        if passed is step:
            raise PowerCutError

    line.produce(*(row(n, 999 if n % 3 == 1 else 1) for n in range(8)))
    line.enforce(quarantine_slots=2)
    line.produce(*(row(n, 999 if n % 3 == 1 else 1) for n in range(8, 16)))
    with pytest.raises(PowerCutError):
        line.enforce(cut, quarantine_slots=2)
    require_nothing_twice(line)
    line.enforce()
    require_exactly_once(line)
    assert line.ledger().totals.offsets == 16


@pytest.mark.parametrize(
    ("sink", "step"),
    at(
        QUICK_KILLS,
        *(("iceberg", step) for step in (*STARTING, *IN_BATCH)),
        *(("kafka", step) for step in (Step.FENCE, Step.VERIFY, Step.CLAIM, *IN_ONE_TRANSACTION)),
        *(("kafka-tasks", step) for step in (*STARTING, *IN_TASKS)),
        *((sink, step) for sink in ("delta", "postgresql") for step in (*STARTING, *IN_BATCH)),
        *((f"{sink}-upsert", Step.STAGE) for sink in ("iceberg", "delta", "postgresql")),
        *((f"{sink}-upsert", Step.PUBLISH) for sink in ("iceberg", "delta")),
    ),
)
def test_killed_after_a_step(
    line: Line, sink: str, step: Step, job: StartJob, publish: Publish
) -> None:  # fmt: skip
    """With SIGKILL, in the second batch or in the start of a second instance, and started again."""
    if step in STARTING:
        line.enforce()
    fill(line, publish)
    # Of two slots of the quarantine, the first in the second batch; tasks tell of theirs once in a batch.
    slot = 2 if sink == "kafka-tasks" else 3
    times = {Step.SLOT: slot, **dict.fromkeys(STARTING, 1)}.get(step, 2)
    kill_after(job, line, step, times, TIDEGATE_QUARANTINE_SLOTS="2")
    require_nothing_twice(line)
    line.enforce()
    require_exactly_once(line)


@pytest.mark.parametrize(
    ("sink", "step"),
    at(
        QUICK_ZOMBIES,
        *(("iceberg", step) for step in (*STARTING, *IN_BATCH)),
        *((sink, step) for sink in ("delta", "postgresql") for step in (*STARTING, *IN_BATCH)),
        *((f"{sink}-upsert", Step.STAGE) for sink in ("iceberg", "delta", "postgresql")),
        *(("kafka", step) for step in (Step.VERIFY, Step.CLAIM, *IN_ONE_TRANSACTION)),
        *(("kafka-tasks", step) for step in (Step.VERIFY, Step.CLAIM, Step.SCAN, *IN_TASKS)),
    ),
)  # fmt: skip
def test_a_zombie_wakes_up_to_another_epoch(
    line: Line, sink: str, step: Step, job: StartJob, publish: Publish  # noqa: ARG001 - `line` takes it
) -> None:  # fmt: skip
    """Stopped with SIGSTOP after a step, overtaken by another instance, and let go again."""
    fill(line, publish)
    zombie = stop_after(job, line, step)
    line.enforce()
    require_exactly_once(line)
    wake(zombie)
    require_exactly_once(line)


@pytest.mark.full
@pytest.mark.parametrize("sink", ["kafka", "kafka-tasks"])
def test_a_zombie_that_has_not_read_the_ledger_goes_on_as_the_next_instance(
    line: Line, sink: str, job: StartJob, publish: Publish  # noqa: ARG001 - `line` takes it
) -> None:  # fmt: skip
    """It reads the ledger that the other one has left; its claim is refused, and the stream starts again."""
    fill(line, publish)
    zombie = stop_after(job, line, Step.FENCE)
    line.enforce()
    overtaken = line.ledger()
    line.produce(row(RECORDS), row(RECORDS + 1, 999))
    zombie.send_signal(signal.SIGCONT)
    try:
        eventually(lambda: line.ledger().totals.offsets == RECORDS + 2)
    finally:
        zombie.kill()
        zombie.wait()
    assert line.ledger().epoch > overtaken.epoch
    require_exactly_once(line)


@pytest.mark.parametrize(
    ("sink", "step"),
    [
        ("iceberg", Step.STAGE),
        ("kafka", Step.DECIDE),
        pytest.param("delta", Step.STAGE, marks=pytest.mark.full),
        pytest.param("postgresql", Step.STAGE, marks=pytest.mark.full),
        pytest.param("kafka-tasks", Step.SLOT, marks=pytest.mark.full),
        *(
            pytest.param(sink, Step.JUDGE, marks=pytest.mark.full)
            for sink in ("iceberg", "delta", "postgresql")
        ),
        *(
            pytest.param(f"{sink}-upsert", Step.STAGE, marks=pytest.mark.full)
            for sink in ("iceberg", "delta", "postgresql")
        ),
    ],
)
def test_a_second_instance_fences_the_first(
    line: Line, sink: str, step: Step
) -> None:  # fmt: skip
    """Of the table sinks nothing was refused, so that only the comparison of the ledger holds the zombie."""
    line.contracts.plan = line.plan(primary_key=["id"])
    line.produce(row(0), row(2), row(0, 2), row(1, 999 if sink.startswith("kafka") else 1))

    def claim_meanwhile(_stream: str, finished: Step) -> None:
        if finished is step and not line.reports:
            line.enforce()

    with pytest.raises(Fenced):
        line.enforce(claim_meanwhile)
    require_exactly_once(line)


@pytest.mark.parametrize(
    "sink", [pytest.param(sink, marks=pytest.mark.full) for sink in ("iceberg", "delta", "postgresql", "kafka", "kafka-tasks")]
)  # fmt: skip
def test_two_jobs_started_together(
    line: Line,
    sink: str,  # noqa: ARG001 - `line` takes it
    registry: Registry,
    publish: Publish,
    start: Callable[..., RunningJob],
) -> None:
    """Without a lease, one of them ends as fenced, and the other does all the work."""
    line.settings = line.settings.model_copy(update={"lease_seconds": 0})
    fill(line, publish)
    jobs = [start(registry.url, [line], "--max-offsets", "10") for _ in range(2)]
    loser, winner = _first_to_end(line, jobs)
    assert loser.exit_code() == 5, "".join(loser.lines)
    assert winner.stop(signal.SIGTERM) == 0, "".join(winner.lines)
    line.enforce()
    require_exactly_once(line)


def _first_to_end(line: Line, jobs: list[RunningJob]) -> tuple[RunningJob, RunningJob]:
    """Produce until one of two jobs has ended: a job without a batch to publish does not notice the other."""
    for number in count(100):
        for one, other in (jobs, jobs[::-1]):
            if one.process.poll() is not None:
                return one, other
        line.produce(row(number, 999 if number % 5 == 0 else 1))
        time.sleep(0.3)
    raise AssertionError


@pytest.mark.full
@pytest.mark.parametrize("max_offsets", [3, 1000])
def test_a_retry_that_ends_elsewhere(line: Line, max_offsets: int, job: StartJob, publish: Publish) -> None:
    """The first attempt took ten records of each partition; what it has quarantined is not what the retry's batch holds."""
    fill(line, publish)
    kill_after(job, line, Step.QUARANTINE, 2)
    settled = len(line.quarantined()) - line.ledger().totals.quarantined
    assert settled > 0
    line.enforce(max_offsets=max_offsets)
    require_exactly_once(line)


@pytest.mark.full
def test_a_contract_that_has_changed_between_attempt_and_retry(
    line: Line, job: StartJob, publish: Publish
) -> None:
    """The new one would let the refused records pass: the first verdict of those that are quarantined stands."""
    fill(line, publish)
    kill_after(job, line, Step.QUARANTINE, 2)
    settled = len(line.quarantined())
    line.contracts.plan = line.plan(version="1.0.1", rules=[{**KNOWN, "values": [998]}])
    line.enforce()
    require_exactly_once(line)
    assert len(line.quarantined()) == settled
