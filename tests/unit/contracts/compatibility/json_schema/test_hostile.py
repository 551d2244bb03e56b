"""Schemas that are made to hang, to overflow or to be fetched: an answer comes, and within the steps that are given."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.contracts.compatibility.json_schema.schemas import D2020, I, S, Schema, obj
from tidegate.contracts.errors import ContractError
from tidegate.contracts.inclusion.answer import Inclusion, Outcome
from tidegate.contracts.inclusion.json_schema import includes
from tidegate.contracts.inclusion.json_schema.compiler import Compiler
from tidegate.contracts.inclusion.json_schema.containers import THEORIES
from tidegate.contracts.inclusion.json_schema.counterexample import MAX_EFFORT
from tidegate.contracts.inclusion.json_schema.formula import Effort, Work
from tidegate.contracts.inclusion.json_schema.gaps import gaps
from tidegate.contracts.inclusion.json_schema.keywords import HANDLERS
from tidegate.contracts.inclusion.json_schema.nodes import Interner, Side
from tidegate.contracts.inclusion.json_schema.prover import Budget, Prover


def compare(old: Any, new: Any, **options: Any) -> Inclusion:
    return includes(old, new, formats_asserted=True, **options)


def nested(keyword: str, depth: int, leaf: Any) -> Any:
    schema = leaf
    for _ in range(depth):
        if keyword in {"allOf", "anyOf", "oneOf"}:
            schema = {keyword: [schema]}
        else:
            schema = {keyword: {"a": schema} if keyword == "properties" else schema}
    return schema


def doubling(body: Callable[[str], Any], leaf: Any) -> dict[str, Any]:
    """Forty definitions; each names the next one twice."""
    definitions = {f"d{index}": body(f"#/$defs/d{index + 1}") for index in range(40)}
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, "d40": leaf}}


KEYWORDS = ("allOf", "anyOf", "oneOf", "not", "if", "items", "properties", "additionalProperties", "contains")


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_a_nesting_of_10000_levels_is_undecided_at_once(keyword: str) -> None:
    (difference,) = compare(nested(keyword, 10_000, S), nested(keyword, 10_000, I)).differences
    assert difference.outcome is Outcome.UNDETERMINED
    assert difference.code == "schema.undecided"


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_a_nesting_of_90_levels_is_no_recursion_error(keyword: str) -> None:
    answer = compare(nested(keyword, 90, S), nested(keyword, 90, I))
    assert (answer.outcome is Outcome.PROVEN) is (keyword == "if")


def test_references_in_a_row_deeper_than_any_stack_are_undecided() -> None:
    definitions = {f"d{index}": {"items": {"$ref": f"#/$defs/d{index + 1}"}} for index in range(500)}
    schema = {"$ref": "#/$defs/d0", "$defs": {**definitions, "d500": S}}
    (difference,) = compare(schema, {**schema, "minItems": 1}).differences
    assert difference.code == "schema.undecided"


LOOPS: list[Schema] = [
    {"$ref": "#"},
    {"allOf": [{"$ref": "#"}]},
    {"anyOf": [{"$ref": "#"}, S]},
    {"oneOf": [{"$ref": "#"}, S]},
    {"not": {"$ref": "#"}},
    {"if": {"$ref": "#"}, "then": {"$ref": "#"}},
    {"dependentSchemas": {"a": {"$ref": "#"}}},
    {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    {"$dynamicRef": "#/$defs/a", "$defs": {"a": {"$dynamicRef": "#/$defs/a"}}},
    {"properties": {"a": {"$ref": "#"}}, "allOf": [{"$ref": "#/properties/b"}], "$defs": {"properties": {}}}
    | {"properties": {"a": {"$ref": "#"}, "b": {"allOf": [{"$ref": "#"}]}}},
    {"unevaluatedProperties": False, "$ref": "#"},
]


@pytest.mark.parametrize("loop", LOOPS, ids=str)
def test_a_loop_is_never_proven_to_be_within_anything_else(loop: Schema) -> None:
    for other in ({"allOf": [loop, {"minimum": 1}]} | _definitions(loop), {"type": "integer"}, False):
        for old, new in ((loop, other), (other, loop)):
            answer = compare(old, new)
            assert answer.outcome is not Outcome.PROVEN or old is False


def _definitions(schema: Schema) -> dict[str, Any]:
    assert isinstance(schema, dict)
    return {keyword: schema[keyword] for keyword in ("$defs", "properties") if keyword in schema}


@pytest.mark.parametrize(
    "body",
    [
        lambda ref: {"allOf": [{"$ref": ref}, {"$ref": ref}]},
        lambda ref: {"anyOf": [{"$ref": ref}, {"$ref": ref, "minLength": 1}]},
        lambda ref: {"oneOf": [{"$ref": ref}, {"$ref": ref, "minLength": 1}]},
        lambda ref: {"not": {"allOf": [{"$ref": ref}, {"$ref": ref}]}},
        lambda ref: {"items": {"allOf": [{"$ref": ref}, {"$ref": ref}]}},
    ],
)
def test_forty_definitions_that_double_end(body: Callable[[str], Any]) -> None:
    assert compare(doubling(body, S), doubling(body, I)).outcome is Outcome.UNDETERMINED
    assert compare(doubling(body, S), doubling(body, {**S, "title": "a"})).outcome is Outcome.PROVEN


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_two_to_the_power_of_twenty_choices_end(keyword: str) -> None:
    def choices(last: str) -> Any:
        pairs = [(f"a{index}", f"b{index}") for index in range(20)]
        return {
            "allOf": [{keyword: [{"required": [one]}, {"required": [last + other]}]} for one, other in pairs]
        }

    assert compare(choices(""), {"minProperties": 21}).outcome is Outcome.REFUTED
    assert compare(choices(""), {"minProperties": 20}, budget=10_000).outcome is Outcome.UNDETERMINED
    assert compare(choices(""), choices("c"), budget=10_000).outcome is not Outcome.PROVEN


def test_lists_too_long_to_compare_are_undecided() -> None:
    (difference,) = compare({"oneOf": [{"const": index} for index in range(2**17)]}, S).differences
    assert difference.code == "schema.undecided"


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ({"enum": [f"a{i}" for i in range(10_000)]}, {"pattern": "^a[0-9]{1,3}$"}, '"a1000"'),
        (
            {"enum": [{"a": i, "b": [i]} for i in range(10_000)]},
            {"properties": {"a": {"maximum": 9_998}}},
            '{"a":9999,"b":[9999]}',
        ),
    ],
)
def test_the_one_value_of_a_long_list_that_does_not_fit_is_found(old: Any, new: Any, text: str) -> None:
    (difference,) = compare(old, new).differences
    assert difference.counterexample is not None
    assert difference.counterexample.text == text


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_a_thousand_alternatives_are_not_asked_for_one_by_one(
    keyword: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    is_empty = Prover.is_empty

    def counting(prover: Prover, *arguments: Any) -> bool:
        asked.append(arguments)
        return is_empty(prover, *arguments)

    monkeypatch.setattr(Prover, "is_empty", counting)
    old, new = ({keyword: [obj(**{f"p{i}": each}) for i in range(1_000)]} for each in (S, I))
    assert compare(old, new).outcome is not Outcome.PROVEN
    assert len(asked) < 100_000


def test_long_lists_are_compared() -> None:
    whole, part = ({"enum": [*range(20_000)]}, {"enum": [*range(19_999)]})
    assert compare(part, whole).outcome is Outcome.PROVEN
    (difference,) = compare(whole, part).differences
    assert difference.counterexample is not None
    assert difference.counterexample.text == "19999"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"pattern": "^(a|b)*a(a|b){40}$"}, {"pattern": "^(a|b)*b(a|b){40}$"}),
        ({"pattern": "^.{1000}{1000}$"}, {"pattern": "^.{999}$"}),
        ({"pattern": "^(.{0,500}){0,20}$"}, {"pattern": "^x"}),
        ({"minItems": 10**9}, {"minItems": 10**9 + 1}),
        ({"minLength": 10**9}, {"minLength": 10**9 + 1}),
        ({"minProperties": 10**9}, {"minProperties": 10**9 + 1}),
        ({"contains": S, "minContains": 10**9}, {"contains": S, "minContains": 10**9 + 1}),
        ({"prefixItems": [S] * 2_000}, {"prefixItems": [S] * 1_999 + [I]}),
    ],
    ids=str,
)
def test_large_limits_end(old: Any, new: Any) -> None:
    assert compare(old, new).outcome is not Outcome.PROVEN


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"maximum": 1e300}, {"maximum": 1e299}),
        ({"maximum": 10**4000}, {"maximum": 10**3999}),
        ({"multipleOf": 1e-300}, {"multipleOf": 1e-299}),
    ],
)
def test_large_numbers_are_compared_exactly(old: Any, new: Any) -> None:
    assert compare(old, new).outcome is Outcome.REFUTED


def test_a_hostile_part_leaves_steps_for_the_others() -> None:
    hard = {"allOf": [{"anyOf": [{"required": [f"a{i}"]}, {"required": [f"b{i}"]}]} for i in range(20)]}
    old = obj(hard=hard, age={"maximum": 150})
    new = obj(hard={"minProperties": 20}, age={"maximum": 120})
    found = {each.field: each.outcome for each in compare(old, new, budget=10_000).differences}
    assert found == {"/hard": Outcome.UNDETERMINED, "/age": Outcome.REFUTED}


def test_documents_for_hundreds_of_differences_are_judged_within_the_given_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every level of this schema, which holds itself in four ways, has the same differences again."""
    own = {"minItems": 1, "items": {"required": ["a"]}, "anyOf": [{"maximum": 3}]}
    inner = {"allOf": [{"properties": {"a": {}, "b": {"maximum": 3}}}, {"propertyNames": {"$ref": "#"}}, own]}
    patterns = {"a": inner, "^[ab]*$": {"contains": {"maxLength": 1}, "minContains": 2, "$ref": "#"}}
    old = {"properties": {"b": {}, "x": {"maxLength": 1}, "c": {"$ref": "#"}}, "patternProperties": patterns}
    lists = {"prefixItems": [{"minimum": 10}, {"const": True}, {"uniqueItems": True}], "items": own}
    properties = {"b": {"$ref": "#"}, "x": {"maxLength": 1}, "c": {"$ref": "#", **lists}}
    counted = []
    effort = Work.effort

    def counting(work: Work, document: Any) -> Effort:
        found = effort(work, document)
        counted.append(found.counted)
        return found

    monkeypatch.setattr(Work, "effort", counting)
    answer = compare(old, {"properties": properties, "patternProperties": patterns, "type": "object"})
    assert answer.outcome is Outcome.REFUTED
    assert len(answer.differences) > 20
    assert sum(counted) <= MAX_EFFORT // 10 + max(counted)


def test_without_steps_nothing_is_decided() -> None:
    answer = compare(obj(a=I), obj(a={"type": "number"}), budget=0)
    assert answer.outcome is Outcome.UNDETERMINED
    assert "within the given steps" in answer.differences[0].sentence


def steps_for(fields: int, limit: float) -> int:
    """Count the steps of a proof over that many fields."""
    interner = Interner()
    kinds = (
        S,
        {"type": "number", "minimum": limit},
        obj(["x"], x=I),
        {"anyOf": [{"type": "null"}, obj(y=S)]},
    )
    schema = obj([f"f{index}" for index in range(0, fields, 3)], closed=True)
    schema["properties"] = {f"f{index}": kinds[index % 4] for index in range(fields)}
    wider = {**schema, "properties": {**schema["properties"], "f1": {"type": "number"}, "more": S}}
    budget = Budget(10**9)
    prover = Prover(interner, budget, THEORIES)
    old, new = (
        Compiler(side, each, interner, HANDLERS, formats_asserted=True).compile()
        for side, each in ((Side.ONE, schema), (Side.OTHER, wider))
    )
    assert gaps(prover, old, new) == []
    return 10**9 - budget.left


def test_the_steps_of_a_proof_grow_with_the_fields_and_not_with_their_square() -> None:
    assert steps_for(1_200, 0.5) < 5 * steps_for(300, 0.5) < 5 * 40 * 300


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        pytest.fail("a connection was opened")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    with pytest.raises(ContractError, match="none is ever fetched"):
        compare({"$ref": "https://example.org/schema.json"}, S)
    with pytest.raises(ContractError, match="none is ever fetched"):
        compare(S, obj(a={"$ref": "file:///etc/passwd"}))
    answer = compare({"$ref": D2020}, {"$ref": D2020, "minProperties": 1})
    assert answer.outcome is Outcome.REFUTED


def test_a_schema_that_the_judge_does_not_compile_is_the_authors_mistake() -> None:
    with pytest.raises(ContractError, match="not a JSON Schema"):
        compare({"type": "text"}, S)
