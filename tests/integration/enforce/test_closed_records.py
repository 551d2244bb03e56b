"""Refused records are closed: discarded, or sent to the source topic once, whatever ends between the steps."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.enforce.checker import require_exactly_once
from tests.integration.enforce.line import KNOWN, Line
from tests.integration.enforce.replaying import MENDED, cut_after, fill, line_of, long, refusals, request
from tests.integration.enforce.test_source_changes import PowerCutError
from tests.marks import full
from tidegate.contracts.stream.closure import Closure
from tidegate.contracts.stream.evidence import SENT_BACK_HEADER, headers_of
from tidegate.contracts.stream.ledger import Position
from tidegate.contracts.stream.replay import ReplayRequest, ReplayState, Untouched, positions_of
from tidegate.spark_jobs.kafka.outputs import read_committed
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.steps import ReplayStep


@pytest.fixture
def line(make_line: Callable[..., Line], request: pytest.FixtureRequest) -> Line:
    """A line into the sink of the parameter, or into an Iceberg table."""
    return line_of(make_line, request)


def discard(line: Line, places: Any = None) -> ReplayRequest:
    """Request that refused records are discarded."""
    return request(line, places, action="discard", reason="the ward was closed")


def closed_by(line: Line, closure: Closure) -> set[Position]:
    """Return the places in the quarantine topic that reports named as closed."""
    return {
        place for told in line.replays.told for place in positions_of(dict(told.closures.get(closure, {})))
    }


@pytest.mark.parametrize(
    "sink", ["iceberg", *full("kafka", "delta", "postgresql", "kafka-tasks", "iceberg-upsert")]
)
def test_discarded_records_stay_refused_and_are_not_replayed_any_more(line: Line, sink: str) -> None:
    fill(line)
    places = refusals(line)
    gone = sorted(places)[:2]
    before = line.quarantined()
    discard(line, gone)
    line.enforce()
    told = line.replays.told[-1]
    assert (told.state, told.closed, told.left) == (ReplayState.DONE, 2, 0)
    assert closed_by(line, Closure.DISCARDED) == {*gone}
    assert line.quarantined() == before
    assert line.reconcile().holds
    assert line.ledger().closed[Closure.DISCARDED].records == 2
    if "upsert" in sink:
        return
    line.replays.told.clear()
    request(line, fix=MENDED)
    line.enforce()
    told = line.replays.told[-1]
    assert (told.written, told.untouched) == (len(places) - 2, {Untouched.DISCARDED: 2})
    assert closed_by(line, Closure.DISCARDED) == {*gone}
    assert closed_by(line, Closure.REPLAYED) == {*places} - {*gone}
    require_exactly_once(line, {source for place, source in places.items() if place not in gone})


@pytest.mark.parametrize("step", [ReplayStep.POSITIONS, *full(ReplayStep.STAGE, ReplayStep.PUBLISH)])
def test_a_discard_that_ends_between_its_steps_is_finished_and_told_by_the_next_attempt(
    line: Line, step: ReplayStep
) -> None:
    fill(line)
    places = refusals(line)
    discard(line)
    with pytest.raises(PowerCutError):
        line.enforce(cut_after(step))
    line.enforce()
    told = line.replays.told[-1]
    assert (told.state, told.closed) == (ReplayState.DONE, len(places))
    assert closed_by(line, Closure.DISCARDED) == {*places}
    assert line.ledger().closed[Closure.DISCARDED].records == len(places)
    assert line.reconcile().holds


class Killed(BaseException):
    """The attempt ends here, also between steps whose errors would only stop the request."""


def kill_at(step: ReplayStep) -> Callable[[str, object], None]:
    """Return an observer that ends the attempt after a step, whatever handles errors there."""

    def kill(_stream: str, passed: object) -> None:
        if passed is step:
            raise Killed

    return kill


def sent_back(line: Line) -> list[Any]:
    """Return the records of the source topic that were sent back to it."""
    kafka = line.settings.kafka
    found = read_committed(kafka, line.topic, {}, Topics(kafka).latest(line.topic))
    return [each for each in found if SENT_BACK_HEADER in dict(headers_of(each))]


@pytest.mark.parametrize(
    ("sink", "step"),
    [
        ("iceberg", ReplayStep.SEND),
        *long(*(("iceberg", step) for step in (ReplayStep.JUDGE, ReplayStep.POSITIONS, ReplayStep.PUBLISH))),
        *long(("kafka", ReplayStep.SEND), ("kafka", ReplayStep.PUBLISH)),
        *long(("iceberg-upsert", ReplayStep.SEND), ("postgresql", ReplayStep.SEND)),
    ],
)
def test_records_are_sent_to_the_source_once_whatever_ends_between_the_steps(
    line: Line,
    sink: str,  # noqa: ARG001 - `line` takes it
    step: ReplayStep,
) -> None:
    refused = fill(line)
    places = refusals(line)
    request(line, fix=MENDED, action="to-source")
    with pytest.raises(Killed):
        line.enforce(kill_at(step))
    line.enforce()
    line.enforce()  # what was sent back is judged as any other record
    sent = sent_back(line)
    origins = [dict(headers_of(each))[SENT_BACK_HEADER] for each in sent]
    assert sorted(origins) == sorted(f"{line.topic}/{p}/{offset}".encode() for p, offset in refused)
    assert all(json.loads(each.value() or b"")["amount"] == 1 for each in sent)
    ended = [each for each in line.replays.told if each.state is ReplayState.DONE]
    assert (ended[-1].closed, ended[-1].left) == (len(refused), 0)
    assert closed_by(line, Closure.RESENT) == {*places}
    assert line.ledger().closed[Closure.RESENT].records == len(refused)
    assert {*refusals(line)} == {*places}
    assert line.reconcile().holds


def test_a_record_that_was_sent_back_and_is_refused_again_is_never_sent_again(line: Line) -> None:
    fill(line)
    line.contracts.plan = line.plan(version="1.1.0", rules=[])
    request(line, action="to-source")
    line.enforce()
    line.contracts.plan = line.plan(version="1.2.0", rules=[KNOWN])
    line.enforce()
    again = refusals(line)
    count = len(sent_back(line))
    assert len(again) == 2 * count
    line.replays.told.clear()
    request(line, fix=MENDED, action="to-source")
    line.enforce()
    told = line.replays.told[-1]
    assert told.untouched == {Untouched.RESENT: count, Untouched.SENT_BACK: count}
    assert len(sent_back(line)) == count
    request(line, fix=MENDED)
    line.enforce()
    assert (line.replays.told[-1].written, line.replays.told[-1].left) == (count, count)
    assert line.reconcile().holds
