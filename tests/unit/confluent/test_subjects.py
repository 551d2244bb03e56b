from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import create_engine, text

from tests.unit.confluent.conftest import MEDIA_TYPE, Ask, record, respond
from tidegate.gateway.factory import Factory

STRING, INT, LONG = ({"schema": f'"{name}"'} for name in ("string", "int", "long"))

# What is refused before anything is stored is refused alike on every database: once is enough.
only_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def error(answer: tuple[int, Any]) -> tuple[int, int]:
    return answer[0], answer[1]["error_code"]


@pytest.fixture
def numbers(ask: Ask) -> str:
    """A subject with the versions int and long."""
    assert ask("POST", "/subjects/s/versions", INT)[0] == 200
    assert ask("POST", "/subjects/s/versions", LONG)[0] == 200
    return "/subjects/s"


@pytest.mark.parametrize("name", ["sche/ma", "größe ✓", "a%2Fb", "?x=1#y", "a+b", "-", "versions", ":odd"])
def test_a_subject_may_have_any_name(ask: Ask, name: str) -> None:
    path = f"/subjects/{quote(name, safe='')}"
    assert ask("POST", f"{path}/versions", STRING)[0] == 200
    assert ask("GET", "/subjects")[1] == [name]
    assert ask("GET", f"{path}/versions/latest")[1]["subject"] == name
    assert ask("GET", f"{path}/versions/1/schema")[1] == "string"
    assert ask("DELETE", path) == (200, [1])


@pytest.mark.parametrize(
    "path",
    [
        "/subjects/%00x/versions",
        "/subjects/%7Fx/versions",
        "/subjects/%C2%85x/versions",
        "/subjects/%20/versions",
        "/subjects/__GLOBAL/versions",
        "/subjects/:.team:__GLOBAL/versions",
    ],
)
@only_sqlite
def test_some_names_are_refused(ask: Ask, path: str) -> None:
    assert error(ask("POST", path, STRING)) == (422, 42208)


@pytest.mark.parametrize("version", ["a", "0", "-2", "2147483648", "1.0", "½"])
@only_sqlite
def test_what_is_no_version_is_42202(ask: Ask, numbers: str, version: str) -> None:
    status, body = ask("GET", f"{numbers}/versions/{version}")
    assert (status, body["error_code"]) == (422, 42202)
    assert body["message"] == (
        f"The specified version '{version}' is not a valid version id. Allowed values are between [1, 2^31-1] "
        'and the string "latest"'
    )


def test_versions_are_fetched_by_number_latest_and_minus_one(ask: Ask, numbers: str) -> None:
    assert [ask("GET", f"{numbers}/versions/{name}")[1]["version"] for name in ("1", "latest", "-1")] == [
        1,
        2,
        2,
    ]
    assert error(ask("GET", f"{numbers}/versions/3")) == (404, 40402)
    assert error(ask("GET", "/subjects/none/versions/1")) == (404, 40401)
    assert error(ask("GET", "/subjects/none/versions")) == (404, 40401)


def test_both_spellings_of_booleans_and_of_names_are_read(ask: Ask, numbers: str) -> None:
    ask("DELETE", f"{numbers}/versions/1")
    for query in ("deleted=True", "deleted=true"):
        assert ask("GET", f"{numbers}/versions?{query}&offset=0&limit=-1")[1] == [1, 2]
    for query in ("deleted_only=True", "deletedOnly=true"):
        assert ask("GET", f"{numbers}/versions?{query}")[1] == [1]
    assert error(ask("GET", f"{numbers}/versions?deleted=maybe")) == (422, 422)


def test_a_soft_delete_keeps_the_id_readable_and_the_numbers_going(ask: Ask, numbers: str) -> None:
    assert ask("DELETE", f"{numbers}/versions/latest") == (200, 2)
    assert ask("GET", "/schemas/ids/2")[1]["schema"] == '"long"'
    assert ask("GET", f"{numbers}/versions")[1] == [1]
    assert ask("GET", f"{numbers}/versions/2?deleted=true")[1]["deleted"] is True
    assert error(ask("DELETE", f"{numbers}/versions/2")) == (404, 40406)
    again = ask("POST", f"{numbers}/versions", LONG)[1]
    assert (again["id"], again["version"]) == (2, 3)


def test_a_hard_delete_needs_a_soft_one_and_never_gives_an_id_again(ask: Ask, numbers: str) -> None:
    assert error(ask("DELETE", f"{numbers}/versions/2?permanent=true")) == (404, 40407)
    assert error(ask("DELETE", f"{numbers}?permanent=true")) == (404, 40405)
    assert ask("DELETE", numbers) == (200, [1, 2])
    assert error(ask("DELETE", numbers)) == (404, 40404)
    assert ask("GET", "/subjects?deleted=true")[1] == ["s"]
    assert ask("DELETE", f"{numbers}?permanent=True") == (200, [1, 2])
    assert error(ask("DELETE", numbers)) == (404, 40401)
    assert error(ask("GET", "/schemas/ids/2")) == (404, 40403)
    again = ask("POST", f"{numbers}/versions", LONG)[1]
    assert (again["id"], again["version"]) == (3, 1)


def test_a_hard_delete_forgets_settings_and_mode_of_the_subject(ask: Ask, numbers: str) -> None:
    ask("PUT", "/config/s", {"compatibility": "NONE"})
    ask("PUT", "/mode/s", {"mode": "READWRITE"})
    ask("DELETE", numbers)
    assert ask("GET", "/config/s")[1]["compatibilityLevel"] == "NONE"
    ask("DELETE", f"{numbers}?permanent=true")
    assert error(ask("GET", "/config/s")) == (404, 40408)
    assert error(ask("GET", "/mode/s")) == (404, 40409)


def test_subjects_are_listed_by_prefix_page_and_state(ask: Ask) -> None:
    for name in ("a-1", "a-2", "A-3", "b%25"):
        ask("POST", f"/subjects/{name}/versions", STRING)
    ask("DELETE", "/subjects/a-2")
    assert ask("GET", "/subjects?deleted=&deleted_only=&offset=0&limit=-1&subjectPrefix=")[1] == [
        "A-3",
        "a-1",
        "b%",
    ]
    assert ask("GET", "/subjects?subjectPrefix=a-&deleted=true")[1] == ["a-1", "a-2"]
    assert ask("GET", "/subjects?subject=a-")[1] == ["a-1"]
    assert ask("GET", "/subjects?deletedOnly=true")[1] == ["a-2"]
    assert ask("GET", "/subjects?offset=1&limit=1")[1] == ["a-1"]


def test_the_latest_with_metadata_is_asked_for_doubly_encoded(ask: Ask) -> None:
    for version in ("1", "2"):
        metadata = {"properties": {"k 1": "v/1", "n": version}}
        ask("POST", "/subjects/s/versions", {**STRING, "metadata": metadata})
    found = ask("GET", "/subjects/s/metadata?deleted=false&key=k%25201&value=v%252F1")
    assert found[1]["version"] == 2
    one = ask("GET", "/subjects/s/metadata?key=k%25201&value=v%252F1&key=n&value=1")
    assert one[1]["version"] == 1
    assert error(ask("GET", "/subjects/s/metadata?key=n&value=3")) == (404, 40402)


def test_schemas_are_listed_with_their_versions(ask: Ask, numbers: str) -> None:
    ask(
        "POST", "/subjects/t/versions", {**STRING, "ruleSet": {"domainRules": [{"name": "r", "type": "CEL"}]}}
    )
    listed = ask("GET", "/schemas")[1]
    assert [(one["subject"], one["version"]) for one in listed] == [("s", 1), ("s", 2), ("t", 1)]
    latest = ask("GET", "/schemas?latestOnly=true&subjectPrefix=s")[1]
    assert [(one["subject"], one["version"]) for one in latest] == [("s", 2)]
    assert [one["subject"] for one in ask("GET", "/schemas?ruleType=CEL")[1]] == ["t"]
    assert numbers


def test_a_guid_names_a_schema_in_every_context(ask: Ask) -> None:
    guid = ask("POST", "/subjects/s/versions", STRING)[1]["guid"]
    staged = ask("POST", "/subjects/:.staging:s/versions", STRING)[1]
    assert (staged["guid"], staged["id"], staged["subject"]) == (guid, 1, ":.staging:s")
    assert ask("GET", f"/schemas/guids/{guid}?format=")[1]["schema"] == '"string"'
    assert ask("GET", f"/schemas/guids/{guid}/ids")[1] == [
        {"context": ".", "id": 1},
        {"context": ".staging", "id": 1},
    ]
    assert error(ask("GET", "/schemas/guids/0")) == (404, 40403)


def test_contexts_keep_ids_and_subjects_apart(ask: Ask) -> None:
    ask("POST", "/subjects/s/versions", STRING)
    other = ask("POST", "/contexts/.staging/subjects/s/versions", INT)[1]
    assert (other["id"], other["subject"]) == (1, ":.staging:s")
    assert ask("GET", "/contexts?offset=0&limit=-1")[1] == [".", ".staging"]
    assert ask("GET", "/schemas/ids/1")[1]["schema"] == '"string"'
    assert ask("GET", "/schemas/ids/1?subject=:.staging:")[1]["schema"] == '"int"'
    assert ask("GET", "/contexts/.staging/schemas/ids/1")[1]["schema"] == '"int"'
    assert ask("GET", "/subjects")[1] == [":.staging:s", "s"]
    assert ask("GET", "/subjects?subjectPrefix=:.staging:")[1] == [":.staging:s"]
    assert ask("GET", "/subjects/:.:s/versions/1")[1]["schema"] == '"string"'
    assert error(ask("DELETE", "/contexts/.staging")) == (422, 42211)
    ask("DELETE", "/subjects/:.staging:s")
    ask("DELETE", "/subjects/:.staging:s?permanent=true")
    assert ask("DELETE", "/contexts/.staging") == (204, None)


def test_settings_are_inherited_and_shown_under_their_two_names(ask: Ask) -> None:
    assert ask("GET", "/config")[1] == {"compatibilityLevel": "BACKWARD"}
    assert error(ask("GET", "/config/s")) == (404, 40408)
    assert ask("PUT", "/config", {"compatibility": "full"})[1] == {"compatibility": "FULL"}
    assert ask("GET", "/config/s?defaultToGlobal=true")[1] == {"compatibilityLevel": "FULL"}
    assert ask("PUT", "/config/s", {"compatibility": "NONE", "compatibilityGroup": "major"})[1] == {
        "compatibility": "NONE",
        "compatibilityGroup": "major",
    }
    assert ask("GET", "/config/s")[1] == {"compatibilityLevel": "NONE", "compatibilityGroup": "major"}
    ask("PUT", "/config/s", {"compatibilityGroup": None})
    assert ask("DELETE", "/config/s")[1] == {"compatibilityLevel": "NONE"}
    assert error(ask("PUT", "/config/s", {"compatibility": "SOMEWHAT"})) == (422, 42203)
    assert error(ask("PUT", "/config/s", {"compatibilityPolicy": "KIND"})) == (422, 42203)


@pytest.mark.usefixtures("numbers")
def test_an_alias_stands_for_another_subject_in_paths_of_subjects_and_with_ids(ask: Ask) -> None:
    assert ask("PUT", "/config/old", {"alias": "s"}) == (200, {"alias": "s"})
    assert ask("GET", "/subjects/old/versions")[1] == [1, 2]
    assert ask("GET", "/subjects/old/versions/latest")[1]["subject"] == "s"
    assert ask("POST", "/compatibility/subjects/old/versions/latest", STRING)[1] == {"is_compatible": False}
    assert ask("GET", "/schemas/ids/1?subject=old")[1]["schema"] == '"int"'
    assert error(ask("POST", "/subjects/old/versions", STRING)) == (409, 409)
    assert ask("POST", "/subjects/old/versions", {"schema": '"double"'})[1]["subject"] == "s"
    assert ask("GET", "/subjects")[1] == ["s"]
    assert ask("GET", "/config/old")[1] == {"alias": "s"}
    assert error(ask("GET", "/config/s")) == (404, 40408)
    ask("PUT", "/config/old", {"alias": None})
    assert error(ask("GET", "/subjects/old/versions")) == (404, 40401)
    assert error(ask("PUT", "/config/old", {"alias": "a\u0001"})) == (422, 42208)


def test_what_is_registered_by_force_is_compared_with_nothing_and_is_a_new_major_version(
    client: Any, ask: Ask
) -> None:
    ask("POST", "/subjects/t-value/versions", {"schema": record("a")})
    assert error(ask("POST", "/subjects/t-value/versions", {"schema": record("a", "b")})) == (409, 409)
    assert ask("POST", "/subjects/t-value/versions?force=true", {"schema": record("a", "b")})[0] == 200
    assert client.get("/api/v1/contracts/t/versions/latest").json()["version"] == "2.0.0"
    ask("POST", "/subjects/t-value/versions?force=true", {"schema": record("a", "b", c=1)})
    assert client.get("/api/v1/contracts/t/versions/latest").json()["version"] == "2.1.0"
    actions = [one["action"] for one in client.get("/api/v1/audit").json()["entries"]]
    assert actions == [
        "subject.version-registered",
        "subject.version-registered-by-force",
        "subject.version-registered",
    ]


def test_a_read_only_subject_is_not_written(ask: Ask, numbers: str) -> None:
    assert ask("PUT", "/mode/s?force=False", {"mode": "READONLY"})[1] == {"mode": "READONLY"}
    assert error(ask("POST", f"{numbers}/versions", STRING)) == (422, 42205)
    assert error(ask("DELETE", numbers)) == (422, 42205)
    assert ask("DELETE", "/mode/s")[1] == {"mode": "READONLY"}
    ask("PUT", "/mode", {"mode": "READONLY_OVERRIDE"})
    ask("PUT", "/mode/s", {"mode": "READWRITE"})
    assert error(ask("POST", f"{numbers}/versions", STRING)) == (422, 42205)
    assert ask("GET", "/mode/t?defaultToGlobal=true")[1] == {"mode": "READONLY_OVERRIDE"}
    assert ask("PUT", "/mode/s", {"mode": "readonly"}) == (200, {"mode": "READONLY"})
    assert error(ask("PUT", "/mode/s", {"mode": "OFF"})) == (422, 42204)


def test_import_keeps_ids_and_versions_and_refuses_another_schema_under_an_id(ask: Ask, numbers: str) -> None:
    assert error(ask("PUT", "/mode", {"mode": "IMPORT"})) == (422, 42205)
    assert ask("PUT", "/mode/i?force=True", {"mode": "IMPORT"})[0] == 200
    imported = ask("POST", "/subjects/i/versions", {**STRING, "id": 100, "version": 5})[1]
    assert (imported["id"], imported["version"]) == (100, 5)
    assert error(ask("POST", "/subjects/i/versions", {**INT, "id": 100})) == (422, 42207)
    assert error(ask("POST", "/subjects/i/versions", LONG)) == (422, 42205)
    ask("DELETE", "/mode/i")
    following = ask("POST", "/subjects/j/versions", {"schema": '"bytes"'})[1]
    assert following["id"] == 101
    assert numbers


def test_an_id_deleted_for_good_comes_back_only_with_its_own_schema(ask: Ask) -> None:
    ask("POST", "/subjects/s/versions", STRING)
    ask("DELETE", "/subjects/s")
    ask("DELETE", "/subjects/s?permanent=true")
    ask("PUT", "/mode/s", {"mode": "IMPORT"})
    assert error(ask("POST", "/subjects/s/versions", {**INT, "id": 1})) == (422, 42205)
    assert ask("POST", "/subjects/s/versions", {**STRING, "id": 1})[1]["id"] == 1


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/subjects/a/b/c/d/e", {}, 404),
        ("GET", "/schemas/ids/x", {}, 404),
        ("GET", "/schemas/ids/99999999999", {}, 404),
        ("PATCH", "/subjects", {}, 405),
        ("GET", "/subjects", {"Accept": "text/plain"}, 406),
        ("POST", "/subjects/s/versions", {"Content_Type": "text/plain"}, 415),
    ],
)
@only_sqlite
def test_errors_are_json_with_a_number_and_a_message(
    client: Any, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    body = {} if method == "POST" else None
    answer = respond(client, method, path, body, **headers)
    assert answer.status_code == status
    assert answer.headers["content-type"] == MEDIA_TYPE
    assert set(answer.json()) == {"error_code", "message"}


@pytest.mark.parametrize("media_type", [MEDIA_TYPE, "application/json", "application/octet-stream"])
@only_sqlite
def test_bodies_of_every_content_type_that_clients_send_are_read(client: Any, media_type: str) -> None:
    answer = respond(
        client, "POST", "/subjects/s/versions", STRING, Content_Type=f"{media_type}; charset=utf-8"
    )
    assert answer.status_code == 200


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"schema": 5}', b'{"schema": "\\ud800"}', b"\xff"])
@only_sqlite
def test_a_body_that_is_no_request_is_refused(client: Any, body: bytes) -> None:
    answer = client.request(
        "POST", "/subjects/s/versions", content=body, headers={"Content-Type": MEDIA_TYPE}
    )
    assert answer.status_code in {400, 422}
    assert answer.json()["message"]


def test_answers_by_id_are_immutable_and_revalidated(client: Any, ask: Ask) -> None:
    ask("POST", "/subjects/s/versions", STRING)
    for _ in range(2):  # from the database, then from memory
        answer = client.get("/schemas/ids/1?subject=s")
        assert answer.json()["schema"] == '"string"'
        assert answer.headers["cache-control"] == "private, max-age=31536000, immutable"
        assert answer.headers["content-type"] == MEDIA_TYPE
        etag = answer.headers["etag"]
        held = client.get("/schemas/ids/1?subject=s", headers={"If-None-Match": etag})
        assert (held.status_code, held.content) == (304, b"")
    ask("DELETE", "/subjects/s")
    ask("DELETE", "/subjects/s?permanent=true")
    assert client.get("/schemas/ids/1?subject=s").status_code == 404


@only_sqlite
def test_a_held_copy_of_a_version_is_stale_once_the_version_is_deleted(client: Any, ask: Ask) -> None:
    ask("POST", "/subjects/s/versions", STRING)
    address = "/subjects/s/versions/1?deleted=true"
    held = {"If-None-Match": client.get(address).headers["etag"]}
    assert client.get(address, headers=held).status_code == 304
    ask("DELETE", "/subjects/s/versions/1")
    answer = client.get(address, headers=held)
    assert (answer.status_code, answer.json()["deleted"]) == (200, True)


def test_the_root_is_a_schema_registry_for_its_clients_and_the_desk_for_people(client: Any) -> None:
    for accept in (f"{MEDIA_TYPE}, application/json", "*/*"):
        registry = client.get("/", headers={"Accept": accept})
        assert (registry.status_code, registry.json()) == (200, {})
    assert client.get("/", headers={"Accept": "text/html,*/*"}).headers["location"] == "/desk"


def test_the_types_are_json_and_avro_and_the_cluster_has_a_name(ask: Ask) -> None:
    assert ask("GET", "/schemas/types")[1] == ["JSON", "AVRO"]
    clusters = {"kafka-cluster": "", "schema-registry-cluster": "tidegate"}
    assert ask("GET", "/v1/metadata/id")[1] == {"scope": {"path": [], "clusters": clusters}, "id": ""}
    assert ask("GET", "/v1/metadata/version")[1]["version"].startswith("tidegate-")
    assert ask("GET", "/v1/metadata/deployment")[0] == 200


@only_sqlite
def test_an_outage_of_the_database_is_answered_as_clients_know_it(
    client: Any, ask: Ask, factory: Factory
) -> None:
    engine = create_engine(factory.settings.database_url.get_secret_value())
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE subject_versions"))
    engine.dispose()
    assert error(ask("GET", "/subjects/s/versions")) == (500, 50001)
    assert client.get("/subjects/s/versions").headers["content-type"] == MEDIA_TYPE


def test_no_other_origin_may_read_an_answer(client: Any) -> None:
    answer = client.get("/subjects", headers={"Origin": "https://elsewhere.example"})
    assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_associations_are_made_found_and_removed(ask: Ask) -> None:
    resource = {"resourceName": "t", "resourceNamespace": "c1", "resourceId": "id-1", "resourceType": "topic"}
    wanted = {**resource, "associations": [{"subject": "s", "associationType": "value"}]}
    by_name = "/associations/resources/c1/t?resourceType=topic&associationType=value"
    assert ask("GET", by_name) == (200, [])
    assert error(ask("POST", "/associations", wanted)) == (409, 40907)
    ask("POST", "/subjects/s/versions", STRING)
    made = ask("POST", "/associations", wanted)[1]
    assert made["associations"] == [
        {"subject": "s", "associationType": "value", "lifecycle": "WEAK", "frozen": False}
    ]
    assert [one["subject"] for one in ask("GET", by_name)[1]] == ["s"]
    assert [one["subject"] for one in ask("GET", "/associations/resources/-/t")[1]] == ["s"]
    assert ask("GET", "/associations/resources/c2/t")[1] == []
    assert [one["resourceId"] for one in ask("GET", "/associations/subjects/s")[1]] == ["id-1"]
    batch = ask("POST", "/associations:batchGet", {"requests": [{"resourceId": "id-1"}]})[1]
    assert batch["results"][0]["result"][0]["subject"] == "s"
    other = {**resource, "associations": [{"subject": "t-value", "schema": {"schema": record("a")}}]}
    assert error(ask("POST", "/associations", other)) == (409, 40903)
    unknown = {**resource, "resourceId": "id-2", "associations": [{"subject": "nothing"}]}
    several = ask("POST", "/associations:batchMutate", {"requests": [wanted, unknown]})[1]["results"]
    assert several[0]["result"] == made
    assert several[1]["error"]["error_code"] == 40907
    changed = ask("PUT", "/associations", other)[1]["associations"]
    assert changed == [
        {"subject": "t-value", "associationType": "value", "lifecycle": "STRONG", "frozen": False}
    ]
    assert ask("DELETE", "/associations/resources/id-1?cascadeLifecycle=true&associationType=value") == (
        204,
        None,
    )
    assert ask("GET", "/subjects")[1] == ["s"]
    assert error(ask("DELETE", "/associations/resources/id-1")) == (404, 40410)


def test_an_association_stays_while_its_subject_may_not_go(ask: Ask) -> None:
    resource = {"resourceName": "t", "resourceNamespace": "c1", "resourceId": "id-1", "resourceType": "topic"}
    ask("POST", "/associations", {**resource, "associations": [{"schema": {"schema": record("a")}}]})
    refers = {
        "schema": '{"type": "array", "items": "U"}',
        "references": [{"name": "U", "subject": "t-value", "version": 1}],
    }
    assert ask("POST", "/subjects/refers/versions", refers)[0] == 200
    removal = "/associations/resources/id-1?cascadeLifecycle=true"
    assert error(ask("DELETE", removal)) == (422, 42206)
    assert [one["subject"] for one in ask("GET", "/associations/resources/id-1")[1]] == ["t-value"]
    assert ask("DELETE", "/subjects/refers")[0] == 200
    assert ask("DELETE", removal) == (204, None)
    assert ask("GET", "/subjects")[1] == []


def test_a_dry_run_answers_like_the_request_in_earnest_and_keeps_nothing(ask: Ask) -> None:
    resource = {"resourceName": "t", "resourceNamespace": "c1", "resourceId": "id-1", "resourceType": "topic"}
    wanted = {**resource, "associations": [{"subject": "s", "associationType": "value"}]}
    by_id = "/associations/resources/id-1"
    assert error(ask("POST", "/associations?dryRun=true", wanted)) == (409, 40907)
    ask("POST", "/subjects/s/versions", STRING)
    tried = ask("POST", "/associations?dryRun=True", wanted)
    assert tried[0] == 200
    assert ask("GET", by_id)[1] == []
    with_schema = {**resource, "associations": [{"subject": "n", "schema": {"schema": record("a")}}]}
    assert error(ask("POST", "/associations?dryRun=true", with_schema)) == (422, 42212)
    assert ask("GET", "/subjects")[1] == ["s"]
    assert ask("POST", "/associations", wanted) == tried
    assert ask("DELETE", f"{by_id}?dryRun=true") == (204, None)
    assert [one["subject"] for one in ask("GET", by_id)[1]] == ["s"]
    assert ask("DELETE", by_id) == (204, None)
    assert error(ask("DELETE", f"{by_id}?dryRun=true")) == (404, 40410)


@pytest.mark.parametrize("context", [".staging", ":.staging:", "staging"])
def test_a_context_is_that_of_the_subjects_of_a_resource(ask: Ask, context: str) -> None:
    resource = {"resourceName": "t", "resourceNamespace": "c1", "resourceId": "id-1", "resourceType": "topic"}
    wanted = {**resource, "associations": [{"associationType": "value"}]}
    ask("POST", "/subjects/t-value/versions", STRING)
    query = quote(context, safe="")
    assert error(ask("POST", f"/associations?context={query}", wanted)) == (409, 40907)
    ask("POST", f"/subjects/{quote(':.staging:t-value', safe='')}/versions", STRING)
    made = ask("POST", f"/associations?context={query}", wanted)[1]
    assert [one["subject"] for one in made["associations"]] == [":.staging:t-value"]
    listed = "/associations/resources/c1/t"
    assert [one["subject"] for one in ask("GET", f"{listed}?context={query}")[1]] == [":.staging:t-value"]
    assert ask("GET", f"{listed}?context=.other")[1] == []
    assert len(ask("GET", listed)[1]) == 1


def test_a_subject_belongs_to_one_resource_or_is_used_by_many(ask: Ask) -> None:
    ask("POST", "/subjects/s/versions", STRING)

    def associate(number: int, method: str = "POST", path: str = "/associations", **more: Any) -> Any:
        resource = {
            "resourceName": f"t{number}",
            "resourceNamespace": "c",
            "resourceType": "topic",
            "resourceId": f"id-{number}",
        }
        association = {"subject": "s", "associationType": "value", **more}
        return ask(method, path, {**resource, "associations": [association]})

    assert associate(1)[0] == 200
    assert associate(2)[0] == 200
    assert error(associate(3, lifecycle="STRONG")) == (409, 40904)
    assert ask("DELETE", "/associations/resources/id-2")[0] == 204
    assert associate(1, "PUT", "/associations/resources/id-1", lifecycle="STRONG", frozen=True)[0] == 200
    refused = associate(2)
    assert error(refused) == (409, 40905)
    assert refused[1]["message"] == "A strong association already exists for subject 's'"
    assert error(associate(1, "PUT", lifecycle="WEAK")) == (409, 40908)
    assert error(associate(1, "PUT", "/associations/resources/id-2")) == (422, 42212)
    assert error(ask("DELETE", "/associations/resources/id-1")) == (409, 40908)
    assert ask("DELETE", "/associations/resources/id-1?cascadeLifecycle=true")[0] == 204
    assert ask("GET", "/subjects")[1] == []
