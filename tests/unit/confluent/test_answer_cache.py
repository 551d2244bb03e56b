"""Answers by id are kept for seconds; those about a version until anything is committed, in whatever process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.confluent.conftest import Ask, record, respond
from tidegate.gateway.factory import Factory
from tidegate.gateway.http.confluent.calls import OperationAnswer
from tidegate.gateway.http.confluent.middleware import KEPT_SECONDS, AnswerCache
from tidegate.gateway.storage.subjects import SubjectVersion

KEY = (b"/schemas/ids/1", b"")


def test_an_answer_is_kept_for_seconds_and_never_longer() -> None:
    now = 100.0
    cache = AnswerCache(lambda: now)
    cache.keep(KEY, OperationAnswer({"schema": "x"}, headers={"ETag": '"1"'}), ("s",))
    now += KEPT_SECONDS
    found = cache.find(KEY)
    assert found is not None
    assert found.body["body"] == b'{"schema":"x"}'
    now += 0.001
    assert cache.find(KEY) is None
    assert KEPT_SECONDS <= 5


def test_what_this_process_deletes_is_forgotten_at_once() -> None:
    cache = AnswerCache()
    cache.keep(KEY, OperationAnswer({"schema": "x"}, headers={"ETag": '"1"'}), ("s",))
    cache.clear()
    assert cache.find(KEY) is None


def test_kept_answers_have_a_bound_in_bytes() -> None:
    cache = AnswerCache()
    large = OperationAnswer(content=b"x" * 20_000_000, headers={"ETag": '"1"'})
    keys = [(b"/schemas/ids/%d" % number, b"") for number in range(5)]
    for key in keys:
        cache.keep(key, large, ("s",))
    assert [cache.find(key) is not None for key in keys] == [False, False, True, True, True]


def test_long_queries_and_lists_of_subjects_count_as_bytes() -> None:
    """Callers choose the queries, and each schema may belong to thousands of subjects."""
    cache = AnswerCache()
    answer = OperationAnswer({"schema": "x"}, headers={"ETag": '"1"'})
    keys = [(b"/schemas/ids/1", b"%d" % number + b"x" * 20_000_000) for number in range(5)]
    for key in keys:
        cache.keep(key, answer, ("s",))
    assert [cache.find(key) is not None for key in keys] == [False, False, True, True, True]
    subjects = tuple(f"subject-{number:07d}" for number in range(300_000))
    short = [(b"/schemas/ids/%d" % number, b"") for number in range(5)]
    for key in short:
        cache.keep(key, answer, subjects)
    assert [cache.find(key) is not None for key in short] == [False, False, True, True, True]


PATHS = ("/subjects/s/versions/latest", "/subjects/s/versions/-1", "/subjects/s/versions/1")


class TestVersions:
    @pytest.fixture
    def read(self, factory: Factory, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """The subjects whose versions are read from the database from now on."""
        found: list[str] = []
        reader = type(factory.subjects())
        version = reader.version

        def counted(self: Any, name: str, number: int, *, deleted: bool) -> Any:
            found.append(name)
            return version(self, name, number, deleted=deleted)

        monkeypatch.setattr(reader, "version", counted)
        return found

    @pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
    def test_a_version_is_read_once_while_nothing_changes(self, ask: Ask, read: list[str]) -> None:
        ask("POST", "/subjects/s/versions", {"schema": record("a")})
        for path in PATHS:
            assert len({str(ask("GET", path)) for _ in range(3)}) == 1
        assert read == ["s"] * len(PATHS)

    def test_a_new_version_is_seen_at_once_also_from_another_process(
        self, ask: Ask, client: Any, factory: Factory
    ) -> None:
        ask("POST", "/subjects/s/versions", {"schema": record("a")})
        assert [ask("GET", path)[1]["version"] for path in PATHS] == [1, 1, 1]
        other = Factory(factory.settings)  # with connections of its own
        try:
            number = other.subjects().version("s", 1, deleted=False)
            other.database.write(lambda stores: stores.subjects.add_version(_second(number)))
        finally:
            other.close()
        assert [ask("GET", path)[1]["version"] for path in PATHS] == [2, 2, 1]
        ask("DELETE", "/subjects/s/versions/2")
        assert [ask("GET", path)[1]["version"] for path in PATHS] == [1, 1, 1]
        held = client.get(PATHS[0]).headers["etag"]
        assert client.get(PATHS[0], headers={"If-None-Match": held}).status_code == 304
        ask("DELETE", "/subjects/s")
        assert [ask("GET", path)[0] for path in PATHS] == [404, 404, 404]

    def test_an_alias_is_followed_where_it_leads_now(self, ask: Ask) -> None:
        for name in ("a", "b"):
            ask("POST", f"/subjects/{name}/versions", {"schema": record(name)})
        for name in ("a", "b"):
            ask("PUT", "/config/old", {"alias": name})
            assert [ask("GET", "/subjects/old/versions/latest")[1]["subject"] for _ in range(2)] == [name] * 2

    def test_the_python_client_is_shown_tags_in_the_schema_and_others_in_the_metadata(
        self, client: Any, ask: Ask
    ) -> None:
        tags = {"tags": {"**.a": ["PII"]}}
        ask("POST", "/subjects/s/versions", {"schema": record("a"), "metadata": tags})
        for _ in range(2):
            python = respond(client, "GET", PATHS[0], Confluent_Client_Version="python/2.16.0").json()
            assert "metadata" not in python or "tags" not in python["metadata"]
            assert respond(client, "GET", PATHS[0]).json()["metadata"] == tags


def _second(version: SubjectVersion) -> SubjectVersion:
    return replace(version, number=2)
