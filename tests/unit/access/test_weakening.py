"""A change that weakens what is enforced needs two persons, whichever door it comes through."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tidegate.gateway.access.principal import Role
from tidegate.gateway.access.rules import DESK, NATIVE
from tidegate.gateway.http.confluent.operations import OPERATIONS
from tidegate.gateway.http.models.examples import CONTRACT

from .conftest import Hire, Person

only_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
ID = "hospital.admissions"
HERE = f"/api/v1/contracts/{ID}"
SUBJECT = f"{ID}-value"
VERSIONS = f"/subjects/{SUBJECT}/versions"
STRICT: dict[str, Any] = {
    "classification": {"/admission_id": "pii"},
    "mask": {"/admission_id": "hash"},
    "error_budget": {"ratio": 0.01},
}


def document(**changes: Any) -> dict[str, Any]:
    """The strict contract; a part that is None is left out."""
    parts = {**copy.deepcopy(CONTRACT), **STRICT, **changes}
    return {name: part for name, part in parts.items() if part is not None}


def loose(**changes: Any) -> dict[str, Any]:
    return document(**{"classification": None, "mask": None, "version": "1.3.0", **changes})


def schema_text(change: Callable[[dict[str, Any]], object] = lambda _: None) -> str:
    definition = copy.deepcopy(CONTRACT["schema"]["definition"])
    change(definition)
    return json.dumps(definition)


def registered(change: Callable[[dict[str, Any]], object] = lambda _: None, **more: Any) -> dict[str, Any]:
    return {"schema": schema_text(change), "schemaType": "JSON", **more}


def without_minimum(definition: dict[str, Any]) -> None:
    del definition["properties"]["age"]["minimum"]


def opened(definition: dict[str, Any]) -> None:
    definition["required"] = []


@dataclass(frozen=True, slots=True)
class People:
    """Who asks: the author has as high a role as the operation needs, and never is the other person."""

    owner: Person
    producer: Person
    approver: Person
    admin: Person


@pytest.fixture
def people(hire: Hire) -> People:
    found = People(
        hire("admin"), hire("producer:hospital."), hire("approver:hospital."), hire("admin:hospital.")
    )
    assert found.owner.ask("POST", "/api/v1/contracts", document()).status_code == 201
    return found


def enforced(people: People) -> str:
    answer = people.owner.ask("GET", f"{HERE}/versions/latest")
    return str(answer.headers.get("etag", answer.status_code))


def with_older_loose_version(people: People) -> None:
    """Have a looser version below the enforced one: it is enforced when that one goes."""
    older = people.producer.ask("POST", "/api/v1/contracts", loose(version="1.1.0"))
    assert older.status_code == 201, older.text


def settle(people: People, method: str, path: str, body: Any) -> None:
    """Set something that only prepares a weakening."""
    answer = people.owner.ask(method, path, body)
    assert answer.status_code == 200, answer.text


ATTEMPTS: dict[str, tuple[str, str, Callable[[People], Any]]] = {
    "a classification and its mask are gone": (
        "POST", "/api/v1/contracts", lambda p: p.producer.ask("POST", "/api/v1/contracts", loose()),
    ),
    "in a new major version": (
        "POST", "/api/v1/contracts",
        lambda p: p.producer.ask("POST", "/api/v1/contracts", loose(version="2.0.0")),
    ),
    "rules, schema, classes and masks are gone at once": (
        "POST", "/api/v1/contracts",
        lambda p: p.producer.ask(
            "POST",
            "/api/v1/contracts",
            loose(version="2.0.0", rules=[], schema={"type": "json-schema", "definition": {"type": "object"}}),
        ),
    ),
    "a rule is gone": (
        "POST", "/api/v1/contracts",
        lambda p: p.producer.ask("POST", "/api/v1/contracts", document(version="1.3.0", rules=[])),
    ),
    "an approver alone": (
        "POST", "/api/v1/contracts", lambda p: p.approver.ask("POST", "/api/v1/contracts", loose()),
    ),
    "an admin of everything alone": (
        "POST", "/api/v1/contracts", lambda p: p.owner.ask("POST", "/api/v1/contracts", loose()),
    ),
    "a draft that its author promotes": (
        "POST", "/api/v1/contracts/{contract_id}/versions/{version}/status",
        lambda p: (
            p.approver.ask("POST", "/api/v1/contracts", loose(status="draft")),
            p.approver.ask("POST", f"{HERE}/versions/1.3.0/status", {"status": "active"}),
        )[1],
    ),
    "a draft that its author promotes at the desk": (
        "POST", "/desk/streams/{stream}/actions/{action}",
        lambda p: (
            p.approver.ask("POST", "/api/v1/contracts", loose(status="draft")),
            p.approver.ask("POST", f"/desk/streams/{ID}/actions/promote", b"version=1.3.0"),
        )[1],
    ),
    "the enforced version is retired": (
        "POST", "/api/v1/contracts/{contract_id}/versions/{version}/status",
        lambda p: (
            with_older_loose_version(p),
            p.approver.ask("POST", f"{HERE}/versions/1.2.0/status", {"status": "deprecated"}),
            p.approver.ask("POST", f"{HERE}/versions/1.2.0/status", {"status": "retired"}),
        )[2],
    ),
    "the enforced version is deleted": (
        "DELETE", "/api/v1/contracts/{contract_id}/versions/{version}",
        lambda p: (with_older_loose_version(p), p.admin.ask("DELETE", f"{HERE}/versions/1.2.0"))[1],
    ),
    "a deleted looser version comes back alone": (
        "POST", "/api/v1/contracts/{contract_id}/versions/{version}/undelete",
        lambda p: (
            with_older_loose_version(p),
            p.admin.ask("DELETE", f"{HERE}/versions/1.1.0"),
            p.admin.ask("DELETE", f"{HERE}/versions/1.2.0"),
            p.admin.ask("POST", f"{HERE}/versions/1.1.0/undelete"),
        )[3],
    ),
    "everything is deleted, and a looser document published": (
        "POST", "/api/v1/contracts",
        lambda p: (
            p.admin.ask("DELETE", f"{HERE}/versions/1.2.0"),
            p.admin.ask("POST", "/api/v1/contracts", loose(version="1.3.0")),
        )[1],
    ),
    "a schema without a bound": (
        "POST", "/subjects/{subject}/versions",
        lambda p: p.producer.ask("POST", VERSIONS, registered(without_minimum)),
    ),
    "a schema without required fields": (
        "POST", "/subjects/{subject}/versions",
        lambda p: p.producer.ask("POST", VERSIONS, registered(opened)),
    ),
    "by force": (
        "POST", "/subjects/{subject}/versions",
        lambda p: p.approver.ask("POST", f"{VERSIONS}?force=true", registered(without_minimum)),
    ),
    "under the level NONE": (
        "PUT", "/config/{subject}",
        lambda p: (
            settle(p, "PUT", f"/config/{SUBJECT}", {"compatibility": "NONE"}),
            p.producer.ask("POST", VERSIONS, registered(without_minimum)),
        )[1],
    ),
    "under the level NONE for all": (
        "PUT", "/config",
        lambda p: (
            settle(p, "PUT", "/config", {"compatibility": "NONE"}),
            p.producer.ask("POST", VERSIONS, registered(without_minimum)),
        )[1],
    ),
    "in another compatibility group": (
        "PUT", "/config/{subject}",
        lambda p: (
            settle(p, "PUT", f"/config/{SUBJECT}", {"compatibilityGroup": "group"}),
            p.producer.ask(
                "POST", VERSIONS, registered(without_minimum, metadata={"properties": {"group": "2"}})
            ),
        )[1],
    ),
    "in an older compatibility group, below the enforced version": (
        "POST", "/subjects/{subject}/versions",
        lambda p: (
            settle(p, "PUT", f"/config/{SUBJECT}", {"compatibilityGroup": "group"}),
            settle(p, "POST", VERSIONS, registered(metadata={"properties": {"group": "2"}})),
            settle(p, "POST", VERSIONS, registered(metadata={"properties": {"group": "3"}})),
            p.producer.ask(
                "POST", VERSIONS, registered(without_minimum, metadata={"properties": {"group": "2"}})
            ),
        )[3],
    ),
    "under another name": (
        "PUT", "/config/{subject}",
        lambda p: (
            settle(p, "PUT", "/config/hospital.other-value", {"alias": SUBJECT}),
            p.producer.ask("POST", "/subjects/hospital.other-value/versions", registered(without_minimum)),
        )[1],
    ),
    "an import": (
        "PUT", "/mode/{subject}",
        lambda p: (
            settle(p, "PUT", f"/mode/{SUBJECT}?force=true", {"mode": "IMPORT"}),
            p.owner.ask("POST", VERSIONS, registered(without_minimum, id=77)),
        )[1],
    ),
    "the rule set of the metadata is overridden": (
        "PUT", "/config/{subject}",
        lambda p: (
            settle(p, "POST", f"{VERSIONS}?force=true", registered(ruleSet=RULES, metadata={"properties": {"n": "1"}})),
            settle(p, "PUT", f"/config/{SUBJECT}", {"overrideRuleSet": DISABLED}),
            p.producer.ask("POST", VERSIONS, registered(metadata={"properties": {"n": "2"}})),
        )[2],
    ),
    "the rule set is left out": (
        "POST", "/subjects/{subject}/versions",
        lambda p: (
            settle(p, "POST", f"{VERSIONS}?force=true", registered(ruleSet=RULES)),
            p.producer.ask("POST", VERSIONS, registered(ruleSet={"domainRules": []})),
        )[1],
    ),
    "the tags of the metadata are gone": (
        "POST", "/subjects/{subject}/versions",
        lambda p: (
            settle(p, "POST", VERSIONS, registered(metadata={"tags": {"**.age": ["PII"]}})),
            p.producer.ask("POST", VERSIONS, registered(metadata={"properties": {"n": "2"}})),
        )[1],
    ),
    "the tags of the schema are gone": (
        "POST", "/subjects/{subject}/versions/{version}/tags",
        lambda p: (
            settle(p, "POST", f"{VERSIONS}/latest/tags", tags("tagsToAdd")),
            p.producer.ask(
                "POST",
                f"{VERSIONS}/latest/tags",
                tags("tagsToRemove") | {"metadata": {"properties": {"n": "2"}}},
            ),
        )[1],
    ),
    "the version is deleted": (
        "DELETE", "/subjects/{subject}/versions/{version}",
        lambda p: (with_older_loose_version(p), p.admin.ask("DELETE", f"{VERSIONS}/1"))[1],
    ),
    "the subject is deleted softly and registered again": (
        "DELETE", "/subjects/{subject}",
        lambda p: (
            p.admin.ask("DELETE", f"/subjects/{SUBJECT}"),
            p.admin.ask("POST", VERSIONS, registered(without_minimum)),
        )[1],
    ),
    "the subject is deleted for good": (
        "DELETE", "/subjects/{subject}",
        lambda p: (
            p.admin.ask("DELETE", f"/subjects/{SUBJECT}"),
            p.admin.ask("DELETE", f"/subjects/{SUBJECT}?permanent=true"),
        )[1],
    ),
    "an association brings the schema": (
        "POST", "/associations", lambda p: p.producer.ask("POST", "/associations", association()),
    ),
    "an association is put": (
        "PUT", "/associations", lambda p: p.producer.ask("PUT", "/associations", association()),
    ),
    "an association of a resource is put": (
        "PUT", "/associations/resources/{resource}",
        lambda p: p.producer.ask("PUT", "/associations/resources/topic-1", association()),
    ),
    "one association of many": (
        "POST", "/associations:batchMutate",
        lambda p: p.producer.ask("POST", "/associations:batchMutate", {"requests": [association()]}),
    ),
    "another contract over the same topic": (
        "POST", "/api/v1/contracts",
        lambda p: p.owner.ask("POST", "/api/v1/contracts", loose(id="hospital.second")),
    ),
}  # fmt: skip

RULES = {
    "domainRules": [
        {"name": "old", "kind": "CONDITION", "type": "CEL", "mode": "WRITE", "expr": "message.age < 130"}
    ]
}
DISABLED = {"domainRules": [{**RULES["domainRules"][0], "disabled": True}]}


def tags(key: str) -> dict[str, Any]:
    place = {"entityPath": ".object.age", "entityType": "sr_field"}
    return {key: [{"schemaEntity": place, "tags": ["PII"]}]}


def association() -> dict[str, Any]:
    return {
        "resourceName": ID,
        "resourceNamespace": "n",
        "resourceId": "topic-1",
        "resourceType": "topic",
        "associations": [
            {"subject": SUBJECT, "associationType": "value", "schema": registered(without_minimum)}
        ],
    }


HARMLESS = {
    ("POST", "/api/v1/contracts/{contract_id}/versions/{version}/judge"): "keeps nothing",
    ("POST", "/api/v1/contracts/check"): "keeps nothing",
    ("PUT", "/api/v1/contracts/{contract_id}/consumers/{consumer_id}"): "about who reads",
    ("DELETE", "/api/v1/contracts/{contract_id}/consumers/{consumer_id}"): "about who reads",
    ("POST", "/api/v1/contracts/{contract_id}/acknowledgements"): "about who reads",
    ("POST", "/api/v1/contracts/{contract_id}/approvals"): "the second person",
    ("DELETE", "/api/v1/contracts/{contract_id}/approvals/{candidate}"): "the second person",
    ("POST", "/api/v1/keys"): "makes a person",
    ("DELETE", "/api/v1/keys/{key_id}"): "ends a person",
    ("POST", "/desk/records/{topic}/{partition}/{offset}/reveal"): "logged by itself",
    ("POST", "/desk/streams/{stream}/problems/{problem}/state"): "about refused records",
    ("POST", "/desk/streams/{stream}/problems/{problem}/assignee"): "about refused records",
    ("POST", "/desk/streams/{stream}/problems/{problem}/comments"): "about refused records",
    ("POST", "/desk/streams/{stream}/problems/{problem}/replay"): "reads",
    ("POST", "/desk/streams/{stream}/problems/{problem}/replays"): "about refused records",
    ("POST", "/desk/streams/{stream}/problems/{problem}/replays/{replay}"): "about refused records",
    ("POST", "/desk/streams/{stream}/problems/{problem}/discards"): "about refused records",
    ("POST", "/desk/streams/{stream}/quarantine/find"): "reads",
    ("POST", "/desk/streams/{stream}/quarantine/download"): "reads",
    ("POST", "/desk/streams/{stream}/quarantine/searches"): "reads",
    ("POST", "/desk/streams/{stream}/quarantine/searches/{search}/cancel"): "ends a search",
    ("POST", "/api/v1/contracts/{contract_id}/table-audits"): "keeps what an audit has found",
    ("POST", "/desk/keys"): "makes a person",
    ("POST", "/desk/keys/{key_id}/revoke"): "ends a person",
    ("POST", "/desk/sign-in"): "says who asks",
    ("POST", "/desk/sign-out"): "says who asks",
    ("DELETE", "/config"): "as PUT",
    ("DELETE", "/config/{subject}"): "as PUT",
    ("PUT", "/mode"): "as of one subject",
    ("DELETE", "/mode"): "as PUT",
    ("DELETE", "/mode/{subject}"): "as PUT",
    ("DELETE", "/contexts/{context}"): "an empty one",
    ("DELETE", "/associations/resources/{resource}"): "deletes softly at most",
    ("POST", "/subjects/{subject}"): "reads",
    ("POST", "/compatibility/subjects/{subject}/versions"): "reads",
    ("POST", "/compatibility/subjects/{subject}/versions/{version}"): "reads",
    ("POST", "/associations:batchGet"): "reads",
}
"""Operations that change no contract version, and why."""


def writes() -> Iterator[tuple[str, str]]:
    for method, path in (*NATIVE, *DESK):
        if method != "GET" and not path.startswith("/api/v1/streams/"):  # jobs and their streams
            yield method, path
    for operation in OPERATIONS:
        if operation.method != "GET":
            yield operation.method, operation.path


def test_every_write_of_both_apis_is_tried_or_changes_no_version() -> None:
    tried = {(method, path) for method, path, _ in ATTEMPTS.values()}
    assert not tried & HARMLESS.keys()
    assert tried | HARMLESS.keys() == set(writes())


@only_sqlite
@pytest.mark.parametrize("name", ATTEMPTS)
def test_one_person_alone_weakens_nothing(people: People, name: str) -> None:
    def numbers() -> list[str]:
        return [one["action"] for one in people.owner.json("/api/v1/audit?limit=1000")["entries"]]

    attempt = ATTEMPTS[name][2]
    answer = attempt(people)
    is_batch = "results" in answer.text
    assert answer.status_code == (200 if is_batch else 409), answer.text
    if name == "another contract over the same topic":
        return
    told = answer.text
    page = f"tidegate approve {ID} " if "desk" in name else "urn:tidegate:problem:not-approved"
    assert "contract.not-approved" in told or page in told, told
    assert numbers()[-1] == "contract.weakening-proposed"
    (proposal,) = people.owner.json(f"{HERE}/approvals")["proposals"]
    assert (proposal["approved_by"], bool(proposal["weakenings"])) == (None, True)


@only_sqlite
def test_another_approver_lets_it_in_and_every_step_stands_in_the_log(people: People) -> None:
    before = enforced(people)
    refused = people.producer.ask("POST", "/api/v1/contracts", loose())
    assert refused.status_code == 409
    body = refused.json()
    proposal = body["proposal"]
    assert {each["code"] for each in proposal["weakenings"]} == {
        "contract.classification-lowered",
        "contract.mask-lowered",
    }
    assert "`/admission_id`: mask was hash and is not given any more" in body["detail"]
    assert f"tidegate approve {ID} {proposal['candidate']}" in body["detail"]
    assert enforced(people) == before
    candidate = {"candidate": proposal["candidate"]}
    assert people.producer.ask("POST", f"{HERE}/approvals", candidate).status_code == 403
    approved = people.approver.ask("POST", f"{HERE}/approvals", candidate)
    again = people.approver.ask("POST", f"{HERE}/approvals", candidate)
    assert (approved.status_code, again.status_code) == (201, 200)
    assert approved.json()["approved_by"] == people.approver.name
    published = people.producer.ask("POST", "/api/v1/contracts", loose())
    assert (published.status_code, published.json()["fingerprint"]) == (201, proposal["candidate"])
    entries = people.owner.json("/api/v1/audit")["entries"]
    assert [(one["action"], one["who"]) for one in entries][-4:] == [
        ("contract.weakening-proposed", people.producer.name),
        ("request.denied", people.producer.name),
        ("contract.weakening-approved", people.approver.name),
        ("contract.published", people.producer.name),
    ]
    assert [(entries[at]["before"], entries[at]["after"]) for at in (-4, -2)] == [
        (proposal["base"], proposal["candidate"])
    ] * 2
    assert people.owner.json(f"{HERE}/approvals") == {"proposals": []}


@only_sqlite
def test_an_approval_is_of_one_fingerprint_and_of_what_was_enforced_then(people: People) -> None:
    candidate = people.producer.ask("POST", "/api/v1/contracts", loose()).json()["proposal"]["candidate"]
    people.approver.ask("POST", f"{HERE}/approvals", {"candidate": candidate})
    other = people.producer.ask("POST", "/api/v1/contracts", loose(error_budget=None))
    assert (other.status_code, other.json()["proposal"]["approved_by"]) == (409, None)
    stricter = document(version="1.2.1", key_mask="hash")
    assert people.producer.ask("POST", "/api/v1/contracts", stricter).status_code == 201
    assert people.producer.ask("POST", "/api/v1/contracts", loose()).status_code == 409


@only_sqlite
def test_a_rejected_change_has_to_be_proposed_and_approved_again(people: People) -> None:
    """Also one that was approved, until its author has made the request again."""
    before = enforced(people)
    candidate = people.producer.ask("POST", "/api/v1/contracts", loose()).json()["proposal"]["candidate"]
    people.approver.ask("POST", f"{HERE}/approvals", {"candidate": candidate})
    path = f"{HERE}/approvals/{candidate}"
    assert people.producer.ask("DELETE", path).status_code == 403
    rejected = people.approver.ask("DELETE", path)
    assert (rejected.status_code, rejected.json()["candidate"]) == (200, candidate)
    assert people.owner.json(f"{HERE}/approvals") == {"proposals": []}
    assert people.approver.ask("DELETE", path).status_code == 404
    assert people.approver.ask("POST", f"{HERE}/approvals", {"candidate": candidate}).status_code == 404
    again = people.producer.ask("POST", "/api/v1/contracts", loose())
    assert (again.status_code, again.json()["proposal"]["approved_by"]) == (409, None)
    assert enforced(people) == before
    entries = people.owner.json("/api/v1/audit")["entries"]
    assert [(one["action"], one["who"]) for one in entries][-5:] == [
        ("contract.weakening-proposed", people.producer.name),
        ("contract.weakening-approved", people.approver.name),
        ("request.denied", people.producer.name),
        ("contract.weakening-rejected", people.approver.name),
        ("contract.weakening-proposed", people.producer.name),
    ]
    proposal = again.json()["proposal"]
    assert [(one["before"], one["after"]) for one in entries][-2] == (proposal["base"], candidate)


@only_sqlite
def test_authors_cannot_approve_their_own_change(people: People) -> None:
    candidate = people.approver.ask("POST", "/api/v1/contracts", loose()).json()["proposal"]["candidate"]
    own = people.approver.ask("POST", f"{HERE}/approvals", {"candidate": candidate})
    assert own.status_code == 403
    assert "another person with the role approver" in own.json()["detail"]
    assert people.approver.ask("POST", "/api/v1/contracts", loose()).status_code == 409
    unknown = people.admin.ask("POST", f"{HERE}/approvals", {"candidate": "0" * 64})
    assert unknown.status_code == 404
    assert people.producer.ask("POST", "/api/v1/contracts", loose()).status_code == 409
    assert people.admin.ask("POST", "/api/v1/contracts", loose()).status_code == 201  # a second person


def test_a_draft_is_promoted_by_another_person(people: People) -> None:
    assert people.producer.ask("POST", "/api/v1/contracts", loose(status="draft")).status_code == 201
    promoted = people.approver.ask("POST", f"{HERE}/versions/1.3.0/status", {"status": "active"})
    assert promoted.status_code == 200
    actions = [one["action"] for one in people.owner.json("/api/v1/audit")["entries"]]
    assert actions[-4:] == [
        "contract.published",
        "contract.weakening-proposed",
        "contract.weakening-approved",
        "contract.draft-to-active",
    ]


@only_sqlite
def test_what_is_as_strict_needs_one_person(people: People) -> None:
    text_only = document(version="1.3.0", description="What an admission is.")
    stricter = document(version="1.4.0", key_mask="redact", on_violation="fail")
    for body in (text_only, stricter):
        assert people.producer.ask("POST", "/api/v1/contracts", body).status_code == 201
    bounded = registered(lambda definition: definition["properties"]["age"].update(minimum=0, title="Age"))
    assert people.producer.ask("POST", VERSIONS, bounded).status_code == 200
    first = loose(id="hospital.beds", topic="hospital.beds", version="1.0.0")
    assert people.producer.ask("POST", "/api/v1/contracts", first).status_code == 201


@only_sqlite
def test_clients_of_a_schema_registry_read_what_is_missing(people: People) -> None:
    refused = people.producer.ask("POST", VERSIONS, registered(without_minimum))
    body = refused.json()
    assert (refused.status_code, body["error_code"]) == (409, 409)
    assert "errorType:'schema.minimum-" in body["message"]
    (proposal,) = people.owner.json(f"{HERE}/approvals")["proposals"]
    assert f"candidate:'{proposal['candidate']}'" in body["message"]
    approved = people.approver.ask("POST", f"{HERE}/approvals", {"candidate": proposal["candidate"]})
    assert approved.status_code == 201
    assert people.producer.ask("POST", VERSIONS, registered(without_minimum)).status_code == 200


@only_sqlite
def test_proposals_of_one_contract_stay_few(people: People) -> None:
    for number in range(25):
        people.producer.ask("POST", "/api/v1/contracts", loose(description=str(number)))
    found = people.owner.json(f"{HERE}/approvals")["proposals"]
    assert len(found) == 20


def test_roles_are_as_documented() -> None:
    assert NATIVE["POST", "/api/v1/contracts/{contract_id}/approvals"].role is Role.APPROVER


@only_sqlite
def test_the_desk_shows_what_waits_for_an_approver(people: People) -> None:
    page = f"/desk/contracts/{ID}"
    assert "wait for an approver" not in people.producer.ask("GET", page).text
    candidate = people.producer.ask("POST", "/api/v1/contracts", loose()).json()["proposal"]["candidate"]
    shown = people.approver.ask("GET", page).text
    assert "Changes that wait for an approver" in shown
    assert f"tidegate approve {ID} {candidate}" in shown
    assert "`/admission_id`: mask was hash and is not given any more" in shown
    assert people.producer.name in shown
    people.approver.ask("POST", f"{HERE}/approvals", {"candidate": candidate})
    assert f"approved by {people.approver.name}" in people.producer.ask("GET", page).text
