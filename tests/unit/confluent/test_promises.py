"""Promises of a contract beyond its schema (rules and consumers) also hold for schemas that are registered."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from tests.unit.confluent.conftest import Ask, record
from tidegate.gateway.http.models.examples import CONTRACT

MakeContract = Callable[..., bytes]
NATIVE = "/api/v1/contracts"
HERE = f"{NATIVE}/hospital.admissions"
NAME = "hospital.admissions-value"
SUBJECT = f"/subjects/{NAME}"
CHECK = f"/compatibility{SUBJECT}/versions"

only_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def as_json(**more: Any) -> dict[str, Any]:
    return {"schema": json.dumps(CONTRACT["schema"]["definition"]), "schemaType": "JSON", **more}


def rule_set(expr: str = "message.age < 100", name: str = "young") -> dict[str, Any]:
    rule = {"name": name, "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": expr}
    return {"domainRules": [rule]}


def widened() -> Any:
    schema = json.loads(json.dumps(CONTRACT["schema"]["definition"]))
    schema["properties"]["age"]["type"] = ["integer", "null"]
    return schema


def put(client: Any, path: str, body: Any) -> Any:
    headers = {"Content-Type": "application/json"}
    return client.request("PUT", path, content=orjson.dumps(body), headers=headers)


@pytest.fixture
def published(client: Any, make_contract: MakeContract) -> Any:
    """A contract that was published as a document, with one consumer that reads the age and one that does not."""
    assert client.post(NATIVE, make_contract()).status_code == 201
    for name, field in (("aged", "/age"), ("dated", "/admission_date")):
        assert put(client, f"{HERE}/consumers/{name}", {"reads": [field]}).status_code == 201
    return client


def candidate_of(message: str) -> str:
    return message.rpartition("candidate:'")[2][:64]


@pytest.mark.usefixtures("published")
def test_a_tightened_rule_is_refused_as_an_incompatible_schema_with_rule_consumer_and_record(
    ask: Ask,
) -> None:
    status, body = ask("POST", f"{SUBJECT}/versions", as_json(ruleSet=rule_set()))
    assert (status, body["error_code"]) == (409, 409)
    message = body["message"]
    assert message.startswith(
        f'Schema being registered is incompatible with an earlier schema for subject "{NAME}", details: ['
    )
    assert "errorType:'rule.added'" in message
    assert "consumers:'aged'" in message
    assert "have aged acknowledge the candidate" in message
    assert message.endswith("{compatibility: 'BACKWARD'}]")
    assert "dated" not in message
    checked = ask("POST", f"{CHECK}?verbose=true", as_json(ruleSet=rule_set()))[1]
    assert checked["is_compatible"] is False
    assert message.endswith(f"[{', '.join(checked['messages'])}]")
    latest = ask("POST", f"{CHECK}/latest", as_json(ruleSet=rule_set()))
    first = ask("POST", f"{CHECK}/1", as_json(ruleSet=rule_set()))
    assert latest == first == (200, {"is_compatible": False})


@pytest.mark.usefixtures("published")
def test_a_bare_schema_a_rule_that_is_gone_and_one_that_only_warns_are_let_in(ask: Ask) -> None:
    assert ask("POST", f"{SUBJECT}/versions", as_json())[1]["version"] == 1
    assert ask("POST", CHECK, as_json()) == (200, {"is_compatible": True})
    warning = rule_set()
    warning["domainRules"][0]["onFailure"] = "NONE"
    for number, rules in enumerate((warning, {"domainRules": []}), start=2):
        body = as_json(ruleSet=rules)
        for check in (CHECK, f"{CHECK}/latest"):
            assert ask("POST", check, body) == (200, {"is_compatible": True})
        assert ask("POST", f"{SUBJECT}/versions", body)[1]["version"] == number


@pytest.mark.usefixtures("published")
def test_what_is_neither_proven_nor_shown_of_a_rule_blocks_as_undetermined(ask: Ask) -> None:
    message = ask("POST", f"{SUBJECT}/versions", as_json(ruleSet=rule_set("message.age + 0 == message.age")))
    assert message[0] == 409
    assert "errorType:'rule.added', outcome:'undetermined'" in message[1]["message"]


def test_after_all_affected_consumers_agreed_the_registration_gets_a_new_major_version(
    published: Any, ask: Ask
) -> None:
    wanted = as_json(ruleSet=rule_set())
    candidate = candidate_of(ask("POST", f"{SUBJECT}/versions", wanted)[1]["message"])
    agreement = {"consumer": "aged", "candidate": candidate, "by": "Ada"}
    assert published.post(f"{HERE}/acknowledgements", orjson.dumps(agreement)).status_code == 201
    other = as_json(ruleSet=rule_set("message.age < 90"))
    assert ask("POST", f"{SUBJECT}/versions", other)[0] == 409
    assert ask("POST", CHECK, wanted) == (200, {"is_compatible": True})
    assert ask("POST", f"{SUBJECT}/versions", wanted)[0] == 200
    latest = published.get(f"{HERE}/versions/latest")
    assert latest.headers["etag"] == f'"{candidate}"'
    assert latest.json()["version"] == "2.0.0"
    last = published.get("/api/v1/audit").json()["entries"][-1]
    assert last["action"] == "subject.version-registered-as-agreed"


@pytest.mark.usefixtures("published")
def test_a_schema_that_breaks_names_the_consumers_and_can_be_agreed_to_as_well(
    published: Any, ask: Ask
) -> None:
    schema = json.loads(json.dumps(CONTRACT["schema"]["definition"]))
    schema["properties"]["age"]["minimum"] = 18
    wanted = as_json(schema=json.dumps(schema))
    status, body = ask("POST", f"{SUBJECT}/versions", wanted)
    assert (status, body["error_code"]) == (409, 409)
    assert "errorType:'schema.minimum-raised'" in body["message"]
    assert "errorType:'consumer.broken'" in body["message"]
    assert "field:'/age', consumers:'aged'" in body["message"]
    agreement = {"consumer": "aged", "candidate": candidate_of(body["message"])}
    published.post(f"{HERE}/acknowledgements", orjson.dumps(agreement))
    assert ask("POST", f"{SUBJECT}/versions", wanted)[0] == 200
    assert published.get(f"{HERE}/versions/latest").json()["version"] == "2.0.0"


def test_a_break_without_affected_consumers_needs_an_acknowledgement(
    client: Any, ask: Ask, make_contract: MakeContract
) -> None:
    client.post(NATIVE, make_contract())
    wanted = as_json(ruleSet=rule_set())
    message = ask("POST", f"{SUBJECT}/versions", wanted)[1]["message"]
    assert "no registered consumer is affected: have an approver acknowledge" in message
    agreement = {"breaking": True, "candidate": candidate_of(message)}
    client.post(f"{HERE}/acknowledgements", orjson.dumps(agreement))
    assert ask("POST", f"{SUBJECT}/versions", wanted)[0] == 200


def test_what_a_consumer_takes_for_granted_takes_part(
    client: Any, ask: Ask, make_contract: MakeContract
) -> None:
    client.post(NATIVE, make_contract(compatibility="FULL"))
    assumes = {"properties": {"age": {"minimum": 0}}}
    put(client, f"{HERE}/consumers/aged", {"reads": ["/admission_id"], "assumes": assumes})
    schema = json.loads(json.dumps(CONTRACT["schema"]["definition"]))
    schema["properties"]["age"]["minimum"] = -1
    message = ask("POST", f"{SUBJECT}/versions", as_json(schema=json.dumps(schema)))[1]["message"]
    assert "errorType:'consumer.assumption-broken'" in message
    assert "consumers:'aged'" in message


@pytest.mark.usefixtures("published")
def test_another_compatibility_group_is_a_new_major_version_and_needs_no_acknowledgement(
    published: Any, ask: Ask
) -> None:
    ask("PUT", f"/config/{NAME}", {"compatibilityGroup": "major"})

    def wanted(major: str, expr: str) -> dict[str, Any]:
        return as_json(ruleSet=rule_set(expr), metadata={"properties": {"major": major}})

    assert ask("POST", CHECK, wanted("2", "message.age < 100"))[1] == {"is_compatible": True}
    assert ask("POST", f"{SUBJECT}/versions", wanted("2", "message.age < 100"))[0] == 200
    assert published.get(f"{HERE}/versions/latest").json()["version"] == "2.0.0"
    assert ask("POST", f"{SUBJECT}/versions", wanted("2", "message.age < 90"))[0] == 409
    other = {**wanted("2", "message.age < 100"), "schema": json.dumps(widened())}
    assert ask("POST", f"{SUBJECT}/versions", other)[0] == 200
    listed = published.get(HERE).json()["versions"]
    assert [one["version"] for one in listed] == ["2.1.0", "2.0.0", "1.2.0"]


def test_an_older_group_continues_in_its_own_line_and_the_enforced_version_stays(
    client: Any, ask: Ask
) -> None:
    ask("PUT", "/config/t-value", {"compatibility": "BACKWARD_TRANSITIVE", "compatibilityGroup": "major"})

    def register(text: str, major: str) -> int:
        body = {"schema": text, "metadata": {"properties": {"major": major}}}
        status: int = ask("POST", "/subjects/t-value/versions", body)[0]
        return status

    assert register(record("a"), "1") == 200
    assert register(record("a", "b"), "2") == 200
    assert register(record("a", c=1), "1") == 200
    assert register(record("a", "c"), "1") == 409
    assert register(record("a", "b", d=1), "2") == 200
    listed = client.get(f"{NATIVE}/t").json()["versions"]
    assert [(one["version"], one["number"]) for one in listed] == [
        ("2.1.0", 4),
        ("2.0.0", 2),
        ("1.1.0", 3),
        ("1.0.0", 1),
    ]
    fields = client.get(f"{NATIVE}/t/versions/latest").json()["schema"]["definition"]["fields"]
    assert [field["name"] for field in fields] == ["a", "b", "d"]


@pytest.mark.usefixtures("published")
def test_under_none_nothing_is_compared(ask: Ask) -> None:
    ask("PUT", f"/config/{NAME}", {"compatibility": "NONE"})
    assert ask("POST", CHECK, as_json(ruleSet=rule_set()))[1] == {"is_compatible": True}
    assert ask("POST", f"{SUBJECT}/versions", as_json(ruleSet=rule_set()))[0] == 200


@pytest.mark.usefixtures("published")
def test_a_lenient_policy_is_about_undeclared_properties_and_not_about_rules(ask: Ask) -> None:
    ask("PUT", f"/config/{NAME}", {"compatibilityPolicy": "LENIENT"})
    schema = json.loads(json.dumps(CONTRACT["schema"]["definition"]))
    schema["properties"]["ward"] = {"type": "string"}
    assert ask("POST", f"{SUBJECT}/versions", as_json(schema=json.dumps(schema)))[0] == 200
    assert ask("POST", f"{SUBJECT}/versions", as_json(ruleSet=rule_set()))[0] == 409


def test_a_subject_that_only_clients_know_compares_schemas_as_they_expect(client: Any, ask: Ask) -> None:
    def register(expr: str) -> int:
        body = {"schema": record("age"), "ruleSet": rule_set(expr)}
        status: int = ask("POST", "/subjects/plain-value/versions", body)[0]
        return status

    assert [register("message.age < 150"), register("message.age < 100")] == [200, 200]
    listed = client.get(f"{NATIVE}/plain").json()["versions"]
    assert [one["version"] for one in listed] == ["1.1.0", "1.0.0"]
    put(client, f"{NATIVE}/plain/consumers/aged", {"reads": ["/age"]})
    assert [register("message.age < 50"), register("message.age < 150")] == [409, 200]


@only_sqlite
def test_under_forward_levels_no_version_slips_out_of_sight_as_another_major(client: Any, ask: Ask) -> None:
    ask("PUT", "/config/t-value", {"compatibility": "FORWARD_TRANSITIVE"})
    steps = [
        (record("a", "b"), 200),
        (record("a", "c", b=1), 200),  # old records have no c: only readers of older versions count here
        (record("a", "c"), 409),  # readers of version 1 need b
    ]
    for text, expected in steps:
        assert ask("POST", "/subjects/t-value/versions", {"schema": text})[0] == expected
    listed = client.get(f"{NATIVE}/t").json()["versions"]
    assert [one["version"] for one in listed] == ["1.1.0", "1.0.0"]


def test_transitive_levels_stay_within_a_major_version_and_see_all_of_it(
    client: Any, ask: Ask, make_contract: MakeContract
) -> None:
    def schema(**age: Any) -> dict[str, Any]:
        return {"type": "json-schema", "definition": {"properties": {"age": {"type": "integer", **age}}}}

    def publish(version: str, **age: Any) -> int:
        changes = {"schema": schema(**age), "compatibility": "FULL_TRANSITIVE", "version": version}
        plain = {"rules": [], "expectations": [], "columns": [], "primary_key": [], "classification": {}}
        answer = client.post(NATIVE, make_contract(**plain, **changes, consumers=[]))
        status: int = answer.status_code
        return status

    def registered(**age: Any) -> int:
        text = json.dumps(schema(**age)["definition"])
        body = {"schema": text, "schemaType": "JSON"}
        status: int = ask("POST", f"{SUBJECT}/versions", body)[0]
        return status

    assert publish("1.0.0", maximum=10) == 201
    assert publish("2.0.0", maximum=20) == 201
    assert publish("1.0.1", maximum=10) == 201  # the newest number, and an older line
    assert registered(maximum=10, description="x") == 409
    assert registered(maximum=20, description="x") == 200
    assert publish("2.9.0", maximum=10) == 409
    assert client.get(f"{HERE}/versions/latest").json()["version"] == "2.0.1"
