"""Failures of a stream and of its thread, without Spark and Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from pydantic import ValidationError
from structlog.testing import capture_logs

from tests.ledgers import LEDGER
from tidegate.contracts.errors import StreamStopped, Unavailable
from tidegate.contracts.registry_client.messages import RegistryAnswer
from tidegate.contracts.stream.control import EventKind
from tidegate.contracts.stream.report import BatchReport
from tidegate.spark_jobs.job.reports import RegistryReporter
from tidegate.spark_jobs.job.stream import Job, StreamAttempt
from tidegate.spark_jobs.job.supervisor import StreamThread, _heartbeat
from tidegate.spark_jobs.settings import JobSettings
from tidegate.spark_jobs.steps import Stopwatch, ignore_steps

PATIENCE_SECONDS = 60
BATCH_REPORT = BatchReport(
    stream="s",
    topic="t",
    quarantine_topic="t.quarantine",
    sink="iceberg:lake.s",
    epoch=1,
    n=1,
    contract="s@1.0.0",
    fingerprint="f",
    started_at=datetime(2026, 1, 1, tzinfo=UTC),
    committed_at=datetime(2026, 1, 1, tzinfo=UTC),
    records=0,
    written=0,
    warned=0,
    alerted=0,
    quarantined=0,
    dropped=0,
    start={},
    end={},
)


class Writer(ThreadPoolExecutor):
    """Writes batches one at a time; `both_wait` is set when a second one is behind the first."""

    def __init__(self) -> None:
        super().__init__(1)
        self.both_wait = Event()
        self._submitted = 0

    def submit(self, *work: Any, **named: Any) -> Future[Any]:
        future = super().submit(*work, **named)
        self._submitted += 1
        if self._submitted == 2:
            self.both_wait.set()
        return future


class FailingStore:
    """A sink whose first commit fails, and changes nothing, while a chunk of a replay waits behind it."""

    def __init__(self, both_wait: Event) -> None:
        self._both_wait = both_wait
        self.replayed = 0

    def publish(self, *_: Any) -> None:
        assert self._both_wait.wait(PATIENCE_SECONDS)
        raise Unavailable("the commit failed")

    def replay(self, *_: Any) -> Any:
        self.replayed += 1
        return LEDGER


class Judged:
    """What a batch holds until it is published: nothing."""

    def release(self) -> None:
        """Hold nothing."""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    # Of Spark's threads; this process may have a session of other tests, whose properties are none of these threads.
    inheriting = "tidegate.spark_jobs.job.stream.inheritable_thread_target"
    monkeypatch.setattr(inheriting, lambda _: lambda work: work)
    settings = JobSettings(
        bootstrap_servers="127.0.0.1:9",
        registry_url="http://none",
        warehouse=tmp_path,
        checkpoints=tmp_path,
    )
    other: Any = None
    return Job(other, settings, other, other, ignore_steps)


def test_a_chunk_of_a_replay_does_not_hide_that_the_batch_before_it_failed(job: Job) -> None:
    """The next batch is judged already: written behind a lost one, its ledger would pass over the lost records."""
    nothing: Any = None
    attempt = StreamAttempt(job, "s", nothing)
    with Writer() as writer:
        sink = FailingStore(writer.both_wait)
        plan = SimpleNamespace(fingerprint="f")
        attempt.__dict__.update(_writer=writer, _sink=sink, _plan=plan, _ledger=LEDGER)
        batch: Any = SimpleNamespace(start={0: 10}, end={0: 20}, watch=Stopwatch("s", ignore_steps))
        judged: Any = Judged()
        attempt._writing = writer.submit(attempt._write, batch, judged, nothing, datetime.now(UTC))
        chunk: Any = SimpleNamespace(plan=plan, judged=judged, replay=None)
        with pytest.raises(Unavailable, match="the commit failed"):
            attempt._publish_chunk(chunk)
        with pytest.raises(Unavailable, match="the commit failed"):
            attempt._await_written()
    assert (attempt.failed, sink.replayed) == (({0: 10}, {0: 20}), 0)


def test_a_chunk_judged_by_an_earlier_contract_is_not_published(job: Job) -> None:
    """A version that was published meanwhile may refuse records that the earlier one accepted."""
    nothing: Any = None
    attempt = StreamAttempt(job, "s", nothing)
    with Writer() as writer:
        sink = FailingStore(writer.both_wait)
        attempt.__dict__.update(
            _writer=writer, _sink=sink, _plan=SimpleNamespace(fingerprint="new"), _ledger=LEDGER
        )
        old: Any = SimpleNamespace(plan=SimpleNamespace(fingerprint="old"), judged=Judged(), replay=None)
        assert attempt._publish_chunk(old) is None
        assert sink.replayed == 0
        new: Any = SimpleNamespace(plan=SimpleNamespace(fingerprint="new"), judged=Judged(), replay=None)
        assert attempt._publish_chunk(new) == LEDGER
        assert sink.replayed == 1


class RefusingStore:
    """A sink that refuses what a replay writes, as a table with a CHECK does."""

    def replay(self, *_: Any) -> Any:
        raise StreamStopped("the server refuses to publish: a constraint")

    def is_held(self) -> bool:
        return True


def test_a_chunk_that_the_sink_refuses_stops_its_request_and_not_the_stream(job: Job) -> None:
    """The request is asked for again at each start: otherwise the stream would stop until somebody cancels it."""
    nothing: Any = None
    attempt = StreamAttempt(job, "s", nothing)
    with Writer() as writer:
        plan = SimpleNamespace(fingerprint="f")
        attempt.__dict__.update(_writer=writer, _sink=RefusingStore(), _plan=plan, _ledger=LEDGER)
        chunk: Any = SimpleNamespace(plan=plan, judged=Judged(), replay=None)
        with pytest.raises(StreamStopped, match="a constraint"):
            attempt._publish_chunk(chunk)
    assert attempt._failure is not None
    outcome = attempt._outcome(attempt._failure)
    assert isinstance(outcome, Unavailable)  # so the stream starts again
    assert "a constraint" in str(outcome)


def test_a_chunk_of_a_replay_does_not_wait_for_all_parts_of_what_spark_offers(job: Job) -> None:
    """The thread that waits for it sees no stop meanwhile, and halved batches may have thousands of parts."""
    attempt = StreamAttempt(job, "s", SimpleNamespace(current=lambda: plan))  # type: ignore[arg-type] # a contract without a registry
    plan = SimpleNamespace(fingerprint="f", contract=SimpleNamespace(topic="t"))
    processed: list[int] = []
    begun, waiting, found = Event(), Event(), Event()
    seen: list[int] = []

    def process(_rows: Any, start: dict[int, int], _end: dict[int, int]) -> None:
        processed.append(start[0])
        if start[0] == 0:
            begun.set()
            assert waiting.wait(PATIENCE_SECONDS)
        if start[0] == 99:
            assert found.wait(PATIENCE_SECONDS)

    def begin() -> None:
        assert begun.wait(PATIENCE_SECONDS)
        waiting.set()
        assert attempt._begin_chunk() is not None
        seen.append(len(processed))
        found.set()

    parts: dict[str, Any] = {
        "_judged_end": {0: 0},
        "_process": process,
        "_plan": plan,
        "_ledger": LEDGER,
        "_source": SimpleNamespace(name="t"),
        "_records": SimpleNamespace(
            offsets_of=lambda _: ({0: 0}, {0: 100}), require_same=lambda _: None, read=lambda *_: None
        ),
        "_limits": SimpleNamespace(end_of_batch=lambda begin, _: {0: begin[0] + 1}),
    }
    attempt.__dict__.update(parts)
    with ThreadPoolExecutor(1) as other:
        chunk = other.submit(begin)
        nothing: Any = None
        attempt._on_batch(nothing, 1)
        chunk.result(PATIENCE_SECONDS)
    assert processed == list(range(100))
    assert 1 <= seen[0] < 100


class Closing:
    """Something that an attempt holds; `closed` counts how often it was given back."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1

    def is_held(self) -> bool:
        raise RuntimeError("a defect")


@pytest.mark.parametrize("failing", ["query", "outcome"])
def test_an_attempt_gives_back_what_it_holds_however_it_ends(job: Job, failing: str) -> None:
    """The upkeep thread of its sink would continue, and each attempt of a year would add one."""
    nothing: Any = None
    control: Any = SimpleNamespace(report_event=lambda *_: None)
    attempt = StreamAttempt(job, "s", nothing, control)
    sink, records = Closing(), Closing()

    def fail(*_: Any) -> None:
        raise RuntimeError("a defect")

    parts: dict[str, Any] = {
        "_sink": sink,
        "_records": records,
        "_start": lambda: None,
        "_await": fail,
        "_stop": fail if failing == "query" else lambda _: None,
    }
    attempt.__dict__.update(parts)
    with pytest.raises(RuntimeError, match="a defect"):
        attempt.run(Event(), Event())
    assert (sink.closed, records.closed) == (1, 1)


def test_a_stream_waits_also_after_thousands_of_failures_in_a_row(job: Job) -> None:
    """Its limit of restarts is the operator's choice: 1,024 doublings of a pause are more than a float can hold."""
    stopping = Event()
    stopping.set()
    with httpx.Client() as client:
        StreamThread(job, "s", client, stopping)._wait(Unavailable("the broker is away"), 100_000)


class Lease:
    """A lease that is free, and notes that it was given up."""

    is_lost = is_waiting = False

    def __init__(self) -> None:
        self.released = 0

    def release(self) -> None:
        self.released += 1


def test_a_stream_whose_handling_of_failures_fails_ends_with_its_failure_and_without_its_lease(
    job: Job,
) -> None:
    with httpx.Client() as client:
        thread = StreamThread(job, "s", client, Event())
        lease, defect = Lease(), RuntimeError("a defect")
        thread.__dict__.update(_lease=lease, _control=SimpleNamespace(report_event=lambda *_: None))

        def run_attempts() -> None:
            raise defect

        thread.__dict__["_run_attempts"] = run_attempts
        thread._keep_going()
    assert (thread.failure, lease.released) == (defect, 1)


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_stream_that_another_instance_runs_is_not_reported_as_ended(job: Job, is_lost: bool) -> None:
    """A frozen job wakes, has lost its lease, and is stopped: the stream goes on elsewhere."""
    events: list[EventKind] = []
    with httpx.Client() as client:
        thread = StreamThread(job, "s", client, Event())
        lease = Lease()
        lease.is_lost = is_lost
        control = SimpleNamespace(report_event=lambda kind, *_: events.append(kind))
        thread.__dict__.update(_lease=lease, _control=control, _run_attempts=lambda: None)
        thread._keep_going()
    assert events == ([] if is_lost else [EventKind.ENDED])


@contextmanager
def heartbeats(**beats: Callable[[], None]) -> Iterator[list[Any]]:
    """Send the heartbeats of some streams once; yields what the reconciler takes of them."""
    running = Event()
    running.set()
    threads: Any = [
        SimpleNamespace(contract_id=name, is_alive=lambda: True, running=running, beat=beat)
        for name, beat in beats.items()
    ]
    taken: list[Any] = []
    reconciler: Any = SimpleNamespace(take=taken.append)
    with _heartbeat(lambda: threads, reconciler, PATIENCE_SECONDS) as beat_now:
        beat_now()
        yield taken


def test_heartbeats_continue_after_one_that_fails() -> None:
    """One thread sends those of all streams."""
    good = Event()

    def fail() -> None:
        raise RuntimeError("a defect")

    with capture_logs() as logs, heartbeats(bad=fail, good=good.set) as taken:
        assert good.wait(PATIENCE_SECONDS)
    assert taken == [None]
    (event,) = [each for each in logs if each["event"] == "heartbeat_failed"]
    assert event["stream"] == "bad"


def test_heartbeats_do_not_wait_for_one_whose_broker_is_away() -> None:
    slow, fast = Event(), Event()

    def wait_for_the_broker() -> None:
        slow.set()
        assert fast.wait(PATIENCE_SECONDS)

    with capture_logs() as logs, heartbeats(slow=wait_for_the_broker, fast=fast.set) as taken:
        assert slow.wait(PATIENCE_SECONDS)
        assert fast.wait(PATIENCE_SECONDS)
    assert (taken, logs) == ([None, None], [])


def test_reports_continue_after_one_that_cannot_be_posted(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread posts those of all streams: if it ended, the pages would show none until the job starts again."""
    posted = Event()

    def send(_client: httpx.Client, request: Any) -> RegistryAnswer:
        if b'"n":1' in request.content:
            raise RuntimeError("a defect")
        posted.set()
        return RegistryAnswer(200, "OK", b"")

    monkeypatch.setattr("tidegate.spark_jobs.job.reports.send", send)
    with httpx.Client() as client, capture_logs() as logs:
        reporter = RegistryReporter(client)
        for n in (1, 2):
            reporter.report(BATCH_REPORT.model_copy(update={"n": n}))
        assert posted.wait(PATIENCE_SECONDS)
        reporter.close()
    (event,) = logs
    assert (event["event"], event["n"]) == ("report_failed", 1)


@pytest.mark.parametrize("name", ["heartbeat_seconds", "lease_seconds", "maintenance_seconds"])
def test_a_time_without_end_is_refused(job: Job, name: str) -> None:
    with pytest.raises(ValidationError, match="finite"):
        JobSettings.model_validate({**job.settings.model_dump(), name: float("inf")})
