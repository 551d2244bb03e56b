"""Refused records are replayed: written once, with their fix, whatever is killed, repeated or rewound meanwhile."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from psycopg.sql import SQL, Identifier

from tests.integration.enforce.checker import CLEAN, account, require_exactly_once
from tests.integration.enforce.faults import Publish
from tests.integration.enforce.line import KNOWN, Line, Sent, row
from tests.integration.enforce.losing import lose_ledger
from tests.integration.enforce.registry import Registry
from tests.integration.enforce.replaying import (
    MENDED,
    RECORDS,
    cut_after,
    failed_by,
    fill,
    line_of,
    long,
    previewed,
    refusals,
    request,
)
from tests.integration.enforce.test_source_changes import PowerCutError
from tests.marks import full
from tidegate.contracts.errors import ConflictError, Fenced
from tidegate.contracts.stream.evidence import (
    REPLAY_HEADER,
)
from tidegate.contracts.stream.output_topics import replayed_topic
from tidegate.contracts.stream.reconciliation import ReconciliationAnswer
from tidegate.contracts.stream.replay import (
    ReplayAction,
    ReplayState,
    Untouched,
)
from tidegate.spark_jobs.adopt.adopt import Adopter
from tidegate.spark_jobs.adopt.erase import Eraser, Subject
from tidegate.spark_jobs.adopt.rewind import Rewinder, RewindTo
from tidegate.spark_jobs.job import replay_chunk
from tidegate.spark_jobs.job.stream import ChunkRefused
from tidegate.spark_jobs.kafka.topics import Topics
from tidegate.spark_jobs.sinks.postgresql.table import qualified_name
from tidegate.spark_jobs.steps import ReplayStep, Step

FEW_ROWS: dict[str, Any] = {
    "id": "enough-rows",
    "type": "expect_table_row_count_to_be_between",
    "kwargs": {"min_value": 3},
}
"""An expectation that a batch of two accepted records does not meet."""


@pytest.fixture
def line(make_line: Callable[..., Line], request: pytest.FixtureRequest) -> Line:
    """A line into the sink of the parameter, or into an Iceberg table."""
    return line_of(make_line, request)


@pytest.mark.parametrize("sink", ["iceberg", *full("kafka", "delta", "postgresql", "kafka-tasks")])
def test_refused_records_are_written_once_with_their_fix(line: Line, sink: str) -> None:
    refused = fill(line)
    first = request(line, fix=MENDED)
    line.produce(row(100), row(101, 999))
    line.enforce()
    require_exactly_once(line, refused)
    (ended,) = [each for each in line.replays.told if each.state is not ReplayState.OPEN]
    assert (ended.state, ended.written, ended.refused, ended.left) == (ReplayState.DONE, len(refused), 0, 0)
    ledger = line.ledger()
    assert (ledger.replayed, ledger.replay is not None and ledger.replay.is_finished) == (len(refused), True)

    second = request(line, fix=MENDED)  # the same records again, and the one that was refused since
    line.enforce()
    now = {*refusals(line).values()}
    require_exactly_once(line, now)
    assert (line.replays.told[-1].written, line.replays.told[-1].left) == (1, len(refused))
    assert line.replays.told[-1].untouched == {Untouched.REPLAYED: len(refused)}
    if sink.startswith("kafka"):
        marked = [each for each in line.accepted() if REPLAY_HEADER in dict(each.headers)]
        ids = Counter(dict(each.headers)[REPLAY_HEADER] for each in marked)
        assert ids == {first.mark.encode(): len(refused), second.mark.encode(): 1}
        assert all(json.loads(each.value or b"")["amount"] == 1 for each in marked)
    else:
        assert {each["amount"] for each in line.rows()} == {1}


@pytest.mark.full
@pytest.mark.parametrize("sink", ["postgresql"])
def test_what_the_table_refuses_of_a_replay_stops_the_request_and_not_the_stream(
    line: Line,
    sink: str,  # noqa: ARG001 - `line` takes it
) -> None:
    refused = fill(line)
    with line.database() as connection:
        table = Identifier(*qualified_name(line.contract_id))
        statement = SQL("ALTER TABLE {} ADD CONSTRAINT no_ones CHECK (amount <> 1) NOT VALID")
        connection.execute(statement.format(table))
    line.produce(row(100, 2))
    request(line, fix=MENDED)
    with pytest.raises(ChunkRefused, match="no_ones"):
        line.enforce()
    (told,) = line.replays.told
    assert (told.state, told.written) == (ReplayState.STOPPED, 0)
    assert "no_ones" in str(told.message)
    line.produce(row(102, 2))
    line.enforce()
    require_exactly_once(line, set())
    assert {each["id"] for each in line.rows()} >= {"r100", "r102"}
    assert {*refusals(line).values()} == refused


CHANGING = (ReplayStep.POSITIONS, ReplayStep.STAGE, ReplayStep.PUBLISH)
"""The steps after which a crash leaves something behind."""


@pytest.mark.parametrize(
    ("sink", "step"),
    [
        *(("iceberg", step) for step in CHANGING),
        *long(*((sink, step) for sink in ("delta", "postgresql") for step in CHANGING)),
        *long(*(("kafka", step) for step in (ReplayStep.POSITIONS, ReplayStep.PUBLISH))),
    ],
)
def test_an_attempt_that_ends_in_a_replay_is_finished_by_the_next(
    line: Line,
    sink: str,  # noqa: ARG001 - `line` takes it
    step: ReplayStep,
) -> None:
    refused = fill(line)
    request(line, fix=MENDED)
    with pytest.raises(PowerCutError):
        line.enforce(cut_after(step))
    assert not line.reconcile().twice
    line.enforce()
    require_exactly_once(line, refused)
    assert (line.replays.told[-1].state, line.replays.told[-1].written) == (ReplayState.DONE, len(refused))


@pytest.mark.parametrize("sink", ["iceberg", *full("delta", "postgresql", "kafka", "kafka-tasks")])
def test_an_instance_that_is_overtaken_in_a_replay_writes_nothing(
    line: Line,
    sink: str,  # noqa: ARG001 - `line` takes it
) -> None:
    refused = fill(line)
    request(line, fix=MENDED)
    overtaken = []

    def claim_meanwhile(_stream: str, finished: object) -> None:
        if finished is ReplayStep.POSITIONS and not overtaken:
            overtaken.append(finished)
            line.enforce()

    with pytest.raises(Fenced):
        line.enforce(claim_meanwhile)
    require_exactly_once(line, refused)


@pytest.mark.full
@pytest.mark.full
def test_chunks_of_a_replay_and_live_batches_take_turns(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """While each chunk waits for its commit, a batch of the stream is judged and published."""
    monkeypatch.setattr(replay_chunk, "CHUNK_RECORDS", 2)
    refused = fill(line)
    request(line, fix=MENDED)
    stopping, committed = Event(), Event()
    turns: list[object] = []

    def produce_meanwhile(_stream: str, step: object) -> None:
        if step is ReplayStep.JUDGE:
            committed.clear()
            line.produce(row(100 + len(turns)))
            assert committed.wait(120)
        if step in {Step.COMMITTED, ReplayStep.PUBLISH}:
            turns.append(step)
        if step is Step.COMMITTED:
            committed.set()
        if turns.count(ReplayStep.PUBLISH) == 4:
            stopping.set()

    line.attempt(produce_meanwhile, available_now=False).run(stopping, Event())
    assert turns == [Step.COMMITTED, ReplayStep.PUBLISH] * 4
    assert [each.written for each in line.replays.told] == [2, 3, 5, len(refused)]  # of two partitions
    assert line.replays.told[-1].state is ReplayState.DONE
    require_exactly_once(line, refused)


@pytest.mark.full
def test_what_fails_again_stays_refused_and_is_not_written_again(line: Line) -> None:
    """With its reason, and with another one; and it can be replayed later."""
    line.produce(row(0, 999), row(1, 998), row(2), row(3, 999, day="no day"))
    line.contracts.plan = line.plan(rules=[{**KNOWN, "values": [998, 999]}])
    line.enforce()
    before = line.quarantined()
    request(line, fix=MENDED, allowed=1.0)
    line.enforce()
    told = line.replays.told[-1]
    assert (told.written, told.refused, told.left) == (1, 2, 0)
    assert {(rule.code, rule.records) for rule in told.reasons} == {
        ("amount-is-known", 1),
        ("format", 1),
    }
    assert line.quarantined() == before
    places = {source: place for place, source in refusals(line).items()}
    assert failed_by(line) == {"amount-is-known": {places[1, 0]}, "format": {places[1, 1]}}
    first = (0, 0)
    require_exactly_once(line, {first})

    line.contracts.plan = line.plan(version="1.1.0", rules=[])
    request(line, [places[1, 0]])
    line.enforce()
    require_exactly_once(line, {first, (1, 0)})


def test_a_record_is_judged_by_the_moment_of_its_first_verdict(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay comes months later: a rule about the time of the batch does not refuse the record then."""
    fresh = {"id": "fresh", "kind": "freshness", "field": "/day", "max_age": "2 days", "now": "batch"}
    line.contracts.plan = line.plan(rules=[KNOWN, fresh])
    new_year = 1_767_225_600 * 10**9
    with monkeypatch.context() as patched:
        clock = SimpleNamespace(**{**vars(time), "time_ns": lambda: new_year})
        patched.setattr("tidegate.spark_jobs.job.stream.time", clock)
        line.produce(row(0, 999, day="2026-01-01"), row(1, 999, day="2025-12-01"), row(2, day="2026-01-01"))
        line.enforce()
    assert {*refusals(line).values()} == {(0, 0), (1, 0)}
    request(line, fix=MENDED, allowed=1.0)
    line.enforce()
    told = line.replays.told[-1]
    assert (told.state, told.written, told.refused) == (ReplayState.DONE, 1, 1)
    assert [(rule.code, rule.records) for rule in told.reasons] == [("fresh", 1)]
    require_exactly_once(line, {(0, 0)})


@pytest.mark.full
@pytest.mark.parametrize("action", ["replay", *full("to-source")])
def test_why_records_failed_again_is_told_by_the_next_attempt_too(line: Line, action: str) -> None:
    """The one that judged them ended after its commit, and before its report."""
    line.produce(row(0, 999), row(1, 998), row(3, 999, day="no day"))
    line.contracts.plan = line.plan(rules=[{**KNOWN, "values": [998, 999]}])
    line.enforce()
    request(line, fix=MENDED, allowed=1.0, action=action)
    with pytest.raises(PowerCutError):
        line.enforce(cut_after(ReplayStep.PUBLISH))
    assert failed_by(line) == {}
    places = {source: place for place, source in refusals(line).items()}
    line.enforce()
    assert line.replays.told[-1].state is ReplayState.DONE
    assert failed_by(line) == {"amount-is-known": {places[1, 0]}, "format": {places[1, 1]}}


@pytest.mark.full
@pytest.mark.parametrize(
    "refusing",
    [
        {"error_budget": {"ratio": 0.5, "action": "quarantine"}},
        pytest.param({"expectations": [FEW_ROWS]}, marks=pytest.mark.full),
    ],
    ids=["budget", "expectation"],
)
def test_records_of_a_refused_batch_are_replayed_only_when_the_request_says_so(
    line: Line, refusing: dict[str, Any]
) -> None:
    line.contracts.plan = line.plan(**refusing)
    line.produce(*(row(number, 999) for number in range(3)), row(3), row(4))
    line.enforce()
    assert not line.rows()
    request(line)
    line.enforce()
    told = line.replays.told[-1]
    assert (told.written, told.refused, told.left) == (0, 3, 2)
    assert told.untouched == {Untouched.BATCH: 2}
    request(line, accept_batches=True)
    line.enforce()
    assert (line.replays.told[-1].written, line.replays.told[-1].refused) == (2, 3)
    require_exactly_once(line, {(1, 1), (0, 2)})


@pytest.mark.full
def test_a_replay_that_fails_too_often_stops_before_its_chunk_is_written(line: Line) -> None:
    line.produce(
        *(row(n, 999, day="no day") for n in range(0, 90, 2)), *(row(n, 999) for n in range(90, 400, 2))
    )
    line.enforce()
    refused = {*refusals(line).values()}
    assert len(refused) == 200
    request(line, fix=MENDED)
    line.enforce()
    told = line.replays.told[-1]
    assert (told.state, told.written) == (ReplayState.STOPPED, 0)
    assert "45 of 200 replayed records fail again, 20.0% allowed" in str(told.message)
    require_exactly_once(line)
    request(line, fix=MENDED, allowed=0.3)
    line.enforce()
    assert (line.replays.told[-1].state, line.replays.told[-1].written) == (ReplayState.DONE, 155)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"digest": "0" * 64}, "do not have the digest"),
        pytest.param({"topic_id": "another"}, "was created again", marks=pytest.mark.full),
        pytest.param(
            {"fix": MENDED, "fingerprint": "0" * 64}, "does not have the fingerprint", marks=pytest.mark.full
        ),
    ],
)
def test_a_request_that_is_not_what_was_approved_is_stopped_and_the_stream_continues(
    line: Line, changes: dict[str, Any], message: str
) -> None:
    fill(line)
    asked = request(line, **{name: value for name, value in changes.items() if name == "fix"})
    line.replays.open = [asked.model_copy(update={k: v for k, v in changes.items() if k != "fix"})]
    line.produce(row(100))
    line.enforce()
    told = line.replays.told[-1]
    assert told.state is ReplayState.STOPPED
    assert message in str(told.message)
    require_exactly_once(line)


@pytest.mark.parametrize("sink", full("kafka", "kafka-tasks"))
def test_records_with_keys_are_not_appended_behind_newer_ones(
    line: Line,
    sink: str,  # noqa: ARG001 - `line` takes it
    registry: Registry,
    publish: Publish,
) -> None:
    """Unless the request says so: other tests of this file do, and find the header `tidegate.replay`."""
    publish(line.document())
    refused = fill(line)
    line.produce(row(0), Sent(row(1, 999).value, None, 1))
    line.enforce()
    with pytest.raises(ConflictError, match="--append-late"):
        previewed(line, registry.url)
    for allowed in ({"append_late": True}, {"action": ReplayAction.TO_SOURCE}):
        shown = previewed(line, registry.url, **allowed)
        assert (shown.passing, shown.present) == (len(refused) + 1, None)
    request(line, fix=MENDED, append_late=False)
    line.enforce()
    assert line.replays.told[-1].state is ReplayState.STOPPED
    assert "--append-late" in str(line.replays.told[-1].message)
    require_exactly_once(line)
    (keyless,) = [place for place, source in refusals(line).items() if source == (1, RECORDS // 2)]
    request(line, [keyless], fix=MENDED, append_late=False)
    line.enforce()
    require_exactly_once(line, {(1, RECORDS // 2)})


@pytest.mark.full
def test_a_rewind_takes_replayed_records_back(
    line: Line, registry: Registry, publish: Callable[[dict[str, object]], None]
) -> None:
    """Those from the point on are judged again, and refused again; those below it stay replayed."""
    publish(line.document())
    fill(line, 20)
    request(line, fix=MENDED)
    line.enforce()
    assert line.ledger().replayed == 4
    settings = line.settings.model_copy(update={"registry_url": registry.url})
    with Rewinder.opened(settings, line.contract_id) as found:
        found.rewind(RewindTo.parse("0:5,1:5"), lambda _: None)
    assert line.ledger().replayed == 2
    line.enforce()
    found_again = line.reconcile()
    assert found_again.holds, found_again
    assert (line.ledger().totals.written, line.ledger().totals.quarantined) == (18, 2)
    request(line, fix=MENDED)
    line.enforce()
    told = line.replays.told[-1]
    assert (told.written, told.untouched) == (2, {Untouched.REPLAYED: 2, Untouched.OVERRULED: 2})
    assert line.reconcile().holds
    assert len(line.rows()) == 20


@pytest.mark.full
@pytest.mark.parametrize("sink", ["iceberg", "kafka"])
def test_a_lost_ledger_is_rebuilt_with_what_was_replayed(
    line: Line,
    sink: str,  # noqa: ARG001 - `line` takes it
    registry: Registry,
    publish: Publish,
) -> None:
    publish(line.document())
    refused = fill(line)
    request(line, fix=MENDED)
    line.enforce()
    before = line.ledger()
    lose_ledger(line)
    settings = line.settings.model_copy(update={"registry_url": registry.url})
    with Adopter.opened(settings, line.contract_id) as found:
        found.rebuild(None, lambda _: None)
    assert line.ledger().totals == before.totals
    assert line.ledger().replayed == len(refused)
    line.enforce()
    require_exactly_once(line, refused)


@pytest.mark.full
def test_a_person_is_erased_also_from_a_row_that_a_fix_has_changed(
    line: Line, registry: Registry, publish: Publish
) -> None:
    publish(line.document())
    refused = fill(line)
    hidden = {"action": "set", "field": "/id", "value": "x", "when": {"field": "/id", "equals": "r5"}}
    request(line, fix={"fix": "hide", "steps": [*MENDED["steps"], hidden]})
    line.enforce()
    (theirs,) = [each["_source"] for each in line.rows() if each["id"] == "x"]
    settings = line.settings.model_copy(update={"registry_url": registry.url})
    with Eraser.opened(settings, line.contract_id) as found:
        found.erase(Subject("r5", "id"), lambda _: None)
    assert "x" not in {each["id"] for each in line.rows()}
    assert len(refusals(line)) == len(refused) - 1
    totals = line.ledger().totals
    assert (totals.written, totals.quarantined, totals.dropped) == (RECORDS - 1, 0, 1)
    assert line.reconcile().holds
    request(line, fix=MENDED)  # what was rewritten of the others is still replayed
    line.enforce()
    assert line.replays.told[-1].untouched == {Untouched.REPLAYED: len(refused) - 1}
    assert (theirs["partition"], theirs["offset"]) in refused


@pytest.mark.full
def test_positions_that_are_gone_are_never_guessed(line: Line) -> None:
    """Without them a record could be written twice, and a reconciliation cannot tell."""
    refused = fill(line)
    request(line, fix=MENDED)
    line.enforce()
    topics = Topics(line.settings.kafka)
    topics.delete_before(replayed_topic(line.topic), topics.latest(replayed_topic(line.topic)))
    found = line.reconcile()
    assert found.answer is ReconciliationAnswer.UNPROVEN
    assert found.unverifiable == len(refused)
    request(line, fix=MENDED)
    line.enforce()
    assert "Restore the topic" in str(line.replays.told[-1].message)
    assert account(line, replayed=refused) == CLEAN
