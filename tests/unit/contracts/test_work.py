"""Walks over documents take steps in proportion to their size: calls of our functions are counted, never seconds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contracts.compatibility.compare import compare
from contracts.document import lint, parse_contract
from contracts.errors import ContractError
from contracts.formats.json_fields import JsonFields
from contracts.formats.json_work import MAX_CHAIN, MAX_LEVELS, TooMuchWorkError, check_work
from contracts.model import DataContract
from contracts.plan import check_compiles, compile_plan
from contracts.privacy.classes import classes_of
from tests.steps import chain, loops, steps_of

Make = Callable[[int], dict[str, Any]]


FAMILIES: dict[str, Make] = {
    "allOf": lambda n: chain(n, lambda ref: {"allOf": [ref, ref]}),
    "anyOf": lambda n: chain(n, lambda ref: {"anyOf": [ref, ref]}),
    "oneOf": lambda n: chain(n, lambda ref: {"oneOf": [ref, ref]}),
    "not": lambda n: chain(n, lambda ref: {"allOf": [{"not": ref}, {"not": ref}]}),
    "if": lambda n: chain(n, lambda ref: {"if": ref, "then": ref, "else": ref}),
    "dependentSchemas": lambda n: chain(n, lambda ref: {"dependentSchemas": {"id": ref, "last": ref}}),
    "unevaluated": lambda n: chain(n, lambda ref: {"anyOf": [ref, ref], "unevaluatedProperties": False}),
    "one chain": lambda n: chain(n, lambda ref: {"allOf": [ref]}),
    "two members": lambda n: chain(n, lambda ref: {"properties": {"a": ref, "b": ref}}),
    "one member twice": lambda n: chain(n, lambda ref: {"allOf": [{"properties": {"a": ref}}] * 2}),
    "items": lambda n: chain(n, lambda ref: {"properties": {"a": {"prefixItems": [ref], "items": ref}}}),
    "maps": lambda n: chain(n, lambda ref: {"additionalProperties": ref, "patternProperties": {"a": ref}}),
    "wide": lambda n: {"properties": {f"p{index}": {"type": "string"} for index in range(10 * n)}},
    "long enum": lambda n: {"properties": {"a": {"enum": [f"v{index}" for index in range(100 * n)]}}},
}
"""Each takes a number that its size grows with in proportion."""


def contract_of(definition: dict[str, Any], **changes: Any) -> DataContract:
    return parse_contract(text_of(definition, **changes), name="c.json", read_schema=None).contract


def text_of(definition: dict[str, Any], **changes: Any) -> str:
    document = {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": "a.b",
        "version": "1.0.0",
        "topic": "a.b",
        "schema": {"type": "json-schema", "definition": definition},
        "columns": [{"name": "id", "from": "/id", "type": "json"}],
    }
    return json.dumps(document | changes)


def _compared(schema: dict[str, Any]) -> object:
    later = contract_of({**schema, "maxProperties": 100}, version="1.1.0")
    return compare(contract_of(schema), later)


WALKS: dict[str, Callable[[dict[str, Any]], object]] = {
    "parse": lambda schema: parse_contract(text_of(schema), name="c.json", read_schema=None),
    "compile": lambda schema: check_compiles(contract_of(schema)),
    "find": lambda schema: JsonFields(schema).find("/a/a/a/a"),
    "top level": lambda schema: JsonFields(schema).top_level(),
    "count": check_work,
}
"""Walks that are linear in the document."""
BOUNDED: dict[str, Callable[[dict[str, Any]], object]] = {
    "pointers": lambda schema: JsonFields(schema).pointers(),
    "classes": lambda schema: classes_of(contract_of(schema)),
    "plan": lambda schema: compile_plan(contract_of(schema)),
    "compare": _compared,
}
"""Walks with a bound of their own below what `steps_of` allows: 2,000 pointers, 5,000 places, 20,000 inlined schemas, 50,000 steps of proof."""


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("walk", WALKS)
def test_twice_the_document_takes_at_most_twice_the_steps(walk: str, family: str) -> None:
    work, make = WALKS[walk], FAMILIES[family]
    steps_of(lambda: work(make(20)))  # what is made once in a process
    once, twice, four_times = (steps_of(lambda n=n: work(make(n))) for n in (20, 40, 80))
    # A tenth more for what is done once, such as the keys of a contract.
    assert twice <= 2.2 * once
    assert four_times <= 2.2 * twice


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("walk", BOUNDED)
def test_a_walk_that_searches_ends_within_its_budget(walk: str, family: str) -> None:
    for size in (10, 20, 40):
        steps_of(lambda n=size: BOUNDED[walk](FAMILIES[family](n)))


@pytest.mark.parametrize(
    "family", ["allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas", "unevaluated"]
)
def test_a_schema_of_two_to_the_power_of_forty_looks_is_a_named_mistake(family: str) -> None:
    with pytest.raises(ContractError) as caught:
        compile_plan(contract_of(FAMILIES[family](40)))
    (problem,) = caught.value.problems
    assert problem.pointer.startswith("/schema/definition")
    assert "a value is looked at more than 10," in problem.message


def test_references_that_all_lead_to_each_other_are_counted_way_by_way() -> None:
    check_work(loops(4))
    with pytest.raises(TooMuchWorkError):
        check_work(loops(12))


def test_ordinary_repetition_is_no_mistake() -> None:
    compile_plan(contract_of(chain(8, lambda ref: {"allOf": [ref, ref]})))
    check_work({"anyOf": [{"const": index} for index in range(50_000)]})


@pytest.mark.parametrize(
    ("body", "count", "message"),
    [
        (lambda ref: {"allOf": [ref]}, MAX_LEVELS, "nested on one value"),
        (lambda ref: {"properties": {"a": ref}}, MAX_CHAIN, "make a chain"),
    ],
)
def test_a_chain_that_would_exhaust_the_stack_is_a_named_mistake(
    body: Callable[[Any], dict[str, Any]], count: int, message: str
) -> None:
    with pytest.raises(TooMuchWorkError, match=message):
        check_work(chain(count, body))


def test_a_pointer_as_long_as_any_is_no_recursion_error() -> None:
    schema = {"properties": {"a": {"$ref": "#"}}}
    with pytest.raises(ContractError, match="through more than"):
        JsonFields(schema).find("/a" * 10_000)


def test_looking_up_many_fields_in_many_alternatives_ends_with_a_named_mistake() -> None:
    branches = [{"properties": {f"p{index}": {"type": "string"}}} for index in range(2_000)]
    contract = contract_of({"anyOf": branches}, columns=[])
    with pytest.raises(ContractError, match="looking its fields up"):
        check_compiles(contract)


def test_an_avro_record_that_holds_itself_in_thirty_fields_is_listed_up_to_a_bound() -> None:
    fields = [{"name": f"f{index}", "type": ["null", "R"]} for index in range(30)]
    format_ = {"type": "avro", "definition": {"type": "record", "name": "R", "fields": fields}}
    contract = contract_of({}, schema=format_, columns=[])
    assert steps_of(lambda: compile_plan(contract), 500_000) > 0
    found = compile_plan(contract).payload_format.fields
    assert len(found.pointers()) == 20_000
    assert found.names() == {f"f{index}" for index in range(30)}


@pytest.fixture
def worst(tmp_path: Path) -> Path:
    path = tmp_path / "worst.tidegate.json"
    path.write_text(text_of(FAMILIES["anyOf"](40)))
    return path


def test_lint_says_where_the_work_is(worst: Path) -> None:
    with pytest.raises(ContractError) as caught:
        lint(worst)
    (problem,) = caught.value.problems
    assert problem.line is not None
