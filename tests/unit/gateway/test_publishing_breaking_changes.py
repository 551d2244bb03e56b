"""A change that breaks what is enforced is published when those whom it breaks agreed, or as a new major version."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from tidegate.gateway.http.models.examples import CONTRACT

MakeContract = Callable[..., bytes]
CONTRACTS = "/api/v1/contracts"
HERE = f"{CONTRACTS}/hospital.admissions"
BREAKING = "urn:tidegate:problem:breaking-change"

# What is refused before anything is stored is refused alike on every database: once is enough.
only_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def adults_only(**changes: Any) -> dict[str, Any]:
    """A contract that refuses what the example lets pass: an age below `minimum`."""
    schema = copy.deepcopy(CONTRACT["schema"])
    schema["definition"]["properties"]["age"]["minimum"] = changes.pop("minimum", 18)
    return {"schema": schema, "version": "1.3.0", **changes}


@pytest.fixture
def publish(client: Any, make_contract: MakeContract) -> Callable[..., Any]:
    def post(path: str = CONTRACTS, **changes: Any) -> Any:
        return client.post(path, make_contract(**changes))

    return post


@pytest.fixture
def readers(client: Any, publish: Callable[..., Any]) -> None:
    """Two who read the age, one in the document and one registered beside it, and one who does not."""
    assert publish(consumers=[{"id": "written", "reads": ["/age"]}]).status_code == 201
    for name, field in (("aged", "/age"), ("dated", "/admission_date")):
        assert register(client, name, {"reads": [field]}).status_code == 201


def register(client: Any, name: str, body: Any) -> Any:
    headers = {"Content-Type": "application/json"}
    return client.request("PUT", f"{HERE}/consumers/{name}", content=orjson.dumps(body), headers=headers)


def acknowledge(client: Any, **body: Any) -> Any:
    return client.post(f"{HERE}/acknowledgements", orjson.dumps(body))


@pytest.mark.usefixtures("readers")
def test_a_break_is_refused_with_record_field_and_the_consumers_it_touches(
    publish: Callable[..., Any],
) -> None:
    answer = publish(**adults_only())
    assert answer.status_code == 409
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["type"] == BREAKING
    change = body["change"]
    assert (change["affected"], change["unaffected"]) == (["aged", "written"], ["dated"])
    assert (change["acknowledged"], change["unacknowledged"]) == ([], ["aged", "written"])
    (comparison,) = change["comparisons"]
    assert (comparison["against"], comparison["suggested_version"]) == ("1.2.0", "2.0.0")
    broken = [one for one in comparison["findings"] if one["severity"] == "breaking"]
    assert [(one["field"], one["consumers"]) for one in broken] == [("/age", ["aged", "written"])]
    record = orjson.loads(broken[0]["counterexample"]["text"])
    assert 0 <= record["age"] < 18
    assert "1.3.0 is not compatible (BACKWARD) with what is enforced: /age: " in body["detail"]
    assert f"have aged, written acknowledge the candidate {change['candidate']}" in body["detail"]


@pytest.mark.usefixtures("readers")
def test_it_is_published_once_every_affected_consumer_agreed(
    client: Any, publish: Callable[..., Any]
) -> None:
    candidate = publish(**adults_only()).json()["change"]["candidate"]
    first = acknowledge(client, consumer="aged", candidate=candidate, by="Ada")
    again = acknowledge(client, consumer="aged", candidate=candidate, by="Ada")
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert (first.json()["by"], first.json()["who"]) == ("Ada", "anonymous")
    refused = publish(**adults_only()).json()["change"]
    assert (refused["acknowledged"], refused["unacknowledged"]) == (["aged"], ["written"])
    acknowledge(client, consumer="written", candidate=candidate)
    published = publish(**adults_only())
    assert (published.status_code, published.json()["fingerprint"]) == (201, candidate)
    listed = client.get(f"{HERE}/acknowledgements").json()["acknowledgements"]
    assert [(one["consumer"], one["candidate"]) for one in listed] == [
        ("aged", candidate),
        ("written", candidate),
    ]
    entries = client.get("/api/v1/audit").json()["entries"]
    assert [one["action"] for one in entries][-3:] == [
        "contract.change-acknowledged",
        "contract.change-acknowledged",
        "contract.published",
    ]


@pytest.mark.usefixtures("readers")
def test_another_change_needs_another_agreement(client: Any, publish: Callable[..., Any]) -> None:
    candidate = publish(**adults_only()).json()["change"]["candidate"]
    for name in ("aged", "written"):
        acknowledge(client, consumer=name, candidate=candidate)
    other = publish(**adults_only(minimum=65))
    assert other.status_code == 409
    assert other.json()["change"]["unacknowledged"] == ["aged", "written"]


@pytest.mark.usefixtures("readers")
def test_a_consumer_that_reads_something_else_now_has_agreed_to_nothing(
    client: Any, publish: Callable[..., Any]
) -> None:
    candidate = publish(**adults_only()).json()["change"]["candidate"]
    for name in ("aged", "written"):
        acknowledge(client, consumer=name, candidate=candidate)
    assert register(client, "aged", {"reads": ["/age", "/admission_id"]}).status_code == 200
    assert publish(**adults_only()).json()["change"]["unacknowledged"] == ["aged"]


@pytest.mark.usefixtures("readers")
@pytest.mark.parametrize("status", ["active", "deprecated"])
def test_a_new_major_version_needs_no_acknowledgement(publish: Callable[..., Any], status: str) -> None:
    assert publish(**adults_only(version="2.0.0", status=status)).status_code == 201
    again = publish(**adults_only(version="2.1.0", minimum=65))
    assert again.json()["change"]["comparisons"][0]["against"] == "2.0.0"


@pytest.mark.usefixtures("readers")
def test_leaving_a_consumer_out_does_not_remove_it(publish: Callable[..., Any]) -> None:
    change = publish(**adults_only(consumers=[])).json()["change"]
    assert change["unacknowledged"] == ["aged", "written"]


@pytest.mark.usefixtures("readers")
def test_a_draft_is_free_and_its_promotion_asks(client: Any, publish: Callable[..., Any]) -> None:
    assert publish(**adults_only(status="draft")).status_code == 201
    promote = f"{HERE}/versions/1.3.0/status"
    refused = client.post(promote, b'{"status": "active"}')
    assert (refused.status_code, refused.json()["type"]) == (409, BREAKING)
    for name in refused.json()["change"]["unacknowledged"]:
        assert acknowledge(client, consumer=name, version="1.3.0").status_code == 201
    assert client.post(promote, b'{"status": "active"}').status_code == 200


def test_a_break_that_touches_no_consumer_says_so_and_needs_an_explicit_word(
    client: Any, publish: Callable[..., Any]
) -> None:
    publish()
    register(client, "dated", {"reads": ["/admission_date"]})
    refused = publish(**adults_only())
    change = refused.json()["change"]
    assert refused.status_code == 409
    assert "No registered consumer is affected. " in refused.json()["detail"]
    assert (change["affected"], change["unaffected"]) == ([], ["dated"])
    assert change["needs_break_acknowledged"]
    (broken,) = [one for one in change["comparisons"][0]["findings"] if one["severity"] == "breaking"]
    assert broken["sentence"].endswith("it touches no registered consumer")
    made = acknowledge(client, breaking=True, candidate=change["candidate"])
    assert (made.status_code, made.json()["consumer"]) == (201, None)
    assert publish(**adults_only()).status_code == 201


def test_a_word_that_it_may_break_does_not_speak_for_a_consumer(
    client: Any, publish: Callable[..., Any]
) -> None:
    publish()
    candidate = publish(**adults_only()).json()["change"]["candidate"]
    acknowledge(client, breaking=True, candidate=candidate)
    register(client, "aged", {"reads": ["/age"]})
    assert publish(**adults_only()).json()["change"]["unacknowledged"] == ["aged"]


def test_a_rule_breaks_as_a_schema_does(publish: Callable[..., Any]) -> None:
    publish(consumers=[{"id": "written", "reads": ["/age"]}])
    rules = [*CONTRACT["rules"], {"id": "old", "kind": "range", "field": "/age", "minimum": 18}]
    change = publish(version="1.3.0", rules=rules).json()["change"]
    found = change["comparisons"][0]["findings"]
    assert [(one["code"], one["consumers"]) for one in found if one["severity"] == "breaking"] == [
        ("rule.added", ["written"])
    ]


def test_what_is_assumed_and_no_longer_sure_breaks_its_consumer(
    client: Any, publish: Callable[..., Any]
) -> None:
    assumed = {"properties": {"age": {"minimum": 0}}}
    publish(compatibility="FULL")
    register(client, "aged", {"reads": ["/admission_id"], "assumes": assumed})
    change = publish(**adults_only(minimum=-1, compatibility="FULL")).json()["change"]
    assert change["affected"] == ["aged"]
    found = [
        one for one in change["comparisons"][0]["findings"] if one["code"] == "consumer.assumption-broken"
    ]
    assert [(one["severity"], one["consumers"], one["pointer"], one["base_pointer"]) for one in found] == [
        ("breaking", ["aged"], "", "")
    ]


def test_a_transitive_level_asks_every_version_of_the_line(publish: Callable[..., Any]) -> None:
    level = "FORWARD_TRANSITIVE"
    closed = adults_only(minimum=10, version="1.0.0", compatibility=level)
    assert publish(**closed).status_code == 201
    assert publish(**adults_only(minimum=20, version="1.1.0", compatibility=level)).status_code == 201
    change = publish(**adults_only(minimum=5, version="1.2.0", compatibility=level)).json()["change"]
    assert [one["against"] for one in change["comparisons"]] == ["1.1.0", "1.0.0"]
    assert publish(**adults_only(minimum=20, version="1.3.0", compatibility=level)).status_code == 201


@pytest.mark.usefixtures("readers")
def test_a_dry_run_says_the_same_and_keeps_nothing(client: Any, publish: Callable[..., Any]) -> None:
    checked = publish(f"{CONTRACTS}/check", **adults_only())
    assert checked.status_code == 200
    assert checked.json() == publish(**adults_only()).json()["change"]
    assert not checked.json()["is_publishable"]
    major = publish(f"{CONTRACTS}/check", **adults_only(version="2.0.0")).json()
    assert (major["is_publishable"], major["is_breaking"], major["affected"]) == (
        True,
        True,
        ["aged", "written"],
    )
    first = publish(f"{CONTRACTS}/check", id="new", topic="new").json()
    assert (first["is_publishable"], first["comparisons"]) == (True, [])
    assert client.get(f"{CONTRACTS}/new").status_code == 404
    assert [one["version"] for one in client.get(HERE).json()["versions"]] == ["1.2.0"]
    assert publish(f"{CONTRACTS}/check", topic="").status_code == 422


@pytest.mark.usefixtures("readers")
@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"consumer": "agde", "candidate": "0" * 64}, 404, "has no consumer agde; did you mean aged?"),
        ({"consumer": "zzzz", "candidate": "0" * 64}, 404, "has no consumer zzzz; register it first"),
        ({"consumer": "aged", "version": "9.9.9"}, 404, "has no version 9.9.9"),
        ({"consumer": "aged", "version": "1.2.0"}, 409, "is active and needs no agreement"),
        ({"consumer": "aged"}, 422, "the body is no acknowledgement"),
        ({"consumer": "aged", "breaking": True, "version": "1.2.0"}, 422, "the body is no acknowledgement"),
        ({"version": "1.2.0"}, 422, "the body is no acknowledgement"),
        ({"consumer": "aged", "candidate": "x"}, 422, "the body is no acknowledgement"),
        ({"consumer": "aged", "candidate": "0" * 64, "by": "a\0"}, 422, "the body is no acknowledgement"),
    ],
)
@only_sqlite
def test_an_agreement_to_nothing_is_refused_with_what_to_do(
    client: Any, body: dict[str, Any], status: int, words: str
) -> None:
    answer = acknowledge(client, **body)
    assert answer.status_code == status
    assert words in answer.json()["detail"]
    assert client.get(f"{HERE}/acknowledgements").json() == {"acknowledgements": []}


def test_the_subjects_lenient_policy_makes_warnings_of_declared_names(
    client: Any, publish: Callable[..., Any]
) -> None:
    publish()
    schema = copy.deepcopy(CONTRACT["schema"])
    schema["definition"]["properties"]["ward"] = {"type": "string"}
    assert publish(version="1.3.0", schema=schema).status_code == 409
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    config = orjson.dumps({"compatibilityPolicy": "LENIENT"})
    path = "/config/hospital.admissions-value"
    assert client.request("PUT", path, content=config, headers=headers).status_code == 200
    assert publish(version="1.3.0", schema=schema).status_code == 201
