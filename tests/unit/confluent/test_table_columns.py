"""Columns that tables cannot follow: named when a schema is registered, before a stream stops at it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.confluent.conftest import Ask, respond

HEADER = "Tidegate-Columns-Not-Followed"
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
SENTENCE = (
    "column seen was long in 1.0.0 and is timestamp, which does not hold every long: a stream that writes it to a table stops "
    "at this version; give the field another name, or begin a new table with `tidegate archive STREAM`"
)


def event(kind: Any, **others: Any) -> dict[str, Any]:
    fields = [{"name": "seen", "type": kind}, {"name": "id", "type": others.get("id", "int")}]
    return {"schema": json.dumps({"type": "record", "name": "Event", "fields": fields})}


@pytest.mark.parametrize("level", ["BACKWARD", "NONE"])
def test_a_type_that_the_column_cannot_follow_is_named_at_registration(
    ask: Ask, client: Any, level: str
) -> None:
    ask("PUT", "/config/t-value", {"compatibility": level})
    assert HEADER not in respond(client, "POST", "/subjects/t-value/versions", event("long")).headers
    check = "/compatibility/subjects/t-value/versions?verbose=true"
    for path in (check, check.replace("?", "/latest?")):
        assert ask("POST", path, event(MILLIS)) == (
            200,
            {"is_compatible": True, "messages": [f"{{table:'{SENTENCE}'}}"]},
        )
    for _ in range(2):  # the second one finds the version of the first
        answer = respond(client, "POST", "/subjects/t-value/versions", event(MILLIS))
        assert (answer.status_code, answer.headers[HEADER]) == (200, f"1; {SENTENCE}")
    versions = client.get("/api/v1/contracts/t").json()["versions"]
    (noted,) = [each for each in versions if each["note"]]
    assert noted["note"] == f"the table: {SENTENCE}"
    assert noted["version"] == "2.0.0"


def test_a_column_that_returns_with_another_type_is_named(client: Any) -> None:
    """The table still has the column of the versions before it was dropped."""

    def register(*fields: tuple[str, Any]) -> Any:
        listed = [{"name": name, "type": ["null", kind], "default": None} for name, kind in fields]
        schema = {"type": "record", "name": "Event", "fields": listed}
        return respond(client, "POST", "/subjects/t-value/versions", {"schema": json.dumps(schema)})

    register(("id", "int"), ("size", "string"), ("score", "int"))
    register(("id", "int"))
    register(("id", "int"), ("other", "string"))
    assert HEADER not in register(("id", "int"), ("score", "long")).headers
    found = register(("id", "int"), ("score", "long"), ("size", "long")).headers[HEADER]
    assert found.startswith("1; column size was string in 1.0.0")
    # The newest version with the column counts: its stream has a new table.
    register(("id", "int"), ("more", "string"))
    assert "was long in 2.0.0 and is string" in register(("id", "int"), ("size", "string")).headers[HEADER]


def test_types_that_the_column_can_follow_are_not_named(client: Any) -> None:
    respond(client, "POST", "/subjects/t-value/versions", event("long"))
    answer = respond(client, "POST", "/subjects/t-value/versions", event("long", id="long"))
    assert answer.status_code == 200
    assert HEADER not in answer.headers
    assert all(each["note"] is None for each in client.get("/api/v1/contracts/t").json()["versions"])


def test_a_note_names_twenty_columns_and_counts_the_others(client: Any) -> None:
    for kind in ("long", MILLIS):
        fields = [{"name": f"f{number}", "type": kind} for number in range(300)]
        body = {"schema": json.dumps({"type": "record", "name": "Event", "fields": fields})}
        answer = respond(client, "POST", "/subjects/t-value/versions", body)
    assert answer.headers[HEADER].startswith("21; column f0 was long")
    assert len(answer.headers[HEADER]) < 1_100
    (note,) = [each["note"] for each in client.get("/api/v1/contracts/t").json()["versions"] if each["note"]]
    assert note.split("\n")[20:] == ["the table: 280 more columns are of types that tables cannot change to"]


def test_the_page_of_the_version_names_the_column(client: Any) -> None:
    for kind in ("long", MILLIS):
        respond(client, "POST", "/subjects/t-value/versions", event(kind))
    page = client.get("/desk/contracts/t", headers={"Accept": "text/html"}).text
    assert "Not followed by tables" in page
    assert SENTENCE.partition(":")[0] in page


def test_three_rules_of_one_name_and_expression_are_all_judged(client: Any) -> None:
    """The third one replaced the second one, because their ids were equal."""
    rules = [
        {"name": name, "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "message.id > 0"}
        for name in ("A-a", "a-a", "A-A")
    ]
    body = {**event("long"), "ruleSet": {"domainRules": rules}}
    assert respond(client, "POST", "/subjects/t-value/versions", body).status_code == 200
    contract = client.get("/api/v1/contracts/t/versions/latest").json()
    assert len(contract["rules"]) == 3
