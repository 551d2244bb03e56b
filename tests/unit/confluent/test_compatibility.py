"""The seven levels, groups and policies; every refusal with its evidence."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from tests.unit.confluent.conftest import Ask, record
from tidegate.contracts.document.model import Compatibility
from tidegate.gateway.registry import schema_compatibility
from tidegate.gateway.registry.schemas.json_schema import DRAFT_7

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


@pytest.mark.parametrize(
    "naming",
    [
        {"required": ["b"]},
        {"required": ["a"], "dependentRequired": {"a": ["b"]}},
        {"required": ["a"], "dependentSchemas": {"a": {"required": ["b"]}}},
    ],
)
def test_lenient_refuses_a_type_for_a_property_that_was_required(ask: Ask, naming: dict[str, Any]) -> None:
    ask("PUT", "/config/s", {"compatibilityPolicy": "LENIENT"})
    for properties, status in (({"a": {}}, 200), ({"a": {}, "b": {"type": "string"}}, 409)):
        draft = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}
        text = json.dumps({**draft, "properties": properties, **naming})
        assert ask("POST", "/subjects/s/versions", {"schema": text, "schemaType": "JSON"})[0] == status


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


@only_sqlite
def test_what_surprises_comes_with_what_to_do_or_why(ask: Ask) -> None:
    ask("POST", "/subjects/s/versions", obj(a={"type": "string"}))
    added = ask("POST", f"{CHECK}?verbose=true", obj(a={"type": "string"}, b={"type": "string"}))[1]
    assert added["is_compatible"] is False
    assert "remedy:'the object is open" in added["messages"][0]
    required = {"type": "object", "properties": {"a": {"type": "string", "default": ""}}, "required": ["a"]}
    body = {"schema": json.dumps(required), "schemaType": "JSON"}
    told = ask("POST", f"{CHECK}?verbose=true", body)[1]["messages"][0]
    assert "Confluent Schema Registry calls this change compatible" in told


class TestTransitiveLevels:
    """Versions that are proven compatible with one that is compared are not compared again."""

    @pytest.fixture
    def proofs(self, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
        """The pairs of schemas that are compared from now on."""
        found: list[tuple[str, str]] = []
        compare = schema_compatibility._compare

        def counted(name: str, *asked: Any) -> tuple[str, ...]:
            found.append((name, asked[1].text))
            return compare(name, *asked)

        monkeypatch.setattr(schema_compatibility, "_compare", counted)
        monkeypatch.setattr(schema_compatibility, "_PROVEN", schema_compatibility.ProvenPairs())
        return found

    @pytest.mark.parametrize("level", ["BACKWARD_TRANSITIVE", "FORWARD_TRANSITIVE"])
    @pytest.mark.parametrize("draft", [{}, {"$schema": "https://json-schema.org/draft/2020-12/schema"}])
    def test_each_registration_takes_one_comparison(
        self, ask: Ask, proofs: list[tuple[str, str]], level: str, draft: dict[str, str]
    ) -> None:
        ask("PUT", "/config/s", {"compatibility": level})
        signs = {"BACKWARD_TRANSITIVE": 1, "FORWARD_TRANSITIVE": -1}
        for number in range(8):
            schema = {**draft, "type": "string", "maxLength": 50 + signs[level] * number}
            asked = ask("POST", "/subjects/s/versions", {"schema": json.dumps(schema), "schemaType": "JSON"})
            assert asked[0] == 200
        assert [name for name, _ in proofs] == [f"version {number}" for number in range(1, 8)]

    @staticmethod
    def refer(ask: Ask, context: str, depth: int, limit: int, own: int) -> int:
        """Register a text with a limit of its own that refers, over `depth` subjects, to a limit; return the status."""
        schema: dict[str, Any] = {"type": "string", "maxLength": limit}
        references: list[dict[str, Any]] = []
        for number in range(depth):
            body = {"schema": json.dumps(schema), "schemaType": "JSON", "references": references}
            subject = f"/subjects/{context}limit-{number}"
            assert ask("PUT", f"/config/{context}limit-{number}", {"compatibility": "NONE"})[0] == 200
            assert ask("POST", f"{subject}/versions", body)[0] == 200
            version = ask("POST", subject, body)[1]["version"]
            references = [{"name": "limit.json", "subject": f"limit-{number}", "version": version}]
            schema = {"properties": {"other": {"$ref": "limit.json"}}}
        schema["properties"]["own"] = {"type": "string", "maxLength": own}
        body = {"schema": json.dumps(schema), "schemaType": "JSON", "references": references}
        status: int = ask("POST", f"/subjects/{context}s/versions", body)[0]
        return status

    @pytest.mark.parametrize(("level", "sign"), [("BACKWARD_TRANSITIVE", 1), ("FORWARD_TRANSITIVE", -1)])
    @pytest.mark.parametrize("depth", [1, 2])
    def test_a_schema_with_references_takes_one_comparison_too(
        self, ask: Ask, proofs: list[tuple[str, str]], level: str, sign: int, depth: int
    ) -> None:
        ask("PUT", "/config/s", {"compatibility": level})
        limits = ((50, 50), (50 + sign, 50), (50 + sign, 50 + sign), (50 + 2 * sign, 50 + 2 * sign))
        assert [self.refer(ask, "", depth, *both) for both in limits] == [200] * 4
        assert [name for name, _ in proofs] == ["version 1", "version 2", "version 3"]

    @pytest.mark.parametrize("depth", [1, 2])
    def test_what_a_reference_leads_to_is_part_of_what_is_proven(
        self, ask: Ask, proofs: list[tuple[str, str]], depth: int
    ) -> None:
        """Texts, names, subjects and versions are alike in both contexts, and only the referenced limits differ."""
        for context, level, limits in ((":.a:", "BACKWARD_TRANSITIVE", (2, 3)), (":.b:", "NONE", (3, 2))):
            ask("PUT", f"/config/{context}s", {"compatibility": level})
            assert [self.refer(ask, context, depth, limit, own=9) for limit in limits] == [200, 200]
        ask("PUT", "/config/:.b:s", {"compatibility": "BACKWARD_TRANSITIVE"})
        assert self.refer(ask, ":.b:", depth, 2, own=10) == 409
        assert [name for name, _ in proofs] == ["version 1", "version 2", "version 1"]

    def test_after_a_restart_each_version_is_compared_once(
        self, ask: Ask, proofs: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def register(length: int) -> int:
            body = {"schema": json.dumps({"type": "string", "maxLength": length}), "schemaType": "JSON"}
            status: int = ask("POST", "/subjects/s/versions", body)[0]
            return status

        ask("PUT", "/config/s", {"compatibility": "BACKWARD_TRANSITIVE"})
        assert [register(length) for length in (1, 2, 3, 4)] == [200] * 4
        monkeypatch.setattr(schema_compatibility, "_PROVEN", schema_compatibility.ProvenPairs())
        proofs.clear()
        assert [register(5), len(proofs)] == [200, 4]
        assert [register(6), len(proofs)] == [200, 5]

    def test_what_is_not_compatible_with_the_oldest_is_refused(
        self, ask: Ask, proofs: list[tuple[str, str]]
    ) -> None:
        def register(level: str, schema: dict[str, Any]) -> int:
            ask("PUT", "/config/s", {"compatibility": level})
            body = {"schema": json.dumps(schema), "schemaType": "JSON"}
            status: int = ask("POST", "/subjects/s/versions", body)[0]
            return status

        number, string = {"type": "number"}, {"type": ["string", "number"]}
        assert register("NONE", {"type": "boolean"}) == 200
        assert register("NONE", number) == 200
        assert register("BACKWARD", string) == 200
        assert register("BACKWARD_TRANSITIVE", {"type": ["string", "number", "null"]}) == 409
        assert register("BACKWARD_TRANSITIVE", {"type": ["string", "number", "boolean"]}) == 200
        assert [name for name, _ in proofs[-2:]] == ["version 3", "version 1"]

    def test_avro_is_compared_with_every_version(self, ask: Ask) -> None:
        """A field is dropped and comes back with another type: each step is read, and the first by the last is not."""
        ask("PUT", "/config/s", {"compatibility": "BACKWARD"})
        field = {"name": "b", "type": "string", "default": ""}
        others = [record("a", b=1), record("a"), json.loads(record("a"))]
        others[2]["fields"].append(field)
        last = {"schema": json.dumps(others[2])}
        for schema in others[:2]:
            assert ask("POST", "/subjects/s/versions", {"schema": schema})[0] == 200
        assert ask("POST", "/compatibility/subjects/s/versions", last)[1] == {"is_compatible": True}
        ask("PUT", "/config/s", {"compatibility": "BACKWARD_TRANSITIVE"})
        assert ask("POST", "/compatibility/subjects/s/versions", last)[1] == {"is_compatible": False}

    def test_a_key_covers_name_content_and_draft_of_each_reference(self) -> None:
        key = schema_compatibility.key_of
        plain, deep = key("JSON", "1", None), key("JSON", "1", None, [("a", key("JSON", "2", None))])
        references = [
            [],
            [("a", plain)],
            [("b", plain)],
            [("a", key("JSON", "2", None))],
            [("a", key("JSON", "1", DRAFT_7))],
            [("a", deep)],
            [("a", plain), ("b", plain)],
            [("a", plain), ("b", deep)],
        ]
        assert len({key("JSON", "{}", None, each) for each in references}) == len(references)

    def test_the_pairs_have_a_bound(self) -> None:
        pairs = schema_compatibility.ProvenPairs(limit=2)
        keys = [schema_compatibility.key_of("JSON", str(number), None) for number in range(4)]
        both = schema_compatibility.directions_of(Compatibility.FULL)
        for one, other in pairwise(keys):
            pairs.add(one, other, both)
        assert [pairs.has(one, other, both) for one, other in pairwise(keys)] == [False, True, True]
        pairs.add(
            schema_compatibility.key_of("AVRO", "1", None),
            schema_compatibility.key_of("AVRO", "2", None),
            both,
        )
        assert pairs.has(keys[2], keys[3], both)
