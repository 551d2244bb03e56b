"""Replays that people ask for: kept with their positions, approved by another person, told to the job, and reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.unit.gateway.quarantine_records import Process, refused
from tidegate.contracts.errors import ConflictError, ContractError, NotFoundError
from tidegate.contracts.fix.load import parse_fix
from tidegate.contracts.stream.closure import Closure
from tidegate.contracts.stream.control import Heartbeat
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import (
    MOST_RECORDS,
    MOST_REQUEST_BYTES,
    MOST_REQUEST_RUNS,
    ReplayOrder,
    ReplayReport,
    ReplayRequest,
    ReplayState,
    StreamReplay,
    digest_of_refusals,
    runs_of,
)
from tidegate.gateway.access.principal import Forbidden, Principal, read_grants
from tidegate.gateway.factory import Factory
from tidegate.gateway.storage.audit_chain import AuditEntry
from tidegate.gateway.storage.stream_control import CANCELLED_WITH_POSITIONS, REPLAYS_KEPT
from tidegate.gateway.streams.problem_states import ProblemState
from tidegate.gateway.streams.problems import ProblemQuery
from tidegate.gateway.streams.replays import MOST_WAITING, StreamReplays

STREAM = "hospital.admissions"
TOPIC = "hospital.admissions.quarantine"
PATH = f"/api/v1/streams/{STREAM}/replays"
FIX = '{"fix":"age","steps":[{"action":"map","field":"/age","values":[{"from":999,"to":null}]}]}'
ANN, BEN = (Principal(name, read_grants(["approver"])) for name in ("key:ann", "key:ben"))
JOB = Principal("key:job", read_grants(["reporter"]))
PLACES = Positions([(0, 17), (0, 18), (1, 4)])


@pytest.fixture(autouse=True)
def published(factory: Factory, make_contract: Callable[..., bytes]) -> None:
    factory.registry().publish(make_contract(), "contract.json")


@pytest.fixture
def replays(factory: Factory) -> StreamReplays:
    return factory.replays()


def order(**changes: Any) -> ReplayOrder:
    fix = parse_fix(FIX, name="fix.json")
    return ReplayOrder.model_validate(
        {
            "topic": TOPIC,
            "topic_id": "id",
            "positions": runs_of(PLACES),
            "records": len(PLACES),
            "digest": digest_of_refusals(TOPIC, PLACES),
            "fix": fix.text,
            "fingerprint": fix.fingerprint,
            **changes,
        }
    )


PLAIN: dict[str, Any] = {"fix": None, "fingerprint": None}


def report(replay: StreamReplay, state: ReplayState = ReplayState.OPEN, **counts: int) -> ReplayReport:
    return ReplayReport.model_validate(
        {
            "request": replay.id,
            "stream": STREAM,
            "at": "2026-07-01T12:00:00Z",
            "state": state,
            "records": replay.records,
            "written": 0,
            "refused": 0,
            "left": 0,
            **counts,
        }
    )


def actions(factory: Factory, prefix: str = "stream.replay") -> list[str]:
    entries: list[AuditEntry] = factory.audit().read(list)
    assert factory.audit().check().is_intact
    return [entry.action for entry in entries if entry.action.startswith(prefix)]


def test_a_replay_with_a_fix_waits_for_another_person(factory: Factory, replays: StreamReplays) -> None:
    asked = replays.ask(STREAM, order(), ANN)
    assert (asked.state, asked.by) == (ReplayState.PROPOSED, "key:ann")
    assert factory.stream_controls().beat(STREAM, by=JOB).replay is None
    with pytest.raises(NotFoundError, match="is open"):
        replays.request(STREAM, asked.id, JOB)
    with pytest.raises(ConflictError, match="waits for its approval"):
        replays.progress(STREAM, report(asked), JOB)
    with pytest.raises(Forbidden, match="another person with the role approver"):
        replays.approve(STREAM, asked.id, ANN)
    approved = replays.approve(STREAM, asked.id, BEN)
    assert (approved.state, approved.approved_by) == (ReplayState.OPEN, "key:ben")
    assert replays.approve(STREAM, asked.id, ANN) == approved
    assert factory.stream_controls().beat(STREAM, by=JOB).replay == asked.id
    found = replays.request(STREAM, asked.id, JOB)
    assert (found.id, found.refusals(), found.fix) == (asked.id, PLACES, order().fix)
    assert actions(factory) == ["stream.replay-asked", "stream.replay-approved"]


def test_a_replay_without_a_fix_is_open_at_once(factory: Factory, replays: StreamReplays) -> None:
    first, second = (replays.ask(STREAM, order(**PLAIN), ANN) for _ in range(2))
    assert first.state is ReplayState.OPEN
    assert factory.stream_controls().beat(STREAM, by=JOB).replay == first.id
    done = replays.progress(STREAM, report(first, ReplayState.DONE, written=2, refused=1), JOB)
    assert (done.state, done.report and done.report.written) == (ReplayState.DONE, 2)
    assert replays.progress(STREAM, report(first, ReplayState.DONE, written=2, refused=1), JOB) == done
    assert factory.stream_controls().beat(STREAM, by=JOB).replay == second.id
    with pytest.raises(NotFoundError):
        replays.request(STREAM, first.id, JOB)
    assert [each.id for each in replays.all(STREAM)] == [second.id, first.id]
    assert actions(factory) == ["stream.replay-asked", "stream.replay-asked", "stream.replay-done"]
    entries: list[AuditEntry] = factory.audit().read(list)
    assert len({each.subject for each in entries if each.action.startswith("stream.replay-")}) == 1


def test_a_job_is_told_of_the_requests_for_its_own_ledger(factory: Factory, replays: StreamReplays) -> None:
    """Two jobs of one contract have a ledger each; a job of an earlier release names none, and is told of the oldest."""
    table, topic = (f"{STREAM}@{kind}" for kind in ("iceberg:1", "kafka"))
    first, second = (replays.ask(STREAM, order(**PLAIN, ledger=each), ANN) for each in (table, topic))
    assert (first.ledger, second.ledger) == (table, topic)

    def told(ledger: str | None) -> UUID | None:
        return factory.stream_controls().beat(STREAM, Heartbeat(ledger=ledger), JOB).replay

    assert [told(each) for each in (table, topic, None)] == [first.id, second.id, first.id]
    assert told("another") is None
    for_any = replays.ask(STREAM, order(**PLAIN), ANN)
    assert [told(each) for each in ("another", topic)] == [for_any.id, second.id]
    assert replays.request(STREAM, second.id, JOB).ledger == topic


def test_the_audit_log_tells_what_is_sent_to_the_source_from_a_replay(
    factory: Factory, replays: StreamReplays
) -> None:
    asked = replays.ask(STREAM, order(**PLAIN, action="to-source"), ANN)
    replays.approve(STREAM, asked.id, BEN)
    replays.progress(STREAM, report(asked, ReplayState.DONE, written=3), JOB)
    ended = ["stream.to-source-asked", "stream.to-source-approved", "stream.to-source-done"]
    assert actions(factory, "stream.to-source") == ended
    assert actions(factory) == []


def test_a_cancelled_replay_stays_cancelled(factory: Factory, replays: StreamReplays) -> None:
    asked = replays.ask(STREAM, order(**PLAIN), ANN)
    replays.cancel(STREAM, asked.id, BEN)
    late = replays.progress(STREAM, report(asked, written=1), JOB)
    assert (late.state, late.report and late.report.written) == (ReplayState.CANCELLED, 1)
    with pytest.raises(ConflictError, match="has ended: it is cancelled"):
        replays.cancel(STREAM, asked.id, ANN)
    with pytest.raises(ConflictError, match="has ended"):
        replays.approve(STREAM, asked.id, BEN)
    assert factory.stream_controls().beat(STREAM, by=JOB).replay is None
    assert actions(factory) == ["stream.replay-asked", "stream.replay-cancelled"]


def test_a_replay_that_the_job_stopped_is_audited_and_the_next_one_begins(
    factory: Factory, replays: StreamReplays
) -> None:
    first, second = (replays.ask(STREAM, order(**PLAIN), ANN) for _ in range(2))
    stopped = replays.progress(STREAM, report(first, ReplayState.STOPPED, refused=3), JOB)
    assert (stopped.state, stopped.is_ended) == (ReplayState.STOPPED, True)
    assert factory.stream_controls().beat(STREAM, by=JOB).replay == second.id
    assert actions(factory) == ["stream.replay-asked", "stream.replay-asked", "stream.replay-stopped"]


def test_a_fix_stays_with_its_request_after_it_ended_and_the_contract_changed(
    factory: Factory, replays: StreamReplays, make_contract: Callable[..., bytes]
) -> None:
    asked = replays.ask(STREAM, order(), ANN)
    replays.approve(STREAM, asked.id, BEN)
    replays.progress(STREAM, report(asked, ReplayState.DONE, written=3), JOB)
    factory.registry().publish(make_contract(version="1.2.1"), "contract.json")
    kept = replays.find(STREAM, asked.id, BEN)
    assert (kept.fix, kept.fingerprint) == (order().fix, order().fingerprint)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"topic": "other.quarantine"}, "do not have the digest"),
        ({"digest": "0" * 64}, "do not have the digest"),
        ({"fingerprint": "0" * 64}, "does not have the fingerprint"),
        (
            {"topic": "other.quarantine", "digest": digest_of_refusals("other.quarantine", PLACES)},
            "are in hospital.admissions.quarantine, not in other.quarantine",
        ),
    ],
)
def test_what_is_not_what_it_says_is_not_kept(
    replays: StreamReplays, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConflictError, match=message):
        replays.ask(STREAM, order(**changes), ANN)
    assert not replays.all(STREAM)


def test_a_fix_with_mistakes_is_not_kept(replays: StreamReplays) -> None:
    with pytest.raises(ContractError, match="unknown action"):
        replays.ask(STREAM, order(fix=FIX.replace("map", "eval")), ANN)


def test_the_answer_to_a_fix_with_mistakes_speaks_of_the_fix(client: Any) -> None:
    answer = client.post(PATH, order(fix=FIX.replace("map", "eval")).model_dump_json())
    assert (answer.status_code, answer.json()["detail"]) == (422, "the fix cannot be used")
    (mistake,) = answer.json()["errors"]
    assert "unknown action" in mistake["message"]


def test_few_replays_wait_at_a_time(replays: StreamReplays) -> None:
    for _ in range(MOST_WAITING):
        asked = replays.ask(STREAM, order(**PLAIN), ANN)
    with pytest.raises(ConflictError, match="10 replays of hospital"):
        replays.ask(STREAM, order(**PLAIN), ANN)
    replays.cancel(STREAM, asked.id, ANN)
    assert replays.ask(STREAM, order(**PLAIN), ANN).state is ReplayState.OPEN


def test_a_job_reports_only_what_a_job_knows(replays: StreamReplays) -> None:
    asked = replays.ask(STREAM, order(**PLAIN), ANN)
    with pytest.raises(ConflictError, match="a job does not report that a replay is cancelled"):
        replays.progress(STREAM, report(asked, ReplayState.CANCELLED), JOB)
    with pytest.raises(NotFoundError):
        replays.progress(STREAM, report(asked).model_copy(update={"request": uuid4()}), JOB)
    with pytest.raises(NotFoundError):
        replays.ask("nothing.here", order(**PLAIN), ANN)


def test_over_http(client: Any) -> None:
    body = order().model_dump(mode="json")
    asked = client.post(PATH, json.dumps(body))
    assert asked.status_code == 201
    assert asked.json()["state"] == "open"  # without access control there is no other person
    assert "positions" not in asked.json()
    one = f"{PATH}/{UUID(asked.json()['id'])}"
    assert client.get(f"{one}/request").json()["positions"] == {"0": [[17, 18]], "1": [[4, 4]]}
    told = report(StreamReplay.model_validate(asked.json()), ReplayState.DONE, written=3).model_dump_json()
    assert client.post(f"{one}/progress", told).json()["state"] == "done"
    assert client.post(f"{PATH}/{uuid4()}/progress", told).status_code == 409
    assert client.get(one).json()["report"]["written"] == 3
    assert len(client.get(PATH).json()["replays"]) == 1
    assert client.request("DELETE", one).status_code == 409
    assert client.post(f"{one}/approval", b"").status_code == 409
    assert client.post(PATH, json.dumps({**body, "digest": "0" * 64})).status_code == 409
    assert client.post(PATH, json.dumps({**body, "records": 0})).status_code == 422


def test_what_a_report_says_of_records_that_failed_again_is_found_over_http(
    client: Any, factory: Factory, replays: StreamReplays
) -> None:
    Process(factory, "one", stream=STREAM).ingest(
        [refused(offset, contract=STREAM, topic=STREAM) for offset in (17, 18, 19)]
    )
    asked = replays.ask(STREAM, order(**PLAIN), ANN)
    again = {"ward-is-open": {0: ((17, 18),)}}
    told = report(asked, refused=2).model_copy(update={"again": again})
    answer = client.post(f"{PATH}/{asked.id}/progress", told.model_dump_json())
    assert answer.json()["report"]["again"] == {}  # kept once, and not with each replay
    index = f"/api/v1/streams/{STREAM}/quarantine"
    found = client.get(f"{index}/positions?again=ward-is-open&rule=age-is-known").json()
    assert found["partitions"] == {"0": [[17, 18]]}
    (group,) = client.get(f"{index}/breakdown?by=again").json()["groups"]
    assert (group["value"], group["records"]) == ("ward-is-open", 2)
    closed = {Closure.REPLAYED: {0: ((17, 17),)}}
    replays.progress(STREAM, report(asked).model_copy(update={"closures": closed}), JOB)
    (problem,) = factory.problems().list(STREAM, ProblemQuery()).problems
    (group,) = client.get(f"/api/v1/streams/{STREAM}/problems/{problem.id}").json()["by_again"]
    assert (group["value"], group["records"]) == ("ward-is-open", 1)


def scattered(runs: int) -> dict[str, Any]:
    places = Positions([(0, 2 * each) for each in range(runs)])
    positions = {0: [(each, each) for each in range(0, 2 * runs, 2)]}
    return {"positions": positions, "records": runs, "digest": digest_of_refusals(TOPIC, places)}


def test_a_request_of_scattered_records_is_posted(client: Any) -> None:
    runs = 200_000
    asked = client.post(PATH, order(**PLAIN, **scattered(runs)).model_dump_json())
    assert asked.status_code == 201, asked.text[:500]
    found = client.get(f"{PATH}/{asked.json()['id']}/request").json()
    assert (found["records"], len(found["positions"]["0"])) == (runs, runs)


def test_a_request_of_more_runs_says_what_to_do(client: Any) -> None:
    asked = client.post(PATH, order(**PLAIN, **scattered(MOST_REQUEST_RUNS + 1)).model_dump_json())
    assert asked.status_code == 409
    assert "are in 250,001 runs of neighbouring positions" in asked.json()["detail"]
    assert "--where partition=0" in asked.json()["detail"]
    assert client.post(PATH, b" " * (MOST_REQUEST_BYTES + 1)).status_code == 413
    assert client.get(PATH).json()["replays"] == []


def test_a_report_of_many_closed_records_is_taken(client: Any, replays: StreamReplays) -> None:
    """A job that could not report tells all of them at once."""
    asked = replays.ask(STREAM, order(**PLAIN, **scattered(100_000)), ANN)
    places = {Closure.REPLAYED: {0: tuple((each, each) for each in range(0, 200_000, 2))}}
    told = report(asked).model_copy(update={"closures": places}).model_dump_json()
    assert len(told) > 2**20
    assert client.post(f"{PATH}/{asked.id}/progress", told).status_code == 200


def test_records_far_apart_are_requested_and_reported(
    client: Any, factory: Factory, replays: StreamReplays
) -> None:
    Process(factory, "one", stream=STREAM).ingest([refused(0, contract=STREAM, topic=STREAM)])
    last = 2**63 - 1
    places = Positions([(0, 0), (0, 2**62), (0, last)])
    changes = {"positions": runs_of(places), "records": 3, "digest": digest_of_refusals(TOPIC, places)}
    body = order(**PLAIN, **changes).model_dump_json()
    asked = client.post(PATH, body)
    assert asked.status_code == 201, asked.text
    assert len(asked.json()["problems"]) == 1
    told = report(StreamReplay.model_validate(asked.json()), written=3).model_dump(mode="json")
    told["closures"] = {"replayed": {"0": [[0, 0], [2**62, 2**62], [last, last]]}}
    told["again"] = {"ward-is-open": {"0": [[0, 0], [last, last]]}}
    assert client.post(f"{PATH}/{asked.json()['id']}/progress", json.dumps(told)).status_code == 200
    kept = factory.database.read(lambda stores: stores.closures.all(STREAM))
    assert [each.chunk for each in kept] == [0, 2**46, 2**47 - 1]
    assert replays.all(STREAM)[0].state is ReplayState.OPEN
    assert client.post(PATH, body.replace(str(last), str(last + 1))).status_code == 422


@pytest.mark.parametrize("field", ["closures", "again"])
def test_a_report_names_only_records_of_its_request(
    client: Any, factory: Factory, replays: StreamReplays, field: str
) -> None:
    asked = replays.ask(STREAM, order(**PLAIN), ANN)
    name = {"closures": "replayed", "again": "ward-is-open"}[field]
    told = report(asked, written=1).model_dump(mode="json")
    told[field] = {name: {"0": [[16, 19]], "1": [[4, 4]]}}
    answer = client.post(f"{PATH}/{asked.id}/progress", json.dumps(told))
    assert answer.status_code == 409
    assert answer.json()["detail"] == (
        f"this report names 2 records that are not in the request of the replay {asked.id}, such as 0/16 of {TOPIC}: report "
        "only records of the request"
    )
    assert factory.database.read(lambda stores: stores.closures.all(STREAM)) == ()
    assert factory.database.read(lambda stores: stores.reasons.all(STREAM)) == ()
    assert replays.find(STREAM, asked.id).report is None


def test_a_report_names_a_bounded_number_of_records(replays: StreamReplays) -> None:
    asked = replays.ask(STREAM, order(**PLAIN), ANN)
    again = {f"rule-{each}": {0: ((0, MOST_RECORDS - 1),)} for each in range(2000)}
    told = report(asked).model_copy(update={"again": again})
    with pytest.raises(ConflictError, match="20,000,000,000 positions, and a report has 10,000,000 at most"):
        replays.progress(STREAM, told, JOB)


def test_a_chunk_that_was_under_way_when_its_replay_was_cancelled_is_still_told(
    factory: Factory, replays: StreamReplays
) -> None:
    asked = replays.ask(STREAM, order(**PLAIN), ANN)
    replays.cancel(STREAM, asked.id, BEN)
    closed = {Closure.REPLAYED: {0: ((17, 18),)}}
    late = report(asked, written=2).model_copy(update={"closures": closed})
    assert replays.progress(STREAM, late, JOB).state is ReplayState.CANCELLED
    assert len(factory.database.read(lambda stores: stores.closures.all(STREAM))) == 1
    other = {Closure.REPLAYED: {0: ((19, 19),)}}
    with pytest.raises(ConflictError, match="not in the request"):
        replays.progress(STREAM, late.model_copy(update={"closures": other}), JOB)
    with pytest.raises(NotFoundError, match="is open"):
        replays.request(STREAM, asked.id, JOB)


def test_the_positions_of_few_cancelled_replays_are_kept(factory: Factory, replays: StreamReplays) -> None:
    cancelled = [replays.ask(STREAM, order(**PLAIN), ANN) for _ in range(CANCELLED_WITH_POSITIONS)]
    for each in cancelled:
        replays.cancel(STREAM, each.id, ANN)
    done = replays.ask(STREAM, order(**PLAIN), ANN)
    told = report(done, ReplayState.DONE).model_copy(
        update={"closures": {Closure.REPLAYED: {0: ((17, 17),)}}}
    )
    assert replays.progress(STREAM, told, JOB) == replays.progress(STREAM, told, JOB)  # the answer was lost
    last = replays.ask(STREAM, order(**PLAIN), ANN)
    replays.cancel(STREAM, last.id, ANN)

    def kept(replay: StreamReplay) -> bool:
        return factory.database.read(lambda stores: stores.replays.positions(STREAM, replay.id)) is not None

    assert [kept(each) for each in [*cancelled, done, last]] == [
        False,
        *[True] * (CANCELLED_WITH_POSITIONS - 1),
        False,
        True,
    ]


def enforce(factory: Factory, make_contract: Callable[..., bytes], approval: str) -> None:
    document = make_contract(version="1.2.1", replay_approval=approval)
    factory.registry().publish(document, "contract.json")


@pytest.mark.parametrize(
    ("approval", "waiting"),
    [
        ("never", set()),
        ("fixes", {"fix", "to-source"}),
        ("always", {"fix", "to-source", "plain", "discard"}),
    ],
)
def test_the_enforced_contract_says_what_another_person_approves(
    factory: Factory,
    replays: StreamReplays,
    make_contract: Callable[..., bytes],
    approval: str,
    waiting: set[str],
) -> None:
    enforce(factory, make_contract, approval)
    requests: dict[str, dict[str, Any]] = {
        "fix": {},
        "plain": PLAIN,
        "to-source": {**PLAIN, "action": "to-source"},
        "discard": {**PLAIN, "action": "discard", "reason": "the ward was closed"},
    }
    asked = {name: replays.ask(STREAM, order(**changes), ANN) for name, changes in requests.items()}
    assert {name for name, each in asked.items() if each.state is ReplayState.PROPOSED} == waiting
    assert all(each.state is ReplayState.OPEN for each in [replays.ask(STREAM, order())])
    for name in waiting:
        assert replays.approve(STREAM, asked[name].id, BEN).state is ReplayState.OPEN


def test_a_discard_is_audited_and_keeps_its_reason(factory: Factory, replays: StreamReplays) -> None:
    asked = replays.ask(STREAM, order(**PLAIN, action="discard", reason="the ward was closed"), ANN)
    replays.progress(STREAM, report(asked, ReplayState.DONE, closed=3), JOB)
    (kept,) = replays.all(STREAM)
    assert (kept.action, kept.reason, kept.digest) == ("discard", "the ward was closed", asked.digest)
    entries: list[AuditEntry] = factory.audit().read(list)
    assert [each.action for each in entries if "discard" in each.action] == [
        "stream.discard-asked",
        "stream.discard-done",
    ]


def test_a_discard_with_a_blank_reason_is_refused_over_http(client: Any) -> None:
    body = order(**PLAIN, action="discard", reason="x").model_dump(mode="json")
    answer = client.post(PATH, json.dumps({**body, "reason": "   "}))
    assert answer.status_code == 422, answer.text
    assert "it is blank: say why the records are discarded" in json.dumps(answer.json())
    assert client.get(PATH).json()["replays"] == []


def test_a_misspelt_member_of_a_request_is_refused_over_http(client: Any) -> None:
    """It would be a plain replay otherwise."""
    body = order(**PLAIN).model_dump(mode="json", exclude={"action"})
    answer = client.post(PATH, json.dumps({**body, "acton": "to-source"}))
    assert answer.status_code == 422, answer.text
    assert "/acton" in answer.text
    assert client.get(PATH).json()["replays"] == []


def test_a_job_ignores_members_of_a_request_that_it_does_not_know(replays: StreamReplays) -> None:
    asked = replays.request(STREAM, replays.ask(STREAM, order(**PLAIN)).id)
    newer = {**asked.model_dump(mode="json"), "of_a_newer_release": True}
    assert ReplayRequest.model_validate_json(json.dumps(newer)) == asked


def test_closed_places_of_reports_are_kept_apart_and_resolve_problems(
    factory: Factory, replays: StreamReplays
) -> None:
    Process(factory, "one", stream=STREAM).ingest(
        [refused(offset, contract=STREAM, topic=STREAM) for offset in range(3)]
    )
    places = Positions([(0, 0), (0, 1), (0, 2)])
    changes = {"positions": runs_of(places), "digest": digest_of_refusals(TOPIC, places)}
    asked = replays.ask(STREAM, order(**PLAIN, **changes), ANN)
    (problem,) = factory.problems().list(STREAM, ProblemQuery()).problems
    assert asked.problems == (problem.id,)
    assert replays.of_problem(STREAM, [problem.id]) == (asked,)
    assert replays.of_problem(STREAM, ["0" * 32]) == ()
    told = report(asked, written=2).model_copy(update={"closures": {Closure.REPLAYED: {0: ((0, 1),)}}})
    shown = replays.progress(STREAM, told, JOB)
    assert shown.report is not None
    assert not shown.report.closures
    assert factory.problems().get(STREAM, problem.id, ProblemQuery()).left == 1
    told = told.model_copy(update={"closures": {Closure.REPLAYED: {0: ((1, 2),)}}})  # one of them again
    replays.progress(STREAM, told, JOB)
    found = factory.problems().get(STREAM, problem.id, ProblemQuery())
    assert (found.left, found.decision.state, found.closures) == (
        0,
        ProblemState.RESOLVED,
        {Closure.REPLAYED: 3},
    )
    broken = told.model_copy(update={"closures": {Closure.REPLAYED: {0: ((3, 1),)}}})
    with pytest.raises(ConflictError, match="cannot be kept"):
        replays.progress(STREAM, broken, JOB)


def test_a_replay_that_waits_is_kept_however_many_come_after_it(replays: StreamReplays) -> None:
    waiting = replays.ask(STREAM, order(), ANN)
    later = []
    for _ in range(REPLAYS_KEPT + 2):
        later.append(replays.ask(STREAM, order(**PLAIN), ANN))
        replays.cancel(STREAM, later[-1].id, ANN)
    kept = [each.id for each in replays.all(STREAM)]
    assert kept == [*(each.id for each in reversed(later[2:])), waiting.id]
    assert replays.approve(STREAM, waiting.id, BEN).state is ReplayState.OPEN
