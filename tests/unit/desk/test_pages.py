"""The pages of the desk as they are written: what they show, what their forms do, and what becomes of bad input."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tidegate.contracts.document.fingerprint import fingerprint
from tidegate.contracts.document.load import parse_contract
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.stream.report import BatchReport
from tidegate.gateway.access.principal import read_grants
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.models.examples import CONTRACT
from tidegate.gateway.http.native.stream_controls import _TRIP

STREAM = "hospital.admissions"
PAGE = f"/desk/streams/{STREAM}"
CONTRACT_PAGE = f"/desk/contracts/{STREAM}"
only_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
Publish = Callable[..., None]


@pytest.fixture
def publish(factory: Factory) -> Publish:
    """Return a function that publishes the example contract with changes."""

    def work(**changes: Any) -> None:
        factory.registry().publish(json.dumps({**CONTRACT, **changes}).encode(), "contract.json")

    return work


@pytest.fixture
def stream(factory: Factory, publish: Publish, make_report: Callable[..., BatchReport]) -> None:
    publish()
    factory.reports().record(STREAM, make_report(committed_at=datetime.now(UTC)))


def posted(client: Any, path: str, form: str = "") -> httpx.Response:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer: httpx.Response = client.request("POST", path, content=form.encode(), headers=headers)
    return answer


def text_of(answer: httpx.Response) -> str:
    """Return what a person reads of a page: no tags, single spaces."""
    assert answer.status_code == 200, answer.text
    main = answer.text.partition("<main")[2]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", main))


@only_sqlite
def test_undeclared_properties_that_are_ignored_are_told(client: Any, publish: Publish) -> None:
    publish()
    assert "Undeclared properties" not in text_of(client.get(CONTRACT_PAGE))
    publish(version="1.3.0", undeclared="ignore")
    assert (
        "Undeclared properties assumed to be absent when versions are compared: producers that already send one may be "
        "refused once a later version declares it"
    ) in text_of(client.get(CONTRACT_PAGE))


@only_sqlite
def test_a_contract_is_described_in_words(client: Any, publish: Publish) -> None:
    publish(
        team={"name": "Patient flow", "contact": "https://chat.example/flow"},
        error_budget={"ratio": 0.2, "min_records": 500, "action": "pause"},
        consumers=[{"id": "los-report", "team": "statistics", "reads": ["/age"]}],
        columns=[{"name": "age", "from": "/age", "type": "int"}],
        expectations=[
            {
                "id": "mean-age",
                "type": "expect_column_mean_to_be_between",
                "kwargs": {"column": "age", "min_value": 20, "max_value": 70},
            }
        ],
    )
    page = client.get(CONTRACT_PAGE)
    text = text_of(page)
    for words in (
        "Owner Patient flow",
        "above 20 % refused of a batch of at least 500 records, the stream is paused",
        "Expects column mean to be between: min value 20 , max value 70",
        "los-report , statistics Reads /age",
        "Passes with",
        "Otherwise the record is quarantined.",
    ):
        assert words in text, words
    assert '<a href="https://chat.example/flow" rel="noreferrer">' in page.text


@only_sqlite
def test_the_page_of_a_draft_says_that_no_job_judges_by_it(client: Any, publish: Publish) -> None:
    publish(status="draft")
    told = (
        f"It is a draft: no job judges by it. tidegate promote {STREAM} {CONTRACT['version']} shows what it would change, "
        "and with --yes enforces it."
    )
    assert told in text_of(client.get(CONTRACT_PAGE))
    publish(version="9.0.0")
    assert "It is a draft" not in text_of(client.get(CONTRACT_PAGE))


@only_sqlite
@pytest.mark.parametrize(
    "contact", ["javascript:alert(1)", "data:text/html,x", '"><b>x</b>', "//evil.example"]
)
def test_a_contact_that_is_no_address_is_text(client: Any, publish: Publish, contact: str) -> None:
    publish(team={"name": "<i>x</i>", "contact": contact})
    page = client.get(CONTRACT_PAGE).text
    assert "<i>x</i>" not in page
    assert "<b>x</b>" not in page
    assert not re.search(r'href="(?:javascript|data|//)', page)


@only_sqlite
def test_a_contract_leads_to_its_stream_from_the_first_batch_on(
    client: Any, factory: Factory, publish: Publish, make_report: Callable[..., BatchReport]
) -> None:
    publish()
    page = client.get(CONTRACT_PAGE)
    assert f'href="{PAGE}"' not in page.text
    assert "Its stream has no batch yet." in text_of(page)
    factory.reports().record(STREAM, make_report(committed_at=datetime.now(UTC)))
    page = client.get(CONTRACT_PAGE)
    assert f'href="{PAGE}"' in page.text
    assert "no batch yet" not in text_of(page)


@only_sqlite
def test_the_downloaded_document_is_the_contract(client: Any, publish: Publish) -> None:
    publish()
    answer = client.get(f"{CONTRACT_PAGE}/versions/{CONTRACT['version']}/contract.yaml")
    assert (
        answer.headers["content-disposition"] == f'attachment; filename="{STREAM}-{CONTRACT["version"]}.yaml"'
    )
    read = parse_contract(answer.content, name="contract.yaml", read_schema=None).contract
    assert fingerprint(read) == fingerprint(DataContract.model_validate(CONTRACT))
    assert client.get(f"{CONTRACT_PAGE}/versions/9.9.9/contract.yaml").status_code == 404


@only_sqlite
def test_two_versions_are_compared_in_sentences(client: Any, publish: Publish) -> None:
    publish()
    assert client.get(f"{CONTRACT_PAGE}/diff").status_code == 404
    rules = [{**CONTRACT["rules"][0], "description": "another reason"}, *CONTRACT["rules"][1:]]
    publish(version="2.0.0", rules=rules[1:], status="draft")
    text = text_of(client.get(f"{CONTRACT_PAGE}/diff?candidate=2.0.0"))
    assert f"From {CONTRACT['version']} to 2.0.0" in text
    assert rules[0]["id"] in text
    assert client.get(f"{CONTRACT_PAGE}/diff?base=7.0.0").status_code == 404


@only_sqlite
def test_streams_are_found_by_words_owner_and_state(client: Any, stream: None) -> None:
    assert stream is None
    for query in ("", "?q=ADMISS", "?state=attention&q=nothing", "?owner=nobody", "?state=no-such-state"):
        page = client.get(f"/desk{query}")
        assert page.status_code == 200
        assert (f'id="stream-{STREAM}"' in page.text) == (query in {"", "?q=ADMISS"}), query
    assert "Show all 1" in client.get("/desk?q=nothing").text


@only_sqlite
def test_a_form_that_is_sent_empty_filters_nothing(client: Any, stream: None) -> None:
    assert stream is None
    for path in (
        "/desk?q=&state=&owner=&domain=",
        "/desk/contracts?q=&owner=&domain=&start=0",
        "/desk/audit?who=&action=&subject=&before=",
        "/desk/problems?q=&state=&from=&to=&start=",
        f"{PAGE}/problems?q=&state=",
        f"{PAGE}/quarantine?rule=&field=&version=&partition=&from=&to=&stage=&older=&newer=",
        f"{PAGE}?from=&to=&rule=&range=",
    ):
        assert client.get(path).status_code == 200, path


@only_sqlite
def test_filters_of_a_stream_are_in_its_addresses(client: Any, stream: None) -> None:
    assert stream is None
    now = datetime.now(UTC)
    since, until = (now - timedelta(minutes=20)).isoformat()[:19], now.isoformat()[:19]
    page = client.get(f"{PAGE}?from={since}&to={until}&rule=age-is-known&show=share").text
    assert "% of records" in page
    assert "the chosen" in page
    assert re.search(r'data-zoom="/desk/streams/hospital.admissions\?rule=age-is-known&amp;show=share"', page)
    for query in ("?from=x&to=y", f"?from={until}&to={since}", "?range=1h&from=2026-01-01", "?show=share"):
        assert client.get(PAGE + query).status_code == 200, query
    assert client.get(f"{PAGE}?show=pie").status_code == 404


@only_sqlite
def test_versions_and_pauses_are_marked_on_the_time_axis(client: Any, stream: None) -> None:
    assert stream is None
    assert posted(client, f"{PAGE}/actions/pause", "reason=clock").status_code == 303
    assert posted(client, f"{PAGE}/actions/resume").status_code == 303
    page = client.get(f"{PAGE}?range=1h").text
    assert f"version {CONTRACT['version']}" in page
    assert "paused by anonymous" in page


@only_sqlite
def test_an_action_is_previewed_and_done(client: Any, factory: Factory, stream: None) -> None:
    assert stream is None
    assert "tidegate pause hospital.admissions" in client.get(f"{PAGE}/actions/pause").text
    assert not factory.stream_controls().control(STREAM).is_paused
    answer = posted(client, f"{PAGE}/actions/pause", "reason=the+clock")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{PAGE}#content")
    assert factory.stream_controls().control(STREAM).reason == "the clock"
    assert "It is paused already." in client.get(f"{PAGE}/actions/pause").text
    assert "the clock" in text_of(client.get(f"{PAGE}/actions/resume"))
    assert posted(client, f"{PAGE}/actions/pause", f"reason={'x' * 501}").status_code == 422
    assert posted(client, f"{PAGE}/actions/rewind").status_code == 422
    assert posted(client, f"{PAGE}/actions/accept-batch").status_code == 409
    for action in ("explode", "PAUSE", ""):
        assert client.get(f"{PAGE}/actions/{action}").status_code == 404


@only_sqlite
def test_a_batch_that_spent_its_budget_is_accepted(client: Any, factory: Factory, stream: None) -> None:
    assert stream is None
    trip = {**_TRIP, "stream": STREAM, "topic": STREAM}
    assert client.post(f"/api/v1/streams/{STREAM}/trips", json.dumps(trip)).status_code == 200
    assert "612 of 2 000, 20.0 % allowed" in text_of(client.get(f"{PAGE}/actions/accept-batch"))
    assert posted(client, f"{PAGE}/actions/accept-batch").status_code == 303
    control = factory.stream_controls().control(STREAM)
    assert (control.is_paused, control.accepted is not None) == (False, True)


@only_sqlite
def test_a_draft_is_shadowed_and_promoted(
    client: Any, factory: Factory, publish: Publish, stream: None
) -> None:
    assert stream is None
    publish(version="1.9.0", status="draft", description="the next one")
    assert posted(client, f"{PAGE}/actions/shadow", "version=1.9.0").status_code == 303
    assert factory.stream_controls().control(STREAM).shadow == "1.9.0"
    assert "not tried on live records" in text_of(client.get(f"{PAGE}/actions/promote"))
    assert posted(client, f"{PAGE}/actions/promote").status_code == 422
    assert posted(client, f"{PAGE}/actions/promote", "version=1.9.0").status_code == 303
    assert factory.registry().version(STREAM, "latest").version == "1.9.0"
    assert posted(client, f"{PAGE}/actions/promote", "version=7.7.7").status_code == 404


@only_sqlite
def test_a_command_is_quoted_for_the_shell(client: Any, stream: None) -> None:
    assert stream is None
    text = client.get(f"{PAGE}/actions/rewind?choice=0:1;%20rm%20-rf%20/").text
    assert "--to &#39;0:1; rm -rf /&#39; --dry-run" in text


@only_sqlite
def test_a_key_is_shown_once_and_revoked(client: Any, factory: Factory) -> None:
    made = posted(client, "/desk/keys", "name=job&grants=reporter:hospital.,viewer&expires_on=2099-12-31")
    (key,) = factory.keys().all()
    assert key.grants == ("reporter:hospital.", "viewer")
    assert f"tgk_{key.id}_" in made.text
    assert made.headers["cache-control"] == "no-store"
    assert "tgk_" not in client.get("/desk/keys").text
    for form in (
        "name=&grants=viewer",
        "name=a&grants=",
        "name=a&grants=boss",
        "name=a&grants=viewer&expires_on=x",
    ):
        assert posted(client, "/desk/keys", form).status_code == 422, form
    assert posted(client, f"/desk/keys/{key.id}/revoke").status_code == 303
    assert posted(client, f"/desk/keys/{key.id}/revoke").status_code == 409
    assert len(factory.keys().all()) == 1


@only_sqlite
def test_the_audit_log_is_paged_and_filtered(client: Any, factory: Factory) -> None:
    for number in range(103):
        factory.keys().create(f"k{number}", read_grants(["viewer"]), "anonymous")
    newest = client.get("/desk/audit").text
    assert newest.count("<tr id=") == 100
    older = re.search(r'href="(/desk/audit\?before=4)"', newest)
    assert older is not None
    assert client.get(older[1]).text.count("<tr id=") == 3
    assert client.get("/desk/audit?action=key.&who=anonymous").text.count("<tr id=") == 100
    assert "No entry" in client.get("/desk/audit?action=stream.").text
    assert client.get("/desk/audit?before=0").status_code == 404


@only_sqlite
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/desk/nothing", 404),
        ("POST", "/desk/contracts", 405),
        ("GET", "/desk/streams/unknown", 404),
        ("GET", "/desk/records/x/y/z", 404),
        ("GET", "/desk/contracts/unknown/diff", 404),
    ],
)
def test_errors_of_the_desk_are_pages_with_a_way_out(
    client: Any, method: str, path: str, status: int
) -> None:
    answer = client.request(method, path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert 'href="/desk"' in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


@only_sqlite
def test_a_form_that_is_too_large_or_no_text_is_refused(client: Any) -> None:
    assert posted(client, "/desk/keys", "name=" + "x" * 70_000).status_code == 413
    assert client.request("POST", "/desk/keys", content=b"name=\xff").status_code == 422
    assert posted(client, "/desk/keys", "&".join(f"n{at}=1" for at in range(300))).status_code == 422
