"""Whole contracts: what a comparison says, random records never contradict, whatever changed at once."""

from __future__ import annotations

import copy
import json
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.marks import examples
from tidegate.contracts.compatibility.compare import compare
from tidegate.contracts.compatibility.finding import Comparison, Direction, FindingSeverity
from tidegate.contracts.document.model import Compatibility, DataContract
from tidegate.contracts.errors import ContractError
from tidegate.contracts.inclusion.answer import Outcome
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.verdict import Disposition, Stage

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "number"}},
    "required": ["a"],
    "additionalProperties": False,
}
CONSUMERS = [{"id": "one", "reads": ["/a"]}, {"id": "two", "reads": ["/b", "/c"]}, {"id": "three"}]

number = st.integers(0, 3)
properties = st.one_of(
    st.tuples(st.sampled_from(["minimum", "maximum"]), number).map(
        lambda pair: {"type": "integer", pair[0]: pair[1]}
    ),
    st.lists(number, min_size=1, max_size=3, unique=True).map(lambda values: {"enum": values}),
    st.sampled_from(
        [{"type": "integer"}, {"type": "number"}, {"type": ["integer", "null"]}, {"type": "string"}]
    ),
    st.sampled_from([{"type": "string", "minLength": 1}, {"type": "string", "pattern": "^x"}]),
)
rules = st.one_of(
    st.lists(number, min_size=1, max_size=2).map(
        lambda values: {"kind": "forbidden", "field": "/a", "values": values}
    ),
    number.map(lambda limit: {"kind": "range", "field": "/a", "maximum": limit}),
    number.map(lambda limit: {"kind": "cel", "expr": f"this.a < {limit}"}),
    st.just({"kind": "required_when", "field": "/b", "when": {"field": "/a", "equals": 1}}),
)
schema_changes = st.one_of(
    st.tuples(st.sampled_from("abc"), properties).map(lambda pair: {"properties": {pair[0]: pair[1]}}),
    st.lists(st.sampled_from("abc"), unique=True).map(lambda names: {"required": names}),
    st.booleans().map(lambda value: {"additionalProperties": value}),
    st.just({"properties": {"d": {"type": "boolean"}}}),
)
others = st.one_of(
    st.just({}),
    st.sampled_from(
        [{"topic": "x"}, {"tombstones": "pass"}, {"on_violation": "drop"}, {"on_violation": "alert"}]
    ),
    st.sampled_from(
        [{"primary_key": ["a"]}, {"framing": "auto"}, {"compatibility": "NONE"}, {"description": "d"}]
    ),
)
columns = st.sampled_from(
    [
        [],
        [("a", "json")],
        [("a", "json"), ("b", "string")],
        [("a", "json"), ("c", "double")],
        [("a", "json"), ("c", "int")],
        [("a", "json"), ("c", "double"), ("d", "boolean")],
        [("a", "long"), ("b", "json")],
        [("a", "int"), ("b", "string")],
        [("a", "json"), ("a", "int"), ("c", "decimal(3,1)")],
    ]
)
masks = st.sampled_from([{}, {}, {}, {"/c": "redact"}, {"/b": "drop"}])
typed_records = st.fixed_dictionaries(
    {"a": st.one_of(number, st.sampled_from([2**31, 2**63]))},
    optional={
        "b": st.sampled_from(["", "x"]),
        "c": st.one_of(number, st.sampled_from([0.5, 1.25, 2**31, 10**400])),
    },
)
FAR = [2**31, -(2**63), 2**63, 10**400, 0.25]
values = st.one_of(number, st.sampled_from([0.5, -1, "", "x", "xy", None, True, *FAR]))
records = st.dictionaries(st.sampled_from("abcd"), values, max_size=4)


@st.composite
def contracts(draw: st.DrawFn, count: int = 2) -> list[DataContract]:
    """Contracts that differ in a few places."""
    made = []
    schema, parts = copy.deepcopy(SCHEMA), draw(st.lists(rules, max_size=2))
    for _ in range(count):
        made.append(contract_of(copy.deepcopy(schema), list(parts), **draw(others)))
        for change in draw(st.lists(schema_changes, max_size=2)):
            schema = {
                **schema,
                **change,
                "properties": {**schema["properties"], **change.get("properties", {})},
            }
        if draw(st.booleans()):
            parts = draw(st.lists(st.one_of(rules, *(st.just(each) for each in parts)), max_size=2))
    return made


def contract_of(schema: Any, parts: list[dict[str, Any]], **more: Any) -> DataContract:
    return DataContract.model_validate(
        {
            "apiVersion": "tidegate/v1",
            "kind": "DataContract",
            "id": "a.b",
            "version": "1.0.0",
            "topic": "a.b",
            "schema": {"type": "json-schema", "definition": schema},
            "columns": [{"name": "a", "from": "/a", "type": "json"}],
            "rules": [{"id": f"r{index}"} | rule for index, rule in enumerate(parts)],
            "consumers": CONSUMERS,
            **more,
        }
    )


@st.composite
def with_columns(draw: st.DrawFn) -> list[DataContract]:
    """Return contracts that also differ in their columns, declared or derived, and in their masks."""
    made = draw(st.one_of(contracts(), derived(), contracts(count=1).map(lambda one: one * 2)))
    changed = []
    named, mask = draw(columns), draw(masks)
    for each in made:
        document = each.model_dump(by_alias=True, exclude_unset=True)
        document["mask"] = mask
        if each.columns:
            document["columns"] = [
                {"name": f"{name}_{kind[:3]}", "from": f"/{name}", "type": kind} for name, kind in named
            ]
        changed.append(DataContract.model_validate(document))
        named, mask = draw(st.one_of(st.just(named), columns)), draw(st.one_of(st.just(mask), masks))
    return changed


@st.composite
def derived(draw: st.DrawFn) -> list[DataContract]:
    """Return contracts with derived columns, of which the second may declare properties that the first allowed."""
    others = draw(st.sampled_from([{"type": "integer"}, {"type": "number"}, {"type": "string"}]))
    schema = {"type": "object", "additionalProperties": others}
    return [
        contract_of({**schema, "properties": dict.fromkeys(names, others)}, [], columns=[])
        for names in draw(st.sampled_from([("", "a"), ("a", "ab"), ("a", "c"), ("ac", "ac")]))
    ]


def compiled(*made: DataContract) -> list[EnforcementPlan] | None:
    """Compile each for payloads without a frame; None when one is no contract: a rule about strings that are numbers."""
    try:
        return [compile_plan(each.model_copy(update={"framing": "none"})) for each in made]
    except ContractError:
        return None


def written(plan: EnforcementPlan, texts: list[bytes]) -> list[bool]:
    verdicts = plan.judge(pa.array(texts, pa.binary()))
    return [Disposition(code).is_written for code in verdicts.field("disposition").to_pylist()]


def written_typed(plan: EnforcementPlan, texts: list[bytes]) -> list[bool]:
    """Return whether the job writes each record; it refuses those with a value that a column cannot hold."""
    verdicts = plan.judge_typed(pa.array(texts, pa.binary()))
    return [Disposition(code).is_written for code in verdicts.field("disposition").to_pylist()]


def breaking(comparison: Comparison) -> set[tuple[str, str, str, str]]:
    return {
        (each.code, each.pointer, each.base_pointer, each.field)
        for each in comparison.findings
        if each.severity is FindingSeverity.BREAKING
    }


@settings(max_examples=examples(80), deadline=None)
@given(contracts(), st.lists(records, min_size=20, max_size=40))
def test_no_record_contradicts_a_comparison_without_breaking_findings(
    made: list[DataContract], batch: list[dict[str, Any]]
) -> None:
    plans = compiled(*made)
    if plans is None:
        return
    texts = [json.dumps(record).encode() for record in batch]
    before, after = (written(plan, texts) for plan in plans)
    for level, old, new in ((Compatibility.BACKWARD, before, after), (Compatibility.FORWARD, after, before)):
        if compare(*made, level=level).is_compatible:
            lost = [record for record, was, is_ in zip(batch, old, new, strict=True) if was and not is_]
            assert lost == []


@settings(max_examples=examples(120), deadline=None)
@given(with_columns(), st.lists(st.one_of(typed_records, records), min_size=20, max_size=40))
def test_the_job_writes_every_earlier_record_after_a_comparison_without_breaking_findings(
    made: list[DataContract], batch: list[dict[str, Any]]
) -> None:
    plans = compiled(*made)
    if plans is None or not compare(*made, level=Compatibility.BACKWARD).is_compatible:
        return
    texts = [json.dumps(record).encode() for record in batch]
    before, after = (written_typed(plan, texts) for plan in plans)
    assert [record for record, was, is_ in zip(batch, before, after, strict=True) if was and not is_] == []


@settings(max_examples=examples(60), deadline=None)
@given(with_columns())
def test_every_record_that_a_column_refuses_is_judged_so_by_both_plans(made: list[DataContract]) -> None:
    plans = compiled(*made)
    if plans is None:
        return
    for finding in compare(*made, level=Compatibility.BACKWARD).findings:
        if finding.code.startswith("column.") and finding.counterexample is not None:
            value = finding.counterexample.text.encode()
            assert [written_typed(plan, [value]) for plan in plans] == [[True], [False]]


@settings(max_examples=examples(60), deadline=None)
@given(contracts())
def test_full_is_backward_and_forward_exactly(made: list[DataContract]) -> None:
    if compiled(*made) is None:
        return
    full, backward, forward, none = (
        compare(*made, level=level)
        for level in (Compatibility.FULL, Compatibility.BACKWARD, Compatibility.FORWARD, Compatibility.NONE)
    )
    assert breaking(full) == breaking(backward) | breaking(forward)
    assert breaking(none) == set()
    assert full.is_compatible == (backward.is_compatible and forward.is_compatible)
    for comparison in (full, backward, forward, none):
        assert set(comparison.affected) | set(comparison.unaffected) == {"one", "two", "three"}
        assert not set(comparison.affected) & set(comparison.unaffected)
        assert (comparison.suggested_version == "2.0.0") == (not comparison.is_compatible)
    assert full == compare(*made, level=Compatibility.FULL)


@settings(max_examples=examples(60), deadline=None)
@given(contracts())
def test_every_counterexample_is_judged_so_by_both_plans(made: list[DataContract]) -> None:
    plans = compiled(*made)
    if plans is None:
        return
    for finding in compare(*made, level=Compatibility.FULL).findings:
        if finding.counterexample is None:
            assert finding.outcome is not Outcome.REFUTED or finding.code.startswith(("contract.", "column."))
            continue
        old, new = plans if finding.direction is Direction.BACKWARD else plans[::-1]
        value = finding.counterexample.text.encode()
        if finding.code.startswith("schema."):
            stages = [{each.stage for each in plan.explain(value).violations} for plan in (old, new)]
            assert Stage.SCHEMA not in stages[0]
            assert Stage.SCHEMA in stages[1]
        else:
            assert [written(plan, [value]) for plan in (old, new)] == [[True], [False]]


@settings(max_examples=examples(80), deadline=None)
@given(contracts(count=1))
def test_an_identical_contract_gives_no_finding(made: list[DataContract]) -> None:
    again = DataContract.model_validate(made[0].model_dump(by_alias=True, exclude_unset=True))
    for level in Compatibility:
        assert compare(made[0], again, level=level).findings == ()
