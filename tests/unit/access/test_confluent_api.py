"""The Confluent API: what one may not see answers, in every operation, like what does not exist."""

from __future__ import annotations

import pytest

from tidegate.gateway.access.rules import Reach
from tidegate.gateway.http.confluent.operations import OPERATIONS, Operation

from .conftest import ASSOCIATION, AVRO, HIDDEN, MINE, UNKNOWN, Hire, Person, associate, same_but_for

OF_A_SUBJECT = [operation for operation in OPERATIONS if "{subject}" in operation.path]
# These do not answer "not found" to a principal that may see the name.
SAYS_NO_NOT_FOUND = ("/compatibility/", "/associations/")


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
