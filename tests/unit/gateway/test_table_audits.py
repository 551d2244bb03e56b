"""Audits of tables: kept with who sent them, bounded, and shown on the desk without a value."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import orjson
import pytest
from pydantic import ValidationError

from tests.unit.gateway.quarantine_records import Process, refused
from tidegate.contracts.errors import ConflictError, NotFoundError
from tidegate.contracts.stream.table_audit import TableAudit
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.native.table_audits import TABLE_AUDIT
from tidegate.gateway.storage import table_audits as storage
from tidegate.gateway.storage.audit_chain import content_hash
from tidegate.gateway.streams.table_audits import TableAudits

MakeContract = Callable[..., bytes]
MakeAudit = Callable[..., TableAudit]
CONTRACT = "hospital.admissions"
PATH = f"/api/v1/contracts/{CONTRACT}/table-audits"
NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
AGE = {"stage": "rule", "code": "age-is-known", "severity": "error"}
PLAUSIBLE = {
    "id": "plausible-age",
    "type": "expect_column_mean_to_be_between",
    "kwargs": {"column": "age", "min_value": 20, "max_value": 60},
}
RESULT = {
    "id": "plausible-age",
    "type": "expect_column_mean_to_be_between",
    "columns": ["age"],
    "outcome": "quarantined",
    "judged_by": "tidegate",
    "considered": 900,
    "observed": 71.5,
}


@pytest.fixture(autouse=True)
def fingerprint(factory: Factory, make_contract: MakeContract) -> str:
    document = make_contract(expectations=[PLAUSIBLE])
    return factory.registry().publish(document, "contract.json").version.fingerprint


@pytest.fixture
def make_audit(fingerprint: str) -> MakeAudit:
    """Return a new audit of 1,000 rows, of which `refused` are refused by one rule."""

    def make(*, refused: int = 0, rows: int = 1000, **changes: Any) -> TableAudit:
        values = {
            "id": uuid4(),
            "contract": f"{CONTRACT}@1.2.0",
            "fingerprint": fingerprint,
            "table": "iceberg:hospital.admissions",
            "is_whole": True,
            "version": "5920174638201947365",
            "rows": rows,
            "refused": refused,
            "unreadable": 0,
            "dispositions": {"accepted": rows - refused, "quarantined": refused},
            "violations": [{**AGE, "records": refused}] if refused else [],
            "expectations": [],
        }
        return TableAudit.model_validate({**values, **changes})

    return make


def page_of(audit: TableAudit) -> str:
    return f"/desk/contracts/{CONTRACT}/table-audits/{audit.id}"


def body_of(audit: TableAudit, **changes: Any) -> bytes:
    return orjson.dumps({**audit.model_dump(mode="json"), **changes})


def test_an_audit_is_kept_once_and_is_an_entry_in_the_audit_log(
    client: Any, factory: Factory, make_audit: MakeAudit
) -> None:
    audit = make_audit(refused=3)
    assert [client.post(PATH, body_of(audit)).status_code for _ in range(2)] == [201, 200]
    (entry,) = [
        each for each in factory.audit().page(0, 100, None).entries if each.action == "contract.table-audited"
    ]
    assert (entry.who, entry.subject) == ("anonymous", f"{CONTRACT}-value")
    assert entry.after == content_hash(audit.model_dump(mode="json"))
    answer = client.get(f"{PATH}/{audit.id}").json()
    assert (answer["by"], answer["audit"]) == ("anonymous", audit.model_dump(mode="json"))


def test_audits_are_listed_newest_first_by_table(client: Any, make_audit: MakeAudit) -> None:
    for count, table in ((1, "a"), (2, "b"), (3, "a")):
        assert client.post(PATH, body_of(make_audit(refused=count, table=table))).status_code == 201
    listed = client.get(PATH).json()
    assert ([each["refused"] for each in listed["audits"]], listed["total"]) == ([3, 2, 1], 3)
    of_table = client.get(f"{PATH}?table=a&limit=1").json()
    assert ([each["refused"] for each in of_table["audits"]], of_table["total"]) == ([3], 2)
    assert client.get(f"{PATH}?limit=501").status_code == 422


def test_an_audit_by_what_is_not_published_is_refused(
    client: Any, factory: Factory, make_audit: MakeAudit
) -> None:
    audit = make_audit()
    changes = {
        "contract": (f"{CONTRACT}@9.9.9", "is not published here"),
        "fingerprint": ("0" * 64, "is published with other content"),
    }
    for name, (value, message) in changes.items():
        answer = client.post(PATH, body_of(audit, **{name: value}))
        assert (answer.status_code, message in answer.json()["detail"]) == (409, True)
    elsewhere = client.post(PATH, body_of(audit, contract="other@1.2.0"))
    assert (elsewhere.status_code, "post the audit there" in elsewhere.json()["detail"]) == (409, True)
    other = "/api/v1/contracts/other/table-audits"
    assert client.post(other, body_of(audit, contract="other@1.2.0")).status_code == 404
    assert [client.get(path).status_code for path in (other, f"{PATH}/{audit.id}")] == [404, 404]
    assert client.get(f"{PATH}/x").status_code == 422
    factory.table_audits().keep(CONTRACT, audit)
    with pytest.raises(ConflictError, match="another audit was kept"):
        factory.table_audits().keep(CONTRACT, make_audit(id=audit.id, rows=2))
    with pytest.raises(NotFoundError):
        factory.table_audits().get(CONTRACT, uuid4())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": 11}, "rows is not the sum of dispositions"),
        ({"refused": 1}, "refused is not the sum"),
        ({"violations": [{**AGE, "records": 11}]}, "more rows than there are"),
        ({"violations": [{**AGE, "records": 1}] * 2}, "counted twice"),
        ({"expectations": [RESULT] * 2}, "stands twice"),
        ({"dispositions": {"later": 10}}, "rows is not the sum of dispositions"),
        ({"rows": 2**63}, "rows"),
        ({"table": "t" * 5001}, "table"),
        ({"table": ""}, "table"),
        ({"reason": "r" * 1001}, "reason"),
        ({"violations": [{**AGE, "code": f"r{n}", "records": 1} for n in range(2001)]}, "violations"),
    ],
)
def test_an_audit_that_contradicts_itself_or_its_bounds_is_refused(
    client: Any, make_audit: MakeAudit, change: dict[str, Any], message: str
) -> None:
    audit = make_audit(rows=10)
    with pytest.raises(ValidationError, match=message):
        TableAudit.model_validate({**audit.model_dump(), **change})
    assert client.post(PATH, body_of(audit, **change)).status_code == 422


def test_a_text_that_no_database_keeps_is_refused(client: Any, make_audit: MakeAudit) -> None:
    assert client.post(PATH, body_of(make_audit(), table="a\0b")).status_code == 422


def test_old_audits_give_way_to_new_ones_and_a_busy_table_leaves_room_for_others(
    factory: Factory, make_audit: MakeAudit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "AUDITS_OF_TABLE_KEPT", 3)
    monkeypatch.setattr(storage.TableAuditStore, "_kept", 5)
    clock = NOON
    book = TableAudits(factory.database, 30 * DAY, lambda: clock)

    def kept() -> list[str]:
        return [each.table_name for each in book.all(CONTRACT)]

    book.keep(CONTRACT, make_audit(table="weekly"))
    for _ in range(10):
        book.keep(CONTRACT, make_audit(table="busy"))
    assert kept() == ["busy"] * 3 + ["weekly"]
    for number in range(10):
        book.keep(CONTRACT, make_audit(table=f"many{number}"))
    assert kept() == [f"many{number}" for number in (9, 8, 7, 6, 5)]
    clock = NOON + 31 * DAY
    book.keep(CONTRACT, make_audit(table="later"))
    assert kept() == ["later"]


def test_the_page_of_the_contract_shows_the_last_audit_of_each_table_and_its_trend(
    client: Any, factory: Factory, make_audit: MakeAudit
) -> None:
    page = f"/desk/contracts/{CONTRACT}"
    assert "Audited tables" not in client.get(page).text
    book = factory.table_audits()
    steady, worse, better, first = (
        [make_audit(table=table, refused=refused) for refused in counts]
        for table, counts in (("steady", (2, 2)), ("worse", (2, 30)), ("better", (30, 2)), ("first", (9,)))
    )
    for audit in (*steady, *worse, *better, *first):
        book.keep(CONTRACT, audit)
    # An audit of no rows, as of a table without new ones, is no audit to compare with.
    empty = make_audit(table="worse", rows=0, is_whole=False)
    last = make_audit(table="worse", refused=50)
    for audit in (empty, last):
        book.keep(CONTRACT, audit)
    text = client.get(page).text
    assert text.index('"mono">worse<') < text.index('"mono">first<') < text.index('"mono">better<')
    assert text.count('<tr id="audit-') == 4
    assert page_of(last) in text
    assert page_of(empty) not in text
    assert '<span class="refused small">up from 3.0\u2009%</span>' in text
    assert '<span class="muted small">down from 3.0\u2009%</span>' in text
    assert '<span class="muted small">as before</span>' in text
    assert '<span class="muted small">first audit</span>' in text


def test_the_page_of_an_audit_leads_to_rules_and_problems_and_compares(
    client: Any, factory: Factory, make_audit: MakeAudit
) -> None:
    book = factory.table_audits()
    stay = {"stage": "rule", "code": "stay-not-negative", "severity": "error"}
    before = make_audit(
        refused=10,
        violations=[{**AGE, "records": 4}, {**stay, "records": 6}],
        expectations=[{**RESULT, "outcome": "met", "observed": 40.25}],
    )
    audit = make_audit(
        refused=20,
        unreadable=7,
        is_whole=False,
        since="41",
        version="42",
        violations=[
            {**AGE, "records": 20},
            {"stage": "schema", "code": "minimum", "severity": "error", "records": 2},
        ],
        expectations=[
            RESULT,
            {
                **RESULT,
                "id": "median",
                "outcome": "skipped",
                "judged_by": "great_expectations",
                "observed": None,
            },
        ],
    )
    book.keep(CONTRACT, before)
    book.keep(CONTRACT, audit)
    text = client.get(page_of(audit)).text
    assert (
        'added after version <code class="mono">41</code>, up to version <code class="mono">42</code>' in text
    )
    assert f'href="{page_of(before)}">the audit of ' in text
    assert "up from 1.0\u2009%" in text
    rule = f'href="/desk/contracts/{CONTRACT}?version=1.2.0#rule-age-is-known"'
    assert text.index(rule) < text.index(">minimum<") < text.index(">stay-not-negative<")
    assert "A number is too small" in text, "the words of a keyword"
    assert ">7</span><small>not judged" in text
    assert 'min value <code class="mono">20</code>, max value <code class="mono">60</code>' in text
    assert '<span class="tag refused">not met</span>' in text
    assert "met, 40.25" in text
    assert "only a job computes it, with Great Expectations" in text
    assert "problems?state=all" not in text, "the stream has none"
    assert 'id="rule-age-is-known"' in client.get(f"/desk/contracts/{CONTRACT}?version=1.2.0").text


def test_a_rule_leads_to_the_problems_of_the_stream(
    client: Any, factory: Factory, make_audit: MakeAudit
) -> None:
    records = [refused(offset, contract=CONTRACT, topic=CONTRACT) for offset in range(3)]
    Process(factory, "one", stream=CONTRACT).ingest(records)
    audit = make_audit(refused=2)
    factory.table_audits().keep(CONTRACT, audit)
    address = f"/desk/streams/{CONTRACT}/problems?state=all&amp;q=age-is-known"
    assert f'<a href="{address}">1 problem</a>' in client.get(page_of(audit)).text
    assert "age-is-known at /age" in client.get(address.replace("&amp;", "&")).text


def test_the_page_of_an_audit_is_bounded(client: Any, factory: Factory, make_audit: MakeAudit) -> None:
    counts = [{**AGE, "code": f"rule-{n}", "records": 2000 - n} for n in range(2000)]
    audit = make_audit(rows=5000, refused=2000, violations=counts)
    factory.table_audits().keep(CONTRACT, audit)
    text = client.get(page_of(audit)).text
    assert ">rule-499<" in text
    assert ">rule-500<" not in text
    assert "1\u2009500 more are in the API" in text


def test_the_page_of_an_audit_escapes_what_was_sent(
    client: Any, factory: Factory, make_audit: MakeAudit
) -> None:
    odd = "<script>\u202e\r\n{{7*7}}"
    audit = make_audit(
        refused=1,
        table=odd,
        reason=odd,
        since=odd,
        version=odd,
        is_whole=False,
        violations=[{**AGE, "code": odd, "records": 1}],
        expectations=[{**RESULT, "id": odd, "type": odd, "columns": [odd]}],
    )
    factory.table_audits().keep(CONTRACT, audit)
    for path in (page_of(audit), f"/desk/contracts/{CONTRACT}"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert "<script>" not in answer.text
        assert "\u202e" not in answer.text
        assert "&lt;script&gt;" in answer.text
        assert "{{7*7}}" in answer.text


def test_an_audit_by_a_version_that_is_gone_is_still_shown(
    client: Any, factory: Factory, make_audit: MakeAudit, make_contract: MakeContract
) -> None:
    audit = make_audit(refused=1, expectations=[RESULT])
    factory.table_audits().keep(CONTRACT, audit)
    factory.registry().publish(make_contract(version="1.3.0", status="draft"), "contract.json")
    factory.lifecycle().delete(CONTRACT, "1.2.0")
    text = client.get(page_of(audit)).text
    assert '<span class="mono">age-is-known</span>' in text
    assert "#rule-" not in text


def test_the_page_of_no_audit_is_not_found(client: Any, make_audit: MakeAudit) -> None:
    audit = make_audit()
    assert client.get(page_of(audit)).status_code == 404
    assert client.get(f"/desk/contracts/{CONTRACT}/table-audits/x").status_code == 404
    assert client.get(f"/desk/contracts/none/table-audits/{audit.id}").status_code == 404


def test_the_example_of_the_api_is_an_audit() -> None:
    audit = TableAudit.model_validate(TABLE_AUDIT)
    assert audit.model_dump(mode="json") == TABLE_AUDIT
    assert (audit.has_findings, audit.unmet) == (True, 0)
