"""Who reads: registered beside the contract's document, held to its schema, and told of by what is deprecated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from tidegate.gateway.storage.audit_chain import content_hash

MakeContract = Callable[..., bytes]
CONTRACTS = "/api/v1/contracts"
CONSUMERS = f"{CONTRACTS}/hospital.admissions/consumers"
REPORT = {
    "team": "planning",
    "reads": ["/admission_date"],
    "assumes": {"properties": {"age": {"maximum": 130}}},
}

# What is refused before anything is stored is refused alike on every database: once is enough.
only_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def put(client: Any, name: str, body: Any) -> Any:
    content = body if isinstance(body, bytes) else orjson.dumps(body)
    headers = {"Content-Type": "application/json"}
    return client.request("PUT", f"{CONSUMERS}/{name}", content=content, headers=headers)


@pytest.fixture
def published(client: Any, make_contract: MakeContract) -> None:
    document = make_contract(consumers=[{"id": "written", "reads": ["/age"]}])
    assert client.post(CONTRACTS, document).status_code == 201


@pytest.mark.usefixtures("published")
def test_registered_consumers_are_listed_with_those_of_the_document(client: Any) -> None:
    made = put(client, "report", REPORT)
    assert (made.status_code, put(client, "report", REPORT).status_code) == (201, 200)
    assert {name: made.json()[name] for name in REPORT} == REPORT
    listed = client.get(CONSUMERS).json()["consumers"]
    assert [(one["id"], one["reads"], one["registered_by"]) for one in listed] == [
        ("report", ["/admission_date"], "anonymous"),
        ("written", ["/age"], None),
    ]
    assert client.request("DELETE", f"{CONSUMERS}/report").json()["id"] == "report"
    assert [one["id"] for one in client.get(CONSUMERS).json()["consumers"]] == ["written"]


@pytest.mark.usefixtures("published")
def test_a_contract_has_a_bounded_number_of_consumers(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader may register one, and each change of the contract is compared with all of them."""
    monkeypatch.setattr("tidegate.gateway.registry.consumers.MOST_CONSUMERS", 2)
    assert [put(client, name, REPORT).status_code for name in ("a", "b", "c")] == [201, 201, 409]
    assert "remove one that no longer reads" in put(client, "c", REPORT).text
    assert put(client, "a", REPORT | {"reads": ["/age"]}).status_code == 200
    client.request("DELETE", f"{CONSUMERS}/b")
    assert put(client, "c", REPORT).status_code == 201


@pytest.mark.usefixtures("published")
def test_the_newest_agreements_of_a_consumer_are_kept(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agreement names any fingerprint: a client that agrees in a loop must not fill the database."""
    monkeypatch.setattr("tidegate.gateway.storage.agreements.MOST_AGREEMENTS", 3)
    address = f"{CONTRACTS}/hospital.admissions/acknowledgements"
    wanted = [("written", f"{n:064x}") for n in range(6)] + [(None, f"{n:064x}") for n in range(2)]
    for consumer, candidate in wanted:
        body = {"candidate": candidate, **({"consumer": consumer} if consumer else {"breaking": True})}
        assert client.post(address, orjson.dumps(body)).status_code == 201
    kept = [(each["consumer"], each["candidate"]) for each in client.get(address).json()["acknowledgements"]]
    assert sorted(kept, key=str) == sorted(wanted[3:], key=str)


@pytest.mark.usefixtures("published")
def test_every_change_of_a_consumer_stands_in_the_log(client: Any) -> None:
    put(client, "report", REPORT)
    put(client, "report", REPORT)
    put(client, "report", REPORT | {"reads": ["/age"]})
    client.request("DELETE", f"{CONSUMERS}/report")
    before = content_hash({"id": "report", **REPORT})
    after = content_hash({"id": "report", **REPORT, "reads": ["/age"]})
    entries = client.get("/api/v1/audit?subject=hospital.admissions-value").json()["entries"]
    assert [(one["action"], one["before"], one["after"]) for one in entries[1:]] == [
        ("contract.consumer-registered", None, before),
        ("contract.consumer-changed", before, after),
        ("contract.consumer-removed", after, None),
    ]


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize(
    ("body", "pointer", "message"),
    [
        ({"reads": ["/age", "/agee"]}, "/reads/1", "declares no field `/agee`; did you mean `/age`?"),
        ({"reads": ["/age/years"]}, "/reads/0", "declares no field `/age/years`"),
        (
            {"assumes": {"properties": {"age": {"maximum": "x"}}}},
            "/assumes/properties/age/maximum",
            "not a JSON",
        ),
        ({"assumes": {"$ref": "#/nowhere"}}, "/assumes/$ref", "#/nowhere"),
        ({"reads": "/age"}, "/reads", "valid array"),
        ({"reeds": []}, "/reeds", "not permitted"),
        (b"{", "", "JSON"),
        (b"[" * 100_000, "", "JSON"),
    ],
)
@only_sqlite
def test_what_a_consumer_cannot_read_or_assume_is_refused_with_its_place(
    client: Any, body: Any, pointer: str, message: str
) -> None:
    answer = put(client, "report", body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    (place,) = answer.json()["errors"]
    assert place["pointer"] == pointer
    assert message in place["message"]
    assert len(client.get(CONSUMERS).json()["consumers"]) == 1


@pytest.mark.usefixtures("published")
def test_what_is_not_there_is_named(client: Any) -> None:
    assert client.get(f"{CONTRACTS}/nobody/consumers").status_code == 404
    gone = client.request("DELETE", f"{CONSUMERS}/writen")
    assert (gone.status_code, gone.json()["detail"]) == (
        404,
        "hospital.admissions has no consumer writen; did you mean written?",
    )
    written = client.request("DELETE", f"{CONSUMERS}/written")
    assert (written.status_code, written.json()["detail"]) == (
        409,
        "written stands in the contract's document; publish a version without it",
    )


@pytest.mark.usefixtures("published")
def test_deprecation_shows_who_still_reads(client: Any, make_contract: MakeContract) -> None:
    put(client, "report", REPORT)
    version = f"{CONTRACTS}/hospital.admissions/versions/1.2.0"
    assert "tidegate-read-by" not in client.get(version).headers
    assert client.get(f"{CONTRACTS}/hospital.admissions").json()["versions"][0]["read_by"] is None

    changed = client.post(f"{version}/status", b'{"status": "deprecated"}').json()
    assert (changed["status"], changed["read_by"]) == ("deprecated", ["report", "written"])
    assert client.get(version).headers["tidegate-read-by"] == "report, written"
    assert client.get(CONTRACTS).json()["contracts"][0]["read_by"] == ["report", "written"]
    assert client.post(CONTRACTS, make_contract(version="2.0.0")).json()["read_by"] is None
    detail = client.get(f"{CONTRACTS}/hospital.admissions").json()["versions"]
    assert [(one["version"], one["read_by"]) for one in detail] == [
        ("2.0.0", None),
        ("1.2.0", ["report", "written"]),
    ]
    page = "/desk/contracts/hospital.admissions"
    assert "Still read by report, written." in client.get(f"{page}?version=1.2.0").text
    assert "Still read by" not in client.get(page).text
    client.request("DELETE", f"{CONSUMERS}/report")
    assert client.get(version).headers["tidegate-read-by"] == "written"
