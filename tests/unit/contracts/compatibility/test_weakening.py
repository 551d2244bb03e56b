"""What a proposed contract gives up of the enforced one: one row for each field of the contract model."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from pydantic import BaseModel

from tidegate.contracts.compatibility.weakening import weakenings
from tidegate.contracts.document.model import (
    AvroSchema,
    Column,
    DataContract,
    ErrorBudget,
    Expectation,
    JsonSchema,
    ReferenceSet,
    Retention,
    Team,
)
from tidegate.contracts.document.rule_model import Condition, Rule

Case = tuple[dict[str, Any], dict[str, Any], str]
"""Top-level parts of a contract, weaker ones, and the code of the weakening."""

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "age": {"type": "integer"},
        "beds": {"type": "integer"},
        "ward": {"type": "string"},
        "at": {"type": "string", "format": "date-time"},
        "until": {"type": "string", "format": "date-time"},
    },
    "additionalProperties": False,
}
BUDGET = {"ratio": 0.1, "min_records": 10, "window_records": 100, "action": "fail"}
MEAN = {
    "id": "mean-age",
    "type": "expect_column_mean_to_be_between",
    "kwargs": {"column": "age", "min_value": 10, "max_value": 60},
    "on_violation": "fail",
}
RULES: dict[str, dict[str, Any]] = {
    "forbidden": {"kind": "forbidden", "field": "/age", "values": [999, 888]},
    "range": {"kind": "range", "field": "/age", "minimum": 1, "maximum": 120},
    "exclusive": {"kind": "range", "field": "/age", "exclusive_minimum": 1, "exclusive_maximum": 120},
    "dates": {"kind": "range", "field": "/at", "not_before": "2020-01-01", "not_after": "2030-01-01"},
    "moments": {
        "kind": "range",
        "field": "/at",
        "after": "2020-01-01T00:00:00Z",
        "before": "now + 1 day",
    },
    "freshness": {"kind": "freshness", "field": "/at", "max_age": "1 day", "max_ahead": "5 minutes"},
    "ordered": {"kind": "ordered", "fields": ["/at", "/until"], "strict": True, "compare_as": "timestamp"},
    "matches": {"kind": "matches", "field": "/ward", "pattern": "^[a-z]+$"},
    "one_of": {"kind": "one_of", "field": "/ward", "values": ["icu", "surgery"]},
    "required_when": {
        "kind": "required_when",
        "field": "/beds",
        "when": {"field": "/ward", "one_of": ["icu", "surgery"]},
    },
    "cel": {"kind": "cel", "expr": "this.age >= 0 && this.age < 130", "strict": True},
    "cel-field": {"kind": "cel", "expr": "value >= 0", "field": "/age"},
}
SETS = {"wards": {"values": ["icu", "surgery"]}}


def rule(of: str, **changes: Any) -> dict[str, Any]:
    parts = {"id": "r", **RULES[of], **changes}
    return {"rules": [{name: value for name, value in parts.items() if value != "-"}]}


def changed(of: str, code: str = "rule.loosened", **changes: Any) -> Case:
    return rule(of), rule(of, **changes), code


def expects(**changes: Any) -> dict[str, Any]:
    return {"expectations": [{**MEAN, **changes}]}


def property_of(**changes: Any) -> dict[str, Any]:
    return {**SCHEMA, "properties": {**SCHEMA["properties"], **changes}}


COMMON: dict[str, list[Case]] = {
    "severity": [changed("range", "rule.consequence-lowered", severity="warning")],
    "on_violation": [
        changed("range", "rule.consequence-lowered", on_violation="drop"),
        changed("range", "rule.consequence-lowered", on_violation="alert"),
        (rule("range", on_violation="fail"), rule("range"), "rule.consequence-lowered"),
        (
            rule("range", on_violation="alert"),
            rule("range", severity="warning"),
            "rule.consequence-lowered",
        ),
        (rule("range", severity="warning"), {}, "rule.removed"),
        (rule("range", severity="warning"), rule("range", severity="warning", maximum=121), "rule.loosened"),
    ],
    "nulls": [(rule("range", nulls="violate"), rule("range"), "rule.loosened")],
    "field": [changed("range", field="/beds")],
}
ONLY_TEXT: dict[str, dict[str, Any]] = {"description": rule("range", description="Why.")}
OF_RULES: dict[str, dict[str, list[Case]]] = {
    "forbidden": {
        "values": [changed("forbidden", values=[999])],
        "set": [
            (
                rule("forbidden", values="-", set="wards", field="/ward") | {"reference_sets": SETS},
                rule("forbidden", values="-", set="wards", field="/ward")
                | {"reference_sets": {"wards": {"values": ["icu"]}}},
                "rule.loosened",
            )
        ],
    },
    "range": {
        "minimum": [changed("range", minimum=0), changed("range", minimum="-")],
        "maximum": [changed("range", maximum=121), changed("range", maximum="-")],
        "exclusive_minimum": [changed("exclusive", exclusive_minimum=0)],
        "exclusive_maximum": [changed("exclusive", exclusive_maximum=121)],
        "not_before": [changed("dates", not_before="2019-01-01")],
        "not_after": [changed("dates", not_after="2031-01-01")],
        "after": [changed("moments", after="2019-01-01T00:00:00Z")],
        "before": [changed("moments", before="now + 2 days")],
        "now": [changed("moments", now="batch")],
    },
    "freshness": {
        "max_age": [changed("freshness", max_age="2 days")],
        "max_ahead": [changed("freshness", max_ahead="6 minutes"), changed("freshness", max_ahead="-")],
        "now": [changed("freshness", now="batch")],
    },
    "ordered": {
        "fields": [changed("ordered", fields=["/until", "/at"])],
        "strict": [changed("ordered", strict=False)],
        "compare_as": [changed("ordered", compare_as="date", strict=False)],
    },
    "matches": {"pattern": [changed("matches", pattern="^[a-z0-9]+$")]},
    "one_of": {
        "values": [changed("one_of", values=["icu", "surgery", "maternity"])],
        "set": [
            (
                rule("one_of", values="-", set="wards") | {"reference_sets": SETS},
                rule("one_of", values="-", set="wards")
                | {"reference_sets": {"wards": {"values": ["icu", "surgery", "x"]}}},
                "rule.loosened",
            )
        ],
    },
    "required_when": {
        "when": [changed("required_when", when={"field": "/ward", "one_of": ["icu"]})],
    },
    "cel": {
        "expr": [changed("cel", expr="this.age >= 0"), changed("cel", expr="this.age >= -1 || true")],
        "field": [changed("cel-field", field="/beds")],
        "strict": [changed("cel", strict=False)],
    },
}
A, A_ZERO, B = (
    {"name": "a", "type": "int"},
    {"name": "a", "type": "int", "default": 0},
    {"name": "b", "type": "int"},
)
FRAMED = {"kind": "avro", "framing": "confluent-prefix"}


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields)}


def two_enums(one: dict[str, Any], other: dict[str, Any], space: str = "x") -> dict[str, Any]:
    """Return a record with two enums of the same name in two namespaces."""
    enum = {"type": "enum", "name": "E", "symbols": ["a", "b"]}
    fields = {
        "one": {**enum, "namespace": f"{space}.one"} | one,
        "other": {**enum, "namespace": "other"} | other,
    }
    return record(*({"name": name, "type": each} for name, each in fields.items()))


def symbols(*names: str, **more: Any) -> dict[str, Any]:
    return record({"name": "e", "type": {"type": "enum", "name": "E", "symbols": list(names), **more}})


CASES: dict[type[BaseModel], dict[str, list[Case]]] = {
    DataContract: {
        "id": [({}, {"id": "other"}, "contract.id-changed")],
        "topic": [({}, {"topic": "other"}, "contract.topic-changed")],
        "schema_": [
            ({}, {"schema": property_of(beds={})}, "schema.type-added"),
            ({}, {"schema": {**SCHEMA, "additionalProperties": True}}, ""),
            ({}, {"schema": {**SCHEMA, "properties": {}, "additionalProperties": True}}, ""),
            ({}, {"schema": property_of(extra={"type": "string"})}, ""),
        ],
        "framing": [({"framing": "none"}, {"framing": "auto"}, "contract.framing-widened")],
        "unframed_group": [
            ({}, {"unframed_group": "1"}, "contract.unframed-group-changed"),
            ({"unframed_group": "1"}, {"unframed_group": "2"}, "contract.unframed-group-changed"),
        ],
        "tombstones": [
            ({}, {"tombstones": "pass"}, "contract.tombstones-changed"),
            ({"tombstones": "pass"}, {"tombstones": "delete"}, "contract.tombstones-changed"),
        ],
        "columns": [
            (
                {"columns": [{"name": "age", "from": "/age", "type": "int"}]},
                {"columns": [{"name": "ward", "from": "/ward", "type": "string"}]},
                "column.removed",
            )
        ],
        "rules": [
            (rule("range"), {}, "rule.removed"),
            (
                rule("range"),
                {"rules": [{"id": "s", **RULES["range"], "severity": "warning"}]},
                "rule.removed",
            ),
            (rule("range", on_violation="fail"), {}, "rule.removed"),
            (rule("range"), {"schema": {"type": "object"}}, "rule.removed"),
            (rule("forbidden"), {"schema": True}, "rule.removed"),
            (
                rule("range", on_violation="fail", minimum="-"),
                {"schema": property_of(age={"type": "integer", "maximum": 120})},
                "rule.removed",
            ),
        ],
        "reference_sets": OF_RULES["one_of"]["set"],
        "expectations": [(expects(), {}, "expectation.removed")],
        "replay_approval": [
            ({}, {"replay_approval": "never"}, "contract.replay-approval-lowered"),
            ({"replay_approval": "always"}, {}, "contract.replay-approval-lowered"),
        ],
        "on_violation": [
            ({}, {"on_violation": "drop"}, "contract.on-violation-lowered"),
            ({"on_violation": "fail"}, {}, "contract.on-violation-lowered"),
        ],
        "error_budget": [({"error_budget": BUDGET}, {}, "contract.error-budget-raised")],
        "primary_key": [({"primary_key": ["age"]}, {}, "contract.primary-key-changed")],
        "classification": [
            ({"classification": {"/age": "pii"}}, {}, "contract.classification-lowered"),
            (
                {"classification": {"/age": "pii"}},
                {"classification": {"/age": "public"}},
                "contract.classification-lowered",
            ),
            (
                {"classification": {"/age": "pii"}},
                {"classification": {"/age": "internal"}},
                "contract.classification-lowered",
            ),
            (
                {"classification": {"/age": "pii"}, "mask": {"/age": "redact"}},
                {"mask": {"/age": "redact"}},
                "contract.classification-lowered",
            ),
            (
                {"schema": property_of(age={"type": "integer", "confluent:tags": ["PII"]})},
                {},
                "contract.classification-lowered",
            ),
        ],
        "mask": [
            ({"mask": {"/age": "drop"}}, {"mask": {"/age": "redact"}}, "contract.mask-lowered"),
            ({"mask": {"/age": "redact"}}, {"mask": {"/age": "hash"}}, "contract.mask-lowered"),
            ({"mask": {"/age": "hash"}}, {}, "contract.mask-lowered"),
        ],
        "key_mask": [
            ({"key_mask": "redact"}, {"key_mask": "hash"}, "contract.mask-lowered"),
            ({"key_mask": "hash"}, {}, "contract.mask-lowered"),
        ],
        "producer_headers": [
            (
                {"producer_headers": [{"name": "app"}]},
                {"producer_headers": [{"name": "app", "public": True}]},
                "contract.producer-header-public",
            ),
            (
                {},
                {"producer_headers": [{"name": "app", "public": True}]},
                "contract.producer-header-public",
            ),
        ],
        "compatibility": [({}, {"compatibility": "NONE"}, "contract.compatibility-lowered")],
        "undeclared": [({}, {"undeclared": "ignore"}, "contract.undeclared-ignored")],
    },
    JsonSchema: {
        "type": [({}, {"kind": "avro", "schema": {"type": "record", "name": "R", "fields": []}}, "")],
        "definition": [({}, {"schema": True}, "")],
        "formats": [({}, {"formats": "annotate"}, "schema.format-added")],
    },
    AvroSchema: {
        "type": [({"kind": "avro", "schema": {"type": "record", "name": "R", "fields": []}}, {}, "")],
        "definition": [
            (
                {"kind": "avro", "schema": {"type": "enum", "name": "E", "symbols": ["a"]}},
                {"kind": "avro", "schema": {"type": "enum", "name": "E", "symbols": ["a", "b"]}},
                "",
            ),
            *(
                (
                    {"kind": "avro", "schema": record(A_ZERO, B), "framing": framing},
                    {"kind": "avro", "schema": record(B), "framing": framing},
                    "avro.field-without-default",
                )
                for framing in ("none", "confluent-prefix")
            ),
            (
                FRAMED | {"schema": record({**A, "aliases": ["x"]}, B)},
                FRAMED | {"schema": record({**A, "name": "x"}, B)},
                "avro.field-without-default",
            ),
            (
                FRAMED | {"schema": record(A, B)},
                FRAMED | {"schema": record(A_ZERO, B)},
                "avro.reader-fills-in",
            ),
            (
                FRAMED | {"schema": record(A, B)},
                FRAMED | {"schema": record({**A, "aliases": ["x"]}, B)},
                "avro.reader-fills-in",
            ),
            (
                FRAMED | {"schema": symbols("a", "b")},
                FRAMED | {"schema": symbols("a", "b", default="a")},
                "avro.reader-fills-in",
            ),
            (
                FRAMED | {"schema": two_enums({"default": "a"}, {})},
                FRAMED | {"schema": two_enums({"default": "a"}, {"default": "a"})},
                "avro.reader-fills-in",
            ),
            (
                FRAMED | {"schema": two_enums({}, {}, space="old")},
                FRAMED | {"schema": two_enums({"default": "a"}, {}, space="new")},
                "avro.reader-fills-in",
            ),
            (
                FRAMED | {"schema": symbols("a", default="a")},
                FRAMED | {"schema": symbols("a", "b", default="a")},
                "",
            ),
        ],
    },
    Column: {
        "name": [
            (
                {"columns": [{"name": "age", "from": "/age", "type": "int"}]},
                {"columns": [{"name": "years", "from": "/age", "type": "long"}]},
                "column.removed",
            )
        ],
        "from_": [
            (
                {"columns": [{"name": "age", "from": "/age", "type": "int"}]},
                {"columns": [{"name": "age", "from": "/beds", "type": "int"}]},
                "column.source-changed",
            )
        ],
        "type": [
            (
                {"columns": [{"name": "age", "from": "/age", "type": "int"}]},
                {"columns": [{"name": "age", "from": "/age", "type": "long"}]},
                "column.type-changed",
            )
        ],
    },
    ReferenceSet: {"values": OF_RULES["one_of"]["set"]},
    Expectation: {
        "id": [(expects(), expects(id="other", type="expect_column_max_to_be_between"), "")],
        "type": [(expects(), expects(type="expect_column_median_to_be_between"), "expectation.changed")],
        "kwargs": [
            (
                expects(),
                expects(kwargs={"column": "age", "min_value": 9, "max_value": 60}),
                "expectation.loosened",
            ),
            (
                expects(severity="warning"),
                expects(severity="warning", kwargs={"column": "age", "min_value": 9, "max_value": 60}),
                "expectation.loosened",
            ),
        ],
        "severity": [(expects(), expects(severity="warning"), "expectation.consequence-lowered")],
        "on_violation": [
            (expects(), expects(on_violation="quarantine"), "expectation.consequence-lowered"),
            (expects(), expects(on_violation=None), "expectation.consequence-lowered"),
        ],
        "min_records": [(expects(), expects(min_records=2), "expectation.loosened")],
    },
    ErrorBudget: {
        name: [
            (
                {"error_budget": BUDGET},
                {"error_budget": {**BUDGET, name: value}},
                "contract.error-budget-raised",
            )
        ]
        for name, value in (
            ("ratio", 0.2),
            ("min_records", 11),
            ("window_records", 1000),
            ("action", "pause"),
        )
    },
    Condition: {
        "field": [changed("required_when", when={"field": "/age", "one_of": [1]})],
        "equals": [changed("required_when", when={"field": "/ward", "equals": "icu"})],
        "one_of": [changed("required_when", when={"field": "/ward", "one_of": ["icu"]})],
        "not_equals": [
            (
                rule("required_when", when={"field": "/ward", "not_equals": "icu"}),
                rule("required_when", when={"field": "/ward", "not_equals": "surgery"}),
                "rule.loosened",
            )
        ],
        "present": [
            (
                rule("required_when", when={"field": "/ward", "present": True}),
                rule("required_when"),
                "rule.loosened",
            )
        ],
    },
}
TEXT: dict[type[BaseModel], set[str]] = {
    DataContract: {
        "api_version",  # one value
        "kind",  # one value
        "version",
        "status",  # the caller knows which version is enforced
        "description",
        "domain",
        "retention",  # how long refused records are kept changes no verdict
        "team",
        "compatibility_group",  # the registry compares a version with its own group
        "consumers",  # who reads is asked by acknowledgements
    },
    Team: {"name", "contact"},
    JsonSchema: {"file"},  # a self-contained document has none
    AvroSchema: {"file"},
    ReferenceSet: {"description", "file"},
    Expectation: {"description"},
    Retention: {"quarantine_days", "accepted_days"},
}
"""Fields that change nothing about what passes."""
KINDS = {kind.model_fields["kind"].annotation.__args__[0]: kind for kind in get_args(get_args(Rule)[0])}
ALL = [
    *(case for fields in CASES.values() for cases in fields.values() for case in cases),
    *(case for fields in OF_RULES.values() for cases in fields.values() for case in cases),
    *(case for cases in COMMON.values() for case in cases),
]


def contract(make_contract: Any, parts: dict[str, Any]) -> DataContract:
    parts = {"schema": SCHEMA, **parts}
    return make_contract(*parts.pop("rules", ()), **parts)  # type: ignore[no-any-return] # a fixture


@pytest.mark.parametrize("case", ALL, ids=lambda case: f"{case[2]}-{str(case[1])[:60]}")
def test_what_a_change_gives_up(make_contract: Any, case: Case) -> None:
    before, after = (contract(make_contract, parts) for parts in case[:2])
    found = weakenings(before, after)
    assert found, "the change passes without an approver"
    if case[2]:
        assert case[2] in {each.code for each in found}
    assert all(each.sentence for each in found)


@pytest.mark.parametrize("model", CASES, ids=lambda model: model.__name__)
def test_every_field_of_the_model_has_a_row(model: type[BaseModel]) -> None:
    assert set(CASES[model]) | TEXT.get(model, set()) == set(model.model_fields)


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_every_kind_of_rule_has_a_row(kind: str) -> None:
    of_all_rules = set(COMMON) | set(ONLY_TEXT) | {"id", "kind"}
    own = set(KINDS[kind].model_fields) - of_all_rules
    assert own == set(OF_RULES[kind]) - {"field"}
