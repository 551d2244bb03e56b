"""Rules about every property of a name, at any depth: which values they see, and where they say that a record is wrong."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from tests import documents
from tests.marks import full
from tests.steps import steps_of
from tidegate.contracts.compatibility.compare import compare
from tidegate.contracts.compiled import check_compiles
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.errors import ContractError
from tidegate.contracts.explain.account import Explainer
from tidegate.contracts.inclusion.answer import Outcome
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.lint.lint import check_spelling
from tidegate.contracts.rules.places import places

NODE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "period": {"$ref": "#/$defs/Period"},
        "code": {"type": ["string", "null"]},
        "count": {"type": "integer"},
        "parts": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
        "by_name": {"type": "object", "additionalProperties": {"$ref": "#/$defs/Node"}},
    },
}
SCHEMA: dict[str, Any] = {
    "$defs": {
        "Period": {
            "type": "object",
            "properties": {
                "start": {"type": "string", "format": "date"},
                "end": {"type": "string", "format": "date"},
            },
        },
        "Node": NODE,
        "Unreached": {"properties": {"elsewhere": {"type": "string"}}},
    },
    **NODE,
}
"""A recursive schema, as that of FHIR."""


def contract_of(
    *rules: dict[str, Any], schema: Any = SCHEMA, kind: str = "json-schema", **changes: Any
) -> DataContract:
    document = {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": "clinic.encounters",
        "version": "1.0.0",
        "topic": "clinic.encounters",
        "schema": {"type": kind, "definition": schema},
        "columns": [],
        "rules": [{"id": f"rule-{index}"} | rule for index, rule in enumerate(rules)],
    }
    return DataContract.model_validate(document | changes)


def places_broken(plan: EnforcementPlan, value: bytes) -> list[str]:
    """Judge in every way, and give the places that are named."""
    verdict = plan.explain(value)
    strict = documents.strict(plan)
    assert strict.explain(value) == verdict
    for way in (plan, strict):
        (judged,) = way.judge(pa.array([value])).to_pylist()
        (typed,) = way.judge_typed(pa.array([value])).to_pylist()
        assert judged["disposition"] == typed["disposition"] == verdict.disposition
    return [violation.pointer for violation in verdict.violations]


IN_ORDER = {"kind": "ordered", "fields": ["/**/period/start", "/**/period/end"]}
WRONG = {"start": "2024-01-02", "end": "2024-01-01"}
RIGHT = {"start": "2024-01-01", "end": "2024-01-02"}


@pytest.mark.parametrize(
    ("rule", "record", "expected"),
    [
        (IN_ORDER, {"period": WRONG}, ["/period/end"]),
        (IN_ORDER, {"period": RIGHT, "parts": [{}, {"parts": [{"period": WRONG}]}]}, ["/parts/1/parts/0/period/end"]),
        (IN_ORDER, {"parts": [{"period": {"start": "2024-01-09"}}, {"period": {"end": "2024-01-01"}}]}, []),
        (IN_ORDER, {"x": 1}, []),
        ({"kind": "ordered", "fields": ["/**/start", "/**/end"]}, {"parts": [{"period": WRONG}]}, ["/parts/0/period/end"]),
        ({"kind": "range", "field": "/**/count", "minimum": 0}, {"count": -1, "parts": [{"count": 1}, {"count": -2}]}, ["/count", "/parts/1/count"]),
        ({"kind": "range", "field": "/**/period/start", "after": "2024-01-01"}, {"by_name": {"code": {"period": RIGHT}}}, ["/by_name/code/period/start"]),
        # The name of an undeclared property is data of the record, and no part of a message.
        ({"kind": "range", "field": "/**/count", "minimum": 0}, {"by_name": {"J. Doe": {"count": -1}}}, ["/by_name/*/count"]),
        ({"kind": "forbidden", "field": "/**/code", "values": ["x"]}, {"extra": [[{"code": "x"}]]}, ["/*/0/0/code"]),
        ({"kind": "forbidden", "field": "/**/parts/*/code", "values": ["x"]}, {"code": "x", "parts": [{"parts": [{"code": "y"}, {"code": "x"}]}]}, ["/parts/0/parts/1/code"]),
        ({"kind": "matches", "field": "/**/code", "pattern": "^a"}, {"parts": [{"code": "b"}, {"code": None}, {"code": "a"}]}, ["/parts/0/code"]),
        ({"kind": "one_of", "field": "/**/code", "values": ["a"], "nulls": "violate"}, {"parts": [{"code": None}, {}]}, ["/parts/0/code"]),
        ({"kind": "one_of", "field": "/**/period/start", "values": ["2024-01-01"], "nulls": "violate"}, {"parts": [{"period": {}}]}, ["/parts/0/period/start"]),
        (
            {"kind": "required_when", "field": "/**/end", "when": {"field": "/**/start", "present": True}},
            {"period": {"start": "2024-01-01"}, "parts": [{"period": {"end": "2024-01-01"}}]},
            ["/period/end"],
        ),
        ({"kind": "cel", "field": "/**/count", "expr": "value < 5 || has(parent.code)"}, {"count": 7, "parts": [{"count": 7, "code": "x"}]}, ["/count"]),
        ({"kind": "freshness", "field": "/**/end", "max_age": "P1D"}, {"parts": [{"period": {"end": "2001-01-01"}}]}, ["/parts/0/period/end"]),
    ],
)  # fmt: skip
def test_each_place_is_judged_and_named(rule: dict[str, Any], record: Any, expected: list[str]) -> None:
    assert places_broken(compile_plan(contract_of(rule)), json.dumps(record).encode()) == expected


def test_ten_places_of_a_record_are_named() -> None:
    plan = compile_plan(contract_of({"kind": "range", "field": "/**/count", "minimum": 0}))
    record = {"parts": [{"count": -1}] * 30}
    assert places_broken(plan, json.dumps(record).encode()) == [f"/parts/{at}/count" for at in range(10)]


def test_values_of_another_type_break_no_rule() -> None:
    rules: list[dict[str, Any]] = [
        IN_ORDER,
        {"kind": "range", "field": "/**/count", "minimum": 0},
        {"kind": "matches", "field": "/**/code", "pattern": "^a"},
    ]
    plan = compile_plan(contract_of(*rules, schema={**SCHEMA, "additionalProperties": True}))
    record = {"x": {"period": {"start": 5, "end": []}, "count": "x", "code": {}}, "y": {"period": 1}}
    assert places_broken(plan, json.dumps(record).encode()) == []


def test_avro_records_of_a_recursive_schema_are_judged() -> None:
    schema = {
        "type": "record",
        "name": "Node",
        "fields": [
            {"name": "count", "type": "long"},
            {"name": "parts", "type": {"type": "array", "items": "Node"}},
            {"name": "by_name", "type": {"type": "map", "values": ["null", "Node"]}},
        ],
    }
    plan = compile_plan(
        contract_of({"kind": "range", "field": "/**/count", "minimum": 0}, schema=schema, kind="avro")
    )

    def node(count: int, *parts: Any, **by_name: Any) -> dict[str, Any]:
        return {"count": count, "parts": list(parts), "by_name": by_name}

    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, node(1, node(-1), node(2, x=node(-3))))
    assert places_broken(plan, out.getvalue()) == ["/parts/0/count", "/parts/1/by_name/*/count"]
    with pytest.raises(ContractError, match="the schema declares no field `/\\*\\*/cont`; did you mean"):
        compile_plan(
            contract_of({"kind": "range", "field": "/**/cont", "minimum": 0}, schema=schema, kind="avro")
        )


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"kind": "range", "field": "/**/cuont", "minimum": 0}, "declares no field `/**/cuont`; did you mean `/**/count`?"),
        ({"kind": "range", "field": "/**/period/strat", "after": "2024-01-01"}, "did you mean `/**/period/start`?"),
        ({"kind": "forbidden", "field": "/**/elsewhere", "values": ["x"]}, "declares no field `/**/elsewhere`"),
        ({"kind": "range", "field": "/parts/**/count", "minimum": 0}, "in `/parts/**/count` `**` is out of place"),
        ({"kind": "range", "field": "/**", "minimum": 0}, "in `/**` `**` is out of place"),
        ({"kind": "range", "field": "/**/*", "minimum": 0}, "in `/**/*` `**` is out of place"),
        ({"kind": "range", "field": "/**/a/**/b", "minimum": 0}, "in `/**/a/**/b` `**` is out of place"),
        ({"kind": "range", "field": "/**/code", "minimum": 0}, "the field never holds"),
        ({"kind": "cel", "field": "/**/nothing", "expr": "value > 1"}, "declares no field `/**/nothing`"),
        ({"kind": "ordered", "fields": ["/period/start", "/**/period/end"]}, "`/**/period/end` and `/period/start` go through different"),
    ],
)  # fmt: skip
def test_what_means_no_field_is_refused(rule: dict[str, Any], message: str) -> None:
    with pytest.raises(ContractError) as refused:
        compile_plan(contract_of(rule))
    assert any(message in problem.message for problem in refused.value.problems), refused.value.problems


@pytest.mark.parametrize(
    ("changes", "place", "message"),
    [
        ({"classification": {"/**/code": "pii"}}, "/classification/~1**~1code", "`**` is for fields of rules only"),
        ({"mask": {"/**/code": "redact"}}, "/mask/~1**~1code", "`**` is for fields of rules only"),
        ({"columns": [{"name": "code", "from": "/**/code", "type": "string"}]}, "/columns/0/from", "`**` stands for many"),
    ],
)  # fmt: skip
def test_other_parts_of_a_contract_name_each_place(changes: Any, place: str, message: str) -> None:
    with pytest.raises(ContractError) as refused:
        check_compiles(contract_of(**changes))
    (problem,) = refused.value.problems
    assert problem.pointer == place
    assert message in problem.message


def test_lint_finds_undeclared_members_in_the_expression_of_a_field() -> None:
    rule = {"kind": "cel", "field": "/**/period", "expr": "has(value.strat) || parent.x == 1"}
    spelling = check_spelling(contract_of(rule))
    assert [problem.message.partition(";")[0] for problem in spelling.warnings] == [
        "the schema declares no field `/**/period/strat`"
    ]


def test_an_account_shows_the_values_of_the_place() -> None:
    plan = compile_plan(contract_of(IN_ORDER, {"kind": "range", "field": "/**/count", "minimum": 0}))
    record = {"parts": [{"period": WRONG}], "by_name": {"J. Doe": {"count": -1}}}
    value = json.dumps(record).encode()
    first, second = (
        each.sentence for each in Explainer.of(plan).explain(value, plan.explain(value).violations)
    )
    assert "parts/0/period/end" in first
    assert "2024-01-01" in first
    assert "J. Doe" not in second


def test_what_an_account_hides_stays_hidden_at_any_depth() -> None:
    rule = {"kind": "forbidden", "field": "/**/code", "values": ["secret"]}
    plan = compile_plan(contract_of(rule, classification={"/parts/*/code": "pii"}))
    record = {"parts": [{"code": "secret"}], "code": "secret"}
    value = json.dumps(record).encode()
    accounts = Explainer.of(plan).explain(value, plan.explain(value).violations)
    hidden = {each.violation.pointer: each.is_guarded for each in accounts}
    assert hidden == {"/code": False, "/parts/0/code": True}


BOUND = {"kind": "range", "field": "/**/count", "maximum": 10}


@pytest.mark.parametrize(
    ("old", "new", "outcomes"),
    [
        ([BOUND], [BOUND], set()),
        ([BOUND], [BOUND | {"maximum": 5}], {Outcome.UNDETERMINED, Outcome.REFUTED}),
        ([BOUND], [BOUND | {"maximum": 20}], {Outcome.UNDETERMINED, Outcome.REFUTED}),
        ([], [BOUND], {Outcome.UNDETERMINED, Outcome.REFUTED}),
        ([BOUND | {"field": "/count"}], [BOUND], {Outcome.UNDETERMINED, Outcome.REFUTED}),
        ([BOUND], [BOUND | {"field": "/count"}], {Outcome.UNDETERMINED, Outcome.REFUTED}),
    ],
)
def test_no_change_of_what_is_refused_is_taken_as_compatible(
    old: Any, new: Any, outcomes: set[Outcome]
) -> None:
    comparison = compare(contract_of(*old), contract_of(*new, version="1.1.0"))
    found = {each.outcome for each in comparison.findings if each.code.startswith("rule.")}
    assert bool(found) == bool(outcomes)
    assert found <= outcomes


def test_the_same_rule_over_another_type_of_field_is_not_the_same() -> None:
    other = json.loads(json.dumps(SCHEMA))
    other["properties"]["count"] = {"type": ["integer", "string"]}
    other["$defs"]["Node"]["properties"]["count"] = {"type": ["integer", "string"]}
    comparison = compare(contract_of(BOUND), contract_of(BOUND, schema=other, version="1.1.0"))
    assert not comparison.is_compatible


def _deep(size: int) -> Any:
    record: Any = {"count": 1}
    for _ in range(size):
        record = {"count": 1, "parts": [record]}
    return record


@pytest.mark.parametrize(
    "make",
    [
        _deep,
        lambda size: {f"p{index}": {"count": 1} for index in range(size)},
        lambda size: {f"p{index}": index for index in range(10 * size)},
        lambda size: {"parts": [{"count": 1}] * size},
    ],
    ids=["deep", "wide", "many members", "many elements"],
)
def test_the_steps_are_linear_in_the_record(make: Any) -> None:
    paths = [("**", "count"), ("**", "parts", "*", "count")]

    def walk(size: int) -> int:
        record = make(size)
        return steps_of(
            lambda: sum(1 for _ in places(record, paths[:1])) + sum(1 for _ in places(record, paths[1:]))
        )

    small, large = walk(500), walk(2_000)
    assert large <= 4.5 * small


@pytest.mark.parametrize("size", [2_000, *full(1_000_000)])
def test_a_record_of_many_levels_and_one_of_many_members_are_walked(size: int) -> None:
    levels = size // 20
    found = sum(1 for _ in places(_deep(levels), [("**", "count")]))
    assert found == levels + 1
    wide = {str(index): {"n": 1} for index in range(size)}
    assert sum(1 for _ in places(wide, [("**", "count")])) == 0
