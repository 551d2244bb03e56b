"""A transaction that the broker has aborted, or that a stranger has fenced, while no other instance holds the ledger."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from threading import Event

import httpx
import pytest
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from tests.integration.enforce.checker import require_exactly_once
from tests.integration.enforce.job import Publish, RunningJob
from tests.integration.enforce.line import Line, environment, row
from tests.integration.enforce.registry import Registry
from tests.integration.enforce.running import eventually, running
from tests.marks import full
from tidegate.contracts.errors import Fenced, Unavailable
from tidegate.contracts.stream.control import EventKind, StreamEvent
from tidegate.contracts.stream.output_topics import accepted_topic, quarantine_topic
from tidegate.gateway.embedded.jars import Jars
from tidegate.spark_jobs.job.stream import Job
from tidegate.spark_jobs.job.supervisor import StreamThread
from tidegate.spark_jobs.kafka.outputs import OutputRecord, TransactionalProducer, read_committed
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.steps import Step, ignore_steps

SINKS = ("kafka", *full("iceberg"))
MANY = 80_000
"""Refused records of one batch: their transaction is open long enough for a test to stop the job in it."""


def fence_first(line: Line, attempts: int = 1) -> Callable[[str, Step], None]:
    """Return an observer that initialises the job's own transactional.id in so many attempts, before their first batch is written."""
    done: set[int] = set()

    def fence(_stream: str, step: Step) -> None:
        if step is Step.JUDGE and len(done) < attempts and line.ledger().epoch not in done:
            done.add(line.ledger().epoch)
            TransactionalProducer(line.settings.kafka, f"tidegate/{line.ledger().name}/0").fence()

    return fence


@pytest.mark.full
@pytest.mark.parametrize("sink", SINKS)
def test_a_fence_without_a_claim_is_an_outage(make_line: Callable[..., Line], sink: str) -> None:
    line = make_line(sink=sink)
    line.produce(row(0), row(1, 999))
    with pytest.raises(Unavailable, match="TIDEGATE_TRANSACTION_TIMEOUT_SECONDS"):
        line.enforce(fence_first(line))
    line.enforce()
    require_exactly_once(line)


@pytest.mark.full
@pytest.mark.parametrize("sink", SINKS)
def test_a_stream_continues_after_it(
    make_line: Callable[..., Line], sink: str, spark: SparkSession, registry: Registry, publish: Publish
) -> None:
    line = make_line(sink=sink, restart_backoff_seconds=0.1)
    publish(line.document())
    line.produce(row(0), row(1, 999))
    with running(spark, line, registry.url, fence_first(line)) as stream:
        eventually(lambda: len(line.reports) > 0)
        assert stream.failure is None
    require_exactly_once(line)


@pytest.mark.full
def test_a_batch_whose_transaction_has_ended_is_halved_until_it_has_one_record(
    line: Line, spark: SparkSession, registry: Registry, publish: Publish
) -> None:
    """A transaction that is open for too long because its batch is large would be too long again."""
    line.settings = line.settings.model_copy(update={"restart_backoff_seconds": 0.1})
    publish(line.document())
    line.produce(*(row(n, 999) for n in range(8)))
    with capture_logs() as logs, running(spark, line, registry.url, fence_first(line, attempts=4)) as stream:
        eventually(lambda: sum(line.reports[-1].end.values()) == 8 if line.reports else False)
        assert stream.failure is None
    assert [each["offsets"] for each in logs if each["event"] == "batch_halved"] == [8, 4, 2]
    # A record is never to blame for it: of one that is alone in its batch it is an outage.
    assert sum(each["event"] == "stream_restarting" for each in logs) == 1
    require_exactly_once(line)


def test_an_overtaken_instance_is_reported_to_the_gateway(
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


@pytest.mark.full
@pytest.mark.parametrize("more", [0, 1, 10_000])
def test_the_client_tells_of_a_transaction_that_expires_while_it_is_written(
    line: Line, make_topic: Callable[..., str], more: int
) -> None:
    """The broker aborts it between two records: the client refuses those that come then, or fails to commit."""
    kafka, topic = line.settings.kafka, make_topic("expired")
    producer = TransactionalProducer(kafka, f"expired/{topic}", timeout_seconds=1)
    producer.fence()

    def records() -> Iterator[OutputRecord]:
        yield topic, b"first", None, 0, 1, []
        while sum(Topics(kafka).latest(topic).values()) == 0:
            Event().wait(0.05)
        # Returns when the transaction is over: a reader of committed records waits for that.
        assert list(read_committed(kafka, topic, {}, Topics(kafka).latest(topic))) == []
        for _ in range(more):
            Event().wait(0.001)
            yield topic, b"late", None, 0, 1, []

    with pytest.raises(Fenced):
        producer.write(records())


def has_uncommitted(line: Line, output: str) -> bool:
    """Return whether the output topic holds records of an open transaction, and no other."""
    return sum(Topics(line.settings.kafka).latest(output).values()) > 0


@pytest.mark.full
@pytest.mark.parametrize("sink", SINKS)
def test_a_job_that_sleeps_in_its_transaction_wakes_up_and_continues(
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
        job.await_event("batch_halved")
        job.await_event("batch_published", lag=0)
        assert job.stop(signal.SIGTERM) == 0
    finally:
        job.end()
    require_exactly_once(line)
    if sink == "kafka":
        assert line.read(accepted_topic(line.topic)) == []
