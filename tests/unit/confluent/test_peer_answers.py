"""Answers that clients and tools rely on, as Confluent Schema Registry 8.4 gives them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.confluent.conftest import Ask, record, respond

STRING, INT, LONG = ({"schema": f'"{name}"'} for name in ("string", "int", "long"))
PATH = "/subjects/s/versions"

# What no database decides: once is enough.
only_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def error(answer: tuple[int, Any]) -> tuple[int, int]:
    return answer[0], answer[1]["error_code"]


class TestReadOnlyModes:
    @pytest.mark.parametrize("mode", ["READONLY", "READONLY_OVERRIDE"])
    @pytest.mark.parametrize("scope", ["/s", "/:.staging:", ""])
    @only_sqlite
    def test_config_of_a_read_only_scope_stays(self, ask: Ask, mode: str, scope: str) -> None:
        ask("PUT", f"/config{scope}", {"compatibility": "FULL"})
        ask("PUT", f"/mode{scope}", {"mode": mode})
        put = ask("PUT", f"/config{scope}", {"compatibility": "NONE"})
        assert error(put) == (422, 42205)
        assert "is in read-only mode" in put[1]["message"]
        assert error(ask("DELETE", f"/config{scope}")) == (422, 42205)
        assert ask("GET", f"/config{scope}")[1] == {"compatibilityLevel": "FULL"}
        ask("PUT", f"/mode{scope}", {"mode": "READWRITE"})
        assert ask("PUT", f"/config{scope}", {"compatibility": "NONE"})[0] == 200

    @only_sqlite
    def test_a_wider_read_only_scope_holds_for_the_config_of_a_subject(self, ask: Ask) -> None:
        ask("PUT", "/mode", {"mode": "READONLY_OVERRIDE"})
        ask("PUT", "/mode/s", {"mode": "READWRITE"})
        assert error(ask("PUT", "/config/s", {"compatibility": "NONE"})) == (422, 42205)
        assert error(ask("GET", "/config/s")) == (404, 40408)


def test_a_change_of_settings_answers_with_all_that_are_set_now(ask: Ask) -> None:
    ask("PUT", "/config/s", {"compatibility": "FULL", "compatibilityGroup": "major"})
    changed = ask("PUT", "/config/s", {"normalize": True, "compatibilityGroup": None})
    assert changed == (200, {"compatibility": "FULL", "normalize": True})
    assert ask("GET", "/config/s")[1] == {"compatibilityLevel": "FULL", "normalize": True}


class TestConfluentVersion:
    """Source: Confluent Schema Registry 8.4, `RestApiTest.testConfluentVersion`, step by step."""

    def test_a_registration_finds_the_version_that_it_repeats(self, ask: Ask) -> None:
        def register(**more: Any) -> int:
            status, answer = ask("POST", PATH, {"schema": record("f1"), **more})
            assert status == 200, answer
            number: int = answer["version"]
            return number

        def of(number: str) -> dict[str, Any]:
            return {"properties": {"confluent:version": number}}

        assert register() == 1
        assert register(version=-1) == 1
        assert register(version=2) == 2
        assert register(version=-1) == 2
        assert ask("GET", f"{PATH}/latest")[1]["metadata"] == of("2")
        assert ask("DELETE", f"{PATH}/1") == (200, 1)
        assert register() == 2
        assert register(version=3) == 3
        assert [register(version=-1) for _ in range(2)] == [3, 3]
        assert register(version=4) == 4
        assert register(metadata=of("-1")) == 5
        assert ask("GET", f"{PATH}/latest")[1]["metadata"] == of("5")
        assert [register(metadata=of(number)) for number in ("2", "3")] == [2, 3]
        assert register(metadata=of("0")) == 6
        assert register(metadata={}) == 6
        assert register(metadata={"properties": {"mykey": "myvalue"}}) == 7

    @pytest.mark.parametrize("version", [0, -1])
    def test_the_same_request_finds_the_first_version(self, ask: Ask, version: int) -> None:
        metadata = {"properties": {"confluent:version": "1", "owner": "flow"}}
        body = {"schema": record("a"), "metadata": metadata, "version": version}
        made = [ask("POST", PATH, body)[1] for _ in range(3)]
        assert [(one["version"], one["id"], one["metadata"]) for one in made] == [(1, 1, metadata)] * 3

    def test_a_look_up_minds_the_version(self, ask: Ask) -> None:
        def look_up(number: str) -> tuple[int, Any]:
            metadata = {"properties": {"confluent:version": number}}
            return ask("POST", "/subjects/s", {"schema": record("a"), "metadata": metadata})

        ask("POST", PATH, {"schema": record("a")})
        ask("POST", PATH, {"schema": record("a"), "version": 2})
        first, second = look_up("1")[1], look_up("2")[1]
        assert (first["version"], "metadata" in first) == (1, False)
        assert (second["version"], second["metadata"]["properties"]) == (2, {"confluent:version": "2"})
        assert error(look_up("3")) == (404, 40403)

    def test_other_metadata_or_rules_are_another_version(self, ask: Ask) -> None:
        rule = {"name": "r", "kind": "CONDITION", "type": "CEL", "mode": "WRITE", "expr": "message.a > 0"}
        ask("POST", PATH, {"schema": record("a"), "version": -1})
        body: dict[str, Any] = {"schema": record("a"), "version": -1, "metadata": {"properties": {"k": "v"}}}
        assert ask("POST", PATH, body)[1]["version"] == 2
        assert ask("POST", PATH, {**body, "ruleSet": {"domainRules": [rule]}})[1]["version"] == 3
        assert ask("POST", PATH, {"schema": record("a", b=1), "version": -1})[1]["version"] == 4


class TestLookUp:
    @pytest.mark.parametrize("text", ["", "  "])
    def test_an_empty_schema_is_one_that_is_not_there(self, ask: Ask, text: str) -> None:
        assert error(ask("POST", "/subjects/s", {"schema": text})) == (404, 40401)
        ask("POST", PATH, STRING)
        assert error(ask("POST", "/subjects/s", {"schema": text})) == (404, 40403)
        assert error(ask("POST", "/subjects/s", {})) == (404, 40403)

    @pytest.mark.parametrize(
        ("sent", "canonical"),
        [
            ({"type": "int", "name": "x"}, '"int"'),
            ({"type": "int", "doc": "d", "namespace": "n", "aliases": ["a"], "size": 3}, '"int"'),
            ({"type": "int", "default": 0}, '{"type":"int","default":0}'),
            (
                {"type": "array", "items": "int", "name": "x", "doc": "d", "java-class": "List"},
                '{"type":"array","items":"int","java-class":"List"}',
            ),
            (
                {"type": "record", "name": "R", "fields": [], "items": "int", "symbols": []},
                '{"type":"record","name":"R","fields":[]}',
            ),
            (
                {"type": "enum", "name": "E", "symbols": ["A"], "size": 3, "default": "A"},
                '{"type":"enum","name":"E","symbols":["A"],"default":"A"}',
            ),
        ],
        ids=["named", "all", "default", "array", "record", "enum"],
    )
    def test_words_of_other_types_are_left_out_as_java_leaves_them(
        self, ask: Ask, sent: Any, canonical: str
    ) -> None:
        made = ask("POST", PATH, {"schema": canonical})[1]
        assert made["schema"] == canonical
        assert ask("POST", PATH, {"schema": json.dumps(sent)})[1]["version"] == 1
        assert ask("POST", "/subjects/s", {"schema": json.dumps(sent)})[1]["id"] == made["id"]


@only_sqlite
def test_a_format_of_references_that_is_not_known_is_ignored(ask: Ask) -> None:
    ask("POST", "/subjects/u/versions", {"schema": record("a")})
    array = {"schema": '{"type":"array","items":"U"}'}
    made = ask("POST", PATH, {**array, "references": [{"name": "U", "subject": "u", "version": 1}]})[1]
    for path in (f"/schemas/ids/{made['id']}", f"{PATH}/latest"):
        plain = ask("GET", path)[1]
        assert ask("GET", f"{path}?reference_format=x") == (200, plain)
        assert ask("GET", f"{path}?referenceFormat=x") == (200, plain)


@pytest.mark.parametrize(
    "path", ["/subject", "/subjects/a/b/c", "/v1/unknown", "/nothing/at/all", "/clusters"]
)
@only_sqlite
def test_an_unknown_path_has_a_number_and_a_message(client: Any, path: str) -> None:
    answer = respond(client, "GET", path)
    assert answer.status_code == 404
    assert answer.json()["error_code"] == 404
    assert "/docs" in answer.json()["message"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/dek-registry/v1/keks"),
        ("POST", "/dek-registry/v1/keks"),
        ("GET", "/dek-registry/v1/keks/kek1/deks/s-value/versions/-1?algorithm=AES256_GCM&deleted=true"),
        ("DELETE", "/dek-registry/v1/keks/kek1"),
        ("PUT", "/dek-registry"),
    ],
)
@only_sqlite
def test_a_registry_of_keys_is_not_here_and_says_so(ask: Ask, method: str, path: str) -> None:
    status, answer = ask(method, path, {"name": "kek1"} if method == "POST" else None)
    assert (status, answer["error_code"]) == (501, 501)
    assert "ENCRYPT" in answer["message"]
    assert "confluent.md" in answer["message"]
