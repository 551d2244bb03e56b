"""Problems and the records behind them, from a real topic: found, paged through, decided about, searched."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_streams import unique
from tests.browser.traffic import ADMISSIONS, Refused, Traffic, admission, written

INDEXED_MS = 60_000
"""Within which the registry has read what was quarantined."""


@pytest.fixture(scope="module")
def stream(gateway: Traffic) -> str:
    """A stream that refused 60 records of age 999 and three whose age is a text."""
    name = unique("adm")
    contract: dict[str, Any] = {**ADMISSIONS, "id": name, "topic": name}
    gateway.publish(contract)
    gateway.report(name, at=datetime.now(UTC), records=1000, quarantined=63)
    now = datetime.now(UTC)
    records = [
        Refused(
            written(admission(at, age=999)),
            source_offset=at,
            key=f"P-{at}".encode(),
            timestamp=now - timedelta(minutes=200 - at),
        )
        for at in range(60)
    ]
    records += [Refused(written(admission(at, age="42")), source_offset=at) for at in range(60, 63)]
    gateway.quarantine(f"{name}.quarantine", records, contract)
    return name


def opened(page: Page, address: str, expected: str, patience_ms: int = INDEXED_MS) -> None:
    """Open a page again and again until the index has what it should show."""
    page.goto(address)
    for _ in range(patience_ms // 500):
        if expected in page.locator("main").inner_text():
            return
        page.wait_for_timeout(500)
        page.goto(address)
    raise AssertionError(page.locator("main").inner_text())


@pytest.mark.full
def test_a_problem_is_found_and_all_its_records_are_paged_through(
    gateway: Traffic, stream: str, page: Page
) -> None:
    opened(page, f"{gateway.url}/desk/streams/{stream}/problems", "in 63 refused records")
    rows = page.locator("#problems tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("age-is-known at /age")
    rows.first.get_by_role("link").first.click()
    page.get_by_role("link", name="All 60 records").click()
    page.wait_for_url("**/quarantine?problem=**")
    seen = set()
    for count in (50, 10):
        table = page.locator("table.records tbody tr")
        expect(table).to_have_count(count)
        seen |= {row.get_attribute("id") for row in table.all()}
        if count == 50:
            page.get_by_role("link", name="Older", exact=True).click()
            page.wait_for_url("**older=**")
    assert len(seen) == 60
    page.get_by_role("link", name="Newer", exact=True).click()
    expect(page.locator("table.records tbody tr")).to_have_count(50)

    page.locator("table.records .open").first.click()
    first = page.get_by_role("heading", level=1).inner_text()
    page.keyboard.press("j")
    page.wait_for_function("title => document.querySelector('h1').innerText !== title", arg=first)
    assert "problem=" in page.url
    expect(page.locator(".sentence").first).to_contain_text("age is 999")
    page.keyboard.press("k")
    expect(page.get_by_role("heading", level=1)).to_have_text(first)


@pytest.mark.full
def test_people_decide_about_a_problem(gateway: Traffic, stream: str, page: Page) -> None:
    opened(page, f"{gateway.url}/desk/streams/{stream}/problems?q=type", "/age")
    page.locator("#problems .open").first.click()
    page.get_by_role("button", name="Acknowledge").click()
    expect(page.locator(".head .tag")).to_have_text("acknowledged")
    page.get_by_role("button", name="Assign to me").click()
    expect(page.locator(".figures")).to_contain_text("anonymous")
    page.get_by_role("textbox", name="Comment").fill("<b>asked the lab</b>")
    page.get_by_role("button", name="Comment").click()
    expect(page.locator(".comment-text")).to_have_text("<b>asked the lab</b>")
    page.get_by_text("Mute", exact=True).first.click()
    page.get_by_label("Or until so many further records").fill("5")
    page.get_by_role("button", name="Mute").click()
    expect(page.locator(".head .tag")).to_have_text("muted")
    expect(page.locator("main")).to_contain_text("Muted, for 5 further records.")
    page.get_by_text("Resolve", exact=True).first.click()
    page.get_by_role("button", name="Resolve").click()
    expect(page.locator(".head .tag")).to_have_text("resolved")
    page.goto(f"{gateway.url}/desk/streams/{stream}/problems")
    expect(page.locator("#problems tbody tr")).to_have_count(1)


@pytest.mark.full
def test_a_record_is_found_by_key_and_by_position(gateway: Traffic, stream: str, page: Page) -> None:
    address = f"{gateway.url}/desk/streams/{stream}/quarantine"
    opened(page, address, "63")
    for field, value in (("Find by key", "P-7"), ("or by source partition/offset", "1/7")):
        page.goto(address)
        page.get_by_label(field).fill(value)
        page.get_by_role("button", name="Find").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("1 record of")
        assert "P-7" not in page.url
        page.locator("#found .open").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(f"{stream}/1/7")
    page.goto(f"{address}?rule=type")
    expect(page.locator("table.records tbody tr")).to_have_count(3)
    page.get_by_title("Remove this filter").click()
    expect(page.locator("table.records tbody tr")).to_have_count(50)


def test_a_classified_value_is_in_no_page_of_records_and_in_no_download(
    gateway: Traffic, stream: str, page: Page
) -> None:
    opened(page, f"{gateway.url}/desk/streams/{stream}/quarantine?rule=type", "3 of 63")
    text = httpx.get(page.url).text
    with page.expect_download() as downloading:
        page.get_by_role("button", name="Download").click()
    rows = downloading.value.path().read_text()
    assert downloading.value.suggested_filename == f"{stream}.quarantine.csv"
    assert rows.count("\n") == 4
    for shown in (text, rows):
        assert not re.search("SECRET|P-[0-9]", shown)


@pytest.mark.full
def test_a_value_is_searched_within_a_filter_and_the_search_is_followed(
    gateway: Traffic, stream: str, page: Page
) -> None:
    """The text stands in no address and on no page after it; an ended search offers no way to cancel it."""
    opened(page, f"{gateway.url}/desk/streams/{stream}/quarantine?rule=age-is-known", "60 of 63")
    page.get_by_label("Search keys and values of these for a text").fill("P-SECRET-000007")
    page.get_by_role("button", name="Search").click()
    page.wait_for_url("**/quarantine/searches/*")
    expect(page.locator("#search .state")).to_have_text("Done", timeout=60_000)  # the page follows it
    expect(page.get_by_role("heading", level=1)).to_have_text("1 record found")
    expect(page.locator("#search")).to_contain_text("60 of 60 records looked at")
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    assert "SECRET" not in page.content() + page.url
    page.locator("#found .open").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"{stream}/1/7")
    page.goto(f"{gateway.url}/desk/streams/{stream}/quarantine/searches")
    row = page.locator("#searches tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("Done")
