"""Refused requests are counted and logged, and no flood of them fills the log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from tidegate.gateway.access.denials import MOST_AUDITED, DenialAudit, Denials
from tidegate.gateway.clock import now
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.models.examples import CONTRACT, REPORT
from tidegate.gateway.storage.database import Database

from .conftest import ASSOCIATION, Hire, Person, associate


def test_a_refusal_is_logged_with_who_asked_and_counted(client: Any, hire: Hire, admin: Person) -> None:
    viewer = hire("viewer:a.")
    with capture_logs() as logs:
        assert client.get("/api/v1/contracts").status_code == 401
        assert viewer.ask("PUT", "/mode", {"mode": "READONLY"}).status_code == 403
    refused = [
        (log["status"], log["who"], log["method"], log["path"])
        for log in logs
        if log["event"] == "request_refused"
    ]
    assert refused == [(401, refused[0][1], "GET", "/api/v1/contracts"), (403, viewer.name, "PUT", "/mode")]
    assert refused[0][1].startswith("address:")
    metrics = admin.ask("GET", "/metrics").text
    assert 'tidegate_refused_requests_total{status="401"} 1.0' in metrics
    assert 'tidegate_refused_requests_total{status="403"} 1.0' in metrics
    assert "tidegate_refused_requests_total" not in viewer.ask("GET", "/metrics").text


def test_a_flood_fills_neither_log_nor_memory() -> None:
    seconds = 0.0
    denials = Denials(lambda: seconds)
    with capture_logs() as logs:
        for number in range(5000):
            denials.add(401, f"address:{number}", "GET", "/x\u202e\n" * 1000)
        assert len(logs) == 501
        assert max(len(str(log)) for log in logs) < 2000
        seconds = 61.0
        denials.add(401, "address:1", "GET", "/")
    assert [log["requests"] for log in logs if log["event"] == "requests_refused_again"] == [4499]
    assert denials.totals == {401: 5001}


def denied(factory: Factory) -> list[tuple[str, str, str]]:
    found = factory.database.read(lambda stores: tuple(stores.audit.entries()))
    return [
        (entry.who, entry.action, entry.subject) for entry in found if entry.action.startswith("request.")
    ]


def test_denied_writes_and_reveals_are_audited_and_denied_reads_are_not(
    client: Any, factory: Factory, hire: Hire
) -> None:
    viewer = hire("viewer:a.")
    assert client.get("/api/v1/contracts").status_code == 401
    assert viewer.ask("GET", "/api/v1/audit").status_code == 403
    assert denied(factory) == []
    assert client.post("/desk/records/t/0/1/reveal\u202e", b"").status_code == 401
    for _ in range(3):
        assert viewer.ask("PUT", "/mode", {"mode": "READONLY"}).status_code == 403
    assert denied(factory) == [
        ("address:127.0.0.1", "request.denied", "401 POST /desk/records/t/0/1/reveal\\u202e"),
        (viewer.name, "request.denied", "403 PUT /mode"),
    ]


def test_a_flood_of_denied_writes_does_not_fill_the_audit(factory: Factory) -> None:
    seconds = 0.0
    audited = DenialAudit(factory.database, now, lambda: seconds)
    for number in range(5000):
        audited.add(401, f"address:{number}\n", "PUT", f"/x{number}\u202e\n" * 1000)
        audited.add(403, "key:a", "PUT", "/mode")
    found = denied(factory)
    assert len(found) == MOST_AUDITED // 2 + 2
    assert ("address:(others)", "request.denied", "401 PUT /x" + found[-1][2].partition("/x")[2]) == found[-1]
    assert all(text.isprintable() and len(text) < 1500 for entry in found for text in entry)
    seconds = 3601.0
    audited.add(403, "key:a", "PUT", "/mode")
    repeats = denied(factory)[len(found) :]
    assert repeats[-1] == ("key:a", "request.denied", "403 PUT /mode")
    assert ("key:a", "request.denied-again", "403 PUT, 4999 times") in repeats
    assert sum(int(each[2].split(", ")[1].split()[0]) for each in repeats[:-1]) == 10000 - len(found)


def test_requests_without_credentials_never_displace_the_name_of_a_principal(factory: Factory) -> None:
    """One unknown client with many methods or addresses must not hide what a colleague tries."""
    audited = DenialAudit(factory.database, now)
    for number in range(5000):
        audited.add(403, f"address:{number}", f"METHOD{number}", "/mode")
    audited.add(403, "key:colleague", "PUT", "/mode")
    found = denied(factory)
    assert ("key:colleague", "request.denied", "403 PUT /mode") in found
    assert len(found) <= MOST_AUDITED + 2


def test_unknown_clients_do_not_displace_the_name_of_a_principal_in_the_log() -> None:
    denials = Denials()
    with capture_logs() as logs:
        for number in range(5000):
            denials.add(401, f"address:{number}", "GET", "/")
        denials.add(403, "key:colleague", "PUT", "/mode")
    assert ("key:colleague", "/mode") in {(log["who"], log["path"]) for log in logs}


def test_a_database_that_does_not_answer_does_not_change_the_answer(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/registry.db")  # without tables
    with capture_logs() as logs:
        DenialAudit(database, now).add(403, "key:a", "PUT", "/mode")
    assert [log["event"] for log in logs] == ["denial_not_audited"]
    database.close()


def test_a_denied_write_on_a_hidden_subject_is_audited_and_the_caller_learns_nothing(
    factory: Factory, hire: Hire, admin: Person
) -> None:
    schema = {"schema": '{"type": "string"}'}
    assert admin.ask("POST", "/subjects/secret.pay/versions", schema).status_code == 200
    producer = hire("approver:a.")
    for method, path, body in (
        ("DELETE", "/subjects/{}", None),
        ("DELETE", "/config/{}", None),
        ("POST", "/subjects/{}", schema),
    ):
        for name in ("secret.pay", "secret.pay", "secret.none"):
            answer = producer.ask(method, path.format(name), body)
            assert answer.status_code == 404
            assert "secret.pay" not in answer.text.replace("secret.pay", "", 1)
        texts = [producer.ask(method, path.format(name), body).text for name in ("secret.pay", "secret.none")]
        assert texts[0].replace("secret.pay", "secret.none") == texts[1]
    assert producer.ask("GET", "/subjects/secret.pay/versions").status_code == 404
    assert denied(factory) == [
        (producer.name, "request.denied", "404 DELETE /subjects/secret.pay"),
        (producer.name, "request.denied", "404 POST /subjects/secret.pay"),
    ]
    metrics = admin.ask("GET", "/metrics").text
    assert 'tidegate_refused_requests_total{status="404"} 15.0' in metrics


def test_a_denied_reveal_and_a_denied_report_of_a_hidden_stream_are_audited(
    factory: Factory, hire: Hire, admin: Person
) -> None:
    assert (
        admin.ask("POST", "/api/v1/contracts", {**CONTRACT, "id": "b.x", "topic": "b.x"}).status_code == 201
    )
    assert admin.ask("POST", "/subjects/b.x-key/versions", {"schema": '"int"'}).status_code == 200
    assert admin.ask("POST", "/associations", associate("b.x-key")).status_code == 200
    form = "application/x-www-form-urlencoded"
    report = {
        **REPORT,
        "stream": "b.x",
        "topic": "b.x",
        "quarantine_topic": "b.x.quarantine",
        "contract": "b.x@1.2.0",
    }
    for method, path, body, media_type in (
        ("POST", "/desk/records/{}.quarantine/0/1/reveal", b"part=key", form),
        ("POST", "/api/v1/streams/{}/batches", report, None),
        ("POST", "/api/v1/streams/{}/heartbeat", {}, None),
        ("GET", "/api/v1/streams/{}/replays/00000000-0000-4000-8000-000000000000/request", None, None),
        ("DELETE", f"{ASSOCIATION}?is={{}}", None, None),
    ):
        other, before = hire("admin:a."), denied(factory)
        for name in ("b.none", "b.x"):
            sent = json.loads(json.dumps(body).replace("b.x", name)) if isinstance(body, dict) else body
            assert other.ask(method, path.format(name), sent, media_type).status_code == 404
        where = f"404 {method} {path.format('b.x').partition('?')[0]}"
        assert denied(factory)[len(before) :] == [(other.name, "request.denied", where)]


def test_a_denied_write_on_a_hidden_contract_is_audited_with_its_path_escaped(
    factory: Factory, hire: Hire, admin: Person
) -> None:
    document = {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": "secret.pay",
        "version": "1.0.0",
        "topic": "secret.pay",
        "schema": {"type": "json-schema", "definition": {"type": "object"}},
    }
    assert admin.ask("POST", "/api/v1/contracts", document).status_code == 201
    other = hire("admin:a.")
    path = "/api/v1/contracts/{}/versions/1.0.0\u202e" + "x" * 500
    hidden, unknown = (other.ask("DELETE", path.format(name)) for name in ("secret.pay", "secret.none"))
    assert hidden.status_code == unknown.status_code == 404
    assert hidden.text.replace("secret.pay", "secret.none") == unknown.text
    ((who, action, subject),) = denied(factory)
    assert (who, action) == (other.name, "request.denied")
    assert subject.startswith("404 DELETE /api/v1/contracts/secret.pay/versions/1.0.0\\u202exxx")
    assert len(subject) < 300
