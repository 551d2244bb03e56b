"""Walks over documents take steps in proportion to their size: calls of our functions are counted, never seconds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.steps import chain, loops, steps_of
from tidegate.contracts.compatibility.compare import compare
from tidegate.contracts.compatibility.expressions import MAX_STEPS, refuses_as_much
from tidegate.contracts.compatibility.separation import MAX_PREPARATION, Search
from tidegate.contracts.compatibility.witness_search import ContractPair, Judge
from tidegate.contracts.compiled import check_compiles
from tidegate.contracts.document import terms
from tidegate.contracts.document.load import parse_contract
from tidegate.contracts.document.model import DataContract, JsonSchema
from tidegate.contracts.document.rule_model import Cel
from tidegate.contracts.errors import ContractError, Problem
from tidegate.contracts.explain.account import Explainer
from tidegate.contracts.formats.json_fields import JsonFields
from tidegate.contracts.formats.json_schema import JsonSchemaFormat
from tidegate.contracts.formats.json_steps import MAX_STEPS as MAX_RECORD_STEPS
from tidegate.contracts.formats.json_steps import StepCounter
from tidegate.contracts.formats.json_work import MAX_CHAIN, MAX_LEVELS, TooMuchWorkError, check_work
from tidegate.contracts.inclusion.json_schema.prover import Budget
from tidegate.contracts.judge.plan import compile_plan
from tidegate.contracts.lint.lint import lint
from tidegate.contracts.privacy.classes import classes_of
from tidegate.contracts.rules import values
from tidegate.contracts.rules.cel import _moment, moment_of

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
DOUBLING = ("allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas", "unevaluated")
"""Families that are refused, because one value would be looked at 2^n times."""


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


def _told(schema: dict[str, Any]) -> object:
    """Explain what records break, to readers who see classified fields masked."""
    plan = compile_plan(contract_of({**schema, "maxProperties": 1, "type": "object"}))
    values = [b'{"id": "x", "tagged": 1, "a": {"a": {"a": 1}}, "last": 2}', b"[]", b"{", None]
    explainer = Explainer.of(plan)
    return [
        explainer.explain(value, verdict.violations) for value in values for verdict in (plan.explain(value),)
    ]


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
    "explain": _told,
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


def _bounded(schema: dict[str, Any]) -> object:
    graph = check_work(schema)
    assert graph is not None
    counters = [StepCounter(graph, is_once=is_once, limit=MAX_RECORD_STEPS) for is_once in (True, False)]
    return [each.exceed({"a": {"a": [{"a": 2**70}]}}) for each in counters]


@pytest.mark.parametrize("family", FAMILIES)
def test_bounding_the_looks_at_a_record_takes_steps_in_proportion_to_the_schema(family: str) -> None:
    """Each definition is visited until a bound is exceeded, which takes up to 25 levels: so shorter ones take less."""
    steps_of(lambda: _bounded({}))
    if family in DOUBLING:
        with pytest.raises(TooMuchWorkError):
            _bounded(FAMILIES[family](50))
        return
    once, twice, four_times = (steps_of(lambda n=n: _bounded(FAMILIES[family](n))) for n in (45, 90, 180))
    assert twice <= 2.2 * once
    assert four_times <= 2.2 * twice


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("walk", BOUNDED)
def test_a_walk_that_searches_ends_within_its_budget(walk: str, family: str) -> None:
    for size in (10, 20, 40):
        steps_of(lambda n=size: BOUNDED[walk](FAMILIES[family](n)))


@pytest.mark.parametrize("family", DOUBLING)
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


@pytest.mark.full
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


def cel(*expressions: str, **changes: Any) -> DataContract:
    """Return a contract whose rules are these expressions over a hundred integers."""
    fields = {f"f{index}": {"type": "integer"} for index in range(100)}
    rules = [
        {"id": f"r{index}", "kind": "cel", "expr": each, "severity": "error"}
        for index, each in enumerate(expressions)
    ]
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, **fields}}
    return contract_of(schema, rules=rules, **changes)


@pytest.mark.full
@pytest.mark.parametrize(
    "expression",
    [
        lambda n: " && ".join(f"this.f{index} > {index}" for index in range(n)),
        lambda n: " || ".join(f"this.f{index} > {index}" for index in range(n)),
        lambda n: " && ".join(
            f"(this.f{index} > {index} || this.f{index + 1} < 3)" for index in range(n // 2)
        ),
        lambda n: " && ".join(f"this.id != {index}" for index in range(n)),
    ],
    ids=["and", "or", "and of or", "one field"],
)
def test_comparing_long_expressions_ends_within_a_budget(expression: Callable[[int], str]) -> None:
    for size in (16, 32, 64, 96):
        base, candidate = (
            cel(expression(size) + more, version=version)
            for more, version in (("", "1.0.0"), (" && this.id > 0", "1.1.0"))
        )
        assert steps_of(lambda old=base, new=candidate: compare(old, new), 1_200_000) > 0


@pytest.mark.full
def test_many_long_rules_share_one_budget_of_questions() -> None:
    def long(more: int) -> list[Cel]:
        texts = [" && ".join(f"this.id > {each + rule + more}" for each in range(64)) for rule in range(20)]
        return [rule for rule in cel(*texts).rules if isinstance(rule, Cel)]

    old, new, budget = long(1), long(0), Budget(MAX_STEPS)
    proven: list[bool] = []
    steps = steps_of(
        lambda: proven.extend(refuses_as_much(rule, old, lambda _: None, budget) for rule in new)
    )
    assert steps < 10 * MAX_STEPS
    assert budget.left < 0
    assert len(proven) == len(new)
    assert not proven[-1]


def objects(count: int, limit: int) -> DataContract:
    """Return rules about members of different objects, beside one that no record keeps."""
    members = {
        f"o{each}": {"type": "object", "properties": {"f": {"type": "integer"}}} for each in range(count)
    }
    properties = {"id": {"type": "integer"}, "s": {"type": "integer"}, **members}
    schema = {"type": "object", "properties": properties, "required": ["s"]}
    never = {"id": "never", "kind": "cel", "expr": "this.s != this.s", "strict": True}
    ranges = [
        {"id": f"r{each}", "kind": "range", "field": f"/o{each}/f", "maximum": limit + each}
        for each in range(count)
    ]
    return contract_of(schema, rules=[never, *ranges], version=f"1.{limit}.0")


def lists(count: int, limit: int) -> DataContract:
    """Return rules that forbid a hundred values of one field each."""
    rules = [
        {
            "id": f"r{each}",
            "kind": "forbidden",
            "field": "/id",
            "values": [f"{each}-{limit}-{index}" for index in range(100)],
        }
        for each in range(count)
    ]
    schema = {"type": "object", "properties": {"id": {"type": "string"}}}
    return contract_of(schema, rules=rules, version=f"1.{limit}.0")


@pytest.mark.parametrize(("make", "size"), [(objects, 32), (lists, 16)])
def test_preparing_records_that_separate_rules_takes_a_bounded_number_of_steps(
    make: Callable[[int, int], DataContract], size: int
) -> None:
    """Values are collected and seeds are repaired within a budget, and what is left is undetermined."""
    base, candidate = make(size, 10), make(size, 5)
    search = Search(ContractPair(Judge(base), Judge(candidate)))
    refusals = [search.refusal(rule, []) for rule in candidate.rules]
    assert len(refusals) == len(candidate.rules)
    spent = MAX_PREPARATION - search._budget.left
    assert 0 < spent < MAX_PREPARATION
    search._budget.left = 10
    last = candidate.rules[-1].model_copy(update={"field": "/s"})
    assert steps_of(lambda: search.refusal(last, base.rules), 2_000) > 0
    assert search.refusal(last, base.rules) is None


@pytest.mark.full
def test_comparing_many_rules_takes_a_bounded_number_of_steps() -> None:
    for size in (16, 64, 128):
        base, candidate = objects(size, 10), objects(size, 5)
        assert steps_of(lambda old=base, new=candidate: compare(old, new), 2_000_000) > 0


@pytest.mark.parametrize("size", [20, 33, 1_000, 20_000])
@pytest.mark.parametrize(
    "expression",
    [
        lambda n: "(" * n + "this.id > 1" + ")" * n,
        lambda n: "this.id > 1 ? true : " * n + "true",
        lambda n: "+".join(["this.id"] * n) + " > 3",
        lambda n: "this.id" + "[0]" * n + " > 1",
        lambda n: "!" * n + "(this.id > 1)",
        lambda n: "[1].all(x, " * n + "this.id > 1" + ")" * n,
        lambda n: "this.id > 1e" + "9" * n,
        lambda n: "this.id > " + "9" * n,
        lambda n: "this.id > " + "0" * n,
    ],
    ids=["parentheses", "conditions", "sums", "items", "not", "all", "exponent", "digits", "zeros"],
)
def test_deep_or_large_expressions_compare_or_are_a_named_mistake(
    expression: Callable[[int], str], size: int
) -> None:
    """No depth and no number ends in an error of Python: what compiles is compared, too."""
    text = expression(size)
    base, candidate = (
        cel(text + more, version=version) for more, version in (("", "1.0.0"), (" && true", "1.1.0"))
    )
    mistakes: list[Problem] = []
    try:
        compile_plan(base)
    except ContractError as error:
        mistakes.extend(error.problems)
    else:
        compare(base, candidate)
    assert {each.pointer for each in mistakes} <= {"/rules/0/expr"}


NESTED = {
    ".json": lambda n: '{"schema": ' + "[" * n + "]" * n + "}",
    ".yaml": lambda n: "schema: " + "[" * n + "]" * n,
    "block.yaml": lambda n: "".join(f"{' ' * level}a:\n" for level in range(n)),
}


@pytest.mark.parametrize("name", NESTED)
def test_a_document_nested_too_deep_says_where(name: str) -> None:
    sizes = (200, 400, 700) if name == "block.yaml" else (1_000, 10_000, 100_000)
    for size in sizes:
        with pytest.raises(ContractError, match="nested deeper than 100 levels") as caught:
            parse_contract(NESTED[name](size), name=f"c{name}", read_schema=None)
        assert caught.value.problems[0].line is not None


def test_aliases_are_followed_up_to_a_bound() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{each}: &a{each} [{', '.join([f'*a{each - 1}'] * 10)}]" for each in range(1, 40)]
    for count in (10, 20, 40):
        text = "\n".join(lines[:count])
        with pytest.raises(ContractError, match="has more than 200,000 values") as caught:
            parse_contract(text, name="c.yaml", read_schema=None)
        assert caught.value.problems[0].line is not None
        assert (
            steps_of(lambda text=text: parse_contract(text, name="c.yaml", read_schema=None), 1_000_000) > 0
        )


@pytest.mark.parametrize("name", ["c.json", "c.yaml"])
@pytest.mark.parametrize("number", ["9" * 100_000, "-" + "9" * 4_301, "1e999999999", "1e-999999999"])
def test_a_number_that_nothing_holds_is_a_named_mistake(name: str, number: str) -> None:
    with pytest.raises(ContractError, match="cannot be kept exactly") as caught:
        parse_contract(f'{{"schema": {number}}}', name=name, read_schema=None)
    assert (caught.value.problems[0].line, caught.value.problems[0].column) == (1, 12)


def test_a_default_beyond_a_double_is_a_named_mistake_of_an_avro_schema() -> None:
    field = {"name": "a", "type": "double", "default": 10**400}
    avro = {"type": "avro", "definition": {"type": "record", "name": "R", "fields": [field]}}
    with pytest.raises(ContractError, match="too large for a double"):
        compile_plan(contract_of({}, schema=avro, columns=[]))


@pytest.mark.parametrize(
    "schema",
    [
        {"items": [{"type": "string"}]},  # an array of schemas until 2019-09
        {"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"p": False}},
        {"$defs": {"a": 5}, "$ref": "#/$defs/a"},
    ],
)
def test_what_is_no_schema_in_its_draft_is_left_to_the_validator(schema: dict[str, Any]) -> None:
    check_work(schema)
    with pytest.raises(ContractError, match="not a JSON Schema"):
        JsonSchemaFormat(JsonSchema(type="json-schema", definition=schema))


@pytest.mark.parametrize(
    ("read", "kept"),
    [(values.read_duration, values._usual_duration), (moment_of, _moment)],
    ids=["duration", "timestamp"],
)
def test_long_texts_are_not_kept(read: Callable[[str], object], kept: Any) -> None:
    """A producer of texts of a megabyte would fill the memory of every worker."""
    before = kept.cache_info()
    read(f"PT{'1' * 100_000}S")
    read(f"2026-01-01T00:00:00.{'1' * 100_000}Z")
    assert kept.cache_info() == before


def test_the_schemas_of_two_contracts_are_compared_a_few_times_however_many_rules_they_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"f{index}" for index in range(50)]
    definition = {"type": "object", "properties": {name: {"type": "integer"} for name in names}}
    rules = [{"id": name, "kind": "forbidden", "field": f"/{name}", "values": [999]} for name in names]
    base, candidate = (
        contract_of(definition, rules=rules, version=version) for version in ("1.0.0", "1.1.0")
    )
    assert isinstance(base.schema_, JsonSchema)
    compared: list[object] = []
    equal_json = terms.equal_json
    monkeypatch.setattr(
        terms, "equal_json", lambda one, other: compared.append(one) or equal_json(one, other)
    )
    assert compare(base, candidate).findings == ()
    times = sum(one is base.schema_.definition or one is candidate.schema_.definition for one in compared)
    assert 0 < times < 10
