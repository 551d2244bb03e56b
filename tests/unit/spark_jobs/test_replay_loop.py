"""When a request is processed: what stops it, what it only waits for, and how fast it goes. Without Spark, by a clock of its own."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import KafkaException
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, PythonException
from structlog.testing import capture_logs

from tests.ledgers import LEDGER
from tidegate.contracts.errors import Fenced, StreamStopped, Unavailable
from tidegate.contracts.stream.ledger import BatchTotals, Ledger
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import (
    ReplayReport,
    ReplayRequest,
    ReplayState,
    digest_of_refusals,
    runs_of,
)
from tidegate.contracts.stream.replay_progress import ReplayProgress
from tidegate.contracts.stream.replayed_chunk import ReplayedChunk
from tidegate.spark_jobs.job.control import StreamPaused
from tidegate.spark_jobs.job.replay import Prepared
from tidegate.spark_jobs.job.replay_chunk import FailedAgain, ReplayChunk, most_records
from tidegate.spark_jobs.job.replay_loop import ReplayLoop
from tidegate.spark_jobs.sinks.sink import Replay

RECORDS = 25
REFUSALS = Positions((0, offset) for offset in range(RECORDS))
POLL = 0.25


def request(number: int = 1, **changes: Any) -> ReplayRequest:
    return ReplayRequest.model_validate(
        {
            "id": UUID(int=number),
            "stream": "s",
            "topic": "t.quarantine",
            "topic_id": "id",
            "positions": runs_of(REFUSALS),
            "records": RECORDS,
            "digest": digest_of_refusals("t.quarantine", REFUSALS),
            **changes,
        }
    )


def raise_next(errors: list[Exception | None]) -> None:
    """Raise the next error; None stands for a step without one."""
    if errors and (error := errors.pop(0)) is not None:
        raise error


class Registry:
    """The requests of the stream; while it is away it takes no report."""

    def __init__(self, *requests: ReplayRequest) -> None:
        self.open = [*requests]
        self.told: list[ReplayReport] = []
        self.is_away = False

    def current(self) -> ReplayRequest | None:
        return self.open[0] if self.open else None

    def report(self, report: ReplayReport) -> bool:
        if self.is_away:
            return False
        self.told.append(report)
        if report.state is not ReplayState.OPEN:
            self.open = [each for each in self.open if each.id != report.request]
        return True


class Judged:
    """What a chunk holds until it is published: only the number of times that it was released."""

    def __init__(self) -> None:
        self.released = 0

    def release(self) -> None:
        self.released += 1


class Work:
    """Chunks whose records all pass, but for the errors that the next ones meet."""

    def __init__(self) -> None:
        self.errors: list[Exception | None] = []
        self.looked: list[ReplayReport] = []
        """Reports of the chunks that an earlier attempt has processed."""
        self.is_done = False
        """Whether no record of the request is left."""
        self.prepared = 0
        self.judged = Judged()
        self.delivered = 0

    def look(self, *_: object) -> ReplayReport | None:
        return self.looked.pop(0) if self.looked else None

    def prepare(self, request: ReplayRequest, plan: Any, held: Ledger) -> Prepared | None:
        self.prepared += 1
        raise_next(self.errors)
        if self.is_done:
            return None
        progress = request.begun(held)
        chunk = ReplayedChunk(written=REFUSALS.chunk(progress.done, most_records(request)))
        judged: Any = self.judged
        return Prepared(request, plan, judged, Replay(chunk, progress), FailedAgain(), ReplayChunk())

    def published(self, prepared: Prepared, ledger: Ledger) -> ReplayReport:
        progress = prepared.request.begun(ledger)
        state = ReplayState.DONE if progress.is_finished else ReplayState.OPEN
        return self.report(prepared.request, progress, state)

    def report(
        self, request: ReplayRequest, progress: ReplayProgress, state: ReplayState, message: str | None = None
    ) -> ReplayReport:
        counts = progress.model_dump(exclude={"request", "digest"})
        told = {"request": request.id, "stream": "s", "at": datetime.now(UTC), "state": state}
        return ReplayReport.model_validate({**told, **counts, "message": message})

    def told(self) -> None:
        self.delivered += 1


class Attempt:
    """An attempt of a stream with refused records: it counts what is published in its ledger, at the time of `now`."""

    def __init__(self, *requests: ReplayRequest) -> None:
        totals = BatchTotals(written=10, quarantined=RECORDS)
        self.held = LEDGER.model_copy(update={"end": {0: RECORDS, 1: 5}, "totals": totals})
        self.now = 1_000.0
        self.outside: list[Exception | None] = []
        """Errors of what a chunk needs before it begins: the contract, and leave to run."""
        self.published: list[tuple[float, int]] = []
        """When chunks were published, and how many records of the request were processed then."""
        self.is_ending = False
        self.refusal: Exception | None = None
        """Why the sink refuses a chunk."""
        self.changes = 0
        """How often the contract changes between the judgement of a chunk and its publication."""
        self.registry, self.work = Registry(*requests), Work()
        work: Any = self.work
        self.loop = ReplayLoop(self.registry, work, self._begin, self._publish, lambda: self.now)

    def run(self, seconds: float) -> None:
        """Let the loop look as often as an attempt does in some seconds."""
        for _ in range(int(seconds / POLL)):
            self.loop.step()
            self.now += POLL

    def _begin(self) -> tuple[Any, Ledger] | None:
        raise_next(self.outside)
        return None if self.is_ending else (None, self.held)

    def _publish(self, prepared: Prepared) -> Ledger | None:
        if self.refusal is not None:
            raise self.refusal
        if self.changes:
            self.changes -= 1
            return None
        self.held = prepared.replay.ledger(self.held, "digest")
        self.published.append((self.now, prepared.request.begun(self.held).done))
        return self.held


PAUSED = StreamPaused("s is paused")
AWAY = Unavailable("the registry does not answer")
BROKER = KafkaException("broker transport failure")
SPARK = PySparkException("executor lost")


@pytest.mark.parametrize("outside", [PAUSED, AWAY])
def test_waiting_for_something_outside_is_no_failure_of_the_work(outside: Exception) -> None:
    attempt = Attempt(request())
    attempt.outside = [outside] * 20
    attempt.work.errors = [SPARK]
    attempt.run(20 * 5 + 10)
    assert [each.state for each in attempt.registry.told] == [ReplayState.DONE]


def test_outages_between_failures_do_not_count() -> None:
    attempt = Attempt(request())
    attempt.work.errors = [SPARK, AWAY, SPARK, BROKER, BROKER, SPARK, AWAY, SPARK]
    attempt.run(60)
    assert [each.state for each in attempt.registry.told] == [ReplayState.DONE]


def test_the_work_stops_after_five_failures_in_a_row() -> None:
    attempt = Attempt(request())
    attempt.work.errors = [SPARK] * 5
    attempt.run(60)
    (told,) = attempt.registry.told
    assert (told.state, told.written) == (ReplayState.STOPPED, 0)
    assert "ended with PySparkException" in str(told.message)


def test_a_chunk_is_judged_again_if_the_contract_changed_before_it_was_published() -> None:
    attempt = Attempt(request())
    attempt.changes = 2
    attempt.loop.step()
    attempt.loop.step()
    assert (attempt.published, attempt.registry.told) == ([], [])
    attempt.run(5)
    (told,) = attempt.registry.told
    assert (told.state, told.written) == (ReplayState.DONE, RECORDS)
    assert [done for _, done in attempt.published] == [RECORDS]


def test_what_the_sink_refuses_of_a_chunk_stops_the_request() -> None:
    attempt = Attempt(request())
    attempt.refusal = StreamStopped("the server refuses to publish: a constraint")
    assert attempt.loop.step()
    (told,) = attempt.registry.told
    assert (told.state, told.written, told.message) == (ReplayState.STOPPED, 0, str(attempt.refusal))
    assert not attempt.registry.open


def test_an_instance_that_was_overtaken_stops_no_request() -> None:
    attempt = Attempt(request())
    attempt.refusal = Fenced("another instance of this stream holds the ledger now")
    with pytest.raises(Fenced):
        attempt.loop.step()
    assert not attempt.registry.told


def test_failures_count_from_the_last_chunk_that_went_well_and_for_each_request() -> None:
    attempt = Attempt(request(rate=20))
    attempt.work.errors = [*[SPARK] * 4, None, *[SPARK] * 4]
    attempt.run(60)
    assert [each.state for each in attempt.registry.told] == [ReplayState.OPEN, ReplayState.DONE]

    attempt = Attempt(request())
    attempt.work.errors = [SPARK] * 8
    attempt.run(15 + POLL)
    attempt.registry.open = [request(2)]  # the first was cancelled, after four failures
    attempt.run(30)
    assert [(each.request, each.state) for each in attempt.registry.told] == [(UUID(int=2), ReplayState.DONE)]


@pytest.mark.parametrize(("rate", "seconds"), [(1, 24), (10, 2), (24, 1), (25, 0), (None, 0)])
def test_a_rate_bounds_the_records_of_each_second_over_chunks(rate: int | None, seconds: int) -> None:
    attempt = Attempt(request(rate=rate))
    attempt.run(60)
    assert attempt.registry.told[-1].state is ReplayState.DONE
    times = [at for at, _ in attempt.published]
    assert times[-1] - times[0] == seconds
    done = [0, *(count for _, count in attempt.published)]
    for first, begin in enumerate(times):
        within = [count for at, count in attempt.published if begin <= at < begin + 1]
        assert within[-1] - done[first] <= (rate or RECORDS)


def test_a_command_ends_when_the_registry_takes_no_report() -> None:
    attempt = Attempt(request())
    attempt.registry.is_away = True
    attempt.loop.run(Never())
    assert attempt.published == [(1_000.0, RECORDS)]
    assert not attempt.registry.told


def test_a_run_ends_with_its_attempt() -> None:
    """A batch has failed whose writing went on after the last record was read: no chunk begins any more."""
    attempt, stopping = Attempt(request()), After(3)
    attempt.is_ending = True
    attempt.loop.run(stopping)
    assert (attempt.published, stopping.looks) == ([], 1)


class Never:
    """A signal that is not set."""

    def is_set(self) -> bool:
        return False


class After:
    """A signal that is set after some looks."""

    def __init__(self, most: int) -> None:
        self.looks = 0
        self._most = most

    def is_set(self) -> bool:
        self.looks += 1
        return self.looks > self._most


def states(attempt: Attempt) -> list[ReplayState]:
    return [each.state for each in attempt.registry.told]


def test_chunks_of_an_earlier_attempt_are_reported_before_the_next_one_is_judged() -> None:
    attempt = Attempt(request())
    progress = request().begun(attempt.held)
    attempt.work.looked = [attempt.work.report(request(), progress, ReplayState.OPEN, "looked up")] * 2
    assert attempt.loop.step()
    assert attempt.loop.step()
    assert (attempt.work.prepared, attempt.work.delivered) == (0, 2)
    assert [each.message for each in attempt.registry.told] == ["looked up", "looked up"]
    assert attempt.loop.step()
    assert (attempt.work.prepared, states(attempt)[2:]) == (1, [ReplayState.DONE])


def test_a_request_without_a_record_left_is_done() -> None:
    attempt = Attempt(request())
    attempt.work.is_done = True
    assert attempt.loop.step()
    assert (states(attempt), attempt.published) == ([ReplayState.DONE], [])


def test_a_request_for_another_ledger_is_left_to_its_job() -> None:
    other = request(ledger="s@kafka")
    attempt = Attempt(other)
    attempt.run(5)
    attempt.loop.run(After(3))
    assert (attempt.work.prepared, attempt.registry.told, attempt.registry.open) == (0, [], [other])
    attempt.registry.open = [request(2, ledger=attempt.held.name)]
    attempt.run(5 + POLL)
    assert (attempt.published, states(attempt)) == ([(1_010.0, RECORDS)], [ReplayState.DONE])


def test_a_step_says_whether_anything_was_done() -> None:
    attempt = Attempt(request())
    attempt.outside = [AWAY]
    attempt.work.errors = [BROKER, SPARK]
    for _ in range(3):
        assert not attempt.loop.step()
        attempt.now += 5
    attempt.changes = 1
    assert not attempt.loop.step()
    assert attempt.loop.step()
    assert not attempt.loop.step()  # no request is left


def test_without_a_request_the_attempt_is_not_asked() -> None:
    attempt = Attempt()
    attempt.outside = [AWAY]
    assert not attempt.loop.step()
    assert attempt.outside == [AWAY]


@pytest.mark.parametrize("error", [AWAY, BROKER, SPARK, Py4JError("the JVM does not answer")])
def test_the_next_try_after_an_outage_is_five_seconds_later(error: Exception) -> None:
    attempt = Attempt(request())
    attempt.work.errors = [error]
    with capture_logs() as logs:
        attempt.run(5)
    assert (attempt.work.prepared, attempt.published) == (1, [])
    assert [(each["event"], each["error"]) for each in logs] == [("replay_waits", str(error))]
    attempt.loop.step()
    assert attempt.published == [(1_005.0, RECORDS)]


def test_the_next_try_is_five_seconds_after_an_outage_of_something_outside() -> None:
    attempt = Attempt(request())
    attempt.outside = [PAUSED]
    with capture_logs() as logs:
        attempt.run(5 + POLL)
    assert attempt.published == [(1_005.0, RECORDS)]
    assert [each["event"] for each in logs] == ["replay_waits", "replay_published"]


def test_the_log_has_at_most_500_characters_of_an_error() -> None:
    attempt = Attempt(request())
    attempt.work.errors = [Unavailable("w" * 501), StreamStopped("s" * 501)]
    with capture_logs() as logs:
        attempt.run(6)
    assert [each["error"] for each in logs] == ["w" * 500, "s" * 500]
    (told,) = attempt.registry.told
    assert told.message == "s" * 501


@pytest.mark.parametrize(
    "error", [PythonException("a worker of Spark raised an error"), ValueError("Could not convert 'secret'")]
)
def test_an_error_that_does_not_pass_stops_the_request_at_once_without_a_value(error: Exception) -> None:
    attempt = Attempt(request())
    attempt.work.errors = [error]
    with capture_logs() as logs:
        assert attempt.loop.step()
    (told,), (logged,) = attempt.registry.told, logs
    assert (told.state, told.written) == (ReplayState.STOPPED, 0)
    assert f"ended with {type(error).__name__}" in str(told.message)
    assert (logged["event"], logged["request"]) == ("replay_stopped", request().mark)
    assert type(error).__name__ in logged["error"]
    assert str(error) not in f"{told.message}{logged['error']}"


def test_the_place_of_a_long_error_is_cut_in_the_log() -> None:
    class Error(Exception):
        """An error with a long name."""

    Error.__qualname__ = "E" * 600
    attempt = Attempt(request())
    attempt.work.errors = [Error()]
    with capture_logs() as logs:
        attempt.loop.step()
    assert [len(each["error"]) for each in logs] == [500]


def test_an_instance_that_is_overtaken_while_it_judges_stops_no_request() -> None:
    attempt = Attempt(request())
    attempt.work.errors = [Fenced("another instance of this stream holds the ledger now")]
    with pytest.raises(Fenced):
        attempt.loop.step()
    assert not attempt.registry.told


@pytest.mark.parametrize("refusal", [None, StreamStopped("the server refuses"), Fenced("overtaken")])
def test_a_chunk_is_released_even_if_its_publication_fails(refusal: Exception | None) -> None:
    attempt = Attempt(request())
    attempt.refusal = refusal
    if isinstance(refusal, Fenced):
        with pytest.raises(Fenced):
            attempt.loop.step()
    else:
        assert attempt.loop.step()
    assert attempt.work.judged.released == 1


def test_a_report_that_the_registry_does_not_take_is_not_delivered_and_the_next_chunk_waits() -> None:
    attempt = Attempt(request(rate=20))
    attempt.registry.is_away = True
    with capture_logs() as logs:
        attempt.run(5)
    assert ([at for at, _ in attempt.published], attempt.work.delivered) == ([1_000.0], 0)
    assert [each["event"] for each in logs] == ["replay_published", "replay_not_told"]
    attempt.registry.is_away = False
    attempt.run(5)
    assert ([at for at, _ in attempt.published], attempt.work.delivered) == ([1_000.0, 1_005.0], 1)


def test_a_request_whose_stop_was_not_delivered_has_five_more_tries() -> None:
    attempt = Attempt(request())
    attempt.registry.is_away = True
    attempt.work.errors = [SPARK] * 9
    attempt.run(5 * 5)
    assert attempt.work.prepared == 5
    attempt.registry.is_away = False
    attempt.run(5 * 5)
    assert (attempt.work.prepared, states(attempt)) == (10, [ReplayState.DONE])


def test_a_published_chunk_is_logged_with_the_progress_of_its_request() -> None:
    attempt = Attempt(request(rate=20))
    with capture_logs() as logs:
        attempt.loop.step()
    (logged,) = logs
    assert (logged["event"], logged["n"], logged["done"]) == ("replay_published", attempt.held.n, 20)
    assert (logged["records"], logged["written"]) == (RECORDS, 20)


def test_a_run_goes_on_until_no_request_is_left_and_sleeps_while_its_rate_is_used_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempt = Attempt(request(rate=20), request(2))
    attempt.held = attempt.held.model_copy(update={"totals": BatchTotals(quarantined=2 * RECORDS)})

    def sleep(seconds: float) -> None:
        attempt.now += seconds

    monkeypatch.setattr("time.sleep", sleep)
    # The first chunk uses up the rate of one second.
    attempt.loop.run(After(20))
    assert states(attempt) == [ReplayState.OPEN, ReplayState.DONE, ReplayState.DONE]
    first, second, third = (at for at, _ in attempt.published)
    assert first + 1 <= second < first + 1.25
    assert third >= second + 5 / 20


def test_a_run_ends_at_an_outage_and_when_it_is_told_to_stop() -> None:
    attempt, stopping = Attempt(request()), After(20)
    attempt.work.errors = [BROKER]
    attempt.loop.run(stopping)
    assert (attempt.work.prepared, stopping.looks) == (1, 1)
    attempt.now += 5
    attempt.loop.run(After(0))
    assert attempt.published == []
