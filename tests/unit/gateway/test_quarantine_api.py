"""Counts, trends, positions, problems and decisions over HTTP, from an index without a broker."""

from __future__ import annotations

import hashlib
import json
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.confluent.test_every_change import NEEDS_REFUSED_RECORDS, THERE
from tests.unit.gateway.quarantine_records import AGE, BROKEN, LINE, MISSING, NOW, Process, many, refused
from tidegate.contracts.stream.kafka_connection import KafkaConnection
from tidegate.gateway.access.principal import ANONYMOUS
from tidegate.gateway.factory import Factory
from tidegate.gateway.storage.sql import Stores
from tidegate.gateway.storage.value_searches import StoredSearch
from tidegate.gateway.streams import value_search
from tidegate.gateway.streams.quarantine_index.filters import QuarantineFilter
from tidegate.gateway.streams.quarantine_index.positions import FrozenPositions
from tidegate.gateway.streams.value_search import SearchState, ValueSearches

BASE = "/api/v1/streams/adm"
ORIGIN = {"Origin": "http://localhost"}
SPAN = {"since": "2026-07-01T12:00:00Z", "until": "2026-07-02T12:00:00Z"}


@pytest.fixture(autouse=True)
def _contract(factory: Factory) -> None:
    factory.database.write(lambda stores: stores.contracts.add_contract("adm", "adm", NOW))


@pytest.fixture
def get(client: Any) -> Callable[..., Any]:
    """Return a function that asks for a path of the stream and returns the JSON of its answer."""

    def ask(path: str, **parameters: Any) -> Any:
        answer = client.get(f"{BASE}{path}", params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return ask


@pytest.fixture
def post(client: Any) -> Callable[..., Any]:
    def ask(path: str, body: Any, status: int = 200) -> Any:
        answer = client.post(f"{BASE}{path}", json.dumps(body))
        assert answer.status_code == status, answer.text
        return answer.json()

    return ask


@pytest.fixture
def four_problems(factory: Factory, _contract: None) -> None:
    """Fill two partitions: 4 records of age 999, 2 of lines, 1 without an age, 2 that are not JSON for different reasons."""
    one = [
        refused(0, app="a"),
        refused(1, app="b", at=NOW + timedelta(minutes=90)),
        refused(2, (LINE, AGE), value=b'{"age": 999, "lines": [1, 1, 1, {"name": 2}]}', version="1.1.0"),
        refused(3, (BROKEN,), value=b'{"age": 1,}'),
    ]
    two = [
        refused(0, (LINE, AGE), value=b'{"age": 999, "lines": [1, 1, 1, {"name": 2}]}', partition=1),
        refused(7, (MISSING,), value=b"{}", partition=1),
        refused(9, (BROKEN,), value=b'{"age": 1', partition=1, at=NOW + timedelta(hours=3)),
    ]
    for records in (one, two):
        Process(factory, "one").ingest(records)


def groups(answer: Any) -> dict[str, int]:
    return {each["value"]: each["records"] for each in answer["groups"]}


@pytest.mark.usefixtures("four_problems")
def test_counts_are_intersections(get: Any) -> None:
    assert groups(get("/quarantine/breakdown", by="rule")) == {
        "age-is-known": 4, "type": 2, "json.invalid": 2, "required": 1,
    }  # fmt: skip
    assert groups(get("/quarantine/breakdown", by="version", rule="type")) == {"1.1.0": 1, "1.0.0": 1}
    assert groups(get("/quarantine/breakdown", by="field", version="1.1.0")) == {
        "/lines/*/name": 1,
        "/age": 1,
    }
    assert groups(get("/quarantine/breakdown", by="partition", rule="age-is-known")) == {"0": 3, "1": 1}
    assert groups(get("/quarantine/breakdown", by="stage", partition=1, until="2026-07-01T13:00:00Z")) == {
        "rule": 1, "schema": 2,
    }  # fmt: skip
    producers = get("/quarantine/breakdown", by="producer")["groups"]
    assert [(each["name"], each["shown"], each["records"]) for each in producers] == [
        ("app", "b", 1),
        ("app", "a", 1),
    ] or [(each["name"], each["shown"], each["records"]) for each in producers] == [
        ("app", "a", 1),
        ("app", "b", 1),
    ]
    assert groups(get("/quarantine/breakdown", by="rule", producer=producers[0]["value"])) == {
        "age-is-known": 1
    }


@pytest.mark.usefixtures("four_problems")
def test_trend_counts_arrivals(get: Any) -> None:
    def trend(**wanted: Any) -> list[int]:
        found = get(
            "/quarantine/trend",
            buckets=4,
            since="2026-07-01T12:00:00Z",
            until="2026-07-01T16:00:00Z",
            **wanted,
        )
        assert found["buckets"][0]["start"] == "2026-07-01T12:00:00Z"
        return [each["records"] for each in found["buckets"]]

    assert trend() == [5, 1, 0, 1]
    assert trend(rule="age-is-known") == [3, 1, 0, 0]
    assert trend(rule="age-is-known", partition=0) == [2, 1, 0, 0]


@pytest.mark.usefixtures("four_problems")
def test_positions_are_frozen_and_have_a_digest(factory: Factory, get: Any) -> None:
    found = get("/quarantine/positions", rule="age-is-known")
    assert found["partitions"] == {"0": [[0, 2]], "1": [[0, 0]]}
    frozen = factory.quarantine_index().positions("adm", QuarantineFilter(rule="age-is-known"))
    by_hand = b"adm.quarantine\0"
    for partition, offsets in ((0, (0, 1, 2)), (1, (0,))):
        by_hand += partition.to_bytes(4, "big") + len(offsets).to_bytes(8, "big")
        by_hand += b"".join(each.to_bytes(8, "big") for each in offsets)
    assert found["digest"] == frozen.digest == hashlib.sha256(by_hand).hexdigest()
    assert FrozenPositions.decode("adm.quarantine", frozen.encode()).digest == frozen.digest
    assert list(factory.quarantine_index().sources("adm", frozen)) == [
        (0, 0, 0, 0), (0, 1, 0, 10), (0, 2, 0, 20), (1, 0, 1, 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "wanted", [QuarantineFilter(), QuarantineFilter(rule="type"), QuarantineFilter(version="1.1.0")]
)
def test_pages_hold_every_record_once_in_both_directions(factory: Factory, wanted: QuarantineFilter) -> None:
    for partition in range(3):
        Process(factory, "one").ingest(many(70, partition))
    index = factory.quarantine_index()
    forward, after = [], None
    while True:
        page = index.page("adm", wanted, 17, after=after)
        forward += page.places
        if page.older is None:
            break
        after = page.older
    assert forward == sorted(set(forward), reverse=True)
    assert len(forward) == page.total == index.positions("adm", wanted).records
    backward, before = [*page.places], page.newer
    while before is not None:
        page = index.page("adm", wanted, 17, before=before)
        backward = [*page.places, *backward]
        before = page.newer
    assert backward == forward
    newer, older = index.neighbours("adm", wanted, forward[20].partition, forward[20].offset)
    assert (newer, older) == (forward[19], forward[21])


@pytest.mark.usefixtures("four_problems")
def test_records_are_found_by_source(get: Any, factory: Factory) -> None:
    assert factory.quarantine_index().by_source("adm", 1, 70) == ((1, 7),)
    assert factory.quarantine_index().by_source("adm", 0, 70) == ()
    assert factory.quarantine_index().by_key("adm", b"k9") == ((1, 9),)
    assert get("/quarantine")["records"] == 7


@pytest.mark.usefixtures("four_problems")
def test_problems_have_shares_and_spans(get: Any) -> None:
    found = get("/problems", **SPAN, buckets=24)
    counts = [(each["title"], each["records"]) for each in found["problems"]]
    assert counts[:2] == [
        ("age-is-known at /age: 999", 4),
        ("type at /lines/*/name: positive integer, below 1,000", 2),
    ]
    assert sorted(counts[2:]) == [
        ("json.invalid: is not JSON: a comma stands before the end of an object or array", 1),
        ("json.invalid: is not JSON: it ends before the value is complete", 1),
        ("required at /age: absent", 1),
    ]
    first = found["problems"][0]
    assert (first["share"], found["refused"], found["total"]) == (4 / 7, 7, 5)
    assert (first["first_seen"], first["last_seen"]) == ("2026-07-01T12:00:00Z", "2026-07-01T13:30:00Z")
    assert first["trend"][:3] == [3, 1, 0]
    detail = get(f"/problems/{first['id']}")
    assert {each["value"]: each["records"] for each in detail["by_version"]} == {"1.0.0": 3, "1.1.0": 1}
    assert detail["examples"][0] == "0/1"


@pytest.mark.usefixtures("four_problems")
def test_decisions_are_kept_over_a_new_index(factory: Factory, get: Any, post: Any) -> None:
    problem = get("/problems")["problems"][0]["id"]
    path = f"/problems/{problem}"
    assert post(f"{path}/state", {"state": "muted", "count": 5})["muted"]["count"] == 5
    assert post(f"{path}/assignee", {"assignee": "ann"})["assignee"] == "ann"
    post(f"{path}/comments", {"text": "999 is the form's default"})
    post(f"{path}/state", {"state": "regressed"}, 409)
    post("/quarantine/rebuild", {})
    assert get("/quarantine")["records"] == 0
    Process(factory, "two").ingest([refused(0)])
    found = get(path)
    assert (found["state"], found["assignee"], found["comments"]) == ("muted", "ann", 1)
    assert found["comment_list"][0]["text"] == "999 is the form's default"
    assert [(each["before"], each["after"]) for each in found["changes"]] == [("open", "muted")]
    actions = [entry.action for entry in factory.audit().page(0, 100).entries]
    assert actions[-4:] == [
        "problem.state-changed",
        "problem.assigned",
        "problem.commented",
        "quarantine.index-rebuilt",
    ]


@pytest.mark.usefixtures("four_problems")
def test_the_form_of_the_desk_takes_what_the_api_takes(client: Any, get: Any) -> None:
    path = f"/problems/{get('/problems')['problems'][0]['id']}"

    def post_form(**fields: str) -> int:
        answer = client.request("POST", f"/desk/streams/adm{path}/state", data=fields, headers=ORIGIN)
        return int(answer.status_code)

    for until, expected in (
        ("2026-12-01T10:00", "2026-12-01T10:00:00Z"),
        ("2026-12-01T10:00:00+02:00", "2026-12-01T08:00:00Z"),
    ):
        assert post_form(state="muted", until=until) == 303
        assert datetime.fromisoformat(get(path)["muted"]["until"]) == datetime.fromisoformat(expected)
    assert post_form(state="muted", until="0001-01-01T00:00") == 422
    assert post_form(state="resolved", in_version="the next one") == 422
    assert get(path)["state"] == "muted"
    assert post_form(state="resolved", in_version="1.2.0") == 303
    assert get(path)["resolved_in"] == "1.2.0"


@pytest.mark.usefixtures("four_problems")
def test_every_change_of_refused_records_is_in_the_log(
    factory: Factory, client: Any, get: Any, post: Any
) -> None:
    """Those of `NEEDS_REFUSED_RECORDS` that need no broker; who begins a search is told in tests/integration."""
    problem = f"/problems/{get('/problems')['problems'][0]['id']}"
    search = StoredSearch(
        "s1", "adm", "ann", NOW, "running", 0, 9, "[]", is_cancelled=False, heard_at=datetime.now(UTC)
    )
    factory.database.write(lambda stores: stores.value_searches.add(search))
    changes: dict[tuple[str, str], Callable[[], Any]] = {
        ("POST", "/problems/{problem}/state"): lambda: post(f"{problem}/state", {"state": "acknowledged"}),
        ("POST", "/problems/{problem}/assignee"): lambda: post(f"{problem}/assignee", {"assignee": "ann"}),
        ("POST", "/problems/{problem}/comments"): lambda: post(f"{problem}/comments", {"text": "why"}),
        ("POST", "/quarantine/rebuild"): lambda: post("/quarantine/rebuild", {}),
        ("DELETE", "/quarantine/searches/{search}"): lambda: client.request(
            "DELETE", f"{BASE}/quarantine/searches/s1"
        ).raise_for_status(),
    }
    told = {}
    for operation, change in changes.items():
        before = len(factory.audit().page(0, 100).entries)
        change()
        (entry,) = factory.audit().page(before, 100).entries
        assert (entry.who, entry.subject.partition("#")[0]) == ("anonymous", "adm-value")
        told[operation] = entry.action
    assert list(told.values()) == [
        "problem.state-changed",
        "problem.assigned",
        "problem.commented",
        "quarantine.index-rebuilt",
        "quarantine.search-cancelled",
    ]
    elsewhere = {("POST", "/quarantine/searches")}
    here = {
        (method, path.removeprefix(THERE)) for method, path in NEEDS_REFUSED_RECORDS if "/replays" not in path
    }
    assert told.keys() == here - elsewhere
    assert client.request("DELETE", f"{BASE}/quarantine/searches/s1").json()["state"] == "running"


@pytest.mark.usefixtures("four_problems")
def test_a_search_that_fails_keeps_what_it_has_found(
    factory: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_search, "_PATIENCE", timedelta(seconds=2))
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections, and answers nothing
        kafka = KafkaConnection(f"127.0.0.1:{silent.getsockname()[1]}")
        searches = ValueSearches(factory.database, kafka, lambda: datetime.now(UTC))
        begun = searches.begin("adm", "P00", QuarantineFilter(), ANONYMOUS)

        def progress(stores: Stores) -> None:
            stores.value_searches.update(begun.id, looked_at=500, positions='["0/1"]')

        factory.database.write(progress)
        until = time.monotonic() + 60
        while (found := searches.get("adm", begun.id)).state is SearchState.RUNNING:
            assert time.monotonic() < until
            time.sleep(0.05)
    assert (found.state, found.looked_at, found.positions) == (SearchState.FAILED, 500, ("0/1",))


@pytest.mark.usefixtures("four_problems")
def test_the_page_of_a_search_follows_it_and_ends_it(factory: Factory, client: Any) -> None:
    """A running search with its progress, one that broke off with its registry, and the list of both."""
    stored = StoredSearch(
        "s1", "adm", "ann", NOW, "running", 3, 7, '["0/1"]', is_cancelled=False, heard_at=datetime.now(UTC)
    )
    lost = replace(stored, id="s0", by="bob", heard_at=NOW, positions="[]")
    factory.database.write(lambda stores: [stores.value_searches.add(each) for each in (lost, stored)])
    base = "/desk/streams/adm/quarantine/searches"
    page = client.get(f"{base}/s1").text
    assert "1 record found" in page
    assert 'href="/desk/records/adm.quarantine/0/1"' in page
    assert '<progress max="100" value="42"' in page
    assert " data-live>" in page
    assert f'action="{base}/s1/cancel"' in page
    ended = client.get(f"{base}/s0").text
    assert "It broke off" in ended
    assert "data-live" not in ended
    assert "/cancel" not in ended
    listed = client.get(base).text
    assert listed.index("ann") < listed.index("bob")
    answer = client.request("POST", f"{base}/s1/cancel")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{base}/s1")
    with factory.database.reading() as stores:
        kept = stores.value_searches.find("adm", "s1")
    assert kept is not None
    assert kept.is_cancelled
    assert client.get(f"{base}/none").status_code == 404
    nothing = client.request("POST", base, content="value=")
    assert (nothing.status_code, "has 1 to 1,000 characters" in nothing.text) == (422, True)


@pytest.mark.parametrize("text", ["x", "\u00b1\u00c7"], ids=["cut off", "beyond ASCII"])
def test_a_key_that_is_no_base64_is_refused_with_its_place(post: Any, text: str) -> None:
    answer = post("/quarantine/find", {"key_base64": text}, 422)
    assert answer["errors"] == [{"pointer": "key_base64", "message": "is not Base64"}], answer


def test_what_is_not_there(get: Any, client: Any) -> None:
    assert client.get(f"{BASE}/problems/{'0' * 32}").status_code == 404
    assert client.get("/api/v1/streams/none/problems").status_code == 404
    without_broker = client.get(f"{BASE}/quarantine/records")
    assert (without_broker.status_code, without_broker.json()["type"]) == (
        503,
        "urn:tidegate:problem:no-broker",
    )
    assert client.get(f"{BASE}/quarantine/records", params={"older_than": "x"}).status_code in {422, 503}
    assert get("/problems")["problems"] == []
