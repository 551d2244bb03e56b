"""Lines of the protocol without which a record is doubled or judged by an instance that has lost the stream.

Each test is the schedule in which the line matters: two instances, or two crashes in a row.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread

import pytest

from tests.integration.enforce.checker import require_exactly_once
from tests.integration.enforce.line import Line, row
from tests.integration.enforce.test_source_changes import PowerCutError, cut_after_quarantine
from tidegate.contracts.errors import Fenced
from tidegate.contracts.stream.ledger import Vector
from tidegate.contracts.stream.output_topics import quarantine_topic
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.steps import Step, StepObserver

PATIENCE_SECONDS = 60

MakeLine = Callable[..., Line]


class Instance(Thread):
    """An instance of a stream in a thread of its own, which waits after a step until it may go on."""

    def __init__(self, line: Line, waits_after: Step) -> None:
        super().__init__(daemon=True)
        self._line, self._waits_after = line, waits_after
        self.waits, self.goes_on = Event(), Event()
        self.steps: list[Step] = []
        self.failure: BaseException | None = None
        self.start()
        assert self.waits.wait(PATIENCE_SECONDS)

    def run(self) -> None:
        try:
            self._line.enforce(self._observe)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.failure = error

    def _observe(self, _stream: str, step: Step) -> None:
        self.steps.append(step)
        if step is self._waits_after and not self.waits.is_set():
            self.waits.set()
            assert self.goes_on.wait(PATIENCE_SECONDS)

    def finish(self) -> None:
        """Let it go on, and wait until it has ended."""
        self.goes_on.set()
        self.join(PATIENCE_SECONDS)
        assert not self.is_alive()


@pytest.fixture(params=["iceberg", pytest.param("postgresql", marks=pytest.mark.full)])
def table_line(make_line: MakeLine, request: pytest.FixtureRequest) -> Line:
    line = make_line(sink=request.param)
    line.produce(*(row(2 * n, 999 if n % 2 else 1) for n in range(4)))
    return line


def test_an_instance_whose_claim_was_overtaken_judges_nothing(table_line: Line) -> None:
    """VERIFY: it fences the other one's producers when it goes on, and must find out before it writes with its own."""
    line = table_line
    late = Instance(line, Step.CLAIM)
    line.enforce()
    late.finish()
    assert isinstance(late.failure, Fenced)
    assert Step.JUDGE not in late.steps
    require_exactly_once(line)


def test_records_that_are_settled_ahead_of_a_batch_are_found_after_a_second_crash(table_line: Line) -> None:
    """The mark of the batch between the two crashes lies before them."""
    line = table_line
    with pytest.raises(PowerCutError):
        line.enforce(cut_after_quarantine)
    with pytest.raises(PowerCutError):
        line.enforce(cut_after(Step.COMMITTED), max_offsets=2)
    assert line.ledger().end[0] == 2
    line.enforce()
    require_exactly_once(line)
    assert len(line.quarantined()) == 2


def cut_after(step: Step) -> StepObserver:
    def cut(_stream: str, passed: Step) -> None:
        if passed is step:
            raise PowerCutError

    return cut


def test_what_an_earlier_instance_commits_before_it_is_fenced_is_found(
    table_line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the quarantine topic is read after the fence: no producer can commit after it."""
    line = table_line
    earlier = Instance(line, Step.DECIDE)
    latest, asked = Topics.latest, []

    def latest_then_earlier(topics: Topics, name: str) -> Vector:
        end = latest(topics, name)
        if name == quarantine_topic(line.topic) and not asked:
            asked.append(name)
            earlier.finish()
        return end

    monkeypatch.setattr(Topics, "latest", latest_then_earlier)
    line.enforce()
    assert asked
    assert earlier.failure is not None
    require_exactly_once(line)
    assert len(line.quarantined()) == 2
