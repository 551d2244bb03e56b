"""Pausing streams, letting them go on, and what their jobs tell."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from tidegate.contracts.errors import ConflictError, NotFoundError
from tidegate.contracts.stream.control import (
    MOST_SET_ASIDE,
    EventKind,
    RecordPosition,
    StreamControl,
    StreamEvent,
    Trip,
)
from tidegate.gateway.factory import Factory
from tidegate.gateway.storage import stream_control as storage
from tidegate.gateway.storage.audit_chain import AuditEntry
from tidegate.gateway.streams.controls import StreamControls

MakeContract = Callable[..., bytes]
NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
STREAM = "hospital.admissions"
PATH = f"/api/v1/streams/{STREAM}"


def trip_of(**changes: object) -> Trip:
    fields: dict[str, object] = {
        "id": uuid4(),
        "stream": STREAM,
        "topic": STREAM,
        "contract": f"{STREAM}@1.2.0",
        "epoch": 1,
        "at": NOON,
        "start": {0: 0},
        "end": {0: 1000},
        "records": 1000,
        "refused": 300,
        "allowed": 0.2,
        "action": "pause",
    }
    return Trip.model_validate({**fields, **changes})


def event_of(kind: str = "stopped", **changes: object) -> StreamEvent:
    return StreamEvent.model_validate({"id": uuid4(), "stream": STREAM, "kind": kind, "at": NOON, **changes})


@pytest.fixture(autouse=True)
def contract(factory: Factory, make_contract: MakeContract) -> None:
    factory.registry().publish(make_contract(), "contract.json")


@pytest.fixture
def told() -> list[StreamEvent | Trip]:
    return []


@pytest.fixture
def controls(factory: Factory, told: list[StreamEvent | Trip]) -> StreamControls:
    return StreamControls(factory.database, lambda: NOON, told.append)


def actions(factory: Factory) -> list[str]:
    entries: list[AuditEntry] = factory.audit().read(list)
    assert factory.audit().check().is_intact
    return [entry.action for entry in entries if entry.action.startswith("stream.")]


def test_an_untouched_stream_runs(controls: StreamControls) -> None:
    assert controls.control(STREAM) == StreamControl(stream=STREAM)


def test_each_change_is_in_the_log_once_and_what_changes_nothing_is_not(
    factory: Factory, controls: StreamControls
) -> None:
    controls.resume(STREAM, accept_batch=False)
    paused = controls.pause(STREAM, "why")
    assert (paused.state, paused.reason, paused.by, paused.at) == ("paused", "why", "anonymous", NOON)
    assert controls.pause(STREAM, "another reason") == paused
    assert controls.control(STREAM) == paused
    running = controls.resume(STREAM, accept_batch=False)
    assert (running.state, running.reason, running.revision) == ("running", None, 2)
    assert controls.resume(STREAM, accept_batch=False) == running
    assert actions(factory) == ["stream.paused", "stream.resumed"]


def test_a_trip_told_again_changes_nothing_also_after_a_resume(
    factory: Factory, controls: StreamControls, told: list[StreamEvent | Trip]
) -> None:
    trip = trip_of()
    paused = controls.trip(STREAM, trip)
    assert (paused.state, paused.trip) == ("paused", trip)
    assert controls.trip(STREAM, trip) == paused
    running = controls.resume(STREAM, accept_batch=False)
    assert controls.trip(STREAM, trip) == running
    again = controls.trip(STREAM, trip_of())
    assert again.is_paused
    assert actions(factory) == ["stream.tripped", "stream.resumed", "stream.tripped"]
    assert [type(each) for each in told] == [Trip, Trip]


def test_the_batch_that_tripped_can_be_accepted_while_paused_or_after_the_end(
    factory: Factory, controls: StreamControls
) -> None:
    trip = trip_of(action="fail")
    noted = controls.trip(STREAM, trip)
    assert (noted.state, noted.trip) == ("running", trip)
    accepting = controls.resume(STREAM, accept_batch=True)
    assert (accepting.state, accepting.accepted) == ("running", trip.range)
    assert controls.resume(STREAM, accept_batch=True) == accepting
    assert actions(factory) == ["stream.tripped", "stream.resumed-accepting-batch"]


def test_nothing_tripped_so_nothing_is_accepted(controls: StreamControls) -> None:
    controls.pause(STREAM, None)
    with pytest.raises(ConflictError, match=r"no batch of hospital\.admissions has spent its error budget"):
        controls.resume(STREAM, accept_batch=True)
    assert controls.control(STREAM).is_paused


def test_a_record_that_is_set_aside_is_named_in_the_log_once(
    factory: Factory, controls: StreamControls
) -> None:
    first = controls.set_aside(STREAM, RecordPosition(partition=1, offset=9))
    assert controls.set_aside(STREAM, RecordPosition(partition=1, offset=9)) == first
    assert first.set_aside_within({1: 9}, {1: 10}) == {(1, 9)}
    assert first.set_aside_within({1: 10}, {1: 20}) == first.set_aside_within({0: 0}, {0: 99}) == frozenset()
    entries: list[AuditEntry] = factory.audit().read(list)
    told = [(each.action, each.subject) for each in entries if each.action.startswith("stream.")]
    assert told == [("stream.record-set-aside", f"record {STREAM}/1/9")]


def test_of_many_records_set_aside_the_oldest_are_left_out(controls: StreamControls) -> None:
    for offset in range(MOST_SET_ASIDE + 1):
        controls.set_aside(STREAM, RecordPosition(partition=0, offset=offset))
    kept = controls.control(STREAM).set_aside
    assert [each.offset for each in kept] == list(range(1, MOST_SET_ASIDE + 1))


def test_a_stream_without_a_contract_is_none(controls: StreamControls) -> None:
    for ask in (
        lambda: controls.control("x"),
        lambda: controls.pause("x", None),
        lambda: controls.resume("x", accept_batch=False),
        lambda: controls.trip("x", trip_of(stream="x")),
        lambda: controls.record_event("x", event_of(stream="x")),
    ):
        with pytest.raises(NotFoundError, match=r"^no contract is published under the id x$"):
            ask()
    with pytest.raises(ConflictError, match=r"post it there, not to x$"):
        controls.record_event("x", event_of())


def test_the_last_event_of_each_stream_is_found_and_told_once(
    factory: Factory, controls: StreamControls, told: list[StreamEvent | Trip]
) -> None:
    events = [event_of(kind) for kind in ("started", "stopped", "started", "failed")]
    assert [controls.record_event(STREAM, event) for event in [*events, events[0]]] == [True] * 4 + [False]
    controls.trip(STREAM, trip_of())
    assert told[:4] == events
    last = factory.database.read(lambda stores: stores.controls.last_events())
    assert last == {STREAM: events[-1]}
    assert factory.database.read(lambda stores: stores.controls.last_events(["other"])) == {}


def test_old_events_give_way(
    factory: Factory, controls: StreamControls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage.ControlStore, "_kept", 3)
    events = [event_of("started") for _ in range(6)]
    for event in events:
        controls.record_event(STREAM, event)
    known = factory.database.read(lambda stores: [stores.controls.is_known(event.id) for event in events])
    assert known == [False, False, False, True, True, True]


def test_the_job_asks_conditionally(client: Any) -> None:
    first = client.get(f"{PATH}/control")
    assert StreamControl.model_validate_json(first.content) == StreamControl(stream=STREAM)
    held = {"If-None-Match": first.headers["ETag"]}
    assert client.get(f"{PATH}/control", headers=held).status_code == 304
    assert client.post(f"{PATH}/pause", b'{"reason": "why"}').json()["reason"] == "why"
    changed = client.get(f"{PATH}/control", headers=held)
    assert (changed.status_code, changed.json()["state"]) == (200, "paused")


def test_a_trip_over_http_pauses_and_an_accepting_resume_lets_it_go_on(client: Any) -> None:
    trip = trip_of()
    posted = client.post(f"{PATH}/trips", trip.model_dump_json())
    assert (posted.status_code, posted.json()["state"]) == (200, "paused")
    accepted = client.post(f"{PATH}/resume", b'{"accept_batch": true}').json()
    assert (accepted["state"], accepted["accepted"]) == ("running", {"start": {"0": 0}, "end": {"0": 1000}})


def test_an_event_over_http_is_kept_once(client: Any) -> None:
    event = event_of(EventKind.FAILED, message="gave up").model_dump_json()
    assert [client.post(f"{PATH}/events", event).status_code for _ in range(2)] == [201, 200]


@pytest.mark.parametrize(
    ("path", "body", "place"),
    [
        ("pause", b'{"reason": ""}', "reason"),
        ("resume", b'{"accept": true}', "accept"),
        ("trips", b"{}", "id"),
        ("events", b'{"kind": "paused"}', "kind"),
    ],
)
def test_a_body_that_says_something_else_is_refused_with_its_place(
    client: Any, path: str, body: bytes, place: str
) -> None:
    refused = client.post(f"{PATH}/{path}", body)
    assert refused.status_code == 422
    assert any(error["pointer"].endswith(place) for error in refused.json()["errors"])
