"""One refused record: the right bytes are marked, nothing of it is markup, and what is classified stays hidden."""

from __future__ import annotations

import getpass
import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.traffic import ADMISSIONS, Refused, Traffic, admission, written
from tidegate.contracts.verdict import Severity, Stage, Violation

PAYLOAD = "<script>document.title='broken in'</script><img src=x onerror=alert(1)>\u202etxt\u200b"


@pytest.fixture
def contract(gateway: Traffic) -> dict[str, Any]:
    """A published contract whose stream has reported once, so that its quarantine topic is known."""
    name = f"adm-{uuid.uuid4().hex[:8]}"
    contract = {**ADMISSIONS, "id": name, "topic": name}
    gateway.publish(contract)
    gateway.report(name, at=datetime.now(UTC), records=10, lag_records=0)
    return contract


def refuse(gateway: Traffic, contract: dict[str, Any], *records: Refused) -> str:
    """Quarantine records; the address of the first one's page."""
    topic = f"{contract['id']}.quarantine"
    gateway.quarantine(topic, records, contract)
    return f"{gateway.url}/desk/records/{topic}/0/0"


def marked(page: Page) -> list[tuple[str, str]]:
    """The marked texts with the numbers of their violations, in order."""
    return [
        (
            "".join(mark.locator(":scope > span:not(.note)").all_inner_texts()),
            mark.get_attribute("data-violations") or "",
        )
        for mark in page.locator("mark.offending").all()
    ]


def test_reason_clause_and_marked_bytes(gateway: Traffic, contract: dict[str, Any], page: Page) -> None:
    record = admission(1, age=999, discharge_date="1900-01-01")
    page.goto(refuse(gateway, contract, Refused(written(record), source_offset=4711)))
    expect(page.get_by_role("heading", level=1)).to_have_text(f"{contract['id']}/0/4711")
    assert [" ".join(text.split()) for text in page.locator(".sentence").all_inner_texts()] == [
        "1 age is 999, a placeholder value",
        "2 discharge_date 1900-01-01 is not after 1900-01-01",
        "3 discharge_date 1900-01-01 is 46,297 days before admission_date 2026-10-04",
    ]
    assert page.locator(".passes").all_inner_texts() == [
        "Passes with any value but 999",
        "Passes with a value after 1900-01-01",
        "Passes with discharge_date not before admission_date",
    ]
    expect(page.locator("#violation-1 .why")).to_contain_text("999 stands for an unknown age")
    assert marked(page) == [("999", "1"), ('"2026-10-04"', "3"), ('"1900-01-01"', "2 3")]


@pytest.mark.parametrize(
    ("value", "sentence", "texts"),
    [
        (
            written(admission(1, age="42")),
            'age is the text "42", not a whole number',
            [('"42"', "1")],
        ),
        (
            written({key: value for key, value in admission(1).items() if key != "admission_id"}),
            "admission_id is missing",
            [("{", "1")],
        ),
        (
            b'{"admission_id": ]}',
            "The record is not JSON: it stops being JSON at line 1, column 18",
            [("hidden: the record cannot be read, and the contract classifies fields", "1")],
        ),
        (b"", "The value is empty", []),
        (None, "The value is null", []),
    ],
)
def test_each_kind_of_refusal_shows_its_place(
    gateway: Traffic,
    contract: dict[str, Any],
    page: Page,
    *,
    value: bytes | None,
    sentence: str,
    texts: list[tuple[str, str]],
) -> None:
    page.goto(refuse(gateway, contract, Refused(value, source_offset=1)))
    expect(page.locator(".sentence").first).to_contain_text(sentence)
    assert marked(page) == texts


def test_list_leads_to_the_record_and_filters_by_rule(
    gateway: Traffic, contract: dict[str, Any], page: Page
) -> None:
    now = datetime.now(UTC)
    refuse(
        gateway,
        contract,
        Refused(written(admission(1, age=999)), source_offset=10, timestamp=now - timedelta(hours=1)),
        Refused(written(admission(2, age="42")), source_offset=11, timestamp=now - timedelta(minutes=5)),
        Refused(b"{", source_offset=12, timestamp=now - timedelta(minutes=1)),
    )
    page.goto(f"{gateway.url}/desk/streams/{contract['id']}")
    rows = page.locator("#record-table tbody tr")
    expect(rows).to_have_count(3)
    assert [row.split("\t")[1:3] for row in rows.all_inner_texts()] == [
        ["–", f"{contract['id']}/0/12"],  # noqa: RUF001 - the dash that a table shows for nothing
        ["/age", f"{contract['id']}/1/11"],
        ["/age", f"{contract['id']}/0/10"],
    ]
    page.goto(f"{gateway.url}/desk/streams/{contract['id']}?rule=age-is-known")
    expect(rows).to_have_count(1)
    rows.first.click()
    page.wait_for_url(f"**/desk/records/{contract['id']}.quarantine/0/0")
    assert marked(page) == [("999", "1")]


def test_nothing_from_a_record_is_markup(gateway: Traffic, contract: dict[str, Any], page: Page) -> None:
    record = admission(1, age=999, ward=PAYLOAD, **{PAYLOAD: PAYLOAD})
    violation = Violation(Stage.RULE, PAYLOAD, f"/{PAYLOAD}", Severity.ERROR, PAYLOAD)
    address = refuse(
        gateway,
        contract,
        Refused(
            written(record),
            source_offset=1,
            violations=(violation,),
            key=PAYLOAD.encode(),
            headers=((PAYLOAD, PAYLOAD.encode()),),
        ),
    )
    for path in (address, f"{address}?view=hex", f"{gateway.url}/desk/streams/{contract['id']}"):
        page.goto(path)
        expect(page.locator("main")).to_contain_text("onerror" if "hex" not in path else "00000000")
        page.wait_for_load_state("networkidle")
        assert page.title() != "broken in"
        assert page.locator("main script, main img").count() == 0
    page.goto(address)
    expect(page.locator(".lines .odd").first).to_have_text("U+202E")


def test_classified_values_do_not_reach_the_browser(gateway: Traffic, contract: dict[str, Any]) -> None:
    whole = written(admission(7, age=999, patientid="SECRET under a misspelt name"))
    records = (
        Refused(whole, source_offset=1, key=b"SECRET-key", headers=(("origin", b"SECRET-header"),)),
        Refused(whole, source_offset=2),
        Refused(whole[: whole.index(b"LS1")], source_offset=3),
        Refused(whole.replace(b'"age"', b"age"), source_offset=4),
        Refused(json.dumps(whole.decode()).encode(), source_offset=5),
        Refused(b"[" + whole + b"]", source_offset=6),
    )
    address = refuse(gateway, contract, *records).removesuffix("/0/0")
    for at in range(len(records)):
        for view in ("formatted", "hex"):
            text = httpx.get(f"{address}/{at % 2}/{at // 2}?view={view}").text
            assert "Bars stand for values that this page does not show" in text
            assert "SECRET" not in text
            assert b"SECRET".hex(" ") not in text
            assert "53</b><b>45</b><b>43</b>" not in text


def test_a_reveal_shows_what_was_asked_for_and_stands_in_the_log(
    gateway: Traffic, contract: dict[str, Any], page: Page
) -> None:
    record = admission(7, age=999, note=4)
    address = refuse(
        gateway,
        contract,
        Refused(written(record), source_offset=1, key=b"KEY-1", headers=(("origin", b"HOSPITAL-9"),)),
    )
    page.goto(address)
    assert record["patient_id"] not in page.content()
    expect(page.locator("#violation-1 .sentence")).to_contain_text("note must be of type string")
    page.get_by_text("Show hidden values").click()
    boxes = page.locator(".hidden-parts label")
    assert [" ".join(text.split()) for text in boxes.all_inner_texts()] == [
        "/address/postcode pii",
        "/note pii",
        "/patient_id pii",
        "the producer's headers",
        "the record's key",
    ]
    before = httpx.get(f"{gateway.url}/api/v1/audit", params={"limit": 1000}).json()["entries"]
    boxes.get_by_text("/patient_id").click()
    boxes.get_by_text("/note").click()
    page.get_by_role("button", name="Show and log it").click()
    page.wait_for_url("**/reveal?view=formatted")
    expect(page.locator(".lines")).to_contain_text(record["patient_id"])
    expect(page.locator("#violation-1 .sentence")).to_contain_text("note is the number 4, not text")
    for still_hidden in ("LS1-SECRET", "KEY-1", "HOSPITAL-9"):
        assert still_hidden not in page.content()
    after = httpx.get(f"{gateway.url}/api/v1/audit", params={"limit": 1000}).json()["entries"]
    place = f"record:{contract['id']}.quarantine/0/0"
    assert [(one["action"], one["subject"], one["who"]) for one in after[len(before) :]] == [
        ("record.revealed", f"{place}#/note", f"local:{getpass.getuser()}"),
        ("record.revealed", f"{place}#/patient_id", f"local:{getpass.getuser()}"),
    ]
    page.get_by_role("link", name="Hide again").click()
    page.wait_for_url(f"{address}?view=formatted")
    assert record["patient_id"] not in page.content()
    page.goto(f"{address}/reveal")
    assert page.url == address


def test_a_record_that_cannot_be_read_is_revealed_as_a_whole(
    gateway: Traffic, contract: dict[str, Any], page: Page
) -> None:
    page.goto(refuse(gateway, contract, Refused(b'{"age": 1, "note": SECRET}', source_offset=1)))
    assert "SECRET" not in page.content()
    page.get_by_text("Show hidden values").click()
    page.get_by_label("the whole value").check()
    page.get_by_role("button", name="Show and log it").click()
    expect(page.locator(".lines")).to_contain_text("SECRET")


def test_masks_have_one_length(gateway: Traffic, contract: dict[str, Any], page: Page) -> None:
    record = admission(1, age=999, patient_id="P", note="n" * 500)
    page.goto(refuse(gateway, contract, Refused(written(record), source_offset=1)))
    widths = {mask.bounding_box()["width"] for mask in page.locator(".lines .mask").all()}  # type: ignore[index] # it is visible
    assert len(widths) == 1


def test_hex_view_marks_the_same_bytes(gateway: Traffic, contract: dict[str, Any], page: Page) -> None:
    page.goto(refuse(gateway, contract, Refused(written(admission(1, age=999)), source_offset=1)))
    page.get_by_role("link", name="Hex").click()
    page.wait_for_url("**view=hex")
    assert page.locator(".cells b.m").all_inner_texts() == ["39", "39", "39"]
    assert page.locator(".ascii b.m").all_inner_texts() == ["9", "9", "9"]


@pytest.mark.full
def test_two_megabytes_are_shown_around_their_marks(
    gateway: Traffic, contract: dict[str, Any], page: Page
) -> None:
    name = contract["id"]
    items = {"type": "array", "items": {"type": "object", "properties": {"i": {"type": "integer"}}}}
    schema = {
        **contract["schema"]["definition"],
        "properties": {**contract["schema"]["definition"]["properties"], "items": items},
    }
    wide = {**contract, "version": "2.0.0", "schema": {"type": "json-schema", "definition": schema}}
    gateway.publish(wide)
    record = admission(1, items=[{"i": at, "name": "x" * 30} for at in range(40_000)], age=999)
    record["items"][39_000]["i"] = "thirty-nine thousand"
    value = written(record)
    assert len(value) > 2_000_000
    # A busy machine takes longer than the usual limit to walk a record of this size.
    page.goto(refuse(gateway, wide, Refused(value, source_offset=1)), timeout=60_000)
    assert marked(page) == [("999", "2"), ('"thirty-nine thousand"', "1")]
    assert len(page.content()) < 100_000
    assert page.locator(".lines li").count() < 120
    assert page.evaluate("document.documentElement.scrollWidth") == 1280
    assert name in page.title()


def test_records_that_are_not_there_and_topics_that_are_not_ours(
    gateway: Traffic, contract: dict[str, Any]
) -> None:
    address = refuse(gateway, contract, Refused(b"{", source_offset=1)).removesuffix("/0/0")
    for path in (f"{address}/0/99", f"{address}/7/0", f"{gateway.url}/desk/records/__consumer_offsets/0/0"):
        answer = httpx.get(path)
        assert answer.status_code == 404
        assert "Not found" in answer.text
