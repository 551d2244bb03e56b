"""The Confluent API: what each role may change, and what stays out of its reach in every spelling."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from tidegate.gateway.registry.schemas.names import DEFAULT_CONTEXT
from tidegate.gateway.storage.tables import NextIdRow

from .conftest import ASSOCIATION, AVRO, HIDDEN, MINE, UNKNOWN, Hire, Person, associate, same_but_for


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

    def test_a_version_near_the_end_of_the_numbers_is_not_imported(self, admin: Person) -> None:
        assert admin.ask("PUT", "/mode/a.new-key", {"mode": "IMPORT"}).status_code == 200
        wanted = {"schema": AVRO, "id": 7, "version": 2**30 + 1}
        answer = admin.ask("POST", "/subjects/a.new-key/versions", wanted)
        assert (answer.status_code, answer.json()["error_code"]) == (422, 42205)
        assert "Version 1073741825 is above 1073741824; import a lower version" in answer.json()["message"]
        allowed = admin.ask("POST", "/subjects/a.new-key/versions", {**wanted, "version": 2**30})
        assert allowed.json()["version"] == 2**30

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
