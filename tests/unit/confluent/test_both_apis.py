"""One store: versions stored through one API are visible in the other, and registering a schema never disables rules."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import orjson
import pytest

from tests.unit.confluent.conftest import Ask, record
from tidegate.gateway.http.models.examples import CONTRACT, RECORDS

MakeContract = Callable[..., bytes]
SUBJECT = "/subjects/hospital.admissions-value"
NATIVE = "/api/v1/contracts"
VERSIONS = f"{NATIVE}/hospital.admissions/versions"


def schema_with(**changes: Any) -> str:
    schema = json.loads(orjson.dumps(CONTRACT["schema"]["definition"]))
    schema["properties"].update(changes)
    return json.dumps(schema)


def as_json(text: str, **more: Any) -> dict[str, Any]:
    return {"schema": text, "schemaType": "JSON", **more}


@pytest.fixture
def published(client: Any, make_contract: MakeContract) -> Any:
    answer = client.post(NATIVE, make_contract())
    assert answer.status_code == 201
    return answer.json()


class TestPublishedHere:
    def test_a_contract_is_a_version_of_its_subject_with_its_rules(self, ask: Ask, published: Any) -> None:
        found = ask("GET", f"{SUBJECT}/versions/latest")[1]
        assert (found["version"], found["schemaType"], found["deleted"]) == (1, "JSON", False)
        assert json.loads(found["schema"]) == CONTRACT["schema"]["definition"]
        properties = found["metadata"]["properties"]
        assert properties["tidegate.contract"] == "hospital.admissions@1.2.0"
        assert properties["tidegate.fingerprint"] == published["fingerprint"]
        assert [rule["id"] for rule in json.loads(properties["tidegate.rules"])] == [
            rule["id"] for rule in CONTRACT["rules"]
        ]

    def test_a_producer_that_registers_the_same_schema_gets_that_version(
        self, ask: Ask, published: Any
    ) -> None:
        text = json.dumps(CONTRACT["schema"]["definition"], indent=2)
        found = ask("POST", f"{SUBJECT}/versions?normalize=False", as_json(text))[1]
        assert (found["version"], found["id"]) == (1, 1)
        assert published["number"] == 1

    def test_a_draft_is_no_version_of_the_subject_until_it_is_promoted(
        self, client: Any, ask: Ask, make_contract: MakeContract
    ) -> None:
        client.post(NATIVE, make_contract(status="draft"))
        assert ask("GET", f"{SUBJECT}/versions")[0] == 404
        answer = client.post(f"{VERSIONS}/1.2.0/status", b'{"status": "active"}')
        assert (answer.status_code, answer.json()["status"]) == (200, "active")
        assert ask("GET", f"{SUBJECT}/versions")[1] == [1]

    def test_a_contract_is_not_published_into_a_read_only_subject(
        self, client: Any, ask: Ask, make_contract: MakeContract, published: Any
    ) -> None:
        ask("PUT", "/mode/hospital.admissions-value", {"mode": "READONLY"})
        refused = client.post(NATIVE, make_contract(version="1.3.0"))
        assert refused.status_code == 409
        assert "is in read-only mode" in refused.json()["detail"]
        assert published


class TestRegisteredThere:
    def test_the_first_schema_of_a_topic_makes_a_contract(self, client: Any, ask: Ask) -> None:
        ask("POST", "/subjects/orders-value/versions", {"schema": record("a")})
        found = client.get(f"{NATIVE}/orders/versions/latest").json()
        assert (found["id"], found["topic"], found["version"]) == ("orders", "orders", "1.0.0")
        assert (found["schema"]["type"], found["framing"]) == ("avro", "confluent-prefix")
        listed = client.get(f"{NATIVE}/orders").json()["versions"][0]
        assert (listed["number"], listed["status"], listed["note"]) == (1, "active", None)

    @pytest.mark.parametrize(
        "subject", ["orders-key", "orders", "or%2Fders-value", "%C3%B6-value", ":.c:orders-value"]
    )
    def test_other_subjects_are_plain_schemas(self, client: Any, ask: Ask, subject: str) -> None:
        assert ask("POST", f"/subjects/{subject}/versions", {"schema": record("a")})[0] == 200
        assert client.get(NATIVE).json()["total"] == 0

    def test_rules_and_policies_are_inherited_and_go_on_judging(
        self, client: Any, ask: Ask, published: Any
    ) -> None:
        text = schema_with(age={"type": ["integer", "null"]})
        status, body = ask("POST", f"{SUBJECT}/versions", as_json(text))
        assert (status, body["version"]) == (200, 2)
        latest = client.get(f"{VERSIONS}/latest").json()
        assert {key: latest.get(key) for key in CONTRACT if key not in {"version", "schema"}} == {
            key: value for key, value in CONTRACT.items() if key not in {"version", "schema"}
        }
        judged = client.post(f"{VERSIONS}/latest/judge", orjson.dumps(RECORDS)).json()
        assert judged["contract"] == f"hospital.admissions@{latest['version']}"
        codes = {violation["code"] for verdict in judged["verdicts"] for violation in verdict["violations"]}
        assert "age-is-known" in codes
        assert published

    def test_the_level_that_a_contract_promises_holds_for_registrations(
        self, client: Any, ask: Ask, make_contract: MakeContract
    ) -> None:
        client.post(NATIVE, make_contract(compatibility="FULL"))
        assert ask("GET", "/config/hospital.admissions-value?defaultToGlobal=true")[1] == {
            "compatibilityLevel": "FULL"
        }
        status, body = ask(
            "POST", f"{SUBJECT}/versions", as_json(schema_with(age={"type": ["integer", "null"]}))
        )
        assert (status, body["error_code"]) == (409, 409)
        assert "data of the new schema under version 1" in body["message"]

    def test_the_version_says_what_the_change_does(self, client: Any, ask: Ask) -> None:
        ask("PUT", "/config/t-value", {"compatibility": "NONE"})
        steps = [
            (record("a"), "1.0.0"),
            (json.dumps({**json.loads(record("a")), "doc": "why"}), "1.0.1"),
            (record("a", b=1), "1.1.0"),
            (record("a", "b", "c"), "2.0.0"),
        ]
        for text, version in steps:
            ask("POST", "/subjects/t-value/versions", {"schema": text})
            assert client.get(f"{NATIVE}/t/versions/latest").json()["version"] == version

    def test_a_rule_that_does_not_compile_leaves_a_draft_and_the_old_version_in_force(
        self, client: Any, ask: Ask, published: Any
    ) -> None:
        ask("PUT", "/config/hospital.admissions-value", {"compatibility": "NONE"})
        schema = json.loads(schema_with())
        del schema["properties"]["age"]
        schema["required"] = [name for name in schema.get("required", []) if name != "age"]
        status, body = ask("POST", f"{SUBJECT}/versions", as_json(json.dumps(schema)))
        assert (status, body["version"]) == (200, 2)
        versions = client.get(f"{NATIVE}/hospital.admissions").json()["versions"]
        draft = next(one for one in versions if one["number"] == 2)
        assert draft["status"] == "draft"
        assert "/rules/0/field the schema declares no field `/age`" in draft["note"]
        latest = client.get(f"{VERSIONS}/latest")
        assert latest.headers["etag"] == f'"{published["fingerprint"]}"'
        refused = client.post(f"{VERSIONS}/{draft['version']}/status", b'{"status": "active"}')
        assert refused.status_code == 422

    def test_deleting_the_subject_and_registering_again_brings_the_rules_back(
        self, client: Any, ask: Ask, published: Any
    ) -> None:
        ask("DELETE", SUBJECT)
        assert client.get(f"{VERSIONS}/latest").status_code == 404
        ask("POST", f"{SUBJECT}/versions", as_json(schema_with()))
        latest = client.get(f"{VERSIONS}/latest").json()
        assert latest["rules"] == CONTRACT["rules"]
        assert latest["version"] != published["version"]


RULE = {
    "name": "notUnknown",
    "kind": "CONDITION",
    "type": "CEL",
    "mode": "WRITE",
    "expr": "message.a != 999",
}


class TestRuleSets:
    def registered(self, client: Any, ask: Ask, *rules: dict[str, Any]) -> tuple[Any, Any]:
        body = {"schema": '{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}}}'}
        status, _ = ask(
            "POST",
            "/subjects/t-value/versions",
            {**body, "schemaType": "JSON", "ruleSet": {"domainRules": rules}},
        )
        assert status == 200
        return client.get(f"{NATIVE}/t/versions/latest").json(), client.get(f"{NATIVE}/t").json()["versions"][
            0
        ]

    def judged(self, client: Any, *values: Any) -> list[str]:
        body = {"records": [{"value": value} for value in values]}
        answer = client.post(f"{NATIVE}/t/versions/latest/judge", orjson.dumps(body)).json()
        return [verdict["disposition"] for verdict in answer["verdicts"]]

    def test_a_condition_in_cel_is_judged_with_the_peers_meaning(self, client: Any, ask: Ask) -> None:
        contract, info = self.registered(client, ask, RULE)
        assert [(rule["id"], rule["expr"]) for rule in contract["rules"]] == [
            ("confluent.notunknown", "this.a != 999")
        ]
        assert info["note"] is None
        assert self.judged(client, {"a": 1}, {"a": 999}, {}) == ["accepted", "quarantined", "quarantined"]

    def test_a_guard_and_literals_are_kept(self, client: Any, ask: Ask) -> None:
        rule = {**RULE, "expr": "has(message.b) ; message.b != 'message; x'"}
        contract, _ = self.registered(client, ask, rule)
        assert contract["rules"][0]["expr"] == "(has(this.b)) ? (this.b != 'message; x') : true"
        assert self.judged(client, {}, {"b": "y"}, {"b": "message; x"}) == [
            "accepted",
            "accepted",
            "quarantined",
        ]

    def test_a_rule_whose_failure_means_nothing_is_a_warning(self, client: Any, ask: Ask) -> None:
        self.registered(client, ask, {**RULE, "onFailure": "NONE"})
        assert self.judged(client, {"a": 999}) == ["warned"]

    def test_what_the_judge_has_no_words_for_is_kept_and_named(self, client: Any, ask: Ask) -> None:
        rules = (
            {"name": "field", "kind": "CONDITION", "type": "JSONATA", "expr": "$"},
            {"name": "mask", "kind": "TRANSFORM", "type": "CEL", "expr": "{'a': 1}"},
            {"name": "odd", "kind": "CONDITION", "type": "CEL", "expr": "timestamp(message.a) < now"},
            {"name": "off", "kind": "CONDITION", "type": "CEL", "expr": "false", "disabled": True},
        )
        contract, info = self.registered(client, ask, *rules)
        assert "rules" not in contract
        assert info["status"] == "active"
        assert [line.split(" is ")[0] for line in info["note"].splitlines()] == [
            "the rule field",
            "the rule mask",
            "the rule odd",
        ]
        kept = ask("GET", "/subjects/t-value/versions/latest")[1]["ruleSet"]["domainRules"]
        assert [rule["name"] for rule in kept] == ["field", "mask", "odd", "off"]

    def test_the_next_rule_set_takes_the_place_of_the_last(self, client: Any, ask: Ask) -> None:
        self.registered(client, ask, RULE)
        contract, _ = self.registered(client, ask, {**RULE, "name": "other"})
        assert [rule["id"] for rule in contract["rules"]] == ["confluent.other"]


class TestLifecycle:
    def change(self, client: Any, status: str, version: str = "1.2.0") -> Any:
        return client.post(f"{VERSIONS}/{version}/status", orjson.dumps({"status": status}))

    def test_a_version_goes_from_active_to_deprecated_to_retired(self, client: Any, published: Any) -> None:
        assert self.change(client, "retired").status_code == 409
        assert self.change(client, "deprecated").json()["status"] == "deprecated"
        assert client.get(f"{VERSIONS}/latest").headers["tidegate-status"] == "deprecated"
        assert self.change(client, "deprecated").status_code == 200
        assert self.change(client, "retired").json()["status"] == "retired"
        assert client.get(f"{VERSIONS}/latest").status_code == 404
        back = self.change(client, "active")
        assert back.status_code == 409
        assert back.json()["detail"] == (
            "hospital.admissions 1.2.0 is retired and cannot become active; "
            "a retired version stays so; publish a new version"
        )
        assert client.get(f"{VERSIONS}/1.2.0").headers["etag"] == f'"{published["fingerprint"]}"'

    def test_an_incompatible_schema_is_neither_published_nor_promoted(
        self, client: Any, make_contract: MakeContract, published: Any
    ) -> None:
        schema = {**CONTRACT["schema"], "definition": json.loads(schema_with(age={"type": "string"}))}
        changes = {"version": "1.3.0", "schema": schema, "rules": []}
        refused = client.post(NATIVE, make_contract(**changes))
        assert refused.status_code == 409
        assert "is not compatible (BACKWARD) with what is enforced" in refused.json()["detail"]
        assert "counterexample" in refused.json()["detail"]
        assert client.post(NATIVE, make_contract(**changes, status="draft")).status_code == 201
        assert self.change(client, "active", "1.3.0").status_code == 409
        assert client.post(NATIVE, make_contract(**{**changes, "version": "2.0.0"})).status_code == 201
        assert published

    def test_what_is_deleted_stays_deleted_on_both_apis_until_it_is_brought_back(
        self, client: Any, ask: Ask, make_contract: MakeContract, published: Any
    ) -> None:
        assert client.request("DELETE", f"{VERSIONS}/1.2.0").status_code == 200
        for version in ("latest", "1.2.0"):
            assert client.get(f"{VERSIONS}/{version}").status_code == 404
        assert ask("GET", f"{SUBJECT}/versions")[0] == 404
        assert ask("GET", "/schemas/ids/1")[0] == 200
        assert client.get(f"{NATIVE}/by-registry-id/1").status_code == 200
        again = client.post(NATIVE, make_contract())
        assert again.status_code == 409
        assert "was deleted, and its name means nothing else" in again.json()["detail"]
        undeleted = client.post(f"{VERSIONS}/1.2.0/undelete", b"")
        assert undeleted.json()["fingerprint"] == published["fingerprint"]
        assert ask("GET", f"{SUBJECT}/versions")[1] == [1]
        assert client.get(f"{VERSIONS}/latest").status_code == 200

    def test_what_is_deleted_for_good_cannot_be_brought_back_and_its_names_are_spent(
        self, client: Any, ask: Ask, make_contract: MakeContract, published: Any
    ) -> None:
        ask("DELETE", SUBJECT)
        ask("DELETE", f"{SUBJECT}?permanent=true")
        assert client.post(f"{VERSIONS}/1.2.0/undelete", b"").status_code == 409
        assert client.get(f"{NATIVE}/by-registry-id/1").status_code == 404
        assert client.post(NATIVE, make_contract()).status_code == 409
        new = client.post(NATIVE, make_contract(version="1.3.0")).json()
        assert (new["registry_id"], new["number"]) == (2, 1)
        assert published

    def test_reads_as_of_an_instant_see_what_was_enforced_then(
        self, client: Any, make_contract: MakeContract, published: Any
    ) -> None:
        def enforced(at: datetime) -> Any:
            answer = client.get(f"{VERSIONS}/latest", params={"asOf": at.isoformat()})
            return answer.json()["version"] if answer.status_code == 200 else answer.status_code

        instants = [
            datetime.fromisoformat(published["published_at"]) - timedelta(seconds=1),
            datetime.now(UTC),
        ]
        client.post(NATIVE, make_contract(version="1.3.0"))
        instants.append(datetime.now(UTC))
        client.request("DELETE", f"{VERSIONS}/1.3.0")
        instants.append(datetime.now(UTC))
        self.change(client, "deprecated")
        self.change(client, "retired")
        instants.append(datetime.now(UTC))
        assert [enforced(at) for at in instants] == [404, "1.2.0", "1.3.0", "1.2.0", 404]
        named = client.get(f"{VERSIONS}/1.2.0", params={"asOf": datetime.now(UTC).isoformat()})
        assert named.status_code == 422

    def test_reads_as_of_an_instant_follow_promotions_and_deletes_of_both_apis(
        self, client: Any, ask: Ask, make_contract: MakeContract, published: Any
    ) -> None:
        assert published

        def enforced(at: str) -> Any:
            answer = client.get(f"{VERSIONS}/latest", params={"asOf": at})
            return answer.json()["version"] if answer.status_code == 200 else answer.status_code

        def now() -> str:
            return datetime.now(UTC).isoformat()

        client.post(NATIVE, make_contract(version="1.3.0", status="draft"))
        seen = [("1.2.0", now())]
        assert self.change(client, "active", "1.3.0").status_code == 200
        seen.append(("1.3.0", now()))
        assert ask("DELETE", f"{SUBJECT}/versions/latest")[0] == 200
        seen.append(("1.2.0", now()))
        assert client.post(f"{VERSIONS}/1.3.0/undelete", b"").status_code == 200
        seen.append(("1.3.0", now()))
        assert ask("DELETE", SUBJECT)[0] == 200
        seen.append((404, now()))
        schema = as_json(schema_with(age={"type": ["integer", "null"]}))
        version = ask("POST", f"{SUBJECT}/versions", schema)[1]["version"]
        assert version == 3
        seen.append((client.get(f"{VERSIONS}/latest").json()["version"], now()))
        assert [enforced(at) for _, at in seen] == [expected for expected, _ in seen]
        elsewhere = datetime.fromisoformat(seen[1][1]).astimezone(timezone(timedelta(hours=-9)))
        assert enforced(elsewhere.isoformat()) == "1.3.0"
        for wrong in ("yesterday", "2026-07-01", "2026-07-01T00:00:00", ""):
            assert enforced(wrong) == 422, wrong


def test_every_write_is_in_the_log_of_changes(client: Any, ask: Ask, make_contract: MakeContract) -> None:
    client.post(NATIVE, make_contract())
    ask("POST", f"{SUBJECT}/versions", as_json(schema_with(age={"type": ["integer", "null"]})))
    ask("PUT", "/config/s", {"compatibility": "NONE"})
    ask("DELETE", "/config/s")
    ask("PUT", "/mode", {"mode": "READWRITE"})
    ask("DELETE", "/mode")
    client.post(f"{VERSIONS}/1.2.0/status", b'{"status": "deprecated"}')
    client.request("DELETE", f"{VERSIONS}/1.2.0")
    client.post(f"{VERSIONS}/1.2.0/undelete", b"")
    ask("DELETE", f"{SUBJECT}/versions/2")
    ask("DELETE", f"{SUBJECT}/versions/2?permanent=true")
    entries = client.get("/api/v1/audit").json()["entries"]
    assert [entry["action"] for entry in entries] == [
        "contract.published",
        "contract.weakening-without-access-control",  # the age may be null
        "subject.version-registered",
        "subject.config-changed",
        "subject.config-deleted",
        "subject.mode-changed",
        "subject.mode-deleted",
        "contract.active-to-deprecated",
        "contract.deleted",
        "contract.undeleted",
        "subject.version-deleted",
        "subject.version-purged",
    ]
    assert {entry["who"] for entry in entries} == {"anonymous"}
