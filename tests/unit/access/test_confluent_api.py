"""The Confluent API: what one may not see answers, in every operation, like what does not exist."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from tidegate.gateway.access.rules import Reach
from tidegate.gateway.http.confluent.operations import OPERATIONS, Operation
from tidegate.gateway.registry.schemas.names import DEFAULT_CONTEXT
from tidegate.gateway.storage.tables import NextIdRow

from .conftest import AVRO, Hire, Person, same_but_for

MINE, HIDDEN, UNKNOWN = "a.x-value", "b.hidden-value", "b.nothing-value"
ASSOCIATION = "/associations/resources/topic-1"
OF_A_SUBJECT = [operation for operation in OPERATIONS if "{subject}" in operation.path]
# These do not answer "not found" to a principal that may see the name.
SAYS_NO_NOT_FOUND = ("/compatibility/", "/associations/")


def associate(subject: str, resource: str = "topic-1") -> dict[str, Any]:
    return {
        "resourceName": subject.removesuffix("-value"),
        "resourceNamespace": "n",
        "resourceId": resource,
        "resourceType": "topic",
        "associations": [{"subject": subject, "associationType": "value"}],
    }


@pytest.fixture
def registry(admin: Person, hire: Hire) -> Person:
    """A subject of a, a subject of b with settings, and a schema that both have."""
    for subject in (MINE, HIDDEN):
        assert admin.ask("POST", f"/subjects/{subject}/versions", {"schema": AVRO}).status_code == 200
    own = AVRO.replace('"U"', '"Own"')
    assert admin.ask("POST", f"/subjects/{HIDDEN}/versions", {"schema": own}).status_code == 409
    assert admin.ask("PUT", f"/config/{HIDDEN}", {"compatibility": "NONE"}).status_code == 200
    # Another record is a weaker contract: one person proposes it, another one registers it.
    assert hire("admin").ask("POST", f"/subjects/{HIDDEN}/versions", {"schema": own}).status_code == 409
    assert admin.ask("POST", f"/subjects/{HIDDEN}/versions", {"schema": own}).status_code == 200
    assert admin.ask("PUT", f"/mode/{HIDDEN}", {"mode": "READONLY"}).status_code == 200
    assert admin.ask("POST", "/associations", associate(HIDDEN)).status_code == 200
    return admin


def path_of(operation: Operation, subject: str) -> str:
    return operation.path.replace("{subject}", subject).replace("{version}", "1")


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("role", ["viewer", "admin"])
def test_a_subject_that_one_may_not_see_answers_byte_for_byte_like_one_that_does_not_exist(
    hire: Hire, role: str
) -> None:
    person = hire(f"{role}:a.")
    for operation in OF_A_SUBJECT:
        for body in (None,) if operation.body is None else (dict(operation.body), b"x"):
            for query in ("", "?permanent=true&deleted=true"):
                hidden, unknown = (
                    person.ask(operation.method, path_of(operation, name) + query, body)
                    for name in (HIDDEN, UNKNOWN)
                )
                found = same_but_for(HIDDEN, UNKNOWN, hidden)
                assert found == same_but_for(UNKNOWN, UNKNOWN, unknown), operation.id
                assert hidden.status_code in {403, 404}, operation.id


def test_and_the_same_as_it_answers_those_who_would_see_it(hire: Hire, registry: Person) -> None:
    sees_nothing = hire("admin:a.")
    compared = 0
    for operation in OF_A_SUBJECT:
        if operation.rule.reach is not Reach.SUBJECT or operation.path.startswith(SAYS_NO_NOT_FOUND):
            continue
        body = None if operation.body is None else dict(operation.body)
        answers = [
            person.ask(operation.method, path_of(operation, UNKNOWN), body)
            for person in (registry, sees_nothing)
        ]
        assert same_but_for("x", "x", answers[0]) == same_but_for("x", "x", answers[1]), operation.id
        compared += 1
    assert compared > 10


@pytest.mark.usefixtures("registry")
def test_registering_where_one_may_not_is_refused_alike_whether_the_subject_exists(hire: Hire) -> None:
    producer = hire("producer:a.")
    for name in (HIDDEN, UNKNOWN):
        answer = producer.ask("POST", f"/subjects/{name}/versions", {"schema": AVRO})
        assert (answer.status_code, answer.json()["error_code"]) == (403, 40301)
        assert answer.json()["message"] == (
            f"this needs the role producer of the subject {name}; {producer.name} has producer:a."
        )


@pytest.mark.usefixtures("registry")
class TestSchemasByNumber:
    def number(self, registry: Person, version: int) -> int:
        found: int = registry.json(f"/subjects/{HIDDEN}/versions/{version}")["id"]
        return found

    def test_an_id_that_only_hidden_subjects_have_does_not_exist(self, hire: Hire, registry: Person) -> None:
        number, viewer = self.number(registry, 2), hire("viewer:a.")
        for suffix in ("", "/schema", "/subjects", "/versions", "?fetchMaxId=true", f"?subject={HIDDEN}"):
            path = "/schemas/ids/{}" + suffix
            assert registry.ask("GET", path.format(number)).status_code == 200  # and is kept ready
            hidden, unknown = (viewer.ask("GET", path.format(one)) for one in (number, 99))
            found = same_but_for(f"Schema {number} ", "Schema 99 ", hidden)
            assert found == same_but_for("x", "x", unknown), suffix
            assert (hidden.status_code, hidden.json()["error_code"]) == (404, 40403)

    def test_the_guid_of_a_hidden_schema_does_not_exist_in_any_spelling(
        self, hire: Hire, registry: Person
    ) -> None:
        guid = registry.json(f"/subjects/{HIDDEN}/versions/2")["guid"]
        other, viewer = "00000000-0000-0000-0000-00000000abcd", hire("viewer:a.")
        for suffix in ("", "/ids"):
            for change in (str.lower, str.upper):
                assert registry.ask("GET", f"/schemas/guids/{change(guid)}{suffix}").status_code == 200
                hidden, unknown = (
                    viewer.ask("GET", f"/schemas/guids/{change(one)}{suffix}") for one in (guid, other)
                )
                assert same_but_for(guid, other, hidden) == same_but_for("x", "x", unknown)
                assert hidden.status_code == 404

    def test_an_id_that_a_visible_subject_has_too_is_shown_with_that_subject_alone(
        self, hire: Hire, registry: Person
    ) -> None:
        shared = self.number(registry, 1)
        viewer = hire("viewer:a.")
        assert viewer.json(f"/schemas/ids/{shared}")["schema"]
        assert viewer.json(f"/schemas/ids/{shared}/subjects") == [MINE]
        assert viewer.json(f"/schemas/ids/{shared}/versions") == [{"subject": MINE, "version": 1}]

    def test_an_answer_that_is_kept_ready_is_given_to_those_who_may_see_it(
        self, hire: Hire, registry: Person
    ) -> None:
        path = f"/schemas/ids/{self.number(registry, 2)}"
        people = [hire("viewer:b."), hire("viewer:a."), hire("viewer")]
        for _ in range(3):
            assert [person.ask("GET", path).status_code for person in people] == [200, 404, 200]

    def test_a_key_without_a_role_sees_nothing(self, hire: Hire, registry: Person) -> None:
        path = f"/schemas/ids/{self.number(registry, 2)}"
        assert registry.ask("GET", path).status_code == 200
        assert hire("viewer:c.").ask("GET", path).status_code == 404
        assert registry.client.get(path).status_code == 401


@pytest.mark.usefixtures("registry")
def test_lists_hold_what_one_may_see_page_by_page(hire: Hire) -> None:
    viewer = hire("viewer:a.")
    assert viewer.json("/subjects") == [MINE]
    assert viewer.json("/subjects?offset=1") == []
    assert viewer.json("/subjects?subjectPrefix=b.") == []
    assert [one["subject"] for one in viewer.json("/schemas")] == [MINE]
    assert viewer.json("/schemas?subjectPrefix=b.") == []
    assert viewer.json(ASSOCIATION) == []
    batch = viewer.ask("POST", "/associations:batchGet", {"requests": [{"resourceId": "topic-1"}]})
    assert batch.json() == {"results": [{"result": []}]}


def test_contexts_are_shown_to_those_who_see_something_in_them(hire: Hire, admin: Person) -> None:
    for name in (":.team:x-value", ":.other:x-value"):
        assert admin.ask("POST", f"/subjects/{name}/versions", {"schema": AVRO}).status_code == 200
    assert admin.json("/contexts") == [".", ".other", ".team"]
    assert hire("viewer::.team:").json("/contexts") == [".", ".team"]
    assert hire("viewer::.team:").json("/subjects") == [":.team:x-value"]
    assert hire("viewer:x").json("/contexts") == ["."]


@pytest.mark.parametrize("path", ["/contexts/.team/{}", "/{}/:.team:"])
def test_settings_of_a_context_are_shown_and_changed_by_those_who_have_a_role_there(
    hire: Hire, admin: Person, path: str
) -> None:
    config, mode = path.format("config"), path.format("mode")
    stranger, reader, approver = (
        hire("admin:x", "admin::.other:"),
        hire("viewer::.team:"),
        hire("admin::.team:"),
    )
    unset = [stranger.ask("GET", each).json() for each in (config, mode)]
    assert [each["error_code"] for each in unset] == [40408, 40409]
    for each, body in ((config, {"compatibility": "NONE"}), (mode, {"mode": "READWRITE"})):
        assert stranger.ask("PUT", each, body).status_code == 403
        assert reader.ask("PUT", each, body).status_code == 403
        assert approver.ask("PUT", each, body).status_code == 200
    assert admin.json(config) == reader.json(config) == {"compatibilityLevel": "NONE"}
    assert admin.json(mode) == reader.json(mode) == {"mode": "READWRITE"}
    assert [stranger.ask("GET", each).json() for each in (config, mode)] == unset
    for each in (config, mode):
        assert stranger.ask("GET", f"{each}?defaultToGlobal=true").status_code == 404
        assert stranger.ask("DELETE", each).status_code == 404
        assert reader.ask("DELETE", each).status_code == 403
        assert approver.ask("DELETE", each).status_code == 200


@pytest.mark.usefixtures("registry")
def test_another_spelling_of_a_name_is_the_same_name(hire: Hire) -> None:
    people = [hire(grant) for grant in ("viewer:a.", "viewer::", "viewer::.", "viewer::.:", "viewer:b.")]
    for spelt in (":.:{}/versions", ":.:%3A.%3A{}/versions", ":.::.::.:{}/versions", "{}/versions/"):
        path = f"/subjects/{spelt.format(HIDDEN)}"
        assert [person.ask("GET", path).status_code for person in people] == [404, 404, 404, 404, 200]


@pytest.mark.usefixtures("registry")
def test_a_reference_to_a_hidden_subject_is_one_to_nothing(hire: Hire) -> None:
    producer = hire("producer:a.")
    answers = [
        producer.ask(
            "POST",
            "/subjects/a.y-value/versions",
            {"schema": AVRO, "references": [{"name": "U", "subject": name, "version": 1}]},
        )
        for name in (HIDDEN, UNKNOWN)
    ]
    assert same_but_for(HIDDEN, UNKNOWN, answers[0]) == same_but_for(UNKNOWN, UNKNOWN, answers[1])
    assert answers[0].status_code == 422


def test_a_reference_without_a_context_is_one_to_a_subject_of_the_schemas_context(
    hire: Hire, admin: Person
) -> None:
    for name in ("u", ":.team:u", ":.other:u"):
        assert admin.ask("POST", f"/subjects/{name}/versions", {"schema": AVRO}).status_code == 200
    body = {
        "schema": '{"type":"array","items":"U"}',
        "references": [{"name": "U", "subject": "u", "version": 1}],
    }
    team = hire("producer::.team:")
    assert team.ask("POST", "/subjects/:.team:x/versions", body).status_code == 200
    stranger = hire("producer:u", "producer::.other:x")  # sees another subject of that name only
    refused = stranger.ask("POST", "/subjects/:.other:x/versions", body)
    assert (refused.status_code, refused.json()["error_code"]) == (422, 42201)


def test_who_refers_to_a_schema_is_shown_as_far_as_one_may_see(hire: Hire, admin: Person) -> None:
    person = '{"type":"record","name":"P","fields":[{"name":"u","type":"U"}]}'
    references = [{"name": "U", "subject": MINE, "version": 1}]
    assert admin.ask("POST", f"/subjects/{MINE}/versions", {"schema": AVRO}).status_code == 200
    made = [
        admin.ask("POST", f"/subjects/{name}/versions", {"schema": schema, "references": references}).json()[
            "id"
        ]
        for name, schema in (("a.z-value", person), (HIDDEN, person.replace('"P"', '"Q"')))
    ]
    assert admin.json(f"/subjects/{MINE}/versions/1/referencedby") == made
    assert hire("viewer:a.").json(f"/subjects/{MINE}/versions/1/referencedby") == made[:1]
    for person, said in (
        (admin, f"those of the schema ids {made[0]}, {made[1]}"),
        (hire("admin:a."), f"those of the schema ids {made[0]} and of 1 more that you may not see"),
        (hire("admin:a.x"), "those of 2 schemas that you may not see"),
    ):
        refused = person.ask("DELETE", f"/subjects/{MINE}/versions/1")
        assert (refused.status_code, refused.json()["error_code"]) == (422, 42206)
        assert refused.json()["message"].endswith(said), refused.text


def test_who_refers_to_a_schema_from_another_context_is_shown_as_far_as_one_may_see(
    hire: Hire, admin: Person
) -> None:
    """Each context counts ids from 1, so an id is no name of a schema of another context."""
    of_team = {
        "schema": '{"type":"array","items":"U"}',
        "references": [{"name": "U", "subject": ":.:a.base", "version": 1}],
    }
    for name, body in (
        ("a.base", {"schema": AVRO}),
        (":.team:fill", {"schema": '"int"'}),
        (":.team:fill-2", {"schema": '"long"'}),
        (":.team:x", of_team),
    ):
        assert admin.ask("POST", f"/subjects/{name}/versions", body).status_code == 200
    path = "/subjects/a.base/versions/1/referencedby"
    assert admin.json(path) == [3]
    assert hire("viewer:a.", "viewer::.team:x").json(path) == [3]
    assert hire("viewer:a.").json(path) == []  # no schema 3 in the context of the subject
    for name in ('"string"', '"bytes"'):
        assert admin.ask("POST", f"/subjects/a.{name[1:-1]}/versions", {"schema": name}).status_code == 200
    assert hire("viewer:a.").json(path) == []  # the schema 3 there is another one
    refused = admin.ask("DELETE", "/subjects/a.base/versions/1")
    assert (refused.status_code, refused.json()["error_code"]) == (422, 42206)


@pytest.mark.usefixtures("registry")
class TestAssociations:
    def test_a_resource_of_a_hidden_subject_cannot_be_taken_from_it(
        self, hire: Hire, registry: Person
    ) -> None:
        producer = hire("producer:a.")
        for method in ("POST", "PUT"):
            answer = producer.ask(method, "/associations", associate(MINE))
            assert (answer.status_code, answer.json()["error_code"]) == (409, 40903)
            assert HIDDEN not in answer.text
        assert [one["subject"] for one in registry.json(ASSOCIATION)] == [HIDDEN]

    def test_nor_gets_another_one_that_its_owner_could_not_remove(self, hire: Hire, registry: Person) -> None:
        producer = hire("producer:a.")
        body = associate(MINE)
        body["associations"][0]["associationType"] = "key"
        for method, path in (("POST", "/associations"), ("PUT", "/associations"), ("PUT", ASSOCIATION)):
            answer = producer.ask(method, path, body)
            assert (answer.status_code, answer.json()["error_code"]) == (409, 40903)
            assert HIDDEN not in answer.text
        assert [one["subject"] for one in registry.json(ASSOCIATION)] == [HIDDEN]
        assert hire("approver:b.").ask("DELETE", ASSOCIATION).status_code == 204

    @pytest.mark.parametrize("name", ["b.orders", "b.hidden", "orders", ":.team:a.x"])
    def test_a_name_of_others_is_no_resource_of_mine(self, hire: Hire, registry: Person, name: str) -> None:
        """Serializers ask for the subject of a topic by its name: they would write with my schema."""
        body = {**associate(MINE, "topic-9"), "resourceName": name}
        batch = {"requests": [body]}
        producer = hire("producer:a.", "viewer")
        answer = producer.ask("POST", "/associations", body)
        assert (answer.status_code, answer.json()["error_code"]) == (403, 40301)
        of_batch = producer.ask("POST", "/associations:batchMutate", batch).json()["results"][0]
        assert of_batch["error"]["error_code"] == 40301
        assert registry.json("/associations/resources/topic-9") == []
        assert hire("producer").ask("POST", "/associations", body).status_code == 200

    def test_the_name_of_the_resource_counts_with_and_without_the_context(
        self, hire: Hire, registry: Person
    ) -> None:
        """A serializer that names no context finds the associations of all contexts by the name of its topic."""
        subject = ":.team:orders-value"
        assert registry.ask("POST", f"/subjects/{subject}/versions", {"schema": AVRO}).status_code == 200
        body = {**associate(subject, "topic-9"), "resourceName": "orders"}
        assert hire("producer:orders").ask("POST", "/associations", body).status_code == 404
        answer = hire("producer::.team:", "viewer").ask("POST", "/associations", body)
        assert (answer.status_code, answer.json()["error_code"]) == (403, 40301)
        assert registry.json("/associations/resources/-/orders") == []
        assert (
            hire("producer::.team:", "producer:orders").ask("POST", "/associations", body).status_code == 200
        )

    def test_nor_removed_nor_named(self, hire: Hire, registry: Person) -> None:
        approver = hire("admin:a.")
        hidden, unknown = (
            approver.ask("DELETE", f"/associations/resources/{name}") for name in ("topic-1", "topic-2")
        )
        assert same_but_for("topic-1", "topic-2", hidden) == same_but_for("x", "x", unknown)
        assert hidden.json()["error_code"] == 40410
        assert len(registry.json(ASSOCIATION)) == 1

    def test_removing_one_is_for_approvers_and_its_subject_with_it_for_admins(self, hire: Hire) -> None:
        assert hire("producer:b.").ask("DELETE", ASSOCIATION).status_code == 403
        assert hire("approver:b.").ask("DELETE", f"{ASSOCIATION}?cascadeLifecycle=true").status_code == 403
        assert hire("approver:b.").ask("DELETE", ASSOCIATION).status_code == 204

    def test_a_refused_member_of_a_batch_stops_no_other(self, hire: Hire, registry: Person) -> None:
        """Each is a transaction of its own, so that the answer must say what became of each."""
        mine = [associate(MINE, "topic-8"), associate(MINE, "topic-9")]
        answer = hire("producer:a.").ask(
            "POST",
            "/associations:batchMutate",
            {"requests": [mine[0], associate(HIDDEN, "topic-7"), {"resourceId": "r"}, mine[1]]},
        )
        assert answer.status_code == 200
        results = answer.json()["results"]
        assert ["result" in each for each in results] == [True, False, False, True]
        assert [each["error"]["error_code"] for each in results[1:3]] == [40401, 422]
        viewer = hire("viewer:b.", "producer:a.")
        answer = viewer.ask(
            "POST", "/associations:batchMutate", {"requests": [associate(HIDDEN, "topic-7"), *mine]}
        )
        assert answer.json()["results"][0]["error"]["error_code"] == 40301
        entries = registry.json("/api/v1/audit?limit=1000")["entries"]
        denied = [(each["who"], each["subject"]) for each in entries if each["action"] == "request.denied"]
        assert (viewer.name, "200 POST /associations:batchMutate") in denied
        assert [each["subject"] for each in viewer.json("/associations/resources/topic-9")] == [MINE]

    def test_a_member_that_cannot_be_read_is_named(self, hire: Hire) -> None:
        person = hire("producer:a.")
        for path in ("/associations:batchGet", "/associations:batchMutate"):
            for wrong in (7, {"resourceId": 7}, {"resourceId": "r", "associationTypes": "key"}):
                answer = person.ask("POST", path, {"requests": [associate(MINE), wrong]})
                assert (answer.status_code, answer.json()["error_code"]) == (422, 42212)
                assert "request 1 " in answer.json()["message"], (path, wrong)
        answer = person.ask("POST", "/associations:batchGet", {"requests": [{"resourceId": "r"}, {}]})
        assert "request 1 " in answer.json()["message"]
        assert person.json("/associations/resources/topic-1") == []  # nothing of a wrong batch is done

    def test_a_subject_of_others_cannot_be_associated(self, hire: Hire) -> None:
        producer = hire("producer:a.")
        answers = [
            producer.ask("POST", "/associations", associate(name, "topic-9")) for name in (HIDDEN, UNKNOWN)
        ]
        assert same_but_for(HIDDEN, UNKNOWN, answers[0]) == same_but_for("x", "x", answers[1])
        assert answers[0].status_code == 404


@pytest.mark.usefixtures("registry")
def test_each_role_may_what_the_matrix_says(hire: Hire) -> None:
    newer = {"schema": AVRO.replace("}]", '}, {"name": "ward", "type": "int", "default": 1}]')}
    attempts: list[tuple[str, str, Any]] = [
        ("GET", f"/subjects/{MINE}/versions/1", None),
        ("POST", f"/compatibility/subjects/{MINE}/versions/latest", newer),
        ("POST", f"/subjects/{MINE}/versions", newer),
        ("PUT", f"/config/{MINE}", {"compatibility": "FULL"}),
        ("PUT", f"/mode/{MINE}", {"mode": "READWRITE"}),
        ("DELETE", f"/subjects/{MINE}/versions/1", None),
        ("DELETE", f"/subjects/{MINE}/versions/1?permanent=true", None),
    ]
    allowed = {}
    for role in ("viewer", "producer", "approver", "admin"):
        statuses = [hire(f"{role}:a.").ask(*attempt).status_code for attempt in attempts]
        assert set(statuses) <= {200, 403}
        allowed[role] = statuses.count(200)
    assert allowed == {"viewer": 2, "producer": 3, "approver": 4, "admin": 7}


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("grant", "config", "mode"),
    [("admin:a.", 403, 403), ("producer", 403, 403), ("approver", 200, 403), ("admin", 200, 200)],
)
def test_what_holds_for_every_subject_needs_a_role_for_every_subject(
    hire: Hire, grant: str, config: int, mode: int
) -> None:
    person = hire(grant)
    assert person.ask("PUT", "/config", {"compatibility": "FULL"}).status_code == config
    assert person.ask("PUT", "/mode", {"mode": "READWRITE"}).status_code == mode
    assert person.ask("GET", "/config").status_code == 200
    for path in ("/config/:.:", "/config/:.::.:"):  # the default context's own settings are those of all
        assert person.ask("PUT", path, {"compatibility": "FULL"}).status_code == config


@pytest.mark.usefixtures("registry")
def test_the_audit_log_names_who_registered_and_who_deleted(hire: Hire, registry: Person) -> None:
    producer, remover = hire("producer:a."), hire("admin:a.")
    producer.ask("POST", "/subjects/a.new-value/versions", {"schema": AVRO})
    remover.ask("DELETE", "/subjects/a.new-value")
    entries = registry.json("/api/v1/audit?subject=a.new-value")["entries"]
    assert [entry["who"] for entry in entries] == [producer.name, remover.name]


@pytest.mark.usefixtures("registry")
def test_registering_by_force_needs_an_approver(hire: Hire) -> None:
    path, schema = f"/subjects/{MINE}/versions", {"schema": AVRO.replace('"U"', '"Other"')}
    producer, approver = hire("producer:a."), hire("approver:a.")
    assert producer.ask("POST", path, schema).status_code == 409
    refused = producer.ask("POST", f"{path}?force=true", schema)
    assert (refused.status_code, refused.json()["error_code"]) == (403, 40301)
    proposed = approver.ask("POST", f"{path}?force=True", schema)
    assert proposed.status_code == 409
    assert "contract.not-approved" in proposed.json()["message"]
    assert hire("approver:a.").ask("POST", f"{path}?force=True", schema).status_code == 200
    for name in (HIDDEN, UNKNOWN):
        assert approver.ask("POST", f"/subjects/{name}/versions?force=true", schema).status_code == 403


def test_tagging_an_earlier_version_is_compared_whatever_the_query_says(hire: Hire) -> None:
    producer, approver = hire("producer:a."), hire("approver:a.")
    versions = "/subjects/a.plain/versions"
    assert producer.ask("POST", versions, {"schema": AVRO}).status_code == 200
    other = {"schema": AVRO.replace('"U"', '"Other"')}
    assert approver.ask("POST", f"{versions}?force=true", other).status_code == 200
    tags = {"tagsToAdd": [{"schemaEntity": {"entityPath": ".U.age"}, "tags": ["PII"]}]}
    for query in ("", "?force=true"):
        assert producer.ask("POST", f"{versions}/1/tags{query}", tags).status_code == 409


@pytest.mark.usefixtures("registry")
def test_an_alias_opens_nothing_that_its_subject_does_not(hire: Hire, admin: Person) -> None:
    approver = hire("approver:a.")
    for alias, subject in (("a.alias", HIDDEN), ("a.other", UNKNOWN), ("a.mine", MINE)):
        assert approver.ask("PUT", f"/config/{alias}", {"alias": subject}).status_code == 200
    hidden, unknown = (
        approver.ask("GET", f"/subjects/{name}/versions/latest") for name in ("a.alias", "a.other")
    )
    assert hidden.status_code == 404
    assert same_but_for("a.alias", "a.other", hidden) == same_but_for("a.other", "a.other", unknown)
    assert approver.ask("POST", "/subjects/a.alias/versions", {"schema": AVRO}).status_code == 403
    assert approver.json("/subjects/a.mine/versions") == [1]
    assert admin.json("/subjects/a.alias/versions") == [1, 2]


class TestImportedIds:
    """Ids are shared by every subject of a context, so that they belong to no prefix."""

    def importing(self, person: Person, number: int) -> Any:
        return person.ask("POST", "/subjects/a.new-value/versions", {"schema": AVRO, "id": number})

    def test_an_admin_of_a_prefix_imports_no_id(self, hire: Hire, admin: Person) -> None:
        owner = hire("admin:a.")
        assert owner.ask("PUT", "/mode/a.new-value", {"mode": "IMPORT"}).status_code == 200
        answer = self.importing(owner, 7)
        assert (answer.status_code, answer.json()["error_code"]) == (403, 40301)
        assert answer.json()["message"] == (
            "this needs the role admin of every subject, because ids are shared by all subjects; "
            f"{owner.name} has admin:a."
        )
        assert self.importing(admin, 7).json()["id"] == 7

    @pytest.mark.parametrize("number", [2**30 + 1, 2**31 - 1])
    def test_an_id_near_the_end_of_the_sequence_is_not_imported(self, admin: Person, number: int) -> None:
        assert admin.ask("PUT", "/mode/a.new-value", {"mode": "IMPORT"}).status_code == 200
        answer = self.importing(admin, number)
        assert (answer.status_code, answer.json()["error_code"]) == (422, 42205)
        assert answer.json()["message"] == (
            f"Id {number} is above 1073741824, the highest that can be imported; import the schema under a lower id"
        )
        following = admin.ask("POST", "/subjects/b.x-value/versions", {"schema": AVRO})
        assert following.json()["id"] == 1

    def test_after_the_last_id_that_fits_a_frame_none_is_given(
        self, admin: Person, database_url: str
    ) -> None:
        engine = create_engine(database_url)
        with Session(engine) as session, session.begin():
            session.add(NextIdRow(context=DEFAULT_CONTEXT, id=2**31 - 1))
        engine.dispose()
        last, beyond = (
            admin.ask(
                "POST", f"/subjects/a.{name}-value/versions", {"schema": AVRO.replace('"U"', f'"{name}"')}
            )
            for name in ("Last", "Beyond")
        )
        assert last.json()["id"] == 2**31 - 1
        assert (beyond.status_code, beyond.json()["error_code"]) == (422, 422)
        assert "has given its last schema id (2147483647)" in beyond.json()["message"]


ODD_WRITES: list[tuple[str, str, Any]] = [
    *(
        ("PUT", f"{path}", {"compatibility": "NONE", "mode": "READONLY"})
        for spelt in ("", "/", "//", "/%3A.%3A", "/:.::.:", "/:*:", "/:.team:", "/__GLOBAL", f"/:.:{HIDDEN}")
        for path in (f"/config{spelt}", f"/mode{spelt}")
    ),
    *(
        ("PUT", f"/contexts/{context}/{settings}", {"compatibility": "NONE", "mode": "READONLY"})
        for context in (".", "%2E", ":.:", "*", ".team", ":.team:", "")
        for settings in ("config", "mode", f"config/{HIDDEN}", f"mode/:.:{HIDDEN}")
    ),
    *(
        ("DELETE", f"{path}?permanent={flag}", None)
        for path in (
            f"/subjects/:.:{HIDDEN}",
            f"/contexts/./subjects/{HIDDEN}",
            f"/contexts/.team/subjects/:.:{HIDDEN}",
            "/subjects/a.alias",
            "/contexts/.team",
        )
        for flag in ("false", "TRUE")
    ),
    ("POST", f"/contexts/.team/subjects/:.:{HIDDEN}/versions?force=false&force=true", {"schema": '"int"'}),
    ("POST", "/subjects/a.alias/versions", {"schema": '"int"'}),
    ("POST", "/contexts/.team/associations", associate(HIDDEN, "topic-3")),
    ("PUT", "/associations/resources/topic-1", associate(MINE)),
    ("DELETE", f"{ASSOCIATION}?cascadeLifecycle=false&cascadeLifecycle=true", None),
]


def test_no_spelling_of_a_write_reaches_what_a_role_does_not_cover(hire: Hire, registry: Person) -> None:
    attacker = hire("admin:a.")
    assert attacker.ask("PUT", "/config/a.alias", {"alias": HIDDEN}).status_code == 200
    paths = (
        "/subjects?deleted=true",
        "/config",
        "/mode",
        f"/config/{HIDDEN}",
        f"/mode/{HIDDEN}",
        ASSOCIATION,
    )
    before = [registry.json(path) for path in paths]
    for method, path, body in ODD_WRITES:
        answer = attacker.ask(method, path, body)
        assert answer.status_code in {403, 404, 405, 409, 422}, (method, path, answer.text)
    assert [registry.json(path) for path in paths] == before
    assert registry.ask("GET", "/config/:.team:").status_code == 404
