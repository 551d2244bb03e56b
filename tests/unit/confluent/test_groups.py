"""Compatibility groups side by side: which version judges whose records, and what one table cannot hold."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.confluent.conftest import Ask

VERSIONS = "/subjects/t-value/versions"
NATIVE = "/api/v1/contracts"


def body(group: str | None, *required: str, **properties: Any) -> dict[str, Any]:
    """A JSON Schema of string fields, those of `properties` as they are given, in a group."""
    fields = {name: {"type": "string"} for name in required} | properties
    schema = {"type": "object", "required": required, "properties": fields}
    metadata = {} if group is None else {"metadata": {"properties": {"app_version": group}}}
    return {"schemaType": "JSON", "schema": json.dumps(schema), **metadata}


@pytest.fixture
def grouped(client: Any, ask: Ask) -> Any:
    """Two groups: versions 1.0.0 and 1.0.1 in group 1, 2.0.0 in group 2."""
    assert (
        ask("PUT", "/config/t-value", {"compatibilityGroup": "app_version", "compatibility": "FORWARD"})[0]
        == 200
    )
    for number, one in enumerate((body("1", "a"), body("2", "b"), body("1", "a", c={"type": "string"}))):
        status, answer = ask("POST", VERSIONS, one)
        assert (status, answer.get("id")) == (200, number + 1), answer
    return client


def groups(client: Any) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"{NATIVE}/t/groups").json()
    return found


def document(client: Any, base: str, **changes: Any) -> bytes:
    return json.dumps(client.get(f"{NATIVE}/t/versions/{base}").json() | changes).encode()


def test_the_registry_lists_the_newest_version_and_the_schemas_of_each_group(grouped: Any, ask: Ask) -> None:
    assert groups(grouped) == {
        "setting": "app_version",
        "newest": "2",
        "groups": [
            {"group": "1", "version": "1.0.1", "schemas": [1, 3]},
            {"group": "2", "version": "2.0.0", "schemas": [2]},
        ],
    }
    latest = grouped.get(f"{NATIVE}/t/versions/latest")
    assert (latest.json()["version"], latest.json()["compatibility_group"]) == ("2.0.0", "2")
    assert latest.headers["Tidegate-Groups-By"] == "app_version"
    again = grouped.get(f"{NATIVE}/t/versions/latest", headers={"If-None-Match": latest.headers["ETag"]})
    assert (again.status_code, again.headers["Tidegate-Groups-By"]) == (304, "app_version")
    etag = grouped.get(f"{NATIVE}/t/groups").headers["ETag"]
    unchanged = grouped.get(f"{NATIVE}/t/groups", headers={"If-None-Match": etag})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    assert ask("DELETE", f"{VERSIONS}/3")[0] == 200
    assert groups(grouped)["groups"][0] == {"group": "1", "version": "1.0.0", "schemas": [1, 3]}
    assert ask("DELETE", f"{VERSIONS}/2")[0] == 200
    assert groups(grouped)["newest"] == "1"
    assert groups(grouped)["groups"][1] == {"group": "2", "version": None, "schemas": [2]}


def test_a_subject_without_the_setting_has_no_groups(client: Any, ask: Ask) -> None:
    ask("POST", VERSIONS, body("1", "a"))
    assert groups(client) == {"setting": None, "newest": None, "groups": []}
    assert "Tidegate-Groups-By" not in client.get(f"{NATIVE}/t/versions/latest").headers
    assert client.get(f"{NATIVE}/missing/groups").status_code == 404


@pytest.mark.parametrize("force", ["", "?force=true"])
@pytest.mark.parametrize("level", ["FORWARD", "NONE"])
def test_a_column_of_another_type_is_refused_with_both_versions_and_fields(
    grouped: Any, ask: Ask, level: str, force: str
) -> None:
    ask("PUT", "/config/t-value", {"compatibilityGroup": "app_version", "compatibility": level})
    status, answer = ask("POST", f"{VERSIONS}{force}", body("3", "b", a={"type": "boolean"}))
    assert (status, answer["error_code"]) == (409, 409)
    assert "contract.groups-conflict" in answer["message"]
    assert (
        "column a is boolean in 3.0.0 (field /a) and string in 1.0.1 (field /a), and both are written to one table"
        in (answer["message"])
    )
    assert [each["group"] for each in groups(grouped)["groups"]] == ["1", "2"]
    assert ask("POST", VERSIONS, body("3", "b", number={"type": "integer"}))[0] == 200


def test_a_setting_that_makes_groups_conflict_is_refused(ask: Ask) -> None:
    """It was accepted, and the stream stopped at its next start."""
    ask("PUT", "/config/flights-value", {"compatibility": "NONE"})
    for group, kind in (("1", "boolean"), ("2", "string")):
        assert ask("POST", "/subjects/flights-value/versions", body(group, a={"type": kind}))[0] == 200
    for scope in ("/flights-value", ""):
        status, answer = ask("PUT", f"/config{scope}", {"compatibilityGroup": "app_version"})
        assert status == 409
        assert (
            "cannot write one table: column a is boolean in 1.0.0 (field /a) and string in 2.0.0"
            in answer["message"]
        )
    assert "compatibilityGroup" not in ask("GET", "/config/flights-value")[1]


def test_groups_are_bounded(grouped: Any, ask: Ask) -> None:
    for number in range(3, 17):
        assert ask("POST", VERSIONS, body(str(number), "a"))[0] == 200
    status, answer = ask("POST", VERSIONS, body("17", "a"))
    assert status == 409
    assert "16 other compatibility groups have an enforced version, and 16 may in all" in answer["message"]
    assert ask("POST", VERSIONS, body("16", "a", d={"type": "string"}))[0] == 200
    assert len(groups(grouped)["groups"]) == 16


def test_a_document_names_its_group(grouped: Any, ask: Ask) -> None:
    named = document(grouped, "2.0.0", version="2.0.1", description="Mended.", unframed_group="1")
    assert grouped.post(NATIVE, named).status_code == 201
    assert groups(grouped)["groups"][1] == {"group": "2", "version": "2.0.1", "schemas": [2, 4]}
    shown = ask("GET", f"{VERSIONS}/latest")[1]
    assert shown["metadata"]["properties"]["app_version"] == "2"
    assert ask("POST", VERSIONS, body("2", "b", d={"type": "string"}))[0] == 200
    latest = grouped.get(f"{NATIVE}/t/versions/latest").json()
    assert (latest["version"], latest["unframed_group"], latest["description"]) == ("2.0.2", "1", "Mended.")

    unnamed = document(grouped, "2.0.0", version="2.2.0", compatibility_group=None)
    refused = grouped.post(NATIVE, unnamed)
    assert refused.status_code == 422
    assert (
        'has compatibility groups (by app_version: "1", "2"), and this version names none'
        in refused.text.replace('\\"', '"')
    )
    clash = document(grouped, "1.0.1", version="1.2.0", tombstones="pass")
    refused = grouped.post(NATIVE, clash)
    assert refused.status_code == 422
    assert "tombstones is pass in 1.2.0 and refuse in 2.0.2" in refused.text


def test_a_group_of_unframed_records_has_to_exist(grouped: Any) -> None:
    """Every record without a schema id would be refused for a mistake in one word."""
    unknown = document(grouped, "2.0.0", version="2.0.1", description="Mended.", unframed_group="3")
    refused = grouped.post(NATIVE, unknown)
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/unframed_group")
    assert 'the subject t-value has no group "3" (by app_version: "1", "2")' in refused.text.replace(
        '\\"', '"'
    )
    own = document(
        grouped, "2.0.0", version="3.0.0", compatibility_group="3", unframed_group="3", description="New."
    )
    assert grouped.post(NATIVE, own).status_code == 201


def test_a_group_of_unframed_records_has_an_enforced_version(grouped: Any, ask: Ask) -> None:
    """Every record without a schema id would be refused for it as well."""
    assert ask("DELETE", f"{VERSIONS}/2")[0] == 200
    left = document(grouped, "1.0.1", version="1.0.2", description="Mended.", unframed_group="2")
    refused = grouped.post(NATIVE, left)
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/unframed_group")
    assert (
        'no version of the group "2" of the subject t-value is enforced'
        in refused.json()["errors"][0]["message"]
    )
    again = document(
        grouped, "1.0.1", version="4.0.0", compatibility_group="2", unframed_group="2", description="New."
    )
    assert grouped.post(NATIVE, again).status_code == 201


def test_a_group_of_unframed_records_without_the_setting_is_refused(client: Any, ask: Ask) -> None:
    ask("POST", VERSIONS, body("1", "a"))
    refused = client.post(NATIVE, document(client, "1.0.0", version="1.0.1", unframed_group="1"))
    assert refused.status_code == 422
    assert "or leave unframed_group out" in refused.text


def test_a_group_without_the_setting_is_refused(client: Any, ask: Ask) -> None:
    ask("POST", VERSIONS, body("1", "a"))
    refused = client.post(NATIVE, document(client, "1.0.0", version="1.0.1", compatibility_group="1"))
    assert refused.status_code == 422
    assert (
        "the subject t-value has no compatibility groups; set `compatibilityGroup` with PUT /config/t-value"
        in (refused.text)
    )


def test_without_access_control_one_person_changes_the_groups_and_the_log_records_it(
    grouped: Any, ask: Ask
) -> None:
    """Records of group 1 need not have `a` any more."""
    assert ask("DELETE", "/config/t-value")[0] == 200
    assert groups(grouped)["setting"] is None
    actions = [one["action"] for one in grouped.get("/api/v1/audit").json()["entries"]]
    assert actions[-2:] == ["contract.weakening-without-access-control", "subject.config-deleted"]
