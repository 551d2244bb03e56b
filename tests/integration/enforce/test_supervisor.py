"""What ends a stream permanently, and its message."""

from __future__ import annotations

import gc
import signal
import sqlite3
import weakref
from collections import Counter
from collections.abc import Callable, MutableMapping
from contextlib import closing
from dataclasses import replace
from threading import Event
from typing import Any

import httpx
import psutil
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from prometheus_client.parser import text_string_to_metric_families as prometheus_text
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from tests.integration.enforce.job import DEADLINE_SECONDS, Publish, RunningJob
from tests.integration.enforce.line import Line, Sent, row
from tests.integration.enforce.registry import Registry
from tests.integration.enforce.running import eventually, running
from tests.integration.enforce.wire import send_batch
from tests.marks import full
from tidegate.contracts.errors import Fenced, NotFoundError, Unavailable
from tidegate.contracts.stream.ledger import Ledger
from tidegate.spark_jobs.contract_source import RegistryGone
from tidegate.spark_jobs.job.stream import Job
from tidegate.spark_jobs.job.supervisor import run_streams
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.sinks import staged
from tidegate.spark_jobs.sinks.store import LedgerStore
from tidegate.spark_jobs.steps import Step, ignore_steps


def run(spark: SparkSession, line: Line, registry_url: str) -> None:
    job = Job(spark, line.settings, Topics(line.settings.kafka), line.reports, ignore_steps)
    with httpx.Client(base_url=registry_url) as client:
        run_streams(job, [line.contract_id], client)


def batches_by_sink(line: Line) -> Counter[str]:
    return Counter(report.sink.partition(":")[0] for report in line.reports)


def test_an_unpublished_contract_is_named_with_what_to_do(
    make_line: Callable[..., Line], spark: SparkSession, registry: Registry, publish: Publish
) -> None:
    """A registry that answers is not away: no grace, no second attempt."""
    line = make_line(registry_grace_seconds=3600)
    with pytest.raises(NotFoundError) as missing:
        run(spark, line, registry.url)
    assert str(missing.value) == (
        f"the registry at {registry.url} has no active version of contract {line.contract_id}; publish one: tidegate "
        "publish FILE"
    )
    publish(line.document())
    line.produce(row(0), row(1, 999))
    run(spark, line, registry.url)
    assert (len(line.rows()), len(line.quarantined())) == (1, 1)


def test_a_topic_that_does_not_exist_is_named_with_what_to_do(
    make_line: Callable[..., Line], spark: SparkSession, registry: Registry, publish: Publish
) -> None:
    line = make_line(restart_limit=0)
    line.topic = f"late-{line.topic}"
    publish(line.document())
    with pytest.raises(Unavailable) as missing:
        run(spark, line, registry.url)
    assert (
        str(missing.value) == f"topic {line.topic} of contract {line.contract_id} does not exist; create it"
    )
    brokers = AdminClient({"bootstrap.servers": line.settings.bootstrap_servers})
    brokers.create_topics([NewTopic(line.topic, 2, 1)])[line.topic].result(30)
    line.produce(row(0), row(1, 999))
    run(spark, line, registry.url)
    assert (len(line.rows()), len(line.quarantined())) == (1, 1)


@pytest.mark.full
def test_a_stream_that_gave_up_continues_when_it_is_started_again(
    make_line: Callable[..., Line], spark: SparkSession, registry: Registry, publish: Publish
) -> None:
    """Another program locks the catalog's database for longer than the stream tries again."""
    line = make_line(restart_limit=1, restart_backoff_seconds=0.1)
    publish(line.document())
    line.produce(row(0))
    run(spark, line, registry.url)
    line.produce(row(2), row(4, 999))
    with closing(sqlite3.connect(line.settings.warehouse / "catalog.db", isolation_level=None)) as catalog:
        catalog.execute("BEGIN EXCLUSIVE")
        with pytest.raises(Unavailable, match=f"{line.contract_id}: gave up after repeated failures: "):
            run(spark, line, registry.url)
        catalog.execute("ROLLBACK")
    run(spark, line, registry.url)
    assert (len(line.rows()), len(line.quarantined())) == (2, 1)
    assert line.reconcile().holds


@pytest.mark.full
def test_a_registry_that_goes_away_and_comes_back(
    line: Line, spark: SparkSession, make_registry: Callable[..., Registry]
) -> None:
    """The last good contract serves meanwhile, for as long as it may; then the stream ends.

    With what code a job ends then, and what it says, is in test_process.py.
    """

    def logged(name: str) -> list[MutableMapping[str, Any]]:
        return [event for event in events if event["event"] == name]

    first = make_registry()
    httpx.post(f"{first.url}/api/v1/contracts", json=line.document(), timeout=60).raise_for_status()
    with (
        capture_logs() as events,
        running(spark, line, first.url, registry_grace_seconds=DEADLINE_SECONDS) as stream,
    ):
        line.produce(row(0))
        eventually(lambda: len(line.reports) == 1)
        first.stop()
        line.produce(row(2))
        eventually(lambda: len(line.reports) == 2)
        assert [event["serving"] for event in logged("registry_away")] == ["1.0.0"]
        second = make_registry(port=first.port)
        httpx.post(
            f"{second.url}/api/v1/contracts", json=line.document(version="1.1.0", rules=[])
        ).raise_for_status()
        line.produce(row(4, 999))
        eventually(lambda: len(line.reports) == 3)
        assert len(logged("registry_returned")) == 1
        assert line.rows()[-1]["_contract"] == f"{line.contract_id}@1.1.0"
        assert stream.is_alive()
    with running(spark, line, second.url, registry_grace_seconds=1) as stream:
        line.produce(row(6))
        eventually(lambda: len(line.reports) == 4)
        second.stop()

        def has_ended() -> bool:
            line.produce(row(8))  # each batch asks; when the time is over, the next one ends the stream
            return not stream.is_alive()

        eventually(has_ended)
    assert isinstance(stream.failure, RegistryGone)
    assert "has not answered for" in str(stream.failure)
    reported = len(line.reports)
    third = make_registry(port=second.port)
    line.produce(row(10))
    with running(spark, line, third.url, registry_grace_seconds=1):
        eventually(lambda: len(line.reports) > reported)
        eventually(lambda: {"r6", "r10"} <= {each["id"] for each in line.rows()})
    assert line.reconcile().holds


@pytest.mark.full
def test_a_failure_of_spark_is_named_by_its_innermost_cause(
    make_line: Callable[..., Line],
    make_topic: Callable[..., str],
    spark: SparkSession,
    registry: Registry,
    publish: Publish,
) -> None:
    """Here a record of the year 300000, which Spark's own reader cannot hold; no retry helps."""
    line = make_line(restart_limit=0)
    line.topic = make_topic("rows", message_timestamp_after_max_ms=str(2**63 - 1))
    publish(line.document())
    send_batch(
        line.settings.bootstrap_servers,
        line.topic,
        [(Sent(row(0).value, timestamp_ms=9_300_000_000_000_000), ())],
    )
    with pytest.raises(Unavailable) as gone:
        run(spark, line, registry.url)
    assert str(gone.value) == (
        f"{line.contract_id}: gave up after repeated failures: java.lang.ArithmeticException: long overflow"
    )
    assert line.rows() == []


class CutTransport(httpx.HTTPTransport):
    """The way to a registry that does not answer the next `left` questions about schemas."""

    left = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self.left and request.url.path.startswith("/subjects/"):
            self.left -= 1
            raise httpx.ConnectError("cut", request=request)
        return super().handle_request(request)


@pytest.mark.full
def test_a_batch_that_names_a_schema_that_the_job_cannot_ask_for_is_tried_again(
    make_line: Callable[..., Line], spark: SparkSession, registry: Registry, publish: Publish
) -> None:
    """The registry is away when the first record of a new schema comes: the batch waits, however often it must."""
    line = make_line(partitions=1, max_offsets=1, restart_backoff_seconds=0.1, restart_limit=0)
    publish(line.document(framing="confluent-prefix"))
    subject, transport = f"/subjects/{line.topic}-value/versions", CutTransport()
    with httpx.Client(base_url=registry.url) as client:
        first = client.get(f"{subject}/1").json()["id"]
        second = client.get("/schemas/ids/1", params={"fetchMaxId": "true"}).json()["maxId"] + 1
        for number, schema_id in enumerate((first, second)):
            value = b"\0" + schema_id.to_bytes(4) + (row(number).value or b"")
            line.produce(replace(row(number), value=value, partition=0))

        def register_and_cut(stream: str, step: Step) -> None:
            """While the first record is judged a producer registers the schema of the second; then the line is cut."""
            assert stream == line.contract_id
            if step is Step.JUDGE and not cut:
                body = {"schema": "", "metadata": {"properties": {"k": "v"}}}
                assert client.post(subject, json=body).json()["id"] == second
                transport.left = 2
                cut.append(step)

        cut: list[Step] = []
        job = Job(spark, line.settings, Topics(line.settings.kafka), line.reports, register_and_cut)
        with capture_logs() as logs, httpx.Client(base_url=registry.url, transport=transport) as way:
            run_streams(job, [line.contract_id], way)
    told = [each["error"] for each in logs if each["event"] == "stream_restarting"]
    assert told
    assert "names a schema that was not registered when the registry last answered" in told[0]
    assert transport.left == 0
    assert line.quarantined() == []
    assert sorted(each["id"] for each in line.rows()) == ["r0", "r1"]
    assert line.reconcile().holds


@pytest.mark.full
def test_without_its_jvm_the_job_ends_and_a_new_one_continues(
    line: Line, registry: Registry, publish: Publish, start: Callable[..., RunningJob]
) -> None:
    """Killed for want of memory, perhaps: no attempt in this process can succeed any more."""
    publish(line.document())
    line.produce(row(0), row(1, 999))
    job = start(registry.url, [line])
    job.await_event("batch_published")
    (jvm,) = (
        child for child in psutil.Process(job.process.pid).children(recursive=True) if "java" in child.name()
    )
    jvm.send_signal(signal.SIGKILL)
    assert job.exit_code() == 3, "".join(job.lines)
    # Python's own server for callbacks of the JVM writes to the same stream, on the same line.
    assert f"error: {line.contract_id}: Spark's Java process has ended" in job.lines[-1]
    assert not any(event["event"] == "stream_restarting" for event in job.events)
    line.produce(row(2))
    line.enforce()
    assert line.reconcile().holds
    assert (len(line.rows()), len(line.quarantined())) == (2, 1)


@pytest.mark.full
def test_one_contract_is_written_to_two_sinks_of_one_checkpoints_folder(
    make_line: Callable[..., Line], spark: SparkSession, registry: Registry, publish: Publish
) -> None:
    """What a start deletes is its own: neither stream takes the other's checkpoint or waiting records away."""
    line = make_line()
    publish(line.document())
    line.produce(row(0), row(2, 999))
    with capture_logs() as events, running(spark, line, registry.url) as first:
        eventually(lambda: batches_by_sink(line) == Counter(iceberg=1))
        with running(spark, line, registry.url, sink="delta") as second:
            eventually(lambda: batches_by_sink(line) == Counter(iceberg=1, delta=1))
            line.produce(row(4), row(6, 999))
            eventually(lambda: batches_by_sink(line) == Counter(iceberg=2, delta=2))
            assert first.is_alive()
            assert second.is_alive()
    assert not [event for event in events if event["event"] == "stream_restarting"]
    assert line.reconcile().holds


def test_an_attempt_that_has_ended_is_freed(line: Line) -> None:
    """Py4J keeps what Spark calls. A stream of many restarts would keep the Kafka clients of every attempt."""
    line.produce(row(1))
    attempt = line.attempt()
    attempt.run(Event(), Event())
    freed = weakref.ref(attempt)
    del attempt
    gc.collect()
    assert freed() is None


@pytest.mark.parametrize(
    "error", [OSError("SLOW_DOWN: reduce your request rate"), *full(Unavailable("the store is away"))]
)
@pytest.mark.parametrize(("reset_seconds", "is_given_up"), [(0.001, False), (3600, True)])
def test_restarts_are_forgotten_when_a_stream_has_run_for_a_while(
    make_line: Callable[..., Line],
    registry: Registry,
    publish: Publish,
    reset_seconds: float,
    is_given_up: bool,
    error: Exception,
) -> None:
    """A stream that publishes nothing between two failures must not add them up for ever."""
    line = make_line(restart_limit=1, restart_reset_seconds=reset_seconds, restart_backoff_seconds=0.01)
    publish(line.document())
    failures = 0

    def fail_thrice(_stream: str, step: Step) -> None:
        nonlocal failures
        if step is Step.JUDGE and failures < 3:
            failures += 1
            raise error

    line.produce(row(0))
    with running(line.spark, line, registry.url, fail_thrice) as stream:
        eventually(lambda: bool(line.reports) or not stream.is_alive())
    assert (failures, len(line.reports)) == ((2, 0) if is_given_up else (3, 1))
    assert isinstance(stream.failure, Unavailable) == is_given_up


@pytest.mark.parametrize(
    "case",
    [("iceberg", 0, None), *full(("delta", 0, None), ("postgresql", 0, None), ("iceberg", 1, Fenced))],
    ids=lambda case: f"{case[0]}-{'claim' if case[1] else 'batch'}",
)
def test_a_claim_that_meets_a_batch_of_the_instance_before_is_made_again(
    make_line: Callable[..., Line],
    registry: Registry,
    publish: Publish,
    monkeypatch: pytest.MonkeyPatch,
    case: tuple[str, int, type[Exception] | None],
) -> None:
    """A delayed commit of this instance has the same effect: nobody else claims the stream, and it must not end."""
    sink, epochs, failure = case
    line = make_line(sink=sink, restart_backoff_seconds=0.01)
    publish(line.document())
    line.enforce()
    moved: list[Ledger] = []
    move_ledger = staged.move_ledger

    def meet(table: LedgerStore, held: Ledger, new: Ledger, during: str) -> None:
        if not moved:
            moved.append(held.model_copy(update={"epoch": held.epoch + epochs, "n": held.n + 1 - epochs}))
            move_ledger(table, held, moved[0], "test")
        move_ledger(table, held, new, during)

    monkeypatch.setattr(staged, "move_ledger", meet)
    line.produce(row(0))
    with running(line.spark, line, registry.url) as stream:
        eventually(lambda: bool(line.reports) or not stream.is_alive())
    assert (failure is None) == (stream.failure is None)
    assert failure is None or isinstance(stream.failure, failure)
    assert len(line.rows()) == (1 if failure is None else 0)


def test_a_batch_that_hangs_is_reported_with_the_heartbeat_and_logged_once(
    line: Line, spark: SparkSession, registry: Registry, publish: Publish
) -> None:
    """The store does not answer: the job lives, nothing is committed, and records go on coming."""
    publish(line.document())
    hangs, goes_on = Event(), Event()

    def hang(_stream: str, step: Step) -> None:
        if step is Step.STAGE and not goes_on.is_set():
            hangs.set()
            assert goes_on.wait(DEADLINE_SECONDS)

    def told() -> dict[str, float]:
        families = prometheus_text(httpx.get(f"{registry.url}/metrics").text)
        samples = (each for family in families for each in family.samples)
        return {each.name: each.value for each in samples if each.labels.get("stream") == line.contract_id}

    line.produce(row(0))
    with (
        capture_logs() as events,
        running(spark, line, registry.url, hang, watchdog_seconds=0.2) as stream,
    ):
        assert hangs.wait(DEADLINE_SECONDS)
        line.produce(row(2), row(4))
        Event().wait(0.2)
        stream.beat()
        stream.beat()
        assert told()["tidegate_lag_records"] == 3
        assert told()["tidegate_batch_running_seconds"] > 0.2
        goes_on.set()
        eventually(lambda: sum(report.records for report in line.reports) == 3)
        stream.beat()
        assert (told()["tidegate_lag_records"], told()["tidegate_batch_running_seconds"]) == (0, 0)
    assert [event["stream"] for event in events if event["event"] == "batch_slow"] == [line.contract_id]


def test_maintenance_of_an_idle_stream_is_reported_with_the_heartbeat(
    line: Line, spark: SparkSession, registry: Registry, publish: Publish
) -> None:
    publish(line.document())

    def told() -> dict[str, float]:
        families = prometheus_text(httpx.get(f"{registry.url}/metrics").text)
        samples = (each for family in families for each in family.samples)
        return {each.name: each.value for each in samples if each.labels.get("stream") == line.contract_id}

    def is_told() -> bool:
        stream.beat()
        return "tidegate_table_maintenance_seconds" in told()

    with running(spark, line, registry.url, ignore_steps, maintenance_seconds=0.1) as stream:
        eventually(is_told)
        assert told()["tidegate_table_snapshots"] >= 1
    assert line.reports == []
