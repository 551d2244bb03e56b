"""When a request is processed: what stops it, what it only waits for, and how fast it goes. Without Spark, by a clock of its own."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import KafkaException
from pyspark.errors import PySparkException

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
    """What a chunk holds until it is published: nothing."""

    def release(self) -> None:
        """Hold nothing."""


class Work:
    """Chunks whose records all pass, but for the errors that the next ones meet."""

    def __init__(self) -> None:
        self.errors: list[Exception | None] = []

    def look(self, request: ReplayRequest, plan: Any, held: Ledger) -> None:
        """No attempt before has processed a record."""

    def prepare(self, request: ReplayRequest, plan: Any, held: Ledger) -> Prepared | None:
        raise_next(self.errors)
        progress = request.begun(held)
        chunk = ReplayedChunk(written=REFUSALS.chunk(progress.done, most_records(request)))
        judged: Any = Judged()
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
        """Keep nothing for the next report."""


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
