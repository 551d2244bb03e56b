"""Refused records are closed: discarded, or sent to the source topic once, whatever ends between the steps."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession

from tests.integration.enforce.checker import require_exactly_once
from tests.integration.enforce.faults import Publish, StartJob, kill_after, stop_after, wake
from tests.integration.enforce.line import KNOWN, Line, row
from tests.integration.enforce.registry import Registry, back_up, put_back
from tests.integration.enforce.replaying import (
    MENDED,
    Killed,
    ask_of_registry,
    changes,
    closed_by,
    cut_after,
    fill,
    kill_at,
    line_of,
    long,
    new_request,
    post_request,
    previewed,
    refusals,
    request,
    require_closed_once,
    sent_back,
)
from tests.integration.enforce.running import eventually, running
from tests.integration.enforce.test_source_changes import PowerCutError
from tests.marks import full
from tidegate.contracts.stream.closure import Closure
from tidegate.contracts.stream.evidence import SENT_BACK_HEADER, headers_of
from tidegate.contracts.stream.ledger import Position
from tidegate.contracts.stream.output_topics import replayed_topic
from tidegate.contracts.stream.replay import ReplayAction, ReplayRequest, ReplayState, Untouched
from tidegate.spark_jobs.kafka.outputs import OutputRecord, TransactionalProducer
from tidegate.spark_jobs.steps import ReplayStep


@pytest.fixture
def line(make_line: Callable[..., Line], request: pytest.FixtureRequest) -> Line:
    """A line into the sink of the parameter, or into an Iceberg table."""
    return line_of(make_line, request)


def discard(line: Line, places: Any = None) -> ReplayRequest:
    """Request that refused records are discarded."""
    return request(line, places, action="discard", reason="the ward was closed")


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


def require_sent_once(line: Line, refused: set[Position], places: dict[Position, Position]) -> None:
    """Require that each refused record was corrected and sent once, and is closed, and that its copy is accounted for."""
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
    require_sent_once(line, refused, places)


@pytest.mark.full
def test_records_and_the_positions_that_name_them_are_sent_in_one_transaction(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An instance that ends after the records and before their positions has sent nothing."""
    refused = fill(line)
    places = refusals(line)
    request(line, fix=MENDED, action="to-source")
    send, ended = TransactionalProducer._send, []

    def end_before_positions(producer: TransactionalProducer, records: Iterable[OutputRecord]) -> int:
        def until_positions() -> Iterator[OutputRecord]:
            for record in records:
                if record[0] == replayed_topic(line.topic):
                    ended.append(producer)
                    raise Killed
                yield record

        return send(producer, until_positions())

    with monkeypatch.context() as patched:
        patched.setattr(TransactionalProducer, "_send", end_before_positions)
        with pytest.raises(Killed):
            line.enforce()
    assert len(ended) == 1
    assert sent_back(line) == []
    line.enforce()
    line.enforce()
    require_sent_once(line, refused, places)


@pytest.mark.full
@pytest.mark.parametrize("is_killed_again", [False, *full(True)])
def test_records_that_a_cancelled_request_has_sent_stay_closed(line: Line, is_killed_again: bool) -> None:
    """The instance ends before the ledger names what it sent; the next request is of another record."""
    fill(line)
    places = refusals(line)
    first, *others = sorted(places)
    sent = request(line, others, fix=MENDED, action="to-source")
    with pytest.raises(Killed):
        line.enforce(kill_at(ReplayStep.SEND))
    line.replays.open.remove(sent)
    before = len(sent_back(line))
    assert 0 < before < len(places)  # a chunk has places of one partition
    request(line, [first], fix=MENDED, action="to-source")
    if is_killed_again:
        with pytest.raises(Killed):
            line.enforce(kill_at(ReplayStep.SEND))
    line.enforce()
    assert len(sent_back(line)) == line.ledger().closed[Closure.RESENT].records == before + 1
    request(line, fix=MENDED, action="to-source")
    line.enforce()
    assert line.replays.told[-1].untouched == {Untouched.RESENT: before + 1}
    line.enforce()
    require_closed_once(line, is_rewound=False)


STEPS = (ReplayStep.READ, ReplayStep.JUDGE, ReplayStep.POSITIONS, ReplayStep.STAGE, ReplayStep.PUBLISH)
OF_KAFKA = tuple(step for step in STEPS if step is not ReplayStep.STAGE)
OTHERS = ("delta", "postgresql", "iceberg-upsert")


@pytest.mark.full
@pytest.mark.parametrize(
    ("sink", "step"),
    [
        *(("iceberg", step) for step in (*STEPS, ReplayStep.SEND)),
        *(("kafka", step) for step in (*OF_KAFKA, ReplayStep.SEND)),
        *((sink, step) for sink in OTHERS for step in (ReplayStep.SEND, ReplayStep.PUBLISH)),
    ],
)
def test_killed_while_records_are_sent_to_the_source(
    line: Line,
    sink: str,  # noqa: ARG001 - `line` takes it
    step: ReplayStep,
    job: StartJob,
    publish: Publish,
    registry: Registry,
) -> None:
    """With SIGKILL; the next instance finishes the request of the registry."""
    publish(line.document(**changes(line)))
    refused = fill(line)
    places = refusals(line)
    ask_of_registry(line, registry.url, fix=MENDED, action="to-source")
    kill_after(job, line, step)
    assert not line.reconcile().twice
    line.enforce()
    line.enforce()
    require_sent_once(line, refused, places)


@pytest.mark.full
@pytest.mark.parametrize(
    ("sink", "step"),
    [
        *(("iceberg", step) for step in STEPS),
        *(("kafka", step) for step in OF_KAFKA),
        *((sink, step) for sink in OTHERS for step in (ReplayStep.POSITIONS, ReplayStep.PUBLISH)),
    ],
)
def test_killed_in_a_discard(
    line: Line,
    sink: str,  # noqa: ARG001 - `line` takes it
    step: ReplayStep,
    job: StartJob,
    publish: Publish,
    registry: Registry,
) -> None:
    publish(line.document(**changes(line)))
    fill(line)
    places = refusals(line)
    ask_of_registry(line, registry.url, action="discard", reason="the ward was closed")
    kill_after(job, line, step)
    line.enforce()
    told = line.replays.told[-1]
    assert (told.state, told.closed, told.left) == (ReplayState.DONE, len(places), 0)
    assert closed_by(line, Closure.DISCARDED) == {*places}
    assert line.ledger().closed[Closure.DISCARDED].records == len(places)
    assert {*refusals(line)} == {*places}
    assert line.reconcile().holds


@pytest.mark.full
@pytest.mark.parametrize(
    ("sink", "step"),
    [
        *(("iceberg", step) for step in (*STEPS, ReplayStep.SEND)),
        *(
            (sink, step)
            for sink in ("delta", "postgresql", "kafka", "kafka-tasks")
            for step in (ReplayStep.JUDGE, ReplayStep.SEND, ReplayStep.POSITIONS, ReplayStep.PUBLISH)
        ),
    ],
)
def test_a_zombie_sends_nothing_to_the_source_that_another_has_sent(
    line: Line,
    sink: str,  # noqa: ARG001 - `line` takes it
    step: ReplayStep,
    job: StartJob,
    publish: Publish,
    registry: Registry,
) -> None:
    """It was stopped after a step, and goes on when another instance has finished the request."""
    publish(line.document(**changes(line)))
    refused = fill(line)
    places = refusals(line)
    ask_of_registry(line, registry.url, fix=MENDED, action="to-source")
    zombie = stop_after(job, line, step)
    line.enforce()
    line.enforce()
    wake(zombie)
    line.enforce()
    require_sent_once(line, refused, places)


@pytest.mark.full
@pytest.mark.parametrize(
    ("sink", "step"),
    [
        *(("iceberg", step) for step in STEPS),
        *(
            (sink, step)
            for sink in ("delta", "postgresql", "kafka", "kafka-tasks")
            for step in (ReplayStep.JUDGE, ReplayStep.POSITIONS, ReplayStep.PUBLISH)
        ),
    ],
)
def test_a_zombie_of_a_discard_changes_nothing(
    line: Line,
    sink: str,  # noqa: ARG001 - `line` takes it
    step: ReplayStep,
    job: StartJob,
    publish: Publish,
    registry: Registry,
) -> None:
    """It was stopped after a step, and goes on when another instance has finished the discard, and then a replay."""
    publish(line.document())
    fill(line)
    places = refusals(line)
    gone = sorted(places)[:2]
    ask_of_registry(line, registry.url, places=gone, action="discard", reason="the ward was closed")
    zombie = stop_after(job, line, step)
    line.enforce()
    request(line, fix=MENDED)
    line.enforce()
    line.produce(row(100))  # an idle instance does not look at the ledger
    wake(zombie)
    line.enforce()
    assert closed_by(line, Closure.DISCARDED) == {*gone}
    assert line.ledger().closed[Closure.DISCARDED].records == len(gone)
    require_exactly_once(line, {source for place, source in places.items() if place not in gone})


@pytest.mark.full
def test_a_record_that_was_sent_back_and_is_refused_again_is_never_sent_again(
    line: Line, registry: Registry, publish: Publish
) -> None:
    publish(line.document())
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
    shown = previewed(line, registry.url, action=ReplayAction.TO_SOURCE)
    assert (shown.passing, shown.failing) == (0, 0)
    request(line, fix=MENDED, action="to-source")
    line.enforce()
    told = line.replays.told[-1]
    assert told.untouched == shown.untouched == {Untouched.RESENT: count, Untouched.SENT_BACK: count}
    assert previewed(line, registry.url).passing == count
    assert len(sent_back(line)) == count
    request(line, fix=MENDED)
    line.enforce()
    assert (line.replays.told[-1].written, line.replays.told[-1].left) == (count, count)
    assert line.reconcile().holds


@pytest.mark.full
@pytest.mark.parametrize("lost", ["reports", "requests"])
def test_a_restored_registry_learns_again_what_was_replayed_and_discarded(
    line: Line, spark: SparkSession, make_registry: Callable[..., Registry], tmp_path: Path, lost: str
) -> None:
    """Requests whose reports are lost are processed once more; lost requests are made again. No row is written twice."""
    fill(line)
    places = refusals(line)
    first, *others = sorted(places)
    orders = (
        new_request(line, [first], action="discard", reason="the ward was closed"),
        new_request(line, others, fix=MENDED),
    )
    registry = make_registry()
    httpx.post(f"{registry.url}/api/v1/contracts", json=line.document(), timeout=60).raise_for_status()

    def process() -> dict[str, dict[str, Any]]:
        """Run the job until both requests are done; return its reports by action."""
        with running(spark, line, registry.url) as stream:

            def shown() -> list[dict[str, Any]]:
                stream.beat()
                answer = httpx.get(f"{registry.url}/api/v1/streams/{line.contract_id}/replays")
                return list(answer.raise_for_status().json()["replays"])

            eventually(lambda: [each["state"] for each in shown()] == ["done", "done"])
            return {each["action"]: each["report"] for each in shown()}

    if lost == "requests":
        back_up(tmp_path)
    for each in orders:
        post_request(each, registry.url)
    if lost == "reports":
        back_up(tmp_path)
    told = process()
    assert (told["discard"]["closed"], told["replay"]["written"]) == (1, len(others))
    before = line.ledger()
    registry.stop()
    put_back(tmp_path)
    registry = make_registry()
    if lost == "requests":
        for each in orders:
            post_request(each, registry.url)
    told = process()
    assert told["discard"]["untouched"] == {Untouched.DISCARDED: 1}
    assert told["replay"]["untouched"] == {Untouched.REPLAYED: len(others)}
    ledger = line.ledger()
    assert (ledger.replayed, ledger.closed, ledger.totals) == (before.replayed, before.closed, before.totals)
    require_exactly_once(line, {places[place] for place in others})
    assert line.reconcile().holds
