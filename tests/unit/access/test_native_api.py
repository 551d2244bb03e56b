"""The native API: roles, lists, and contracts that do not exist for callers who may not see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import orjson
import pytest

from tidegate.gateway.http.models.examples import REPORT
from tidegate.gateway.http.native.table_audits import TABLE_AUDIT

from .conftest import Hire, Person, same_but_for

MakeContract = Callable[..., bytes]
CONTRACTS = "/api/v1/contracts"
HIDDEN, UNKNOWN = "nyc.flights", "nyc.nothing"
PATHS = [
    ("GET", CONTRACTS + "/{}"),
    ("GET", CONTRACTS + "/{}/versions/1.2.0"),
    ("GET", CONTRACTS + "/{}/versions/latest"),
    ("GET", CONTRACTS + "/{}/versions/9.9.9"),
    ("POST", CONTRACTS + "/{}/versions/latest/judge"),
    ("POST", CONTRACTS + "/{}/versions/1.2.0/status"),
    ("DELETE", CONTRACTS + "/{}/versions/1.2.0"),
    ("POST", CONTRACTS + "/{}/versions/1.2.0/undelete"),
    ("GET", CONTRACTS + "/{}/table-audits"),
    ("POST", CONTRACTS + "/{}/table-audits"),
    ("GET", CONTRACTS + "/{}/table-audits/" + TABLE_AUDIT["id"]),
    ("GET", "/api/v1/streams/{}"),
    ("GET", "/api/v1/streams/{}/batches"),
    ("GET", "/api/v1/streams/{}/refusals"),
    ("GET", "/desk/contracts/{}"),
    ("GET", "/desk/contracts/{}/diff"),
    ("GET", "/desk/contracts/{}/versions/1.2.0/contract.yaml"),
    ("GET", "/desk/contracts/{}/table-audits/" + TABLE_AUDIT["id"]),
    ("GET", "/desk/streams/{}"),
    ("GET", "/desk/streams/{}/latest"),
    ("GET", "/desk/streams/{}/actions/pause"),
    ("POST", "/desk/streams/{}/actions/pause"),
    ("GET", "/desk/streams/{}/problems"),
    ("GET", "/desk/streams/{}/problems/0123"),
    ("POST", "/desk/streams/{}/problems/0123/comments"),
    ("GET", "/desk/streams/{}/quarantine"),
    ("POST", "/desk/streams/{}/quarantine/find"),
    ("GET", "/desk/records/{}.quarantine/0/0"),
]


@pytest.fixture
def registry(admin: Person, make_contract: MakeContract) -> Person:
    """Two teams with a contract and a stream each."""
    for name in ("hospital.admissions", HIDDEN):
        assert (
            admin.ask("POST", CONTRACTS, make_contract(id=name, topic=name, domain=name[:3])).status_code
            == 201
        )
        names = {"stream": name, "topic": name, "quarantine_topic": f"{name}.quarantine"}
        report = REPORT | names | {"sink": f"iceberg:lake.{name}"}
        report |= {"contract": f"{name}@1.2.0"}
        assert admin.ask("POST", f"/api/v1/streams/{name}/batches", report).status_code == 201
    audit = audit_of(admin, HIDDEN)
    assert admin.ask("POST", f"{CONTRACTS}/{HIDDEN}/table-audits", audit).status_code == 201
    return admin


def audit_of(person: Person, contract: str) -> dict[str, Any]:
    """Return an audit of a table by the published version of a contract."""
    (version,) = person.json(f"{CONTRACTS}/{contract}")["versions"]
    return TABLE_AUDIT | {"contract": f"{contract}@1.2.0", "fingerprint": version["fingerprint"]}


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("role", ["viewer", "admin"])
def test_what_one_may_not_see_answers_byte_for_byte_like_what_does_not_exist(hire: Hire, role: str) -> None:
    person = hire(f"{role}:hospital.")
    for method, path in PATHS:
        for body, media_type in ((None, None), (b"x", "text/plain"), (b"{}", "application/json")):
            hidden, unknown = (
                person.ask(method, path.format(name), body, media_type) for name in (HIDDEN, UNKNOWN)
            )
            assert same_but_for(HIDDEN, UNKNOWN, hidden) == same_but_for(UNKNOWN, UNKNOWN, unknown), path
            assert hidden.status_code == 404, path


def test_a_missing_thing_answers_callers_who_see_everything_the_same(hire: Hire, registry: Person) -> None:
    sees_nothing = hire("admin:hospital.")
    for method, path in PATHS:
        answers = [person.ask(method, path.format(UNKNOWN)) for person in (registry, sees_nothing)]
        (status, content, headers), (*_, other_headers) = (same_but_for("x", "x", each) for each in answers)
        assert (status, headers) == (answers[1].status_code, other_headers), path
        assert below_the_header(content) == below_the_header(answers[1].content), path


def below_the_header(content: bytes) -> bytes:
    """Return an answer without the header of a page, which has the name of the person and their links."""
    return content.partition(b"</header>")[2] or content


def test_a_version_by_its_registry_id_is_hidden_like_the_rest(hire: Hire, registry: Person) -> None:
    viewer = hire("viewer:hospital.")
    ids = {
        name: registry.json(f"{CONTRACTS}/{name}")["versions"][0]["registry_id"]
        for name in (HIDDEN, "hospital.admissions")
    }
    assert viewer.ask("GET", f"{CONTRACTS}/by-registry-id/{ids['hospital.admissions']}").status_code == 200
    hidden = viewer.ask("GET", f"{CONTRACTS}/by-registry-id/{ids[HIDDEN]}")
    unknown = viewer.ask("GET", f"{CONTRACTS}/by-registry-id/99")
    assert same_but_for(f"id/{ids[HIDDEN]}", "id/99", hidden)[0] == unknown.status_code == 404
    assert hidden.content.replace(str(ids[HIDDEN]).encode(), b"99") == unknown.content


@pytest.mark.usefixtures("registry")
def test_lists_hold_and_count_only_what_the_caller_may_see(hire: Hire) -> None:
    viewer = hire("viewer:nyc.")
    listed = viewer.json(CONTRACTS)
    assert ([one["id"] for one in listed["contracts"]], listed["total"]) == ([HIDDEN], 1)
    assert viewer.json(f"{CONTRACTS}?offset=1")["contracts"] == []
    assert [one["stream"] for one in viewer.json("/api/v1/streams")["streams"]] == [HIDDEN]
    both = hire("viewer:nyc.", "producer:hospital.").json(CONTRACTS)
    assert both["total"] == 2
    for page in ("/desk", "/desk/contracts"):
        text = viewer.ask("GET", page).text
        assert HIDDEN in text
        assert "hospital" not in text


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("prefix", ["Hospital.", "hospital_", "hospital.admissions-value1", "%", "nothing"])
def test_a_prefix_means_its_characters_and_nothing_else(hire: Hire, prefix: str) -> None:
    viewer = hire(f"viewer:{prefix}")
    assert viewer.json(CONTRACTS)["total"] == 0
    assert viewer.json("/subjects") == []
    assert viewer.ask("GET", f"{CONTRACTS}/hospital.admissions").status_code == 404


@pytest.mark.usefixtures("registry")
def test_each_role_may_what_the_matrix_says(hire: Hire, make_contract: MakeContract) -> None:
    version = f"{CONTRACTS}/hospital.admissions/versions/1.2.0"
    newer = make_contract(version="1.3.0")
    deprecated = {"status": "deprecated"}
    audit = audit_of(hire("viewer:hospital."), "hospital.admissions") | {"id": str(uuid4())}
    audits = f"{CONTRACTS}/hospital.admissions/table-audits"
    attempts: list[tuple[str, str, Any]] = [
        ("GET", version, None),
        ("GET", audits, None),
        ("POST", audits, audit),
        ("POST", CONTRACTS, newer),
        ("POST", f"{version}/status", deprecated),
        ("DELETE", version, None),
    ]
    allowed = {}
    for role in ("viewer", "reporter", "producer", "approver", "admin"):
        person = hire(f"{role}:hospital.")
        statuses = [person.ask(*attempt).status_code for attempt in attempts]
        allowed[role] = [status != 403 for status in statuses]
        assert all(status < 500 for status in statuses)
    assert allowed == {
        "viewer": [True, True, False, False, False, False],
        "reporter": [True, True, True, False, False, False],
        "producer": [True, True, True, True, False, False],
        "approver": [True, True, True, True, True, False],
        "admin": [True, True, True, True, True, True],
    }


@pytest.mark.usefixtures("registry")
def test_a_refusal_names_the_role_and_ones_own_grants(hire: Hire) -> None:
    viewer = hire("viewer:hospital.")
    answer = viewer.ask("DELETE", f"{CONTRACTS}/hospital.admissions/versions/1.2.0")
    assert answer.json()["detail"] == (
        f"this needs the role admin of the subject hospital.admissions-value; {viewer.name} has viewer:hospital."
    )


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("topic", [HIDDEN, UNKNOWN])
def test_publishing_for_a_topic_of_others_is_refused_alike_whether_it_exists(
    hire: Hire, make_contract: MakeContract, topic: str
) -> None:
    producer = hire("producer:hospital.")
    for name in (HIDDEN, UNKNOWN, "mine"):
        answer = producer.ask("POST", CONTRACTS, make_contract(id=name, topic=topic))
        assert answer.status_code == 403
        assert answer.json()["detail"] == (
            f"this needs the role producer of the subject {topic}-value; {producer.name} has producer:hospital."
        )


@pytest.mark.usefixtures("registry")
def test_an_id_of_other_prefixes_is_refused_alike_whether_it_exists(
    hire: Hire, make_contract: MakeContract
) -> None:
    """Streams, tables and contracts of the Confluent API have the name that a contract's id takes away from others."""
    producer = hire("producer:hospital.")
    for name in (HIDDEN, UNKNOWN, "hospital", "Hospital.x", "hospital_x"):
        for path in (CONTRACTS, f"{CONTRACTS}/check"):
            answer = producer.ask("POST", path, make_contract(id=name, topic="hospital.x"))
            assert answer.status_code == 403
            assert answer.json()["detail"] == (
                f"this needs the role producer of the subject {name}-value; {producer.name} has producer:hospital."
            )
    own = make_contract(id="hospital.ward", topic="hospital.x")
    assert producer.ask("POST", CONTRACTS, own).status_code == 201


@pytest.mark.usefixtures("registry")
def test_an_id_of_ones_prefixes_over_a_topic_of_others_is_taken(
    hire: Hire, make_contract: MakeContract
) -> None:
    admin = hire("admin")
    assert admin.ask("POST", CONTRACTS, make_contract(id="hospital.odd", topic="nyc.odd")).status_code == 201
    answer = hire("producer:hospital.").ask(
        "POST", CONTRACTS, make_contract(id="hospital.odd", topic="hospital.x")
    )
    assert (answer.status_code, answer.json()["detail"]) == (
        409,
        "the id hospital.odd is taken; publish under another one",
    )
    # Who may see the topic goes on publishing under an id that was taken before ids were asked about.
    next_one = make_contract(id="hospital.odd", topic="nyc.odd", version="1.3.0")
    assert hire("producer:nyc.").ask("POST", CONTRACTS, next_one).status_code == 201


@pytest.mark.usefixtures("registry")
class TestReports:
    def post(self, person: Person, stream: str, topic: str) -> tuple[int, str]:
        report = REPORT | {"stream": stream, "topic": topic, "n": 2}
        answer = person.ask("POST", f"/api/v1/streams/{stream}/batches", orjson.dumps(report))
        return answer.status_code, answer.json().get("detail", "")

    def test_a_job_reports_about_the_contracts_of_its_prefixes(self, hire: Hire) -> None:
        job = hire("reporter:hospital.")
        assert self.post(job, "hospital.admissions", "hospital.admissions") == (201, "")

    def test_a_job_registers_and_publishes_nothing(self, hire: Hire, make_contract: MakeContract) -> None:
        job = hire("reporter:hospital.")
        schema = {"schema": "{}", "schemaType": "JSON"}
        for path, body in (
            (CONTRACTS, make_contract(version="1.3.0")),
            ("/subjects/hospital.admissions-value/versions", schema),
            ("/subjects/hospital.admissions-value/versions/1/tags", {}),
            ("/associations", {"associations": []}),
        ):
            assert job.ask("POST", path, body).status_code == 403

    def test_a_viewer_reports_nothing(self, hire: Hire) -> None:
        assert self.post(hire("viewer:hospital."), "hospital.admissions", "hospital.admissions")[0] == 403

    def test_a_stream_of_others_does_not_exist_and_a_topic_of_others_is_refused(self, hire: Hire) -> None:
        job = hire("reporter:hospital.")
        hidden, unknown = (self.post(job, name, "hospital.x") for name in (HIDDEN, UNKNOWN))
        assert hidden == (404, f"no contract is published under the id {HIDDEN}")
        assert unknown == (404, f"no contract is published under the id {UNKNOWN}")
        assert self.post(job, "hospital.admissions", HIDDEN)[0] == 409


@pytest.mark.usefixtures("registry")
def test_the_desk_says_no_on_a_page(hire: Hire) -> None:
    nobody = hire("viewer:hospital.")
    answer = nobody.ask("GET", "/desk/contracts/nyc.flights")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")


def test_who_refers_to_a_version_is_named_as_far_as_one_may_see(hire: Hire, registry: Person) -> None:
    body = {
        "schemaType": "JSON",
        "schema": '{"$ref": "other.json"}',
        "references": [{"name": "other.json", "subject": "hospital.admissions-value", "version": 1}],
    }
    made = registry.ask("POST", "/subjects/nyc.reader-value/versions", body)
    path = CONTRACTS + "/hospital.admissions/versions/1.2.0"
    for person, said in (
        (registry, f"the schema ids {made.json()['id']};"),
        (hire("admin:hospital."), "1 schema that you may not see;"),
    ):
        refused = person.ask("DELETE", path)
        assert (refused.status_code, said in refused.json()["detail"]) == (409, True), refused.text
