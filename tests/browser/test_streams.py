"""The list of streams and the page of one: what they show is what was reported."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect
from typer.testing import CliRunner

from tests.browser.traffic import ADMISSIONS, Traffic
from tidegate.contracts.verdict import Severity, Stage
from tidegate.gateway.cli.main import app

AGE = (Stage.RULE, "age-is-known", Severity.ERROR)
TYPE = (Stage.SCHEMA, "type", Severity.ERROR)
ICU = (Stage.RULE, "icu-has-consultant", Severity.WARNING)


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def stream(gateway: Traffic) -> str:
    """A stream of three batches in the last hour."""
    name = unique("adm")
    now = datetime.now(UTC)
    gateway.report(name, at=now - timedelta(minutes=40), records=1000, quarantined=30, rules=[(*AGE, 30)])
    gateway.report(
        name,
        at=now - timedelta(minutes=20),
        records=2000,
        quarantined=50,
        warned=9,
        rules=[(*AGE, 20), (*TYPE, 35), (*ICU, 9)],
    )
    gateway.report(name, at=now - timedelta(seconds=10), records=500, lag_records=12)
    return name


def test_list_shows_what_was_reported(gateway: Traffic, stream: str, page: Page) -> None:
    page.goto(f"{gateway.url}/desk")
    row = page.locator(f"tr[id='stream-{stream}']")
    expect(row.locator(".state")).to_have_text("As usual")
    expect(row.locator(".sub")).to_have_text("Patient flow")
    expect(row.locator("td").nth(1)).to_have_text("2.0%")
    expect(row.locator("td").nth(2)).to_have_text("3.0%")
    expect(row.locator("td").nth(5)).to_have_text("12")
    expect(row.get_by_role("img")).to_have_attribute("aria-label", "80 refused in 24 hours")


def test_chart_table_and_numbers_agree(gateway: Traffic, stream: str, page: Page) -> None:
    page.goto(f"{gateway.url}/desk/streams/{stream}?range=1h")
    rows = page.locator("#rule-table tbody tr")
    assert [
        [" ".join(cell.split()) for cell in row.locator("th, td").all_inner_texts()[:3]] for row in rows.all()
    ] == [
        ["age-is-known", "rule", "50"],
        ["type A value has another type than the schema allows", "schema", "35"],
        ["icu-has-consultant warned", "rule", "9"],
    ]
    columns = [
        json.loads(column.get_attribute("data-counts") or "")
        for column in page.locator("#chart .column").all()
        if column.get_attribute("data-total") != "0"
    ]
    assert columns == [[["age-is-known", 1, 30]], [["type", 2, 35], ["age-is-known", 1, 20]]]
    page.get_by_text("Chart as a table").click()
    assert [row.split("\t")[1:] for row in page.locator("#chart tbody tr").all_inner_texts()] == [
        ["age-is-known", "30"],
        ["type", "35"],
        ["age-is-known", "20"],
    ]
    bars = page.locator("#chart .column:has(.bar)").last.locator(".bar")
    heights = [float(bar.get_attribute("height") or 0) for bar in bars.all()]
    assert heights[1] / heights[0] == pytest.approx(35 / 20, rel=0.01)
    figure = page.locator("#figures > div").first.inner_text()
    assert figure.split("\n") == ["Refused", "80", "of 3\u2009500 in the last 1\u2009h"]
    batches = page.locator("#batches tbody tr")
    expect(batches).to_have_count(3)
    assert batches.nth(1).locator("td").all_inner_texts()[3:8] == ["2\u2009000", "9", "50", "2.5%", "type"]


def test_tooltip_has_the_exact_numbers(gateway: Traffic, stream: str, page: Page) -> None:
    page.goto(f"{gateway.url}/desk/streams/{stream}?range=1h")
    page.locator("#chart .column:has(.bar)").last.hover()
    assert page.locator("#tip li").all_inner_texts() == [
        "type\n35",
        "age-is-known\n20",
        "together\n55",
        "of all records (2.8 %)\n2\u2009000",
    ]
    page.locator("#chart svg[data-chart]").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#tip")).to_contain_text("nothing refused")


def test_rule_filter_is_in_the_address_and_changes_everything(
    gateway: Traffic, stream: str, page: Page
) -> None:
    page.goto(f"{gateway.url}/desk/streams/{stream}?range=1h")
    page.locator("#rule-table").get_by_role("link", name="type").click()
    page.wait_for_url(f"**/desk/streams/{stream}?range=1h&rule=type")
    assert [
        json.loads(column.get_attribute("data-counts") or "")
        for column in page.locator("#chart .column:has(.bar)").all()
    ] == [[["type", 2, 35]]]
    expect(page.locator("#batches tbody tr")).to_have_count(1)
    expect(page.locator("tr.chosen")).to_contain_text("type")
    page.get_by_title("Show all rules").click()
    page.wait_for_url(f"**/desk/streams/{stream}?range=1h")
    expect(page.locator("#batches tbody tr")).to_have_count(3)


def test_a_span_is_zoomed_by_drag_and_stands_in_the_address(
    gateway: Traffic, stream: str, page: Page
) -> None:
    page.goto(f"{gateway.url}/desk/streams/{stream}?range=1h&rule=type")
    columns = page.locator("#chart .column")
    first, last = columns.nth(30), columns.nth(50)
    since, until = first.get_attribute("data-from"), last.get_attribute("data-to")
    for column, press in ((first, page.mouse.down), (last, page.mouse.up)):
        box = column.locator(".hit").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
        press()
    page.wait_for_url("**from=**")
    address = httpx.URL(page.url).params
    assert (address["from"], address["to"], address["rule"]) == (since, until, "type")
    expect(page.locator("#figures > div").first).to_contain_text("in the chosen 21\u2009min")
    expect(page.locator("#ranges [aria-current]")).to_have_count(0)


def test_search_and_shortcuts_by_keyboard(gateway: Traffic, stream: str, page: Page) -> None:
    page.goto(f"{gateway.url}/desk")
    page.keyboard.press("?")
    expect(page.locator("#shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#shortcuts")).to_be_hidden()
    page.keyboard.press("/")
    expect(page.locator("[data-search]")).to_be_focused()
    page.keyboard.type(stream)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**q={stream}**")
    expect(page.locator("#streams tbody tr")).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/desk/streams/{stream}")


def test_local_time_is_shown_with_utc(gateway: Traffic, stream: str, browser: Browser) -> None:
    context = browser.new_context(timezone_id="Asia/Kolkata", locale="en-GB")
    page = context.new_page()
    gateway.publish({**ADMISSIONS, "id": stream, "topic": stream, "version": "3.0.0"})
    page.goto(f"{gateway.url}/desk/audit")
    time = page.locator("#audit time[data-local]").first
    utc = datetime.fromisoformat(time.get_attribute("datetime") or "")
    local = utc.astimezone(ZoneInfo("Asia/Kolkata"))
    assert f"{local:%H:%M:%S}" in (page.locator("#audit .local").first.text_content() or "")
    context.close()


def test_nothing_that_decides_vanishes_on_a_tablet(gateway: Traffic, stream: str, page: Page) -> None:
    page.set_viewport_size({"width": 768, "height": 900})
    page.goto(f"{gateway.url}/desk?q={stream}")
    heads = [text.split("\n")[0] for text in page.locator("#streams thead th:visible").all_inner_texts()]
    for head in ("Stream", "State", "Refused, 30 min", "Usual, 24 h", "In", "Lag"):
        assert head in heads
    assert page.evaluate("document.documentElement.scrollWidth") == 768


def test_range_is_in_the_address(gateway: Traffic, stream: str, page: Page) -> None:
    page.goto(f"{gateway.url}/desk/streams/{stream}")
    expect(page.locator("#ranges [aria-current]")).to_have_text("1h")
    page.locator("#ranges").get_by_role("link", name="15m").click()
    page.wait_for_url(f"**/desk/streams/{stream}?range=15m")
    expect(page.locator(".empty-chart")).to_have_text("No refusals in the last 15\u2009min")


def test_new_reports_appear_without_a_reload(gateway: Traffic, stream: str, page: Page) -> None:
    page.goto(f"{gateway.url}/desk/streams/{stream}?range=1h")
    page.evaluate("document.body.dataset.mark = 'the same document'")
    gateway.report(stream, at=datetime.now(UTC), records=700, quarantined=7, rules=[(*AGE, 7)])
    expect(page.locator("#rule-table tbody tr").first).to_contain_text("57", timeout=20_000)
    expect(page.locator("#batches tbody tr")).to_have_count(4)
    assert page.evaluate("document.body.dataset.mark") == "the same document"


def test_tables_are_walked_with_the_keyboard(gateway: Traffic, stream: str, page: Page) -> None:
    page.goto(f"{gateway.url}/desk/streams/{stream}?range=1h")
    links = page.locator("#rule-table .open")
    page.keyboard.press("ArrowDown")
    expect(links.nth(0)).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(links.nth(1)).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_url("**rule=age-is-known")


def test_silent_stream_says_so(gateway: Traffic, page: Page) -> None:
    name = unique("silent")
    gateway.report(name, at=datetime.now(UTC) - timedelta(minutes=12), records=10, lag_records=18_234)
    page.goto(f"{gateway.url}/desk/streams/{name}")
    expect(page.locator("#notice")).to_have_text(
        "The job last reported 12\u2009min ago, with 18\u2009234 records waiting. Is it running?"
    )


def test_desk_without_streams_says_how_to_start(
    gateway_with: Callable[[str | None], Traffic], page: Page
) -> None:
    page.goto(f"{gateway_with(None).url}/desk")
    expect(page.get_by_role("heading", name="No stream has reported yet")).to_be_visible()
    command = page.get_by_role("main").locator("pre")
    expect(command).to_have_text(
        "tidegate enforce --all --bootstrap-servers HOST:PORT --registry http://HOST:PORT"
    )
    verb, *options = re.findall(r"enforce|--[a-z-]+", command.inner_text())
    known = CliRunner().invoke(app, [verb, "--help"], env={"TERM": "dumb", "COLUMNS": "200"})
    assert known.exit_code == 0
    assert [option for option in options if option not in known.output] == []
    expect(page.get_by_role("main")).to_contain_text("tidegate demo")


def test_without_a_broker_setting_the_records_say_so(
    gateway_with: Callable[[str | None], Traffic], page: Page
) -> None:
    gateway = gateway_with(None)
    gateway.report("adm", at=datetime.now(UTC), records=10, quarantined=1, rules=[(*AGE, 1)])
    page.goto(f"{gateway.url}/desk/streams/adm")
    expect(page.get_by_role("heading", name="No broker is set")).to_be_visible()


@pytest.mark.full
def test_without_a_broker_the_page_is_shown(
    gateway_with: Callable[[str | None], Traffic], page: Page
) -> None:
    gateway = gateway_with("127.0.0.1:9")
    gateway.report("adm", at=datetime.now(UTC), records=10, quarantined=1, rules=[(*AGE, 1)])
    page.goto(f"{gateway.url}/desk/streams/adm")
    expect(page.get_by_role("heading", name="The broker does not answer")).to_be_visible()
    expect(page.locator("#rule-table tbody tr")).to_have_count(1)
    answer = httpx.get(f"{gateway.url}/desk/records/adm.quarantine/0/0")
    assert answer.status_code == 503
    assert "No answer" in answer.text


def test_dark_and_light_come_from_one_sheet(gateway: Traffic, stream: str, page: Page) -> None:
    page.goto(f"{gateway.url}/desk/streams/{stream}")
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    sheets = "[...document.styleSheets].map((one) => one.href)"
    page.emulate_media(color_scheme="light")
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    light = page.evaluate(sheets)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(ground) == "rgb(16, 18, 22)"
    assert len(light) == 1
    assert page.evaluate(sheets) == light


def test_pages_fit_a_phone_and_name_their_parts(gateway: Traffic, stream: str, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    for path in ("/desk", f"/desk/streams/{stream}", "/desk/contracts"):
        page.goto(f"{gateway.url}{path}")
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
        expect(page.get_by_role("main")).to_have_count(1)
        unnamed = "[...document.querySelectorAll('a, button')].filter((one) => !one.textContent.trim() && !one.ariaLabel)"
        assert page.evaluate(f"{unnamed}.map((one) => one.outerHTML)") == []


def test_long_rule_ids_stay_on_the_page(gateway: Traffic, page: Page) -> None:
    name = unique("long")
    code = "r" * 80
    gateway.report(
        name, at=datetime.now(UTC), records=10, quarantined=1, rules=[(Stage.RULE, code, Severity.ERROR, 1)]
    )
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(f"{gateway.url}/desk/streams/{name}")
        expect(page.locator("#rule-table")).to_contain_text(code)
        assert page.evaluate("document.documentElement.scrollWidth") == width


def test_contract_page_has_versions_rules_and_the_document(gateway: Traffic, page: Page) -> None:
    name = unique("contract")
    contract = {**ADMISSIONS, "id": name, "topic": name}
    gateway.publish(contract)
    gateway.publish({**contract, "version": "1.3.0"})
    page.goto(f"{gateway.url}/desk/contracts")
    page.get_by_role("link", name=name).click()
    expect(page.locator("#versions tbody th")).to_have_text(["1.3.0", "1.2.0"])
    expect(page.locator(".rule-list li").first).to_contain_text("age-is-known")
    expect(page.locator(".code")).to_contain_text("id: not-the-epoch")
    expect(page.locator(".code")).to_contain_text("version: 1.3.0")
    page.get_by_role("link", name="1.2.0").click()
    page.wait_for_url(f"**/desk/contracts/{name}?version=1.2.0")
    expect(page.locator(".code")).to_contain_text("version: 1.2.0")


def test_assets_are_kept_for_ever_and_errors_are_pages(gateway: Traffic) -> None:
    desk = httpx.get(f"{gateway.url}/desk")
    assert "default-src 'none'" in desk.headers["content-security-policy"]
    assert "unsafe" not in desk.headers["content-security-policy"]
    sheet = desk.text.split('rel="stylesheet" href="')[1].split('"')[0]
    assert (
        httpx.get(f"{gateway.url}{sheet}").headers["cache-control"] == "public, max-age=31536000, immutable"
    )
    for path in (
        "/desk/streams/nowhere",
        "/desk/static/0/desk.css",
        "/desk/records/x/y/z",
        "/desk/contracts/no",
    ):
        answer = httpx.get(f"{gateway.url}{path}")
        assert answer.status_code == 404
        assert answer.headers["content-type"].startswith("text/html")
