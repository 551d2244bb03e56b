"""A transaction that the broker has aborted, or that a stranger has fenced, while no other instance holds the ledger."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from threading import Event

import httpx
import pytest
from pyspark.sql import SparkSession

from contracts.control import EventKind, StreamEvent
from contracts.errors import Fenced, Unavailable
from contracts.output_topics import accepted_topic, quarantine_topic
from gateway.embedded.jars import Jars
from spark_jobs.outputs import TransactionalProducer, read_committed
from spark_jobs.steps import Step, ignore_steps
from spark_jobs.stream import Job
from spark_jobs.supervisor import StreamThread
from spark_jobs.topics import Topics
from tests.integration.enforce.checker import require_exactly_once
from tests.integration.enforce.job import Publish, RunningJob
from tests.integration.enforce.line import Line, environment, row
from tests.integration.enforce.registry import Registry
from tests.integration.enforce.running import eventually, running

SINKS = ("iceberg", "kafka")
MANY = 80_000
"""Refused records of one batch: their transaction is open long enough for a test to stop the job in it."""


def fence_once(line: Line) -> Callable[[str, Step], None]:
    """Return an observer that initialises the job's own transactional.id before the first batch is written."""
    done: list[Step] = []

    def fence(_stream: str, step: Step) -> None:
        if step is Step.JUDGE and not done:
            done.append(step)
            TransactionalProducer(line.settings.kafka, f"tidegate/{line.ledger().name}/0").fence()

    return fence


@pytest.mark.parametrize("sink", SINKS)
def test_a_fence_without_a_claim_is_an_outage(make_line: Callable[..., Line], sink: str) -> None:
    line = make_line(sink=sink)
    line.produce(row(0), row(1, 999))
    with pytest.raises(Unavailable, match="TIDEGATE_TRANSACTION_TIMEOUT_SECONDS"):
        line.enforce(fence_once(line))
    line.enforce()
    require_exactly_once(line)


@pytest.mark.parametrize("sink", SINKS)
def test_a_stream_goes_on_after_it(
    make_line: Callable[..., Line], sink: str, spark: SparkSession, registry: Registry, publish: Publish
) -> None:
    line = make_line(sink=sink, restart_backoff_seconds=0.1)
    publish(line.document())
    line.produce(row(0), row(1, 999))
    with running(spark, line, registry.url, fence_once(line)) as stream:
        eventually(lambda: len(line.reports) > 0)
        assert stream.failure is None
    require_exactly_once(line)


def test_the_gateway_is_told_of_an_instance_that_was_overtaken(
    line: Line, spark: SparkSession, registry: Registry, publish: Publish
) -> None:
    def note(request: httpx.Request) -> None:
        if request.url.path.endswith("/events"):
            told.append(StreamEvent.model_validate_json(request.content).kind)

    told: list[EventKind] = []
    publish(line.document())
    line.produce(row(0))
    settings = line.settings.model_copy(update={"available_now": False})
    job = Job(spark, settings, Topics(settings.kafka), line.reports, ignore_steps)
    with httpx.Client(base_url=registry.url, event_hooks={"request": [note]}) as client:
        stream = StreamThread(job, line.contract_id, client, Event())
        stream.start()
        eventually(lambda: len(line.reports) == 1)
        line.enforce()  # claims the ledger
        line.produce(row(2))
        eventually(lambda: not stream.is_alive())
    assert isinstance(stream.failure, Fenced)
    assert told == [EventKind.STARTED, EventKind.OVERTAKEN]


def has_uncommitted(line: Line, output: str) -> bool:
    """Return whether the output topic holds records of an open transaction, and no other."""
    return sum(Topics(line.settings.kafka).latest(output).values()) > 0


@pytest.mark.full
@pytest.mark.parametrize("sink", SINKS)
def test_a_job_that_sleeps_in_its_transaction_wakes_up_and_goes_on(
    make_line: Callable[..., Line], sink: str, registry: Registry, publish: Publish, jars: Jars
) -> None:
    """As when a machine is suspended: the broker aborts the transaction, and no other instance has come."""
    line = make_line(sink=sink)
    publish(line.document())
    line.produce(*(row(n, 999) for n in range(MANY)))
    env = environment(line, jars, registry.url)
    job = RunningJob(
        [line.contract_id, "--max-offsets", str(MANY)], {**env, "TIDEGATE_TRANSACTION_TIMEOUT_SECONDS": "1"}
    )
    try:
        job.await_event("stream_started")
        output = quarantine_topic(line.topic)
        while not has_uncommitted(line, output):
            assert job.process.poll() is None
        os.kill(job.process.pid, signal.SIGSTOP)
        kafka = line.settings.kafka
        # Returns when the transaction is over: a reader of committed records waits for that.
        committed = list(read_committed(kafka, output, {}, Topics(kafka).latest(output)))
        assert committed == []
        os.kill(job.process.pid, signal.SIGCONT)
        job.await_event("stream_restarting")
        job.await_event("batch_published")
        assert job.stop(signal.SIGTERM) == 0
    finally:
        job.end()
    require_exactly_once(line)
    if sink == "kafka":
        assert line.read(accepted_topic(line.topic)) == []
