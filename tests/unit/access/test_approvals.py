"""Proposals that weaken an enforced contract: who approves and rejects them, and what the log and the desk show."""

from __future__ import annotations

from tidegate.gateway.access.principal import Role
from tidegate.gateway.access.rules import NATIVE

from .conftest import HERE, ID, VERSIONS, People, document, loose, only_sqlite, registered, without_minimum


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
