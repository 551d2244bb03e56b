"""What clients put into queries: pages of every list, flags in every spelling, numbers that are none."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text

from tests.unit.confluent.conftest import MEDIA_TYPE, Ask, record, respond
from tidegate.gateway.factory import Factory
from tidegate.gateway.storage.subjects import _version

only_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

REFERRING = {
    "schema": '{"type": "array", "items": "U"}',
    "references": [{"name": "U", "subject": "a", "version": 1}],
}
RESOURCE = {"resourceName": "t", "resourceNamespace": "c", "resourceId": "r", "resourceType": "topic"}


@pytest.fixture
def lists(ask: Ask) -> list[str]:
    """The path of every list; each has two members or more."""
    for name in ("a", "b", ":.c:a", ":.d:a"):
        assert ask("POST", f"/subjects/{name}/versions", {"schema": record("x")})[0] == 200
    for field in ("y", "z"):
        ask("POST", "/subjects/a/versions?force=true", {"schema": record(field)})
    ask("POST", "/subjects/c/versions", {"schema": record("x")})
    for depth in range(3):
        text = f'{{"type": "map", "values": {REFERRING["schema"]}}}' if depth == 1 else REFERRING["schema"]
        text = text if depth < 2 else f'["null", {text}]'
        ask("POST", f"/subjects/r{depth}/versions", {**REFERRING, "schema": text})
    subjects = [{"subject": "r0", "associationType": "key"}, {"subject": "r1", "associationType": "value"}]
    assert ask("POST", "/associations", {**RESOURCE, "associations": subjects})[0] == 200
    for other in "wv":
        resource = {name: f"{value}{other}" for name, value in RESOURCE.items()} | {"resourceType": "topic"}
        made = {**resource, "associations": [{"subject": "r0", "associationType": "value"}]}
        assert ask("POST", "/associations", made)[0] == 200
    return [
        "/subjects",
        "/subjects/a/versions",
        "/schemas",
        "/schemas/ids/1/subjects",
        "/schemas/ids/1/versions",
        "/subjects/a/versions/1/referencedby",
        "/contexts",
        "/associations/resources/c/t",
        "/associations/resources/r",
        "/associations/subjects/r0",
    ]


@only_sqlite
def test_every_list_is_cut_into_pages(ask: Ask, lists: list[str]) -> None:
    for path in lists:
        status, whole = ask("GET", path)
        assert (status, len(whole) >= 2) == (200, True), (path, whole)
        for query in ("offset=0&limit=-1", "limit=-1", "limit=0", "offset=-3", "limit=99999999999"):
            assert ask("GET", f"{path}?{query}") == (200, whole), (path, query)
        pages = [ask("GET", f"{path}?offset={start}&limit=1")[1] for start in range(len(whole))]
        assert pages == [[member] for member in whole], path
        assert ask("GET", f"{path}?offset=1")[1] == whole[1:], path
        assert ask("GET", f"{path}?offset={len(whole)}&limit=5")[1] == [], path
        assert ask("GET", f"{path}?limit=x")[1]["error_code"] == 422, path


@pytest.mark.usefixtures("lists")
def test_a_list_of_schemas_has_a_bounded_length_whatever_its_limit(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = ask("GET", "/schemas")[1]
    monkeypatch.setattr("tidegate.gateway.http.confluent.schema_handlers.MOST_SCHEMAS", 2)
    for query in ("", "?limit=3", "?limit=0", "?limit=-1", "?limit=99999999999"):
        assert ask("GET", f"/schemas{query}") == (200, members[:2]), query
    assert ask("GET", "/schemas?limit=1&offset=1") == (200, members[1:2])
    assert ask("GET", "/schemas?offset=2") == (200, members[2:4])


@only_sqlite
def test_a_list_of_subjects_has_all_of_them(ask: Ask, factory: Factory) -> None:
    """Source: SchemaRegistryConfig 8.4, `subject.search.default.limit`, is the highest integer by default."""
    ask("POST", "/subjects/s/versions", {"schema": record("x")})
    copied = text(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20500) "
        "INSERT INTO subject_versions (context, subject, number, schema_key, created_at) "
        "SELECT context, 's' || i, number, schema_key, created_at FROM subject_versions, n"
    )
    factory.database.write(lambda stores: stores.subjects._session.execute(copied))
    for query in ("", "?limit=-1", "?limit=99999999999"):
        assert len(ask("GET", f"/subjects{query}")[1]) == 20_501
    assert len(ask("GET", "/subjects?offset=100&limit=20100")[1]) == 20_100


@pytest.mark.usefixtures("lists")
def test_a_page_of_schemas_reads_no_more_than_it_shows(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry has thousands of subjects with schemas of many kilobytes."""
    read: list[Any] = []

    def noted(row: Any) -> Any:
        read.append(row)
        return _version(row)

    monkeypatch.setattr("tidegate.gateway.storage.subjects._version", noted)
    for query, most in (("offset=1&limit=1", 2), ("limit=3", 3)):
        read.clear()
        assert ask("GET", f"/schemas?{query}")[0] == 200
        assert len(read) == most


FLAGS: list[tuple[str, str, str, Any]] = [
    ("deleted", "GET", "/subjects", None),
    ("deleted_only", "GET", "/subjects", None),
    ("deletedOnly", "GET", "/subjects", None),
    ("deleted", "GET", "/subjects/a/versions", None),
    ("deleted_only", "GET", "/subjects/a/versions", None),
    ("deleted", "GET", "/subjects/a/versions/2", None),
    ("deleted", "GET", "/subjects/a/versions/2/schema", None),
    ("deleted", "GET", "/subjects/a/metadata?key=k&value=v", None),
    ("deleted", "POST", "/subjects/a", {"schema": record("y"), "metadata": {"properties": {"k": "v"}}}),
    ("deleted", "GET", "/schemas", None),
    ("latestOnly", "GET", "/schemas", None),
    ("deleted", "GET", "/schemas/ids/2/subjects", None),
    ("deleted", "GET", "/schemas/ids/2/versions", None),
    ("fetchMaxId", "GET", "/schemas/ids/1", None),
    ("defaultToGlobal", "GET", "/config/a", None),
    ("defaultToGlobal", "GET", "/mode/a", None),
    ("verbose", "POST", "/compatibility/subjects/a/versions", {"schema": record("q")}),
    ("verbose", "POST", "/compatibility/subjects/a/versions/latest", {"schema": record("q")}),
    (
        "normalize",
        "POST",
        "/subjects/n",
        {"schemaType": "JSON", "schema": '{"type":"object","properties":{"b":{},"a":{}}}'},
    ),
]


@only_sqlite
@pytest.mark.parametrize(("flag", "method", "path", "body"), FLAGS)
def test_a_flag_means_the_same_in_every_spelling(
    ask: Ask, flag: str, method: str, path: str, body: Any
) -> None:
    ask("POST", "/subjects/a/versions", {"schema": record("x")})
    late = {"schema": record("y"), "metadata": {"properties": {"k": "v"}}}
    ask("POST", "/subjects/a/versions?force=True", late)
    other = {"schema": record("z"), "metadata": {"properties": {"k": "w"}}}
    ask("POST", "/subjects/a/versions?force=true", other)
    ask("DELETE", "/subjects/a/versions/2")
    ask("POST", "/subjects/b/versions", {"schema": record("x")})
    ask("DELETE", "/subjects/b")
    stored = '{"type":"object","properties":{"a":{},"b":{}}}'
    ask("POST", "/subjects/n/versions", {"schemaType": "JSON", "schema": stored})

    def answer(value: str) -> tuple[int, Any]:
        return ask(method, f"{path}{'&' if '?' in path else '?'}{flag}={value}", body)

    assert answer("True") == answer("true") == answer("TRUE")
    assert answer("False") == answer("false") == answer("")
    assert answer("true") != answer("false")
    status, refused = answer("1")
    assert (status, refused["error_code"]) == (422, 422)


@only_sqlite
def test_deleting_for_good_and_forcing_are_read_in_every_spelling(ask: Ask) -> None:
    for true, false in (("True", "False"), ("true", "false")):
        ask("POST", "/subjects/s/versions", {"schema": record("x")})
        refused = ask("POST", f"/subjects/s/versions?force={false}", {"schema": record("y")})
        assert refused[1]["error_code"] == 409
        assert ask("POST", f"/subjects/s/versions?force={true}", {"schema": record("y")})[0] == 200
        assert ask("PUT", f"/mode/s?force={false}", {"mode": "IMPORT"})[1]["error_code"] == 42205
        assert ask("PUT", f"/mode/s?force={true}", {"mode": "IMPORT"})[0] == 200
        ask("DELETE", "/mode/s")
        assert ask("DELETE", f"/subjects/s/versions/1?permanent={false}") == (200, 1)
        assert ask("DELETE", f"/subjects/s/versions/1?permanent={true}") == (200, 1)
        assert ask("DELETE", f"/subjects/s?permanent={false}") == (200, [2])
        assert ask("DELETE", f"/subjects/s?permanent={true}") == (200, [2])
        assert ask("GET", "/subjects?deleted=true")[1] == []


PATHS = """
GET /
GET /subjects
GET,POST /subjects/s/versions
POST,DELETE /subjects/s
GET,DELETE /subjects/s/versions/1
GET,DELETE /subjects/s/versions/latest
GET /subjects/s/versions/1/schema
GET /subjects/s/versions/1/referencedby
POST /subjects/s/versions/1/tags
GET /subjects/s/metadata
GET /schemas
GET /schemas/types
GET /schemas/ids/1
GET /schemas/ids/1/schema
GET /schemas/ids/1/subjects
GET /schemas/ids/1/versions
GET /schemas/guids/ef524ea1-b91e-7317-3d93-8ade36c1db32
GET /schemas/guids/ef524ea1-b91e-7317-3d93-8ade36c1db32/ids
POST /compatibility/subjects/s/versions
POST /compatibility/subjects/s/versions/latest
GET,PUT,DELETE /config
GET,PUT,DELETE /config/s
GET,PUT,DELETE /mode
GET,PUT,DELETE /mode/s
GET /contexts
DELETE /contexts/.c
GET /contexts/.c/subjects
GET /associations/resources/-/t
GET,PUT,DELETE /associations/resources/r
GET /associations/subjects/s
POST,PUT /associations
POST /associations:batchGet
POST /associations:batchMutate
GET /v1/metadata/id
GET /v1/metadata/version
GET /v1/metadata/deployment
"""


@only_sqlite
def test_every_path_of_clients_and_tools_answers_in_their_media_type(client: Any) -> None:
    for line in PATHS.split("\n")[1:-1]:
        methods, path = line.split()
        for method in methods.split(","):
            body = {} if method in {"POST", "PUT"} else None
            answer = respond(client, method, path, body, Accept=MEDIA_TYPE)
            assert answer.status_code < 500, line
            assert answer.status_code != 405, line
            if answer.status_code != 204:
                assert answer.headers["content-type"] in {MEDIA_TYPE, "application/json"}, line
            if answer.status_code >= 400:
                assert set(answer.json()) == {"error_code", "message"}, line
                assert "no operation has this path" not in answer.json()["message"], line


@only_sqlite
def test_the_last_of_many_equal_parameters_counts(ask: Ask) -> None:
    assert ask("GET", "/subjects?" + "limit=0&" * 5_000 + "limit=none")[0] == 422
    assert ask("GET", "/subjects?" + "limit=none&" * 5_000 + "limit=0") == (200, [])


@only_sqlite
def test_a_batch_has_at_most_a_thousand_requests(ask: Ask) -> None:
    for path in ("/associations:batchGet", "/associations:batchMutate"):
        status, body = ask("POST", path, {"requests": [{"resourceId": "r"}] * 1_001})
        assert (status, body["error_code"]) == (422, 42212)
        assert "send at most 1,000 at once" in body["message"]
    answer = ask("POST", "/associations:batchGet", {"requests": [{"resourceId": "r"}] * 3})
    assert answer == (200, {"results": [{"result": []}] * 3})
