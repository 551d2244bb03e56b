"""Records that would take the judge exponential time: steps are counted, and a clock only kills the process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from tests.deep_schemas import KINDS, SHAPES, chained, contract_with, nested, recursive
from tests.steps import steps_of
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.explain.account import Explainer
from tidegate.contracts.formats.json_schema import UNDECIDED, UNLISTED
from tidegate.contracts.formats.json_steps import CALM, MAX_LISTED, MAX_STEPS, StepCounter
from tidegate.contracts.formats.json_work import check_work
from tidegate.contracts.judge.plan import EnforcementPlan, compile_plan
from tidegate.contracts.rules.cel import MAX_ITERATIONS
from tidegate.contracts.verdict import Disposition

ROOT = Path(__file__).parents[4]


def counter(schema: dict[str, Any], *, is_once: bool) -> StepCounter:
    graph = check_work(schema)
    assert graph is not None
    return StepCounter(graph, is_once=is_once, limit=MAX_STEPS if is_once else MAX_LISTED)


def said(plan: EnforcementPlan, value: bytes) -> str:
    """Judge and explain a record, check that both agree, and return what they say."""
    (judged,) = plan.judge(pa.array([value], pa.binary())).to_pylist()
    verdict = plan.explain(value)
    assert judged["disposition"] == verdict.disposition
    told = Explainer.of(plan).explain(value, verdict.violations)
    assert len(told) == len(verdict.violations)
    return verdict.violations[0].code if verdict.violations else "accepted"


_CHILD = """
import json, sys
from tests.deep_schemas import KINDS, SHAPES, contract_with, nested
from tests.unit.contracts.judge.test_work_of_records import said
from tidegate.contracts.judge.plan import compile_plan
found = {}
for shape, make in SHAPES.items():
    for kind in KINDS:
        plan = compile_plan(contract_with(make(kind)))
        for leaf in ("{}", "1"):
            print(shape, kind, leaf, file=sys.stderr, flush=True)
            found[f"{shape} {kind} {leaf}"] = said(plan, nested(40, leaf))
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def codes() -> dict[str, str]:
    """Judge and explain records of forty levels by schemas of every kind, in a process that can be killed."""
    child = subprocess.run(
        [sys.executable, "-c", _CHILD], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert child.returncode == 0, child.stderr
    found: dict[str, str] = json.loads(child.stdout)
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_no_record_of_forty_levels_hangs_the_judge(codes: dict[str, str], shape: str, kind: str) -> None:
    wrong, right = codes[f"{shape} {kind} 1"], codes[f"{shape} {kind} {{}}"]
    if shape == "chained":
        assert {wrong, right} == {UNDECIDED.code}
    else:
        assert wrong == UNLISTED.code
        assert right == (UNLISTED.code if kind == "oneOf" else "accepted")


@pytest.mark.parametrize("kind", KINDS)
def test_records_within_the_budget_get_the_verdicts_of_the_schema(kind: str) -> None:
    for make in (recursive, chained):
        plan = compile_plan(contract_with(make(kind)))
        for depth in (1, 3, 5):
            assert said(plan, nested(depth, "{}")) in {"accepted", "oneOf"}
            assert not said(plan, nested(depth, "1")).startswith("json.")


def test_a_batch_continues_after_a_record_beyond_the_budget() -> None:
    plan = compile_plan(contract_with(chained("allOf")))
    values = pa.array([b"{}", nested(40, "1"), b"{}"], pa.binary())
    for judged in (plan.judge(values), plan.judge_typed(values)):
        found = [Disposition(each["disposition"]) for each in judged.to_pylist()]
        assert found == [Disposition.ACCEPTED, Disposition.QUARANTINED, Disposition.ACCEPTED]
    explained = plan.explain_each(values, failed=plan.judge(values).field("failed"))
    assert [each.violations for each in explained] == [(), (UNDECIDED,), ()]


ORDINARY: dict[str, dict[str, Any]] = {
    "a tree": {
        "$ref": "#/$defs/n",
        "$defs": {"n": {"properties": {name: {"$ref": "#/$defs/n"} for name in ("left", "right")}}},
    },
    "a list": {"properties": {"next": {"$ref": "#"}}},
    "a tree of lists": {"properties": {"children": {"items": {"$ref": "#"}}}, "additionalProperties": False},
    "closed objects": {
        "allOf": [{"properties": {"a": {"$ref": "#/$defs/n"}}}],
        "unevaluatedProperties": False,
        "$defs": {"n": {"properties": {"b": {"type": "string"}}, "unevaluatedProperties": False}},
    },
    "many alternatives": {"properties": {"a": {"anyOf": [{"const": index} for index in range(900)]}}},
    "many members": {"properties": {f"p{index}": {"type": "string"} for index in range(5_000)}},
    "a map and members": {
        "properties": {"a": {"$ref": "#"}},
        "additionalProperties": {"$ref": "#"},
    },
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_schemas_cost_nothing_for_a_record(name: str) -> None:
    """No record is counted at all: the validator itself is asked, as before."""
    assert counter(ORDINARY[name], is_once=True).is_calm
    assert counter(ORDINARY[name], is_once=False).is_calm
    payload_format: Any = compile_plan(contract_with(ORDINARY[name])).payload_format
    assert payload_format.is_bounded
    assert payload_format.is_valid.__self__ is payload_format._validators.plain


def test_a_schema_that_leads_back_to_itself_twice_is_not_counted_to_judge() -> None:
    """Whether a record fits is remembered there, so that only what breaks it is counted."""
    for kind in KINDS:
        assert counter(recursive(kind), is_once=True).is_calm
        assert counter(recursive(kind), is_once=False).is_calm is False


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_once", [True, False])
def test_counting_takes_steps_in_proportion_to_the_record(kind: str, is_once: bool) -> None:
    for make in (recursive, chained):
        counting = counter(make(kind), is_once=is_once)
        many = [orjson.loads(b"[" + b",".join([nested(3, "1")] * size) + b"]") for size in (50, 100, 200)]
        once, twice, four_times = (
            steps_of(lambda record=each, counting=counting: counting._is_above(record)) for each in many
        )
        assert twice <= 2.2 * once
        assert four_times <= 2.2 * twice


@pytest.mark.parametrize("kind", KINDS)
def test_counting_a_deep_record_takes_steps_in_proportion_to_its_depth(kind: str) -> None:
    for make in (recursive, chained):
        for is_once in (True, False):
            counting = counter(make(kind), is_once=is_once)
            counting.exceed({})  # what is found out once
            for depth in (60, 120, 250):
                record = orjson.loads(nested(depth, "1"))
                assert steps_of(lambda: counting.exceed(record)) <= 200 + 100 * depth  # noqa: B023 - called at once


def test_large_values_of_an_enum_count_for_each_item() -> None:
    schema = {"items": {"enum": [{"a": index} for index in range(4_000)]}}
    plan = compile_plan(contract_with(schema))
    assert said(plan, orjson.dumps([{"a": 3_999}] * 400)) == "accepted"
    assert said(plan, orjson.dumps([{"a": 3_999}] * 4_000)) == UNDECIDED.code


def test_numbers_beyond_64_bits_are_counted_too() -> None:
    plan = compile_plan(contract_with(chained("allOf")))
    assert said(plan, nested(40, str(2**70))) == UNDECIDED.code
    assert said(plan, nested(2, f'{{"b":{2**70}}}')) == "accepted"


def test_the_most_looks_at_one_value_are_those_that_are_counted() -> None:
    schema = {"allOf": [{"properties": {"a": {"anyOf": [{"type": "object"}] * 3}}}] * 2}
    counting = counter(schema, is_once=False)
    # Root and two parts; below it, twice a schema with three alternatives.
    assert counting._most == [3, 8]
    assert CALM > 8


LISTS: dict[str, Any] = {"properties": {"l": {"type": "array"}}}


def nested_macros(count: int) -> str:
    """Return an expression that goes through a list within a list as often as given."""
    names = [f"x{index}" for index in range(count)]
    return "".join(f"this.l.all({name}, " for name in names) + " + ".join(names) + " >= 0" + ")" * count


@pytest.mark.parametrize(("macros", "most"), [(1, 9_999), (2, 99), (3, 21), (4, 9)])
def test_macros_take_a_bounded_number_of_iterations(macros: int, most: int) -> None:
    plan = compile_plan(contract_with(LISTS, {"kind": "cel", "expr": nested_macros(macros)}))
    assert said(plan, orjson.dumps({"l": [1] * most})) == "accepted"
    for length in (2 * most, 20 * most):
        value = orjson.dumps({"l": [1] * length})
        assert said(plan, value) == "rule-0"
        (violation,) = plan.explain(value).violations
        expected = f"takes more than {MAX_ITERATIONS:,} iterations to evaluate the expression of the rule"
        assert violation.message == expected


def test_rules_within_their_iterations_hold_next_to_one_beyond_them() -> None:
    rules = [{"kind": "cel", "expr": nested_macros(count)} for count in (1, 2)]
    plan = compile_plan(contract_with(LISTS, *rules))
    verdict = plan.explain(orjson.dumps({"l": [1] * 200}))
    assert [each.code for each in verdict.violations] == ["rule-1"]


def test_reading_a_recursive_avro_record_takes_steps_in_proportion_to_its_bytes() -> None:
    fields = [{"name": name, "type": ["null", "string", "R"]} for name in ("a", "b")]
    schema = {"type": "avro", "definition": {"type": "record", "name": "R", "fields": fields}}
    document = contract_with({}).model_dump(mode="json", by_alias=True) | {"schema": schema}
    plan = compile_plan(DataContract.model_validate(document))

    def value(levels: int) -> bytes:
        # In each record, `a` is a record again and `b` is null; the innermost one ends in a branch that does not exist.
        return b"\x04" * levels + b"\x08"

    def steps(levels: int) -> int:
        values = pa.array([value(levels)] * 10, pa.binary())
        return steps_of(lambda: (plan.judge(values), list(plan.explain_each(values))))

    steps(10)
    once, twice, four_times = (steps(levels) for levels in (50, 100, 200))
    assert twice <= 2.2 * once
    assert four_times <= 2.2 * twice
