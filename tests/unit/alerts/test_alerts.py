"""Alerts from the reports to the gateway to a real web server and a real mail server."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from pydantic import SecretStr, ValidationError

from tests.unit.alerts.mail_server import MailServer, mail_server
from tests.unit.gateway import quarantine_records
from tidegate.contracts.stream.control import StreamEvent, Trip
from tidegate.contracts.stream.reconciliation import ReconciliationResult
from tidegate.contracts.stream.report import BatchReport
from tidegate.gateway.clock import now
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.native.reconciliations import RESULT
from tidegate.gateway.http.native.stream_controls import _EVENT, _TRIP
from tidegate.gateway.settings import GatewaySettings

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

STREAM = "hospital.admissions"
NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
PAGE = "https://gate.example.org/desk/streams/hospital.admissions"
_SECONDS = 30

T = TypeVar("T")


class WebServer:
    """Keeps the JSON objects that are posted to it; answers with the statuses that a test puts into `answers`."""

    def __init__(self) -> None:
        self.received: Queue[tuple[str, Any]] = Queue()
        self.answers: list[int] = []
        keeper = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = keeper.answers.pop(0) if keeper.answers else 200
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()
                keeper.received.put((self.path, json.loads(body)))

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def next(self) -> tuple[str, Any]:
        return self.received.get(timeout=_SECONDS)


@pytest.fixture
def web() -> Iterator[WebServer]:
    running = WebServer()
    yield from _serve(running.server, running)


@pytest.fixture
def mail() -> Iterator[MailServer]:
    with mail_server() as running:
        yield running


def _serve(server: socketserver.BaseServer, given: T) -> Iterator[T]:
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield given
    server.shutdown()
    thread.join(_SECONDS)
    server.server_close()
    assert not thread.is_alive()


@pytest.fixture
def gate(settings: GatewaySettings, make_contract: Callable[..., bytes]) -> Iterator[Callable[..., Factory]]:
    """Yield a function that makes a gateway with alert settings."""
    made: list[Factory] = []

    def make(**changes: object) -> Factory:
        values = {"alert_page_url": "https://gate.example.org", **changes}
        made.append(Factory(settings.model_copy(update=values)))
        made[-1].database.migrate()
        made[-1].registry().publish(make_contract(), "contract.json")
        return made[-1]

    yield make
    for each in made:
        each.close()


def trip_of(**changes: object) -> Trip:
    return Trip.model_validate({**_TRIP, "id": uuid4(), **changes})


def event_of(**changes: object) -> StreamEvent:
    return StreamEvent.model_validate({**_EVENT, "id": uuid4(), **changes})


def findings(**changes: object) -> ReconciliationResult:
    return ReconciliationResult.model_validate({**RESULT, "findings": {**RESULT["findings"], **changes}})


def test_a_spent_budget_tells_the_webhook_what_where_and_what_to_do(
    gate: Callable[..., Factory], web: WebServer
) -> None:
    factory = gate(alert_webhook_url=SecretStr(f"{web.url}/hook"))
    factory.stream_controls().trip(STREAM, trip_of())
    path, alert = web.next()
    assert path == "/hook"
    assert alert == {
        "kind": "budget-spent",
        "stream": STREAM,
        "at": "2026-07-01T12:00:02+00:00",
        "message": "error budget spent: 612 of 2000 records refused, 20.0% allowed; nothing of the batch is written; the "
        "stream is paused: tidegate resume hospital.admissions, with --accept-batch to let the batch through",
        "contract": f"{STREAM}@1.2.0",
        "topic": STREAM,
        "rules": [{"code": "age-is-known", "records": 612}],
        "first_offsets": {"0": 600, "1": 400},
        "answer": None,
        "lost": None,
        "twice": None,
        "held_back": 0,
        "page": PAGE,
    }


def test_each_kind_of_news_is_sent_once_and_nothing_else_is(
    gate: Callable[..., Factory], web: WebServer, make_report: Callable[..., BatchReport]
) -> None:
    factory = gate(alert_webhook_url=SecretStr(web.url))
    controls, book = factory.stream_controls(), factory.reports()
    controls.record_event(STREAM, event_of(kind="started"))
    book.record(STREAM, make_report(1, quarantined=5))
    stay = {"stage": "rule", "code": "stay", "severity": "error", "records": 3}
    quarantined = {"stage": "rule", "code": "age-is-known", "severity": "error", "records": 5}
    for _ in range(2):
        book.record(
            STREAM, make_report(2, alerted=3, quarantined=5, rules=[quarantined, stay], alerts=[stay])
        )
    controls.pause(STREAM, "the clock is wrong")
    controls.pause(STREAM, "again")
    controls.resume(STREAM, accept_batch=False)
    stopped = event_of(message="topic was deleted")
    for event in (stopped, stopped, event_of(kind="failed", message=None), event_of(kind="ended")):
        controls.record_event(STREAM, event)
    factory.close()
    told = [web.received.get_nowait()[1] for _ in range(web.received.qsize())]
    assert [(alert["kind"], alert["message"]) for alert in told] == [
        ("rule-alert", "3 of 100 records were written that violate a rule which alerts"),
        ("stream-paused", "paused by anonymous: the clock is wrong"),
        ("stream-stopped", "topic was deleted"),
        ("stream-failed", "the stream has failed"),
    ]
    assert (told[0]["rules"], told[0]["first_offsets"]) == ([{"code": "stay", "records": 3}], {"0": 2000})


def test_a_report_of_an_earlier_release_names_the_violated_rules_of_the_batch(
    gate: Callable[..., Factory], web: WebServer, make_report: Callable[..., BatchReport]
) -> None:
    factory = gate(alert_webhook_url=SecretStr(web.url))
    rules = [{"stage": "rule", "code": "stay", "severity": "error", "records": 3}]
    factory.reports().record(STREAM, make_report(1, alerted=3, rules=rules))
    factory.close()
    assert web.next()[1]["rules"] == [{"code": "stay", "records": 3}]


def test_only_a_failed_reconciliation_is_sent_with_its_answer(
    gate: Callable[..., Factory], web: WebServer
) -> None:
    factory = gate(alert_webhook_url=SecretStr(web.url), alert_interval_seconds=0)
    reconciliations = factory.reconciliations()
    failed = ReconciliationResult(at=NOON, failure="the broker does not answer")
    beyond = {"written_but_not_covered": {"count": 1, "first": ["0/99841"]}}
    for told in (
        findings(answer="holds", holds=True, lost=0, records={}),
        failed,
        findings(lost=12, twice=3),
        findings(lost=0, records=beyond),
        findings(answer="cannot-be-proven", lost=0, records={}, unverifiable=7),
    ):
        asked = reconciliations.ask(STREAM)[0].asked
        for _ in range(2):  # a job that has not heard the answer tells it again
            reconciliations.answer(STREAM, asked.id, told)
    factory.close()
    alerts = [web.received.get_nowait()[1] for _ in range(web.received.qsize())]
    assert alerts[0] == {
        "kind": "reconciliation",
        "stream": STREAM,
        "at": "2026-07-01T12:00:41+00:00",
        "message": "lost 12, twice 3: stop the stream, keep the topics, and ask who wrote",
        "contract": None,
        "topic": None,
        "rules": [],
        "first_offsets": {},
        "answer": "lost",
        "lost": 12,
        "twice": 3,
        "held_back": 0,
        "page": PAGE,
    }
    told_of = [(each["answer"], each["lost"], each["twice"]) for each in alerts]
    assert told_of == [("lost", 12, 3), ("lost", 0, 0), ("cannot-be-proven", 0, 0)]
    assert alerts[2]["message"].startswith("cannot be proven: no fault shows, but the fate of 7 offsets")


def test_slack_gets_its_shape_with_its_control_characters_escaped(
    gate: Callable[..., Factory], web: WebServer
) -> None:
    factory = gate(alert_slack_url=SecretStr(web.url))
    factory.stream_controls().pause(STREAM, "a < b & <!channel>")
    _, body = web.next()
    assert body["text"] == f"Tidegate: {STREAM}: stream paused"
    (block,) = body["blocks"]
    assert block["text"]["type"] == "mrkdwn"
    assert "a &lt; b &amp; &lt;!channel&gt;" in block["text"]["text"]
    assert block["text"]["text"].endswith(PAGE)


def test_an_e_mail_names_the_stream_and_the_page(gate: Callable[..., Factory], mail: MailServer) -> None:
    factory = gate(
        alert_smtp_url=SecretStr(mail.url),
        alert_email_from="tidegate@example.org",
        alert_email_to=("a@example.org", "b@example.org"),
    )
    factory.stream_controls().trip(STREAM, trip_of())
    receivers, content = mail.received.get(timeout=_SECONDS)
    message = message_from_bytes(content, policy=policy.default)
    assert receivers == ["a@example.org", "b@example.org"]
    assert (message["Subject"], message["From"]) == (
        f"Tidegate: {STREAM}: budget spent",
        "tidegate@example.org",
    )
    text = message.get_content()
    assert "age-is-known (612 records)" in text
    assert f"batch of {STREAM} from partition 0 offset 600, partition 1 offset 400" in text
    assert text.strip().endswith(PAGE)


def test_an_unreachable_target_hinders_neither_the_gateway_nor_the_others(
    gate: Callable[..., Factory], web: WebServer
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as closed:
        nowhere = f"http://127.0.0.1:{closed.server_address[1]}/secret"
    factory = gate(alert_webhook_url=SecretStr(nowhere), alert_slack_url=SecretStr(web.url))
    assert factory.stream_controls().trip(STREAM, trip_of()).is_paused
    assert "budget spent" in web.next()[1]["text"]


def test_a_target_that_refuses_is_asked_again(
    gate: Callable[..., Factory], web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.gateway.alerts.sending._RETRY_SECONDS", (0.0, 0.0))
    web.answers += [500, 503]
    gate(alert_webhook_url=SecretStr(web.url)).stream_controls().pause(STREAM, None)
    assert [web.next()[1]["kind"] for _ in range(3)] == ["stream-paused"] * 3
    assert web.received.empty()


def test_what_comes_within_the_interval_waits_and_is_counted(
    gate: Callable[..., Factory], web: WebServer
) -> None:
    factory = gate(alert_webhook_url=SecretStr(web.url), alert_interval_seconds=0.5)
    controls = factory.stream_controls()
    for refused in (301, 302, 303, 304):
        controls.trip(STREAM, trip_of(refused=refused))
    first, second = web.next()[1], web.next()[1]
    assert ("301 of 2000" in first["message"], first["held_back"]) == (True, 0)
    assert ("304 of 2000" in second["message"], second["held_back"]) == (True, 2)


def test_a_new_problem_is_sent_to_people_and_to_the_channel_of_the_owner(
    gate: Callable[..., Factory], web: WebServer, make_contract: Callable[..., bytes]
) -> None:
    channels = {"wards": SecretStr(f"{web.url}/wards"), "others": SecretStr(f"{web.url}/others")}
    factory = gate(alert_webhook_url=SecretStr(web.url), alert_channels=channels)
    team = {"name": "Wards", "alert_channel": "wards"}
    factory.registry().publish(make_contract(version="1.3.0", team=team), "contract.json")
    process = quarantine_records.Process(factory, "one", stream=STREAM)
    process.ingest([quarantine_records.refused(0, at=now(), contract=STREAM, topic=STREAM)])
    watch = factory.problem_watch()
    watch.check(STREAM)
    watch.check(STREAM)
    told = dict(web.next() for _ in range(2))
    assert len(told) == 2
    assert web.received.empty()
    for alert in told.values():
        assert (alert["kind"], alert["message"]) == (
            "problem-new", "a new problem refuses records: age-is-known at /age: 999",
        )  # fmt: skip
        assert alert["page"].startswith(f"https://gate.example.org/desk/streams/{STREAM}/problems/")


def test_without_a_target_no_thread_is_begun(gate: Callable[..., Factory]) -> None:
    before = threading.active_count()
    gate().stream_controls().pause(STREAM, None)
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"alert_webhook_url": "ftp://secret"}, "begins with http:// or https://"),
        (
            {"alert_smtp_url": "smtp://secret"},
            "set TIDEGATE_ALERT_EMAIL_TO and TIDEGATE_ALERT_EMAIL_FROM too",
        ),
        ({"alert_email_to": "a@b, c@d"}, "set TIDEGATE_ALERT_EMAIL_FROM and TIDEGATE_ALERT_SMTP_URL too"),
    ],
)
def test_settings_that_cannot_work_say_so_without_the_secret(
    database_url: str, given: dict[str, str], told: str
) -> None:
    with pytest.raises(ValidationError) as error:
        GatewaySettings(database_url=SecretStr(database_url), **given)  # type: ignore[arg-type] # as the environment
    problems = error.value.errors(include_input=False)
    assert told in problems[0]["msg"]
    assert "secret" not in problems[0]["msg"]
