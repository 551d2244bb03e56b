"""The pages that replay and discard the records of a problem, without a broker: who may, what is wrong, what was asked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from tests.unit.gateway.quarantine_records import AGE, Process, refused
from tidegate.contracts.fix.load import parse_fix
from tidegate.contracts.stream.closure import Closure
from tidegate.contracts.stream.decide import REFUSED_WITH_BATCH
from tidegate.contracts.stream.evidence import (
    LEDGER_HEADER,
    SENT_BACK_HEADER,
    EventPointer,
    judged_at_header,
    quarantine_headers,
    read_evidence,
)
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.contracts.stream.positions import Positions
from tidegate.contracts.stream.replay import ReplayOrder, ReplayReport, digest_of_refusals, runs_of
from tidegate.contracts.verdict import Disposition, Verdict
from tidegate.gateway.access.principal import Principal, read_grants
from tidegate.gateway.clock import now
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.desk import replay_views
from tidegate.gateway.http.models.examples import CONTRACT
from tidegate.gateway.streams.problems import ProblemQuery
from tidegate.gateway.streams.quarantine import Origin, Part, QuarantinedRecord, QuarantineReader
from tidegate.gateway.streams.quarantine_index.closures import add_closures, keep_reasons
from tidegate.gateway.streams.replay_previews import ProblemSelection, ReplayPreviews

STREAM = "hospital.admissions"
TOPIC = f"{STREAM}.quarantine"
ANN, BEN, EVE, JOB = (
    Principal(f"key:{name}", read_grants([role]))
    for name, role in (("ann", "approver"), ("ben", "approver"), ("eve", "viewer"), ("job", "reporter"))
)
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def problem(factory: Factory) -> str:
    """A problem of three records; one of them is closed."""
    factory.registry().publish(json.dumps(CONTRACT).encode(), "contract.json")
    Process(factory, "one", stream=STREAM).ingest(
        [refused(offset, contract=STREAM, topic=STREAM) for offset in range(3)]
    )
    closed = {Closure.DISCARDED: Positions([(0, 1)])}
    factory.database.write(lambda stores: add_closures(stores, STREAM, closed))
    (found,) = factory.problems().list(STREAM, ProblemQuery()).problems
    return f"/desk/streams/{STREAM}/problems/{found.id}"


def posted(client: Any, path: str, **form: str) -> httpx.Response:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer: httpx.Response = client.request("POST", path, content=urlencode(form).encode(), headers=headers)
    return answer


def words(answer: httpx.Response) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", answer.text.partition("<main")[2]))


def ask(factory: Factory, by: Principal, **changes: Any) -> str:
    places = Positions([(0, 0), (0, 2)])
    order = ReplayOrder.model_validate(
        {
            "topic": TOPIC,
            "topic_id": "id",
            "positions": runs_of(places),
            "records": len(places),
            "digest": digest_of_refusals(TOPIC, places),
            **changes,
        }
    )
    return str(factory.replays().ask(STREAM, order, by).id)


def test_a_problem_counts_what_is_open_and_lists_its_requests(
    client: Any, factory: Factory, problem: str
) -> None:
    ask(factory, ANN, action="discard", reason="<b>tests</b> of the vendor")
    page = client.request("GET", problem)
    assert "Open 2 1 discarded" in words(page)
    assert "&lt;b&gt;tests&lt;/b&gt; of the vendor" in page.text
    assert "Discard key:ann" in words(page)
    assert "waits for the job" in words(page)


def test_a_problem_and_the_list_of_records_show_why_records_were_refused_again(
    client: Any, factory: Factory, problem: str
) -> None:
    again = {"ward-is-open": Positions([(0, 2)])}
    factory.database.write(lambda stores: keep_reasons(stores, STREAM, again, []))
    page = client.request("GET", problem)
    assert "Refused again by Value Records Share ward-is-open 1" in words(page)
    address = f"/desk/streams/{STREAM}/quarantine?problem={problem.rpartition('/')[2]}&amp;again=ward-is-open"
    assert address in page.text
    listed = client.request("GET", address.replace("&amp;", "&"))
    assert "again ward-is-open" in words(listed)
    assert 'name="again" class="mono" value="ward-is-open"' in listed.text


def test_the_audit_log_has_who_previewed_which_fix(factory: Factory, problem: str) -> None:  # noqa: ARG001 - it publishes
    """The counts of a preview can tell what a hidden field holds."""
    kafka = KafkaConnection(bootstrap_servers="127.0.0.1:9")  # no record is chosen, so that none is read
    previews = ReplayPreviews(factory.database, QuarantineReader(kafka), factory.plan, ANN, now)
    fix = parse_fix("fix: x\nsteps:\n  - {action: drop, field: /age}\n", name="fix.yaml")
    before = len(factory.audit().page(0, 1000).entries)
    previews.preview(STREAM, ProblemSelection(TOPIC, "id", Positions()), fix)
    previews.preview(STREAM, ProblemSelection(TOPIC, "id", Positions()), None)
    (entry,) = factory.audit().page(before, 1000).entries
    assert (entry.who, entry.action) == (ANN.name, "stream.replay-previewed")
    assert entry.after == fix.fingerprint


class Kept(QuarantineReader):
    """A reader of one valid record that was refused with its batch, and of one that violates a rule."""

    def __init__(self, kafka: KafkaConnection, *, was_sent_back: bool = False) -> None:
        super().__init__(kafka)
        self._own = [(SENT_BACK_HEADER, b"hospital.admissions/0/1")] if was_sent_back else []

    def topic_id(self, origin: Origin) -> str:  # noqa: ARG002 - as the reader has it
        return "id"

    def parts(self, origin: Origin, *_: Any) -> Iterator[Part]:
        found = []
        for age, violation, end in ((63, REFUSED_WITH_BATCH, {0: 3}), (999, AGE, None)):
            source = EventPointer(origin.topic, 0, age)
            verdict = Verdict(Disposition.QUARANTINED, (violation,))
            added = quarantine_headers(source, "ledger", f"{STREAM}@1.2.0", verdict, end)
            headers = (*self._own, *added)
            evidence = read_evidence(headers)
            assert evidence is not None
            value = json.dumps({"admission_id": "A-7731", "age": age}).encode()
            found.append(QuarantinedRecord(source, now(), None, value, headers, evidence))
        yield Part(found, len(found))


def test_records_that_were_refused_with_their_batch_are_previewed_if_the_request_takes_them(
    client: Any, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Kept(KafkaConnection(bootstrap_servers="127.0.0.1:9"))
    monkeypatch.setattr(Factory, "quarantine_reader", lambda _: reader)
    assert 'type="checkbox" name="accept_batches"' in client.request("GET", f"{problem}/replay").text
    left = posted(client, f"{problem}/replay", fix="")
    assert "0 of 2 records would pass. 1 would stay refused. 1 would be left: their whole batch" in words(
        left
    )
    taken = posted(client, f"{problem}/replay", fix="", accept_batches="on")
    assert "1 of 2 records would pass. 1 would stay refused. Judged" in words(taken)
    assert 'name="accept_batches" checked' in taken.text
    assert (
        "A-7731" not in left.text + taken.text
    )  # a preview has counts and reasons, and no value of a record
    form = hidden(taken)
    answer = posted(client, f"{problem}/replays", **form)
    assert answer.status_code == 303, answer.text
    (asked,) = client.request("GET", f"/api/v1/streams/{STREAM}/replays").json()["replays"]
    assert asked["accept_batches"] is True


class OfTwoLedgers(Kept):
    """A reader of records that an archived ledger refused before the one of now."""

    def parts(self, origin: Origin, positions: Iterable[tuple[int, int]], *_: Any) -> Iterator[Part]:
        (both,) = super().parts(origin)
        first, second = both.records
        found = {(0, 0): (second, "archived", 1), (0, 2): (first, "of-now", 2)}
        for each in positions:
            yield Part([_refused_by(*found[each])], 1)


def _refused_by(record: QuarantinedRecord, ledger: str, judged_at: int) -> QuarantinedRecord:
    headers = (*record.headers, (LEDGER_HEADER, ledger.encode()), *judged_at_header(judged_at))
    evidence = read_evidence(headers)
    assert evidence is not None
    return replace(record, headers=headers, evidence=evidence)


def test_a_request_of_the_desk_is_for_the_ledger_that_refused_the_newest_record(
    client: Any, factory: Factory, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other job of the contract processes it; the preview says what its own job will leave."""
    reader = OfTwoLedgers(KafkaConnection(bootstrap_servers="127.0.0.1:9"))
    monkeypatch.setattr(Factory, "quarantine_reader", lambda _: reader)
    page = posted(client, f"{problem}/replay", fix="", accept_batches="on")
    assert "1 of 2 records would pass. 1 would be left: another ledger refused them" in words(page)
    assert posted(client, f"{problem}/replays", **hidden(page)).status_code == 303
    shown = {**shown_on(client.request("GET", problem)), "reason": "tests of the vendor"}
    assert posted(client, f"{problem}/discards", **shown).status_code == 303
    assert [each.ledger for each in factory.replays().all(STREAM)] == ["of-now"] * 2


def shown_on(answer: httpx.Response) -> dict[str, str]:
    return dict(re.findall(r'name="(before|digest)" value="([^"]*)"', answer.text))


def hidden(answer: httpx.Response) -> dict[str, str]:
    return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', answer.text))


def test_the_request_has_the_records_of_the_preview(
    client: Any, factory: Factory, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither those that arrive meanwhile, nor without those that are closed meanwhile."""
    reader = Kept(KafkaConnection(bootstrap_servers="127.0.0.1:9"))
    monkeypatch.setattr(Factory, "quarantine_reader", lambda _: reader)
    form = hidden(posted(client, f"{problem}/replay", fix="", accept_batches="on"))
    for partition in (0, 1):
        more = [refused(each, partition=partition, contract=STREAM, topic=STREAM) for each in range(5)]
        Process(factory, "one", stream=STREAM).ingest(more)
    assert posted(client, f"{problem}/replays", **form).status_code == 303
    (asked,) = factory.replays().all(STREAM)
    found = factory.replays().request(STREAM, asked.id, JOB)
    assert list(found.refusals()) == [(0, 0), (0, 2)]
    closed = {Closure.DISCARDED: Positions([(0, 2)])}
    factory.database.write(lambda stores: add_closures(stores, STREAM, closed))
    answer = posted(client, f"{problem}/replays", **form)
    assert answer.status_code == 409
    assert "ther records of the problem are open now than the page showed" in words(answer)


def test_a_discard_has_the_records_that_the_page_showed(
    client: Any, factory: Factory, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One record that is closed meanwhile and one that arrives meanwhile leave their number as it was."""
    reader = Kept(KafkaConnection(bootstrap_servers="127.0.0.1:9"))
    monkeypatch.setattr(Factory, "quarantine_reader", lambda _: reader)
    page = client.request("GET", problem)
    assert "Discard 2 records" in words(page)
    (before,) = re.findall(r'name="before" value="([^"]*)"', page.text)
    (digest,) = re.findall(r'name="digest" value="([^"]*)"', page.text)
    form = {"before": before, "digest": digest, "reason": "tests of the vendor"}
    Process(factory, "one", stream=STREAM).ingest(
        [refused(each, partition=1, contract=STREAM, topic=STREAM) for each in range(5)]
    )
    assert posted(client, f"{problem}/discards", **form).status_code == 303
    (asked,) = factory.replays().all(STREAM)
    assert list(factory.replays().request(STREAM, asked.id, JOB).refusals()) == [(0, 0), (0, 2)]
    closed = {Closure.DISCARDED: Positions([(0, 2)])}
    factory.database.write(lambda stores: add_closures(stores, STREAM, closed))
    answer = posted(client, f"{problem}/discards", **form)
    assert answer.status_code == 409
    assert "ther records of the problem are open now than the page showed" in words(answer)
    assert len(factory.replays().all(STREAM)) == 1


def test_a_preview_leaves_records_that_were_sent_to_the_source_before(
    client: Any, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job never sends a record twice; a replay of the same records takes them."""
    reader = Kept(KafkaConnection(bootstrap_servers="127.0.0.1:9"), was_sent_back=True)
    monkeypatch.setattr(Factory, "quarantine_reader", lambda _: reader)
    sent = posted(client, f"{problem}/replay", fix="", accept_batches="on", action="to-source")
    assert "2 would be left: they were sent to the source topic before." in words(sent)
    assert "0 of 2 records would pass" in words(sent)
    taken = posted(client, f"{problem}/replay", fix="", accept_batches="on")
    assert "1 of 2 records would pass. 1 would stay refused. Judged" in words(taken)


def test_the_page_names_the_command_that_counts_keys_of_the_table(
    client: Any, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Kept(KafkaConnection(bootstrap_servers="127.0.0.1:9"))
    monkeypatch.setattr(Factory, "quarantine_reader", lambda _: reader)
    page = words(posted(client, f"{problem}/replay", fix=""))
    assert "same primary key" in page
    assert "The command below counts these records." in page
    assert "--fix fix.yaml --dry-run" in page


def test_a_mistake_of_a_fix_is_shown_where_it_is(client: Any, problem: str) -> None:
    assert "Preview" in words(client.request("GET", f"{problem}/replay"))
    answer = posted(client, f"{problem}/replay", fix="fix: x\nsteps:\n  - action: burn\n    field: /age\n")
    assert answer.status_code == 422
    assert "The fix cannot be used" in words(answer)
    assert "action: burn" in answer.text


@pytest.mark.parametrize(
    ("path", "form", "status", "message"),
    [
        ("replay", {"fix": ""}, 503, "registry knows no Kafka broker"),
        ("replay", {"fix": "x" * 40_000}, 422, "at most 32768 characters"),
        ("discards", {"before": "0:3"}, 422, "reason"),
        ("discards", {"before": "0:3", "reason": "x" * 501}, 422, "reason"),
        ("replays/0c8f2f0e-6a51-4a0b-9a60-2f6f3c1d7a10", {"decision": "approve"}, 404, "No replay"),
        ("replays/0c8f2f0e-6a51-4a0b-9a60-2f6f3c1d7a10", {"decision": "burn"}, 422, "approve or cancel"),
    ],
)
def test_what_cannot_be_done_says_so(
    client: Any, problem: str, path: str, form: dict[str, str], status: int, message: str
) -> None:
    answer = posted(client, f"{problem}/{path}", **form)
    assert answer.status_code == status, answer.text
    assert message in words(answer)


def test_who_asked_does_not_approve_and_a_viewer_does_nothing(factory: Factory, problem: str) -> None:
    ask(factory, ANN, action="to-source")
    (found,) = factory.problems().list(STREAM, ProblemQuery()).problems

    def may(by: Principal) -> tuple[bool, bool]:
        (row,) = replay_views.replay_rows(factory, by, found, f"{STREAM}-value")
        return row.may_approve, row.may_cancel

    assert (may(ANN), may(BEN), may(EVE)) == ((False, True), (True, True), (False, False))
    assert not replay_views.replay_view(factory, EVE, STREAM, problem.rpartition("/")[2]).may_act


def test_who_approves_sees_how_many_records_and_on_which_terms(
    client: Any, factory: Factory, problem: str
) -> None:
    ask(factory, ANN, action="to-source", accept_batches=True)
    page = words(client.request("GET", problem))
    assert "2 requested, also of refused batches; waits for the approval of another person" in page
    ask(factory, ANN, append_late=True)
    assert "2 requested, behind newer ones of their key; waits for the job" in words(
        client.request("GET", problem)
    )


def test_a_request_is_cancelled_on_the_page(client: Any, factory: Factory, problem: str) -> None:
    asked = ask(factory, ANN)
    answer = posted(client, f"{problem}/replays/{asked}", decision="cancel")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{problem}#replays")
    assert "cancelled" in words(client.request("GET", problem))


def test_the_page_says_why_records_failed_again(client: Any, factory: Factory, problem: str) -> None:
    first, second = ask(factory, ANN), ask(factory, ANN)
    told = {
        "stream": STREAM,
        "at": "2026-07-01T12:00:00Z",
        "state": "done",
        "records": 2,
        "written": 0,
        "refused": 2,
        "left": 0,
    }
    reasons = [
        {"stage": "rule", "code": "ward-is-open", "severity": "error", "records": 1_234},
        {"stage": "schema", "code": "<type>", "severity": "error", "records": 1},
    ]
    for request, why in ((first, reasons), (second, [])):
        report = ReplayReport.model_validate({**told, "request": request, "reasons": why})
        factory.replays().progress(STREAM, report, JOB)
    page = client.request("GET", problem)
    assert "1 234 with ward-is-open (rule)" in words(page)
    assert "1 with &lt;type&gt; (schema)" in words(page)
    assert f"/desk/contracts/{STREAM}#rule-ward-is-open" in page.text
    assert page.text.count("Why records were refused again") == 1
