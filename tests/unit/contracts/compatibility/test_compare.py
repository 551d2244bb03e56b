"""A whole contract against another: places, levels, order, versions."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tidegate.contracts.compatibility.compare import compare, suggested_version
from tidegate.contracts.compatibility.finding import Comparison, Direction, Finding, FindingSeverity
from tidegate.contracts.compatibility.separation import with_value
from tidegate.contracts.document.fields import value_at
from tidegate.contracts.document.model import Compatibility, DataContract
from tidegate.contracts.inclusion.answer import Outcome
from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.verdict import Disposition

RANGE = {"id": "r", "kind": "range", "field": "/age", "maximum": 120}
AVRO = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}],
}


def told(comparison: Comparison) -> list[tuple[str, str]]:
    return [(each.severity.value, each.code) for each in comparison.findings]


def only(comparison: Comparison, code: str) -> Finding:
    (finding,) = [each for each in comparison.findings if each.code == code]
    return finding


def with_schema(make_contract: Any, change: Any) -> DataContract:
    schema = copy.deepcopy(make_contract().schema_.definition)
    change(schema)
    return make_contract(RANGE, schema=schema)  # type: ignore[no-any-return] # a fixture


def test_an_identical_contract_gives_no_finding(make_contract: Any) -> None:
    comparison = compare(make_contract(RANGE), make_contract(RANGE), level=Compatibility.FULL_TRANSITIVE)
    assert comparison == Comparison("1.0.0", (), "1.0.1")
    assert comparison.is_compatible


def test_annotations_ask_for_a_patch(make_contract: Any) -> None:
    def describe(schema: Any) -> None:
        schema["description"] = "what it means"
        schema["properties"]["age"]["title"] = "Age"

    candidate = with_schema(make_contract, describe).model_copy(update={"description": "new", "domain": "x"})
    comparison = compare(make_contract(RANGE), candidate, level=Compatibility.FULL)
    assert (comparison.findings, comparison.suggested_version) == ((), "1.0.1")


def test_a_narrower_schema_breaks_backward_with_its_place(make_contract: Any) -> None:
    candidate = with_schema(make_contract, lambda schema: schema["properties"]["age"].update(minimum=18))
    (finding,) = compare(make_contract(RANGE), candidate).findings
    assert (finding.severity, finding.direction) == (FindingSeverity.BREAKING, Direction.BACKWARD)
    assert finding.pointer == "/schema/definition/properties/age/minimum"
    assert finding.base_pointer == "/schema/definition/properties/age/minimum"
    assert (finding.field, finding.outcome) == ("/age", Outcome.REFUTED)
    assert finding.counterexample is not None


@pytest.mark.parametrize("is_said", [True, False])
def test_a_property_that_is_added_to_an_open_object_comes_with_what_to_do(
    make_contract: Any, is_said: bool
) -> None:
    def opened(schema: Any) -> None:
        schema.pop("additionalProperties", None)
        schema.update({"additionalProperties": True} if is_said else {})

    def added(schema: Any) -> None:
        opened(schema)
        schema["properties"].update(note={"type": "string"})

    base, candidate = with_schema(make_contract, opened), with_schema(make_contract, added)
    found = compare(base, candidate).findings
    (finding,) = (each for each in found if each.severity is FindingSeverity.BREAKING)
    assert (finding.field, finding.outcome) == ("/note", Outcome.REFUTED)
    assert finding.counterexample is not None
    for way in ("raise the major version", "additionalProperties: false", "compatibilityPolicy LENIENT"):
        assert way in finding.sentence
    allowed = compare(base, candidate, level=Compatibility.NONE).findings
    assert not any("LENIENT" in each.sentence for each in allowed)


@pytest.mark.parametrize("place", ["", "visit"])
def test_a_contract_may_assume_that_undeclared_properties_are_absent(make_contract: Any, place: str) -> None:
    """`undeclared: ignore` of the earlier version counts; a record that has the property is shown."""

    def within(schema: Any) -> Any:
        schema.pop("additionalProperties", None)
        visit = schema["properties"].setdefault(
            "visit", {"type": "object", "properties": {"ward": {"type": "string"}}}
        )
        return visit if place else schema

    def add(schema: Any) -> None:
        within(schema)["properties"].update(note={"type": "string"})

    closed = with_schema(make_contract, within)
    base, candidate = closed.model_copy(update={"undeclared": "ignore"}), with_schema(make_contract, add)
    comparison = compare(base, candidate, level=Compatibility.FULL)
    assert comparison.is_compatible
    (finding,) = (each for each in comparison.findings if each.outcome is Outcome.ASSUMED)
    assert (finding.severity, finding.field) == (FindingSeverity.WARNING, f"/{place}/note".replace("//", "/"))
    assert "may be refused" in finding.sentence
    assert finding.counterexample is not None
    record = finding.counterexample.text.encode()
    verdicts = [compile_plan(each).explain(record, typed=False).disposition for each in (base, candidate)]
    assert verdicts == [Disposition.ACCEPTED, Disposition.QUARANTINED]
    # A version that says so of itself alone does not pass.
    assert not compare(closed, candidate.model_copy(update={"undeclared": "ignore"})).is_compatible


@pytest.mark.parametrize(
    "change",
    [
        {"properties": {"note": {"type": "string"}, "age": {"minimum": 18}}},
        {"properties": {"note": {"type": "string"}}, "required": ["note"]},
        {"properties": {"note": {"type": "string"}}, "additionalProperties": False},
        {"properties": {"note": {"type": "string"}}, "patternProperties": {"^x-": {"type": "string"}}},
    ],
)
def test_nothing_else_is_assumed(make_contract: Any, change: dict[str, Any]) -> None:
    def opened(schema: Any) -> None:
        schema.pop("additionalProperties", None)

    def changed(schema: Any) -> None:
        opened(schema)
        for name, value in change.items():
            known = schema.get(name)
            if isinstance(value, dict):
                schema[name] = {**(known or {}), **value}
            else:
                schema[name] = [*(known or ()), *value] if isinstance(value, list) else value

    base = with_schema(make_contract, opened).model_copy(update={"undeclared": "ignore"})
    assert not compare(base, with_schema(make_contract, changed)).is_compatible


NAMING = [
    {"required": ["note"]},
    {"allOf": [{"anyOf": [{"required": ["note"]}]}]},
    {"$ref": "#/$defs/d", "$defs": {"d": {"required": ["note"]}}},
    {"minProperties": 1, "dependentRequired": {"id": ["note"]}},
    {"dependentRequired": {"note": ["id"]}},
    {"dependentSchemas": {"note": {"required": ["id"]}}},
    {"propertyNames": {"enum": ["id", "note"]}},
    {"propertyNames": {"anyOf": [{"const": "note"}, {"const": "id"}]}},
    {"patternProperties": {"^not": True}},
    {"if": {"required": ["note"]}, "then": {"required": ["id"]}},
    {"enum": [{"note": 1, "id": 1}]},
    {"const": {"note": 1, "id": 1}},
]


@pytest.mark.parametrize("place", ["", "visit", "visits"])
@pytest.mark.parametrize("naming", NAMING)
def test_a_property_that_the_earlier_schema_names_is_not_assumed_to_be_absent(
    make_contract: Any, naming: dict[str, Any], place: str
) -> None:
    def at_place(inner: dict[str, Any]) -> Any:
        named = {name: each for name, each in inner.items() if name != "$defs"}
        around = {"": named, "visit": {"properties": {"visit": named}}}
        around["visits"] = {"properties": {"visits": {"type": "array", "items": named}}}
        return {**around[place], "$defs": inner.get("$defs", {})}

    note = {"properties": {"note": {"type": "string"}}}
    base = make_contract(schema=at_place(naming), undeclared="ignore")
    comparison = compare(base, make_contract(schema=at_place({**naming, **note})))
    assert not comparison.is_compatible
    assert not any("undeclared: ignore" in finding.sentence for finding in comparison.findings)


def test_a_property_that_the_earlier_schema_names_elsewhere_is_assumed_to_be_absent(
    make_contract: Any,
) -> None:
    schema = {"required": ["note"], "properties": {"note": {"required": ["id"]}, "visit": {"type": "object"}}}
    changed = {
        **schema,
        "properties": {**schema["properties"], "visit": {"properties": {"note": {"type": "string"}}}},
    }
    base, candidate = make_contract(schema=schema, undeclared="ignore"), make_contract(schema=changed)
    narrowed = compare(base, candidate)
    assert [each.outcome for each in narrowed.findings if each.field == "/visit/note"] == [Outcome.ASSUMED]


@pytest.mark.parametrize("default", [True, False])
def test_a_default_makes_no_property_that_is_required_compatible_and_the_finding_says_why(
    make_contract: Any, default: bool
) -> None:
    def required(schema: Any) -> None:
        schema["properties"]["note"] = {"type": "string", **({"default": "x"} if default else {})}
        schema["required"] = [*schema.get("required", ()), "note"]

    base = with_schema(make_contract, lambda schema: schema["properties"].update(note={"type": "string"}))
    found = compare(base, with_schema(make_contract, required)).findings
    (finding,) = (each for each in found if each.code == "schema.required-added")
    assert finding.severity is FindingSeverity.BREAKING
    assert ("fills nothing in" in finding.sentence) is default


def test_a_wider_schema_breaks_forward_and_is_a_minor_version_backward(make_contract: Any) -> None:
    candidate = with_schema(
        make_contract, lambda schema: schema["properties"].update(note={"type": "string"})
    )
    backward = compare(make_contract(RANGE), candidate)
    assert backward.is_compatible
    assert backward.suggested_version == "1.1.0"
    assert {each.direction for each in backward.findings} == {Direction.FORWARD, None}
    forward = compare(make_contract(RANGE), candidate, level=Compatibility.FORWARD)
    assert (forward.is_compatible, forward.suggested_version) == (False, "2.0.0")
    assert forward.findings[0].base_pointer.startswith("/schema/definition")


def test_formats_that_begin_to_count_break_backward(make_contract: Any) -> None:
    lax, strict = make_contract(formats="annotate"), make_contract()
    found = [each for each in compare(lax, strict).findings if each.code == "schema.format-added"]
    assert {each.field for each in found} >= {"/admitted", "/discharged", "/at"}
    assert {each.severity for each in found} == {FindingSeverity.BREAKING}
    breaking = [each for each in compare(strict, lax).findings if each.severity is FindingSeverity.BREAKING]
    assert {each.code for each in breaking} == {"column.type-changed"}  # columns of dates became strings


@pytest.mark.parametrize("name", ["day", "default", "const", "enum", "examples"])
def test_formats_begin_to_count_whatever_their_property_is_called(make_contract: Any, name: str) -> None:
    """A property may have the name of a keyword whose value is no schema."""
    schema = {"type": "object", "properties": {name: {"type": "string", "format": "email"}}}
    lax, strict = (make_contract(schema=schema, formats=formats) for formats in ("annotate", "assert"))
    finding = only(compare(lax, strict), "schema.format-added")
    assert (finding.severity, finding.field) == (FindingSeverity.BREAKING, f"/{name}")
    (back,) = compare(strict, lax, level=Compatibility.BACKWARD).findings
    assert back.severity is not FindingSeverity.BREAKING


def test_formats_begin_to_count_where_a_reference_leads_to_a_value(make_contract: Any) -> None:
    schema = {"properties": {"a": {"$ref": "#/examples/0"}}, "examples": [{"format": "email"}]}
    lax, strict = (make_contract(schema=schema, formats=formats) for formats in ("annotate", "assert"))
    assert only(compare(lax, strict), "schema.format-added").severity is FindingSeverity.BREAKING


def test_what_rules_asked_for_may_move_into_the_schema(make_contract: Any) -> None:
    base = make_contract(RANGE)
    candidate = with_schema(make_contract, lambda schema: schema["properties"]["age"].update(maximum=120))
    comparison = compare(base, candidate, level=Compatibility.FULL)
    assert comparison.is_compatible
    assert told(comparison) == [("info", "schema.maximum-added")]
    without_rule = candidate.model_copy(update={"rules": ()})
    assert compare(base, without_rule, level=Compatibility.FULL).is_compatible
    tighter = with_schema(make_contract, lambda schema: schema["properties"]["age"].update(maximum=119))
    finding = only(compare(base, tighter), "schema.maximum-added")
    assert (finding.severity, finding.counterexample is None) == (FindingSeverity.BREAKING, False)


def test_avro_findings_have_places_in_the_contract(make_contract: Any) -> None:
    narrower = copy.deepcopy(AVRO)
    narrower["fields"][1]["type"] = "int"  # type: ignore[index] # a list of fields
    comparison = compare(make_contract(schema=AVRO, kind="avro"), make_contract(schema=narrower, kind="avro"))
    finding = next(each for each in comparison.findings if each.code == "avro.type-changed")
    assert (finding.severity, finding.direction) == (FindingSeverity.BREAKING, Direction.BACKWARD)
    assert finding.pointer == "/schema/definition/fields/1/type"
    assert finding.counterexample is not None
    assert finding.counterexample.encoded == b"\x00\x00"


def test_a_column_that_cannot_follow_an_avro_type_is_a_finding_of_its_own(make_contract: Any) -> None:
    plain: Any = {"type": "record", "name": "R", "fields": [{"name": "at", "type": "long"}]}
    stamped = copy.deepcopy(plain)
    stamped["fields"][0]["type"] = {"type": "long", "logicalType": "timestamp-millis"}
    schemas = [make_contract(schema=each, kind="avro") for each in (plain, stamped)]
    comparison = compare(*schemas, level=Compatibility.BACKWARD)
    assert told(comparison) == [
        ("breaking", "column.type-changed"),
        ("warning", "avro.logical-type-added"),
        ("info", "avro.logical-type-removed"),  # forward, which the level allows
    ]
    assert "the column at was long and is timestamp" in only(comparison, "column.type-changed").sentence
    columns = [{"name": "at", "from": "/at", "type": "long"}]
    kept = [make_contract(schema=each, kind="avro", columns=columns) for each in (plain, stamped)]
    assert compare(*kept, level=Compatibility.BACKWARD).is_compatible


def test_another_type_of_schema_breaks(make_contract: Any) -> None:
    comparison = compare(make_contract(), make_contract(schema=AVRO, kind="avro"))
    assert only(comparison, "schema.type-changed").severity is FindingSeverity.BREAKING


DECLARATIONS = [
    ({}, {"topic": "other"}, "contract.topic-changed", {"BACKWARD", "FORWARD"}),
    ({}, {"framing": "confluent-prefix"}, "contract.framing-changed", {"BACKWARD", "FORWARD"}),
    ({}, {"framing": "auto"}, "contract.framing-changed", {"FORWARD"}),
    ({"framing": "auto"}, {"framing": "confluent-prefix"}, "contract.framing-changed", {"BACKWARD"}),
    ({}, {"compatibility_group": "2"}, "contract.compatibility-group-changed", set()),
    ({"unframed_group": "1"}, {"unframed_group": "2"}, "contract.unframed-group-changed", set()),
    ({}, {"tombstones": "pass"}, "contract.tombstones-changed", {"FORWARD"}),
    ({"tombstones": "delete"}, {}, "contract.tombstones-changed", {"BACKWARD"}),
    ({"tombstones": "pass"}, {"tombstones": "delete"}, "contract.tombstones-changed", set()),
    ({"primary_key": ["id"]}, {"primary_key": ["id", "admitted"]}, "contract.primary-key-changed", {"BACKWARD", "FORWARD"}),
    ({}, {"on_violation": "alert"}, "contract.on-violation-changed", {"FORWARD"}),
    ({"on_violation": "alert"}, {}, "contract.on-violation-changed", {"BACKWARD"}),
    ({}, {"on_violation": "drop"}, "contract.on-violation-changed", set()),
    ({}, {"error_budget": {"ratio": 0.1}}, "contract.error-budget-changed", set()),
    ({}, {"retention": {"quarantine_days": 30}}, "contract.retention-changed", set()),
    ({}, {"classification": {"/id": "pii"}}, "contract.classification-changed", set()),
    ({"compatibility": "FULL"}, {}, "contract.compatibility-lowered", set()),
    ({"compatibility": "BACKWARD_TRANSITIVE"}, {}, "contract.compatibility-lowered", set()),
    ({}, {"compatibility": "FULL"}, "contract.compatibility-raised", set()),
    ({}, {"status": "retired"}, "contract.status-changed", set()),
    ({}, {"id": "other"}, "contract.id-changed", set()),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "code", "broken"), DECLARATIONS)
def test_what_a_contract_declares_takes_part(
    make_contract: Any, before: dict[str, Any], after: dict[str, Any], code: str, broken: set[str]
) -> None:
    base, candidate = make_contract(**before), make_contract(**after)
    found = set()
    for level in (Compatibility.BACKWARD, Compatibility.FORWARD):
        finding = only(compare(base, candidate, level=level), code)
        assert finding.counterexample is None
        if finding.severity is FindingSeverity.BREAKING:
            found.add(level.value)
    assert found == broken


COLUMNS = [
    {"name": "age", "from": "/age", "type": "int"},
    {"name": "weight", "from": "/weight", "type": "double"},
]


@pytest.mark.parametrize(
    ("change", "code", "broken"),
    [
        (lambda columns: columns.pop(), "column.removed", {"FORWARD"}),
        (lambda columns: columns[0].update(type="long"), "column.type-changed", {"FORWARD"}),
        (lambda columns: columns[1].update(type="float"), "column.type-changed", {"BACKWARD"}),
        (lambda columns: columns[0].update(type="string"), "column.type-changed", {"BACKWARD", "FORWARD"}),
        (
            lambda columns: columns[0].update({"from": "/weight"}),
            "column.source-changed",
            {"BACKWARD", "FORWARD"},
        ),
        (
            lambda columns: columns.append({"name": "id", "from": "/id", "type": "string"}),
            "column.added",
            set(),
        ),
    ],
)
def test_columns_take_part(make_contract: Any, change: Any, code: str, broken: set[str]) -> None:
    after = copy.deepcopy(COLUMNS)
    change(after)
    base, candidate = make_contract(columns=COLUMNS), make_contract(columns=after)
    levels = (Compatibility.BACKWARD, Compatibility.FORWARD)
    found = {level.value for level in levels if not compare(base, candidate, level=level).is_compatible}
    assert found == broken
    assert code in {each.code for each in compare(base, candidate).findings}


def test_a_header_of_producers_that_becomes_public_is_a_warning(make_contract: Any) -> None:
    base = make_contract(producer_headers=[{"name": "app"}])
    candidate = make_contract(producer_headers=[{"name": "app", "public": True}])
    comparison = compare(base, candidate, level=Compatibility.FULL)
    assert told(comparison) == [("warning", "contract.producer-headers-changed")]


def test_derived_columns_count_like_declared_ones(make_contract: Any) -> None:
    candidate = with_schema(make_contract, lambda schema: schema["properties"]["age"].update(type="number"))
    finding = only(compare(make_contract(RANGE), candidate, level=Compatibility.FULL), "column.type-changed")
    assert finding.sentence.startswith("the column age was long and is double")


def test_the_level_is_the_one_that_the_base_promises(make_contract: Any) -> None:
    base = make_contract(RANGE, compatibility="FORWARD")
    candidate = make_contract(compatibility="NONE")
    assert not compare(base, candidate).is_compatible


def test_under_none_nothing_breaks_and_the_evidence_stays(make_contract: Any) -> None:
    comparison = compare(make_contract(), make_contract(RANGE), level=Compatibility.NONE)
    assert comparison.is_compatible
    assert told(comparison) == [("info", "rule.added")]
    assert comparison.findings[0].counterexample is not None


@pytest.mark.parametrize("name", ["9" * 5_000, "²"])
def test_a_property_may_have_a_name_of_digits_that_are_no_index(make_contract: Any, name: str) -> None:
    """Python refuses to read numbers of more than 4,300 digits, and `²` counts as a digit of none."""
    before, after = ({"properties": {name: {"type": kind}}} for kind in ("integer", "string"))
    rules = [{"kind": "range", "field": f"/{name}", "minimum": 0}]
    comparison = compare(
        make_contract(*rules, schema=before), make_contract(schema=after), level=Compatibility.FULL
    )
    assert ("breaking", "schema.type-narrowed") in told(comparison)
    assert with_value([1, 2], (name,), 3) == {name: 3}
    assert value_at([1, 2], (name,), "none") == "none"


def test_breaking_findings_stand_first_and_the_rest_in_the_order_of_the_document(make_contract: Any) -> None:
    rules = [
        {"id": f"r{index}", "kind": "range", "field": "/age", "maximum": 200 + index} for index in range(12)
    ]
    tighter = [{**rule, "maximum": 100 + index} for index, rule in enumerate(rules)]
    comparison = compare(make_contract(*rules), make_contract(*tighter, topic="other"))
    assert [each.pointer for each in comparison.findings][:12] == [
        f"/rules/{index}/maximum" for index in range(12)
    ]
    assert comparison == compare(make_contract(*rules), make_contract(*tighter, topic="other"))
    ranks = [list(FindingSeverity).index(each.severity) for each in comparison.findings]
    assert ranks == sorted(ranks)


@pytest.mark.parametrize(
    ("base", "severity", "code", "expected"),
    [
        ("1.2.3", FindingSeverity.BREAKING, "rule.added", "2.0.0"),
        ("1.2.3", FindingSeverity.WARNING, "rule.loosened", "1.3.0"),
        ("1.2.3", FindingSeverity.INFO, "column.added", "1.3.0"),
        ("1.2.3", FindingSeverity.INFO, "rule.rewritten", "1.2.4"),
        ("0.4.0", FindingSeverity.BREAKING, "rule.added", "1.0.0"),
        ("2.0.0-rc.1", FindingSeverity.BREAKING, "rule.added", "2.0.0"),
        ("1.2.0-rc.1", FindingSeverity.BREAKING, "rule.added", "2.0.0"),
        ("1.2.0-rc.1", FindingSeverity.INFO, "rule.rewritten", "1.2.0"),
    ],
)
def test_the_suggested_version_is_the_smallest_allowed(
    base: str, severity: FindingSeverity, code: str, expected: str
) -> None:
    finding = Finding(severity, code, "", "", "", "", Outcome.PROVEN)
    assert suggested_version(base, [finding]) == expected


def test_a_forward_finding_says_that_new_records_are_meant(make_contract: Any) -> None:
    candidate = with_schema(make_contract, lambda schema: schema["properties"]["age"].pop("minimum"))
    comparison = compare(make_contract(RANGE), candidate, level=Compatibility.FORWARD)
    (finding,) = [each for each in comparison.findings if each.severity is FindingSeverity.BREAKING]
    assert finding.sentence == (
        "`minimum` 0 of `/age` is gone; a record that the new schema accepts breaks the old one; "
        "it touches no registered consumer"
    )


ANY = {"type": "object", "properties": {"a": {}, "b": {}}, "additionalProperties": False}
KINDS: dict[str, Any] = {
    "const": lambda value: {"schema": {**ANY, "properties": {"a": {"const": value}}}},
    "enum": lambda value: {"schema": {**ANY, "properties": {"a": {"enum": [value, "q"]}}}},
    "nested": lambda value: {"schema": {**ANY, "properties": {"a": {"const": {"b": [value]}}}}},
    "forbidden": lambda value: {
        "rules": [{"id": "r", "kind": "forbidden", "field": "/a", "values": [value]}]
    },
    "one_of": lambda value: {"rules": [{"id": "r", "kind": "one_of", "field": "/a", "values": [value]}]},
    "required_when": lambda value: {
        "rules": [
            {"id": "r", "kind": "required_when", "field": "/b", "when": {"field": "/a", "equals": value}}
        ]
    },
    "expectation": lambda value: {
        "schema": {**ANY, "properties": {"a": {"type": ["integer", "boolean"]}}, "required": ["a"]},
        "columns": [{"name": "a", "from": "/a", "type": "json"}],
        "expectations": [
            {
                "id": "e",
                "type": "expect_column_values_to_be_in_set",
                "kwargs": {"column": "a", "value_set": [value]},
            }
        ],
    },
}


@pytest.mark.parametrize(("old", "new"), [(1, True), (True, 1), (0, False), (False, 0)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_boolean_is_not_a_number(make_contract: Any, kind: str, old: Any, new: Any) -> None:
    """Python holds 1 and True for equal, so a contract with one looked like a contract with the other."""

    def version_with(value: Any, version: str) -> DataContract:
        parts = {"schema": ANY, **KINDS[kind](value)}
        return make_contract(*parts.pop("rules", ()), **parts, version=version)  # type: ignore[no-any-return] # a fixture

    base, candidate = version_with(old, "1.0.0"), version_with(new, "1.1.0")
    comparison = compare(base, candidate, level=Compatibility.FULL)
    assert not comparison.is_compatible, comparison
    assert base != candidate
    assert not compare(base, version_with(old, "1.1.0"), level=Compatibility.FULL).findings
