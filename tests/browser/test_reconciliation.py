"""The button that has a stream reconciled, and what its page shows until and after the job has answered."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect
from pydantic import SecretStr

from tests.browser.conftest import serve
from tests.browser.test_password import sign_in
from tests.browser.test_streams import unique
from tests.browser.traffic import ADMISSIONS, Traffic
from tests.unit.access.conftest import MAKER
from tidegate.gateway.access.principal import read_grants
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.models.examples import CONTRACT, REPORT
from tidegate.gateway.http.native.reconciliations import RESULT
from tidegate.gateway.settings import GatewaySettings

REFRESHED_MS = 20_000
"""Within which a page that refreshes itself every five seconds shows what is new."""
MANY = {"count": 40_311, "first": [f"{n % 4}/{10**12 + n}" for n in range(20)]}


@pytest.fixture
def stream(gateway: Traffic) -> str:
    """A stream of one batch, whose contract is published."""
    name = unique("adm")
    gateway.publish({**ADMISSIONS, "id": name, "topic": name})
    gateway.report(name, at=datetime.now(UTC), records=500)
    return name


def heard(gateway: Traffic, stream: str) -> Any:
    """What a job is asked for when it says that its stream lives."""
    answer = httpx.post(f"{gateway.url}/api/v1/streams/{stream}/heartbeat").raise_for_status()
    return answer.json()["reconciliation"]


def answer(gateway: Traffic, stream: str, /, **findings: Any) -> None:
    """Answer the open request as a job does."""
    asked = heard(gateway, stream)
    result = copy.deepcopy(RESULT)
    result["at"] = datetime.now(UTC).isoformat()
    result["findings"].update(stream=stream, **findings)
    path = f"{gateway.url}/api/v1/streams/{stream}/reconciliations/{asked['id']}/result"
    httpx.post(path, json=result).raise_for_status()


@pytest.mark.full
def test_one_asks_and_the_answer_appears_without_a_reload(gateway: Traffic, stream: str, page: Page) -> None:
    page.goto(f"{gateway.url}/desk/streams/{stream}?range=1h")
    section = page.locator("#reconciliation")
    expect(section).to_contain_text("No reconciliation was requested yet.")
    section.get_by_role("button", name="Reconcile").click()
    page.wait_for_url(f"**/desk/streams/{stream}#reconciliation")
    page.evaluate("document.body.dataset.mark = 'the same document'")
    expect(section).to_contain_text("it waits for the job to take it")
    expect(section.get_by_role("button")).to_have_count(0)
    heard(gateway, stream)
    expect(section).to_contain_text("the job has taken it, and the stream goes on", timeout=REFRESHED_MS)
    answer(gateway, stream, answer="holds", holds=True, lost=0, records={})
    expect(section.locator(".state.clear")).to_have_text("Every offset has one fate", timeout=REFRESHED_MS)
    assert [each.split("\n") for each in section.locator(".figures > div").all_inner_texts()] == [
        ["Written", "98\u2009002"],
        ["Quarantined", "1\u2009836"],
        ["In no output", "0", "dropped, superseded, deleted"],
        ["Absent", "2"],
        ["Unverifiable", "0"],
        ["Ledger", "12/431", "epoch/batch"],
    ]
    section.get_by_text("Offsets that were compared").click()
    expect(section.locator("details[open] tbody tr")).to_have_text("0099841")
    expect(section.get_by_role("button", name="Reconcile")).to_be_visible()
    assert page.evaluate("document.body.dataset.mark") == "the same document"


@pytest.mark.full
def test_what_is_lost_or_twice_is_named_also_on_a_phone(gateway: Traffic, stream: str, page: Page) -> None:
    for findings in (
        {"answer": "holds", "holds": True, "lost": 0, "records": {}},
        {
            "lost": 40_311,
            "twice": 1,
            "records": {"in_no_output": MANY, "written_twice": {"count": 1, "first": ["0/7"]}},
        },
    ):
        httpx.post(f"{gateway.url}/api/v1/streams/{stream}/reconciliations").raise_for_status()
        answer(gateway, stream, **findings)
    page.goto(f"{gateway.url}/desk/streams/{stream}")
    section = page.locator("#reconciliation")
    expect(section.locator(".state.stopped")).to_have_text(
        "40\u2009311 records are lost and 1 record is there twice"
    )
    rows = section.locator("#faults tbody tr")
    expect(rows.nth(0)).to_contain_text("0/1000000000000, 1/1000000000001")
    expect(rows.nth(0)).to_contain_text("40\u2009291 more")
    expect(rows.nth(1)).to_contain_text("0/7")
    section.get_by_text("Earlier reconciliations").click()
    expect(section.locator("#earlier tbody tr")).to_contain_text("Every offset has one fate")
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == 390


@pytest.mark.full
def test_who_may_not_pause_a_stream_finds_no_button(browser: Browser, tmp_path: Path) -> None:
    url = SecretStr(f"sqlite:///{tmp_path / 'guarded.db'}")
    factory = Factory(GatewaySettings(database_url=url, access="on", key_cache_seconds=0.0))
    found = {}
    for address in serve(factory):
        keys = {
            role: factory.keys().create("test", read_grants([f"{role}:hospital."]), MAKER)
            for role in ("producer", "approver")
        }
        job = keys["producer"]
        with httpx.Client(base_url=address, auth=(job.key_id, job.secret)) as http:
            for path, body in (("contracts", CONTRACT), ("streams/hospital.admissions/batches", REPORT)):
                http.post(f"/api/v1/{path}", json=body).raise_for_status()
        for role, key in keys.items():
            page = sign_in(browser, address, key, "/desk/streams/hospital.admissions")
            expect(page.get_by_role("heading", level=1)).to_have_text("hospital.admissions")
            found[role] = page.get_by_role("button", name="Reconcile").count()
            page.context.close()
    assert found == {"producer": 0, "approver": 1}
