"""Fixes of replays: who sees the values of classified fields that they name."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest

from tests.unit.gateway.quarantine_records import Process, refused
from tidegate.contracts.fix.load import parse_fix
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import StreamReplay, digest_of_refusals, runs_of
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.models.examples import CONTRACT
from tidegate.gateway.streams.masking import HIDDEN
from tidegate.spark_jobs.adopt.replay_cli import _report

from .conftest import Hire, Person

STREAM = "hospital.admissions"
TOPIC = f"{STREAM}.quarantine"
PATH = f"/api/v1/streams/{STREAM}/replays"
SECRET = "S3CR3T"  # noqa: S105 - it opens nothing
NUMBER = 987_654_321
FIX: dict[str, Any] = {
    "fix": "terminal",
    "description": f"The terminal sends {SECRET}.",
    "steps": [
        {"action": "map", "field": "/patient_id", "values": [{"from": SECRET, "to": f"{SECRET}2"}]},
        {"action": "set", "field": "/age", "value": 41, "when": {"field": "/patient_id", "equals": SECRET}},
        {"action": "set", "field": "/insurance/number", "value": NUMBER},
        {"action": "trim", "field": "/ward", "when": {"field": "/insurance/number", "one_of": [NUMBER, 2]}},
        {"action": "map", "field": "/age", "values": [{"from": 999, "to": None}]},
    ],
}
SHOWN = {
    "fix": "terminal",
    "description": HIDDEN,
    "steps": [
        {"action": "map", "field": "/patient_id", "values": [{"from": HIDDEN, "to": HIDDEN}]},
        {"action": "set", "field": "/age", "value": 41, "when": {"field": "/patient_id", "equals": HIDDEN}},
        {"action": "set", "field": "/insurance/number", "value": HIDDEN},
        {"action": "trim", "field": "/ward", "when": {"field": "/insurance/number", "one_of": [HIDDEN] * 2}},
        {"action": "map", "field": "/age", "values": [{"from": 999, "to": None}]},
    ],
}
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture(autouse=True)
def contract(factory: Factory) -> None:
    """A contract with classified fields and a problem of two records."""
    fields = {
        "patient_id": {"type": "string"},
        "ward": {"type": "string"},
        "insurance": {"type": "object", "properties": {"number": {"type": "integer"}}},
    }
    schema = CONTRACT["schema"]
    definition = schema["definition"]
    changed = {**definition, "properties": {**definition["properties"], **fields}}
    document = {
        **CONTRACT,
        "schema": {**schema, "definition": changed},
        "classification": {"/patient_id": "personal", "/insurance": "personal"},
    }
    factory.registry().publish(json.dumps(document).encode(), "contract.json")
    records = [refused(offset, contract=STREAM, topic=STREAM) for offset in range(2)]
    Process(factory, "one", stream=STREAM).ingest(records)


def order(fix: dict[str, Any] = FIX) -> dict[str, Any]:
    made, places = parse_fix(json.dumps(fix), name="fix.json"), Positions([(0, 0), (0, 1)])
    return {
        "topic": TOPIC,
        "topic_id": "id",
        "positions": runs_of(places),
        "records": len(places),
        "digest": digest_of_refusals(TOPIC, places),
        "fix": made.text,
        "fingerprint": made.fingerprint,
    }


def fix_of(answer: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer["fix"])
    return found


def ask(person: Person, fix: dict[str, Any] = FIX) -> dict[str, Any]:
    answer = person.ask("POST", PATH, order(fix))
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def page_of(person: Person, problem: str) -> str:
    answer = person.ask("GET", f"/desk/streams/{STREAM}/problems/{problem}")
    assert answer.status_code == 200, answer.text
    return unescape(answer.text)


def test_only_an_approver_and_the_job_see_values_of_classified_fields(hire: Hire) -> None:
    ann, ben, eve, job = map(hire, ("approver", "approver", "viewer", "reporter"))
    asked = ask(ann)
    one = f"{PATH}/{asked['id']}"
    for person in (eve, job, hire("producer"), hire("viewer", "approver:nyc.")):
        answers = [person.json(one), *person.json(PATH)["replays"]]
        assert [fix_of(each) for each in answers] == [SHOWN] * 2, person.name
        assert [each["fingerprint"] for each in answers] == [None, None]  # it would confirm a guess
        page = page_of(person, asked["problems"][0])
        assert SECRET not in page
        assert str(NUMBER) not in page
        assert order()["fingerprint"][:12] not in page
        assert '{"from":999,"to":null}' in page
        assert "Values of classified fields are hidden" in page
    for answer in (ben.json(one), *ben.json(PATH)["replays"], ben.ask("POST", f"{one}/approval").json()):
        assert (fix_of(answer), answer["fingerprint"]) == (FIX, order()["fingerprint"])
    assert order()["fix"] in page_of(ben, asked["problems"][0])
    assert job.json(f"{one}/request")["fix"] == order()["fix"]
    assert eve.ask("GET", f"{one}/request").status_code == 403


def test_a_person_who_may_only_read_cannot_ask_for_a_replay(hire: Hire) -> None:
    eve, ann = hire("viewer", "approver:nyc."), hire("approver")
    assert eve.ask("POST", PATH, order()).status_code == 403
    one = f"{PATH}/{ask(ann)['id']}"
    assert eve.ask("POST", f"{one}/approval").status_code == 403
    assert eve.ask("DELETE", one).status_code == 403
    (kept,) = ann.json(PATH)["replays"]
    assert (kept["state"], kept["approved_by"]) == ("proposed", None)


def test_the_role_producer_does_not_include_the_request_of_a_replay(hire: Hire) -> None:
    ann, ben = hire("approver"), hire("approver")
    one = f"{PATH}/{ask(ann)['id']}"
    ben.ask("POST", f"{one}/approval")
    for grants in (
        ("producer",),
        ("producer:hospital.", "reporter:nyc."),
        ("producer", "approver:nyc."),
    ):
        answer = hire(*grants).ask("GET", f"{one}/request")
        assert answer.status_code == 403, grants
        assert "this needs the role reporter itself, or approver, of the subject" in answer.json()["detail"]
        assert SECRET not in answer.text
        assert order()["fingerprint"] not in answer.text
    for grants in (
        ("reporter",),
        ("producer", "reporter:hospital."),
        ("approver:hospital.",),
        ("admin",),
    ):
        found = hire(*grants).json(f"{one}/request")
        assert (found["fix"], found["fingerprint"]) == (order()["fix"], order()["fingerprint"])
    assert hire("reporter:nyc.").ask("GET", f"{one}/request").status_code == 404


def test_the_answer_to_a_report_has_no_hidden_value(hire: Hire, factory: Factory) -> None:
    asked = ask(hire("approver"))
    one = f"{PATH}/{asked['id']}"
    hire("approver").ask("POST", f"{one}/approval")
    report = {
        "request": asked["id"],
        "stream": STREAM,
        "at": "2026-07-01T12:00:00Z",
        "state": "done",
        "records": 2,
        "written": 2,
        "refused": 0,
        "left": 0,
    }
    answer = hire("reporter").ask("POST", f"{one}/progress", report)
    assert (answer.status_code, fix_of(answer.json())) == (200, SHOWN)
    (kept,) = factory.replays().all(STREAM)
    assert kept.fix == order()["fix"]


def test_neither_the_audit_log_nor_the_log_has_values(
    hire: Hire, factory: Factory, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ask(hire("approver"))
    hire("approver").ask("POST", f"{PATH}/{asked['id']}/approval")
    mistaken = {**order(), "fix": order()["fix"].replace('"set"', '"burn"')}
    assert hire("approver").ask("POST", PATH, mistaken).status_code == 422
    entries = factory.audit().page(0, 1000).entries
    assert {"stream.replay-asked", "stream.replay-approved"} <= {each.action for each in entries}
    written = f"{entries} {capsys.readouterr()}"
    assert "replay_asked" in written
    assert not re.search(f"{SECRET}|{NUMBER}", written)


def test_the_command_says_where_another_person_approves(
    hire: Hire, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = StreamReplay.model_validate(ask(hire("approver")))
    capsys.readouterr()
    _report(asked, "http://registry:8081/", has_run=False)
    first, role, page, post = capsys.readouterr().out.splitlines()
    assert first.endswith("waits for the approval of another person")
    assert role == "Another person with the role approver approves it:"
    page, post = page.removeprefix("  http://registry:8081"), post.removeprefix("  POST http://registry:8081")
    shown = hire("approver").ask("GET", page)
    assert (shown.status_code, "Approve</button>" in shown.text) == (200, True)
    assert page.endswith("#replays")
    assert 'id="replays"' in shown.text
    approved = hire("approver").ask("POST", post)
    assert (approved.status_code, approved.json()["state"]) == (200, "open")
    approved = approved.json() | {"problems": []}
    capsys.readouterr()
    _report(
        StreamReplay.model_validate(approved | {"state": "proposed"}), "http://registry:8081", has_run=False
    )
    assert capsys.readouterr().out.splitlines()[2:] == [f"  POST http://registry:8081{post}"]
    _report(StreamReplay.model_validate(approved), "http://registry:8081", has_run=False)
    assert "approve" not in capsys.readouterr().out


def test_a_class_of_an_earlier_version_still_hides(hire: Hire, factory: Factory) -> None:
    document = json.loads(factory.registry().version(STREAM, "1.2.0").document)
    document |= {"version": "1.3.0", "status": "draft", "classification": {}}
    factory.registry().publish(json.dumps(document).encode(), "contract.json")
    ask(hire("approver"))
    assert [fix_of(each) for each in hire("viewer").json(PATH)["replays"]] == [SHOWN]


def test_a_fix_without_classified_fields_is_shown_whole(hire: Hire) -> None:
    plain = {"fix": "age", "description": "999 is unknown.", "steps": [FIX["steps"][4]]}
    asked = ask(hire("approver"), plain)
    (shown,) = hire("viewer").json(PATH)["replays"]
    assert (fix_of(shown), shown["fingerprint"]) == (plain, asked["fingerprint"])
