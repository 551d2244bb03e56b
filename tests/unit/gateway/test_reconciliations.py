"""Reconciliations that people ask for: kept once, told to the job, answered once, and shown."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import orjson
import pytest
from sqlalchemy import text

from tidegate.contracts.errors import ConflictError, NotFoundError
from tidegate.contracts.stream.reconciliation import ReconciliationResult
from tidegate.contracts.stream.report import BatchReport
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.native.reconciliations import RESULT
from tidegate.gateway.storage.audit_chain import AuditEntry
from tidegate.gateway.storage.stream_control import RECONCILIATIONS_KEPT
from tidegate.gateway.streams.controls import StreamControls
from tidegate.gateway.streams.reconciliations import Reconciliations

MakeContract = Callable[..., bytes]
MakeReport = Callable[..., BatchReport]
STREAM = "hospital.admissions"
PATH = f"/api/v1/streams/{STREAM}/reconciliations"
PAGE = f"/desk/streams/{STREAM}"
NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def reported(factory: Factory, make_contract: MakeContract, make_report: MakeReport) -> None:
    factory.registry().publish(make_contract(), "contract.json")
    factory.reports().record(STREAM, make_report())


@pytest.fixture
def reconciliations(factory: Factory) -> Reconciliations:
    return factory.reconciliations()


def result(**changes: Any) -> ReconciliationResult:
    """The example result: one record is lost."""
    values = copy.deepcopy(RESULT)
    values["findings"].update(changes)
    return ReconciliationResult.model_validate(values)


def fine(**changes: Any) -> ReconciliationResult:
    return result(**{"answer": "holds", "holds": True, "lost": 0, "records": {}, **changes})


def actions(factory: Factory) -> list[str]:
    entries: list[AuditEntry] = factory.audit().read(list)
    assert factory.audit().check().is_intact
    return [entry.action for entry in entries if entry.action.startswith("stream.")]


def test_a_second_request_gives_the_open_one(factory: Factory, reconciliations: Reconciliations) -> None:
    first, is_new = reconciliations.ask(STREAM)
    again, is_second_new = reconciliations.ask(STREAM)
    assert (is_new, is_second_new, again) == (True, False, first)
    assert reconciliations.answer(STREAM, first.asked.id, fine())
    third, is_third_new = reconciliations.ask(STREAM)
    assert is_third_new
    assert third.asked.id != first.asked.id
    assert actions(factory) == ["stream.reconciliation-asked"] * 2
    assert [each.is_open for each in reconciliations.all(STREAM)] == [True, False]


def test_the_job_hears_of_it_with_each_heartbeat_until_it_has_answered(
    factory: Factory, reconciliations: Reconciliations
) -> None:
    controls = factory.stream_controls()
    assert controls.beat(STREAM).reconciliation is None
    asked = reconciliations.ask(STREAM)[0].asked
    controls.pause(STREAM, "why")  # a stream that is paused can be reconciled too
    assert [controls.beat(STREAM).reconciliation for _ in range(2)] == [asked, asked]
    assert reconciliations.answer(STREAM, asked.id, result())
    assert controls.beat(STREAM).reconciliation is None


def test_the_first_answer_stands(reconciliations: Reconciliations) -> None:
    asked = reconciliations.ask(STREAM)[0].asked
    assert reconciliations.answer(STREAM, asked.id, result())
    assert not reconciliations.answer(STREAM, asked.id, fine())
    assert [each.result for each in reconciliations.all(STREAM)] == [result()]


def test_an_answer_without_a_request_is_refused(
    factory: Factory, reconciliations: Reconciliations, make_contract: MakeContract
) -> None:
    factory.registry().publish(make_contract(id="other", topic="other"), "contract.json")
    asked = reconciliations.ask(STREAM)[0].asked
    with pytest.raises(NotFoundError, match=r"no reconciliation .* was requested"):
        reconciliations.answer(STREAM, uuid4(), result())
    with pytest.raises(NotFoundError, match=r"no reconciliation .* was requested"):
        reconciliations.answer("other", asked.id, result(stream="other"))
    with pytest.raises(ConflictError, match="the findings of other, not of"):
        reconciliations.answer(STREAM, asked.id, result(stream="other"))
    for unknown in (
        lambda: reconciliations.ask("x"),
        lambda: reconciliations.all("x"),
        lambda: reconciliations.answer("x", asked.id, result(stream="x")),
    ):
        with pytest.raises(NotFoundError, match=r"^no contract is published under the id x$"):
            unknown()
    assert reconciliations.seen("x") is None


def test_old_ones_give_way(reconciliations: Reconciliations) -> None:
    asked = []
    for n in range(RECONCILIATIONS_KEPT + 3):
        asked.append(reconciliations.ask(STREAM)[0].asked.id)
        reconciliations.answer(STREAM, asked[-1], fine(n=n))
    assert [each.asked.id for each in reconciliations.all(STREAM)] == asked[: -RECONCILIATIONS_KEPT - 1 : -1]


def test_over_http(client: Any) -> None:
    first, again = client.post(PATH, b""), client.post(PATH, b"")
    assert (first.status_code, again.status_code, again.json()) == (201, 200, first.json())
    asked = first.json()["asked"]
    assert (asked["stream"], asked["by"]) == (STREAM, "anonymous")
    assert client.post(f"/api/v1/streams/{STREAM}/heartbeat", b"").json() == {"reconciliation": asked}
    told = f"{PATH}/{asked['id']}/result"
    body = orjson.dumps(RESULT)
    assert [client.post(told, body).status_code for _ in range(2)] == [201, 200]
    assert client.get(PATH).json() == {"reconciliations": [{"asked": asked, "result": RESULT}]}
    assert client.post(f"{PATH}/{uuid4()}/result", body).status_code == 404
    neither = {"at": RESULT["at"]}
    assert client.post(told, orjson.dumps(neither)).status_code == 422
    assert client.get("/api/v1/streams/unknown/reconciliations").status_code == 404


def test_the_page_shows_who_asked_and_whether_the_job_has_heard(client: Any, factory: Factory) -> None:
    page = client.get(PAGE).text
    assert "No reconciliation was requested yet." in page
    answer = client.request("POST", f"{PAGE}/actions/reconcile")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{PAGE}#reconciliation")
    waiting = client.get(PAGE).text
    assert "it waits for the job to take it" in waiting
    assert 'id="reconcile"' not in waiting
    asked = factory.reconciliations().all(STREAM)[0].asked
    StreamControls(factory.database, lambda: asked.at + timedelta(seconds=1)).beat(STREAM)
    assert "the job has taken it" in client.get(PAGE).text
    assert "One was requested already" in client.get(f"{PAGE}/actions/reconcile").text
    assert len(factory.reconciliations().all(STREAM)) == 1
    assert client.request("POST", "/desk/streams/unknown/actions/reconcile").status_code == 404


def test_the_page_shows_what_was_found(client: Any, reconciliations: Reconciliations) -> None:
    def page_after(told: ReconciliationResult) -> str:
        reconciliations.answer(STREAM, reconciliations.ask(STREAM)[0].asked.id, told)
        text: str = client.get(PAGE).text
        return text

    assert "Every offset has one fate" in page_after(fine())
    unproven = page_after(fine(answer="cannot-be-proven", holds=False, unverifiable=3))
    assert "It cannot be proven that every offset has one fate" in unproven
    assert "3 offsets cannot be checked" in unproven
    assert 'class="state silent"' in unproven
    assert 'class="state clear"' not in unproven
    lost = page_after(result())
    assert "1 record is lost" in lost
    assert "0/4711" in lost
    assert "Stop the stream, keep the topics" in lost
    twice = {"count": 2, "first": ["0/7", "1/9"]}
    both = page_after(result(lost=1_234, twice=2, records={"written_twice": twice}))
    assert "1\u2009234 records are lost and 2 records are there twice" in both
    assert "0/7, 1/9" in both
    beyond = page_after(result(lost=0, records={"written_but_not_covered": twice}))
    assert "Outputs and ledger do not agree" in beyond
    table = page_after(result(lost=0, records={"not_in_quarantine_table": twice}))
    assert "Quarantined, but not in the quarantine table" in table
    assert "The quarantine table is not what the topic holds" in table
    assert "Stop the stream, keep the topics" not in table
    failed = page_after(ReconciliationResult(at=NOON, failure="the broker does not <answer>"))
    assert "It could not be told: the broker does not &lt;answer&gt;" in failed
    assert failed.count("It cannot be proven that every offset has one fate") == 1  # among the earlier ones


def test_what_a_version_without_answers_has_stored_is_shown_as_what_it_could_know(
    client: Any, factory: Factory, reconciliations: Reconciliations
) -> None:
    """It said that a stream holds also when offsets were unverifiable."""
    asked = reconciliations.ask(STREAM)[0].asked
    stored = copy.deepcopy(RESULT)
    del stored["findings"]["answer"], stored["findings"]["surplus"]
    stored["findings"] |= {"holds": True, "lost": 0, "unverifiable": 3, "records": {}}
    update = text("UPDATE stream_reconciliations SET result = :result WHERE id = :id")
    with factory.database._engine.begin() as connection:
        connection.execute(update, {"result": orjson.dumps(stored).decode(), "id": str(asked.id)})
    page = client.get(PAGE).text
    assert "It cannot be proven that every offset has one fate" in page
    assert client.get(PATH).json()["reconciliations"][0]["result"]["findings"]["answer"] == "cannot-be-proven"
