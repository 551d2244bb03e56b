"""A change that weakens what is enforced needs two persons, whichever door it comes through."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tidegate.gateway.access.rules import DESK, NATIVE
from tidegate.gateway.http.confluent.operations import OPERATIONS

from .conftest import (
    HERE,
    ID,
    SUBJECT,
    VERSIONS,
    People,
    document,
    loose,
    only_sqlite,
    registered,
    without_minimum,
)


def opened(definition: dict[str, Any]) -> None:
    definition["required"] = []


def with_older_loose_version(people: People) -> None:
    """Have a looser version below the enforced one: it is enforced when that one goes."""
    older = people.producer.ask("POST", "/api/v1/contracts", loose(version="1.1.0"))
    assert older.status_code == 201, older.text


def settle(people: People, method: str, path: str, body: Any) -> None:
    """Set something that only prepares a weakening."""
    answer = people.owner.ask(method, path, body)
    assert answer.status_code == 200, answer.text


def stricter(definition: dict[str, Any]) -> None:
    definition["properties"]["age"]["minimum"] = 1


def with_stricter_newest(people: People, group: str = "b") -> None:
    """Have a stricter version enforced, whose metadata name another group than those of the version before it."""
    body = registered(stricter, metadata={"properties": {"application": group}})
    settle(people, "POST", f"{VERSIONS}?force=true", body)


def with_stricter_older_group(people: People, config: str) -> None:
    """Have two groups by the settings of `config`; the older one is stricter than the enforced version."""
    settle(people, "PUT", config, {"compatibilityGroup": "application", "compatibility": "FORWARD"})
    older, newer = ({"properties": {"application": each}} for each in "ab")
    settle(people, "POST", VERSIONS, registered(metadata=older))
    settle(people, "POST", VERSIONS, registered(metadata=newer))
    settle(people, "POST", VERSIONS, registered(stricter, metadata=older))


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
    "groups, of which an older one is less strict than the enforced version": (
        "PUT", "/config/{subject}",
        lambda p: (
            with_stricter_newest(p),
            p.approver.ask("PUT", f"/config/{SUBJECT}", {"compatibilityGroup": "application"}),
        )[1],
    ),
    "groups for all, of which an older one is less strict": (
        "PUT", "/config",
        lambda p: (
            with_stricter_newest(p),
            p.owner.ask("PUT", "/config", {"compatibilityGroup": "application"}),
        )[1],
    ),
    "no groups, of which an older one was stricter than the enforced version": (
        "DELETE", "/config/{subject}",
        lambda p: (
            with_stricter_older_group(p, f"/config/{SUBJECT}"),
            p.approver.ask("DELETE", f"/config/{SUBJECT}"),
        )[1],
    ),
    "the setting of the groups is null": (
        "PUT", "/config/{subject}",
        lambda p: (
            with_stricter_older_group(p, f"/config/{SUBJECT}"),
            p.approver.ask("PUT", f"/config/{SUBJECT}", {"compatibilityGroup": None}),
        )[1],
    ),
    "groups by another property than all others": (
        "PUT", "/config/{subject}",
        lambda p: (
            with_stricter_older_group(p, "/config"),
            p.approver.ask("PUT", f"/config/{SUBJECT}", {"compatibilityGroup": "unknown"}),
        )[1],
    ),
    "no groups for all, of which an older one was stricter": (
        "DELETE", "/config",
        lambda p: (with_stricter_older_group(p, "/config"), p.owner.ask("DELETE", "/config"))[1],
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


PROPOSES_NOTHING = {
    "another contract over the same topic": "publish a new version of hospital.admissions",
    "groups for all, of which an older one is less strict": "would weaken the contracts hospital.admissions. First",
    "no groups for all, of which an older one was stricter": "would weaken the contracts hospital.admissions. First",
}
"""Attempts that no approval lets in, and a part of the answer."""


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
    if name in PROPOSES_NOTHING:
        assert PROPOSES_NOTHING[name] in answer.text
        assert people.owner.json(f"{HERE}/approvals") == {"proposals": []}
        return
    told = answer.text
    page = f"tidegate approve {ID} " if "desk" in name else "urn:tidegate:problem:not-approved"
    assert "contract.not-approved" in told or page in told, told
    assert numbers()[-1] == "contract.weakening-proposed"
    (proposal,) = people.owner.json(f"{HERE}/approvals")["proposals"]
    assert (proposal["approved_by"], bool(proposal["weakenings"])) == (None, True)
