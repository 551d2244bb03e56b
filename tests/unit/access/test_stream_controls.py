"""Who may pause a stream, let it go on, and tell of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

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
