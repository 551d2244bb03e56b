"""Who may pause a stream, let it go on, and tell of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tidegate.contracts.fix.load import parse_fix
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import digest_of_refusals, runs_of
from tidegate.gateway.http.native.adoptions import ADOPTION
from tidegate.gateway.http.native.reconciliations import RESULT
from tidegate.gateway.http.native.stream_controls import _EVENT, _TRIP

from .conftest import Hire, Person, same_but_for

MakeContract = Callable[..., bytes]
STREAMS = "/api/v1/streams"
MINE, HIDDEN, UNKNOWN = "hospital.admissions", "nyc.flights", "nyc.nothing"


@pytest.fixture(autouse=True)
def contracts(admin: Person, make_contract: MakeContract) -> None:
    for name in (MINE, HIDDEN):
        document = make_contract(id=name, topic=name)
        assert admin.ask("POST", "/api/v1/contracts", document).status_code == 201


def about(name: str) -> list[tuple[str, str, Any]]:
    return [
        ("GET", f"{STREAMS}/{name}/control", None),
        ("POST", f"{STREAMS}/{name}/trips", _TRIP | {"stream": name}),
        ("POST", f"{STREAMS}/{name}/events", _EVENT | {"stream": name}),
        ("POST", f"{STREAMS}/{name}/pause", {}),
        ("POST", f"{STREAMS}/{name}/resume", {}),
        ("POST", f"{STREAMS}/{name}/quarantine-record", {"partition": 1, "offset": 9}),
        ("GET", f"{STREAMS}/{name}/reconciliations", None),
        ("POST", f"{STREAMS}/{name}/reconciliations", {}),
        ("GET", f"{STREAMS}/{name}/adoptions", None),
        ("POST", f"{STREAMS}/{name}/adoptions", ADOPTION | {"stream": name, "topic": name}),
    ]


def test_each_role_may_what_the_matrix_says(hire: Hire) -> None:
    allowed = {}
    for role in ("viewer", "reporter", "producer", "approver", "admin"):
        person = hire(f"{role}:hospital.")
        statuses = [person.ask(*attempt).status_code for attempt in about(MINE)]
        assert set(statuses) <= {200, 201, 403}
        allowed[role] = [status != 403 for status in statuses]
    assert allowed == {
        "viewer": [True, False, False, False, False, False, True, False, True, False],
        "reporter": [True, True, True, False, False, False, True, False, True, False],
        "producer": [True, True, True, False, False, False, True, False, True, False],
        "approver": [True] * 10,
        "admin": [True] * 10,
    }


def test_the_job_answers_a_request_and_viewers_cannot(hire: Hire) -> None:
    approver, job, viewer = (hire(f"{role}:hospital.") for role in ("approver", "reporter", "viewer"))
    stranger = hire("admin:nyc.")
    asked = approver.ask("POST", f"{STREAMS}/{MINE}/reconciliations", {}).json()["asked"]
    assert asked["by"] == approver.name
    heard = job.ask("POST", f"{STREAMS}/{MINE}/heartbeat", None)
    assert heard.json() == {"reconciliation": asked}
    result = "POST", f"{STREAMS}/{MINE}/reconciliations/{asked['id']}/result", RESULT
    assert [each.ask(*result).status_code for each in (viewer, stranger, job)] == [403, 404, 201]
    page = f"/desk/streams/{MINE}/actions/reconcile"
    assert [each.ask("POST", page, {}).status_code for each in (viewer, stranger, approver)] == [
        403,
        404,
        303,
    ]


def test_a_stream_that_one_may_not_see_answers_like_one_that_does_not_exist(hire: Hire) -> None:
    person = hire("admin:hospital.")
    for hidden, unknown in zip(about(HIDDEN), about(UNKNOWN), strict=True):
        answers = person.ask(*hidden), person.ask(*unknown)
        assert same_but_for(HIDDEN, UNKNOWN, answers[0]) == same_but_for(UNKNOWN, UNKNOWN, answers[1])
        assert answers[0].status_code == 404


def test_who_decided_stands_in_what_holds_and_in_the_log(hire: Hire, admin: Person) -> None:
    approver, producer = hire("approver:hospital."), hire("producer:hospital.")
    assert producer.ask("POST", f"{STREAMS}/{MINE}/trips", _TRIP).json()["by"] == producer.name
    assert (
        approver.ask("POST", f"{STREAMS}/{MINE}/resume", {"accept_batch": True}).json()["by"] == approver.name
    )
    entries = admin.json("/api/v1/audit")["entries"]
    assert [
        (entry["who"], entry["action"]) for entry in entries if entry["action"].startswith("stream.")
    ] == [
        (producer.name, "stream.tripped"),
        (approver.name, "stream.resumed-accepting-batch"),
    ]


def test_values_of_a_fix_are_shown_to_those_who_may_reveal_them(
    hire: Hire, admin: Person, make_contract: MakeContract
) -> None:
    document = make_contract(id=MINE, topic=MINE, version="1.3.0", classification={"/age": "pii"})
    published = admin.ask("POST", "/api/v1/contracts", document)
    assert published.status_code == 201, published.text
    approver, job, viewer = (hire(f"{role}:hospital.") for role in ("approver", "reporter", "viewer"))
    other = hire("approver:hospital.")
    steps = [
        {"action": "set", "field": "/age", "value": "Ada Lovelace"},
        {"action": "map", "field": "/discharge_date", "values": [{"from": "1900-01-01", "to": None}]},
    ]
    fix = parse_fix(json.dumps({"fix": "f", "steps": steps}), name="fix.json")
    places = Positions([(0, 17)])
    order = {
        "topic": f"{MINE}.quarantine",
        "topic_id": "id",
        "positions": json.loads(json.dumps(runs_of(places))),
        "records": 1,
        "digest": digest_of_refusals(f"{MINE}.quarantine", places),
        "fix": fix.text,
        "fingerprint": fix.fingerprint,
    }
    asked = approver.ask("POST", f"{STREAMS}/{MINE}/replays", order)
    assert asked.status_code == 201, asked.text
    one = f"{STREAMS}/{MINE}/replays/{asked.json()['id']}"
    for person, is_shown in ((approver, True), (other, True), (viewer, False)):
        for path in (f"{STREAMS}/{MINE}/replays", one):
            text = person.ask("GET", path, None).text
            assert ("Ada Lovelace" in text) == is_shown
            assert "1900-01-01" in text
    assert other.ask("POST", f"{one}/approval", {}).status_code == 200
    assert "Ada Lovelace" in job.ask("GET", f"{one}/request", None).text
