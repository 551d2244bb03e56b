"""What a replay tells of the places of its records: none is lost while the registry is away, and none twice for ever."""

from __future__ import annotations

from typing import Any

import pytest

from tests.documents import plan_with
from tests.ledgers import LEDGER
from tests.unit.spark_jobs.test_replay_chunk import Read
from tests.unit.spark_jobs.test_replay_loop import RECORDS, REFUSALS, request
from tidegate.contracts.stream.closure import Closure
from tidegate.contracts.stream.ledger import BatchTotals
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import Closed, ReplayState, runs_of
from tidegate.contracts.stream.replay_progress import ReplayProgress
from tidegate.contracts.stream.replayed_chunk import ReplayedChunk
from tidegate.spark_jobs.job import replay
from tidegate.spark_jobs.job.replay import Prepared, Replayer
from tidegate.spark_jobs.job.replay_chunk import FailedAgain, ReplayChunk
from tidegate.spark_jobs.kafka.topics import TopicDescription
from tidegate.spark_jobs.sinks.sink import Replay
from tidegate.spark_jobs.steps import Stopwatch, ignore_steps

PLAN = plan_with({"type": "object", "required": ["a"]})
ORDER = request()
HELD = LEDGER.model_copy(
    update={"end": {0: RECORDS, 1: 5}, "totals": BatchTotals(written=5, quarantined=RECORDS)}
)


class Topics:
    """The quarantine topic is the one of the request."""

    def identity(self, *_: Any) -> tuple[str, int]:
        return "id", 1


class Sink:
    """A table into which rows are appended."""

    def deletes_known_since(self) -> dict[int, int]:
        return {}


@pytest.fixture
def replayer(monkeypatch: pytest.MonkeyPatch) -> Replayer:
    monkeypatch.setattr(replay, "_MOST_UNTOLD", 8)
    parts: list[Any] = [None, None, Topics(), Sink(), TopicDescription("t", "id", 1, 1_000_000)]
    made: Any = Replayer(*parts, Stopwatch("s", ignore_steps))
    made._closed._known = Closed()
    made._messages = lambda _, wanted: (Read(place, place) for _, place in wanted)
    return made  # type: ignore[no-any-return] # it was Any for its private parts only


def test_places_that_were_not_told_are_looked_up_before_the_request_is_done(replayer: Replayer) -> None:
    """Without a look, the registry would show the problems of replayed records as open for ever."""
    held = HELD
    reports = []
    for done in range(0, RECORDS, 5):
        assert replayer.look(ORDER, PLAN, held) is None
        wanted = REFUSALS.chunk(done, 5)
        read = ReplayChunk(places={each: each for each in wanted}, taken=5)
        work = Replay(ReplayedChunk(written=wanted), ORDER.begun(held))
        held = work.ledger(held, "digest")
        nothing: Any = None
        reports.append(replayer.published(Prepared(ORDER, PLAN, nothing, work, FailedAgain(), read), held))
        if done < RECORDS - 15:
            replayer.told()
    assert [each.state for each in reports] == [ReplayState.OPEN] * 5
    looked = Positions()
    while (report := replayer.look(ORDER, PLAN, held)) is not None:
        replayer.told()
        for first, last in report.closures[Closure.REPLAYED][0]:
            looked.add_all(Positions((0, place) for place in range(first, last + 1)))
    assert looked == REFUSALS
    assert replayer.prepare(ORDER, PLAN, held) is None


def test_one_chunk_may_have_more_places_than_wait_for_a_report(replayer: Replayer) -> None:
    """Forgotten before they are told, they would be looked up again and again, and the request would not go on."""
    progress = ReplayProgress(request=ORDER.mark, digest=ORDER.digest, records=RECORDS, refused=10)
    held = HELD.model_copy(update={"replay": progress})
    report = replayer.look(ORDER, PLAN, held)
    assert report is not None
    assert report.again == {"required": runs_of(REFUSALS.chunk(0, 10))}
    replayer.told()
    assert replayer.look(ORDER, PLAN, held) is None
