"""The seven levels, groups and policies; every refusal with its evidence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.confluent.conftest import Ask, record

ONE, TWO, THREE = record("a"), record("a", b=1), record("a", b=1, c=2)
NEEDS = record("a", "b")
CHECK = "/compatibility/subjects/s/versions"

# What is refused before anything is stored is refused alike on every database: once is enough.
only_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def obj(closed: bool | None = None, **properties: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if closed:
        schema["additionalProperties"] = False
    return {"schema": json.dumps(schema), "schemaType": "JSON"}


@pytest.mark.parametrize(
    ("level", "history", "new", "expected"),
    [
        ("NONE", [ONE], NEEDS, True),
        ("BACKWARD", [ONE], TWO, True),
        ("BACKWARD", [ONE], NEEDS, False),
        ("BACKWARD", [TWO], ONE, True),
        ("FORWARD", [ONE], NEEDS, True),
        ("FORWARD", [NEEDS], ONE, False),
        ("FULL", [ONE], TWO, True),
        ("FULL", [ONE], NEEDS, False),
        ("FULL", [NEEDS], ONE, False),
        ("BACKWARD", [ONE, TWO], NEEDS, True),
        ("BACKWARD_TRANSITIVE", [ONE, TWO], NEEDS, False),
        ("FORWARD", [NEEDS, TWO], ONE, True),
        ("FORWARD_TRANSITIVE", [NEEDS, TWO], ONE, False),
        ("FULL_TRANSITIVE", [ONE, TWO], THREE, True),
        ("FULL_TRANSITIVE", [ONE, TWO], NEEDS, False),
        ("FULL_TRANSITIVE", [NEEDS, TWO], ONE, False),
    ],
)
@only_sqlite
def test_levels(ask: Ask, level: str, history: list[str], new: str, expected: bool) -> None:
    ask("PUT", "/config/s", {"compatibility": "NONE"})
    for text in history:
        assert ask("POST", "/subjects/s/versions", {"schema": text})[0] == 200
    ask("PUT", "/config/s", {"compatibility": level})
    assert ask("POST", f"{CHECK}?normalize=False&verbose=False", {"schema": new}) == (
        200,
        {"is_compatible": expected},
    )
    status, body = ask("POST", "/subjects/s/versions", {"schema": new})
    assert (status, body.get("error_code")) == ((200, None) if expected else (409, 409))


def test_one_version_is_asked_for_by_number_or_as_the_latest(ask: Ask) -> None:
    ask("POST", "/subjects/s/versions", {"schema": ONE})
    ask("POST", "/subjects/s/versions", {"schema": TWO})
    answers = {
        name: ask("POST", f"{CHECK}/{name}", {"schema": NEEDS})[1] for name in ("1", "2", "latest", "-1")
    }
    assert [answers[name]["is_compatible"] for name in answers] == [False, True, True, True]
    assert ask("POST", f"{CHECK}/3", {"schema": NEEDS})[1]["error_code"] == 40402


@pytest.mark.parametrize(
    ("level", "old", "new", "expected"),
    [
        ("NONE", ONE, NEEDS, True),
        ("BACKWARD", ONE, NEEDS, False),
        ("BACKWARD", NEEDS, ONE, True),
        ("BACKWARD_TRANSITIVE", ONE, NEEDS, False),
        ("BACKWARD_TRANSITIVE", NEEDS, ONE, True),
        ("FORWARD", ONE, NEEDS, True),
        ("FORWARD", NEEDS, ONE, False),
        ("FORWARD_TRANSITIVE", ONE, NEEDS, True),
        ("FORWARD_TRANSITIVE", NEEDS, ONE, False),
        ("FULL", ONE, NEEDS, False),
        ("FULL", NEEDS, ONE, False),
        ("FULL", ONE, TWO, True),
        ("FULL_TRANSITIVE", ONE, NEEDS, False),
        ("FULL_TRANSITIVE", NEEDS, ONE, False),
        ("FULL_TRANSITIVE", ONE, TWO, True),
    ],
)
@only_sqlite
def test_a_single_version_is_asked_at_every_level_and_no_other_version_with_it(
    ask: Ask, level: str, old: str, new: str, expected: bool
) -> None:
    other = NEEDS if old == ONE else ONE  # would answer otherwise, and is not asked
    ask("PUT", "/config/s", {"compatibility": "NONE"})
    for text in (other, old):
        assert ask("POST", "/subjects/s/versions", {"schema": text})[0] == 200
    ask("PUT", "/config/s", {"compatibility": level})
    for version in ("2", "latest"):
        assert ask("POST", f"{CHECK}/{version}", {"schema": new})[1] == {"is_compatible": expected}
        verbose = ask("POST", f"{CHECK}/{version}?verbose=True", {"schema": new})[1]
        assert verbose["is_compatible"] is expected
        assert bool(verbose["messages"]) is not expected


def test_an_unknown_subject_is_compatible_with_everything_but_has_no_versions(ask: Ask) -> None:
    assert ask("POST", f"{CHECK}/latest", {"schema": ONE})[1] == {"is_compatible": True}
    assert ask("POST", CHECK, {"schema": ONE})[1] == {"is_compatible": True}
    assert ask("POST", f"{CHECK}/1", {"schema": ONE})[1]["error_code"] == 40402


def test_verbose_says_where_why_and_with_which_record(ask: Ask) -> None:
    ask("POST", "/subjects/s/versions", obj(age={"type": "integer", "maximum": 150}))
    body = ask("POST", f"{CHECK}/latest?verbose=true", obj(age={"type": "integer", "maximum": 100}))[1]
    assert body["is_compatible"] is False
    evidence, level = body["messages"]
    assert "errorType:'schema.maximum-lowered'" in evidence
    assert "path:'/properties/age/maximum'" in evidence
    counterexample = json.loads(evidence.rpartition("counterexample:")[2].removesuffix("}"))
    assert 100 < counterexample["age"] <= 150
    assert level == "{compatibility: 'BACKWARD'}"
    refusal = ask("POST", "/subjects/s/versions", obj(age={"type": "integer", "maximum": 100}))[1]["message"]
    assert refusal.startswith(
        'Schema being registered is incompatible with an earlier schema for subject "s", details: ['
    )
    assert evidence in refusal


@only_sqlite
def test_forward_messages_tell_a_change_from_the_earlier_version_to_the_new_one(ask: Ask) -> None:
    ask("PUT", "/config/s", {"compatibility": "FULL"})
    ask("POST", "/subjects/s/versions", obj(age={"type": "integer", "maximum": 150}))
    wider = {"allOf": [{"type": "integer", "maximum": 200}]}
    (evidence, _) = ask("POST", f"{CHECK}/latest?verbose=true", obj(age=wider))[1]["messages"]
    assert "data of the new schema under version 1: `maximum` of `/age` went from 150 to 200" in evidence
    assert "path:'/properties/age/allOf/0/maximum', oldPath:'/properties/age/maximum'" in evidence
    assert json.loads(evidence.rpartition("counterexample:")[2].removesuffix("}"))["age"] == 151


def test_verbose_makes_an_invalid_schema_an_answer(ask: Ask) -> None:
    ask("POST", "/subjects/s/versions", {"schema": ONE})
    plain = ask("POST", f"{CHECK}/latest", {"schema": "{"})
    verbose = ask("POST", f"{CHECK}/latest?verbose=True", {"schema": "{"})
    assert (plain[0], plain[1]["error_code"]) == (422, 42201)
    assert verbose[0] == 200
    assert verbose[1]["is_compatible"] is False
    assert verbose[1]["messages"][0].startswith("Invalid schema")


def test_another_schema_type_is_never_compatible(ask: Ask) -> None:
    ask("POST", "/subjects/s/versions", {"schema": ONE})
    status, body = ask("POST", "/subjects/s/versions", obj())
    assert (status, body["error_code"]) == (409, 409)
    assert "SCHEMA_TYPE_CHANGED" in body["message"]


def test_a_group_is_compared_with_itself_only(ask: Ask) -> None:
    ask("PUT", "/config/s", {"compatibility": "BACKWARD_TRANSITIVE", "compatibilityGroup": "major"})

    def version(text: str, major: str) -> tuple[int, Any]:
        return ask(
            "POST", "/subjects/s/versions", {"schema": text, "metadata": {"properties": {"major": major}}}
        )

    assert version(ONE, "1")[0] == 200
    assert version(NEEDS, "1")[0] == 409
    assert version(NEEDS, "2")[0] == 200
    assert version(TWO, "1")[0] == 200
    assert version(record("a", "b", "c"), "2")[0] == 409


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (obj(a={"type": "integer"}), obj(a={"type": "integer"}, b={"type": "string"})),
        (obj(closed=True, a={}, b={}), obj(closed=True, a={})),
    ],
    ids=["added-to-open", "removed-from-closed"],
)
def test_lenient_lets_undeclared_properties_pass_with_the_counterexample_and_strict_does_not(
    client: Any, ask: Ask, old: dict[str, Any], new: dict[str, Any]
) -> None:
    ask("POST", "/subjects/s/versions", old)
    assert ask("POST", f"{CHECK}/latest", new)[1]["is_compatible"] is False
    ask("PUT", "/config/s", {"compatibilityPolicy": "lenient"})
    answer = ask("POST", f"{CHECK}/latest?verbose=true", new)[1]
    assert answer["is_compatible"] is True
    assert "counterexample" in answer["messages"][0]
    assert ask("POST", "/subjects/s/versions", new)[0] == 200
    last = client.get("/api/v1/audit").json()["entries"][-1]
    assert last["action"] == "subject.version-registered-leniently"


def test_lenient_still_refuses_what_breaks_declared_properties(ask: Ask) -> None:
    ask("PUT", "/config/s", {"compatibilityPolicy": "LENIENT"})
    ask("POST", "/subjects/s/versions", obj(a={"type": "integer"}))
    assert ask("POST", "/subjects/s/versions", obj(a={"type": "string"}))[0] == 409


def test_references_are_a_part_of_what_is_compared(ask: Ask) -> None:
    for text in (record("x", name="Unit"), record("x", y=1, name="Unit")):
        ask("POST", "/subjects/unit/versions", {"schema": text})
    ask("PUT", "/config/unit", {"compatibility": "NONE"})
    ask("POST", "/subjects/unit/versions", {"schema": record("x", "z", name="Unit")})

    def thing(version: int) -> dict[str, Any]:
        fields = [{"name": "u", "type": "Unit"}]
        return {
            "schema": json.dumps({"type": "record", "name": "T", "fields": fields}),
            "references": [{"name": "Unit", "subject": "unit", "version": version}],
        }

    assert ask("POST", "/subjects/s/versions", thing(1))[0] == 200
    assert ask("POST", "/subjects/s/versions", thing(2))[0] == 200
    assert ask("POST", "/subjects/s/versions", thing(3))[0] == 409


class TestNewerSpelling:
    @pytest.fixture
    def settings(self, settings: Any) -> Any:
        return settings.model_copy(update={"incompatible_error_code": 40901})

    def test_the_number_of_an_incompatible_schema_is_a_setting(self, ask: Ask) -> None:
        ask("POST", "/subjects/s/versions", {"schema": ONE})
        status, body = ask("POST", "/subjects/s/versions", {"schema": NEEDS})
        assert (status, body["error_code"]) == (409, 40901)
