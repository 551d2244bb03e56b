"""Every page passes axe-core, in both themes and at every width, and none is wider than its window."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page

from tests.browser.test_problems import opened
from tests.browser.test_streams import unique
from tests.browser.traffic import ADMISSIONS, Refused, Traffic, admission, written
from tidegate.contracts.verdict import Severity, Stage

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text()
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
EXPECTATIONS = [
    {
        "id": f"plausible-{outcome}",
        "type": "expect_column_mean_to_be_between",
        "columns": ["age"],
        "outcome": outcome,
        "judged_by": "tidegate",
        "considered": 98_000,
        "observed": 41.5,
    }
    for outcome in ("met", "warned", "quarantined", "skipped")
]
"""Results of a table that show every outcome."""


@pytest.fixture(scope="module")
def paths(gateway: Traffic, browser: Browser) -> list[str]:
    """The addresses of every page, with something on each."""
    name = unique("axe")
    contract = {**ADMISSIONS, "id": name, "topic": name, "domain": "hospital"}
    gateway.publish(contract)
    gateway.publish({**contract, "version": "1.3.0", "status": "draft", "rules": ADMISSIONS["rules"][1:]})
    gateway.day_of_admissions(name, hours=2)
    records = [Refused(written(admission(at, age=999)), source_offset=at) for at in range(4)]
    gateway.quarantine(f"{name}.quarantine", records, contract)
    gateway.audit(name, rows=40_000, refused=20)
    audit = gateway.audit(name, rows=98_000, refused=640, unreadable=3, expectations=EXPECTATIONS)
    page = browser.new_page()
    opened(page, f"{gateway.url}/desk/streams/{name}/problems", "age-is-known at /age")
    problem = page.locator("#problems .open").first.get_attribute("href") or ""
    page.close()
    stream = f"/desk/streams/{name}"
    searches = f"{gateway.url}/api/v1/streams/{name}/quarantine/searches"
    search = httpx.post(searches, json={"value": "999"}).raise_for_status().json()["id"]
    since = (datetime.now(UTC) - timedelta(minutes=30)).strftime("%Y-%m-%dT%H:%M")
    return [
        stream,
        "/desk",
        problem,
        f"/desk/contracts/{name}",
        f"/desk/contracts/{name}/table-audits/{audit.id}",
        f"/desk/records/{name}.quarantine/0/0",
        f"{stream}?rule=age-is-known&show=share&from={since}&to={datetime.now(UTC):%Y-%m-%dT%H:%M}",
        f"{stream}/latest",
        *(f"{stream}/actions/{each}" for each in ("pause", "resume", "accept-batch", "reconcile", "shadow")),
        *(f"{stream}/actions/{each}" for each in ("promote", "rewind")),
        "/desk/problems",
        f"{stream}/problems?state=all",
        f"{stream}/quarantine?rule=age-is-known",
        f"{stream}/quarantine/searches",
        f"{stream}/quarantine/searches/{search}",
        f"/desk/records/{name}.quarantine/0/0?view=hex",
        "/desk/contracts?q=axe",
        f"/desk/contracts/{name}/diff?candidate=1.3.0",
        "/desk/audit",
        "/desk/keys",
        "/desk/me",
        "/desk/sign-in",
        "/desk/nothing",
    ]


def violations(page: Page) -> list[str]:
    """What axe-core finds on the page that is open."""
    page.evaluate(AXE)
    found = page.evaluate("rules => axe.run(document, {runOnly: rules})", RULES)
    return [f"{each['id']}: {node['target']}" for each in found["violations"] for node in each["nodes"]]


def faults(browser: Browser, url: str, paths: list[str], width: int, theme: str) -> dict[str, list[str]]:
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if theme == "dark" else "light"
    )
    page = context.new_page()
    found = {}
    for path in paths:
        page.goto(f"{url}{path}")
        for details in page.locator("details").all():
            details.evaluate("one => { one.open = true; }")
        found[path] = violations(page)
        if (wide := page.evaluate("document.documentElement.scrollWidth")) > width:
            found[path].append(f"{wide} pixels wide")
    context.close()
    return {path: each for path, each in found.items() if each}


@pytest.mark.full
def test_the_main_pages_are_accessible(gateway: Traffic, browser: Browser) -> None:
    name = unique("axe")
    rules = [(Stage.RULE, "age-is-known", Severity.ERROR, 30)]
    gateway.report(name, at=datetime.now(UTC), records=1_000, quarantined=30, rules=rules)
    assert faults(browser, gateway.url, [f"/desk/streams/{name}", "/desk"], 1280, "light") == {}


@pytest.mark.full
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 768, 1280, 1920])
def test_every_page_is_accessible(
    gateway: Traffic, paths: list[str], browser: Browser, width: int, theme: str
) -> None:
    assert faults(browser, gateway.url, paths, width, theme) == {}
