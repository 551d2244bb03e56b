"""Proposals that weaken an enforced contract: who approves and rejects them, and what the log and the desk show."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.gateway.access.principal import Role
from tidegate.gateway.access.rules import NATIVE
from tidegate.gateway.registry import approvals

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

CONFIG = f"/config/{SUBJECT}"
GROUPED = {"compatibilityGroup": "application", "compatibility": "FORWARD"}


def enforced(people: People) -> str:
    answer = people.owner.ask("GET", f"{HERE}/versions/latest")
    return str(answer.headers.get("etag", answer.status_code))


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


def stricter(definition: dict[str, Any]) -> None:
    definition["properties"]["age"]["minimum"] = 1


def in_group(name: str, change: Any = lambda _: None) -> dict[str, Any]:
    return registered(change, metadata={"properties": {"application": name}})


def done(people: People, method: str, path: str, body: Any = None) -> Any:
    """Send a request of the owner's that succeeds."""
    answer = people.owner.ask(method, path, body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def judged_by(people: People) -> dict[str, str]:
    return {each["group"]: each["version"] for each in people.owner.json(f"{HERE}/groups")["groups"]}


@only_sqlite
def test_groups_that_weaken_are_set_with_all_other_settings_once_approved(people: People) -> None:
    done(people, "POST", f"{VERSIONS}?force=true", in_group("b", stricter))
    refused = people.approver.ask("PUT", CONFIG, GROUPED)
    assert refused.status_code == 409
    assert "with compatibilityGroup application, 1.2.0 would judge records instead of 2.0.0" in refused.text
    assert people.owner.ask("GET", CONFIG).status_code == 404
    (proposal,) = people.owner.json(f"{HERE}/approvals")["proposals"]
    assert {each["code"] for each in proposal["weakenings"]} == {
        "contract.judged-by-another-version",
        "schema.minimum-raised",
    }
    candidate = {"candidate": proposal["candidate"]}
    assert people.approver.ask("POST", f"{HERE}/approvals", candidate).status_code == 403
    assert people.admin.ask("POST", f"{HERE}/approvals", candidate).status_code == 201
    other = people.approver.ask("PUT", CONFIG, {"compatibilityGroup": "another"})
    assert other.status_code == 200  # all versions are in one group
    assert people.approver.ask("PUT", CONFIG, {"compatibilityGroup": None}).status_code == 200
    assert people.admin.ask("DELETE", f"{VERSIONS}/2").status_code == 409  # the approval is of the setting
    assert people.approver.ask("PUT", CONFIG, GROUPED).json() == GROUPED
    assert judged_by(people) == {"": "1.2.0", "b": "2.0.0"}
    assert people.approver.ask("PUT", CONFIG, {"compatibility": "FULL"}).status_code == 200
    actions = [one["action"] for one in people.owner.json("/api/v1/audit")["entries"]]
    assert "contract.weakening-approved" in actions


@only_sqlite
def test_another_approver_may_make_the_same_change_of_groups(people: People) -> None:
    done(people, "POST", f"{VERSIONS}?force=true", in_group("b", stricter))
    for who, status in ((people.approver, 409), (people.approver, 409), (people.admin, 200)):
        assert who.ask("PUT", CONFIG, GROUPED).status_code == status
    assert judged_by(people) == {"": "1.2.0", "b": "2.0.0"}


@only_sqlite
def test_groups_that_weaken_nothing_need_one_person(people: People) -> None:
    done(people, "POST", VERSIONS, in_group("b"))
    for scope in (CONFIG, "/config"):
        for method, body in (("PUT", GROUPED), ("DELETE", None)):
            assert people.owner.ask(method, scope, body).status_code == 200
    done(people, "PUT", "/config", GROUPED)
    done(people, "POST", VERSIONS, in_group("c", stricter))
    done(people, "DELETE", "/config")  # the newest version is the strictest
    assert people.owner.json(f"{HERE}/approvals") == {"proposals": []}
    done(people, "DELETE", f"/subjects/{SUBJECT}")
    done(people, "PUT", CONFIG, GROUPED)  # no version judges records


@only_sqlite
def test_groups_for_all_leave_subjects_with_a_setting_of_their_own(people: People) -> None:
    done(people, "PUT", "/config", GROUPED)
    for body in (in_group("a"), in_group("b"), in_group("a", stricter)):
        done(people, "POST", VERSIONS, body)
    assert people.owner.ask("DELETE", "/config").status_code == 409
    done(people, "PUT", CONFIG, {"compatibilityGroup": "application"})
    done(people, "DELETE", "/config")
    assert judged_by(people) == {"": "1.2.0", "a": "2.0.1", "b": "3.0.0"}
    assert people.approver.ask("DELETE", CONFIG).status_code == 409
    assert people.admin.ask("DELETE", CONFIG).json() == {"compatibilityGroup": "application"}


@only_sqlite
def test_groups_for_all_are_compared_for_so_many_contracts(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("hospital.beds", "hospital.wards"):
        first = document(id=name, topic=name)
        assert people.owner.ask("POST", "/api/v1/contracts", first).status_code == 201
    for subject in ("hospital.beds-value", "hospital.wards-value"):
        done(people, "POST", f"/subjects/{subject}/versions", in_group("b"))
    monkeypatch.setattr(approvals, "_MOST_REGROUPED", 1)
    refused = people.owner.ask("PUT", "/config", GROUPED)
    assert refused.status_code == 409
    assert (
        "change which versions judge the records of the contracts hospital.beds, hospital.wards. First"
        in (refused.text)
    )
    monkeypatch.setattr(approvals, "_MOST_REGROUPED", 2)
    done(people, "PUT", "/config", GROUPED)


@only_sqlite
def test_records_that_name_no_schema_keep_a_version_as_strict(people: People) -> None:
    """By another property, each schema keeps its version, but the group of these records has another one."""
    one, two = ({"properties": {"x": x, "y": y}} for x, y in ("12", "21"))
    done(people, "PUT", CONFIG, {"compatibilityGroup": "x", "compatibility": "FORWARD"})
    for metadata in (one, two):
        done(people, "POST", VERSIONS, registered(metadata=metadata))
    newest = people.owner.json(f"{HERE}/versions/latest")
    named = newest | {"version": "3.0.1", "unframed_group": "1"}
    assert people.producer.ask("POST", "/api/v1/contracts", named).status_code == 409
    assert people.owner.ask("POST", "/api/v1/contracts", named).status_code == 201
    done(people, "POST", VERSIONS, registered(stricter, metadata=one))
    assert judged_by(people) == {"": "1.2.0", "1": "2.0.1", "2": "3.0.1"}
    refused = people.approver.ask("PUT", CONFIG, {"compatibilityGroup": "y"})
    assert refused.status_code == 409
    assert "with compatibilityGroup y, 3.0.0 would judge records instead of 2.0.1" in refused.text
