"""Replays into tables with upserts: the newest record of a key is its row, and a deleted key stays deleted."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Any

import pytest

from tests.integration.enforce.checker import require_exactly_once
from tests.integration.enforce.faults import Publish
from tests.integration.enforce.line import Line, row
from tests.integration.enforce.losing import lose_ledger
from tests.integration.enforce.registry import Registry
from tests.integration.enforce.replaying import KEYED, MENDED, previewed, refusals, request, tombstone
from tests.integration.enforce.test_faults import SINKS
from tests.marks import full
from tidegate.contracts.errors import Unavailable
from tidegate.contracts.stream.key_marks import KnownMarks
from tidegate.contracts.stream.ledger import Position
from tidegate.contracts.stream.output_topics import marks_topic
from tidegate.contracts.stream.reconciliation import ReconciliationAnswer
from tidegate.contracts.stream.replay import ReplayAction, ReplayState, Untouched
from tidegate.spark_jobs.adopt.adopt import Adopter
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.steps import ReplayStep, Step


@pytest.fixture
def line(make_line: Callable[..., Line], request: pytest.FixtureRequest) -> Line:
    """A line into the table with upserts of the parameter, or of Iceberg."""
    is_chosen = hasattr(request.node, "callspec") and "sink" in request.node.callspec.params
    found = make_line(**SINKS[request.node.callspec.params["sink"] if is_chosen else "iceberg-upsert"])
    found.contracts.plan = found.plan(**KEYED)
    return found


def amounts(line: Line) -> dict[str, int]:
    return {each["id"]: each["amount"] for each in line.rows()}


def refused_by_batches(line: Line) -> set[Position]:
    """Process five refused records in three batches, with older and newer records of their keys around them."""
    line.produce(row(6, 6), tombstone(8), *(row(n, 999) for n in (0, 2, 4, 6, 8)))
    line.enforce()
    line.produce(row(0, 7), tombstone(2))
    line.enforce()
    assert amounts(line) == {"r0": 7, "r6": 6}
    return {*refusals(line).values()}


@pytest.mark.parametrize("sink", ["iceberg-upsert", *full("delta-upsert", "postgresql-upsert")])
def test_the_newest_record_of_a_key_is_its_row_whenever_it_is_replayed(
    line: Line,
    sink: str,  # noqa: ARG001 - `line` takes it
) -> None:
    """A newer row stays, a deleted key stays deleted, an older row is replaced, and a delete before it holds nothing back."""
    refused = refused_by_batches(line)
    request(line, fix=MENDED)
    line.enforce()
    assert amounts(line) == {"r0": 7, "r4": 1, "r6": 1, "r8": 1}
    require_exactly_once(line, refused)
    told = line.replays.told[-1]
    assert (told.state, told.written, told.refused, told.left) == (ReplayState.DONE, 5, 0, 0)
    totals = line.ledger().totals
    assert (totals.written, totals.superseded, totals.deleted) == (4, 3, 2)

    line.produce(tombstone(4), row(8, 3))  # a replayed row is deleted and replaced as any other
    line.enforce()
    assert amounts(line) == {"r0": 7, "r6": 1, "r8": 3}
    require_exactly_once(line, refused)


@pytest.mark.full
def test_a_key_that_is_deleted_while_its_record_is_replayed_stays_deleted(line: Line) -> None:
    """The chunk is judged before the batch that deletes the key, and published after it."""
    line.produce(row(0, 999), row(2, 999))
    line.enforce()
    request(line, fix=MENDED)
    stopping, committed, steps = Event(), Event(), []

    def delete_meanwhile(_stream: str, step: Step | ReplayStep) -> None:
        steps.append(step)
        if step is ReplayStep.JUDGE and steps.count(step) == 1:
            line.produce(tombstone(0))
            assert committed.wait(120)
        if step is Step.COMMITTED:
            committed.set()
        if step is ReplayStep.PUBLISH:
            stopping.set()

    line.attempt(delete_meanwhile, available_now=False).run(stopping, Event())
    assert amounts(line) == {"r2": 1}
    require_exactly_once(line, {(0, 0), (0, 1)})


@pytest.mark.full
@pytest.mark.parametrize("are_remembered", [True, False])
def test_marks_that_retention_deletes_during_a_replay_bring_no_deleted_key_back(
    line: Line, monkeypatch: pytest.MonkeyPatch, are_remembered: bool
) -> None:
    """Marks that the attempt has in memory still count; without them the records are left."""
    if not are_remembered:
        monkeypatch.setattr(KnownMarks, "add", lambda *_: False)
    line.produce(row(0, 999), row(2, 999))
    line.enforce()
    request(line, fix=MENDED)
    stopping, committed, steps = Event(), Event(), []
    topic, topics = marks_topic(line.topic), Topics(line.settings.kafka)

    def delete_meanwhile(_stream: str, step: Step | ReplayStep) -> None:
        steps.append(step)
        if step is ReplayStep.JUDGE and steps.count(step) == 1:
            line.produce(tombstone(0))
            assert committed.wait(120)
            topics.delete_before(topic, topics.latest(topic))
        if step is Step.COMMITTED:
            committed.set()
        if step is ReplayStep.PUBLISH:
            stopping.set()

    attempt = line.attempt(delete_meanwhile, available_now=False)
    if are_remembered:
        attempt.run(stopping, Event())
        assert (line.replays.told[-1].written, amounts(line)) == (2, {"r2": 1})
        return
    with pytest.raises(Unavailable, match="marks of deleted keys were lost during a replay"):
        attempt.run(stopping, Event())
    line.enforce()
    told = line.replays.told[-1]
    assert (told.written, told.untouched, amounts(line)) == (0, {Untouched.UNORDERED: 2}, {})
    require_exactly_once(line)


@pytest.mark.full
@pytest.mark.parametrize("sink", ["iceberg-upsert", *full("delta-upsert", "postgresql-upsert")])
def test_a_replayed_tombstone_deletes_and_leaves_a_mark(
    line: Line,
    sink: str,  # noqa: ARG001 - `line` takes it
) -> None:
    """An older record of its key that is replayed later stays deleted."""
    line.contracts.plan = line.plan(primary_key=["id"])
    line.produce(row(0, 999), row(0, 5), row(2, 999), row(2, 6), tombstone(0))
    line.enforce()
    places = {source: place for place, source in refusals(line).items()}
    assert amounts(line) == {"r0": 5, "r2": 6}
    assert {*places} == {(0, 0), (0, 2), (0, 4)}
    line.contracts.plan = line.plan(**KEYED, version="1.1.0")
    request(line, [places[0, 4]])
    line.enforce()
    assert line.replays.told[-1].written == 1
    assert amounts(line) == {"r2": 6}
    request(line, [places[0, 0], places[0, 2]], fix=MENDED)
    line.enforce()
    assert line.replays.told[-1].written == 2
    assert amounts(line) == {"r2": 6}
    require_exactly_once(line, {*places})


@pytest.mark.full
def test_records_from_before_the_oldest_mark_are_left(
    line: Line, registry: Registry, publish: Publish
) -> None:
    """Retention deletes marks: then whether a key was deleted is not known. Of what is sent to the source it does not matter."""
    publish(line.document(**KEYED))
    refused_by_batches(line)
    marks, topics = marks_topic(line.topic), Topics(line.settings.kafka)
    topics.delete_before(marks, topics.latest(marks))
    line.produce(row(10, 999), row(12, 999), tombstone(12))
    line.enforce()
    to_source = previewed(line, registry.url, action=ReplayAction.TO_SOURCE)
    assert (to_source.passing, to_source.untouched) == (7, {})
    shown = previewed(line, registry.url)
    request(line, fix=MENDED)
    line.enforce()
    told = line.replays.told[-1]
    assert (told.state, told.written, told.left) == (ReplayState.DONE, 2, 5)
    assert told.untouched == shown.untouched == {Untouched.UNORDERED: 5}
    assert shown.passing == 2
    assert amounts(line) == {"r0": 7, "r6": 6, "r10": 1}
    require_exactly_once(line, {(0, 9), (0, 10)})


@pytest.mark.full
def test_a_replayed_record_without_mark_and_row_cannot_be_proven(line: Line) -> None:
    """A fix may have given it another key than its source has."""
    refused_by_batches(line)
    request(line, fix=MENDED)
    line.enforce()
    assert line.reconcile().holds
    marks, topics = marks_topic(line.topic), Topics(line.settings.kafka)
    topics.delete_before(marks, topics.latest(marks))
    found = line.reconcile()
    assert (found.answer, found.lost, found.unverifiable) == (ReconciliationAnswer.UNPROVEN, 0, 2)


@pytest.mark.full
@pytest.mark.parametrize("sink", ["postgresql-upsert"])  # the others lose the primary key with the ledger
def test_a_rebuilt_ledger_knows_no_delete_of_before(
    line: Line,
    sink: str,  # noqa: ARG001 - `line` takes it
    registry: Registry,
    publish: Publish,
) -> None:
    publish(line.document(**KEYED))
    refused_by_batches(line)
    lose_ledger(line)
    settings = line.settings.model_copy(update={"registry_url": registry.url})
    with Adopter.opened(settings, line.contract_id) as found:
        found.rebuild(None, lambda _: None)
    request(line, fix=MENDED)
    line.enforce()
    assert line.replays.told[-1].untouched == {Untouched.UNORDERED: 5}
    assert amounts(line) == {"r0": 7, "r6": 6}


def test_the_key_that_a_fix_gives_counts(line: Line) -> None:
    line.produce(row(0, 999), row(2, 2))
    line.enforce()
    line.produce(tombstone(4))
    line.enforce()
    other: dict[str, Any] = {"action": "set", "field": "/id", "value": "r4"}
    request(line, fix={"fix": "moved", "steps": [*MENDED["steps"], other]})
    line.enforce()
    assert amounts(line) == {"r2": 2}
    assert line.ledger().totals.superseded == 1
    assert line.reconcile().holds, line.reconcile()
